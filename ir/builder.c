/* builder.c: emit(): arguments are normalised once here, then the builder (dispatcher or graph) takes over. */
#include "ir/builder.h"

#include "runtime/base/error.h"

Status emit(Builder *builder, OpId op, const Arg *args, int n_args, Val **outs) {
    Arg full[MAX_ARGS];
    const OpRow *row = op_row(op);
    if (error_pending() != ST_OK) return error_pending();
    TRY(op_args_normalize(row, args, n_args, full));
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
