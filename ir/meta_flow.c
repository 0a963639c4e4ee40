/* meta_flow.c: meta rules of control flow (ops/flow.def): what its graphs take and give. The texts have plain sizes, so
 * operands specialise to them. */
#include "ir/graph.h"
#include "ir/meta_rules.h"

MetaFn meta_flow_cond, meta_flow_while, meta_flow_scan, meta_flow_cond_backward, meta_flow_scan_backward;

static Status flow_graph(const MetaCall *call, Arena *arena, const char *param, Graph **out) {
    const Arg *const text = &call->args[op_param_find(call->row, param)];
    return graph_parse(arena, text->string, strlen(text->string), out);
}

/* An operand is what the graph's input says. */
static Status takes_operand(const MetaCall *call, const GVal *input, const Meta *meta) {
    const Meta *const want = input->base.meta;
    bool fits = want->dtype == meta->dtype && want->device == meta->device && want->rank == meta->rank;
    for (int d = 0; fits && d < want->rank; d++) fits = sym_same(call->env, meta->sizes[d], want->sizes[d]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "input %%%s of a body has sizes %s, not %s", input->name,
                     sizes_text(call, want->sizes, want->rank).at, SIZES(call, meta));
}

/* The operands that a graph closes over begin at `first`. */
static Status takes_closed(const MetaCall *call, const Graph *graph, const Arg *operands, int n_in, int first) {
    if (graph->inputs.n < n_in || first + graph->inputs.n - n_in > operands->n)
        return meta_fail(call, ST_ARGUMENT, "%d operands for a body of %d inputs", operands->n, graph->inputs.n);
    for (int i = n_in; i < graph->inputs.n; i++)
        TRY(takes_operand(call, graph->inputs.at[i], operands->vals[first + i - n_in]->meta));
    return ST_OK;
}

static Status takes_inputs(const MetaCall *call, const Graph *graph, const Arg *operands, int n_in) {
    if (n_in < 0 || n_in > operands->n || n_in > graph->inputs.n)
        return meta_fail(call, ST_ARGUMENT, "%d inputs, of %d operands", n_in, operands->n);
    for (int i = 0; i < n_in; i++) TRY(takes_operand(call, graph->inputs.at[i], operands->vals[i]->meta));
    return ST_OK;
}

/* Result i: the graph's, or a stack of `length` such. */
static Status give_output(MetaCall *call, const Graph *graph, int i, int64_t length) {
    const GVal *const value = graph->outputs.at[i].value;
    if (!value) return meta_fail(call, ST_ARGUMENT, "a body without result %d", i);
    const Meta *const meta = value->base.meta;
    int64_t sizes[MAX_RANK + 1] = {length};
    memcpy(sizes + 1, meta->sizes, sizeof *sizes * (size_t)meta->rank);
    const bool stacked = length >= 0;
    if (meta->rank + stacked > MAX_RANK) return meta_fail(call, ST_SHAPE, "a stack of %d dims", meta->rank + 1);
    if (!out_list(call, i)) return ST_OK;
    out_plain(call, i, meta->dtype, meta->device, sizes + !stacked, meta->rank + stacked);
    return ST_OK;
}

static Status give_outputs(MetaCall *call, const Graph *graph, int n_plain, int64_t length) {
    for (int i = 0; i < graph->outputs.n; i++) TRY(give_output(call, graph, i, i < n_plain ? -1 : length));
    call->n_out = graph->outputs.n;
    return ST_OK;
}

static Status cond_inside(MetaCall *call, Arena *arena) {
    const Arg *const operands = &call->args[1];
    const int n_in = (int)call->args[2].i;
    Graph *yes, *no;
    TRY(flow_graph(call, arena, "if_true", &yes));
    TRY(flow_graph(call, arena, "if_false", &no));
    TRY(takes_inputs(call, yes, operands, n_in));
    TRY(takes_inputs(call, no, operands, n_in));
    TRY(takes_closed(call, yes, operands, n_in, n_in));
    TRY(takes_closed(call, no, operands, n_in, yes->inputs.n));
    if (yes->outputs.n != no->outputs.n)
        return meta_fail(call, ST_ARGUMENT, "%d results in one branch, %d in the other", yes->outputs.n, no->outputs.n);
    return give_outputs(call, yes, yes->outputs.n, 0);
}

static Status while_inside(MetaCall *call, Arena *arena) {
    const Arg *const operands = &call->args[0];
    const int n_in = (int)call->args[1].i;
    Graph *test, *body;
    TRY(flow_graph(call, arena, "condition", &test));
    TRY(flow_graph(call, arena, "body", &body));
    TRY(takes_inputs(call, test, operands, n_in));
    TRY(takes_inputs(call, body, operands, n_in));
    TRY(takes_closed(call, test, operands, n_in, n_in));
    TRY(takes_closed(call, body, operands, n_in, test->inputs.n));
    if (test->outputs.n != 1 || body->outputs.n != n_in)
        return meta_fail(call, ST_ARGUMENT, "a condition of %d results and a body of %d, for %d carries",
                         test->outputs.n, body->outputs.n, n_in);
    return give_outputs(call, body, n_in, 0);
}

/* What is left of an operand without its dim. */
static Status takes_slice(const MetaCall *call, const GVal *input, const Meta *meta, int64_t *length) {
    int64_t sizes[MAX_RANK];
    const int64_t dim = dim_wrap(sym_concrete(call->env, call->args[3].i), meta->rank);
    if (!meta->rank || dim < 0 || dim >= meta->rank)
        return meta_fail(call, ST_SHAPE, "a tensor of sizes %s has no dim %lld", SIZES(call, meta), (long long)dim);
    for (int d = 0, n = 0; d < meta->rank; d++)
        if (d != dim) sizes[n++] = meta->sizes[d];
    *length = sym_concrete(call->env, meta->sizes[dim]);
    const Meta slice = {.dtype = meta->dtype, .device = meta->device, .rank = meta->rank - 1, .sizes = sizes};
    return takes_operand(call, input, &slice);
}

static Status scan_inside(MetaCall *call, Arena *arena) {
    const Arg *const operands = &call->args[0];
    const int n_in = (int)call->args[1].i, n_carry = (int)call->args[2].i;
    int64_t length = 0;
    Graph *body;
    TRY(flow_graph(call, arena, "body", &body));
    if (n_carry < 0 || n_carry >= n_in || n_carry > body->outputs.n || n_in > operands->n || n_in > body->inputs.n)
        return meta_fail(call, ST_ARGUMENT, "%d inputs of %d operands, %d results, %d of them carried", n_in,
                         operands->n, body->outputs.n, n_carry);
    TRY(takes_inputs(call, body, operands, n_carry));
    TRY(takes_closed(call, body, operands, n_in, n_in));
    for (int i = n_carry; i < n_in; i++) TRY(takes_slice(call, body->inputs.at[i], operands->vals[i]->meta, &length));
    return give_outputs(call, body, n_carry, length);
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

/* Each number of `which` is below n. */
static Status names_below(const MetaCall *call, const char *param, int count, int n) {
    const Arg *const which = arg_named(call, param);
    bool fits = which->n == count;
    for (int i = 0; fits && i < count; i++) fits = which->ints[i] >= 0 && which->ints[i] < n;
    return fits ? ST_OK
                : meta_fail(call, ST_ARGUMENT, "%s: %d numbers for %d, each below %d", param, which->n, count, n);
}

/* A gradient is like its operand, row-major. */
static Status meta_backward(MetaCall *call) {
    const Arg *const operands = arg_named(call, "operands"), *const of = arg_named(call, "of");
    int n = 0;
    for (int i = 0; i < of->n && i < operands->n; i++) {
        if (of->ints[i] < 0 || of->ints[i] < n) continue;
        if (of->ints[i] != n)
            return meta_fail(call, ST_ARGUMENT, "of: %lld comes before %d", (long long)of->ints[i], n);
        const Meta *const meta = operands->vals[i]->meta;
        if (out_list(call, n)) out_plain(call, n, meta->dtype, meta->device, meta->sizes, meta->rank);
        n++;
    }
    if (of->n != operands->n) return meta_fail(call, ST_ARGUMENT, "of: %d numbers for %d operands", of->n, operands->n);
    TRY(names_below(call, "summed", arg_named(call, "sums")->n, n));
    TRY(names_below(call, "defined", arg_named(call, "gradients")->n, INT32_MAX));
    call->n_out = n;
    return ST_OK;
}

Status meta_flow_cond_backward(MetaCall *call) { return meta_backward(call); }
Status meta_flow_scan_backward(MetaCall *call) { return meta_backward(call); }
