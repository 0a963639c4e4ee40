/* alias.h: memory and history: whose memory a result has, and whether the tape records an op.
 *
 * A meta rule says of every result which argument's memory it shows, and where (MetaOut.alias, offset). That is kept
 * with the value when its op is recorded (GVal.alias; TraceMemory and TraceHistory in runtime/capture) and read from
 * there:
 *
 *     %0 = aten::slice(%x, 0, 2, 4)    memory %x, 6 elements on      root %x at 6, as %x has 3 columns
 *     %1 = aten::view(%0, [6])         memory %0, 0 elements on      root %x at 6
 *     %2 = aten::mul_(%1, 2)           memory %1: a written form's result is what it writes
 *     %3 = aten::clone(%1)             memory of its own             root %3
 *
 * It is told from the argument, so it stays true whatever a pass puts in the argument's place; the verifier asks the
 * meta rule again and compares. Offsets count from a value's first element: as_strided's, which count from where the
 * storage begins, become those of sn::view_of at the doors: graph_append here, capture_strided.c, tape_offset. */
#ifndef SINTER_IR_ALIAS_H
#define SINTER_IR_ALIAS_H
#include "ir/graph.h"

/* The argument whose memory a value has, of a list the element of the result's number; NULL: an input, or memory of its
 * own. */
static inline GVal *value_memory(const GVal *value) {
    if (value->alias < 0) return NULL;
    const Arg *const arg = &value->def->args[value->alias];
    return gval(arg->kind == ARG_tensors ? arg->vals[value - value->def->outs] : arg->val);
}

/* The same where it is a view, not what a form wrote. */
static inline GVal *value_viewed(const GVal *value) {
    return value->alias >= 0 && value->def->form == FORM_functional ? value_memory(value) : NULL;
}

/* What a value is a view of, by however many ops; itself: of nothing. */
static inline GVal *view_root(const GVal *value) {
    for (const GVal *viewed; (viewed = value_viewed(value));) value = viewed;
    return (GVal *)value;
}

/* Does the tape, where gradients are on, have a view by this row as one of what it views? What was detached is a base
 * of its own, and so is what _unsafe_view gives. */
static inline bool tape_notes(const OpRow *row) { return !(row->flags & OPF_nodiff || row->role == ROLE_new_base); }

/* The same of a view made in these modes (NODE_): one that was made while gradients were off is written and read
 * through its base, but takes no history from it. */
static inline bool tape_keeps(const OpRow *row, uint8_t modes) {
    return tape_notes(row) && !(modes & (NODE_no_grad | NODE_inference));
}

/* Of the arguments that have a history (bits), those that make the tape record an op; 0: it does not. modes: NODE_.
 * Of a comparison in place it is what is overwritten. */
static inline uint32_t op_recorded(const OpRow *row, OpForm form, uint8_t modes, uint32_t tracked) {
    if (modes & (NODE_no_grad | NODE_inference) || row->role == ROLE_gradients) return 0;
    if (!(row->flags & OPF_nodiff)) return tracked;
    return form == FORM_inplace ? tracked & 1 : 0;
}

#endif
