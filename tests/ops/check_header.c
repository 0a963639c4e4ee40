/* check_header.c: every row as a graph of one op whose header has each size above 1 that may differ as a symbol
 * (dynamic_call.h), and the numbers that follow them as expressions: compiled once, before it first runs, no op runs
 * eagerly, and calls at the sample's sizes and two others give eager's bits. Rows of which that does not hold are
 * listed in header_rows.c. */
#include <sinter/graph.h>
#include <stdio.h>

#include "runtime/base/bail.h"
#include "runtime/base/error.h"
#include "tests/ops/dynamic_call.h"
#include "tests/ops/header_rows.h"

typedef struct HeaderGraph {
    const DynamicCall *d;
    const SampleCall *call;
    sn_graph *g;
    sn_node *inputs[SAMPLE_TENSORS], *numbers[DYNAMIC_SYMBOLS];
} HeaderGraph;

/* Building ------------------------------------------------------------------------------------ */

static void give_ranges(HeaderGraph *h) {
    enum { LARGE = 1 << 20 };
    for (int i = 0; i < h->d->n_symbols; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        sn_graph_range(h->g, name, 2, LARGE, h->d->symbols[i].size);
    }
}

static void add_input(HeaderGraph *h, int i) {
    const Meta *const meta = h->call->tensors[i]->base.meta;
    Text text = {0};
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    text_printf(&text, "%s[", dtype_name(meta->dtype));
    for (int d = 0; d < meta->rank; d++) {
        const int symbol = dynamic_symbol_of(h->d, meta->sizes[d]);
        text_puts(&text, d ? "," : "");
        if (symbol >= 0)
            text_printf(&text, "s%d", symbol);
        else
            text_printf(&text, "%lld", (long long)meta->sizes[d]);
    }
    text_puts(&text, "]");
    h->inputs[i] = sn_graph_input(h->g, name, text_str(&text));
    text_free(&text);
}

static void add_inputs(HeaderGraph *h) {
    for (int i = 0; i < h->call->n_tensors; i++) add_input(h, i);
    for (int i = 0; i < h->d->n_symbols; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        if (h->d->symbols[i].number) h->numbers[i] = sn_graph_input(h->g, name, "int");
    }
}

/* What the line has as a number, and the row as a tensor, is bound. */
static sn_value of_tensor(const HeaderGraph *h, const Val *val) {
    for (int i = 0; val && i < h->call->n_tensors; i++)
        if (&h->call->tensors[i]->base == val) return sn_node_result(h->inputs[i], 0);
    return val ? sn_node_result(sn_graph_bind(h->g, "number", (sn_tensor *)(uintptr_t)val), 0) : sn_none();
}

/* A number, or what it is of the symbols. */
static sn_value of_int(const HeaderGraph *h, int param, int item, int64_t value) {
    for (int i = 0; i < h->d->n_slots; i++) {
        const DynamicSlot *const slot = &h->d->slots[i];
        if (slot->param != param || slot->item != item || !slot->symbols) continue;
        Text text = {0};
        dynamic_slot_text(slot, &text);
        const sn_value made = sn_graph_sym(h->g, text_str(&text));
        text_free(&text);
        return made;
    }
    return sn_int(value);
}

/* list: room for the elements of one argument. */
static sn_value of_arg(const HeaderGraph *h, int param, sn_value *list) {
    const Arg *const arg = &h->call->args[param];
    sn_value value;
    memcpy(&value, arg, sizeof value);
    if (arg->kind == ARG_tensor) return of_tensor(h, arg->val);
    if (arg->kind == ARG_int) return of_int(h, param, -1, arg->i);
    if (arg->kind != ARG_tensors && arg->kind != ARG_ints) return value;
    for (int i = 0; i < arg->n; i++)
        list[i] = arg->kind == ARG_ints ? of_int(h, param, i, arg->ints[i]) : of_tensor(h, arg->vals[i]);
    return sn_values(list, arg->n);
}

static sn_graph *build(HeaderGraph *h) {
    const OpRow *const row = h->call->row;
    sn_value args[MAX_ARGS], lists[MAX_ARGS][SAMPLE_INTS], outs[MAX_LIST];
    h->g = sn_graph_new("row");
    give_ranges(h);
    add_inputs(h);
    for (int i = 0; i < row->n_params; i++) args[i] = of_arg(h, i, lists[i]);
    sn_node *const node = sn_graph_op(h->g, row->name, args, row->n_params);
    for (int i = 0; node && i < h->d->n_outs; i++)
        outs[i] = ops_wanted(h->call, i) ? sn_node_result(node, i) : sn_none();
    if (node) sn_graph_return(h->g, outs, h->d->n_outs);
    return h->g;
}

/* The results, then the tensors of the call, which it may have written. */
static void show_all(const DynamicCall *d, const SampleCall *call, sn_tensor *const *outs, Text *text) {
    for (int i = 0; i < d->n_outs; i++) ops_show(text, ops_wanted(call, i) ? outs[i] : NULL);
    for (int i = 0; i < call->n_tensors; i++) ops_show(text, call->tensors[i]);
}

/* Calling ------------------------------------------------------------------------------------- */

static void show_pending(Text *text) {
    if (sn_check() == SN_OK) return;
    const sn_error *const error = sn_error_take();
    text_printf(text, "error %d: %s\n", (int)error->status, error->message);
}

static void see_eager(const DynamicCall *d, int k, Text *text) {
    const sn_scope scope = sn_scope_begin();
    SampleCall call;
    sn_tensor *outs[MAX_LIST] = {NULL};
    int n;
    sn_seed(3);
    if (dynamic_make(d, k, &call) == ST_OK && sample_run(&call, outs, &n) == ST_OK) show_all(d, &call, outs, text);
    show_pending(text);
    sn_scope_end(scope);
}

static void see_graph(const DynamicCall *d, int k, sn_function *fn, Text *text) {
    const sn_scope scope = sn_scope_begin();
    SampleCall call;
    sn_value in[SAMPLE_TENSORS + DYNAMIC_SYMBOLS];
    sn_tensor *outs[MAX_LIST] = {NULL};
    int n = 0;
    sn_seed(3);
    if (dynamic_make(d, k, &call) == ST_OK) {
        for (; n < call.n_tensors; n++) in[n] = sn_val(call.tensors[n]);
        for (int i = 0; i < d->n_symbols; i++)
            if (d->symbols[i].number) in[n++] = sn_int(dynamic_size(d, i, k));
        if (sn_call_values(fn, in, n, outs, d->n_outs) == SN_OK) show_all(d, &call, outs, text);
    }
    show_pending(text);
    sn_scope_end(scope);
}

static void compare_call(const DynamicCall *d, int k, sn_function *fn, const char *graph) {
    Text want = {0}, got = {0};
    see_eager(d, k, &want);
    see_graph(d, k, fn, &got);
    if (strcmp(text_str(&want), text_str(&got)))
        ops_fail(d->of, "call %d\n%s  eager    %.1000s\n  compiled %.1000s", k, graph, text_str(&want), text_str(&got));
    text_free(&want);
    text_free(&got);
}

static bool breaks_once(HeaderFault fault, const Case *c) { return header_listed(c->row, fault); }

static void check_stats(const Case *c, sn_function *fn, const char *graph) {
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    if (stats.ops_eager && !breaks_once(HEADER_eager, c))
        ops_fail(c, "%lld ops ran eagerly\n%s%.1500s", (long long)stats.ops_eager, graph, sn_explain(fn));
    if (stats.compiles > 1 && !breaks_once(HEADER_compiles, c))
        ops_fail(c, "%lld compiles\n%s%.1500s", (long long)stats.compiles, graph, sn_explain(fn));
}

static void run_graph(const DynamicCall *d, sn_graph *g) {
    static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = modes[d->of->number % 2]));
    char text[2000];
    snprintf(text, sizeof text, "%s", sn_graph_text(g));
    if (!fn) {
        ops_fail(d->of, "not compiled: %s\n%s", sn_error_take()->message, text);
        return;
    }
    for (int k = 0; k < DYNAMIC_CALLS; k++) compare_call(d, k, fn, text);
    check_stats(d->of, fn, text);
    sn_function_free(fn);
}

static void check_row(const Case *c) {
    DynamicCall d;
    SampleCall call;
    HeaderGraph h = {.d = &d, .call = &call};
    if (!dynamic_find(c, &d) || !d.n_symbols || dynamic_make(&d, 0, &call) != ST_OK) return;
    sn_graph *const g = build(&h);
    header_met(c->row);
    if (sn_check() == SN_OK)
        run_graph(&d, g);
    else if (!header_listed(c->row, HEADER_refused))
        ops_fail(c, "no graph: %s", sn_error_take()->message);
    else
        sn_error_take();
    sn_graph_free(g);
}

/* The row that does the same in place, of lists of tensors, which has no samples of its own: "_foreach_add_.List". */
static const OpRow *written_row(const OpRow *row) {
    char name[128];
    OpForm form;
    snprintf(name, sizeof name, "aten::%s_%s%s", row->base, *row->overload ? "." : "", row->overload);
    const OpRow *const found = strncmp(row->base, "_foreach_", 9) ? NULL : op_find(name, strlen(name), &form);
    return found && form == FORM_functional ? found : NULL;
}

/* Results larger than what they are made of: nothing to write in place. */
static bool grows(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    if (!ops_run(c, &call, outs, &n)) return true;
    bool any = false;
    for (int i = 0; i < n; i++) any |= sn_numel(outs[i]) > sn_numel(call.tensors[i]);
    return any;
}

void check_header(const Case *c) {
    const OpRow *const written = written_row(c->row);
    Case in_place = *c;
    failpoint_set("codegen");
    if (!(c->row->flags & OPF_unset) && c->row->kind != KIND_number) check_row(c);
    in_place.row = written;
    if (written && !grows(c)) check_row(&in_place);
    failpoint_set("");
}
