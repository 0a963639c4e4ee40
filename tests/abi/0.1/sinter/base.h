/* base.h: status, errors, scopes, thread state, settings. Ownership, errors and threads in general: sinter.h. */
#ifndef SINTER_BASE_H
#define SINTER_BASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define SN_BEGIN                                                                                                       \
    extern "C" {                                                                                                       \
    _Pragma("GCC visibility push(default)")
#define SN_END                                                                                                         \
    _Pragma("GCC visibility pop")                                                                                      \
    }
#else
#define SN_BEGIN             _Pragma("GCC visibility push(default)")
#define SN_END               _Pragma("GCC visibility pop")
#define SN_STRUCT(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})
#endif
SN_BEGIN
typedef struct sn_tensor sn_tensor;
typedef struct sn_function sn_function;
/* A callback's view of its call. */
typedef struct sn_frame sn_frame;
typedef struct sn_state sn_state;
/* A mark: thread and generation inside. */
typedef uint64_t sn_scope;
/* Append only, like every enum here. */
typedef enum sn_status {
    SN_OK,
    SN_ERR_ARGUMENT,
    SN_ERR_SHAPE,
    SN_ERR_DTYPE,
    SN_ERR_DEVICE,
    SN_ERR_VALUE,
    SN_ERR_MEMORY,
    SN_ERR_UNSUPPORTED,
    SN_ERR_STATE,
    SN_ERR_PARSE,
    SN_ERR_IO,
    SN_ERR_STRICT,
    SN_ERR_CALLBACK,
    SN_ERR_INTERNAL
} sn_status;
/* Every callback that computes: compiled functions, kernels, modes, hooks, custom functions. It runs in a scope of its
   own, reads sn_in..., sets sn_out..., and has failed where it returns another status than SN_OK or leaves an error. */
typedef sn_status (*sn_body)(sn_frame *f);
typedef void (*sn_free_fn)(void *data, void *context);
/* level: 0 debug, 1 info, 2 warning, 3 error; line does not end in a newline (a printed matrix
   has some inside) and lives for the call. Any thread, also several at
   once; it may not call Sinter. */
typedef void (*sn_log_fn)(void *context, int level, const char *topic, const char *line);

/* Version [neutral] */
#define SN_VERSION 0x000100
/* Of the running library: 0xMMmmpp; SN_VERSION is that of the headers. */
uint32_t sn_version(void);

/* Errors [neutral]. One error is pending per sn_state: the first one raised stays until it is taken; what comes after
   it does nothing and raises nothing. */
typedef struct sn_error {
    size_t size;
    sn_status status;
    /* Stable: 1000 + status, printed as SN1001. */
    int32_t code;
    /* Never NULL; op ("aten::mm") and where ("model.c:57") as far as they are known, else "". */
    const char *message, *op, *where;
} sn_error;
/* The pending error's status, or SN_OK. */
sn_status sn_check(void);
/* Handles it: nothing is pending any more. Never NULL (status SN_OK: there was none); texts live until the next
 * take. */
const sn_error *sn_error_take(void);
/* Raises one; message is copied; returns status. */
sn_status sn_fail(sn_status status, const char *message);
/* The end of main: prints the pending error to stderr, frees the root scope; 1 if there was an error, else 0.
 * [refused] */
int sn_finish(void);

/* Scopes [event] */
#define SN_SCOPE_ROOT ((sn_scope)0)
/* Results go to the innermost scope of the thread and die with it; without one, to the root scope, which sn_finish and
   sn_scope_end(SN_SCOPE_ROOT) free. A mark of another state, of an ended scope, or of a callback's caller is an
   error. */
/* SN_SCOPE_ROOT where memory is out. */
sn_scope sn_scope_begin(void);
/* Results made directly inside are the caller's to release: for bindings. */
sn_scope sn_scope_begin_owned(void);
/* Ends it and all above it; restores modes; returns sn_check(). */
sn_status sn_scope_end(sn_scope mark);
/* Ends it; t passes to the scope outside and is returned. */
sn_tensor *sn_scope_return(sn_scope mark, sn_tensor *t);

/* The process [refused] */
typedef struct sn_init_options {
    size_t size;
    /* No SINTER_... variable counts. */
    bool ignore_environment;
    /* 0: all cores; 1: starts none. */
    int32_t threads;
    /* Folder that keeps generated code for other processes: the setting cache_dir. NULL: as the environment says, else
       sinter in the user's cache folder; "" or "off": none. A folder that others can write to is not used. */
    const char *cache_dir;
    /* NULL: warnings to stderr. */
    sn_log_fn log;
    void *log_context;
} sn_init_options;
#define SN_INIT_OPTIONS(...) SN_STRUCT(sn_init_options, __VA_ARGS__)
/* Optional; before anything else, on one thread. NULL: all defaults. */
sn_status sn_init(const sn_init_options *options);
/* Ends the library's threads, once all code that is being made is in place, and frees the calling state's root scope
   and the memory kept for reuse. Tensors, functions and other states are their owners' to free, before. The library
   may be used again. */
sn_status sn_shutdown(void);

/* Everything that belongs to a thread (error, scopes, modes, generator, settings) as an object, for fibers, sessions
   and thread pools. A thread without one gets its own on first use, which dies with it. One thread at a time uses a
   state. */
/* NULL where memory is out. [neutral] */
sn_state *sn_state_new(void);
/* state NULL: the thread's own. Returns the previous one; NULL is an error. [refused] */
sn_state *sn_state_use(sn_state *state);
/* With its scopes and what they hold. [refused while a function runs in it] */
void sn_state_free(sn_state *state);

/* Settings of this state [event]: rows of runtime/core/settings.def; SINTER_<NAME> gives the initial value; an unknown
 * name lists the valid ones. What is read once, from the environment, is SN_ERR_UNSUPPORTED. */
sn_status sn_setting_set(const char *name, const char *value);
/* The value as text. [meta] */
const char *sn_setting_get(const char *name);
/* log NULL: stderr. topics as in SINTER_LOGS: "graph_breaks,recompiles" at level info, "+passes" at debug, "-compile"
   errors only; NULL: as they are. For the process. */
sn_status sn_logging_set(sn_log_fn log, void *context, const char *topics);
/* The generator of this state starts anew: Philox(seed, op number, element). */
sn_status sn_seed(uint64_t seed);
/* All that the generator is: its seed, and the number that the next random op takes, whatever that op's size. */
typedef struct sn_rng {
    uint64_t seed, sequence;
} sn_rng;
/* Zeros where an error is pending. A replayed body is not run, so none that shows this to host code is replayed; with
   full_graph, mode replay makes that an error. [event] */
sn_rng sn_rng_get(void);
/* Values may differ from call to call: code is made once. Behind random ops of a body a place between those that they
   had (a saved state) stays in their graph; any other ends it. [event] */
sn_status sn_rng_set(sn_rng rng);
/* Begins a scope whose end, however it comes, puts the generator back to where it is now. [event] */
sn_scope sn_rng_fork_begin(void);
SN_END
#endif
