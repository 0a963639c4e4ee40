/* func.c: derivatives of functions (sinter/transform.h), thin over runtime/transform: which arguments they are of,
 * and how many of the results are derivatives. */
#include <sinter/transform.h>

#include "frontend/api/enter.h"
#include "frontend/api/transform.h"
#include "frontend/lib/options.h"
#include "runtime/base/alloc.h"
#include "runtime/transform/dual.h"
#include "runtime/transform/func_grad.h"

enum { MAX_ARGUMENTS = 64 };

/* arguments ----------------------------------------------------------------------------------- */

typedef struct Arguments {
    int64_t at[MAX_ARGUMENTS];
    int n;
} Arguments;

static Status check_argument(const char *what, const Arguments *a, int64_t i, sn_tensors in) {
    if (i < 0 || i >= in.n)
        return error_raise(ST_ARGUMENT, "%s: argnums has %lld, of %lld inputs", what, (long long)i, (long long)in.n);
    for (int k = 0; k < a->n; k++)
        if (a->at[k] == i) return error_raise(ST_ARGUMENT, "%s: argnums has %lld twice", what, (long long)i);
    return in.data[i] ? ST_OK : error_raise(ST_ARGUMENT, "%s: input %lld, of argnums, is NULL", what, (long long)i);
}

/* NULL: the first `usual` inputs. */
static Status normalize_argnums(const char *what, Arguments *a, sn_ints argnums, int64_t usual, sn_tensors in) {
    const int64_t n = argnums.data ? argnums.n : usual;
    a->n = 0;
    if (n < 1 || n > MAX_ARGUMENTS)
        return error_raise(ST_ARGUMENT, "%s: argnums has %lld entries, and must have 1 to %d", what, (long long)n,
                           MAX_ARGUMENTS);
    for (int64_t k = 0; k < n; k++) {
        const int64_t given = argnums.data ? argnums.data[k] : k, i = given < 0 ? given + in.n : given;
        TRY(check_argument(what, a, i, in));
        a->at[a->n++] = i;
    }
    return ST_OK;
}

static Status begin(const char *what, sn_body body, sn_tensors in, sn_tensor **out, int n_out) {
    for (int i = 0; out && i < n_out; i++) out[i] = NULL;
    return transform_check_lists(what, body, in, out, n_out);
}

static FuncSpec spec_of(const char *what, sn_body body, void *closure, sn_tensors in, const Arguments *a) {
    return (FuncSpec){.what = what,
                      .body = body,
                      .closure = closure,
                      .in = in.data,
                      .n_in = (int)in.n,
                      .argnums = a->at,
                      .n_args = a->n};
}

/* grad, vjp ----------------------------------------------------------------------------------- */

/* Derivatives, then as many outputs as there is room for; of the body's first n_ys at least. */
static Status run_vjp(FuncSpec *spec, sn_tensor **out, int n_out) {
    const int capacity = n_out - spec->n_args;
    if (capacity < 0)
        return error_raise(ST_ARGUMENT, "%s: out has room for %d, there are %d gradients", spec->what, n_out,
                           spec->n_args);
    spec->n_outs = capacity > spec->n_ys ? capacity : spec->n_ys;
    sn_tensor **const outs = mem_zero(sizeof *outs * (size_t)spec->n_outs);
    if (!outs) return ST_MEMORY;
    spec->grads = out;
    spec->outs = outs;
    const Status status = func_vjp(spec);
    for (int i = 0; i < capacity; i++) out[spec->n_args + i] = outs[i];
    mem_free(outs);
    return status;
}

static sn_status end(Status status, const void *site, sn_tensor **out, int n_out) {
    for (int i = 0; status != ST_OK && out && i < n_out; i++) out[i] = NULL;
    if (status != ST_OK) error_set_site(site);
    return (sn_status)status;
}

static Status func_grad(sn_body body, void *closure, const sn_func_grad_options *options, sn_tensors in,
                        sn_tensor **out, int n_out) {
    sn_func_grad_options o = {0};
    Arguments a;
    TRY(begin("sn_func_grad", body, in, out, n_out));
    TRY(options_copy_in(&o, sizeof o, options, "sn_func_grad"));
    TRY(normalize_argnums("sn_func_grad", &a, o.argnums, 1, in));
    FuncSpec spec = spec_of("sn_func_grad", body, closure, in, &a);
    spec.n_ys = 1;
    return run_vjp(&spec, out, n_out);
}

sn_status sn_func_grad(sn_body body, void *closure, const sn_func_grad_options *options, sn_tensors in, sn_tensor **out,
                       int n_out) {
    API_ENTER(sn_func_grad);
    const void *const site = state_get()->site;
    return end(func_grad(body, closure, options, in, out, n_out), site, out, n_out);
}

static Status func_vjp_of(sn_body body, void *closure, const sn_func_vjp_options *options, sn_tensors in,
                          sn_tensor **out, int n_out) {
    sn_func_vjp_options o = {0};
    Arguments a;
    TRY(begin("sn_func_vjp", body, in, out, n_out));
    TRY(options_copy_in(&o, sizeof o, options, "sn_func_vjp"));
    TRY(normalize_argnums("sn_func_vjp", &a, o.argnums, in.n, in));
    if (o.cotangents.n < 1 || o.cotangents.n > MAX_LIST || !o.cotangents.data)
        return error_raise(ST_ARGUMENT,
                           "sn_func_vjp: options.cotangents has %lld entries; one for each output, at least 1",
                           (long long)o.cotangents.n);
    for (int64_t i = 0; i < o.cotangents.n; i++)
        if (o.cotangents.data[i]) TRY(tensor_valid(o.cotangents.data[i], "sn_func_vjp"));
    FuncSpec spec = spec_of("sn_func_vjp", body, closure, in, &a);
    spec.cotangents = o.cotangents.data;
    spec.n_ys = (int)o.cotangents.n;
    return run_vjp(&spec, out, n_out);
}

sn_status sn_func_vjp(sn_body body, void *closure, const sn_func_vjp_options *options, sn_tensors in, sn_tensor **out,
                      int n_out) {
    API_ENTER(sn_func_vjp);
    const void *const site = state_get()->site;
    return end(func_vjp_of(body, closure, options, in, out, n_out), site, out, n_out);
}

/* jvp ----------------------------------------------------------------------------------------- */

static Status check_tangents(const sn_func_jvp_options *o, sn_tensors in, int n_out) {
    bool any = false;
    if (o->tangents.n != in.n || (in.n && !o->tangents.data))
        return error_raise(ST_ARGUMENT, "sn_func_jvp: options.tangents has %lld entries for %lld inputs",
                           (long long)o->tangents.n, (long long)in.n);
    for (int64_t i = 0; i < in.n; i++) {
        any |= o->tangents.data[i] != NULL;
        if (o->tangents.data[i]) TRY(tensor_valid(o->tangents.data[i], "sn_func_jvp"));
    }
    if (!any) return error_raise(ST_ARGUMENT, "sn_func_jvp: none of %lld inputs has a tangent", (long long)in.n);
    if (o->n_tangents >= 0 && o->n_tangents <= n_out && n_out > 0) return ST_OK;
    return error_raise(ST_ARGUMENT, "sn_func_jvp: out has room for %d, of which %d are tangents", n_out, o->n_tangents);
}

static Status func_jvp(sn_body body, void *closure, const sn_func_jvp_options *options, sn_tensors in, sn_tensor **out,
                       int n_out) {
    sn_func_jvp_options o = {0};
    TRY(begin("sn_func_jvp", body, in, out, n_out));
    TRY(options_copy_in(&o, sizeof o, options, "sn_func_jvp"));
    TRY(check_tangents(&o, in, n_out));
    const int n_tangents = o.n_tangents ? o.n_tangents : n_out, capacity = n_out - n_tangents;
    const int n_outs = capacity > n_tangents ? capacity : n_tangents;
    sn_tensor **const outs = mem_zero(sizeof *outs * (size_t)n_outs);
    if (!outs) return ST_MEMORY;
    const Status status = dual_run(&(DualSpec){.what = "sn_func_jvp",
                                               .body = body,
                                               .closure = closure,
                                               .in = in.data,
                                               .tangents = o.tangents.data,
                                               .n_in = (int)in.n,
                                               .n_outs = n_outs,
                                               .outs = outs,
                                               .tangent = out,
                                               .n_tangents = n_tangents});
    for (int i = 0; i < capacity; i++) out[n_tangents + i] = outs[i];
    mem_free(outs);
    return status;
}

sn_status sn_func_jvp(sn_body body, void *closure, const sn_func_jvp_options *options, sn_tensors in, sn_tensor **out,
                      int n_out) {
    API_ENTER(sn_func_jvp);
    const void *const site = state_get()->site;
    return end(func_jvp(body, closure, options, in, out, n_out), site, out, n_out);
}

/* jacobian, hessian --------------------------------------------------------------------------- */

static Status run_jacobian(FuncSpec *spec, bool forward, int n_outs, sn_tensor **out) {
    sn_tensor **const outs = mem_zero(sizeof *outs * (size_t)(n_outs + 1));
    if (!outs) return ST_MEMORY;
    spec->n_outs = n_outs;
    spec->grads = out;
    spec->outs = outs;
    const Status status = forward ? func_forward_jacobian(spec) : func_jacobian(spec);
    mem_free(outs);
    return status;
}

/* The outputs of the body of which n_out derivatives are asked for, each so many times. */
static Status count_outs(const char *what, int n_out, int each, int *n) {
    *n = n_out / each;
    if (n_out > 0 && n_out % each == 0 && *n <= MAX_LIST) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: out has room for %d, which is not outputs times %d", what, n_out, each);
}

static Status jacobian(sn_body body, void *closure, const sn_jacobian_options *options, sn_tensors in, sn_tensor **out,
                       int n_out) {
    sn_jacobian_options o = {0};
    Arguments a;
    int n = 0;
    TRY(begin("sn_jacobian", body, in, out, n_out));
    TRY(options_copy_in(&o, sizeof o, options, "sn_jacobian"));
    TRY(normalize_argnums("sn_jacobian", &a, o.argnums, 1, in));
    TRY(count_outs("sn_jacobian", n_out, a.n, &n));
    FuncSpec spec = spec_of("sn_jacobian", body, closure, in, &a);
    return run_jacobian(&spec, o.forward, n, out);
}

sn_status sn_jacobian(sn_body body, void *closure, const sn_jacobian_options *options, sn_tensors in, sn_tensor **out,
                      int n_out) {
    API_ENTER(sn_jacobian);
    const void *const site = state_get()->site;
    return end(jacobian(body, closure, options, in, out, n_out), site, out, n_out);
}

typedef struct First { /* the body's first derivatives, as a body */
    const FuncSpec *of;
    int n_outs;
} First;

static sn_status first_derivatives(sn_frame *f) {
    const First *const first = f->closure;
    FuncSpec spec = *first->of;
    const int n = first->n_outs * spec.n_args;
    sn_tensor **const memory = mem_zero(sizeof *memory * (size_t)(n + f->n_in + 1)), **const in = memory + n;
    if (!memory) return (sn_status)ST_MEMORY;
    for (int i = 0; i < f->n_in; i++) in[i] = f->in[i].kind == ARG_tensor ? tensor_of(f->in[i].val) : NULL;
    spec.in = in;
    Status status = run_jacobian(&spec, false, first->n_outs, memory);
    for (int i = 0; i < n && status == ST_OK; i++) status = (Status)sn_out(f, i, memory[i]);
    mem_free(memory);
    return (sn_status)status;
}

static Status hessian(sn_body body, void *closure, const sn_jacobian_options *options, sn_tensors in, sn_tensor **out,
                      int n_out) {
    sn_jacobian_options o = {0};
    Arguments a;
    int n = 0;
    TRY(begin("sn_hessian", body, in, out, n_out));
    TRY(options_copy_in(&o, sizeof o, options, "sn_hessian"));
    TRY(normalize_argnums("sn_hessian", &a, o.argnums, 1, in));
    TRY(count_outs("sn_hessian", n_out, a.n * a.n, &n));
    const FuncSpec inner = spec_of("sn_hessian", body, closure, in, &a);
    FuncSpec spec = spec_of("sn_hessian", first_derivatives, &(First){&inner, n}, in, &a);
    return run_jacobian(&spec, o.forward, n * a.n, out);
}

sn_status sn_hessian(sn_body body, void *closure, const sn_jacobian_options *options, sn_tensors in, sn_tensor **out,
                     int n_out) {
    API_ENTER(sn_hessian);
    const void *const site = state_get()->site;
    return end(hessian(body, closure, options, in, out, n_out), site, out, n_out);
}
