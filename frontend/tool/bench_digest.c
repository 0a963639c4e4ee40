/* bench_digest.c: `sinter bench --digest ROW`: one digest of all that a row's work gives, eagerly and compiled:
 * results, gradients, what it writes in place, parameters behind a step. Both begin with the same numbers, so that the
 * digests of any two instruction sets and numbers of threads are compared, too. With --save what went in and came out
 * eagerly is written as safetensors, for another system to compute: in0..., param.NAME, dy0..., out0..., grad0... */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/bench_run.h"
#include "frontend/tool/values.h"
#include "runtime/base/error.h"

typedef struct DigestSeen {
    uint64_t digest;
    sn_dict *values; /* NULL: not saved */
} DigestSeen;

static void see(DigestSeen *seen, const char *kind, const char *name, sn_tensor *t) {
    char key[80];
    if (!t) return;
    if (kind[0] != 'i') seen->digest = seen->digest * UINT64_C(1099511628211) ^ values_digest(t);
    snprintf(key, sizeof key, "%s%s", kind, name);
    if (seen->values) sn_dict_set(seen->values, key, sn_clone(sn_detach(t)));
}

static void see_all(DigestSeen *seen, const char *kind, sn_tensor *const *all, int n) {
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        see(seen, kind, name, all[i]);
    }
}

static void see_params(DigestSeen *seen, const char *kind, const Work *w) {
    for (int i = 0; w->params && i < sn_dict_count(w->params); i++)
        see(seen, kind, sn_dict_name(w->params, i), sn_dict_at(w->params, i));
}

/* What may have been written in place is looked at again. */
static void run_seen(Work *w, sn_compile_mode mode, DigestSeen *seen) {
    BenchResults results = {.n_out = 0};
    const sn_scope scope = sn_scope_begin();
    see_all(seen, "in", w->in, w->n_in);
    see_params(seen, "init.", w);
    bench_run_kept(w, mode, &results);
    see_all(seen, "dy", results.dy, results.n_out);
    see_all(seen, "out", results.out, results.n_out);
    see_all(seen, "grad", results.grads, results.n_grads);
    see_params(seen, "param.", w);
    for (int i = 0; i < w->n_in; i++)
        if (!sn_requires_grad(w->in[i])) seen->digest = seen->digest * 31 ^ values_digest(w->in[i]);
    sn_scope_end(scope);
    bench_results_free(&results);
}

int bench_print_digest(const BenchRow *row, void (*make)(const BenchRow *row, Work *w), const char *save) {
    static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY};
    uint64_t digests[2];
    for (int i = 0; i < 2 && !sn_check(); i++) {
        Work w;
        sn_seed(1);
        make(row, &w);
        const bool has_results = w.kind != WORK_overhead && w.kind != WORK_compile;
        DigestSeen seen = {.values = save && i == 0 ? sn_dict_new() : NULL};
        if (has_results && !sn_check()) run_seen(&w, modes[i], &seen);
        if (seen.values && !sn_check()) sn_dict_save(seen.values, save);
        sn_dict_free(seen.values);
        bench_work_free(&w);
        digests[i] = seen.digest;
        if (!has_results) return ST_OK;
    }
    if (!sn_check())
        printf("{\"row\": \"%s\", \"eager\": \"%016llx\", \"compiled\": \"%016llx\"}\n", row->name,
               (unsigned long long)digests[0], (unsigned long long)digests[1]);
    fflush(stdout);
    return sn_check();
}
