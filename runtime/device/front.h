/* front.h: plans whose last inputs somebody else computes, a backend of the program's: it is called with the inputs of
 * the call, what it gives is checked, and then the plan's steps run, which put it where the library wants it. */
#ifndef SINTER_RUNTIME_FRONT_H
#define SINTER_RUNTIME_FRONT_H
#include <pthread.h>

#include "runtime/device/execute.h"

typedef struct BackendCode BackendCode;
struct BackendCode {
    BackendCode *next;
    const char *name; /* of the backend */
    /* n_out new results of the innermost scope. Any thread, several at once. */
    Status (*run)(void *context, sn_tensor *const *in, int n_in, sn_tensor **out, int n_out);
    void (*drop)(void *context);
    void *context;
    pthread_mutex_t lock; /* of what follows */
    int64_t failures;
    char failure[256]; /* the last one */
};

/* execute, of a plan with a front. An error of the code or of what it gave names the backend; nothing was committed
 * then. */
Status front_execute(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs);

#endif
