/* generate.c: random programs. Proposals (propose.c) are checked by the op's meta rule under both
 * settings of the sizes before they become steps, so that few programs end in an error; forms that
 * were used least are tried first, so that all of the op table is used. */
#include <stdlib.h>

#include <stdio.h>

#include "runtime/base/error.h"
#include "tests/fuzz/gen.h"

/* Randomness and values ----------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t next(Gen *g) { return mixed(g->random += 0x9E3779B97F4A7C15u); }

/* Where the numbers of a seed begin: its neighbours' are not the same ones, shifted by a place. */
static uint64_t first_random(uint64_t seed, bool other) { return mixed(mixed(seed + 1) + other); }

int64_t gen_below(Gen *g, int64_t n) { return (int64_t)(next(g) % (uint64_t)n); }
bool gen_chance(Gen *g, int percent) { return gen_below(g, 100) < percent; }

bool gen_live(const Gen *g, int v) {
    return v < FZ_INPUTS ? v < g->p->n_inputs : v < g->p->n_values && g->v[v].at[0].val.meta;
}

DType gen_dtype(const Gen *g, int v) { return g->v[v].at[0].meta.dtype; }
int gen_rank(const Gen *g, int v) { return g->v[v].at[0].meta.rank; }

int gen_any(Gen *g) {
    for (int i = 0; i < 20; i++) {
        const int n = g->p->n_values;
        const int v =
            gen_chance(g, 50) && n > FZ_INPUTS ? n - 1 - (int)gen_below(g, min_i64(5, n)) : (int)gen_below(g, n);
        if (gen_live(g, v)) return v;
    }
    return -1;
}

FzInt gen_dim(Gen *g) {
    static const int8_t plain[] = {1, 1, 2, 3, 4, 8};
    if (gen_chance(g, 65)) return (FzInt){1, (int)gen_below(g, g->p->n_sizes)};
    return (FzInt){plain[gen_below(g, COUNT_OF(plain))], -1};
}

DType gen_float(Gen *g) {
    static const uint8_t dtypes[] = {DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f64, DT_bf16, DT_f16};
    return (DType)dtypes[gen_below(g, COUNT_OF(dtypes))];
}

/* Metadata ------------------------------------------------------------------------------------ */

/* The size variable that gives both sizes, or a plain number. */
static FzInt expression(const FzProgram *p, int64_t a, int64_t b) {
    for (int i = 0; a != b && i < p->n_sizes; i++) {
        const int64_t n = p->sizes[0][i];
        if (n > 0 && a % n == 0 && a / n * p->sizes[1][i] == b) return (FzInt){a / n, i};
    }
    return a == b ? (FzInt){a, -1} : (FzInt){0, FZ_SIZES};
}

/* Of a value. Each of a batch's small products costs an emulated device a whole tile: tens of milliseconds. */
static int64_t most_elements(void) { return fz_device == SN_CPU ? 20000 : 2000; }

/* Whether two elements may lie in one place: some stride does not step over what the smaller ones reach. */
static bool may_overlap(const int64_t *sizes, const int64_t *strides, int rank) {
    int64_t reach = 0, last = -1;
    for (int i = 0; i < rank; i++) { /* in the order of their strides */
        int64_t least = INT64_MAX;
        for (int d = 0; d < rank; d++)
            if (sizes[d] > 1 && strides[d] > last && strides[d] < least) least = strides[d];
        int64_t n = 0, more = 0;
        for (int d = 0; d < rank; d++)
            if (sizes[d] > 1 && strides[d] == least) n++, more += (sizes[d] - 1) * least;
        if (n > 1 || (n && least <= reach)) return true;
        reach += more, last = least;
    }
    return false;
}

static void set_meta(Gen *g, int v, int setting, const MetaOut *out) {
    GenVal *const val = &g->v[v];
    memcpy(val->at[setting].sizes, out->sizes, sizeof val->at[setting].sizes);
    memcpy(val->at[setting].strides, out->strides, sizeof val->at[setting].strides);
    const int64_t *const sizes = val->at[setting].sizes, *const strides = val->at[setting].strides;
    val->at[setting].meta = (Meta){.dtype = out->dtype,
                                   .device = DEV_cpu,
                                   .rank = out->rank,
                                   .contiguous = meta_is_contiguous(NULL, sizes, strides, out->rank),
                                   .numel = sym_product(NULL, sizes, out->rank),
                                   .sizes = sizes,
                                   .strides = strides};
    val->at[setting].val.meta = &val->at[setting].meta;
    val->overlaps = (setting && val->overlaps) || may_overlap(sizes, strides, out->rank);
    for (int d = 0; d < out->rank; d++) {
        if (setting) val->dims[d] = expression(g->p, val->at[0].sizes[d], sizes[d]);
    }
}

static void input_strides(const FzInput *in, MetaOut *out) {
    const int last = in->rank - 1;
    meta_contiguous_strides(NULL, out->sizes, out->rank, out->strides);
    if (in->layout == FZ_transposed && in->rank >= 2) {
        int64_t swapped[GEN_RANK];
        memcpy(swapped, out->sizes, sizeof swapped);
        swapped[last] = out->sizes[last - 1], swapped[last - 1] = out->sizes[last];
        meta_contiguous_strides(NULL, swapped, out->rank, out->strides);
        const int64_t inner = out->strides[last];
        out->strides[last] = out->strides[last - 1], out->strides[last - 1] = inner;
    } else if (in->layout == FZ_sliced && in->rank >= 1) {
        int64_t wide[GEN_RANK];
        memcpy(wide, out->sizes, sizeof wide);
        wide[last] += 3;
        meta_contiguous_strides(NULL, wide, out->rank, out->strides);
    } else if (in->layout == FZ_expanded && in->rank >= 1) {
        out->strides[0] = 0;
    } else if (in->layout == FZ_channels_last && in->rank >= 4) {
        out->strides[1] = 1, out->strides[last] = out->sizes[1];
        for (int d = last - 1; d >= 2; d--) out->strides[d] = out->strides[d + 1] * out->sizes[d + 1];
        out->strides[0] = out->strides[2] * out->sizes[2];
    }
}

static void note_input(Gen *g, int i) {
    const FzInput *const in = &g->p->inputs[i];
    g->v[i].memory = in->alias >= 0 ? in->alias : i;
    g->v[i].handle = i;
    if (in->alias >= 0) {
        const GenVal *const of = &g->v[in->alias];
        for (int s = 0; s < FZ_SETTINGS; s++) {
            MetaOut out = {.dtype = of->at[s].meta.dtype, .rank = of->at[s].meta.rank};
            memcpy(out.sizes, of->at[s].sizes, sizeof of->at[s].sizes);
            memcpy(out.strides, of->at[s].strides, sizeof of->at[s].strides);
            set_meta(g, i, s, &out);
        }
        g->v[i].grad = of->grad, g->v[i].leaf = of->leaf;
        g->v[i].low = of->low, g->v[i].high = of->high;
        return;
    }
    for (int s = 0; s < FZ_SETTINGS; s++) {
        MetaOut out = {.dtype = (DType)in->dtype, .rank = in->rank};
        for (int d = 0; d < in->rank; d++) out.sizes[d] = fz_int(g->p, in->sizes[d], s);
        input_strides(in, &out);
        set_meta(g, i, s, &out);
    }
    g->v[i].grad = g->v[i].leaf = in->grad;
    g->v[i].low = in->low, g->v[i].high = in->low || in->high ? in->high : in->low - 1;
}

/* Steps --------------------------------------------------------------------------------------- */

typedef struct Lists {
    int64_t ints[FZ_ARGS][FZ_LIST];
    Val *vals[FZ_ARGS][FZ_LIST];
} Lists;

static Arg as_arg(Gen *g, const FzArg *a, int s, int64_t *ints, Val **vals) {
    switch (a->kind) {
    case FZ_value:
        return A_VAL(&g->v[a->value].at[s].val);
    case FZ_int:
        return A_INT(fz_int(g->p, a->i, s));
    case FZ_float:
        return A_FLOAT(a->i.var < 0 ? a->f : a->f * (double)g->p->sizes[s][a->i.var]);
    case FZ_bool:
        return A_BOOL(a->i.value);
    case FZ_string:
        return A_STR(a->s);
    case FZ_ints:
        for (int i = 0; i < a->n; i++) ints[i] = fz_int(g->p, a->ints[i], s);
        return A_INTS(ints, a->n);
    case FZ_values:
        for (int i = 0; i < a->n; i++) vals[i] = &g->v[a->values[i]].at[s].val;
        return A_VALS(vals, a->n);
    default:
        return A_NONE;
    }
}

/* t_ and the like: the handle gets what the functional row says. */
static bool changes_handle(const OpRow *row, OpForm form) { return form == FORM_inplace && row->kind == KIND_view; }

/* Runs the meta rule under one setting; *n: room, then results. */
static bool infer(Gen *g, const FzStep *step, int s, MetaOut *outs, int *n) {
    OpForm form;
    Lists lists;
    Arg given[FZ_ARGS], args[MAX_ARGS + MAX_OUTS];
    const OpRow *const row = op_find(step->op, strlen(step->op), &form);
    const int written = row && form == FORM_out ? row->n_out : 0;
    if (!row || step->n_args < written) return false;
    for (int i = 0; i < step->n_args; i++) given[i] = as_arg(g, &step->args[i], s, lists.ints[i], lists.vals[i]);
    const int plain = step->n_args - written;
    Status status = op_args_of_form(row, form, given, plain, args);
    for (int i = 0; i < written; i++) args[row->n_params + i] = given[plain + i];
    GenCasts casts;
    if (status == ST_OK && form == FORM_functional) gen_autocast(g, row, args, &casts);
    if (written && row->options) op_args_fill_options(row, given[plain].val->meta, args);
    MetaCall call = {.row = row, .form = form, .args = args, .out = outs};
    if (changes_handle(row, form)) call.form = FORM_functional;
    call.n_out = row->returns_list ? *n : row->n_out;
    if (status == ST_OK) status = op_meta(&call);
    for (int i = 0; i < call.n_out && i < *n && op_is_made(row); i++) outs[i].wrapped = false; /* numbers: run.c */
    error_clear();
    *n = call.n_out;
    return status == ST_OK;
}

int64_t gen_bound(Gen *g, const OpRow *row, const FzStep *step, int item) {
    int64_t least = NO_INT;
    FzStep plain = *step;
    snprintf(plain.op, sizeof plain.op, "%s", op_form_name(row, FORM_functional));
    for (int s = 0; s < FZ_SETTINGS; s++) {
        Lists lists;
        MetaOut outs[GEN_OUTS];
        Arg given[FZ_ARGS], args[MAX_ARGS + MAX_OUTS];
        int n = GEN_OUTS;
        if (!infer(g, &plain, s, outs, &n)) return NO_INT;
        for (int i = 0; i < step->n_args; i++) given[i] = as_arg(g, &step->args[i], s, lists.ints[i], lists.vals[i]);
        if (op_args_of_form(row, FORM_functional, given, step->n_args, args) != ST_OK) return error_clear(), NO_INT;
        const int64_t bound = op_check_bound(row, args, item, NULL);
        least = least == NO_INT || bound < least ? bound : least;
    }
    return least;
}

static bool any_grad(const Gen *g, const FzStep *step) {
    for (int i = 0; i < step->n_args; i++) {
        const FzArg *const a = &step->args[i];
        if (a->kind == FZ_value && g->v[a->value].grad) return true;
        for (int k = 0; a->kind == FZ_values && k < a->n; k++)
            if (g->v[a->values[k]].grad) return true;
    }
    return false;
}

static bool may_write(const Gen *g, int v, bool grad) {
    return !g->v[v].overlaps && !(g->v[v].leaf && g->grad_on) && !(grad && !dtype_is_float(gen_dtype(g, v)));
}

static bool writes_allowed(const Gen *g, const FzStep *step, const OpRow *row, OpForm form) {
    const bool grad = g->grad_on && any_grad(g, step);
    if (form == FORM_inplace) return may_write(g, step->args[0].value, grad);
    for (int i = 0; form == FORM_out && i < row->n_out; i++)
        if (grad || !may_write(g, step->args[step->n_args - row->n_out + i].value, false)) return false;
    return true;
}

/* The argument that result i is or may be a view of; NULL: none. */
static const GenVal *shares_with(const Gen *g, const FzStep *step, const OpRow *row, OpForm form, int i, int alias) {
    const bool maybe = (row->flags & OPF_maybe_copy) != 0;
    const int at = form == FORM_out ? step->n_args - row->n_out + i : maybe || form == FORM_inplace ? 0 : alias;
    const bool of_value = at >= 0 && at < step->n_args && step->args[at].kind == FZ_value;
    return of_value ? &g->v[step->args[at].value] : NULL;
}

/* What is written is not in the range that was known of it, whatever it is called. */
static void forget_range(Gen *g, int memory) {
    for (int v = 0; v < g->p->n_values; v++)
        if (gen_live(g, v) && g->v[v].memory == memory) g->v[v].low = 0, g->v[v].high = -1;
}

static void note_saved(Gen *g, int memory) {
    for (int v = 0; v < g->p->n_values; v++)
        if (gen_live(g, v) && g->v[v].memory == memory) g->v[v].saved = true;
}

/* What an op that is differentiated takes, and gives. */
static void note_all_saved(Gen *g, const FzStep *step) {
    for (int i = 0; i < step->n_args; i++) {
        const FzArg *const a = &step->args[i];
        if (a->kind == FZ_value) note_saved(g, g->v[a->value].memory);
        for (int k = 0; a->kind == FZ_values && k < a->n; k++) note_saved(g, g->v[a->values[k]].memory);
    }
    for (int i = 0; i < step->n_out; i++) g->v[step->out + i].saved = true;
}

/* What is known of results besides their metadata. */
static void record_outputs(Gen *g, const FzStep *step, const OpRow *row, OpForm form, const MetaOut *outs) {
    const bool grad = g->grad_on && any_grad(g, step) && !(row->flags & OPF_nodiff);
    for (int i = 0; i < step->n_out; i++) {
        GenVal *const out = &g->v[step->out + i];
        const int alias = outs[i].alias;
        const bool of_value = alias >= 0 && alias < step->n_args && step->args[alias].kind == FZ_value;
        const GenVal *const source = of_value ? &g->v[step->args[alias].value] : NULL;
        out->grad = (grad && dtype_is_float(outs[i].dtype)) || (source && source->grad);
        out->leaf = source && source->leaf;
        if (source) out->overlaps |= source->overlaps;
        if (row->flags & OPF_maybe_copy) out->leaf = step->args[0].kind == FZ_value && g->v[step->args[0].value].leaf;
        const GenVal *const shared = shares_with(g, step, row, form, i, alias);
        out->memory = shared ? shared->memory : step->out + i;
        out->handle = shared && form != FORM_functional ? shared->handle : step->out + i;
        out->low = 0, out->high = -1;
        out->saved = false;
        if (shared && form != FORM_functional) forget_range(g, shared->memory);
    }
    if (grad) note_all_saved(g, step);
}

static void note_change(Gen *g, int handle, MetaOut all[FZ_SETTINGS][GEN_OUTS], int i) {
    for (int v = 0; v < g->p->n_values; v++)
        for (int s = 0; s < FZ_SETTINGS && gen_live(g, v) && g->v[v].handle == handle; s++)
            set_meta(g, v, s, &all[s][i]);
}

/* Fills step->out and what is known of the results; false: the op would fail. */
static bool record_one_step(Gen *g, FzStep *step) {
    MetaOut outs[GEN_OUTS] = {0}, all[FZ_SETTINGS][GEN_OUTS]; /* of the first setting, then of the second */
    OpForm form;
    const OpRow *const row = op_find(step->op, strlen(step->op), &form);
    if (!row) return false;
    const int first = g->p->n_values;
    for (int s = 0; s < FZ_SETTINGS; s++) {
        int n = GEN_OUTS;
        if (!infer(g, step, s, outs, &n) || n > GEN_OUTS || first + n > FZ_VALUES) return false;
        if (s && n != step->n_out) return false;
        step->out = first, step->n_out = n;
        for (int i = 0; i < n; i++) {
            if (outs[i].rank > FZ_DIMS) return false;
            set_meta(g, first + i, s, &outs[i]);
            const int64_t numel = g->v[first + i].at[s].meta.numel;
            if (numel < 0 || numel > most_elements()) return false; /* negative: a rule that leaves it to the memory */
        }
        memcpy(all[s], outs, sizeof outs);
    }
    if (!writes_allowed(g, step, row, form)) return false;
    record_outputs(g, step, row, form, outs);
    g->p->n_values = first + step->n_out;
    const int n_changed = form == FORM_out ? step->n_out : changes_handle(row, form); /* out: it may be resized */
    for (int i = 0; i < n_changed; i++) note_change(g, g->v[first + i].handle, all, i);
    return true;
}

bool gen_try(Gen *g, FzStep *step) {
    if (g->p->n_steps >= FZ_STEPS || !record_one_step(g, step)) return false;
    g->p->steps[g->p->n_steps++] = *step;
    return true;
}

/* Values on demand ---------------------------------------------------------------------------- */

static bool fits(const Gen *g, int v, DType dtype, const FzInt *dims, int rank, int64_t low, int64_t high) {
    if (!gen_live(g, v) || gen_dtype(g, v) != dtype || gen_rank(g, v) != rank) return false;
    if (low <= high && !(g->v[v].low <= g->v[v].high && g->v[v].low >= low && g->v[v].high <= high)) return false;
    for (int s = 0; s < FZ_SETTINGS; s++)
        for (int d = 0; d < rank; d++)
            if (g->v[v].at[s].sizes[d] != fz_int(g->p, dims[d], s)) return false;
    return true;
}

static int find_value(Gen *g, DType dtype, const FzInt *dims, int rank, int64_t low, int64_t high) {
    int found = -1, n = 0;
    for (int v = 0; v < g->p->n_values; v++)
        if (fits(g, v, dtype, dims, rank, low, high) && gen_below(g, ++n) == 0) found = v;
    return found;
}

static int add_input(Gen *g, DType dtype, const FzInt *dims, int rank, int64_t low, int64_t high) {
    FzInput in = {.dtype = (sn_dtype)dtype, .rank = rank, .alias = -1};
    memcpy(in.sizes, dims, sizeof *dims * (size_t)rank);
    if (!dtype_is_float(dtype)) {
        in.low = dtype == DT_bool ? 0 : gen_chance(g, 15) && dtype != DT_u8 ? -3 : 1;
        in.high = dtype == DT_bool ? 1 : 5;
        if (low <= high) in.low = low, in.high = high;
    }
    in.grad = g->training && dtype_is_float(dtype) && gen_chance(g, 60);
    const bool closed = gen_chance(g, 12); /* a fresh one in each call: such a function is not replayed */
    in.closed = closed && !g->stateful && !g->one_graph;
    if (rank >= 4 && gen_chance(g, 60))
        in.layout = FZ_channels_last;
    else if (gen_chance(g, 35))
        in.layout = (FzLayout)(1 + gen_below(g, gen_chance(g, 50) ? 2 : 3));
    const int i = g->p->n_inputs++;
    g->p->inputs[i] = in;
    note_input(g, i);
    return i;
}

static bool is_too_large(const FzProgram *p, const FzInt *dims, int rank) {
    for (int s = 0; s < FZ_SETTINGS; s++) {
        int64_t numel = 1;
        for (int d = 0; d < rank; d++) numel *= fz_int(p, dims[d], s);
        if (numel > most_elements()) return true;
    }
    return false;
}

static int make_step(Gen *g, DType dtype, const FzInt *dims, int rank, int64_t low, int64_t high) {
    FzStep step = {.kind = FZ_op, .op = "aten::full", .n_args = 3};
    step.args[0] = (FzArg){.kind = FZ_ints, .n = rank};
    memcpy(step.args[0].ints, dims, sizeof *dims * (size_t)rank);
    step.args[1] = dtype_is_float(dtype) ? (FzArg){.kind = FZ_float, .f = 0.75, .i.var = -1}
                                         : (FzArg){.kind = FZ_int, .i = {low <= high ? low : 1, -1}};
    step.args[2] = (FzArg){.kind = FZ_int, .i = {dtype, -1}};
    if (!gen_try(g, &step)) return -1;
    const int v = step.out;
    if (low <= high) g->v[v].low = g->v[v].high = low;
    return v;
}

int gen_value(Gen *g, DType dtype, const FzInt *dims, int rank, int64_t low, int64_t high) {
    if (rank > FZ_DIMS) return -1;
    for (int d = 0; d < rank; d++)
        if (dims[d].var >= FZ_SIZES) return -1;
    const int found = gen_chance(g, 75) ? find_value(g, dtype, dims, rank, low, high) : -1;
    if (found >= 0) return found;
    if (is_too_large(g->p, dims, rank)) return -1;
    if (g->p->n_inputs < FZ_INPUTS) return add_input(g, dtype, dims, rank, low, high);
    const int again = find_value(g, dtype, dims, rank, low, high);
    return again >= 0 ? again : make_step(g, dtype, dims, rank, low, high);
}

/* Forms --------------------------------------------------------------------------------------- */

typedef struct FormRow {
    const OpRow *row;
    OpForm form;
} FormRow;

static FormRow forms[OP_IDS * FORM_COUNT];
static int n_forms;

static void list_forms(void) {
    if (n_forms) return;
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *const row = op_row_at(i);
        if (row->flags & (OPF_internal | OPF_host) || row->role == ROLE_bits) continue; /* bits: NaNs show theirs */
        if (!row->n_out && !row->returns_list) continue; /* what is written lies in lists: calls.c */
        forms[n_forms++] = (FormRow){row, FORM_functional};
        if (row->inplace) forms[n_forms++] = (FormRow){row, FORM_inplace};
        if (row->out) forms[n_forms++] = (FormRow){row, FORM_out};
    }
}

int fz_form_count(void) {
    list_forms();
    return n_forms;
}

bool fz_form_has_run(const uint8_t *ran, int i) { return fz_has_run(ran, forms[i].row, forms[i].form); }

const char *fz_form_name(int i) { return op_form_name(forms[i].row, forms[i].form); }

/* One that was used least, of all. */
static int least_used(Gen *g) {
    const int first = (int)gen_below(g, n_forms);
    int best = first;
    for (int i = 1; i < n_forms; i++)
        if (g->uses[(first + i) % n_forms] < g->uses[best]) best = (first + i) % n_forms;
    return best;
}

/* Each kind of op with each type of what its rules branch on is as likely as any other. */
static int choose_structure(Gen *g) {
    const OpKind kind = (OpKind)gen_below(g, KIND_composite + 1);
    const uint32_t structure = 1u << gen_below(g, GEN_STRUCTURES);
    const int first = (int)gen_below(g, n_forms);
    for (int i = 0; i < n_forms; i++) {
        const FormRow *const form = &forms[(first + i) % n_forms];
        const bool plain = form->form == FORM_functional || gen_chance(g, 20);
        if (plain && form->row->kind == kind && gen_structure(form->row) & structure) return (first + i) % n_forms;
    }
    return -1;
}

/* Mostly one of those that were used least, so that each is reached however seldom it fits; views more often than their
 * share of the rows: they make aliases. */
static int choose_form(Gen *g) {
    const int structure = g->varied && gen_chance(g, 80) ? choose_structure(g) : -1;
    if (structure >= 0) return structure;
    if (gen_chance(g, 25)) return least_used(g);
    int best = (int)gen_below(g, n_forms);
    const bool view = gen_chance(g, 10);
    for (int i = 0; i < 60; i++) {
        const int other = (int)gen_below(g, n_forms);
        if (view ? forms[other].row->kind == KIND_view : g->uses[other] < g->uses[best]) best = other;
    }
    return best;
}

static bool writes_saved(const Gen *g, const FzStep *step, const FormRow *form) {
    if (form->form == FORM_inplace) return step->args[0].kind == FZ_value && g->v[step->args[0].value].saved;
    for (int i = 0; form->form == FORM_out && i < form->row->n_out; i++)
        if (g->v[step->args[step->n_args - form->row->n_out + i].value].saved) return true;
    return false;
}

/* Proposals may have made inputs and steps; those of a rejected one are taken back. */
static bool add_op(Gen *g) {
    const int form = choose_form(g);
    if (forms[form].form != FORM_functional && g->training && gen_chance(g, 85)) return false;
    for (int i = 0; i < 25; i++) {
        const int inputs = g->p->n_inputs, steps = g->p->n_steps, values = g->p->n_values;
        FzStep step = {.kind = FZ_op};
        const bool fits_somehow = gen_propose(g, forms[form].row, forms[form].form, &step);
        const bool spoils = fits_somehow && writes_saved(g, &step, &forms[form]) && gen_chance(g, 95);
        if (fits_somehow && !spoils && gen_try(g, &step)) {
            g->uses[form]++;
            return true;
        }
        g->p->n_inputs = inputs, g->p->n_steps = steps, g->p->n_values = values;
    }
    return false;
}

/* Other steps --------------------------------------------------------------------------------- */

static void add_plain(Gen *g, FzStep step) {
    if (g->p->n_steps < FZ_STEPS) g->p->steps[g->p->n_steps++] = step;
}

/* A value of one element made from some float value; -1: none. */
static int scalar_value(Gen *g, bool grad) {
    for (int i = 0; i < 30; i++) {
        const int v = gen_any(g);
        if (v < 0 || !dtype_is_float(gen_dtype(g, v)) || (grad && !g->v[v].grad)) continue;
        if (g->v[v].at[0].meta.numel == 1 && g->v[v].at[1].meta.numel == 1) return v;
        FzStep step = {.kind = FZ_op, .op = "aten::sum", .n_args = 1};
        step.args[0] = (FzArg){.kind = FZ_value, .value = v};
        return gen_try(g, &step) ? step.out : -1;
    }
    return -1;
}

/* The next round would find another layout. */
static bool changes_layout(const FzStep *step) {
    OpForm form;
    const OpRow *const row = step->kind == FZ_op ? op_find(step->op, strlen(step->op), &form) : NULL;
    return row && changes_handle(row, form);
}

static void add_loop(Gen *g) {
    const int from = (int)gen_below(g, max_i64(g->p->n_steps, 1));
    for (int i = from; i < g->p->n_steps; i++)
        if (g->p->steps[i].kind == FZ_loop || g->p->steps[i].kind == FZ_backward || changes_layout(&g->p->steps[i]))
            return;
    const int v = gen_chance(g, 40) ? scalar_value(g, false) : -1;
    if (v >= 0) add_plain(g, (FzStep){.kind = FZ_item, .value = v}); /* each round breaks */
    add_plain(g, (FzStep){.kind = FZ_loop, .from = from, .times = 2 + (int)gen_below(g, 2)});
}

static void set_grad_mode(Gen *g) {
    const int off = gen_chance(g, 25) ? SN_INFERENCE : SN_GRAD_OFF;
    const int mode = g->grad_on ? off : SN_GRAD_ON;
    g->grad_on = !g->grad_on;
    add_plain(g, (FzStep){.kind = FZ_grad_mode, .times = mode});
}

static void set_autocast(Gen *g) {
    g->autocast = g->autocast && gen_chance(g, 85) ? 0 : 1 + (int)gen_below(g, 2);
    add_plain(g, (FzStep){.kind = FZ_autocast, .times = g->autocast});
}

/* As an optimizer does: a leaf is written where gradients are off. */
static void add_update(Gen *g) {
    const bool grad_on = g->grad_on;
    FzStep step = {.kind = FZ_op, .op = "aten::add_.Tensor", .n_args = 3};
    const int leaf = (int)gen_below(g, g->p->n_inputs), other = gen_any(g);
    if (!g->p->inputs[leaf].grad || other < 0) return;
    step.args[0] = (FzArg){.kind = FZ_value, .value = leaf};
    step.args[1] = (FzArg){.kind = FZ_value, .value = other};
    step.args[2] = (FzArg){.kind = FZ_float, .f = -0.125, .i.var = -1};
    if (g->p->n_steps + 3 > FZ_STEPS) return;
    if (grad_on) set_grad_mode(g);
    if (!gen_try(g, &step)) step.args[1].value = leaf, gen_try(g, &step);
    if (grad_on) set_grad_mode(g);
}

static void add_other(Gen *g) {
    if (g->training && gen_chance(g, 20)) return add_update(g);
    const int64_t which = gen_below(g, 14);
    if (which < 3) {
        const int v = scalar_value(g, false);
        if (v >= 0) add_plain(g, (FzStep){.kind = FZ_item, .value = v});
    } else if (which < 4) {
        add_plain(g, (FzStep){.kind = FZ_break});
    } else if (which < 6) {
        add_loop(g);
    } else if (which < 8) {
        const bool wanted = g->grad_on && (!g->went_back || gen_chance(g, 10));
        const int v = wanted ? scalar_value(g, true) : -1;
        if (v >= 0) add_plain(g, (FzStep){.kind = FZ_backward, .value = v});
        g->went_back |= v >= 0;
    } else if (which < 9) {
        set_grad_mode(g);
    } else if (which < 11) {
        set_autocast(g);
    } else {
        const int v = gen_any(g);
        const FzStepKind kind = gen_chance(g, 40) ? FZ_print : FZ_keep;
        if (v >= (kind == FZ_keep ? FZ_INPUTS : 0)) add_plain(g, (FzStep){.kind = kind, .value = v});
    }
}

/* A product whose factor, or what it is of, is nothing that an argument says. */
static void add_stateful(Gen *g) {
    if (g->p->optim && gen_chance(g, 25)) return add_plain(g, (FzStep){.kind = FZ_optim_step});
    FzStep step = {.kind = FZ_op, .op = "aten::mul.Tensor", .n_args = 2};
    const int about = gen_any(g), first = (int)gen_below(g, g->p->n_inputs), v = gen_chance(g, 40) ? first : gen_any(g);
    if (v < 0 || about < 0 || !dtype_is_float(gen_dtype(g, v))) return;
    step.args[0] = (FzArg){.kind = FZ_value, .value = v};
    step.args[1] = (FzArg){.kind = FZ_float, .f = 0.5, .i.var = -1};
    step.how = gen_chance(g, 60) ? FZ_asking : FZ_of_grad;
    if (g->callees && (!g->p->n_steps || gen_chance(g, 20))) step.how = FZ_in_eager; /* also where nothing is pending */
    if (gen_chance(g, 15)) step.how = FZ_guarded;
    if (step.how == FZ_asking) step.query = (int)gen_below(g, fz_query_count());
    step.value = gen_chance(g, 60) ? first : about;
    gen_try(g, &step);
}

static bool is_row_major(const GenVal *v) {
    for (int s = 0; s < FZ_SETTINGS; s++) {
        const Meta *const meta = &v->at[s].meta;
        if (!meta->rank || !meta->sizes[0] || !meta_is_contiguous(NULL, meta->sizes, meta->strides, meta->rank))
            return false;
    }
    return true;
}

/* A product in a body of control flow, or what a transform of a function makes of a body: row-major, as what it takes
 * is. */
static void add_flow(Gen *g) {
    static const double factors[] = {0.5, 1.25, 0.75, 1.5}; /* func.c: the latter two with control flow inside */
    FzStep step = {.kind = FZ_op, .op = "aten::mul.Tensor", .n_args = 2};
    for (int i = 0; i < 10; i++) {
        const int v = gen_any(g);
        if (v < 0 || !dtype_is_float(gen_dtype(g, v)) || !is_row_major(&g->v[v])) continue;
        step.args[0] = (FzArg){.kind = FZ_value, .value = v};
        step.args[1] = (FzArg){.kind = FZ_float, .f = factors[gen_below(g, 4)], .i.var = -1};
        step.how = (FzHow)(FZ_in_cond + gen_below(g, FZ_HOWS - FZ_in_cond));
        if (step.how == FZ_in_while && g->grad_on && g->v[v].grad) step.how = FZ_in_scan; /* a loop gives none */
        gen_try(g, &step);
        return;
    }
}

/* What programs are to have more often than forms come together by chance. */
static void add_groups(Gen *g) {
    if (gen_chance(g, 1)) gen_generator(g);
    if (gen_chance(g, 5)) add_flow(g);
    if (gen_chance(g, 1)) gen_bools(g);
    if (gen_chance(g, 2)) gen_read_again(g);
    if (g->training && gen_chance(g, g->autocast ? 30 : 6)) gen_cast_leaf(g);
    if (gen_chance(g, 8)) gen_shifted(g);
    if (gen_chance(g, 4)) gen_user_op(g); /* no plan is saved with one */
}

static void add_steps(Gen *g, int ops) {
    for (int i = 0, tries = 0; i < ops && tries < 4 * ops; tries++) {
        if (g->p->n_steps > FZ_STEPS - 8 || g->p->n_values > FZ_VALUES - 12) break;
        if (g->stateful && gen_chance(g, g->callees && !g->p->n_steps ? 90 : 40)) add_stateful(g);
        if (!g->stateful && !g->one_graph && gen_chance(g, 9)) add_other(g);
        if (!g->one_graph && g->training && gen_chance(g, 3)) gen_pattern(g);
        if (!g->one_graph && g->p->n_steps < FZ_STEPS - 12) add_groups(g);
        i += add_op(g);
    }
}

/* Programs ------------------------------------------------------------------------------------ */

static void choose_sizes(Gen *g) {
    static const int8_t sizes[] = {1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33, 70};
    FzProgram *const p = g->p;
    p->n_sizes = 2 + (int)gen_below(g, 2);
    const bool change = gen_chance(g, g->one_graph ? 30 : 60);
    for (int i = 0; i < p->n_sizes; i++) {
        for (int s = 0; s < FZ_SETTINGS; s++) {
            p->sizes[s][i] = sizes[gen_below(g, COUNT_OF(sizes))];
            if (gen_chance(g, 2)) p->sizes[s][i] = 0;
        }
        if (!change || gen_chance(g, 30)) p->sizes[1][i] = p->sizes[0][i];
    }
}

/* Of sizes that no call changes. */
static void add_held(Gen *g) {
    static const int8_t sizes[] = {1, 2, 3, 4, 8};
    FzInt dims[2];
    const int rank = (int)gen_below(g, 3);
    for (int d = 0; d < rank; d++) dims[d] = (FzInt){sizes[gen_below(g, COUNT_OF(sizes))], -1};
    FzInput *const in = &g->p->inputs[add_input(g, gen_chance(g, 80) ? DT_f32 : DT_f64, dims, rank, 0, -1)];
    in->closed = in->held = true;
    if (in->layout == FZ_expanded) in->layout = FZ_contiguous;
    in->grad = gen_chance(g, 70);
    note_input(g, g->p->n_inputs - 1);
}

/* Another part of the block that a row-major input is in. */
static void add_shifted(Gen *g, int n) {
    const int of = (int)gen_below(g, n), i = g->p->n_inputs;
    FzInput *const in = &g->p->inputs[of];
    if (i == FZ_INPUTS || in->grad || in->held || in->alias >= 0) return;
    in->layout = FZ_contiguous;
    note_input(g, of);
    g->p->inputs[i] = *in;
    g->p->inputs[i].alias = of, g->p->inputs[i].shifted = true;
    if (gen_chance(g, 40)) g->p->inputs[i].closed = !in->closed;
    g->p->n_inputs++;
    note_input(g, i);
}

static void choose_inputs(Gen *g) {
    static const uint8_t others[] = {DT_i64, DT_i32, DT_bool, DT_i64, DT_u8, DT_i8};
    const int n = 1 + (int)gen_below(g, 3);
    FzInt rows[4] = {gen_dim(g), gen_dim(g), gen_dim(g), gen_dim(g)};
    const int highest = gen_chance(g, 15) ? 4 : 3;
    for (int i = 0; i < n; i++) { /* trailing dims in common, some of size 1: they broadcast */
        FzInt dims[4];
        int rank = gen_chance(g, 10) ? 0 : 1 + (int)gen_below(g, highest);
        for (int d = 0; d < rank; d++) dims[d] = gen_chance(g, 12) ? (FzInt){1, -1} : rows[4 - rank + d];
        while (is_too_large(g->p, dims, rank)) memmove(dims, dims + 1, sizeof *dims * (size_t)--rank);
        const DType dtype = gen_chance(g, 80) ? gen_float(g) : (DType)others[gen_below(g, 6)];
        add_input(g, dtype, dims, rank, 0, -1);
    }
    for (int i = 0; i < (g->stateful ? 2 : g->one_graph); i++) add_held(g);
    for (int i = n; g->stateful && i < g->p->n_inputs; i++) /* an optimizer has leaves */
        if (g->p->inputs[i].grad) g->p->optim = (int)gen_below(g, 5);
    g->p->scaler = g->p->optim && gen_chance(g, 40);
    for (int i = n; i < g->p->n_inputs; i++) /* whose gradients are refused */
        if (g->p->inputs[i].dtype == SN_F16) g->p->scaler = false;
    if (g->varied && gen_chance(g, 40)) add_shifted(g, n);
    if (gen_chance(g, 8)) {
        const int of = (int)gen_below(g, n), i = g->p->n_inputs++;
        g->p->inputs[i] = g->p->inputs[of];
        g->p->inputs[i].alias = of;
        g->p->inputs[i].grad = false;
        note_input(g, i);
    }
}

static bool is_returned(const FzProgram *p, int v) {
    for (int i = 0; i < p->n_returns; i++)
        if (p->returns[i] == v) return true;
    return false;
}

/* Another tensor of the memory of a result; -1: none. */
static int beside_a_result(Gen *g) {
    const FzProgram *const p = g->p;
    const int of = p->n_returns ? p->returns[gen_below(g, p->n_returns)] : 0, n = p->n_values - FZ_INPUTS;
    for (int i = 0, k = n ? (int)gen_below(g, n) : 0; p->n_returns && i < n; i++) {
        const int v = FZ_INPUTS + (k + i) % n;
        if (gen_live(g, v) && g->v[v].memory == g->v[of].memory && g->v[v].handle >= FZ_INPUTS && !is_returned(p, v))
            return v;
    }
    return -1;
}

static void choose_returns(Gen *g) {
    FzProgram *const p = g->p;
    const int n = 1 + (int)gen_below(g, 3);
    p->n_returns = 0;
    for (int i = 0; i < n; i++) {
        const int v = i || p->n_values == FZ_INPUTS ? gen_any(g) : p->n_values - 1;
        const bool given = v >= 0 && g->v[v].handle < FZ_INPUTS;
        const bool left_out = given && (g->one_graph || (g->stateful && gen_chance(g, 80)));
        if (v >= 0 && gen_live(g, v) && !left_out) p->returns[p->n_returns++] = v;
    }
    const int beside = (g->one_graph || g->stateful) && gen_chance(g, 40) ? beside_a_result(g) : -1;
    if (beside >= 0) p->returns[p->n_returns++] = beside;
    if (g->result) p->returns[p->n_returns++] = g->result;
    p->outer_backward = gen_chance(g, g->went_back ? 5 : 35);
    p->outer_write = gen_chance(g, 15);
}

enum {
    ONE_GRAPH_EVERY = 10,
    API_MODE_EVERY = 13,
    FUNCTIONAL_EVERY = 11,
    PACKS_EVERY = 9,
    HOOKED_EVERY = 4,
    MARKED_EVERY = 7,
    WOVEN_EVERY = 6,
    VARIED_EVERY = 3,
    GIVEN_EVERY = 3,
    CROWD_EVERY = 61
};

static void generate(FzProgram *p, uint64_t seed, int64_t *form_uses, bool stateful) {
    static Gen g;
    list_forms();
    memset(&g, 0, sizeof g);
    memset(p, 0, sizeof *p);
    g = (Gen){.p = p, .random = first_random(seed, stateful), .uses = form_uses, .grad_on = true};
    p->n_values = FZ_INPUTS;
    g.training = gen_chance(&g, 30);
    g.stateful = stateful;
    g.one_graph = !stateful && seed % ONE_GRAPH_EVERY == 7;
    g.varied = !stateful && !g.one_graph && seed % VARIED_EVERY == 2;
    p->given = g.varied && seed / VARIED_EVERY % GIVEN_EVERY == 1;
    p->functional = seed % FUNCTIONAL_EVERY == 3;
    p->api_mode = seed % API_MODE_EVERY == 5;
    p->packs = !stateful && seed % PACKS_EVERY == 4;
    p->hooked = seed % HOOKED_EVERY == 2;
    if (!stateful && seed % CROWD_EVERY == 9) p->crowd = 500 + (int)(seed / CROWD_EVERY * 97 % (FZ_CROWD - 500));
    p->marked = seed % MARKED_EVERY == 3;
    if (stateful) p->no_grad = gen_chance(&g, 70), g.callees = gen_chance(&g, 30);
    if (p->no_grad) g.grad_on = false;
    if (gen_chance(&g, 12)) p->region = g.autocast = 1 + (int)gen_below(&g, 2);
    choose_sizes(&g);
    choose_inputs(&g);
    for (int i = 0; p->given && i < p->n_inputs; i++) p->inputs[i].closed = false; /* replay binds it */
    const bool woven = !stateful && seed % WOVEN_EVERY == 1;
    add_steps(&g, woven ? 1 : 3 + (int)gen_below(&g, 12));
    if (p->given) gen_branching(&g);
    if (woven) gen_weave(&g, 15 + (int)gen_below(&g, 15));
    choose_returns(&g);
    if (!stateful && !g.one_graph) gen_regions(&g);
    if (g.varied) gen_varies(&g);
    if (p->given && !p->n_varies) p->given = false;
}

void fz_generate(FzProgram *p, uint64_t seed, int64_t *form_uses) { generate(p, seed, form_uses, false); }
void fz_generate_stateful(FzProgram *p, uint64_t seed, int64_t *form_uses) { generate(p, seed, form_uses, true); }

/* With p's inputs, for steps that follow. */
static void begin_again(Gen *g, const FzProgram *p, FzProgram *out) {
    *out = *p;
    *g = (Gen){.p = out, .grad_on = !p->no_grad, .autocast = p->region, .stateful = fz_has_state(p)};
    for (int i = 0; i < p->n_inputs; i++) {
        note_input(g, i);
        g->training |= p->inputs[i].grad;
    }
    out->n_steps = out->n_varies = 0;
    out->n_values = FZ_INPUTS;
}

static bool repeat_step(Gen *g, FzStep step) {
    if (step.kind == FZ_grad_mode) g->grad_on = step.times == SN_GRAD_ON;
    if (step.kind == FZ_autocast) g->autocast = step.times;
    if (step.kind == FZ_op) return gen_try(g, &step);
    add_plain(g, step);
    return true;
}

static bool same_results(const FzStep *a, const FzStep *b) { return a->out == b->out && a->n_out == b->n_out; }

bool gen_remains_valid(const FzProgram *p, const FzVary *vary) {
    static Gen g;
    static FzProgram out;
    begin_again(&g, p, &out);
    for (int i = 0; i < p->n_steps; i++) {
        FzStep step = p->steps[i];
        if (i == vary->step) step.args[vary->arg] = vary->to;
        if (!repeat_step(&g, step) || !same_results(&out.steps[i], &p->steps[i])) return false;
    }
    return true;
}

void fz_variant(const FzProgram *p, int keep, uint64_t seed, int64_t *form_uses, FzProgram *out) {
    static Gen g;
    begin_again(&g, p, out);
    g.random = first_random(seed, true), g.uses = form_uses;
    for (int i = 0; i < keep && repeat_step(&g, p->steps[i]); i++)
        ;
    for (int i = 0; i < p->n_varies; i++)
        if (p->varies[i].step < out->n_steps) out->varies[out->n_varies++] = p->varies[i];
    add_steps(&g, 1 + (int)gen_below(&g, 4));
    choose_returns(&g);
}
