/* meta_flow.c: meta rules of control flow (ops/flow.def): what its graphs take and give. Sizes of texts that have
 * numbers, as of all that ran, specialise operands; symbols of texts are the operands' sizes (flow_text.h). */
#include "ir/alias.h"
#include "ir/flow_limits.h"
#include "ir/flow_text.h"
#include "ir/meta_rules.h"

MetaFn meta_flow_cond, meta_flow_while, meta_flow_scan, meta_flow_cond_backward, meta_flow_scan_backward;

/* A body may not write what is not its own [semantics T2]. */
static Status owns_written(const MetaCall *call, const Node *node) {
    const int first = node->form == FORM_out ? node->row->n_params : 0;
    const int end = node->form == FORM_out ? node->n_args : node->form == FORM_inplace;
    for (int i = first; i < end; i++) {
        const GVal *value = node->args[i].val ? gval(node->args[i].val) : NULL;
        for (const GVal *of; value && (of = value_memory(value));) value = of;
        if (value && !value->def)
            return meta_fail(call, ST_ARGUMENT, "%s in a body writes its input %%%s",
                             op_form_name(node->row, node->form), value->name);
    }
    return ST_OK;
}

/* What the op's bodies take of `ints`, in turn. */
static Status flow_graph(const MetaCall *call, Arena *arena, const char *param, int *next_int, FlowText *out) {
    static const Arg none = {.kind = ARG_ints};
    const Arg *const text = arg_named(call, param), *const ints = arg_named(call, "ints");
    bool enough;
    TRY(flow_text_read(arena, text->string, ints ? ints : &none, next_int, out, &enough));
    if (!enough)
        return meta_fail(call, ST_ARGUMENT, "%s: %d ints for a body of %d", param, ints ? ints->n : 0,
                         out->graph->int_inputs.n);
    for (const Node *node = out->graph->first; node; node = node->next) TRY(owns_written(call, node));
    return ST_OK;
}

/* An operand is what the graph's input says. */
static Status check_flow_operand(const MetaCall *call, const FlowText *text, const GVal *input, const Meta *meta) {
    const Meta *const want = input->base.meta;
    int64_t sizes[MAX_RANK];
    bool fits = want->dtype == meta->dtype && want->device == meta->device && want->rank == meta->rank;
    if (fits) flow_text_bind(text, want, meta->sizes);
    for (int d = 0; d < want->rank; d++) {
        if (fits && !flow_text_is_bound(text, want->sizes[d]))
            return meta_fail(call, ST_ARGUMENT,
                             "size %d of input %%%s of a body is of symbols that no size before it is", d, input->name);
        sizes[d] = fits ? flow_text_value(text, call->env, want->sizes[d]) : want->sizes[d];
        fits = fits && sym_same(call->env, meta->sizes[d], sizes[d]);
    }
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "input %%%s of a body has sizes %s, not %s", input->name,
                     sizes_text(call, sizes, want->rank).at, SIZES(call, meta));
}

/* The operands that a graph closes over begin at `first`. */
static Status check_closed(const MetaCall *call, const FlowText *text, const Arg *operands, int n_in, int first) {
    const Graph *const graph = text->graph;
    if (graph->inputs.n < n_in || first + graph->inputs.n - n_in > operands->n)
        return meta_fail(call, ST_ARGUMENT, "%d operands for a body of %d inputs", operands->n, graph->inputs.n);
    for (int i = n_in; i < graph->inputs.n; i++)
        TRY(check_flow_operand(call, text, graph->inputs.at[i], operands->vals[first + i - n_in]->meta));
    if (!flow_text_unbound(text)) return ST_OK;
    Text symbol = {0};
    sym_print(graph->env, &symbol, flow_text_unbound(text));
    const Status status =
        meta_fail(call, ST_ARGUMENT, "graph %s has %s, which no input says", graph->name, text_str(&symbol));
    text_free(&symbol);
    return status;
}

static Status check_inputs(const MetaCall *call, const FlowText *text, const Arg *operands, int n_in) {
    const Graph *const graph = text->graph;
    if (n_in < 0 || n_in > operands->n || n_in > graph->inputs.n)
        return meta_fail(call, ST_ARGUMENT, "%d inputs, of %d operands", n_in, operands->n);
    for (int i = 0; i < n_in; i++) TRY(check_flow_operand(call, text, graph->inputs.at[i], operands->vals[i]->meta));
    return ST_OK;
}

static Status check_ints(const MetaCall *call, int taken) {
    const Arg *const ints = arg_named(call, "ints");
    if (!ints || ints->n == taken) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "%d ints for bodies of %d", ints->n, taken);
}

/* Result i: the graph's, or a stack of `length` such. */
static Status infer_output(MetaCall *call, const FlowText *text, int i, int64_t length, bool stacked) {
    const GVal *const value = text->graph->outputs.at[i].value;
    if (!value) return meta_fail(call, ST_ARGUMENT, "a body without result %d", i);
    const Meta *const meta = value->base.meta;
    int64_t sizes[MAX_RANK + 1] = {length};
    for (int d = 0; d < meta->rank; d++) sizes[d + 1] = flow_text_value(text, call->env, meta->sizes[d]);
    if (meta->rank + stacked > MAX_RANK) return meta_fail(call, ST_SHAPE, "a stack of %d dims", meta->rank + 1);
    if (!out_list(call, i)) return ST_OK;
    out_plain(call, i, meta->dtype, meta->device, sizes + !stacked, meta->rank + stacked);
    return ST_OK;
}

static Status infer_outputs(MetaCall *call, const FlowText *text, int n_plain, int64_t length) {
    for (int i = 0; i < text->graph->outputs.n; i++) TRY(infer_output(call, text, i, length, i >= n_plain));
    call->n_out = text->graph->outputs.n;
    return ST_OK;
}

/* One bool: what runs would refuse another one, and a dead op may not run. */
static Status check_predicate(const MetaCall *call, const char *what, const Meta *meta, const int64_t *sizes) {
    bool one = meta->dtype == DT_bool;
    for (int d = 0; d < meta->rank && one; d++) one = sym_same(call->env, sizes[d], 1);
    if (one) return ST_OK;
    return meta_fail(call, meta->dtype == DT_bool ? ST_SHAPE : ST_DTYPE, "%s is %s%s, not one bool", what,
                     dtype_name(meta->dtype), sizes_text(call, sizes, meta->rank).at);
}

static Status check_condition(const MetaCall *call, const FlowText *test) {
    const GVal *const value = test->graph->outputs.at[0].value;
    if (!value) return meta_fail(call, ST_ARGUMENT, "a condition without a result");
    const Meta *const meta = value->base.meta;
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) sizes[d] = flow_text_value(test, call->env, meta->sizes[d]);
    return check_predicate(call, "what condition gives", meta, sizes);
}

static Status check_cond(const MetaCall *call, Arena *arena, FlowText *yes, FlowText *no) {
    const Arg *const operands = arg_named(call, "operands");
    const int n_in = (int)arg_named(call, "n_in")->i;
    const Meta *const pred = arg_named(call, "pred")->val->meta;
    int n_ints = 0;
    TRY(check_predicate(call, "pred", pred, pred->sizes));
    TRY(flow_graph(call, arena, "if_true", &n_ints, yes));
    TRY(flow_graph(call, arena, "if_false", &n_ints, no));
    TRY(check_ints(call, n_ints));
    TRY(check_inputs(call, yes, operands, n_in));
    TRY(check_inputs(call, no, operands, n_in));
    TRY(check_closed(call, yes, operands, n_in, n_in));
    TRY(check_closed(call, no, operands, n_in, yes->graph->inputs.n));
    if (yes->graph->outputs.n == no->graph->outputs.n) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "%d results in one branch, %d in the other", yes->graph->outputs.n,
                     no->graph->outputs.n);
}

static Status cond_inside(MetaCall *call, Arena *arena) {
    FlowText yes, no;
    TRY(check_cond(call, arena, &yes, &no));
    return infer_outputs(call, &yes, yes.graph->outputs.n, 0);
}

static Status check_while(const MetaCall *call, Arena *arena, FlowText *test, FlowText *body) {
    const Arg *const operands = &call->args[0];
    const int n_in = (int)call->args[1].i;
    int n_ints = 0;
    TRY(flow_graph(call, arena, "condition", &n_ints, test));
    TRY(flow_graph(call, arena, "body", &n_ints, body));
    TRY(check_ints(call, n_ints));
    TRY(check_inputs(call, test, operands, n_in));
    TRY(check_inputs(call, body, operands, n_in));
    TRY(check_closed(call, test, operands, n_in, n_in));
    TRY(check_closed(call, body, operands, n_in, test->graph->inputs.n));
    if (test->graph->outputs.n != 1 || body->graph->outputs.n != n_in)
        return meta_fail(call, ST_ARGUMENT, "a condition of %d results and a body of %d, for %d carries",
                         test->graph->outputs.n, body->graph->outputs.n, n_in);
    return check_condition(call, test);
}

static Status while_inside(MetaCall *call, Arena *arena) {
    FlowText test, body;
    TRY(check_while(call, arena, &test, &body));
    return infer_outputs(call, &body, body.graph->outputs.n, 0);
}

/* What is left of an operand without its dim. */
static Status check_slice(const MetaCall *call, const FlowText *text, const GVal *input, const Meta *meta,
                          int64_t *length) {
    int64_t sizes[MAX_RANK];
    const int64_t dim = dim_wrap(sym_concrete(call->env, arg_named(call, "dim")->i), meta->rank);
    if (!meta->rank || dim < 0 || dim >= meta->rank)
        return meta_fail(call, ST_SHAPE, "a tensor of sizes %s has no dim %lld", SIZES(call, meta), (long long)dim);
    for (int d = 0, n = 0; d < meta->rank; d++)
        if (d != dim) sizes[n++] = meta->sizes[d];
    *length = meta->sizes[dim];
    const Meta slice = {.dtype = meta->dtype, .device = meta->device, .rank = meta->rank - 1, .sizes = sizes};
    return check_flow_operand(call, text, input, &slice);
}

static Status check_flow_scan(const MetaCall *call, Arena *arena, FlowText *body, int64_t *length) {
    const Arg *const operands = arg_named(call, "operands");
    const int n_in = (int)arg_named(call, "n_in")->i, n_carry = (int)arg_named(call, "n_carry")->i;
    int n_ints = 0;
    TRY(flow_graph(call, arena, "body", &n_ints, body));
    TRY(check_ints(call, n_ints));
    const int n_out = body->graph->outputs.n, n_inputs = body->graph->inputs.n;
    if (n_carry < 0 || n_carry >= n_in || n_carry > n_out || n_in > operands->n || n_in > n_inputs)
        return meta_fail(call, ST_ARGUMENT, "%d inputs of %d operands, %d results, %d of them carried", n_in,
                         operands->n, n_out, n_carry);
    TRY(check_inputs(call, body, operands, n_carry));
    for (int i = n_carry; i < n_in; i++)
        TRY(check_slice(call, body, body->graph->inputs.at[i], operands->vals[i]->meta, length));
    return check_closed(call, body, operands, n_in, n_in);
}

static Status scan_inside(MetaCall *call, Arena *arena) {
    int64_t length = 0;
    FlowText body;
    TRY(check_flow_scan(call, arena, &body, &length));
    return infer_outputs(call, &body, (int)arg_named(call, "n_carry")->i, length);
}

Status meta_flow_bind(MetaCall *call, Arena *arena, FlowText *texts, int *params, int *n) {
    static const char *const names[][FLOW_BODIES] = {{"if_true", "if_false"}, {"condition", "body"}, {"body", NULL}};
    int kind = 0; /* of a backward it is its forward's */
    while (kind < 2 && op_param_find(call->row, names[kind][0]) < 0) kind++;
    int64_t length;
    for (*n = 0; *n < FLOW_BODIES && names[kind][*n]; ++*n) params[*n] = op_param_find(call->row, names[kind][*n]);
    if (kind == 0) return check_cond(call, arena, &texts[0], &texts[1]);
    return kind == 1 ? check_while(call, arena, &texts[0], &texts[1])
                     : check_flow_scan(call, arena, &texts[0], &length);
}

static Status with_arena(MetaCall *call, Status (*inside)(MetaCall *call, Arena *arena)) {
    Arena *const arena = arena_new();
    const Status status = arena ? inside(call, arena) : ST_MEMORY;
    arena_free(arena);
    return status;
}

Status meta_flow_cond(MetaCall *call) { return with_arena(call, cond_inside); }
Status meta_flow_while(MetaCall *call) { return with_arena(call, while_inside); }
Status meta_flow_scan(MetaCall *call) { return with_arena(call, scan_inside); }

/* Each number of `which` is below n, and comes once. */
static Status names_below(const MetaCall *call, const char *param, int count, int n) {
    const Arg *const which = arg_named(call, param);
    bool fits = which->n == count;
    for (int i = 0; fits && i < count; i++) {
        fits = which->ints[i] >= 0 && which->ints[i] < n;
        for (int k = 0; fits && k < i; k++) fits = which->ints[k] != which->ints[i];
    }
    return fits ? ST_OK
                : meta_fail(call, ST_ARGUMENT, "%s: %d numbers for %d, each once and below %d", param, which->n, count,
                            n);
}

/* A gradient, or a sum of such, is like its tensor. */
static Status check_like(const MetaCall *call, const char *what, int i, const Meta *meta, const Meta *like) {
    bool fits = meta->dtype == like->dtype && meta->device == like->device && meta->rank == like->rank;
    for (int d = 0; fits && d < like->rank; d++) fits = sym_same(call->env, meta->sizes[d], like->sizes[d]);
    if (fits) return ST_OK;
    return meta_fail(call, meta->dtype == like->dtype ? ST_SHAPE : ST_DTYPE, "%s %d is %s of sizes %s, not %s of %s",
                     what, i, dtype_name(meta->dtype), SIZES(call, meta), dtype_name(like->dtype), SIZES(call, like));
}

/* Of the body's results `defined`, the first n_plain of which are no stacks of `length`. */
static Status check_flow_gradients(const MetaCall *call, const FlowText *text, int n_plain, int64_t length) {
    const Graph *const body = text->graph;
    const Arg *const gradients = arg_named(call, "gradients"), *const defined = arg_named(call, "defined");
    const int n_operands = arg_named(call, "operands")->n;
    if (n_operands > FLOW_OPERANDS || body->outputs.n > FLOW_RESULTS)
        return meta_fail(call, ST_UNSUPPORTED, "%d operands and %d results, of at most %d and %d", n_operands,
                         body->outputs.n, FLOW_OPERANDS, FLOW_RESULTS);
    TRY(names_below(call, "defined", gradients->n, body->outputs.n));
    for (int k = 0; k < gradients->n; k++) {
        const int result = (int)defined->ints[k];
        const GVal *const value = body->outputs.at[result].value;
        if (!value) return meta_fail(call, ST_ARGUMENT, "a body without result %d", result);
        Meta like = *value->base.meta;
        int64_t sizes[MAX_RANK + 1] = {length};
        const bool stacked = result >= n_plain;
        if (like.rank + stacked > MAX_RANK) return meta_fail(call, ST_SHAPE, "a stack of %d dims", like.rank + 1);
        for (int d = 0; d < like.rank; d++) sizes[d + stacked] = flow_text_value(text, call->env, like.sizes[d]);
        like.rank += stacked;
        like.sizes = sizes;
        TRY(check_like(call, "gradient", k, gradients->vals[k]->meta, &like));
    }
    return ST_OK;
}

static const Meta *operand_of_result(const MetaCall *call, int64_t result) {
    const Arg *const operands = arg_named(call, "operands"), *const of = arg_named(call, "of");
    int i = 0;
    while (of->ints[i] != result) i++;
    return operands->vals[i]->meta;
}

/* A gradient is like its operand, row-major; operands of one gradient are alike. */
static Status infer_gradients(MetaCall *call) {
    const Arg *const operands = arg_named(call, "operands"), *const of = arg_named(call, "of");
    int n = 0;
    if (of->n != operands->n) return meta_fail(call, ST_ARGUMENT, "of: %d numbers for %d operands", of->n, operands->n);
    for (int i = 0; i < of->n; i++) {
        const Meta *const meta = operands->vals[i]->meta;
        if (of->ints[i] < 0) continue;
        if (of->ints[i] > n) return meta_fail(call, ST_ARGUMENT, "of: %lld comes before %d", (long long)of->ints[i], n);
        if (of->ints[i] < n) {
            TRY(check_like(call, "operand", i, meta, operand_of_result(call, of->ints[i])));
            continue;
        }
        if (out_list(call, n)) out_plain(call, n, meta->dtype, meta->device, meta->sizes, meta->rank);
        n++;
    }
    call->n_out = n;
    return ST_OK;
}

static Status check_sums(const MetaCall *call) {
    const Arg *const sums = arg_named(call, "sums"), *const summed = arg_named(call, "summed");
    TRY(names_below(call, "summed", sums->n, call->n_out));
    for (int k = 0; k < sums->n; k++)
        TRY(check_like(call, "sum", k, sums->vals[k]->meta, operand_of_result(call, summed->ints[k])));
    return ST_OK;
}

static Status cond_backward_inside(MetaCall *call, Arena *arena) {
    FlowText yes, no;
    TRY(check_cond(call, arena, &yes, &no));
    TRY(check_flow_gradients(call, &yes, yes.graph->outputs.n, 0));
    TRY(infer_gradients(call));
    return check_sums(call);
}

static Status scan_backward_inside(MetaCall *call, Arena *arena) {
    int64_t length = 0;
    FlowText body;
    TRY(check_flow_scan(call, arena, &body, &length));
    TRY(check_flow_gradients(call, &body, (int)arg_named(call, "n_carry")->i, length));
    TRY(infer_gradients(call));
    return check_sums(call);
}

Status meta_flow_cond_backward(MetaCall *call) { return with_arena(call, cond_backward_inside); }
Status meta_flow_scan_backward(MetaCall *call) { return with_arena(call, scan_backward_inside); }
