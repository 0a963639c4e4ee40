/* trace_path.c: where a trace leaves the paths that its function took before: why a segment has no variant at all.
 *
 *   before   mm relu sum
 *   now      mm relu tanh     a new path: aten::tanh at model.c:12 after aten::relu, where aten::sum was before
 *
 * The fork is the last node of the trace that leads elsewhere too, or where an earlier segment ended. */
#include "runtime/capture/record/trace_path.h"

#include "runtime/core/site.h"
#include "runtime/capture/record/trace_graph.h"

typedef struct Fork {
    const TrieNode *at;
    const TrieNode *taken; /* NULL: the trace ends here */
    const TrieNode *known; /* NULL: an earlier segment ended here */
} Fork;

static bool same_name(const TrieNode *a, const TrieNode *b) {
    return a && b && a->op.row == b->op.row && a->op.form == b->op.form &&
           a->op.mutates_metadata == b->op.mutates_metadata;
}

/* Of the other children the oldest, of the same op where there is one. The list has the newest first. */
static const TrieNode *known_child(const TrieNode *at, const TrieNode *taken) {
    const TrieNode *found = NULL;
    for (const TrieNode *child = trie_newest(at); child; child = child->next)
        if (child != taken && (!same_name(found, taken) || same_name(child, taken))) found = child;
    return found;
}

static bool has_variants(const TrieNode *node) {
    return atomic_load_explicit(&node->variants, memory_order_acquire) != NULL;
}

static bool find_fork(const Trace *trace, Fork *fork) {
    *fork = (Fork){.at = trace->end};
    for (; fork->at; fork->taken = fork->at, fork->at = fork->at->parent) {
        fork->known = known_child(fork->at, fork->taken);
        if (fork->known || (fork->taken && has_variants(fork->at))) return true;
    }
    return false;
}

static bool same_structure(const OpRow *row, int i, const Arg *a, const Arg *b) {
    if (a->head != b->head) return false;
    if (a->kind == ARG_string) return !strcmp(a->string, b->string);
    return (a->kind != ARG_int && a->kind != ARG_bool) || trace_arg_is_number(row, i, a) || a->i == b->i;
}

/* The first argument in which two calls of one op differ; NULL: none, so the modes do. lengths: of a list that is not
 * as long in both; else as they were. */
static const char *other_argument(const TraceOp *a, const TraceOp *b, int lengths[2]) {
    const Operand *x = a->operands, *y = b->operands;
    for (int i = 0; i < a->row->n_params; i++) {
        const Arg *const arg = &a->args[i];
        if (arg->kind == ARG_tensors && b->args[i].kind == ARG_tensors && arg->n != b->args[i].n)
            lengths[0] = arg->n, lengths[1] = b->args[i].n;
        if (!same_structure(a->row, i, arg, &b->args[i])) return a->row->params[i].name;
        const int n = arg->kind == ARG_tensor ? 1 : arg->kind == ARG_tensors ? arg->n : 0;
        for (int k = 0; k < n; k++)
            if (*x++ != *y++) return a->row->params[i].name;
    }
    for (; x < a->operands + a->n_operands; x++, y++)
        if (*x != *y) return "out";
    return NULL;
}

static const char *modes_name(const TraceOp *op) {
    return op->modes & NODE_inference ? "in inference mode"
           : op->modes & NODE_no_grad ? "without grad mode"
                                      : "in grad mode";
}

static const char *name_of(const TrieNode *node) { return trace_op_name(&node->op); }

static void print_difference(const Fork *fork, Text *text) {
    int lengths[2] = {0};
    const char *const argument = other_argument(&fork->taken->op, &fork->known->op, lengths);
    if (lengths[0] != lengths[1])
        text_printf(text, ", with %d tensor%s in '%s', %d before", lengths[0], lengths[0] == 1 ? "" : "s", argument,
                    lengths[1]);
    else if (argument)
        text_printf(text, ", with another '%s' than before", argument);
    else
        text_printf(text, ", %s, before %s", modes_name(&fork->taken->op), modes_name(&fork->known->op));
}

void trace_new_path(const Trace *trace, Text *text) {
    Fork fork;
    text_puts(text, "a new path");
    if (!find_fork(trace, &fork)) return;
    if (fork.taken) {
        char where[256];
        site_name(trace->ops.at[fork.taken->depth - 1].site, where, sizeof where);
        text_printf(text, ": %s at %s", name_of(fork.taken), where);
    } else {
        text_puts(text, ": the segment ends");
    }
    text_printf(text, " %s%s", fork.at->parent ? "after " : "as the first op", fork.at->parent ? name_of(fork.at) : "");
    if (same_name(fork.taken, fork.known))
        print_difference(&fork, text);
    else
        text_printf(text, ", where %s%s before", fork.known ? name_of(fork.known) : "the segment ended",
                    !fork.known  ? ""
                    : fork.taken ? " was"
                                 : " followed");
}
