/* log.c: see log.h. Handler, file, names and thresholds are process-wide, and any thread may set them at any time:
 * lines of others are whole, and go to the one before or the one behind. */
#include "runtime/base/log.h"

#include <errno.h>
#include <pthread.h>
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

_Atomic uint8_t log_threshold[LOG_TOPIC_COUNT] = {
#define X(name) LOG_##name == LOG_print ? LOG_INFO : LOG_WARNING,
    LOG_TOPICS(X)
#undef X
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below but what is atomic */
static _Atomic bool has_file;
static FILE *log_file; /* NULL: stderr */
static bool file_full; /* it took no more: what follows goes to stderr */

static void lock_all(void) { pthread_mutex_lock(&lock); }
static void unlock_all(void) { pthread_mutex_unlock(&lock); }
static void watch_forks(void) { pthread_atfork(lock_all, unlock_all, unlock_all); }

/* Before the first line that takes the lock: a child of a fork finds it free. */
static void survive_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

static bool write_line(FILE *to, int level, const char *topic, const char *line) {
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    return fprintf(to, "sinter %s: %s: %s\n", levels[level], topic, line) >= 0 &&
           (to == stderr || !fflush(to)); /* a program that crashes leaves what it said */
}

/* Under the lock. */
static bool file_takes(int level, const char *topic, const char *line) {
    if (!log_file || file_full) return false;
    if (write_line(log_file, level, topic, line)) return true;
    fprintf(stderr, "sinter warning: general: the log file cannot be written: %s: from here on stderr\n",
            strerror(errno));
    file_full = true;
    return false;
}

static void to_file(void *context, int level, const char *topic, const char *line) {
    (void)context;
    if (!atomic_load(&has_file)) return (void)write_line(stderr, level, topic, line);
    pthread_mutex_lock(&lock);
    const bool is_written = file_takes(level, topic, line);
    pthread_mutex_unlock(&lock);
    if (!is_written) write_line(stderr, level, topic, line);
}

Status log_file_set(const char *path) {
    FILE *const opened = *path ? fopen(path, "a") : NULL;
    if (*path && !opened) return error_raise(ST_IO, "log file '%s' cannot be written: %s", path, strerror(errno));
    survive_forks();
    pthread_mutex_lock(&lock);
    FILE *const before = log_file;
    log_file = opened;
    file_full = false;
    atomic_store(&has_file, opened != NULL);
    pthread_mutex_unlock(&lock);
    if (before) fclose(before);
    return ST_OK;
}

/* A pair that is read without a lock: what was read while its number stayed even and the same is of one time. */
static _Atomic uint32_t handler_number;
static _Atomic(LogHandler *) handler_takes = to_file;
static void *_Atomic handler_context;

void log_handler_set(LogHandler *handler, void *context) {
    survive_forks();
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&handler_number, 1);
    atomic_store(&handler_takes, handler ? handler : to_file);
    atomic_store(&handler_context, context);
    atomic_fetch_add(&handler_number, 1);
    pthread_mutex_unlock(&lock);
}

static LogHandler *current_handler(void **context) {
    uint32_t number;
    LogHandler *takes;
    do {
        number = atomic_load(&handler_number);
        takes = atomic_load(&handler_takes);
        *context = atomic_load(&handler_context);
    } while (number % 2 || number != atomic_load(&handler_number));
    return takes;
}

/* Functions -------------------------------------------------------------------------------------- */

_Atomic bool log_functions_chosen;
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
    survive_forks();
    pthread_mutex_lock(&lock);
    char *const before = chosen;
    chosen = list.at;
    atomic_store(&log_functions_chosen, *names != '\0');
    pthread_mutex_unlock(&lock);
    mem_free(before);
    return ST_OK;
}

/* Under the lock. */
static bool is_listed(const char *name) {
    const size_t n = name ? strlen(name) : 0;
    for (const char *at = chosen; n && (at = strstr(at, name)); at++)
        if (at[-1] == ',' && at[n] == ',') return true;
    return false;
}

static bool is_chosen(const char *name) {
    pthread_mutex_lock(&lock);
    const bool is_there = is_listed(name);
    pthread_mutex_unlock(&lock);
    return is_there;
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
    if (is_hidden(topic, level)) return;
    void *context;
    LogHandler *const takes = current_handler(&context);
    takes(context, (int)level, topic_names[topic], text);
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
    for (int i = 0; i < LOG_TOPIC_COUNT; i++) thresholds[i] = atomic_load(&log_threshold[i]);
    for (const char *p = topics; *p;) {
        const char *const end = p + strcspn(p, ",");
        const char sign = *p == '+' || *p == '-' ? *p++ : ' ';
        if (end > p || sign != ' ') TRY(set_topic(thresholds, sign, p, (size_t)(end - p)));
        p = *end ? end + 1 : end;
    }
    for (int i = 0; i < LOG_TOPIC_COUNT; i++) atomic_store(&log_threshold[i], thresholds[i]);
    return ST_OK;
}
