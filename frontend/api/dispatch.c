/* dispatch.c: ops by name, the boxed call, custom ops, overrides, modes (sinter/dispatch.h). */
#include <pthread.h>
#include <sinter/dispatch.h>

#include "frontend/api/enter.h"
#include "frontend/api/number.h"
#include "frontend/api/op_check.h"
#include "frontend/api/ops_call.h"
#include "ir/schema.h"
#include "passes/passes.h"
#include "runtime/autograd/query.h"
#include "runtime/core/tracer.h"
#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/core/custom_results.h"
#include "runtime/core/override.h"

struct sn_op {
    const OpRow *row;
    OpForm form;
};

static sn_op handles[OP_IDS][FORM_COUNT];
enum { MAX_HANDLES = 4096 };
static sn_op user_handles[MAX_HANDLES]; /* written when registered */

static void fill_handles(void) {
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *const row = op_row_at(i);
        for (int form = 0; form < FORM_COUNT; form++) handles[row->id][form] = (sn_op){row, (OpForm)form};
    }
}

static const sn_op *op_handle(const OpRow *row, OpForm form) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_handles);
    if (!op_is_made(row)) return &handles[row->id][form];
    sn_op *const op = &user_handles[row->id - OP_IDS];
    if (!op->row) *op = (sn_op){row, form};
    return op;
}

static Status unknown_op(const char *name) {
    Text near = {0};
    if (name) op_unknown_hint(&near, name, strlen(name));
    const Status status =
        error_raise(ST_ARGUMENT, "sn_op_find: op '%s' is unknown%.600s", name ? name : "NULL", text_str(&near));
    text_free(&near);
    return status;
}

const sn_op *sn_op_find(const char *name) {
    OpForm form = FORM_functional;
    const OpRow *const row = name ? op_find(name, strlen(name), &form) : NULL;
    if (row && !(row->flags & OPF_internal)) return op_handle(row, form);
    if (row)
        error_raise(ST_ARGUMENT, "sn_op_find: op '%s' is one that only graphs have", name);
    else
        unknown_op(name);
    return NULL;
}

const char *sn_op_name(const sn_op *op) {
    if (op) return op_form_name(op->row, op->form);
    error_raise(ST_ARGUMENT, "sn_op_name: the op is NULL");
    return "";
}

const char *sn_op_schema(const sn_op *op) {
    if (op) return op_form_schema(op->row, op->form);
    error_raise(ST_ARGUMENT, "sn_op_schema: the op is NULL");
    return "";
}

static void list_row(Text *text, const OpRow *row, bool first) {
    text_puts(text, first ? "\n  {\"name\": " : ",\n  {\"name\": ");
    text_json_string(text, row->name);
    text_puts(text, ", \"schema\": ");
    text_json_string(text, row->schema);
    text_printf(text, ", \"kind\": \"%s\", \"core\": %s, \"inplace\": %s, \"out\": ", op_kind_name(row->kind),
                row->flags & OPF_core ? "true" : "false", row->inplace ? "true" : "false");
    if (row->out)
        text_json_string(text, row->out);
    else
        text_puts(text, "null");
    text_puts(text, ", \"derivative\": ");
    if (row->derivative)
        text_json_string(text, row->derivative);
    else
        text_puts(text, "null");
    text_printf(text, ", \"autocast\": \"%s\"", cast_policy_name(row->autocast));
    text_puts(text, ", \"doc\": ");
    text_json_string(text, row->doc ? row->doc : "");
    text_puts(text, "}");
}

const char *sn_op_list(void) {
    API_ENTER(sn_op_list);
    Text text = {0};
    text_puts(&text, "[");
    for (int i = 0; i < op_row_count(); i++) list_row(&text, op_row_at(i), i == 0);
    for (int i = 0; custom_op_at(i); i++)
        if (!custom_op_at(i)->withdrawn) list_row(&text, &custom_op_at(i)->row, false);
    text_puts(&text, "\n]\n");
    return state_text(state_get(), text.at);
}

const char *sn_op_kind(const sn_op *op) {
    if (!op) return error_raise(ST_ARGUMENT, "sn_op_kind: the op is NULL"), "";
    return op_kind_name((op->row->alias_of ? op->row->alias_of : op->row)->kind);
}

const char *sn_op_tags(const sn_op *op) {
    API_ENTER(sn_op_tags);
    Text text = {0};
    if (!op) return error_raise(ST_ARGUMENT, "sn_op_tags: the op is NULL"), "";
    for (int i = 0; i < op_tag_count(); i++)
        if (op_has_tag(op->row, op->form, i)) text_printf(&text, "%s%s", text.n ? ", " : "", op_tag_name(i));
    return state_text(state_get(), text.at);
}

/* The number of the tag; -1 raised. */
static int known_tag(const char *tag, const char *what) {
    const int found = error_pending() == ST_OK ? op_tag_find(tag) : -1;
    if (found >= 0 || error_pending() != ST_OK) return found;
    Text names = {0};
    for (int i = 0; i < op_tag_count(); i++) text_printf(&names, "%s%s", i ? ", " : "", op_tag_name(i));
    error_raise(ST_ARGUMENT, "%s: there is no tag '%s'; tags: %.600s", what, tag ? tag : "NULL", text_str(&names));
    text_free(&names);
    return -1;
}

bool sn_op_has_tag(const sn_op *op, const char *tag) {
    if (!op) return error_raise(ST_ARGUMENT, "sn_op_has_tag: the op is NULL"), false;
    const int found = known_tag(tag, "sn_op_has_tag");
    return found >= 0 && op_has_tag(op->row, op->form, found);
}

int sn_op_tag_count(const char *tag) {
    const int found = known_tag(tag, "sn_op_tag_count");
    if (found < 0) return 0;
    int n = op_tag_members(found, false);
    for (int i = 0; custom_op_at(i); i++)
        n += !custom_op_at(i)->withdrawn && op_has_tag(&custom_op_at(i)->row, FORM_functional, found);
    return n;
}

/* the boxed call ------------------------------------------------------------------------------ */

static Status out_arguments(const sn_op *op, const sn_value *in, int n_in, sn_tensor **outs) {
    const int n = op->row->n_out, first = n_in - n;
    if (first < 0) return error_raise(ST_ARGUMENT, "%s: the out form ends in %d tensors", op->row->name, n);
    for (int i = 0; i < n; i++) {
        if (in[first + i].kind != SN_KIND_TENSOR)
            return error_raise(ST_ARGUMENT, "%s: out is not a tensor", op->row->name);
        outs[i] = in[first + i].tensor;
    }
    return ST_OK;
}

typedef struct Results {
    sn_tensor **at;
    sn_value number; /* of KIND_number, instead */
    int n;
    sn_tensor *few[MAX_OUTS];
    Arg args[MAX_ARGS]; /* normalised */
} Results;

/* Goes by results_free. */
static Status results_alloc(const sn_op *op, Results *results) {
    results->at = SMALL_ARRAY(results->few, op->row->returns_list ? MAX_LIST : op->row->n_out);
    return results->at ? ST_OK : ST_MEMORY;
}
static void results_free(const Results *results) {
    if (results->at) small_array_free(results->few, results->at);
}

static Status call_form(const sn_op *op, const sn_value *in, int n_in, Results *results) {
    TRY(error_pending());
    if (!op || (n_in && !in)) return error_raise(ST_ARGUMENT, "sn_op_call: the op or its inputs are NULL");
    if (n_in < 0)
        return error_raise(ST_ARGUMENT, "%s: n_in is %d: it is not negative", op_form_name(op->row, op->form), n_in);
    sn_tensor *written[MAX_OUTS] = {0};
    if (op->form == FORM_out) {
        TRY(out_arguments(op, in, n_in, written));
        n_in -= op->row->n_out;
    }
    Arg *const args = results->args;
    const Arg *const given = (const Arg *)(const void *)in;
    TRY(results_alloc(op, results));
    TRY(ops_values(op->row, op->form, given, n_in));
    TRY(op_args_of_form(op->row, op->form, given, n_in, args));
    results->n = op->row->n_out;
    if (op->row->kind == KIND_number) return number_call(op->row, args, &results->number);
    if (op->row->returns_list) return dispatch_list(op->row, args, results->at, &results->n);
    ops_place(op->row, op->form, args, args);
    return dispatch(op->row, op->form, args, op->form == FORM_out ? written : NULL, results->at);
}

static Status call_op(const sn_op *op, const sn_value *in, int n_in, Results *results) {
    const void *const site = state_get()->site;
    const Status status = call_form(op, in, n_in, results);
    if (status != ST_OK) error_set_site(site);
    return status;
}

/* A number that a user's op gave: as it is; as its meta rule says it, before anything has run; or what is pending runs
 * now. */
static Status user_number(const sn_op *op, const Results *results, int i, sn_value *out) {
    Arg number;
    if (!custom_number_read(results->at[i], &number)) {
        Arg few[MAX_OUTS], *const said = SMALL_ARRAY(few, results->n);
        if (!said) return ST_MEMORY;
        SMALL_ARRAY_OWNER kept = {few, said};
        TRY(custom_numbers_said(op_dynamic(op->row), results->args, said, results->n));
        number = said[i];
    }
    if (number.kind == ARG_none)
        return number_item(op->row, &(Arg){.kind = ARG_tensor, .val = &results->at[i]->base}, out);
    memcpy(out, &number, sizeof *out);
    return ST_OK;
}

static Status result_value(const sn_op *op, const Results *results, int i, sn_value *out) {
    if (op->row->kind == KIND_number) return *out = results->number, ST_OK;
    if (custom_result_is_number(op->row, i, results->n)) return user_number(op, results, i, out);
    return *out = sn_val(results->at[i]), ST_OK;
}

static Status set_values(const sn_op *op, const Results *results, sn_value *out) {
    for (int i = 0; i < results->n; i++) TRY(result_value(op, results, i, &out[i]));
    return ST_OK;
}

sn_status sn_op_call(const sn_op *op, const sn_value *in, int n_in, sn_value *out, int *n_out) {
    API_ENTER(sn_op_call);
    const int capacity = n_out ? *n_out : 0;
    __attribute__((cleanup(results_free))) Results results = {.n = 0};
    Status status = call_op(op, in, n_in, &results);
    if (status == ST_OK && results.n > capacity)
        status =
            error_raise(ST_ARGUMENT, "%s has %d results, and out has room for %d", op->row->name, results.n, capacity);
    if (status == ST_OK && out) status = set_values(op, &results, out);
    for (int i = status == ST_OK ? results.n : 0; out && i < capacity; i++) out[i] = (sn_value){.kind = SN_KIND_NONE};
    if (n_out) *n_out = status == ST_OK ? results.n : 0;
    return (sn_status)status;
}

sn_tensor *sn_op_call1(const sn_op *op, const sn_value *in, int n_in) {
    API_ENTER(sn_op_call1);
    __attribute__((cleanup(results_free))) Results results = {.n = 0};
    const Status status = call_op(op, in, n_in, &results);
    if (status != ST_OK || !results.n) return NULL;
    if (op->row->kind != KIND_number && !custom_result_is_number(op->row, 0, results.n)) return results.at[0];
    error_raise(ST_ARGUMENT, "sn_op_call1: the result of %s is a number, which sn_op_call gives", op->row->name);
    return NULL;
}

/* user ops, overrides, modes ------------------------------------------------------------------ */

const sn_op *sn_op_register(const sn_op_desc *desc) {
    API_ENTER(sn_op_register);
    if (entered.refused) return NULL;
    const DynamicOp *const op = custom_op_register(desc);
    return op ? op_handle(&op->row, FORM_functional) : NULL;
}

/* A scalar expression that is being built. */
static Expression *expression_of(sn_expr *e, const void *text, const char *what) {
    if (error_pending() != ST_OK) return NULL;
    if (e && text) return (Expression *)e;
    error_raise(ST_ARGUMENT, "%s: the expression or a text is NULL", what);
    return NULL;
}

int sn_expr_arg(sn_expr *e, const char *parameter) {
    Expression *const to = expression_of(e, parameter, "sn_expr_arg");
    return to ? expression_param(to, parameter, strlen(parameter)) : -1;
}

int sn_expr_number(sn_expr *e, sn_scalar value) {
    Expression *const to = expression_of(e, "", "sn_expr_number");
    if (!to) return -1;
    if (value.kind != SN_KIND_INT && value.kind != SN_KIND_FLOAT)
        return expression_fail(to, ST_ARGUMENT, "sn_expr_number takes an int or a float, not a value of kind %d",
                               value.kind);
    return expression_number(to, value.kind == SN_KIND_INT ? A_INT(value.i) : A_FLOAT(value.f));
}

int sn_expr_call(sn_expr *e, const char *function, const int *parts, int n) {
    Expression *const to = expression_of(e, function, "sn_expr_call");
    if (!to) return -1;
    if (n < 0 || (n && !parts))
        return expression_fail(to, ST_ARGUMENT, "%s: the list of parts is NULL, or its length, %d, negative", function,
                               n);
    return expression_call(to, function, strlen(function), parts, n);
}

sn_status sn_op_check(const sn_op *op, const sn_op_sample *samples, int n) {
    API_ENTER(sn_op_check);
    if (error_pending() != ST_OK || entered.refused) return (sn_status)error_pending();
    if (!op || n < 0 || (n && !samples))
        return (sn_status)error_raise(ST_ARGUMENT, "sn_op_check: the op or its samples are NULL (%d samples)", n);
    if (op->form != FORM_functional || (op->row->returns_list && !op_dynamic(op->row)) || op->row->kind == KIND_number)
        return (sn_status)error_raise(ST_UNSUPPORTED, "sn_op_check: %s is no functional op that returns tensors",
                                      op_form_name(op->row, op->form));
    OpCheck check = {.op = op, .row = op->row, .own = op_dynamic(op->row)};
    return (sn_status)op_check(&check, samples, n);
}

/* What a kernel or a mode has set so far, by sn_out or sn_redispatch. */
static sn_tensor *result_so_far(sn_frame *f, int output) {
    if (output >= 0 && output < f->n_out && f->out[output]) return f->out[output];
    error_raise(ST_ARGUMENT, "%s: result %d of %d is not set", f->what, output, f->n_out);
    return NULL;
}

sn_tensor *sn_result(sn_frame *f, int output) {
    if (f && f->call) return result_so_far(f, output);
    const Deriv *const deriv = f ? f->deriv : NULL;
    if (!deriv || output < 0 || output >= deriv->n_results) {
        error_raise(ST_ARGUMENT, "%s: there is no result %d", f ? f->what : "frame", output);
        return NULL;
    }
    if (!deriv->results[output])
        error_raise(ST_STATE, "%s: result %d was not saved; name it in `saves`", f->what, output);
    return tensor_of(deriv->results[output]);
}

static sn_override * override(const OpRow *row, sn_key key, sn_body kernel, void *closure, const char *what) {
    if (error_pending() != ST_OK) return NULL;
    const int internal = key_of_public(key);
    if (internal < 0 || !kernel) {
        error_raise(ST_ARGUMENT, kernel ? "%s: key %d is unknown" : "%s: the kernel is NULL (key %d)", what, (int)key);
        return NULL;
    }
    if (key_is_reserved((Key)internal)) {
        error_raise(ST_UNSUPPORTED,
                    "%s: in this version no program has kernels at key %s; a kernel there would never run", what,
                    key_name((Key)internal));
        return NULL;
    }
    return tracer_event(reason_called(what)) == ST_OK ? override_new(row, (Key)internal, kernel, closure) : NULL;
}

/* Numbers come from metadata and values, not from a key's kernel. */
static sn_override *refuse_number(const OpRow *row) {
    error_raise(ST_UNSUPPORTED, "sn_op_override: %s gives a number, which no kernel makes", row->name);
    return NULL;
}

sn_override *sn_op_override(const sn_op *op, sn_key key, sn_body kernel, void *closure) {
    API_ENTER(sn_op_override);
    if (op && op->row->kind == KIND_number) return refuse_number(op->row);
    if (op) return override(op->row->alias_of ? op->row->alias_of : op->row, key, kernel, closure, "sn_op_override");
    error_raise(ST_ARGUMENT, "sn_op_override: the op is NULL");
    return NULL;
}

sn_override *sn_fallback_set(sn_key key, sn_body kernel, void *closure) {
    API_ENTER(sn_fallback_set);
    return override(NULL, key, kernel, closure, "sn_fallback_set");
}

void sn_override_free(sn_override *o) {
    API_ENTER(sn_override_free);
    tracer_outside(REASON_CALLED(sn_override_free));
    override_free(o);
}

const sn_op *sn_frame_op(sn_frame *f) {
    if (f && f->call) return op_handle(f->call->row, f->call->form);
    error_raise(ST_STATE, "%s: the frame is not an op's", f ? f->what : "sn_frame_op");
    return NULL;
}

/* A mode is pushed or popped: the program's code has it from now on. */
static sn_status mode_changed(const ApiEntered *entered, Status status) {
    api_changed(entered);
    return (sn_status)status;
}

static Status check_mode(sn_body handler, const char *what) {
    TRY(error_pending());
    return handler ? state_untraced(what) : error_raise(ST_ARGUMENT, "%s: the handler is NULL", what);
}

sn_status sn_user_mode_push(sn_body handler, void *closure) {
    API_ENTER(sn_user_mode_push);
    Status status = check_mode(handler, "sn_user_mode_push");
    if (status == ST_OK) status = tracer_event(REASON_CALLED(sn_user_mode_push));
    return status == ST_OK ? mode_changed(&entered, user_mode_push(KEY_mode, handler, closure)) : (sn_status)status;
}

sn_status sn_user_mode_pop(void) {
    API_ENTER(sn_user_mode_pop);
    tracer_outside(REASON_CALLED(sn_user_mode_pop));
    return mode_changed(&entered, user_mode_pop(KEY_mode));
}

sn_status sn_api_mode_push(sn_body handler, void *closure) {
    API_ENTER(sn_api_mode_push);
    const Status status = check_mode(handler, "sn_api_mode_push");
    if (status != ST_OK) return (sn_status)status;
    tracer_outside(REASON_CALLED(sn_api_mode_push));
    return mode_changed(&entered, user_mode_push(KEY_api, handler, closure));
}

sn_status sn_api_mode_pop(void) {
    API_ENTER(sn_api_mode_pop);
    tracer_outside(REASON_CALLED(sn_api_mode_pop));
    return mode_changed(&entered, user_mode_pop(KEY_api));
}

/* texts --------------------------------------------------------------------------------------- */

const char *sn_dispatch_dump(const sn_op *op) {
    API_ENTER(sn_dispatch_dump);
    if (!op) return error_raise(ST_ARGUMENT, "sn_dispatch_dump: the op is NULL"), "";
    const OpRow *const row = op->row->alias_of ? op->row->alias_of : op->row;
    Text text = {0};
    text_printf(&text, "name: %s\nschema: %s\n", op_form_name(op->row, op->form), sn_op_schema(op));
    if (row != op->row) text_printf(&text, "runs: %s\n", row->name);
    for (int key = KEY_COUNT - 1; key > KEY_none; key--) {
        OpKernel *const fallback = dispatch_fallback_of((Key)key);
        const char *const what = dispatch_own(row, (Key)key)                      ? "kernel of the op"
                                 : fallback && fallback != dispatch_nothing_there ? "fallback"
                                 : (UINT64_C(1) << key) & KEYS_KERNEL             ? "not implemented"
                                                                                  : "falls through";
        text_printf(&text, "%s: %s\n", key_name((Key)key), what);
    }
    return state_text(state_get(), text.at);
}

const char *sn_keys(sn_tensor *t) {
    API_ENTER(sn_keys);
    if (tensor_valid(t, "sn_keys") != ST_OK) return "";
    Text text = {0};
    keys_print(&text, (uint64_t)query_ask(QUERY_keys, t, 0));
    return state_text(state_get(), text.at);
}

static Status check_slot(sn_key key, int internal) {
    if (!key || (internal >= 0 && KEYS_SLOT >> internal & 1)) return ST_OK;
    return error_raise(ST_ARGUMENT,
                       "sn_with_key: key %d is not one that a program gives to tensors (those from SN_KEY_HIP on, but "
                       "SPARSE and SPARSE_CSR)",
                       (int)key);
}

sn_tensor *sn_with_key(sn_tensor *t, sn_key key) {
    API_ENTER(sn_with_key);
    const int internal = key_of_public(key);
    if (tensor_materialize(t, "sn_with_key") != ST_OK || check_slot(key, internal) != ST_OK) return NULL;
    sn_tensor *const other = tensor_alias(t);
    if (!other) return NULL;
    if (key)
        tensor_add_key(other, UINT64_C(1) << internal);
    else
        other->keys &= ~KEYS_SLOT;
    return scope_adopt(state_get(), other) ? other : NULL;
}
