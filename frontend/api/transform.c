/* transform.c: functions of functions (sinter/transform.h), thin over runtime/transform. */
#include <sinter/transform.h>

#include "frontend/api/enter.h"
#include "frontend/api/transform.h"
#include "frontend/lib/options.h"
#include "runtime/base/small_array.h"
#include "runtime/base/text.h"
#include "runtime/autograd/query.h"
#include "runtime/core/frame.h"
#include "runtime/autograd/region.h"
#include "runtime/transform/vmap.h"

_Static_assert((int)SN_VMAP_RANDOM_SAME == (int)VMAP_same && (int)SN_VMAP_RANDOM_DIFFERENT == (int)VMAP_different,
               "randomness is passed on as it is");

Status transform_check_lists(const char *what, sn_body body, sn_tensors in, sn_tensor *const *out, int n_out) {
    TRY(error_pending());
    if (!body) return error_raise(ST_ARGUMENT, "%s: body is NULL", what);
    if (in.n < 0 || in.n > INT32_MAX || n_out < 0)
        return error_raise(ST_ARGUMENT, "%s: a length is negative: it says %lld inputs and %d outputs", what,
                           (long long)in.n, n_out);
    if ((in.n && !in.data) || (n_out && !out))
        return error_raise(ST_ARGUMENT, "%s: the list of %lld %s is NULL", what,
                           in.n && !in.data ? (long long)in.n : n_out, in.n && !in.data ? "inputs" : "outputs");
    for (int64_t i = 0; i < in.n; i++)
        if (in.data[i]) TRY(tensor_valid(in.data[i], what));
    return ST_OK;
}

static Status check_saved_names(const char *const *save) {
    OpForm form;
    for (int i = 0; save && save[i]; i++) {
        const OpRow *const row = op_find(save[i], strlen(save[i]), &form);
        if (!row || form != FORM_functional)
            return error_raise(ST_ARGUMENT, "sn_checkpoint: save[%d]: '%s' is no op that gives new tensors", i,
                               save[i]);
    }
    return ST_OK;
}

typedef struct PolicyCall {
    const sn_checkpoint_options *options;
    const char *op;
    sn_checkpoint_choice choice;
} PolicyCall;

static void ask_policy(void *argument) {
    PolicyCall *const call = argument;
    call->choice = call->options->policy(call->options->context, call->op);
}

/* Named, or so says the callback. */
static bool is_saved(void *context, const char *op) {
    const sn_checkpoint_options *const o = context;
    for (const char *const *at = o->save; at && *at; at++)
        if (!strcmp(*at, op)) return true;
    PolicyCall call = {o, op, SN_CHECKPOINT_RECOMPUTE};
    if (o->policy) callback_run("the policy of sn_checkpoint", ask_policy, &call);
    const sn_checkpoint_choice choice = call.choice;
    if (choice != SN_CHECKPOINT_RECOMPUTE && choice != SN_CHECKPOINT_SAVE && !error_pending())
        error_raise(ST_ARGUMENT, "sn_checkpoint: policy gives %d for %s", (int)choice, op); /* ends the body */
    return choice == SN_CHECKPOINT_SAVE;
}

static Status checkpoint(sn_body body, void *closure, const sn_checkpoint_options *options, sn_tensors in,
                         sn_tensor **out, int n_out) {
    for (int i = 0; out && i < n_out; i++) out[i] = NULL;
    sn_checkpoint_options known = {0};
    TRY(options_copy_in(&known, sizeof known, options, "sn_checkpoint"));
    Status status = transform_check_lists("sn_checkpoint", body, in, out, n_out);
    if (status == ST_OK) status = check_saved_names(known.save);
    Arg few[16], *const args = status == ST_OK ? SMALL_ARRAY(few, in.n) : NULL;
    if (!args) {
        closure_free_run(known.closure_free, closure); /* nobody will run it */
        return status == ST_OK ? ST_MEMORY : status;
    }
    SMALL_ARRAY_OWNER kept = {few, args};
    for (int64_t i = 0; i < in.n; i++) args[i] = arg_tensor_opt(in.data[i]);
    return region_call(&(RegionCall){.body = body,
                                     .closure = closure,
                                     .closure_free = known.closure_free,
                                     .policy = {known.save || known.policy ? is_saved : NULL, &known},
                                     .in = args,
                                     .n_in = (int)in.n,
                                     .out = out,
                                     .n_out = n_out});
}

sn_status sn_checkpoint(sn_body body, void *closure, const sn_checkpoint_options *options, sn_tensors in,
                        sn_tensor **out, int n_out) {
    API_ENTER(sn_checkpoint);
    return (sn_status)checkpoint(body, closure, options, in, out, n_out);
}

/* vmap ---------------------------------------------------------------------------------------- */

static Status check_dims(const char *name, sn_ints dims, int64_t n, const char *of) {
    if (!dims.data || dims.n == n) return ST_OK;
    return error_raise(ST_ARGUMENT, "sn_vmap: %s has %lld entries for %lld %s", name, (long long)dims.n, (long long)n,
                       of);
}

static Status check_vmap(const sn_vmap_options *o, sn_tensors in, int n_out) {
    TRY(check_dims("in_dims", o->in_dims, in.n, "inputs"));
    TRY(check_dims("out_dims", o->out_dims, n_out, "outputs"));
    if (o->chunk_size < 0)
        return error_raise(ST_ARGUMENT, "sn_vmap: chunk_size is %lld: it is not negative", (long long)o->chunk_size);
    if ((unsigned)o->randomness > SN_VMAP_RANDOM_DIFFERENT)
        return error_raise(ST_ARGUMENT, "sn_vmap: randomness has no value %d", (int)o->randomness);
    return ST_OK;
}

static void print_sizes(Text *text, const Meta *meta) {
    text_puts(text, "[");
    for (int d = 0; d < meta->rank; d++) text_printf(text, "%s%lld", d ? ", " : "", (long long)meta->sizes[d]);
    text_puts(text, "]");
}

static Status bad_dim(int64_t i, int64_t dim, const Meta *meta) {
    Text sizes = {0};
    print_sizes(&sizes, meta);
    const Status status =
        error_raise(ST_SHAPE, "sn_vmap: in_dims[%lld] is %lld, out of range for input %lld of sizes %s", (long long)i,
                    (long long)dim, (long long)i, text_str(&sizes));
    text_free(&sizes);
    return status;
}

static Status other_size(sn_tensors in, int64_t first, int64_t size, int64_t i, int64_t other) {
    Text sizes = {0}, others = {0};
    print_sizes(&sizes, in.data[first]->base.meta);
    print_sizes(&others, in.data[i]->base.meta);
    const Status status = error_raise(
        ST_SHAPE, "sn_vmap: input %lld of sizes %s has %lld examples, input %lld of sizes %s has %lld",
        (long long)first, text_str(&sizes), (long long)size, (long long)i, text_str(&others), (long long)other);
    text_free(&sizes);
    text_free(&others);
    return status;
}

/* How many examples there are. */
static Status count_examples(const sn_vmap_options *o, sn_tensors in, int64_t *size) {
    int64_t first = -1;
    for (int64_t i = 0; i < in.n; i++) {
        const int64_t dim = o->in_dims.data ? o->in_dims.data[i] : 0;
        if (dim == SN_NO_INT || !in.data[i]) continue;
        const Meta *const meta = in.data[i]->base.meta;
        query_ask(QUERY_rank, in.data[i], 0);
        if (dim < -meta->rank || dim >= meta->rank) return bad_dim(i, dim, meta);
        const int64_t n = query_ask(QUERY_size, in.data[i], dim < 0 ? dim + meta->rank : dim);
        if (first < 0) first = i, *size = n;
        if (n != *size) return other_size(in, first, *size, i, n);
    }
    if (first >= 0) return ST_OK;
    return error_raise(ST_ARGUMENT, "sn_vmap: no input is batched: all %lld of in_dims are SN_NO_INT", (long long)in.n);
}

static Status vmap(sn_body body, void *closure, const sn_vmap_options *options, sn_tensors in, sn_tensor **out,
                   int n_out) {
    sn_vmap_options o = {0};
    int64_t size = 0;
    for (int i = 0; out && i < n_out; i++) out[i] = NULL;
    TRY(transform_check_lists("sn_vmap", body, in, out, n_out));
    TRY(options_copy_in(&o, sizeof o, options, "sn_vmap"));
    TRY(check_vmap(&o, in, n_out));
    TRY(count_examples(&o, in, &size));
    const VmapSpec spec = {.body = body,
                           .closure = closure,
                           .in_dims = o.in_dims.data,
                           .out_dims = o.out_dims.data,
                           .chunk = o.chunk_size,
                           .random = (VmapRandom)o.randomness,
                           .in = in.data,
                           .n_in = (int)in.n,
                           .out = out,
                           .n_out = n_out};
    const Status status = vmap_run(&spec, size);
    for (int i = 0; status != ST_OK && i < n_out; i++) out[i] = NULL;
    return status;
}

sn_status sn_vmap(sn_body body, void *closure, const sn_vmap_options *options, sn_tensors in, sn_tensor **out,
                  int n_out) {
    API_ENTER(sn_vmap);
    const void *const site = state_get()->site;
    const Status status = vmap(body, closure, options, in, out, n_out);
    if (status != ST_OK) error_set_site(site);
    return (sn_status)status;
}
