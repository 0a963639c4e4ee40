/* case_vmap.c: a recorded call under sn_vmap, beside a loop: 2 and 3 examples, batch dim first and last, all tensors
 * batched, each alone, and all but one. Example 0 is what was recorded; of the others floats are in another order. */
#include <sinter/transform.h>

#include "frontend/cases/cases.h"
#include "runtime/base/error.h"

enum { MOST_EXAMPLES = 3, MOST_OUTS = 64, NOT_MAPPED = OPF_random | OPF_unset | OPF_places | OPF_internal | OPF_host };

typedef struct MappedCall {
    const CaseCall *call;
    int n_in, n;                    /* tensors, examples */
    bool last;                      /* the batch dim is the last one */
    uint64_t which;                 /* bits of tensors that are batched */
    sn_tensor *in[MAX_CASE_INPUTS]; /* all examples, or what is the same for all */
    sn_tensor *loop[MOST_EXAMPLES][MOST_OUTS];
    int n_outs, n_tensors, slots[MOST_OUTS]; /* results; those that are tensors */
} MappedCall;

static sn_status call_with(const MappedCall *m, sn_tensor *const *tensors, sn_value *values, int *n) {
    sn_value args[MAX_ARGS + MAX_OUTS];
    sn_tensor *lists[MAX_CASE_INPUTS];
    case_args_with(m->call, tensors, args, lists);
    return sn_op_call(m->call->op, args, m->call->n_args, values, n);
}

static sn_status map_body(sn_frame *f) {
    const MappedCall *const m = sn_closure(f);
    sn_tensor *tensors[MAX_CASE_INPUTS];
    sn_value values[MOST_OUTS];
    int n = MOST_OUTS;
    for (int k = 0; k < m->n_in; k++) tensors[k] = sn_in(f, k);
    if (call_with(m, tensors, values, &n) != SN_OK) return sn_check();
    for (int i = 0; i < m->n_tensors; i++) sn_out(f, i, values[m->slots[i]].tensor);
    return sn_check();
}

static sn_tensor *example_of(sn_tensor *t, int i) {
    int64_t dims[MAX_RANK];
    const int rank = sn_rank(t);
    if (!i || !rank || !dtype_is_float((DType)sn_dtype_of(t))) return t;
    for (int d = 0; d < rank; d++) dims[d] = d;
    return sn_flip(t, (sn_ints){dims, i == 1 ? rank : 1});
}

static sn_tensor *stacked(const MappedCall *m, sn_tensor *t) {
    sn_tensor *parts[MOST_EXAMPLES];
    for (int i = 0; i < m->n; i++) parts[i] = example_of(t, i);
    sn_tensor *const all = sn_stack((sn_tensors){parts, m->n}, 0);
    return m->last ? sn_contiguous(sn_movedim_int(all, 0, -1)) : all;
}

/* Example i alone, as a part of what all lie in; false: the op refuses it. */
static bool run_one(MappedCall *m, int i) {
    sn_tensor *tensors[MAX_CASE_INPUTS];
    sn_value values[MOST_OUTS];
    int n = MOST_OUTS;
    for (int k = 0; k < m->n_in; k++)
        tensors[k] = m->which >> k & 1 ? sn_select(m->in[k], m->last ? -1 : 0, i) : m->in[k];
    if (call_with(m, tensors, values, &n) != SN_OK) return sn_error_take(), false;
    if (i && n != m->n_outs) return false;
    m->n_outs = n, m->n_tensors = 0;
    for (int k = 0; k < n; k++) {
        m->loop[i][k] = values[k].kind == SN_KIND_TENSOR ? values[k].tensor : NULL;
        if (m->loop[i][k]) m->slots[m->n_tensors++] = k;
    }
    return true;
}

/* Sizes and elements; how they lie in memory may differ. */
static bool same_values(sn_tensor *a, sn_tensor *b, Text *why) {
    const sn_ints x = sn_sizes(a), y = sn_sizes(b);
    if (x.n != y.n || memcmp(x.data, y.data, (size_t)x.n * sizeof *x.data) != 0)
        return text_puts(why, "sizes differ"), false;
    const sn_ints flat = SN_INTS(sn_numel(a));
    return case_same_bits(sn_clone(sn_reshape(a, flat)), sn_clone(sn_reshape(b, flat)), why);
}

static bool same_as_loop(const MappedCall *m, sn_tensor *const *outs, Text *why) {
    for (int j = 0; j < m->n_tensors; j++)
        for (int i = 0; i < m->n; i++) {
            sn_tensor *const got = sn_select(outs[j], 0, i);
            if (got && same_values(m->loop[i][m->slots[j]], got, why)) continue;
            text_printf(why, " (sn_vmap, %d examples%s, tensors 0x%llx, output %d, example %d)", m->n,
                        m->last ? ", last" : "", (unsigned long long)m->which, m->slots[j], i);
            return false;
        }
    return true;
}

/* What sn_vmap says that it cannot do is no difference. */
static CaseMapped of_error(const MappedCall *m, Text *why) {
    const sn_error *const error = sn_error_take();
    const bool refused = error->status == SN_ERR_UNSUPPORTED || error->status == SN_ERR_STATE;
    text_printf(why, "sn_vmap, %d examples%s, tensors 0x%llx: %s", m->n, m->last ? ", last" : "",
                (unsigned long long)m->which, error->message);
    return refused && strstr(error->message, "sn_vmap") ? MAPPED_refused : MAPPED_differs;
}

static CaseMapped run_way(MappedCall *m, sn_tensor *const *inputs, Text *why) {
    int64_t dims[MAX_CASE_INPUTS];
    sn_tensor *outs[MOST_OUTS] = {NULL};
    for (int k = 0; k < m->n_in; k++) {
        const bool batched = m->which >> k & 1;
        m->in[k] = batched ? stacked(m, inputs[k]) : inputs[k];
        dims[k] = !batched ? SN_NO_INT : m->last ? -1 : 0;
    }
    for (int i = 0; i < m->n; i++)
        if (sn_check() != SN_OK || !run_one(m, i)) return sn_error_take(), MAPPED_same;
    if (sn_vmap(map_body, m, SN_VMAP_OPTIONS(.in_dims = {dims, m->n_in}), (sn_tensors){m->in, m->n_in}, outs,
                m->n_tensors) != SN_OK)
        return of_error(m, why);
    return same_as_loop(m, outs, why) ? MAPPED_same : MAPPED_differs;
}

/* k: all but this one (another: alone); -1: all. */
static uint64_t bits_of(int k, bool another, uint64_t all) {
    const uint64_t one = k < 0 ? 0 : UINT64_C(1) << k;
    return k < 0 ? all : another ? one : all & ~one;
}

CaseMapped case_vmap(const CaseCall *call, Text *why) {
    sn_tensor *inputs[MAX_CASE_INPUTS];
    const int n = case_inputs(call, inputs);
    if (call->form != FORM_functional || call->row->kind == KIND_number || call->row->flags & NOT_MAPPED || !n ||
        n > 63)
        return MAPPED_skipped;
    const uint64_t all = (UINT64_C(1) << n) - 1, sequence = sn_rng_get().sequence;
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
    CaseMapped mapped = MAPPED_same;
    for (int k = -1; k < (n > 1 ? n : 0) && mapped == MAPPED_same; k++)
        for (int way = 0; way < 2 && mapped == MAPPED_same; way++) {
            const sn_scope scope = sn_scope_begin();
            MappedCall m = {.call = call, .n_in = n, .n = 3 - way, .last = way, .which = bits_of(k, way, all)};
            mapped = run_way(&m, inputs, why);
            sn_scope_end(scope);
        }
    sn_grad_mode_set(mode);
    return mapped == MAPPED_refused && sn_rng_get().sequence != sequence ? MAPPED_skipped : mapped; /* its parts draw */
}
