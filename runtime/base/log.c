/* log.c: see log.h. Handler and thresholds are process-wide; they are set before threads start or rarely. */
#include "runtime/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/escape.h"
#include "runtime/base/near.h"
#include "runtime/base/text.h"

static const char *const topic_names[] = {
#define X(name) #name,
    LOG_TOPICS(X)
#undef X
};

uint8_t log_threshold[LOG_TOPIC_COUNT] = {
#define X(name) LOG_##name == LOG_print ? LOG_INFO : LOG_WARNING,
    LOG_TOPICS(X)
#undef X
};

static FILE *log_file;         /* NULL: stderr */
static _Atomic bool file_full; /* it took no more: what follows goes to stderr */

static bool write_line(FILE *to, int level, const char *topic, const char *line) {
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    return fprintf(to, "sinter %s: %s: %s\n", levels[level], topic, line) >= 0 &&
           (to == stderr || !fflush(to)); /* a program that crashes leaves what it said */
}

static void to_file(void *context, int level, const char *topic, const char *line) {
    (void)context;
    if (log_file && !atomic_load(&file_full)) {
        if (write_line(log_file, level, topic, line)) return;
        const int why = errno;
        if (!atomic_exchange(&file_full, true))
            fprintf(stderr, "sinter warning: general: the log file cannot be written: %s: from here on stderr\n",
                    strerror(why));
    }
    write_line(stderr, level, topic, line);
}

Status log_file_set(const char *path) {
    FILE *const opened = *path ? fopen(path, "a") : NULL;
    if (*path && !opened) return error_raise(ST_IO, "log file '%s' cannot be written: %s", path, strerror(errno));
    if (log_file) fclose(log_file);
    log_file = opened;
    atomic_store(&file_full, false);
    return ST_OK;
}

static LogHandler *current = to_file;
static void *current_context;

void log_handler_set(LogHandler *handler, void *context) {
    current = handler ? handler : to_file;
    current_context = context;
}

/* Functions -------------------------------------------------------------------------------------- */

bool log_functions_chosen;
static char *chosen; /* ",f,g," */
static _Thread_local const char *at_work;

const char *log_function(void) { return at_work; }

const char *log_function_swap(const char *name) {
    const char *const before = at_work;
    at_work = name;
    return before;
}

Status log_functions_set(const char *names) {
    Text list = {0};
    text_printf(&list, ",%s,", names);
    if (!list.at) return error_pending();
    log_functions_chosen = *names != '\0';
    mem_free(chosen);
    chosen = list.at;
    return ST_OK;
}

static bool is_chosen(const char *name) {
    const size_t n = name ? strlen(name) : 0;
    for (const char *at = chosen; n && (at = strstr(at, name)); at++)
        if (at[-1] == ',' && at[n] == ',') return true;
    return false;
}

static bool is_hidden(LogTopic topic, LogLevel level) {
    return UNLIKELY(log_functions_chosen) && level < LOG_WARNING && topic != LOG_print && !is_chosen(at_work);
}

/* Lines ------------------------------------------------------------------------------------------ */

void log_line(LogTopic topic, LogLevel level, const char *format, ...) {
    char said[2048], line[sizeof said];
    if (is_hidden(topic, level)) return;
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    escape_text(line, sizeof line, said, "");
    log_whole(topic, level, line);
}

void log_whole(LogTopic topic, LogLevel level, const char *text) {
    if (!is_hidden(topic, level)) current(current_context, (int)level, topic_names[topic], text);
}

/* Topics ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *topics;
} groups[] = {
#define X(name, topics) {#name, topics},
    LOG_GROUPS(X)
#undef X
};

static int find_topic(const char *name, size_t n) {
    for (int i = 0; i < LOG_TOPIC_COUNT; i++)
        if (strlen(topic_names[i]) == n && !memcmp(topic_names[i], name, n)) return i;
    return -1;
}

static const char *find_group(const char *name, size_t n) {
    for (int i = 0; i < COUNT_OF(groups); i++)
        if (strlen(groups[i].name) == n && !memcmp(groups[i].name, name, n)) return groups[i].topics;
    return NULL;
}

static Status unknown_topic(const char *name, size_t n) {
    char given[NEAR_NAME], guess[NEAR_NAME + 24] = "";
    Text list = {0};
    snprintf(given, sizeof given, "%.*s", (int)n, name);
    NearName near = near_begin(given);
    for (int i = 0; i < LOG_TOPIC_COUNT; i++) {
        text_printf(&list, "%s, ", topic_names[i]);
        near_offer(&near, topic_names[i]);
    }
    for (int i = 0; i < COUNT_OF(groups); i++) {
        text_printf(&list, "%s, ", groups[i].name);
        near_offer(&near, groups[i].name);
    }
    if (near.best[0]) snprintf(guess, sizeof guess, "; did you mean '%s'?", near.best);
    const Status status =
        error_raise(ST_ARGUMENT, "log topic '%s' is unknown%s; topics: %sall", given, guess, text_str(&list));
    text_free(&list);
    return status;
}

static LogLevel level_of(char sign) { return sign == '+' ? LOG_DEBUG : sign == '-' ? LOG_ERROR : LOG_INFO; }

static void set_all(uint8_t *thresholds, LogLevel level) {
    for (int i = 0; i < LOG_TOPIC_COUNT; i++)
        if (i != LOG_print) thresholds[i] = level;
}

static Status set_topic(uint8_t *thresholds, char sign, const char *name, size_t n) {
    const int topic = find_topic(name, n);
    const char *group = find_group(name, n);
    if (topic >= 0)
        thresholds[topic] = level_of(sign);
    else if (n == 3 && !memcmp(name, "all", n))
        set_all(thresholds, level_of(sign));
    else if (!group)
        return unknown_topic(name, n);
    for (; group && *group; group += group[n] ? n + 1 : n) {
        n = strcspn(group, ",");
        TRY(set_topic(thresholds, sign, group, n));
    }
    return ST_OK;
}

Status log_topics_set(const char *topics) {
    uint8_t thresholds[LOG_TOPIC_COUNT]; /* those in force stay if one topic is wrong */
    memcpy(thresholds, log_threshold, sizeof thresholds);
    for (const char *p = topics; *p;) {
        const char *const end = p + strcspn(p, ",");
        const char sign = *p == '+' || *p == '-' ? *p++ : ' ';
        if (end > p || sign != ' ') TRY(set_topic(thresholds, sign, p, (size_t)(end - p)));
        p = *end ? end + 1 : end;
    }
    memcpy(log_threshold, thresholds, sizeof thresholds);
    return ST_OK;
}
