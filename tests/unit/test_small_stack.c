/* test_small_stack.c: what compiling takes of the calling thread's stack, as compile.h promises: capture, passes, code
 * by LLVM, and the backward. (test_ops stack has what ops need eagerly.) The stack is painted; below it lies more. */
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/unit/contract.h"

enum { PROMISED = 256 << 10, STACK_BYTES = 8 << 20, PAINT = 0xA5 };

typedef sn_status Build(sn_frame *f);

static sn_status block(sn_frame *f) { /* of a transformer */
    sn_tensor *h = sn_in(f, 0), *const w = sn_in(f, 1);
    for (int layer = 0; layer < 4; layer++) {
        sn_tensor *const n = sn_layer_norm(h, SN_INTS(32), NULL, NULL), *const q = sn_linear(n, w, NULL);
        sn_tensor *const four = sn_reshape(q, SN_INTS(1, 2, 8, 16));
        sn_tensor *const a = sn_scaled_dot_product_attention(four, four, four);
        h = sn_add(h, sn_gelu(sn_linear(sn_reshape(a, SN_INTS(8, 32)), w, NULL)));
    }
    return sn_out(f, 0, sn_cross_entropy(h, sn_argmax(h, 1, false)));
}

static sn_status chain(sn_frame *f) { /* one kernel of many ops, each of the one before */
    sn_tensor *h = sn_in(f, 0);
    for (int i = 0; i < 200; i++) h = sn_sin(sn_add(h, sn_in(f, 0)));
    return sn_out(f, 0, sn_sum(sn_mul(h, sn_sum(sn_in(f, 1)))));
}

typedef struct StackRun {
    Build *body;
    bool training, good;
} StackRun;

static void *compile_and_run(void *context) {
    StackRun *const run = context;
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = F32(1, 8, 32), *const w = run->training ? LEAF(2, 32, 32) : F32(2, 32, 32);
    sn_function *const fn = sn_compile(run->body, NULL, NULL);
    for (int i = 0; i < 3 && !sn_check(); i++) {
        sn_tensor *const loss = sn_call1(fn, SN_TENSORS(x, w));
        if (run->training) sn_backward(loss);
    }
    run->good = !sn_check() && stats_of(fn).compiles > 0 && last_path() == SN_PATH_COMPILED;
    sn_function_free(fn);
    sn_scope_end(scope);
    return NULL;
}

static size_t bytes_used(StackRun *run) {
    unsigned char *const stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stack, MAP_FAILED);
    memset(stack, PAINT, STACK_BYTES);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack + STACK_BYTES - PROMISED, PROMISED);
    ck_assert_int_eq(pthread_create(&thread, &attributes, compile_and_run, run), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    size_t clean = 0;
    while (clean < STACK_BYTES && stack[clean] == PAINT) clean++;
    munmap(stack, STACK_BYTES);
    return STACK_BYTES - clean;
}

static void fits(Build *body, bool training, const char *what) {
    StackRun run = {body, training, false};
    const size_t used = bytes_used(&run);
    ck_assert_msg(run.good, "%s was not compiled", what);
    printf("%s: %zu bytes of stack\n", what, used);
#ifndef SINTER_PLAIN_MALLOC /* sanitizers, whose frames are larger */
    ck_assert_msg(used <= PROMISED, "%s: %zu bytes of stack, of at most %d", what, used, PROMISED);
#endif
}

START_TEST(compiling_keeps_within_its_stack) {
    fits(block, false, "four blocks");
    fits(block, true, "four blocks and their backward");
    fits(chain, false, "a chain of 400 ops");
    fits(chain, true, "a chain of 400 ops and its backward");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {compiling_keeps_within_its_stack};
    return contract_main("test_small_stack", tests, (int)(sizeof tests / sizeof *tests));
}
