/* native_window.c: pools by definition: every element of the plane is asked whether the window has it. */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/ref/native_window.h"

typedef struct Pool {
    int n;
    bool adaptive, padded;
    int64_t kernel[3], stride[3], padding[3], dilation[3], divisor;
    const int64_t *in, *out; /* spatial sizes */
} Pool;

static const Arg *named(const OpRow *row, const Arg *args, const char *name) {
    const int i = op_param_find(row, name);
    return i < 0 || args[i].kind == ARG_none ? NULL : &args[i];
}

static void fill(int64_t *to, int n, const Arg *a, const int64_t *otherwise) {
    for (int i = 0; i < n; i++) {
        if (!a || (a->kind == ARG_ints && !a->n))
            to[i] = otherwise[i];
        else
            to[i] = a->kind == ARG_int ? a->i : a->ints[a->n == 1 ? 0 : i];
    }
}

static Pool pool_of(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    static const int64_t ones[] = {1, 1, 1}, zeros[3];
    const Arg *const kernel = named(row, args, "kernel_size"), *const padded = named(row, args, "count_include_pad");
    const Arg *const divisor = named(row, args, "divisor_override");
    Pool p = {.adaptive = !kernel, .padded = padded && padded->i, .divisor = divisor ? divisor->i : 0};
    p.n = strstr(row->base, "2d") ? 2 : 3;
    p.in = in->sizes + in->rank - p.n;
    p.out = out->sizes + out->rank - p.n;
    if (p.adaptive) return p;
    fill(p.kernel, p.n, kernel, ones);
    fill(p.stride, p.n, named(row, args, "stride"), p.kernel);
    fill(p.padding, p.n, named(row, args, "padding"), zeros);
    fill(p.dilation, p.n, named(row, args, "dilation"), ones);
    return p;
}

static bool has(const Pool *p, int d, int64_t window, int64_t at) {
    if (p->adaptive) {
        const double share = (double)p->in[d] / (double)p->out[d];
        return at >= (int64_t)floor((double)window * share + 1e-9) &&
               at < (int64_t)ceil((double)(window + 1) * share - 1e-9);
    }
    const int64_t away = at + p->padding[d] - window * p->stride[d];
    return away >= 0 && away % p->dilation[d] == 0 && away / p->dilation[d] < p->kernel[d];
}

static bool has_all(const Pool *p, const int64_t *window, const int64_t *at) {
    for (int d = 0; d < p->n; d++)
        if (!has(p, d, window[d], at[d])) return false;
    return true;
}

static int64_t plane_size(const Pool *p) {
    int64_t n = 1;
    for (int d = 0; d < p->n; d++) n *= p->in[d];
    return n;
}

static void plane_at(const Pool *p, int64_t number, int64_t *at) {
    for (int d = p->n - 1; d >= 0; number /= p->in[d--]) at[d] = number % p->in[d];
}

/* Elements that a mean divides by: inside, or with padding on both sides. */
static double divisor_of(const Pool *p, const int64_t *window) {
    double n = 1;
    for (int d = 0; d < p->n; d++) {
        double mine = 0;
        const int64_t first = p->padded ? -p->padding[d] : 0, last = p->in[d] + (p->padded ? p->padding[d] : 0);
        for (int64_t at = first; at < last; at++) mine += has(p, d, window[d], at);
        n *= mine;
    }
    return p->divisor ? (double)p->divisor : n;
}

static double quotient(DType dtype, double sum, double by) {
    return dtype_is_float(dtype) ? sum / by : trunc(sum / by);
}

/* (self, ...): values, and of max_pool indices */
Status eval_pool(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const Pool p = pool_of(row, args, &in[0], &out[0]);
    int64_t at[MAX_RANK], window[MAX_RANK];
    const int first = out->rank - p.n;
    for (int64_t i = 0; i < wide_numel(out); i++) {
        wide_index(out, i, window);
        memcpy(at, window, sizeof at);
        double sum = 0, most = -INFINITY;
        int64_t where = -1, any = 0;
        for (int64_t e = 0; e < plane_size(&p); e++) {
            plane_at(&p, e, at + first);
            if (!has_all(&p, window + first, at + first)) continue;
            const double value = wide_get(&in[0], at);
            sum += value;
            any++;
            if (where < 0 || value > most || isnan(value)) most = value, where = e;
        }
        if (row->n_out > 1) {
            wide_set(&out[0], window, most);
            wide_set(&out[1], window, (double)where);
        } else {
            wide_set(out, window, any ? quotient(out->dtype, sum, divisor_of(&p, window + first)) : 0);
        }
    }
    return ST_OK;
}

static int64_t number_of(const WideTensor *t, const int64_t *index) {
    int64_t n = 0;
    for (int d = 0; d < t->rank; d++) n = n * t->sizes[d] + index[d];
    return n;
}

/* (grad_output, self, ...); of max_pool the last argument is the indices */
Status eval_pool_backward(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const Pool p = pool_of(row, args, &in[1], &in[0]);
    const int indices = op_param_find(row, "indices"), first = out->rank - p.n;
    double *const sums = mem_zero((size_t)(wide_numel(out) + 1) * sizeof *sums);
    int64_t at[MAX_RANK], window[MAX_RANK];
    if (!sums) return ST_MEMORY;
    for (int64_t i = 0; i < wide_numel(&in[0]); i++) {
        wide_index(&in[0], i, window);
        memcpy(at, window, sizeof at);
        const double grad = wide_get(&in[0], window);
        for (int64_t e = 0; e < plane_size(&p); e++) {
            plane_at(&p, e, at + first);
            if (indices >= 0 ? e == (int64_t)wide_get(&in[indices], window) : has_all(&p, window + first, at + first))
                sums[number_of(out, at)] +=
                    indices >= 0 ? grad : quotient(out->dtype, grad, divisor_of(&p, window + first));
        }
    }
    for (int64_t i = 0; i < wide_numel(out); i++) {
        wide_index(out, i, at);
        wide_set(out, at, sums[i]);
    }
    mem_free(sums);
    return ST_OK;
}
