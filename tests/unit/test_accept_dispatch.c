/* test_accept_dispatch.c: rows of the acceptance list about the dispatcher, one test each, named by its
 * number. Rows 2.02, 2.05 and 2.22 have theirs in test_dispatch.c, 2.13 in
 * test_accept_inspect.c, 2.16 in test_autocast.c. */
#include <stdio.h>

#include "ir/schema.h"
#include "runtime/compile/compile.h"
#include "runtime/core/override.h"
#include "tests/unit/contract.h"

static char trace[8192];
static void note(const char *what) { strncat(trace, what, sizeof trace - strlen(trace) - 1); }
static void log_into_trace(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    if (!strcmp(topic, "dispatch")) note(line), note(";");
}

/* The keys that ran for an op, without what came before. */
static const char *traced(sn_tensor *(*op)(sn_tensor *, sn_tensor *), sn_tensor *x, sn_tensor *y) {
    trace[0] = '\0';
    ck_assert_ptr_nonnull(op(x, y));
    return trace;
}

START_TEST(a2_01_the_trace_variable_prints_keys_in_order) {
    setenv("SINTER_DISPATCH_TRACE", "1", 1);
    ck_assert_int_eq(sn_init(SN_INIT_OPTIONS(.threads = 1, .log = log_into_trace)), SN_OK);
    sn_tensor *const x = F32(1, 4);
    ck_assert_str_eq(traced(sn_add, x, x), "aten::add.Tensor: autograd;aten::add.Tensor: cpu;");
}
END_TEST

START_TEST(a2_03_unsupported_dtypes_name_op_and_dtype) {
    sn_tensor *const x = sn_ones(SN_INTS(3), SN_I32);
    ck_assert_ptr_null(sn_gelu(x));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_DTYPE);
    ck_assert_str_eq(error->op, "aten::gelu");
    ck_assert_msg(strstr(error->message, "i32") != NULL, "%s", error->message);
}
END_TEST

static sn_status counts_then_on(sn_frame *f) {
    note("wrapper;");
    return sn_redispatch(f);
}

START_TEST(a2_04_a_wrapper_runs_once_then_the_next_key) {
    sn_override *const o = sn_op_override(sn_op_find("aten::add.Tensor"), SN_KEY_AUTOGRAD, counts_then_on, NULL);
    sn_tensor *const x = F32(1, 4);
    trace[0] = '\0';
    sn_tensor *const y = sn_add(x, x);
    sn_override_free(o);
    ck_assert_str_eq(trace, "wrapper;");
    ck_assert(same_bits(y, sn_mul_scalar(x, sn_int(2))));
}
END_TEST

static sn_status constant_seven(sn_frame *f) { return sn_out(f, 0, sn_full_like(sn_in(f, 0), sn_int(7))); }

START_TEST(a2_06_a_built_in_op_is_replaced_and_restored) {
    sn_tensor *const x = F32(1, 4), *const want = sn_add(x, x);
    sn_override *const o = sn_op_override(sn_op_find("aten::add.Tensor"), SN_KEY_CPU, constant_seven, NULL);
    ck_assert(sn_item(sn_amax(sn_add(x, x))) == 7);
    sn_override_free(o);
    ck_assert(same_bits(sn_add(x, x), want));
}
END_TEST

static sn_tensor *factory(const char *name, sn_device device) {
    const int64_t sizes[] = {2, 3};
    const sn_value in[] = {
        {.kind = SN_KIND_INTS, .n = 2, .ints = sizes}, sn_int(SN_F32), {.kind = SN_KIND_NONE}, sn_int(device)};
    return sn_op_call1(sn_op_find(name), in, 4);
}

START_TEST(a2_07_factories_go_where_their_device_says) {
    static const char *const names[] = {"aten::empty.memory_format", "aten::ones", "aten::randn"};
    for (int i = 0; i < 3; i++) {
        sn_tensor *const here = factory(names[i], SN_CPU);
        ck_assert_msg(here != NULL, "%s: %s", names[i], sn_error_take()->message);
        ck_assert_int_eq(sn_device_of(here), SN_CPU);
        sn_tensor *const there = factory(names[i], DEV_meta);
        ck_assert_msg(there != NULL, "%s: %s", names[i], sn_error_take()->message);
        ck_assert_int_eq(sn_device_of(there), DEV_meta);
        ck_assert_int_eq(sn_size(there, 1), 3);
        ck_assert_ptr_null(factory(names[i], SN_CUDA(0))); /* these tests see no driver */
        expect_error(SN_ERR_DEVICE, "no NVIDIA driver");
    }
}
END_TEST

START_TEST(a2_08_composites_need_no_backend_kernel) {
    sn_tensor *const x = LEAF(1, 2, 3), *const w = LEAF(2, 4, 3);
    const char *const dump = sn_dispatch_dump(sn_op_find("aten::linear"));
    ck_assert_ptr_nonnull(strstr(dump, "autograd: kernel of the op")); /* its expansion */
    sn_tensor *const y = sn_linear(x, w, NULL);
    ck_assert(same_bits(y, sn_mm(x, sn_t(w))));
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
    ck_assert(same_bits(sn_grad(x), sn_mm(sn_ones(SN_INTS(2, 4), SN_F32), w)));
    ck_assert_ptr_nonnull(sn_grad(w));
}
END_TEST

static int logged;
static sn_status boxed_logger(sn_frame *f) {
    logged++;
    note(sn_op_schema(sn_frame_op(f)));
    note("\n");
    return sn_redispatch(f);
}

START_TEST(a2_09_one_boxed_fallback_serves_every_schema) {
    sn_tensor *const x = F32(1, 2, 4), *const y = F32(2, 2, 4), *const row = F32(3, 4);
    sn_override *const o = sn_fallback_set(SN_KEY_AUTOCAST, boxed_logger, NULL);
    sn_autocast_set(SN_CPU, SN_BF16);
    trace[0] = '\0';
    logged = 0;
    sn_tensor *pieces[2];
    const sn_tensor *const results[] = {sn_add(x, y),
                                        sn_relu(x),
                                        sn_sum(x),
                                        sn_mm(x, sn_t(y)),
                                        sn_transpose(x, 0, 1),
                                        sn_where(sn_gt(x, y), x, y),
                                        sn_clamp(x, sn_float(-1), sn_float(1)),
                                        sn_cat(SN_TENSORS(x, y), 0),
                                        sn_ones(SN_INTS(3), SN_F32),
                                        sn_layer_norm(x, SN_INTS(4), row, row),
                                        sn_add_(y, x)};
    ck_assert_int_eq(sn_split(x, 1, 0, pieces, 2), 2);
    sn_autocast_set(SN_CPU, SN_F32);
    sn_override_free(o);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        ck_assert_msg(results[i] != NULL, "%zu: %s", i, sn_error_take()->message);
    ck_assert_int_ge(logged, 10);
    static const char *const seen[] = {"aten::add.Tensor(", "aten::mm(",          "aten::cat(",  "aten::where.self(",
                                       "aten::ones(",       "aten::add_.Tensor(", "aten::split", "aten::layer_norm("};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        ck_assert_msg(strstr(trace, seen[i]) != NULL, "%s is not in:\n%s", seen[i], trace);
}
END_TEST

/* Reads a schema, prints it, and compares the bytes. */
static Schema round_trip(const char *text, Param *params, char *room) {
    Schema schema = {.params = params, .text = room};
    Text printed = {0};
    ck_assert_msg(schema_parse(text, &schema) == ST_OK, "%s: %s", text, sn_error_take()->message);
    schema_print(&printed, &schema);
    ck_assert_str_eq(text_str(&printed), text);
    text_free(&printed);
    return schema;
}

/* As PyTorch prints its own. */
START_TEST(a2_10_pytorchs_schemas_keep_every_byte) {
    static const char *const texts[] = {
        "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        "aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) "
        "max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, "
        "Tensor)",
        "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? "
        "bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
        "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, "
        "0], "
        "int[2] dilation=[1, 1], bool ceil_mode=False) -> Tensor",
        "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
        "SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
        "accumulate=False) -> Tensor(a!)",
        "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] "
        "normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] "
        "output_mask) -> (Tensor, Tensor, Tensor)",
        "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? "
        "scale_factors) -> Tensor",
        "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
        "device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? "
        "memory_format=None) -> Tensor",
        "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool "
        "non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
        "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
        "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool "
        "training=False, Generator? generator=None) -> Tensor",
        "aten::dropout(Tensor input, float p, bool train) -> Tensor",
        "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool "
        "enable_gqa=False) -> Tensor"};
    Param params[MAX_ARGS];
    char room[1024];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) round_trip(texts[i], params, room);
    const Schema schema = round_trip(texts[1], params, room);
    ck_assert_str_eq(params[3].alias, "a!");
    ck_assert_str_eq(schema.results[1].alias, "b!");
    ck_assert_str_eq(schema.results[1].name, "indices");
}
END_TEST

/* Schemas of written forms follow from the row; PyTorch writes them so. */
START_TEST(a2_10_forms_have_pytorchs_schemas) {
    static const char *const texts[] = {
        "aten::native_layer_norm.out(Tensor input, SymInt[] normalized_shape, Tensor? weight, "
        "Tensor? bias, float eps, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> "
        "(Tensor(a!), Tensor(b!), Tensor(c!))",
        "aten::gelu_backward.grad_input(Tensor grad_output, Tensor self, *, str "
        "approximate=\"none\", Tensor(a!) grad_input) -> Tensor(a!)",
        "aten::sum.IntList_out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
        "dtype=None, Tensor(a!) out) -> Tensor(a!)",
        "aten::zeros.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)",
        "aten::arange.start_out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> "
        "Tensor(a!)",
        "aten::empty.out(SymInt[] size, *, MemoryFormat? memory_format=None, Tensor(a!) out) -> "
        "Tensor(a!)",
        "aten::_to_copy.out(Tensor self, *, bool non_blocking=False, MemoryFormat? "
        "memory_format=None, Tensor(a!) out) -> Tensor(a!)",
        "aten::rand.generator_out(SymInt[] size, *, Generator? generator, Tensor(a!) out) -> "
        "Tensor(a!)",
        "aten::floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        "aten::pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
        "aten::bitwise_left_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(texts[i], "("), texts[i]);
        const sn_op *const op = sn_op_find(name);
        ck_assert_msg(op != NULL, "%s", name);
        ck_assert_str_eq(sn_op_schema(op), texts[i]);
    }
}
END_TEST

START_TEST(a2_10_every_schema_parses_and_marks_what_it_writes) {
    for (int id = 0; id < OP_COUNT; id++) {
        const OpRow *const row = op_row((OpId)id);
        for (int form = 0; form < FORM_COUNT; form++) {
            const bool exists =
                form == FORM_functional || (form == FORM_inplace && row->inplace) || (form == FORM_out && row->out);
            if (!exists) continue;
            const char *const text = op_form_schema(row, (OpForm)form);
            Param params[MAX_ARGS + MAX_OUTS];
            char *const room = malloc(strlen(text) + 64);
            const Schema schema = round_trip(text, params, room);
            const int n_params = op_form_params(row, (OpForm)form);
            ck_assert_int_eq(schema.n_params, n_params + (form == FORM_out ? row->n_out : 0));
            for (int i = 0; i < n_params; i++) {
                const Param *const of = &row->params[op_form_param(row, (OpForm)form, i)];
                ck_assert_msg(params[i].type == of->type && !strcmp(params[i].name, of->name), "%s: parameter %d", text,
                              i);
            }
            /* a composite's parts may write what its functional form names */
            if (form != FORM_functional || row->kind != KIND_composite)
                ck_assert_msg((form != FORM_functional) == (strstr(text, "!)") != NULL), "%s", text);
            free(room);
        }
    }
}
END_TEST

/* 2.11: a row's forms on one set of arguments. All pointwise rows whose arguments are float tensors. */
static bool is_tensor(ParamType type) { return type == PT_tensor || type == PT_tensor_opt; }

static bool takes_tensors_only(const OpRow *row) {
    for (int i = 0; i < row->n_params; i++)
        if (row->params[i].type != PT_tensor && row->params[i].fallback.kind == ARG_default) return false;
    return row->n_params <= MAX_ARGS;
}

static sn_tensor *call_form(const OpRow *row, OpForm form, sn_tensor *first, sn_tensor *out) {
    Arg given[MAX_ARGS], args[MAX_ARGS];
    int n = 0;
    for (; n < row->n_params && is_tensor(row->params[n].type); n++)
        given[n] = A_VAL(&(n ? F32((uint64_t)n + 5, 2, 3) : first)->base);
    ck_assert_int_eq(op_args_normalize(row, given, n, args), ST_OK);
    sn_tensor *outs[MAX_OUTS] = {0}, *const written[] = {out};
    return dispatch(row, form, args, out ? written : NULL, outs) == ST_OK ? outs[0] : NULL;
}

START_TEST(a2_11_every_form_of_a_row_agrees) {
    int checked = 0;
    for (int id = 0; id < OP_COUNT; id++) {
        const OpRow *const row = op_row((OpId)id);
        if (row->alias_of || row->kind != KIND_pointwise || !row->inplace || !row->out || row->flags & OPF_random ||
            !takes_tensors_only(row))
            continue;
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const want = call_form(row, FORM_functional, F32(1, 2, 3), NULL);
        if (!want) { /* floats are not its dtype, or an argument has to be 0-dim */
            const sn_status status = sn_error_take()->status;
            ck_assert_msg(status == SN_ERR_DTYPE || status == SN_ERR_SHAPE, "%s", row->name);
            sn_scope_end(scope);
            continue;
        }
        sn_tensor *const out = sn_empty_like(want), *const self = F32(1, 2, 3);
        ck_assert_msg(call_form(row, FORM_out, F32(1, 2, 3), out) == out, "%s: %s", row->name,
                      sn_error_take()->message);
        ck_assert_msg(same_bits(out, want), "%s: out", row->name);
        sn_tensor *const in_place = call_form(row, FORM_inplace, self, NULL);
        ck_assert_msg(in_place == self, "%s: %s", row->name, sn_error_take()->message);
        ck_assert_msg(same_bits(self, sn_to(want, sn_dtype_of(self))), "%s: in place", row->name);
        sn_scope_end(scope);
        checked++;
    }
    ck_assert_int_gt(checked, 30);
}
END_TEST

/* The message behind the name of the form. */
static const char *what_of(const sn_error *error) {
    const char *const after = strstr(error->message, ": ");
    return after ? after : error->message;
}

START_TEST(a2_12_forms_share_their_meta_rule_and_its_errors) {
    sn_tensor *const x = F32(1, 2, 3), *const y = F32(2, 4);
    char want[512];
    ck_assert_ptr_null(sn_add(x, y));
    const sn_error *error = sn_error_take();
    const sn_status status = error->status;
    strcpy(want, what_of(error));
    ck_assert_ptr_null(sn_add_(x, y));
    error = sn_error_take();
    ck_assert_int_eq(error->status, status);
    ck_assert_str_eq(what_of(error), want);
    ck_assert_ptr_null(sn_add_out(F32(3, 2, 3), x, y));
    error = sn_error_take();
    ck_assert_int_eq(error->status, status);
    ck_assert_str_eq(what_of(error), want);
}
END_TEST

START_TEST(a2_14_keys_and_kernels_print) {
    sn_tensor *const x = LEAF(1, 4);
    ck_assert_str_eq(sn_keys(x), "autograd, cpu");
    sn_tensor *const y = sn_detach(sn_mul(x, x));
    ck_assert(!sn_requires_grad(y)); /* no history: nothing is recorded for it */
    ck_assert_int_ne(sn_backward(sn_sum(y)), SN_OK);
    sn_error_take();
    const char *const dump = sn_dispatch_dump(sn_op_find("aten::addmm"));
    ck_assert_ptr_nonnull(strstr(dump, "autograd: fallback"));
    ck_assert_ptr_nonnull(strstr(dump, "cpu: fallback"));
    ck_assert_ptr_nonnull(strstr(dump, "spare: not implemented"));
}
END_TEST

START_TEST(a2_15_no_grad_enters_autograd_and_inference_does_not) {
    sn_setting_set("dispatch_trace", "1");
    sn_logging_set(log_into_trace, NULL, "");
    sn_tensor *const x = LEAF(1, 4);
    sn_grad_mode_set(SN_GRAD_OFF);
    ck_assert_str_eq(traced(sn_mul, x, x), "aten::mul.Tensor: autograd;aten::mul.Tensor: cpu;");
    ck_assert(!sn_requires_grad(sn_mul(x, x)));
    sn_grad_mode_set(SN_INFERENCE);
    ck_assert_str_eq(traced(sn_mul, x, x), "aten::mul.Tensor: cpu;");
}
END_TEST

/* 2.17 to 2.19: user modes */
static void note_sizes(sn_tensor *t) {
    char text[64];
    note("(");
    for (int i = 0; i < sn_rank(t); i++) {
        snprintf(text, sizeof text, i ? ",%lld" : "%lld", (long long)sn_size(t, i));
        note(text);
    }
    note(")");
}

static const char *base_name(sn_frame *f) {
    static char name[64];
    const char *const schema = sn_op_schema(sn_frame_op(f));
    snprintf(name, sizeof name, "%.*s", (int)strcspn(schema, "(.") - 6, schema + 6);
    return name;
}

/* The results of a frame are seen by calling the op again from the handler, below the mode. */
static sn_status shape_tracker(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0), *y = sn_in(f, 1);
    const sn_value in[] = {sn_val(x), sn_val(y)};
    sn_tensor *const z = sn_op_call1(sn_frame_op(f), in, 2);
    note(base_name(f)), note(": ["), note_sizes(x), note(","), note_sizes(y), note("] -> ");
    if (z) note_sizes(z);
    return sn_out(f, 0, z);
}

START_TEST(a_dispatch_mode_prints_shapes) {
    sn_tensor *const x = F32(1, 3, 4), *const y = F32(2, 4, 5), *const want = sn_mm(x, y);
    ck_assert_int_eq(sn_user_mode_push(shape_tracker, NULL), SN_OK);
    trace[0] = '\0';
    sn_tensor *const z = sn_mm(x, y);
    sn_user_mode_pop();
    ck_assert_str_eq(trace, "mm: [(3,4),(4,5)] -> (3,5)");
    ck_assert(same_bits(z, want));
}
END_TEST

static sn_status dispatch_logger(sn_frame *f) {
    if (sn_closure(f)) note(sn_closure(f));
    note(base_name(f)), note(";");
    return sn_redispatch(f);
}

START_TEST(a2_18_the_logger_sees_t_then_addmm) {
    sn_tensor *const x = F32(1, 2, 3), *const w = F32(2, 4, 3), *const b = F32(3, 4);
    sn_tensor *const want = sn_linear(x, w, b);
    sn_user_mode_push(dispatch_logger, NULL);
    trace[0] = '\0';
    ck_assert(same_bits(sn_linear(x, w, b), want));
    ck_assert_str_eq(trace, "t;addmm;");
    trace[0] = '\0';
    sn_linear(x, w, NULL);
    ck_assert_str_eq(trace, "t;mm;");
    sn_user_mode_pop();
    sn_user_mode_push(dispatch_logger, "outer ");
    sn_user_mode_push(dispatch_logger, "inner ");
    trace[0] = '\0';
    sn_relu(x);
    ck_assert_str_eq(trace, "inner relu;outer relu;");
}
END_TEST

typedef struct Counts {
    int t, addmm, relu, other;
} Counts;

static sn_status op_counter(sn_frame *f) {
    Counts *const counts = sn_closure(f);
    const char *const name = base_name(f);
    int *const count = !strcmp(name, "t")       ? &counts->t
                       : !strcmp(name, "addmm") ? &counts->addmm
                       : !strcmp(name, "relu")  ? &counts->relu
                                                : &counts->other;
    ++*count;
    return sn_redispatch(f);
}

START_TEST(a2_19_a_two_layer_mlp_counts_five_ops) {
    sn_tensor *const x = F32(1, 2, 3), *const w1 = F32(2, 8, 3), *const b1 = F32(3, 8);
    sn_tensor *const w2 = F32(4, 4, 8), *const b2 = F32(5, 4);
    Counts counts = {0};
    sn_user_mode_push(op_counter, &counts);
    ck_assert_ptr_nonnull(sn_linear(sn_relu(sn_linear(x, w1, b1)), w2, b2));
    sn_user_mode_pop();
    ck_assert_int_eq(counts.t, 2);
    ck_assert_int_eq(counts.addmm, 2);
    ck_assert_int_eq(counts.relu, 1);
    ck_assert_int_eq(counts.other, 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a2_01_the_trace_variable_prints_keys_in_order,
        a2_03_unsupported_dtypes_name_op_and_dtype,
        a2_04_a_wrapper_runs_once_then_the_next_key,
        a2_06_a_built_in_op_is_replaced_and_restored,
        a2_07_factories_go_where_their_device_says,
        a2_08_composites_need_no_backend_kernel,
        a2_09_one_boxed_fallback_serves_every_schema,
        a2_10_pytorchs_schemas_keep_every_byte,
        a2_10_forms_have_pytorchs_schemas,
        a2_10_every_schema_parses_and_marks_what_it_writes,
        a2_11_every_form_of_a_row_agrees,
        a2_12_forms_share_their_meta_rule_and_its_errors,
        a2_14_keys_and_kernels_print,
        a2_15_no_grad_enters_autograd_and_inference_does_not,
        a_dispatch_mode_prints_shapes,
        a2_18_the_logger_sees_t_then_addmm,
        a2_19_a_two_layer_mlp_counts_five_ops,
    };
    return contract_main("test_accept_dispatch", tests, (int)(sizeof tests / sizeof *tests));
}
