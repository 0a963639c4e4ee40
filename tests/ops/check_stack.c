/* check_stack.c: every row runs eagerly, forward and backward, on a thread whose stack is small. Below it lies more
 * memory, all of it painted, so that a row that needs too much is named and is no crash. Each case has a thread of its
 * own: the state of a new one knows no signature, so that all that a first call builds is built. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/error.h"
#include "tests/ops/ops.h"

enum { SMALL_STACK = 64 << 10, STACK_BYTES = 1 << 20, PAINT = 0xA5 };

static sn_tensor *outs[MAX_LIST]; /* not on the stack that is measured */
static SampleCall call;

static void run_backward(int n) {
    for (int i = 0; i < n; i++) {
        sn_tensor *const root = outs[i];
        if (!root || !sn_requires_grad(root)) continue;
        sn_backward_ex(SN_TENSORS(root), SN_TENSORS(sn_ones_like(sn_detach(root))), SN_RETAIN_GRAPH);
    }
}

static void *run_measured(void *context) {
    const Case *const c = context;
    const sn_scope scope = sn_scope_begin();
    int n = 0;
    if (sample_make(c->row, c->line, &c->style, &call) == ST_OK && sample_run(&call, outs, &n) == ST_OK)
        run_backward(n);
    sn_error_take(); /* of a dtype, or of a second derivative that there is not: other modes ask */
    sn_scope_end(scope);
    return NULL;
}

/* Bytes from the end of the thread's stack to the deepest one that was written; its own data and TLS count. */
static size_t bytes_used(const unsigned char *stack) {
    size_t clean = 0;
    while (clean < STACK_BYTES && stack[clean] == PAINT) clean++;
    return STACK_BYTES - clean;
}

static size_t run_on(unsigned char *stack, Case *c) {
    pthread_attr_t attributes;
    pthread_t thread;
    memset(stack, PAINT, STACK_BYTES);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack + STACK_BYTES - SMALL_STACK, SMALL_STACK);
    if (pthread_create(&thread, &attributes, run_measured, c)) return 0;
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    return bytes_used(stack);
}

void check_stack(const Case *c) {
    static unsigned char *stack;
    Case leaves = *c;
    leaves.style.leaves = true;
    if (!stack) stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return;
    const size_t used = run_on(stack, &leaves);
    if (used) ops_count(); /* also where it is an error: that, too, has to fit */
    if (used > SMALL_STACK) ops_fail(c, "%zu bytes of stack, of at most %d", used, SMALL_STACK);
}
