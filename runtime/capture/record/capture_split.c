/* capture_split.c: walks a call's arguments twice alike: what capture_split numbers, capture_expected_args looks up. */
#include "runtime/capture/record/capture_split.h"

#include "runtime/capture/record/capture_input.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/core/custom_op.h"

int capture_list_length(const OpCall *call) {
    MetaOut metas[MAX_OUTS];
    int n = MAX_OUTS;
    if (call_metas(call, 0, metas, &n) == ST_OK) return n;
    error_clear();
    return -1;
}

/* A tensor argument as an operand: a value of this trace, or an input. */
static inline Status operand_of(Capture *c, sn_tensor *t, Operand *out) {
    *out = OPERAND_ABSENT;
    if (UNLIKELY(!t)) return ST_OK;
    const struct Placeholder *const p = t->placeholder;
    if (UNLIKELY(!p)) return capture_input(c, t, out);
    *out = p->value;
    return ST_OK;
}

/* Room for every argument and list element. */
static Status split_begin(Capture *c, const OpCall *call, OpSplit *s) {
    int n = call->row->n_params + call->row->n_out;
    for (int i = 0; i < call->row->n_params; i++) n += call->args[i].n;
    s->n_operands = s->n_fixed = s->n_numbers = 0;
    s->operands = s->usual_operands, s->metas = s->usual_metas, s->numbers = s->usual_numbers;
    if (n > USUAL_OPERANDS) {
        s->operands = ARENA_ARRAY(c->arena, Operand, n);
        s->metas = ARENA_ARRAY(c->arena, const Meta *, n);
    }
    if (n > USUAL_NUMBERS) s->numbers = ARENA_ARRAY(c->arena, int64_t, n);
    return s->operands && s->metas && s->numbers ? ST_OK : ST_MEMORY;
}

static Status split_tensor(Capture *c, OpSplit *s, sn_tensor *t) {
    TRY(operand_of(c, t, &s->operands[s->n_operands]));
    s->metas[s->n_operands++] = t ? t->base.meta : NULL;
    return ST_OK;
}

static Status split_list(Capture *c, OpSplit *s, const Arg *a) {
    for (int i = 0; i < a->n; i++) {
        if (a->kind == ARG_tensors)
            TRY(split_tensor(c, s, tensor_of(a->vals[i])));
        else
            s->numbers[s->n_numbers++] = a->ints[i]; /* floats: their bits */
    }
    return ST_OK;
}

static Status split_arg(Capture *c, OpSplit *s, const OpRow *row, int i, const Arg *a) {
    s->fixed[s->n_fixed++] = a->head;
    if (a->kind == ARG_tensor) return split_tensor(c, s, tensor_of(a->val));
    if (a->kind == ARG_ints || a->kind == ARG_floats || a->kind == ARG_tensors) return split_list(c, s, a);
    if (trace_arg_is_number(row, i, a))
        s->numbers[s->n_numbers++] = a->i; /* a float: its bits */
    else if (a->kind == ARG_int || a->kind == ARG_bool)
        s->fixed[s->n_fixed++] = a->i;
    else if (a->kind == ARG_string)
        s->fixed[s->n_fixed++] = capture_string_word(a);
    return ST_OK;
}

Status capture_split(Capture *c, const OpCall *call, OpSplit *s) {
    TRY(split_begin(c, call, s));
    for (int i = 0; i < call->row->n_params; i++) TRY(split_arg(c, s, call->row, i, &call->args[i]));
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++) TRY(split_tensor(c, s, call->out_args[i]));
    if (UNLIKELY(call->row->returns_list && op_dynamic(call->row))) s->fixed[s->n_fixed++] = capture_list_length(call);
    return ST_OK;
}

static void expect_tensor(ExpectedArg *want, const OpSplit *s, int operand) {
    want->operand = s->operands[operand];
    want->meta = s->metas[operand];
}

const ExpectedArg *capture_expected_args(Arena *arena, const OpCall *call, const OpSplit *s) {
    const int n = call->row->n_params, n_outs = call->form == FORM_out ? call->row->n_out : 0;
    ExpectedArg *const args = ARENA_ARRAY(arena, ExpectedArg, n + n_outs);
    if (!args) return NULL;
    int operand = 0, number = 0;
    for (int i = 0; i < n; i++) {
        const Arg *const a = &call->args[i];
        const bool tensors = a->kind == ARG_tensors;
        args[i] = (ExpectedArg){.head = a->head, .word = a->i, .first = tensors ? operand : number};
        if (a->kind == ARG_tensor) expect_tensor(&args[i], s, operand++);
        if (a->kind == ARG_string) args[i].word = capture_string_word(a);
        operand += tensors ? a->n : 0;
        number += a->kind == ARG_ints || a->kind == ARG_floats ? a->n : trace_arg_is_number(call->row, i, a);
    }
    for (int i = 0; i < n_outs; i++) expect_tensor(&args[n + i], s, operand + i);
    return args;
}
