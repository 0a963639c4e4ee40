/* log.c: see log.h. Handler and thresholds are process-wide; they are set before threads start or rarely. */
#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/error.h"
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

static void to_stderr(void *context, int level, const char *topic, const char *line) {
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    (void)context;
    fprintf(stderr, "sinter %s: %s: %s\n", levels[level], topic, line);
}

static LogHandler *current = to_stderr;
static void *current_context;

void log_handler_set(LogHandler *handler, void *context) {
    current = handler ? handler : to_stderr;
    current_context = context;
}

void log_line(LogTopic topic, LogLevel level, const char *format, ...) {
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log_whole(topic, level, line);
}

void log_whole(LogTopic topic, LogLevel level, const char *text) {
    current(current_context, (int)level, topic_names[topic], text);
}

static int find_topic(const char *name, size_t n) {
    for (int i = 0; i < LOG_TOPIC_COUNT; i++)
        if (strlen(topic_names[i]) == n && !memcmp(topic_names[i], name, n)) return i;
    return -1;
}

static Status unknown_topic(const char *name, size_t n) {
    Text list = {0};
    for (int i = 0; i < LOG_TOPIC_COUNT; i++) text_printf(&list, "%s%s", i ? ", " : "", topic_names[i]);
    const Status status =
        error_raise(ST_ARGUMENT, "log topic '%.*s' is unknown; topics: %s", (int)n, name, text_str(&list));
    text_free(&list);
    return status;
}

Status log_topics_set(const char *topics) {
    for (const char *p = topics; *p;) {
        const char *const end = p + strcspn(p, ",");
        const char sign = *p == '+' || *p == '-' ? *p++ : ' ';
        if (end > p) {
            const int topic = find_topic(p, (size_t)(end - p));
            if (topic < 0) return unknown_topic(p, (size_t)(end - p));
            log_threshold[topic] = sign == '+' ? LOG_DEBUG : sign == '-' ? LOG_ERROR : LOG_INFO;
        }
        p = *end ? end + 1 : end;
    }
    return ST_OK;
}
