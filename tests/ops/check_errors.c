/* check_errors.c: listed bad inputs give the listed error: its status, the op's name, the argument or value at
 * fault. */
#include "runtime/base/error.h"
#include "tests/ops/ops.h"

static const BadSample *current;

/* The op called, or the part of a composite that found the error. */
static bool names_op(const OpRow *row, const sn_error *error) {
    const char *const op = *error->op ? error->op : error->message;
    return row->kind == KIND_composite ? strstr(op, "::") != NULL : strstr(op, row->base) != NULL;
}

static void check_error(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    ops_count();
    const Status made = sample_make(c->row, c->line, &c->style, &call);
    const Status status = made == ST_OK ? sample_run(&call, outs, &n) : made;
    const sn_error *const error = sn_error_take();
    if (status == ST_OK)
        ops_fail(c, "no error");
    else if (status != current->status || (Status)error->status != status)
        ops_fail(c, "%s, not %s: %s", status_name(status), status_name(current->status), error->message);
    else if (!strstr(error->message, current->says))
        ops_fail(c, "the message does not say '%s': %s", current->says, error->message);
    else if (!names_op(c->row, error))
        ops_fail(c, "the error names op '%s': %s", error->op, error->message);
}

static void check_bad_row(const Case *c) {
    const Samples *const samples = samples_of(c->row);
    ops_count();
    if (c->number || c->row->alias_of) return;
    for (current = samples->bad; current && current->text; current++) {
        if (!sample_is_for(c->row, current->text)) continue;
        const Case one = {c->row, current->text, 0, {DT_f32}};
        check_error(&one);
    }
}

void check_errors(void) { ops_each(0, check_bad_row); }
