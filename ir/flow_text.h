/* flow_text.h: a body of control flow, which is a graph as text (ops/flow.def), in the graph around it: what its
 * symbols stand for there, and the text with numbers in their place.
 *
 *     graph body(%x: f32[s0,4], s1: int) {       operands [%h] of f32[7,4], ints=[3]   ->   s0 is 7, s1 is 3
 *
 * A symbol is what the first size that it is alone says, as in any graph, or the int of that place. */
#ifndef SINTER_IR_FLOW_TEXT_H
#define SINTER_IR_FLOW_TEXT_H
#include "ir/graph.h"

typedef struct FlowText {
    Graph *graph;
    int64_t *values; /* by free symbol: in the graph around */
    bool *bound;
} FlowText;

/* Its ints are those of `ints` from *next on, which moves; *enough false: there are fewer. */
Status flow_text_read(Arena *arena, const char *text, const Arg *ints, int *next, FlowText *out, bool *enough);
/* Sizes that are a symbol alone, and not bound, give it its value. */
void flow_text_bind(const FlowText *text, const Meta *input, const int64_t *sizes);
bool flow_text_is_bound(const FlowText *text, int64_t v);
/* A number or an expression of env. */
int64_t flow_text_value(const FlowText *text, SymEnv *env, int64_t v);
/* Something in its ops or results that is not bound; 0: nothing. */
int64_t flow_text_unbound(const FlowText *text);
/* Besides the generator's. */
bool flow_text_has_numbers(const Graph *graph);

/* The bodies of a call, bound to plain operands, checked as by the meta rule; how many. */
enum { FLOW_BODIES = 2 };
Status meta_flow_bind(MetaCall *call, Arena *arena, FlowText *texts, int *param, int *n);
/* What became of the bodies of a call: argument `param` is a text that has numbers in the place of the `n` symbols of
 * `general`, which are `values`. */
typedef struct FlowNumbers {
    int count;
    struct {
        int param, n;
        const char *general;
        const int64_t *values;
    } texts[FLOW_BODIES];
} FlowNumbers;
/* A call of plain operands and ints, in place: texts without symbols and ints, of the arena. numbers: NULL, or gets
 * what was put in. */
Status flow_args_plain(Arena *arena, const OpRow *row, Arg *args, FlowNumbers *numbers);
/* Whether there is nothing to be done: some texts that have nothing either say no. */
bool flow_args_are_plain(const OpRow *row, const Arg *args);

#endif
