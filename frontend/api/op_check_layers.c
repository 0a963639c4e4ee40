/* op_check_layers.c: rules of sn_op_check: the layers around an op keep its bits: compiled functions, with gradients,
 * sn_vmap, autocast. */
#include "frontend/api/op_check.h"

#include <sinter/amp.h>
#include <sinter/transform.h>

#include "runtime/base/error.h"

/* A function of the sample's tensors: the op, its numbers as the sample has them. */
typedef struct OpBody {
    const OpCheck *c;
} OpBody;

static sn_status op_body(sn_frame *f) {
    const OpCheck *const c = ((const OpBody *)sn_closure(f))->c;
    CheckedCall call;
    int at = 0;
    for (int i = 0; i < c->n; i++) call.in[i] = op_check_tensor(c, i) ? sn_in_value(f, at++) : c->in[i];
    if (op_check_call(c, &call) != ST_OK) return sn_check();
    for (int r = 0; r < call.n_out; r++) sn_out(f, r, call.out[r]);
    return sn_check();
}

/* The sample's copies among which are tensors; how many these are. */
static int tensors_of(const OpCheck *c, const CheckedCall *call, sn_tensor **out) {
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (op_check_tensor(c, i)) out[n++] = call->in[i].tensor;
    return n;
}

/* compiled ------------------------------------------------------------------------------------ */

static Status make_leaves(const OpCheck *c, CheckedCall *call) {
    for (int i = 0; i < c->n; i++)
        if (op_check_tensor(c, i) && op_check_is_float(call->in[i].tensor)) sn_requires_grad_(call->in[i].tensor, true);
    return error_pending();
}

static Status backward_of(CheckedCall *call) {
    sn_tensor *loss = NULL;
    for (int r = 0; r < call->n_out; r++) {
        if (!sn_requires_grad(call->out[r])) continue;
        sn_tensor *const part = sn_sum(sn_mul(call->out[r], sn_sin(sn_detach(call->out[r]))));
        loss = loss ? sn_add(loss, part) : part;
    }
    return loss ? (Status)sn_backward(loss) : error_pending();
}

static Status compare(OpCheck *c, const CheckedCall *fast, const CheckedCall *eager, bool gradients) {
    if (!c->repeats) return error_pending();
    for (int r = 0; r < eager->n_out; r++)
        if (!op_check_same_bits(fast->out[r], eager->out[r]))
            return op_check_fail(c, "result %d has other bits than eagerly", r);
    for (int i = 0; i < c->n; i++) {
        if (!op_check_tensor(c, i)) continue;
        sn_tensor *const a = fast->in[i].tensor, *const b = eager->in[i].tensor;
        if (!op_check_same_bits(sn_detach(a), sn_detach(b)))
            return op_check_fail(c, "argument '%s' ends with other bits than eagerly", op_check_name(c, i));
        if (gradients && !op_check_same_bits(sn_grad(a), sn_grad(b)))
            return op_check_fail(c, "the gradient of '%s' has other bits than eagerly", op_check_name(c, i));
    }
    return error_pending();
}

static Status call_both(OpCheck *c, sn_function *fn, bool gradients) {
    CheckedCall fast, eager;
    sn_tensor *in[MAX_ARGS];
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &fast));
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &eager));
    if (gradients) {
        TRY(make_leaves(c, &fast));
        TRY(make_leaves(c, &eager));
    }
    TRY(op_check_call(c, &eager));
    fast.n_out = eager.n_out;
    sn_call(fn, in, tensors_of(c, &fast, in), fast.out, fast.n_out);
    TRY(error_pending());
    if (gradients) {
        TRY(backward_of(&eager));
        TRY(backward_of(&fast));
    }
    return compare(c, &fast, &eager, gradients);
}

Status op_check_compiled(OpCheck *c) {
    OpBody body = {c};
    const int rounds = op_check_differentiable(c) && !op_check_writes_any(c) ? 2 : 1;
    for (int gradients = 0; gradients < rounds; gradients++) {
        sn_function *const fn = sn_compile(op_body, &body, NULL);
        if (!fn) return error_pending();
        Status status = ST_OK;
        for (int call = 0; call < 3 && status == ST_OK; call++) status = call_both(c, fn, gradients);
        sn_function_free(fn);
        TRY(status);
    }
    return ST_OK;
}

/* batched ------------------------------------------------------------------------------------- */

/* Three examples: the sample, and it again. */
Status op_check_batched(OpCheck *c) {
    CheckedCall one, all;
    sn_tensor *in[MAX_ARGS];
    OpBody body = {c};
    const bool is_kernel = c->own && c->own->cpu && !c->own->meta; /* known only when it runs */
    if (c->own && c->own->numbers) return ST_OK;                   /* each example has its own */
    if (is_kernel || op_check_writes_any(c) || (c->own && c->own->flags == SN_OP_ORDERED)) return ST_OK;
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &one));
    TRY(op_check_call(c, &one));
    const int n = tensors_of(c, &one, in);
    if (!n) return ST_OK;
    for (int i = 0; i < n; i++) in[i] = sn_stack(SN_TENSORS(in[i], in[i], in[i]), 0);
    TRY(error_pending());
    all.n_out = one.n_out;
    sn_vmap(op_body, &body, NULL, (sn_tensors){in, n}, all.out, all.n_out);
    TRY(error_pending());
    for (int r = 0; r < one.n_out && c->repeats; r++)
        for (int example = 0; example < 3; example++)
            if (!op_check_same_bits(sn_contiguous(sn_select(all.out[r], 0, example)), sn_contiguous(one.out[r])))
                return op_check_fail(c, "result %d of example %d under sn_vmap has other bits", r, example);
    return ST_OK;
}

/* autocast ------------------------------------------------------------------------------------ */

static sn_dtype cast_of_policy(CastPolicy policy) { return policy == CAST_lower ? SN_BF16 : SN_F32; }

/* In a region the op gets what its policy says; NONE: what it is given. */
Status op_check_autocast(OpCheck *c) {
    CheckedCall inside, outside;
    const CastPolicy policy = c->row->autocast;
    if (!c->own || c->own->decomposition || (policy != CAST_none && policy != CAST_lower && policy != CAST_f32))
        return ST_OK;
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &inside));
    TRY(op_check_copies(c, policy == CAST_none ? SN_DTYPE_DEFAULT : cast_of_policy(policy), &outside));
    for (int i = 0; i < c->n; i++) /* f64 stays */
        if (op_check_tensor(c, i) && sn_dtype_of(op_check_tensor(c, i)) == SN_F64) outside.in[i] = inside.in[i];
    if (op_check_call(c, &outside) != ST_OK) return op_check_fail(c, "the kernel refuses what the policy casts to");
    const sn_scope region = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    Status status = op_check_call(c, &inside);
    for (int r = 0; status == ST_OK && r < outside.n_out && c->repeats; r++)
        if (!op_check_same_bits(inside.out[r], outside.out[r]))
            status = op_check_fail(c, "result %d is another one than of the casts that the policy says", r);
    sn_scope_end(region);
    return status;
}
