/* log.h: log topics and the handler; the grammar of topics is TORCH_LOGS' ("graph,+fusion,-guards").
 * Data never goes through here; only what a user might want to know. Default handler: warnings and errors to stderr. */
#ifndef SINTER_RUNTIME_BASE_LOG_H
#define SINTER_RUNTIME_BASE_LOG_H
#include "runtime/base/base.h"

#define LOG_TOPICS(X)                                                                                                  \
    X(general)                                                                                                         \
    X(graph)                                                                                                           \
    X(guards)                                                                                                          \
    X(graph_breaks)                                                                                                    \
    X(recompiles)                                                                                                      \
    X(fusion) X(output_code) X(passes) X(aot_graphs) X(dispatch) X(autograd) X(memory) X(compile) X(vmap) X(print)
typedef enum LogTopic {
#define X(name) LOG_##name,
    LOG_TOPICS(X)
#undef X
        LOG_TOPIC_COUNT
} LogTopic;
typedef enum LogLevel { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR } LogLevel;
typedef void LogHandler(void *context, int level, const char *topic, const char *line);

/* Messages below are not made. What a program prints (topic print) is at level info, and shown unless "-print" is
 * set. */
extern uint8_t log_threshold[LOG_TOPIC_COUNT];
static inline bool log_on(LogTopic topic, LogLevel level) { return level >= log_threshold[topic]; }
void log_line(LogTopic topic, LogLevel level, const char *format, ...) PRINTF_LIKE(3, 4);
void log_whole(LogTopic topic, LogLevel level, const char *text); /* the same, of any length */
#define LOG(topic, level, ...)                                                                                         \
    do {                                                                                                               \
        if (UNLIKELY(log_on(LOG_##topic, LOG_##level))) log_line(LOG_##topic, LOG_##level, __VA_ARGS__);               \
    } while (0)

void log_handler_set(LogHandler *handler, void *context); /* NULL: the default */
/* Comma list: "topic" = info, "+topic" = debug, "-topic" = errors only; raises ST_ARGUMENT and lists the valid ones. */
Status log_topics_set(const char *topics);

#endif
