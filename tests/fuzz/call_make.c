/* call_make.c: how a wild call is made: a sample of the row (tests/ops) of which some arguments are replaced, or
 * arguments by the schema alone. What replaces them is mostly of the parameter's kind, and mostly at the end of some
 * range: counts of 0, -1, 2^31 and 2^62, dims that are not there, lists that are empty or longer than any rank, ranks
 * up to the limit, sizes of 0 and 1 beside huge ones, other dtypes, absent tensors, tensors without data. */
#include <inttypes.h>
#include <math.h>

#include "ir/schema.h"
#include "runtime/base/error.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/run.h"
#include "tests/ops/samples.h"

static uint64_t dice;
static int64_t roll(int64_t n) { return (int64_t)((fz_next(&dice) >> 16) % (uint64_t)n); }
static bool chance(int percent) { return roll(100) < percent; }
#define PICK(array) (array)[roll(COUNT_OF(array))]

/* numbers --------------------------------------------------------------------------------------- */

static const int64_t wild_ints[] = {INT64_MAX,
                                    INT64_MIN,
                                    INT64_MIN + 1,
                                    INT64_C(1) << 62,
                                    -(INT64_C(1) << 62),
                                    INT64_C(1) << 31,
                                    (INT64_C(1) << 31) - 1,
                                    -(INT64_C(1) << 31),
                                    INT64_C(1) << 32,
                                    (INT64_C(1) << 32) + 1,
                                    INT64_C(1) << 40,
                                    (INT64_C(1) << 61) + 1,
                                    1 << 20,
                                    65535,
                                    1025,
                                    1024,
                                    1023,
                                    65,
                                    64,
                                    63,
                                    40,
                                    -40};
static const double wild_floats[] = {NAN,   INFINITY, -INFINITY, 0.0,  -0.0,   -1,
                                     1e300, -1e300,   5e-324,    1e19, 0x1p63, 1e-7};

static int64_t any_int(void) {
    if (chance(60)) return roll(8) - 3;
    return PICK(wild_ints);
}

static double any_float(void) { return chance(50) ? (double)(roll(17) - 8) / 4 : PICK(wild_floats); }

/* Of one of the lengths that lists have, or of one that none has. */
static int64_t list_length(void) {
    static const int64_t lengths[] = {0, 1, 2, 2, 3, 4, 4, 5, 6, 8, 63, 64, 65, 200, CALL_LIST};
    return PICK(lengths);
}

static sn_value any_ints(WildCall *call) {
    const int64_t n = list_length();
    int64_t *const list = ARENA_ARRAY(call->arena, int64_t, n + 1);
    const bool tame = chance(40);
    for (int64_t i = 0; i < n; i++) list[i] = n > 8 ? roll(3) == 0 : tame ? roll(4) : any_int();
    if (n > 8) list[roll(n)] = any_int();
    return sn_ints_value((sn_ints){list, n});
}

static sn_value any_floats(WildCall *call) {
    const int n = (int)roll(5);
    double *const list = ARENA_ARRAY(call->arena, double, n + 1);
    for (int i = 0; i < n; i++) list[i] = any_float();
    return (sn_value){.kind = SN_KIND_FLOATS, .n = n, .floats = list};
}

/* tensors --------------------------------------------------------------------------------------- */

static sn_tensor *added(WildCall *call, sn_tensor *t) {
    sn_error_take();
    for (int i = 0; t && i < call->n_tensors; i++)
        if (call->tensors[i] == t) return t;
    if (!t || call->n_tensors == CALL_TENSORS) return NULL;
    return call->tensors[call->n_tensors++] = t;
}

/* Small sizes; now and then one that only fits beside a 0 or under stride 0, or as many dims as there may be. */
static int any_sizes(int64_t *sizes) {
    static const int64_t dims[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 8};
    const int rank = chance(4) ? MAX_RANK - (int)roll(2) : (int)roll(6);
    for (int d = 0; d < rank; d++) sizes[d] = rank > 6 ? 1 : PICK(dims);
    if (rank > 6) sizes[roll(rank)] = roll(3);
    if (rank >= 2 && chance(6)) sizes[roll(rank)] = 0, sizes[roll(rank)] = PICK(wild_ints);
    for (int d = 0; d < rank; d++)
        if (sizes[d] < 0) sizes[d] = 0;
    return rank;
}

/* How many elements; most: so many or more. */
static int64_t count_up_to(int64_t most, const int64_t *sizes, int rank) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) {
        if (!sizes[d]) return 0;
        n = sizes[d] < most / n ? n * sizes[d] : most;
    }
    return n;
}

static sn_tensor *filled(const int64_t *sizes, int rank, DType dtype) {
    double data[64];
    const bool special = chance(30);
    for (int i = 0; i < COUNT_OF(data); i++)
        data[i] = special && chance(20) ? PICK(wild_floats) : (double)roll(9) - (chance(50) ? 0 : 4);
    const int64_t n = count_up_to(COUNT_OF(data) + 1, sizes, rank);
    sn_tensor *const some = sn_to(sn_from_data(data, SN_INTS(COUNT_OF(data)), SN_F64), (sn_dtype)dtype);
    if (n <= COUNT_OF(data) && n) return sn_reshape(sn_clone(sn_narrow(some, 0, 0, n)), (sn_ints){sizes, rank});
    sn_tensor *const whole = sn_empty((sn_ints){sizes, rank}, (sn_dtype)dtype);
    return n ? sn_copy_(whole, sn_select(some, 0, roll(COUNT_OF(data)))) : whole;
}

static sn_tensor *reordered(sn_tensor *t) {
    const int rank = t ? sn_rank(t) : 0;
    if (!rank) return t;
    switch (roll(4)) {
    case 0:
        return sn_transpose(t, 0, rank - 1);
    case 1:
        return sn_slice(t, roll(rank), 1, INT64_MAX, 2);
    case 2: {
        int64_t sizes[MAX_RANK];
        for (int d = 0; d < rank; d++) sizes[d] = sn_size(t, d) == 1 && chance(50) ? 3 : sn_size(t, d);
        return rank < 6 ? sn_expand(t, (sn_ints){sizes, rank}) : t;
    }
    default:
        return sn_flip(t, SN_INTS(0));
    }
}

static DType any_dtype(void) { return chance(45) ? DT_f32 : (DType)(1 + roll(DT_COUNT - 1)); }

static sn_tensor *made_tensor(void) {
    int64_t sizes[MAX_RANK];
    const int rank = any_sizes(sizes);
    const DType dtype = any_dtype();
    if (chance(3))
        return sn_empty_ex((sn_ints){sizes, rank}, (sn_dtype)dtype, sn_none(), sn_int(SN_META), sn_none(), sn_none());
    sn_tensor *t = filled(sizes, rank, dtype);
    if (chance(30)) t = reordered(t);
    if (t && dtype_is_float(dtype) && chance(25)) t = sn_requires_grad_(sn_detach(t), true);
    if (t && sn_requires_grad(t) && chance(20)) t = sn_alias(t);
    return t;
}

/* One that the call has already, a new one, or none. */
static sn_tensor *any_tensor(WildCall *call) {
    if (chance(4)) return NULL;
    if (call->n_tensors && chance(40)) return call->tensors[roll(call->n_tensors)];
    return added(call, made_tensor());
}

static sn_value any_tensors(WildCall *call) {
    const int64_t n = list_length();
    sn_tensor **const list = ARENA_ARRAY(call->arena, sn_tensor *, n + 1);
    for (int64_t i = 0; i < n; i++) list[i] = i && chance(60) ? list[i - 1] : any_tensor(call);
    return sn_tensors_value((sn_tensors){list, n});
}

/* arguments ------------------------------------------------------------------------------------- */

static sn_value any_string(void) {
    static const char *const words[] = {"", "none", "tanh", "mean", "sum", "floor", "trunc", "sideways", "ij", "%s%n"};
    return sn_str(PICK(words));
}

static sn_value wild_value(WildCall *call, ParamType type) {
    if (param_type_optional(type) && chance(25)) return sn_none();
    switch (type) {
    case PT_tensor:
    case PT_tensor_opt:
        return sn_val(any_tensor(call));
    case PT_tensors:
    case PT_tensors_opt:
        return any_tensors(call);
    case PT_scalar:
    case PT_scalar_opt:
        return chance(50) ? sn_float(any_float()) : sn_int(any_int());
    case PT_float:
    case PT_float_opt:
        return sn_float(any_float());
    case PT_bool:
    case PT_bool_opt:
        return sn_bool(chance(50));
    case PT_string:
    case PT_string_opt:
        return any_string();
    case PT_ints:
    case PT_ints_opt:
        return any_ints(call);
    case PT_int1:
    case PT_int1_opt:
        return chance(50) ? any_ints(call) : sn_int(any_int());
    case PT_floats_opt:
        return any_floats(call);
    case PT_scalars:
        return chance(50) ? any_floats(call) : any_ints(call);
    default:
        return sn_int(any_int());
    }
}

static ParamType any_type(void) { return (ParamType)roll(PT_scalars + 1); }

static void replace(WildCall *call, int i) {
    const int n = op_form_params(call->row, call->form);
    const ParamType type = i < n ? call->row->params[op_form_param(call->row, call->form, i)].type : PT_tensor;
    sn_value *const given = &call->in[i];
    if (given->kind == SN_KIND_INTS && given->n && chance(60)) { /* one int of the list */
        int64_t *const list = arena_copy(call->arena, given->ints, sizeof *list * (size_t)given->n);
        list[roll(given->n)] = any_int();
        *given = sn_ints_value((sn_ints){list, given->n});
        return;
    }
    *given = wild_value(call, chance(95) ? type : any_type());
}

/* The wild call's arguments ----------------------------------------------------------------------- */

static sn_value public_value(Arg arg) {
    union {
        Arg arg;
        sn_value value;
    } same = {.arg = arg};
    return same.value;
}

static const char *any_line(const OpRow *row) {
    const char *const *const lines = samples_of(row)->good;
    int at = 0, n = 0;
    while (samples_next(row, lines, &at)) n++;
    if (!n) return NULL;
    at = 0;
    for (int64_t left = roll(n); left > 0; left--) samples_next(row, lines, &at);
    return samples_next(row, lines, &at);
}

static bool sampled_outs(WildCall *call, const SampleCall *sample) {
    sn_tensor *outs[MAX_LIST];
    int n = 0;
    if (sample_run(sample, outs, &n) != ST_OK) return false;
    for (int i = 0; i < call->row->n_out; i++)
        call->in[call->n_in++] = sn_val(added(call, sn_clone(sn_detach(outs[i]))));
    return !sn_check();
}

/* A call of one of the row's samples. */
static bool sampled(WildCall *call) {
    const char *const line = any_line(call->row);
    SampleCall *const sample = ARENA_NEW(call->arena, SampleCall);
    const SampleStyle style = {.dtype = chance(70) ? DT_f32 : any_dtype(),
                               .layout = (Layout)roll(LAYOUT_COUNT),
                               .special = chance(30),
                               .leaves = chance(40),
                               .seed = (uint64_t)roll(1000)};
    if (!line || sample_make(call->row, line, &style, sample) != ST_OK) return false;
    for (int i = 0; i < sample->n_tensors; i++) added(call, sample->tensors[i]);
    call->n_in = op_form_params(call->row, call->form);
    for (int i = 0; i < call->n_in; i++)
        call->in[i] = public_value(sample->args[op_form_param(call->row, call->form, i)]);
    return call->form != FORM_out || sampled_outs(call, sample);
}

static void by_schema(WildCall *call) {
    const int n = op_form_params(call->row, call->form), outs = call->form == FORM_out ? call->row->n_out : 0;
    call->n_tensors = 0;
    call->n_in = n + outs;
    for (int i = 0; i < call->n_in; i++) {
        const Param *const param = i < n ? &call->row->params[op_form_param(call->row, call->form, i)] : NULL;
        const bool left_out = param && param->fallback.kind != ARG_default && chance(60);
        call->in[i] =
            left_out ? (sn_value){.kind = SN_KIND_DEFAULT} : wild_value(call, param ? param->type : PT_tensor);
    }
}

static void make_wild(WildCall *call) {
    static const int many[] = {1, 1, 1, 1, 1, 2, 2, 3, 6};
    for (int left = PICK(many); left && call->n_in; left--) replace(call, (int)roll(call->n_in));
    if (chance(1)) call->n_in -= (int)roll(call->n_in + 1);
    if (chance(1)) call->in[call->n_in++] = sn_int(any_int());
}

static bool has_form(const OpRow *row, OpForm form) {
    return form == FORM_functional || (form == FORM_inplace ? row->inplace : row->out != NULL);
}

static void choose_op(WildCall *call, const char *only) {
    do {
        call->row = op_row_at(roll(op_row_count()));
        call->form = (OpForm)roll(FORM_COUNT);
    } while (call->row->flags & OPF_internal || !has_form(call->row, call->form) ||
             (only && strcmp(only, call->row->name) != 0));
    call->op = sn_op_find(op_form_name(call->row, call->form));
}

void fz_call_make(WildCall *call, uint64_t seed, const char *only, Arena *arena) {
    dice = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    *call = (WildCall){.arena = arena};
    sn_seed(seed); /* samples may be random */
    choose_op(call, only);
    const bool whole = chance(75) && sampled(call);
    sn_error_take();
    if (whole)
        make_wild(call);
    else
        by_schema(call);
    sn_error_take();
}

/* text ------------------------------------------------------------------------------------------ */

static void print_tensor(const WildCall *call, Text *text, const sn_tensor *t) {
    if (!t) {
        text_puts(text, "NULL");
        return;
    }
    for (int i = 0; i < call->n_tensors; i++)
        if (call->tensors[i] == t) text_printf(text, "t%d:", i);
    meta_print(NULL, text, t->base.meta);
    if (sn_requires_grad((sn_tensor *)t)) text_puts(text, " grad");
}

static void print_value(const WildCall *call, Text *text, const sn_value *v) {
    switch (v->kind) {
    case SN_KIND_DEFAULT:
    case SN_KIND_NONE:
        text_puts(text, v->kind == SN_KIND_NONE ? "none" : "default");
        return;
    case SN_KIND_TENSOR:
        print_tensor(call, text, v->tensor);
        return;
    case SN_KIND_INT:
    case SN_KIND_BOOL:
        text_printf(text, v->kind == SN_KIND_BOOL ? "b:%" PRId64 : "%" PRId64, v->i);
        return;
    case SN_KIND_FLOAT:
        text_printf(text, "f:%.17g", v->f);
        return;
    case SN_KIND_STRING:
        text_printf(text, "'%s'", v->string);
        return;
    default:
        break;
    }
    text_printf(text, "%d of [", (int)v->n);
    for (int i = 0; i < v->n && i < 12; i++) {
        text_puts(text, i ? ", " : "");
        if (v->kind == SN_KIND_INTS) text_printf(text, "%" PRId64, v->ints[i]);
        if (v->kind == SN_KIND_FLOATS) text_printf(text, "%g", v->floats[i]);
        if (v->kind == SN_KIND_TENSORS) print_tensor(call, text, v->tensors[i]);
    }
    text_puts(text, v->n > 12 ? ", ...]" : "]");
}

void fz_call_print(const WildCall *call, Text *text) {
    text_printf(text, "%s(", op_form_name(call->row, call->form));
    for (int i = 0; i < call->n_in; i++) {
        if (i) text_puts(text, ", ");
        print_value(call, text, &call->in[i]);
    }
    text_puts(text, ")\n");
}
