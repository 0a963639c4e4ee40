/* start.c: what every module sets up once per process, in one place and a fixed order: its kernels
 * in the dispatch table and its hooks. Runs before the first thread state is made, so no op runs
 * earlier. */
#include <pthread.h>

#include "runtime/core/dispatch.h"
#include "runtime/capture/record/capture.h"
#include "runtime/autograd/tape.h"

static void start_all(void) {
    dispatch_start();
    override_start();
    custom_op_start();
    custom_derivative_start();
    eager_start();
    tape_start();
    capture_start();
}

void runtime_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_all);
}
