/* views_text.c: see views_text.h. */
#include "runtime/capture/variant/views_text.h"

#include "runtime/base/error.h"
#include "runtime/capture/variant/variant_views.h"

/* Does the row give a view of its first argument, a tensor, and read no other tensor? */
static bool is_view_row(const OpRow *row) {
    if (row->kind != KIND_view || row->alias_of || row->flags & OPF_user || row->role == ROLE_bits ||
        row->role == ROLE_storage)
        return false;
    for (int i = 0; i < row->n_params; i++)
        if ((row->params[i].type == PT_tensor) != (i == 0)) return false;
    return row->n_params > 0 && row->n_out == 1 && !row->returns_list;
}

bool views_have_text(const Variant *v) {
    for (int i = 0; i < v->aliasing.n_views; i++)
        for (int k = 0; k < v->aliasing.views[i].ops.n; k++)
            if (!is_view_row(v->aliasing.views[i].ops.at[k]->row)) return false;
    return true;
}

/* Printing ------------------------------------------------------------------------------------ */

static void print_view_op(const Variant *v, const TraceOp *op, Text *text) {
    Arg args[MAX_ARGS];
    trace_numbers(op, v->origin.numbers, args);
    text_printf(text, "  %s(", op->row->name);
    for (int i = 1; i < op->row->n_params; i++) {
        if (i > 1) text_puts(text, ", ");
        arg_print(text, NULL, &args[i], op->row->params[i].type);
    }
    text_printf(text, "), numbers %d%s\n", op->first_number, op->modes & NODE_no_grad ? ", no_grad" : "");
}

static void print_output_view(const Variant *v, const OutputView *view, Text *text) {
    if (view->input >= 0 || view->base >= 0) {
        const bool input = view->input >= 0;
        text_printf(text, "view %d of %s %d\n", view->output, input ? "input" : "output",
                    input ? view->input : view->base);
        for (int i = view->ops.n - 1; i >= 0; i--) print_view_op(v, view->ops.at[i], text);
    } else if (view->no_grad) {
        text_printf(text, "view %d, no_grad\n", view->output);
    }
}

void views_print(const Variant *v, Text *text) {
    for (int i = 0; i < v->aliasing.n_counts; i++) {
        const WriteCount *const count = &v->aliasing.counts[i];
        const bool input = count->input >= 0;
        text_printf(text, "writes of %s %d: %d\n", input ? "input" : "output", input ? count->input : count->output,
                    count->uncounted);
    }
    for (int i = 0; i < v->aliasing.n_views; i++) print_output_view(v, &v->aliasing.views[i], text);
}

/* Parsing ------------------------------------------------------------------------------------- */

typedef struct ViewReader {
    TextReader *in;
    Variant *variant;
    Graph *numbers; /* what arguments are read with: it has no symbols */
    int n_numbers;  /* of the trace */
} ViewReader;

/* "input 0" or "output 0" */
static Status read_whose(ViewReader *r, int *input, int *output) {
    const Variant *const v = r->variant;
    const bool of_input = reader_eat(r->in, "input ");
    *input = *output = -1;
    if (!of_input) EAT(r->in, "output ");
    TRY(reader_count(r->in, of_input ? input : output));
    if (*input >= v->n_graph_inputs || *output >= v->n_outputs)
        return reader_expected(r->in, "a number of the lists above before this");
    return ST_OK;
}

/* An op writes a memory at most once for each of its results. */
static Status read_writes(ViewReader *r) {
    WriteCount count;
    TRY(read_whose(r, &count.input, &count.output));
    EAT(r->in, ": ");
    TRY(reader_count(r->in, &count.uncounted));
    EAT(r->in, "\n");
    if (count.uncounted / MAX_OUTS > r->variant->segment.n_ops)
        return reader_expected(r->in, "fewer writes before this");
    if (r->variant->aliasing.n_counts == r->variant->n_graph_inputs + r->variant->n_outputs)
        return reader_expected(r->in, "a line for each memory before this");
    r->variant->aliasing.counts[r->variant->aliasing.n_counts++] = count;
    return ST_OK;
}

static Status read_row(ViewReader *r, const OpRow **out) {
    const size_t n = strcspn(r->in->at, "(\n");
    OpForm form;
    *out = op_find(r->in->at, n, &form);
    if (!*out || form != FORM_functional || !is_view_row(*out)) return reader_expected(r->in, "a view");
    r->in->at += n;
    return ST_OK;
}

static Status check_normal(const ViewReader *r, const TraceOp *op) {
    const Val self = {.meta = NULL};
    Arg args[MAX_ARGS], normal[MAX_ARGS];
    memcpy(args, op->args, sizeof *args * (size_t)op->row->n_params);
    args[0] = A_VAL((Val *)&self);
    TRY(op_args_normalize(op->row, args, op->row->n_params, normal));
    for (int i = 1; i < op->row->n_params; i++)
        if (!arg_equal(&normal[i], &args[i]))
            return reader_expected(r->in, "arguments as a trace has them before this");
    return ST_OK;
}

static int count_numbers(const OpRow *row, const Arg *args) {
    int n = 0;
    for (int i = 0; i < row->n_params; i++) {
        const bool list = args[i].kind == ARG_ints || args[i].kind == ARG_floats;
        n += list ? args[i].n : trace_arg_is_number(row, i, &args[i]);
    }
    return n;
}

static Status read_view_args(ViewReader *r, const OpRow *row, Arg *args) {
    args[0] = A_NONE;
    for (int i = 1; i < row->n_params; i++) {
        if (i > 1) EAT(r->in, ", ");
        TRY(arg_parse(r->numbers, row->params[i].type, r->in, &args[i]));
    }
    return ST_OK;
}

static Status read_view_op(ViewReader *r, const TraceOp **out) {
    Arena *const arena = r->variant->arena;
    TraceOp *const op = ARENA_NEW(arena, TraceOp);
    if (!op) return ST_MEMORY;
    TRY(read_row(r, &op->row));
    Arg *const args = ARENA_ARRAY(arena, Arg, op->row->n_params);
    if (!args) return ST_MEMORY;
    op->args = args;
    EAT(r->in, "(");
    TRY(read_view_args(r, op->row, args));
    EAT(r->in, "), numbers ");
    TRY(reader_count(r->in, &op->first_number));
    if (reader_eat(r->in, ", no_grad")) op->modes = NODE_no_grad;
    EAT(r->in, "\n");
    TRY(check_normal(r, op));
    op->n_numbers = count_numbers(op->row, args);
    if (op->first_number > r->n_numbers - op->n_numbers)
        return reader_expected(r->in, "numbers of the trace before this");
    *out = op;
    return ST_OK;
}

/* From the base on; they are kept the other way round. */
static Status read_view_ops(ViewReader *r, OutputView *view) {
    VEC(const TraceOp *) ops = {0};
    while (reader_eat(r->in, "  ")) {
        const TraceOp *op = NULL;
        TRY(read_view_op(r, &op));
        VEC_PUSH(r->variant->arena, &ops, op);
    }
    for (int i = ops.n - 1; i >= 0; i--) VEC_PUSH(r->variant->arena, &view->ops, ops.at[i]);
    TRY(error_pending());
    if (!ops.n) return reader_expected(r->in, "an op of the view");
    view->no_grad = view->ops.at[0]->modes & NODE_no_grad;
    return ST_OK;
}

static Status read_output_view(ViewReader *r) {
    OutputView view = {.input = -1, .base = -1};
    TRY(reader_count(r->in, &view.output));
    if (view.output >= r->variant->n_outputs) return reader_expected(r->in, "an output of the list above before this");
    if (reader_eat(r->in, ", no_grad\n")) {
        view.no_grad = true;
    } else {
        EAT(r->in, " of ");
        TRY(read_whose(r, &view.input, &view.base));
        EAT(r->in, "\n");
        TRY(read_view_ops(r, &view));
    }
    for (int i = 0; i < r->variant->aliasing.n_views; i++)
        if (r->variant->aliasing.views[i].output == view.output)
            return reader_expected(r->in, "each output once before this");
    r->variant->aliasing.views[r->variant->aliasing.n_views++] = view;
    return ST_OK;
}

/* A base is no view: the tape goes from one to the other. */
static Status check_bases(const ViewReader *r) {
    const Variant *const v = r->variant;
    for (int i = 0; i < v->aliasing.n_views; i++)
        for (int k = 0; k < v->aliasing.n_views; k++)
            if (v->aliasing.views[i].base == v->aliasing.views[k].output)
                return reader_expected(r->in, "views of what is no view itself before this");
    return ST_OK;
}

Status views_read(TextReader *in, int n_numbers, Variant *v) {
    ViewReader r = {.in = in, .variant = v, .numbers = graph_new(v->arena, "numbers"), .n_numbers = n_numbers};
    v->aliasing.counts = ARENA_ARRAY(v->arena, WriteCount, v->n_graph_inputs + v->n_outputs);
    v->aliasing.views = ARENA_ARRAY(v->arena, OutputView, v->n_outputs);
    if (!r.numbers || !v->aliasing.counts || !v->aliasing.views) return ST_MEMORY;
    while (reader_eat(in, "writes of ")) TRY(read_writes(&r));
    while (reader_eat(in, "view ")) TRY(read_output_view(&r));
    return check_bases(&r);
}
