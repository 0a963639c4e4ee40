/* builder.c: emit(): arguments are normalised once here, then the builder (dispatcher or graph) takes over. */
#include "ir/builder.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/error.h"

/* A rule of ours that passes a size on as a dim ends a debug build here. Elsewhere op_meta refuses the number, and what
 * was to be compiled runs eagerly. */
static void check_loudly(const Builder *builder, const OpRow *row, const Arg *args) {
#ifdef SINTER_DEBUG
    if (!builder->env || op_numbers_check(row, args) == ST_OK) return;
    fprintf(stderr, "%s\n", error_slot()->message);
    abort();
#else
    (void)builder, (void)row, (void)args;
#endif
}

Status emit(Builder *builder, OpId op, const Arg *args, int n_args, Val **outs) {
    Arg full[MAX_ARGS];
    const OpRow *row = op_row(op);
    if (error_pending() != ST_OK) return error_pending();
    TRY(op_args_normalize(row, args, n_args, full));
    check_loudly(builder, row, full);
    return builder->emit(builder, row, full, outs);
}

Val *emit1(Builder *builder, OpId op, const Arg *args, int n_args) {
    Val *outs[MAX_OUTS] = {0};
    return emit(builder, op, args, n_args, outs) == ST_OK ? outs[0] : NULL;
}

Status emit_write(Builder *builder, Val *to, Val *from) {
    if (error_pending() != ST_OK) return error_pending();
    if (builder->write) return builder->write(builder, to, from);
    return error_raise(ST_UNSUPPORTED, "it writes an argument, which no graph does: use its functional form");
}
