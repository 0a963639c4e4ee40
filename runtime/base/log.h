/* log.h: log topics and the handler; the grammar of topics is TORCH_LOGS' ("graph,+fusion,-guards", "+dynamo", "all").
 * Data never goes through here; only what a user might want to know. Default handler: to stderr, or to a file. */
#ifndef SINTER_RUNTIME_BASE_LOG_H
#define SINTER_RUNTIME_BASE_LOG_H
#include <stdatomic.h>

#include "runtime/base/base.h"

#define LOG_TOPICS(X)                                                                                                  \
    X(general)                                                                                                         \
    X(graph)                                                                                                           \
    X(guards)                                                                                                          \
    X(graph_breaks)                                                                                                    \
    X(recompiles)                                                                                                      \
    X(fusion) X(output_code) X(passes) X(aot_graphs) X(dispatch) X(autograd) X(memory) X(compile) X(vmap) X(print)
/* Words for several of them, each a comma list. */
#define LOG_GROUPS(X)                                                                                                  \
    X(dynamo, "graph,guards,graph_breaks,recompiles,compile")                                                          \
    X(aot, "aot_graphs")                                                                                               \
    X(inductor, "passes,fusion,output_code")
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
extern _Atomic uint8_t log_threshold[LOG_TOPIC_COUNT];
static inline bool log_on(LogTopic topic, LogLevel level) {
    return level >= atomic_load_explicit(&log_threshold[topic], memory_order_relaxed);
}
/* One line: control characters and bytes that are no UTF-8 are escaped. */
void log_line(LogTopic topic, LogLevel level, const char *format, ...) PRINTF_LIKE(3, 4);
void log_whole(LogTopic topic, LogLevel level, const char *text); /* a text of any length and of several lines */
#define LOG(topic, level, ...)                                                                                         \
    do {                                                                                                               \
        if (UNLIKELY(log_on(LOG_##topic, LOG_##level))) log_line(LOG_##topic, LOG_##level, __VA_ARGS__);               \
    } while (0)

/* NULL: the default. A line that another thread is handing over goes to the one before. */
void log_handler_set(LogHandler *handler, void *context);
/* Comma list: "topic" = info, "+topic" = debug, "-topic" = errors only; raises ST_ARGUMENT and lists the valid ones. A
 * word may stand for several: PyTorch's dynamo, aot and inductor, and all, which is every topic but what the program
 * itself prints. */
Status log_topics_set(const char *topics);
/* Where the default handler writes: behind what the file has, line by line. "": stderr. Raises ST_IO. */
Status log_file_set(const char *path);

/* Lines below warnings are made only for compiled functions of these names, a comma list; "": for all. What a program
 * prints stays. */
Status log_functions_set(const char *names);
/* The compiled function that this thread is at work for; NULL: none. Set and asked only while names are chosen. */
extern _Atomic bool log_functions_chosen;
const char *log_function(void);
const char *log_function_swap(const char *name); /* gives the one before */

#endif
