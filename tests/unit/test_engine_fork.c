/* test_engine_fork.c: a hook that forks while the backward of the tape has workers (test_engine.c). A program of its
   own: the sanitizer that sees races knows no threads after a fork. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/contract.h"

enum { N = 192 }; /* N x N is large enough for a worker */

/* The child goes on with the backward that it is in. */
typedef struct Forked {
    pid_t child;
} Forked;
static sn_status forks(sn_frame *f) {
    Forked *const forked = sn_closure(f);
    forked->child = fork();
    return SN_OK;
}

/* Three branches; the hook is in one or another. */
static sn_tensor *loss_of(sn_tensor *x, int place, Forked *forked) {
    sn_tensor *const w = F32(2, N, N);
    sn_tensor *const left = sn_gelu(sn_matmul(x, w)), *const right = sn_sin(sn_matmul(x, sn_t(w)));
    sn_tensor *const middle = sn_tanh(sn_mul(x, x));
    if (forked) sn_hook_add(place % 2 ? right : left, forks, forked);
    return sn_sum(sn_add(sn_add(left, right), sn_mul(middle, x)));
}

START_TEST(a3_11_a_hook_may_fork) {
    if (!CAN_FORK_BESIDE_THREADS) return;
    ck_assert_int_eq(sn_setting_set("threads", "4"), SN_OK);
    sn_tensor *const alone = LEAF(1, N, N);
    sn_backward(loss_of(alone, 0, NULL));
    for (int round = 0; round < 8; round++) {
        Forked forked = {0};
        sn_tensor *const x = LEAF(1, N, N);
        sn_backward(loss_of(x, round, &forked));
        const bool same = sn_check() == SN_OK && same_bits(sn_grad(x), sn_grad(alone));
        if (!forked.child) _exit(same ? 7 : 1);
        ck_assert(same);
        int status;
        ck_assert_int_eq(waitpid(forked.child, &status, 0), forked.child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned)status);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a3_11_a_hook_may_fork};
    return contract_main("test_engine_fork", tests, (int)(sizeof tests / sizeof *tests));
}
