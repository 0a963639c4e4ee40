/* test_ops.c: the op tests that come from the op table: every row of ir/ops.def with the samples of its word, over
 * dtypes and layouts. `test_ops [--pairs] MODE [ROW]` runs one mode (of one row), --pairs: with the cases that draw.h
 * draws, the same in every mode:
 *
 *   meta        the shape rule gives the real result's dtype, sizes, strides and storage
 *   infer       sn_op_infer says the same, of tensors and of texts that describe them
 *   reference   eager against the op's loop program computed in double, one element at a time
 *   precise     bodies that round, in f64, against their formulas in long double
 *   bools       bool bytes other than 0 and 1 give what 0 and 1 give, eagerly and compiled
 *   parts       rows that keep their identity against their decomposition run part by part: equal bits
 *   gradients   every row with a derivative, and composites, in f64, by central differences, first and second order
 *   forward     tangents of every row with a derivative in f64, by central differences and beside its gradients
 *   saves       a derivative reads nothing that its row does not save
 *   reach       the arguments that a derivative gives a gradient to, by each set of results, are those foretold
 *   takes       a backward refuses nothing that its forward returned, but for rows that takes.c lists
 *   leaves      a backward in a compiled function, from each result to each tensor alone, against eager's
 *   compiled    compiled against eager on the interpreter: equal bits
 *   symbolic    the same with all sizes symbolic, but for the rows that symbolic.c lists
 *   resized     compiled so, the same call at other sizes does not compile again, but for rows that symbolic.c lists
 *   header      as a graph whose header has the sizes as symbols: one compile, no eager op; rows in header_rows.c
 *   native      compiled against eager by generated code, 1 and 2 threads, all instruction sets
 *   coded       eager's programs by generated code (setting eager_compile) against the interpreter: equal bits
 *   numbers     compiled against eager with numbers that few dtypes hold, as constants and varying
 *   forms       in-place and out forms, compiled against eager
 *   cuda        on a CUDA device against the CPU: equal bits
 *   rows        a row alone has the bits that it has in its batch
 *   text        graphs of the row at every stage, and its kernels, print and parse back to the same bytes
 *   wrong       every kind of wrong argument, boxed, in every form: an error or a result
 *   stack       eagerly, forward and backward, on a thread of 64 KiB
 *   limits      numbers that a dtype has not (column .limit): the largest is taken, what is above is a value error
 *   domain      bounds of checked positions: the last one below is taken, the bound is a value error
 *   errors      listed bad inputs give the listed error
 *   draw        the cases of --pairs have every pair
 *
 * tests/unit/test_gradients.c has more cases of the derivative rules. */
#include "tests/ops/ops.h"
#include "ir/op_ids.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "runtime/cuda/cuda_native.h"
#include "tests/ops/draw.h"
#include "tests/ops/header_rows.h"
#include "tests/ops/symbolic.h"
#include "tests/ops/takes.h"
#include "tests/ref/nan.h"

static const char *only_row;
static int n_failed, n_cases, n_counted;
static bool counted, pairs;

void ops_fail(const Case *c, const char *format, ...) {
    va_list args;
    if (++n_failed > 60) return;
    printf("%s  '%s'  %s %s: ", c->row->name, c->line, dtype_name(c->style.dtype), layout_name(c->style.layout));
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    puts("");
}

void ops_count(void) { counted = true; }

static bool is_refusal(Status status) { return status == ST_DTYPE || status == ST_UNSUPPORTED; }

/* Every other row takes f32. */
static bool is_for_ints(const OpRow *row) {
    return !strncmp(row->alias_of ? row->alias_of->base : row->base, "bitwise_", 8);
}

bool ops_refused(const Case *c) {
    const sn_error *const error = sn_error_take();
    if (is_refusal((Status)error->status) && (c->style.dtype != DT_f32 || is_for_ints(c->row))) return true;
    ops_fail(c, "error %s: %s", status_name((Status)error->status), error->message);
    return false;
}

bool ops_make(const Case *c, SampleCall *call) {
    if (sample_make(c->row, c->line, &c->style, call) == ST_OK) return true;
    ops_refused(c);
    return false;
}

bool ops_run(const Case *c, SampleCall *call, sn_tensor **outs, int *n_outs) {
    if (!ops_make(c, call)) return false;
    sn_seed(3);
    if (sample_run(call, outs, n_outs) == ST_OK) return ops_count(), true;
    ops_refused(c);
    return false;
}

/* walk ---------------------------------------------------------------------------------------- */

/* Whether the line has something of the dtype under test. */
static bool has_dtype(const char *line) {
    for (const char *at = line; (at = strpbrk(at, "xpuXPU")); at++)
        if (at[1] == '[' || (at > line && at[-1] == ':')) return true;
    return false;
}

/* A crash names its case. */
static const Case *running;
static const char *doing;

void ops_now(const char *what) { doing = what; }

static void on_crash(int number) {
    signal(number, SIG_DFL);
    if (running) ops_fail(running, "signal %d%s%s", number, doing ? " in " : "", doing ? doing : "");
    fflush(stdout);
    raise(number);
}

static void run_case(const Case *c, CaseFn *fn) {
    running = c;
    doing = NULL;
    const sn_scope scope = sn_scope_begin();
    const int failed = n_failed;
    n_cases++;
    fn(c);
    if (sn_check() != SN_OK) {
        const sn_error *const error = sn_error_take();
        if (failed == n_failed) ops_fail(c, "an error stayed pending: %s", error->message);
    }
    sn_scope_end(scope);
}

/* Internal views count from their argument's first element in its memory, gaps included: dense ones only. */
static bool names_memory(const OpRow *row) { return row->id == OP_view_of || row->id == OP_view_scatter; }

static void run_line(const OpRow *row, const char *line, int number, int n_lines, int what, CaseFn *fn) {
    const bool all = what & EACH_native && cuda_native(row);
    const bool dtypes = (all || what & EACH_dtype) && has_dtype(line);
    const bool layouts = (all || what & EACH_layout) && !names_memory(row);
    const bool some = pairs && dtypes && layouts;
    for (int layout = 0; layout < (layouts ? LAYOUT_COUNT : 1); layout++)
        for (int dtype = 1; dtype < DT_COUNT; dtype++)
            if ((dtypes || dtype == (is_for_ints(row) ? DT_i32 : DT_f32)) &&
                (!some || draw_has(number, n_lines, (DType)dtype, (Layout)layout)))
                run_case(&(Case){row, line, number, {(DType)dtype, (Layout)layout}}, fn);
}

/* Every differentiable row is checked as such, but for control flow, whose bodies are of one dtype: it is compared with
 * the loop by hand (tests/unit/test_flow_gradients.c). */
static bool must_count(const OpRow *row, int n_lines, int what) {
    if (row->flags & OPF_flow) return false;
    if (row->flags & OPF_internal && !n_lines) return false; /* the row that calls it has samples */
    if (what & EACH_derivative) return deriv_rule(row) && !row->alias_of;
    return n_lines && what & EACH_dtype;
}

static void run_row(const OpRow *row, int what, CaseFn *fn) {
    const Samples *const samples = samples_of(row);
    const char *const *const lines = what & EACH_batched ? samples->batched : samples->good;
    const char *line;
    counted = false;
    int at = 0, number = 0, n_lines = 0;
    while (samples_next(row, lines, &at)) n_lines++;
    at = 0;
    while ((line = samples_next(row, lines, &at))) run_line(row, line, number++, n_lines, what, fn);
    n_counted += counted;
    if (!counted && must_count(row, number, what)) {
        printf("%s: no sample was checked\n", row->name);
        n_failed++;
    }
}

void ops_each(int what, CaseFn *fn) {
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        if (only_row && strcmp(only_row, row->name)) continue;
        const bool native = what & EACH_native && row->kind == KIND_kernel && !row->alias_of;
        if (row->id != OP_gradients && (native || what & EACH_host || !(row->flags & OPF_host))) run_row(row, what, fn);
    }
}

/* one-node graphs ----------------------------------------------------------------------------- */

typedef struct Inputs {
    const SampleCall *call;
    GVal *values[SAMPLE_TENSORS];
} Inputs;

static Val *input_of(void *context, Val *val) {
    const Inputs *const inputs = context;
    for (int i = 0; i < inputs->call->n_tensors; i++)
        if (&inputs->call->tensors[i]->base == val) return &inputs->values[i]->base;
    return NULL;
}

/* Composites draw in their parts. */
static bool takes_random(const OpRow *row) {
    return row->flags & OPF_random ||
           (row->kind == KIND_composite && (op_param_find(row, "p") >= 0 || op_param_find(row, "dropout_p") >= 0));
}

bool ops_wanted(const SampleCall *call, int i) {
    const OpRow *const row = call->row->alias_of ? call->row->alias_of : call->row;
    const int mask = op_param_find(row, "output_mask");
    return mask < 0 || i >= call->args[mask].n || call->args[mask].ints[i];
}

Graph *ops_graph(const SampleCall *call, Arena *arena) {
    const OpRow *const row = call->row->alias_of ? call->row->alias_of : call->row;
    Graph *const graph = graph_new(arena, row->base);
    Inputs inputs = {.call = call};
    Arg args[MAX_ARGS];
    if (!graph) return NULL;
    for (int i = 0; i < call->n_tensors; i++)
        inputs.values[i] = graph_input(graph, arena_printf(arena, "x%d", i), call->tensors[i]->base.meta);
    if (takes_random(row)) {
        graph->seed = sym_free(graph->env, 1, 0);
        graph->sequence = sym_free(graph->env, 1, 0);
        graph->n_random = 1;
    }
    for (int i = 0; i < call->row->n_params; i++) args[i] = arg_map_vals(arena, call->args[i], input_of, &inputs);
    if (op_args_normalize(row, args, call->row->n_params, args) != ST_OK) return NULL;
    Node *const node = graph_append(graph, row, FORM_functional, args);
    for (int i = 0; node && i < node->n_outs; i++)
        if (ops_wanted(call, i)) graph_output(graph, &node->outs[i]);
    return node ? graph : NULL;
}

Plan *ops_plan(Graph *graph, const char *passes, Bail *exit, const char **why) {
    *exit = (Bail){.code = BAIL_none};
    graph->bail = exit;
    Plan *plan = NULL;
    if (setjmp(exit->exit))
        *why = arena_printf(graph->arena, "%s", exit->message);
    else if (passes_run(graph, passes, &(PassOptions){.verify = true}) != ST_OK)
        *why = arena_printf(graph->arena, "%s", sn_error_take()->message);
    else
        plan = graph->plan;
    graph->bail = NULL;
    return plan;
}

/* what a tensor shows ------------------------------------------------------------------------- */

/* Most of what the modes that compare do: not by printf. */
static void show_item(Text *text, const unsigned char *at, size_t item) {
    static const char digits[] = "0123456789abcdef";
    char hex[2 * sizeof(double) + 1] = "";
    for (size_t k = 0; k < item; k++) {
        hex[2 * k] = digits[at[item - 1 - k] >> 4];
        hex[2 * k + 1] = digits[at[item - 1 - k] & 15];
    }
    text_puts(text, hex);
}

void ops_show(Text *text, sn_tensor *t) {
    if (!t) {
        text_puts(text, "none\n");
        return;
    }
    const DType dtype = t->base.meta->dtype;
    const size_t item = (size_t)dtype_bytes(dtype), bytes = (size_t)sn_numel(t) * item;
    unsigned char *const data = calloc(bytes + 1, 1);
    meta_print(NULL, text, t->base.meta);
    if (sn_read(t, data, bytes) == SN_OK)
        for (size_t i = 0; i < bytes; i += item) {
            text_puts(text, " ");
            if (is_nan_at(dtype, data + i))
                text_puts(text, "nan");
            else
                show_item(text, data + i, item);
        }
    text_puts(text, "\n");
    free(data);
}

/* modes --------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    CaseFn *fn;
    int what;
} modes[] = {
    {"meta", check_meta, EACH_dtype | EACH_layout},
    {"infer", check_infer, EACH_dtype | EACH_layout},
    {"reference", check_reference, EACH_dtype | EACH_layout},
    {"parts", check_parts, EACH_dtype | EACH_layout},
    {"gradients", check_gradients, EACH_layout | EACH_derivative},
    {"compiled", check_compiled, EACH_dtype | EACH_layout},
    {"symbolic", check_symbolic, EACH_dtype | EACH_layout},
    {"resized", check_resized, EACH_dtype | EACH_layout},
    {"header", check_header, EACH_host},
    {"native", check_native_code, EACH_dtype | EACH_layout},
    {"forms", check_forms, EACH_dtype | EACH_layout},
    {"any_size", check_any_size, EACH_dtype | EACH_layout},
    {"coded", check_eager_code, EACH_dtype | EACH_layout},
    {"rows", check_rows, EACH_batched | EACH_dtype},
    {"text", check_text, EACH_dtype | EACH_layout},
    {"wrong", check_wrong, EACH_host},
    {"stack", check_stack, EACH_host},
    {"domain", check_domain, 0},
    {"limits", check_limits, EACH_dtype},
    {"vmap", check_vmap, 0},
    {"forward", check_forward, EACH_derivative},
    {"saves", check_saves, EACH_derivative},
    {"leaves", check_leaves, EACH_derivative},
    {"reach", check_reach, EACH_derivative},
    {"takes", check_takes, EACH_dtype | EACH_layout | EACH_derivative},
    {"precise", check_precise, 0},
    {"bools", check_bools, EACH_dtype | EACH_layout},
    {"numbers", check_numbers, EACH_dtype},
    {"cuda", check_cuda, EACH_native},
};

/* Of rows that do not compile with all sizes symbolic: none that does. A draw need not have the case. */
static void look_at_list(CaseFn *fn) {
    if (pairs) return;
    if (fn == check_symbolic) n_failed += symbolic_stale(only_row, SYMBOLIC_forward);
    if (fn == check_leaves) n_failed += symbolic_stale(only_row, SYMBOLIC_backward);
    if (fn == check_takes) n_failed += takes_stale(only_row);
    if (fn == check_header) n_failed += header_stale(only_row);
    if (fn == check_resized) n_failed += symbolic_stale(only_row, SYMBOLIC_resized);
}

static bool run_mode(const char *name) {
    if (!strcmp(name, "errors")) return check_errors(), true;
    if (!strcmp(name, "draw")) return n_failed += draw_check(), true;
    for (int i = 0; i < COUNT_OF(modes); i++)
        if (!strcmp(name, modes[i].name)) return ops_each(modes[i].what, modes[i].fn), look_at_list(modes[i].fn), true;
    return false;
}

static bool is_row(const char *name) {
    for (int id = 0; id < op_row_count(); id++)
        if (!strcmp(name, op_row_at(id)->name)) return true;
    return false;
}

int main(int argc, char **argv) {
    pairs = argc > 1 && !strcmp(argv[1], "--pairs");
    argc -= pairs, argv += pairs;
    only_row = argc > 2 ? argv[2] : NULL;
    if (only_row && !is_row(only_row)) {
        printf("test_ops: no row is called '%s'\n", only_row);
        return 2;
    }
    const int signals[] = {SIGSEGV, SIGFPE, SIGABRT};
    for (int i = 0; i < COUNT_OF(signals); i++) signal(signals[i], on_crash);
    sn_setting_set("eager_compile", "never"); /* mode coded says what code gives */
    if (argc < 2 || !run_mode(argv[1])) {
        puts("usage: test_ops [--pairs] MODE [ROW]");
        return 2;
    }
    printf("%s: %d cases, %d rows checked, %d failed\n", argv[1], n_cases, n_counted, n_failed);
    sn_scope_end(SN_SCOPE_ROOT);
    return n_failed != 0;
}
