/* check_compiled.c: a function of one op, compiled against eager, bit for bit [semantics B1]: results with their
 * metadata, inputs afterwards, errors; floats with NaNs, infinities, zeros and denormals among them. Every dtype
 * contiguous, every layout in f32; by generated code every dtype of a row's first sample, and each other sample in f32;
 * 1 and 2 threads at the best instruction set there is (SINTER_ISA lowers it), and those below it. */
#include <math.h>

#include "kernels/kernels.h"
#include "runtime/base/bail.h"
#include "runtime/base/error.h"
#include "runtime/core/pool.h"
#include "runtime/device/execute.h"
#include "runtime/eager/eager_code.h"
#include "tests/ops/ops.h"
#include "tests/ops/symbolic.h"

typedef struct OneOp { /* the closure of the function */
    const SampleCall *call;
    OpForm form;
    sn_tensor *out_args[MAX_OUTS];
    int n_in, n_out;
} OneOp;

/* What the body sees as input i stands for tensor i of the sample; out tensors follow. */
static sn_value value_of(sn_frame *f, const SampleCall *call, const Arg *arg, sn_tensor **list) {
    sn_value value;
    memcpy(&value, arg, sizeof value);
    if (arg->kind == ARG_tensor)
        for (int i = 0; i < call->n_tensors; i++)
            if (&call->tensors[i]->base == arg->val) return sn_val(sn_in(f, i));
    if (arg->kind != ARG_tensors) return value;
    for (int k = 0; k < arg->n; k++)
        for (int i = 0; i < call->n_tensors; i++)
            if (&call->tensors[i]->base == arg->vals[k]) list[k] = sn_in(f, i);
    value.tensors = list;
    return value;
}

static sn_status body(sn_frame *f) {
    OneOp *const one = sn_closure(f);
    const SampleCall *const call = one->call;
    const OpRow *const row = call->row;
    sn_value in[MAX_ARGS + MAX_OUTS], out[MAX_LIST];
    sn_tensor *list[SAMPLE_TENSORS] = {NULL};
    int n = op_form_params(row, one->form), n_out = MAX_LIST;
    for (int i = 0; i < n; i++) in[i] = value_of(f, call, &call->args[op_form_param(row, one->form, i)], list);
    for (int i = 0; one->form == FORM_out && i < row->n_out; i++) in[n++] = sn_val(sn_in(f, call->n_tensors + i));
    if (sn_op_call(sn_op_find(op_form_name(row, one->form)), in, n, out, &n_out) != SN_OK) return sn_check();
    for (int i = 0; i < n_out; i++) sn_out(f, i, out[i].tensor);
    return sn_check();
}

/* Inputs are made anew for every call: forms write them. */
static void prepare(const Case *c, OneOp *one, SampleCall *call, sn_tensor **in, const MetaOut *like) {
    sample_make(c->row, c->line, &c->style, call);
    memcpy(in, call->tensors, sizeof *in * (size_t)call->n_tensors);
    one->n_in = call->n_tensors;
    for (int i = 0; one->form == FORM_out && i < c->row->n_out; i++)
        in[one->n_in++] = sn_zeros((sn_ints){like[i].sizes, like[i].rank}, (sn_dtype)like[i].dtype);
}

/* One call; text gets all that can be seen of it. */
static void see_call(const Case *c, sn_function *fn, OneOp *one, const MetaOut *like, Text *text) {
    const sn_scope scope = sn_scope_begin();
    SampleCall call;
    sn_tensor *in[SAMPLE_TENSORS + MAX_OUTS], *out[MAX_LIST] = {NULL};
    one->call = &call;
    prepare(c, one, &call, in, like);
    sn_seed(3);
    if (sn_call(fn, in, one->n_in, out, one->n_out) == SN_OK) {
        for (int i = 0; i < one->n_out; i++) ops_show(text, out[i]);
        for (int i = 0; i < one->n_in; i++) ops_show(text, in[i]);
    }
    if (sn_check() != SN_OK) {
        const sn_error *const error = sn_error_take();
        text_printf(text, "error %d: %s\n", (int)error->status, error->message);
    }
    sn_scope_end(scope);
}

/* How a mode runs: path is what a call of ops that compute takes at best. */
typedef struct Way {
    const char *name, *failpoint;
    int down, threads; /* down: levels below the best */
    sn_dynamic dynamic;
    bool alone; /* ops run eagerly */
} Way;

/* What breaks a graph by design: such a call of one op is eager. */
static bool is_listed(const char *reason) {
    static const char *const breaks[] = {"a view in another dtype", "as_strided reaches beyond its argument"};
    for (int i = 0; i < COUNT_OF(breaks); i++)
        if (!strcmp(reason, breaks[i])) return true;
    return false;
}

/* Listed, where all sizes are symbols (symbolic.h). */
static bool is_unlowered(const Case *c, const Way *way) {
    return way->dynamic == SN_DYNAMIC_ALWAYS && symbolic_listed(c->row, SYMBOLIC_forward);
}

static bool ran_eagerly(void) {
    sn_call_report report = {.size = sizeof report};
    return sn_last_call(&report) == SN_OK && report.path != SN_PATH_COMPILED && report.path != SN_PATH_INTERPRETED &&
           !is_listed(report.reason);
}

static void compare(const Case *c, const Way *way, OneOp *one, const MetaOut *like, const char *want) {
    sn_function *const fn = sn_compile(body, one, SN_COMPILE_OPTIONS(.dynamic = way->dynamic));
    failpoint_set(way->failpoint);
    isa_force((int)isa_used() - way->down);
    pool_threads_set(way->threads);
    for (int i = 0; i < 2; i++) { /* the one that compiles, the one that finds it compiled */
        Text got = {0};
        see_call(c, fn, one, like, &got);
        if (strcmp(want, text_str(&got)))
            ops_fail(c, "%s %s, %s, call %d\n  eager    %.400s\n  compiled %.400s", way->name, isa_name(isa_used()),
                     op_form_name(c->row, one->form), i + 1, want, text_str(&got));
        text_free(&got);
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    if (stats.ops_eager && !way->alone && strncmp(want, "error", 5) && ran_eagerly() && !is_unlowered(c, way))
        ops_fail(c, "%s: ran eagerly: %.300s", way->name, sn_explain(fn));
    failpoint_set("");
    isa_force(-1);
    pool_threads_set(1);
    sn_function_free(fn);
}

static bool unset(const OpRow *row) { return row->kind == KIND_kernel && !strcmp(row->body, "empty"); }

/* Metadata of the results, for out tensors. False: the case is refused. */
static bool shapes_of(const Case *c, MetaOut *like, int *n) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    if (!ops_run(c, &call, outs, n)) return false;
    for (int i = 0; i < *n && i < MAX_OUTS; i++) {
        const Meta *const meta = outs[i]->base.meta;
        like[i] = (MetaOut){.dtype = meta->dtype, .rank = meta->rank};
        memcpy(like[i].sizes, meta->sizes, sizeof *meta->sizes * (size_t)meta->rank);
    }
    return true;
}

static void check_ways(const Case *c, OpForm form, const Way *ways, int n_ways) {
    MetaOut like[MAX_OUTS];
    OneOp one = {.form = form};
    Text want = {0};
    if (unset(c->row)) ops_count(); /* nothing to compare */
    if (unset(c->row) || !shapes_of(c, like, &one.n_out)) return;
    sn_function *const eager = sn_compile(body, &one, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    see_call(c, eager, &one, like, &want);
    sn_function_free(eager);
    for (int i = 0; i < n_ways; i++) compare(c, &ways[i], &one, like, text_str(&want));
    text_free(&want);
}

static const Way interpreter[] = {{"interpreter", "codegen", 0, 1}};
static const Way native[] = {{"1 thread, native", "", 0, 1},
                             {"2 threads, native", "", 0, 2},
                             {"1 thread, native", "", 1, 1},
                             {"1 thread, native", "", 2, 1}};

static bool is_plain(const Case *c) { return c->style.layout == LAYOUT_contiguous; }
static bool is_usual(const Case *c) {
    return c->style.dtype == DT_f32 || (c->style.dtype == DT_i32 && !c->row->derivative);
}

/* All dtypes of the first sample, all layouts in f32. */
static bool tells_most(const Case *c) { return (c->number == 0 && is_plain(c)) || is_usual(c); }

void check_compiled(const Case *c) {
    Case special = *c;
    special.style.special = true;
    if (tells_most(c) || is_plain(c)) check_ways(&special, FORM_functional, interpreter, 1);
}

/* Also with ops that do not lower, which eager runs in the middle of a plan. */
static const Way symbolic[] = {{"all sizes symbolic", "codegen", 0, 1, SN_DYNAMIC_ALWAYS},
                               {"some ops alone", "codegen,some_alone", 0, 1, SN_DYNAMIC_ALWAYS, .alone = true}};

void check_symbolic(const Case *c) {
    Case special = *c;
    special.style.special = true;
    if (tells_most(c) || is_plain(c)) check_ways(&special, FORM_functional, symbolic, 2);
}

void check_native_code(const Case *c) {
    Case special = *c;
    special.style.special = true;
    const int below = is_usual(c) && !c->number ? (int)isa_used() - ISA_v2 : 0;
    if (!tells_most(c) || (c->number && !is_plain(c))) return;
    check_ways(&special, FORM_functional, native, 2 + below);
}

static void check_form(const Case *c, OpForm form) {
    check_ways(c, form, interpreter, 1);
    if (c->number == 0 && is_usual(c) && is_plain(c)) check_ways(c, form, native, 1);
}

void check_forms(const Case *c) {
    ops_count();
    if (!tells_most(c)) return;
    if (c->row->inplace) check_form(c, FORM_inplace);
    if (c->row->out) check_form(c, FORM_out);
}

/* numbers that few dtypes hold ---------------------------------------------------------------- */

static const Arg numbers[] = {
    A_FLOAT(1e30),  A_FLOAT(NAN),      A_FLOAT(-1e30),   A_FLOAT(INFINITY),      A_FLOAT(-INFINITY), A_FLOAT(3e9),
    A_FLOAT(-3e9),  A_FLOAT(2.5),      A_FLOAT(40000.5), A_FLOAT(300.7),         A_FLOAT(-0.7),      A_FLOAT(-0.0),
    A_FLOAT(1e300), A_FLOAT(0x1p63),   A_FLOAT(0x1p31),  A_INT(INT64_MAX),       A_INT(INT64_MIN),   A_INT(300),
    A_INT(-1),      A_INT(3000000000), A_INT(-129),      A_INT((1ll << 53) + 1), A_BOOL(1)};

static bool takes_number(const Param *param) {
    return param->type == PT_scalar || param->type == PT_scalar_opt || param->type == PT_float ||
           param->type == PT_float_opt;
}

/* A range of that many elements is none that a test makes. */
static bool is_far(const OpRow *row, const Arg *number) {
    return strstr(row->base, "range") && fabs(arg_double(number)) > 1000;
}

/* Each number in turn, from the k-th on, each of them twice. */
static void compare_numbers(const Case *c, OneOp *one, sn_function *fn, int k, int n) {
    sn_function *const eager = sn_compile(body, one, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 2 * n; i++) {
        Case with = *c;
        const Arg *const number = with.style.number = &numbers[(k + i / 2) % COUNT_OF(numbers)];
        Text want = {0}, got = {0};
        if (is_far(c->row, number)) continue;
        see_call(&with, eager, one, NULL, &want);
        see_call(&with, fn, one, NULL, &got);
        if (strcmp(text_str(&want), text_str(&got)))
            ops_fail(c, "%s, %s = %s %g, call %d\n  eager    %.400s\n  compiled %.400s",
                     op_form_name(c->row, one->form), c->row->params[c->style.number_at].name,
                     number->kind == ARG_float ? "float" : "int", arg_double(number), i + 1, text_str(&want),
                     text_str(&got));
        text_free(&want);
        text_free(&got);
    }
    sn_function_free(eager);
    sn_function_free(fn);
}

/* As constants (a function for each) and as numbers that vary: one function for all of them. */
static void check_numbers_at(const Case *c, OneOp *one) {
    const bool each = c->number == 0;
    failpoint_set("codegen");
    compare_numbers(c, one, sn_compile(body, one, NULL), c->number, COUNT_OF(numbers));
    for (int k = 0; each && k < COUNT_OF(numbers); k++) compare_numbers(c, one, sn_compile(body, one, NULL), k, 1);
    failpoint_set("");
    if (each && is_usual(c)) compare_numbers(c, one, sn_compile(body, one, NULL), 0, COUNT_OF(numbers));
}

static bool is_told_apart(DType dtype) {
    return dtype == DT_f32 || dtype == DT_f16 || dtype == DT_i64 || dtype == DT_i32 || dtype == DT_u8;
}

void check_numbers(const Case *c) {
    MetaOut like[MAX_OUTS];
    OneOp one = {.form = FORM_functional}, in_place = {.form = FORM_inplace, .n_out = 1};
    ops_count();
    if (unset(c->row) || !is_told_apart(c->style.dtype) || !shapes_of(c, like, &one.n_out)) return;
    Case with = *c;
    for (int i = 0; i < c->row->n_params; i++)
        if (with.style.number_at = i, takes_number(&c->row->params[i])) {
            check_numbers_at(&with, &one);
            if (c->row->inplace && is_usual(c)) check_numbers_at(&with, &in_place);
        }
}

/* eager at any size --------------------------------------------------------------------------- */

static void see_with(const Case *c, const char *point, OneOp *one, const MetaOut *like, Text *text) {
    sn_function *const eager = sn_compile(body, one, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    failpoint_set(point);
    see_call(c, eager, one, like, text);
    failpoint_set("");
    sn_function_free(eager);
}

/* The first program for any size is made of the first call's and serves the later ones of its kind; then one of this
 * size alone. */
static void check_size(const Case *c, OpForm form) {
    MetaOut like[MAX_OUTS];
    OneOp one = {.form = form};
    Text want = {0}, got = {0};
    failpoint_set("one_size");
    const bool runs = shapes_of(c, like, &one.n_out);
    failpoint_set("");
    if (!runs) return;
    see_with(c, "one_size", &one, like, &got);
    see_with(c, "any_size", &one, like, &want);
    if (strcmp(text_str(&want), text_str(&got)))
        ops_fail(c, "%s\n  of one size  %.400s\n  of any size  %.400s", op_form_name(c->row, form), text_str(&want),
                 text_str(&got));
    text_free(&want);
    text_free(&got);
}

void check_any_size(const Case *c) {
    ops_count();
    if (unset(c->row) || !tells_most(c)) return;
    check_size(c, FORM_functional);
    if (c->row->inplace) check_size(c, FORM_inplace);
    if (c->row->out) check_size(c, FORM_out);
}

/* eager's own code ---------------------------------------------------------------------------- */

static void compile_eager(const char *when) { sn_setting_set("eager_compile", when); }

/* Programs that the interpreter has run get code. */
static void check_code(const Case *c, OpForm form) {
    MetaOut like[MAX_OUTS];
    OneOp one = {.form = form};
    Text want = {0}, got = {0};
    if (!shapes_of(c, like, &one.n_out)) return;
    const int64_t failed = eager_code_counts().failed;
    see_with(c, "", &one, like, &want);
    compile_eager("always");
    see_with(c, "", &one, like, &got);
    compile_eager("never");
    if (strcmp(text_str(&want), text_str(&got)))
        ops_fail(c, "%s\n  interpreted %.400s\n  by code     %.400s", op_form_name(c->row, form), text_str(&want),
                 text_str(&got));
    if (eager_code_counts().failed > failed) ops_fail(c, "%s: there is no code", op_form_name(c->row, form));
    text_free(&want);
    text_free(&got);
}

void check_eager_code(const Case *c) {
    Case special = *c;
    special.style.special = true;
    ops_count();
    if (unset(c->row) || !tells_most(c) || (c->number && !is_plain(c))) return;
    check_code(&special, FORM_functional);
    if (c->number || !is_usual(c)) return;
    if (c->row->inplace) check_code(&special, FORM_inplace);
    if (c->row->out) check_code(&special, FORM_out);
}
