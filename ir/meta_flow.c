/* meta_flow.c: meta rules of control flow (ops/flow.def): what its graphs take and give. The texts have plain sizes, so
 * operands specialise to them. */
#include "ir/alias.h"
#include "ir/flow_limits.h"
#include "ir/graph.h"
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

static bool is_plain(const Meta *meta) {
    bool plain = true;
    for (int d = 0; d < meta->rank; d++) plain &= !sym_is(meta->sizes[d]) && !sym_is(meta->strides[d]);
    return plain;
}

/* Its numbers are plain. */
static bool is_plain_node(const Node *node) {
    bool plain = true;
    for (int i = 0; i < node->n_args; i++) {
        const Arg *const a = &node->args[i];
        plain &= a->kind != ARG_int || !sym_is(a->i);
        for (int k = 0; a->kind == ARG_ints && k < a->n; k++) plain &= !sym_is(a->ints[k]);
    }
    for (int i = 0; i < node->n_outs; i++) plain &= is_plain(node->outs[i].base.meta);
    return plain;
}

static Status flow_graph(const MetaCall *call, Arena *arena, const char *param, Graph **out) {
    const Arg *const text = arg_named(call, param);
    TRY(graph_parse(arena, text->string, strlen(text->string), out));
    for (int i = 0; i < (*out)->inputs.n; i++)
        if (!is_plain((*out)->inputs.at[i]->base.meta))
            return meta_fail(call, ST_ARGUMENT, "input %%%s of a body has symbolic sizes", (*out)->inputs.at[i]->name);
    for (const Node *node = (*out)->first; node; node = node->next) {
        if (!is_plain_node(node))
            return meta_fail(call, ST_ARGUMENT, "%s in a body has symbolic numbers", node->row->name);
        TRY(owns_written(call, node));
    }
    return ST_OK;
}

/* An operand is what the graph's input says. */
static Status check_flow_operand(const MetaCall *call, const GVal *input, const Meta *meta) {
    const Meta *const want = input->base.meta;
    bool fits = want->dtype == meta->dtype && want->device == meta->device && want->rank == meta->rank;
    for (int d = 0; fits && d < want->rank; d++) fits = sym_same(call->env, meta->sizes[d], want->sizes[d]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "input %%%s of a body has sizes %s, not %s", input->name,
                     sizes_text(call, want->sizes, want->rank).at, SIZES(call, meta));
}

/* The operands that a graph closes over begin at `first`. */
static Status check_closed(const MetaCall *call, const Graph *graph, const Arg *operands, int n_in, int first) {
    if (graph->inputs.n < n_in || first + graph->inputs.n - n_in > operands->n)
        return meta_fail(call, ST_ARGUMENT, "%d operands for a body of %d inputs", operands->n, graph->inputs.n);
    for (int i = n_in; i < graph->inputs.n; i++)
        TRY(check_flow_operand(call, graph->inputs.at[i], operands->vals[first + i - n_in]->meta));
    return ST_OK;
}

static Status check_inputs(const MetaCall *call, const Graph *graph, const Arg *operands, int n_in) {
    if (n_in < 0 || n_in > operands->n || n_in > graph->inputs.n)
        return meta_fail(call, ST_ARGUMENT, "%d inputs, of %d operands", n_in, operands->n);
    for (int i = 0; i < n_in; i++) TRY(check_flow_operand(call, graph->inputs.at[i], operands->vals[i]->meta));
    return ST_OK;
}

/* Result i: the graph's, or a stack of `length` such. */
static Status infer_output(MetaCall *call, const Graph *graph, int i, int64_t length) {
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

static Status infer_outputs(MetaCall *call, const Graph *graph, int n_plain, int64_t length) {
    for (int i = 0; i < graph->outputs.n; i++) TRY(infer_output(call, graph, i, i < n_plain ? -1 : length));
    call->n_out = graph->outputs.n;
    return ST_OK;
}

static Status check_cond(const MetaCall *call, Arena *arena, Graph **yes, Graph **no) {
    const Arg *const operands = arg_named(call, "operands");
    const int n_in = (int)arg_named(call, "n_in")->i;
    TRY(flow_graph(call, arena, "if_true", yes));
    TRY(flow_graph(call, arena, "if_false", no));
    TRY(check_inputs(call, *yes, operands, n_in));
    TRY(check_inputs(call, *no, operands, n_in));
    TRY(check_closed(call, *yes, operands, n_in, n_in));
    TRY(check_closed(call, *no, operands, n_in, (*yes)->inputs.n));
    if ((*yes)->outputs.n == (*no)->outputs.n) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "%d results in one branch, %d in the other", (*yes)->outputs.n,
                     (*no)->outputs.n);
}

static Status cond_inside(MetaCall *call, Arena *arena) {
    Graph *yes, *no;
    TRY(check_cond(call, arena, &yes, &no));
    return infer_outputs(call, yes, yes->outputs.n, 0);
}

static Status while_inside(MetaCall *call, Arena *arena) {
    const Arg *const operands = &call->args[0];
    const int n_in = (int)call->args[1].i;
    Graph *test, *body;
    TRY(flow_graph(call, arena, "condition", &test));
    TRY(flow_graph(call, arena, "body", &body));
    TRY(check_inputs(call, test, operands, n_in));
    TRY(check_inputs(call, body, operands, n_in));
    TRY(check_closed(call, test, operands, n_in, n_in));
    TRY(check_closed(call, body, operands, n_in, test->inputs.n));
    if (test->outputs.n != 1 || body->outputs.n != n_in)
        return meta_fail(call, ST_ARGUMENT, "a condition of %d results and a body of %d, for %d carries",
                         test->outputs.n, body->outputs.n, n_in);
    return infer_outputs(call, body, n_in, 0);
}

/* What is left of an operand without its dim. */
static Status check_slice(const MetaCall *call, const GVal *input, const Meta *meta, int64_t *length) {
    int64_t sizes[MAX_RANK];
    const int64_t dim = dim_wrap(sym_concrete(call->env, arg_named(call, "dim")->i), meta->rank);
    if (!meta->rank || dim < 0 || dim >= meta->rank)
        return meta_fail(call, ST_SHAPE, "a tensor of sizes %s has no dim %lld", SIZES(call, meta), (long long)dim);
    for (int d = 0, n = 0; d < meta->rank; d++)
        if (d != dim) sizes[n++] = meta->sizes[d];
    *length = sym_concrete(call->env, meta->sizes[dim]);
    const Meta slice = {.dtype = meta->dtype, .device = meta->device, .rank = meta->rank - 1, .sizes = sizes};
    return check_flow_operand(call, input, &slice);
}

static Status check_flow_scan(const MetaCall *call, Arena *arena, Graph **body, int64_t *length) {
    const Arg *const operands = arg_named(call, "operands");
    const int n_in = (int)arg_named(call, "n_in")->i, n_carry = (int)arg_named(call, "n_carry")->i;
    TRY(flow_graph(call, arena, "body", body));
    const int n_out = (*body)->outputs.n, n_inputs = (*body)->inputs.n;
    if (n_carry < 0 || n_carry >= n_in || n_carry > n_out || n_in > operands->n || n_in > n_inputs)
        return meta_fail(call, ST_ARGUMENT, "%d inputs of %d operands, %d results, %d of them carried", n_in,
                         operands->n, n_out, n_carry);
    TRY(check_inputs(call, *body, operands, n_carry));
    TRY(check_closed(call, *body, operands, n_in, n_in));
    for (int i = n_carry; i < n_in; i++) TRY(check_slice(call, (*body)->inputs.at[i], operands->vals[i]->meta, length));
    return ST_OK;
}

static Status scan_inside(MetaCall *call, Arena *arena) {
    int64_t length = 0;
    Graph *body;
    TRY(check_flow_scan(call, arena, &body, &length));
    return infer_outputs(call, body, (int)arg_named(call, "n_carry")->i, length);
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
static Status check_flow_gradients(const MetaCall *call, const Graph *body, int n_plain, int64_t length) {
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
        memcpy(sizes + stacked, like.sizes, sizeof *sizes * (size_t)like.rank);
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
    Graph *yes, *no;
    TRY(check_cond(call, arena, &yes, &no));
    TRY(check_flow_gradients(call, yes, yes->outputs.n, 0));
    TRY(infer_gradients(call));
    return check_sums(call);
}

static Status scan_backward_inside(MetaCall *call, Arena *arena) {
    int64_t length = 0;
    Graph *body;
    TRY(check_flow_scan(call, arena, &body, &length));
    TRY(check_flow_gradients(call, body, (int)arg_named(call, "n_carry")->i, length));
    TRY(infer_gradients(call));
    return check_sums(call);
}

Status meta_flow_cond_backward(MetaCall *call) { return with_arena(call, cond_backward_inside); }
Status meta_flow_scan_backward(MetaCall *call) { return with_arena(call, scan_backward_inside); }
