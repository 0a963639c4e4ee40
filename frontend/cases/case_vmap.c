/* case_vmap.c: a recorded call under sn_vmap, beside a loop. Example 0 is what was recorded; of the others elements are
 * in another order. Ways to batch it:
 *
 *   2 or 3 examples  x  batch dim first, last, or by turns (of all tensors)  x  all tensors, each alone, all but one
 *
 * A way counts as one of: same; differing; refused, where sn_vmap says that it cannot; alone, where the op refuses an
 * example without sn_vmap, so that there is nothing to compare with. */
#include <sinter/transform.h>

#include "frontend/cases/cases.h"
#include "runtime/base/error.h"

/* What is drawn, never set, or elsewhere in memory has no other example's bits. Of lists the first tensors are taken
 * apart. */
enum { MOST_EXAMPLES = 3, MOST_OUTS = 64, MOST_APART = 8, NOT_MAPPED = OPF_random | OPF_unset | OPF_places };
static const uint64_t last_dims[] = {0, UINT64_MAX, 0xAAAAAAAAAAAAAAAA};

typedef struct MappedCall {
    const CaseCall *call;
    sn_tensor *const *recorded;
    int n_in, n;                    /* tensors, examples */
    uint64_t which, last;           /* bits of tensors: batched; the batch dim is the last one */
    bool floats;                    /* only their elements are in another order */
    sn_tensor *in[MAX_CASE_INPUTS]; /* all examples, or what is the same for all */
    sn_tensor *loop[MOST_EXAMPLES][MOST_OUTS];
    int n_outs, n_tensors, slots[MOST_OUTS]; /* results; those that are tensors */
} MappedCall;

static bool bit(uint64_t bits, int k) { return bits >> k & 1; }

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

/* making examples ------------------------------------------------------------------------------------------------- */

static sn_tensor *example_of(const MappedCall *m, sn_tensor *t, int i) {
    int64_t dims[MAX_RANK];
    const int rank = sn_rank(t);
    if (!i || !rank || (m->floats && !dtype_is_float((DType)sn_dtype_of(t)))) return t;
    for (int d = 0; d < rank; d++) dims[d] = d;
    return sn_flip(t, (sn_ints){dims, i == 1 ? rank : 1});
}

static sn_tensor *stacked(const MappedCall *m, int k) {
    sn_tensor *parts[MOST_EXAMPLES];
    for (int i = 0; i < m->n; i++) parts[i] = example_of(m, m->recorded[k], i);
    sn_tensor *const all = sn_stack((sn_tensors){parts, m->n}, 0);
    return bit(m->last, k) ? sn_contiguous(sn_movedim_int(all, 0, -1)) : all;
}

/* The loop -------------------------------------------------------------------------------------------------------- */

static bool op_writes(const OpRow *row, OpForm form, int param) {
    return (form == FORM_inplace && param == 0) || (param < row->n_params && param_is_written(&row->params[param]));
}

/* What the op writes, every call has for itself; sn_vmap's comes last. */
static void own_written(const MappedCall *m, sn_tensor **tensors) {
    const CaseCall *const call = m->call;
    for (int i = 0, next = 0; i < call->n_args; i++) {
        const sn_value *const arg = &call->args[i];
        if (arg->kind == SN_KIND_TENSOR) {
            if (op_writes(call->row, call->form, i)) tensors[next] = sn_clone(tensors[next]);
            next++;
        }
        for (int k = 0; arg->kind == SN_KIND_TENSORS && k < arg->n; k++) next += arg->tensors[k] != NULL;
    }
}

/* Example i alone, as a part of what all lie in; false: the op refuses it. */
static bool run_one(MappedCall *m, int i) {
    sn_tensor *tensors[MAX_CASE_INPUTS];
    sn_value values[MOST_OUTS];
    int n = MOST_OUTS;
    for (int k = 0; k < m->n_in; k++)
        tensors[k] = bit(m->which, k) ? sn_select(m->in[k], bit(m->last, k) ? -1 : 0, i) : m->in[k];
    own_written(m, tensors);
    if (call_with(m, tensors, values, &n) != SN_OK) return false;
    if (i && n != m->n_outs) return false;
    m->n_outs = n, m->n_tensors = 0;
    for (int k = 0; k < n; k++) {
        m->loop[i][k] = values[k].kind == SN_KIND_TENSOR ? values[k].tensor : NULL;
        if (m->loop[i][k]) m->slots[m->n_tensors++] = k;
    }
    return true;
}

static bool run_loop(MappedCall *m, int64_t *dims) {
    for (int k = 0; k < m->n_in; k++) {
        m->in[k] = bit(m->which, k) ? stacked(m, k) : m->recorded[k];
        dims[k] = !bit(m->which, k) ? SN_NO_INT : bit(m->last, k) ? -1 : 0;
    }
    bool good = sn_check() == SN_OK;
    for (int i = 0; good && i < m->n; i++) good = run_one(m, i);
    sn_error_take();
    return good;
}

/* comparing ------------------------------------------------------------------------------------------------------- */

/* Sizes and elements; how they lie in memory may differ. */
static bool same_values(sn_tensor *a, sn_tensor *b, Text *why) {
    const sn_ints x = sn_sizes(a), y = sn_sizes(b);
    if (x.n != y.n || memcmp(x.data, y.data, (size_t)x.n * sizeof *x.data) != 0)
        return text_puts(why, "sizes differ"), false;
    const sn_ints flat = SN_INTS(sn_numel(a));
    return case_same_bits(sn_clone(sn_reshape(a, flat)), sn_clone(sn_reshape(b, flat)), why);
}

static void print_way(const MappedCall *m, Text *why) {
    text_printf(why, "sn_vmap, %d examples, tensors 0x%llx, last 0x%llx", m->n, (unsigned long long)m->which,
                (unsigned long long)(m->last & m->which));
}

static bool same_as_loop(const MappedCall *m, sn_tensor *const *outs, Text *why) {
    for (int j = 0; j < m->n_tensors; j++)
        for (int i = 0; i < m->n; i++) {
            sn_tensor *const got = sn_select(outs[j], 0, i);
            if (got && same_values(m->loop[i][m->slots[j]], got, why)) continue;
            text_puts(why, " (");
            print_way(m, why);
            text_printf(why, ", output %d, example %d)", m->slots[j], i);
            return false;
        }
    return true;
}

/* What sn_vmap says that it cannot do is no difference. */
static void record_error(const MappedCall *m, CaseMapped *mapped, Text *why) {
    const sn_error *const error = sn_error_take();
    const bool says = error->status == SN_ERR_UNSUPPORTED || error->status == SN_ERR_STATE;
    const bool refused = says && strstr(error->message, "sn_vmap");
    mapped->refused += refused, mapped->differing += !refused;
    if (refused) return;
    print_way(m, why);
    text_printf(why, ": %s", error->message);
}

static void run_way(MappedCall *m, CaseMapped *mapped, Text *why) {
    int64_t dims[MAX_CASE_INPUTS];
    sn_tensor *outs[MOST_OUTS] = {NULL};
    bool ran = run_loop(m, dims);
    if (!ran) m->floats = true, ran = run_loop(m, dims); /* an index in another order may be none */
    if (!ran) {
        mapped->alone++;
    } else if (sn_vmap(map_body, m, SN_VMAP_OPTIONS(.in_dims = {dims, m->n_in}), (sn_tensors){m->in, m->n_in}, outs,
                       m->n_tensors) != SN_OK) {
        record_error(m, mapped, why);
    } else {
        const bool same = same_as_loop(m, outs, why);
        mapped->same += same, mapped->differing += !same;
    }
    m->floats = false;
}

/* ways ------------------------------------------------------------------------------------------------------------ */

/* Of these tensors: until one differs. */
static void run_batched(MappedCall *m, uint64_t which, uint64_t all, CaseMapped *mapped, Text *why) {
    m->which = which;
    for (int way = 0; way < COUNT_OF(last_dims) && (way < 2 || (which == all && all > 1)); way++)
        for (m->n = 2; m->n <= MOST_EXAMPLES && !mapped->differing; m->n++) {
            const sn_scope scope = sn_scope_begin();
            m->last = last_dims[way];
            run_way(m, mapped, why);
            sn_scope_end(scope);
        }
}

bool case_vmap(const CaseCall *call, CaseMapped *mapped, Text *why) {
    sn_tensor *inputs[MAX_CASE_INPUTS];
    MappedCall m = {.call = call, .recorded = inputs, .n_in = case_inputs(call, inputs)};
    *mapped = (CaseMapped){0};
    if (!m.n_in) return true; /* nothing to batch */
    if (m.n_in > 63 || call->form == FORM_out || call->row->kind == KIND_number || call->row->flags & NOT_MAPPED)
        return false;
    const uint64_t all = (UINT64_C(1) << m.n_in) - 1, sequence = sn_rng_get().sequence;
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
    run_batched(&m, all, all, mapped, why);
    for (int k = 0; m.n_in > 1 && k < m.n_in && k < MOST_APART; k++) {
        run_batched(&m, UINT64_C(1) << k, all, mapped, why);
        if (m.n_in > 2) run_batched(&m, all & ~(UINT64_C(1) << k), all, mapped, why);
    }
    sn_grad_mode_set(mode);
    const bool draws = mapped->refused && sn_rng_get().sequence != sequence; /* its parts do */
    if (draws) *mapped = (CaseMapped){0};
    return !draws;
}
