/* arrays.c: a call by sn_call_arrays: arguments are memory, or at times tensors; each result goes into memory that is
 * there, row-major or with strides of its own, into an allocator's, or is lent. Its sizes are asked beforehand
 * (sn_call_infer), where the body does nothing but compute. What is seen of a result is its values, and whose memory it
 * is said to show; eager's, called with tensors, are looked at in the same way. */
#include <sinter/array.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/hash.h"
#include "runtime/core/tensor.h"
#include "tests/fuzz/run.h"

enum { MOST_RESULTS = FZ_RETURNS + 1, MOST_IN = 4096, GUARD_BYTES = 64 };

typedef struct ArrayCalls { /* one call */
    FzRun *run;
    uint64_t seed;
    sn_array in[MOST_IN], out[MOST_RESULTS], asked[MOST_RESULTS];
    const sn_value *given; /* the arguments as tensors */
    int n_in, n_out;
    bool was_asked;
    struct Layout {
        int64_t sizes[MAX_RANK], strides[MAX_RANK];
    } asked_layouts[MOST_RESULTS], layouts[MOST_RESULTS]; /* the library's are gone with its next call */
    struct {
        unsigned char *bytes; /* given, or the allocator's, with a margin on both sides */
        size_t n;
        int64_t strides[MAX_RANK];
    } rooms[MOST_RESULTS];
} ArrayCalls;

static uint64_t drawn(const ArrayCalls *c, int what, int i) {
    return hash_mix(c->seed * 31 + (uint64_t)what, (uint64_t)i + 1);
}

/* Arguments ----------------------------------------------------------------------------------- */

/* Also where a dim has size 1. */
static bool is_row_major(const Meta *meta) {
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    return !memcmp(strides, meta->strides, sizeof *strides * (size_t)meta->rank);
}

static void argument(ArrayCalls *c, const sn_value *v) {
    sn_array *const a = &c->in[c->n_in];
    *a = (sn_array){.kind = v->kind, .i = v->i};
    if (v->kind == SN_KIND_FLOAT) a->f = v->f;
    if (v->kind == SN_KIND_TENSOR) {
        sn_tensor *const t = v->tensor;
        const Meta *const meta = t->base.meta;
        a->tensor = t;
        if (drawn(c, 1, c->n_in) % 5) /* else a parameter, say */
            *a = (sn_array){.dtype = (sn_dtype)meta->dtype,
                            .rank = meta->rank,
                            .data = meta->numel ? tensor_data(t) : NULL,
                            .sizes = meta->sizes,
                            .strides = is_row_major(meta) && drawn(c, 2, c->n_in) % 2 ? NULL : meta->strides};
    }
    c->n_in++;
}

/* Results ------------------------------------------------------------------------------------- */

static void *make_room(ArrayCalls *c, int i, size_t n) {
    free(c->rooms[i].bytes);
    c->rooms[i].bytes = malloc(n + 2 * GUARD_BYTES);
    c->rooms[i].n = n;
    memset(c->rooms[i].bytes, 0xa5, n + 2 * GUARD_BYTES);
    return c->rooms[i].bytes + GUARD_BYTES;
}

static void *allocate(void *context, int result, const sn_array *wanted) {
    return make_room(context, result, wanted->bytes);
}

/* Memory for a result of which all is known; every second has strides that leave gaps. */
static void give_room(ArrayCalls *c, int i) {
    const sn_array *const asked = &c->asked[i];
    int64_t *const strides = c->rooms[i].strides, step = 1;
    const bool gaps = drawn(c, 3, i) % 2;
    for (int d = asked->rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= asked->sizes[d] + (gaps && d == asked->rank - 1);
    }
    const size_t n = (size_t)step * (size_t)dtype_bytes((DType)asked->dtype);
    c->out[i] = (sn_array){.dtype = asked->dtype,
                           .rank = asked->rank,
                           .sizes = asked->sizes,
                           .strides = gaps ? strides : NULL,
                           .data = make_room(c, i, n)};
}

/* Nothing but its results is seen of a body that is run to ask for sizes. */
static bool may_ask(const FzProgram *p) {
    bool only = !p->hooked && !p->packs && !p->api_mode && !p->functional;
    for (int i = 0; i < p->n_steps; i++) only &= p->steps[i].kind == FZ_op && p->steps[i].how == FZ_plainly;
    for (int i = 0; i < p->n_inputs; i++) only &= !p->inputs[i].closed;
    return only;
}

static void keep_layouts(sn_array *arrays, int n, struct Layout *own) {
    for (int i = 0; i < n; i++) {
        sn_array *const a = &arrays[i];
        if (a->kind != SN_KIND_DEFAULT || !a->sizes) continue;
        memcpy(own[i].sizes, a->sizes, sizeof *a->sizes * (size_t)a->rank);
        a->sizes = own[i].sizes;
        if (!a->strides) continue;
        memcpy(own[i].strides, a->strides, sizeof *a->strides * (size_t)a->rank);
        a->strides = own[i].strides;
    }
}

static void ask(ArrayCalls *c) {
    const sn_rng rng = sn_rng_get();
    c->was_asked = may_ask(c->run->p) && sn_call_infer(c->run->fn, c->in, c->n_in, c->asked, c->n_out) == SN_OK;
    if (c->was_asked) keep_layouts(c->asked, c->n_out, c->asked_layouts);
    if (sn_check()) sn_error_take(); /* a value is needed */
    sn_rng_set(rng);
    for (int i = 0; c->was_asked && i < c->n_out; i++)
        if (c->asked[i].kind == SN_KIND_DEFAULT && drawn(c, 4, i) % 3) give_room(c, i);
}

/* As a tensor of its own. */
static sn_tensor *own_copy(const sn_array *a) {
    if (a->kind == SN_KIND_NONE) return NULL;
    int64_t sizes[MAX_RANK];
    memcpy(sizes, a->sizes, sizeof *sizes * (size_t)a->rank);
    const sn_ints all = {sizes, a->rank};
    if (!a->data) return sn_empty(all, a->dtype);
    sn_tensor *const t = sn_wrap(SN_BLOB(.data = a->data, .bytes = a->bytes, .sizes = all, .dtype = a->dtype,
                                         .strides = a->strides ? (sn_ints){a->strides, a->rank} : (sn_ints){0}));
    return t ? sn_copy_(sn_empty(all, a->dtype), t) : NULL;
}

static void say(FzRun *run, const char *format, int i, int of, long long bytes) {
    text_printf(&run->seen->bytes, format, i, of, bytes);
    text_printf(&run->seen->story, format, i, of, bytes);
}

static void say_wrong(FzRun *run, const char *what, int i) {
    text_printf(&run->seen->bytes, "result %d: %s\n", i, what);
    text_printf(&run->seen->story, "result %d: %s\n", i, what);
}

static bool same_as_asked(const sn_array *asked, const sn_array *out, bool given) {
    if (asked->kind != out->kind) return false;
    if (asked->kind == SN_KIND_NONE) return true;
    bool same = asked->dtype == out->dtype && asked->rank == out->rank;
    for (int d = 0; same && d < out->rank; d++) same = asked->sizes[d] == out->sizes[d];
    for (int d = 0; same && !given && d < out->rank; d++) same = asked->strides[d] == out->strides[d];
    return same;
}

/* Nothing lies outside of the memory that was there for it. */
static bool stays_inside(const ArrayCalls *c, int i) {
    const unsigned char *const bytes = c->rooms[i].bytes;
    for (size_t k = 0; bytes && k < GUARD_BYTES; k++)
        if (bytes[k] != 0xa5 || bytes[GUARD_BYTES + c->rooms[i].n + k] != 0xa5) return false;
    return true;
}

/* By the first of the arguments that lie in that storage: arrays know of none. */
static void say_input(const ArrayCalls *c, int i, int of, int64_t bytes) {
    sn_tensor *const t = c->given[of].tensor;
    int first = 0;
    while (c->given[first].kind != SN_KIND_TENSOR || c->given[first].tensor->storage != t->storage) first++;
    const char *const at = (const char *)tensor_data(t) + bytes;
    say(c->run, "result %d shows input %d + %lld\n", i, first, at - (const char *)tensor_data(c->given[first].tensor));
}

static void see_array(ArrayCalls *c, int i, bool given) {
    const sn_array *const a = &c->out[i];
    if (c->was_asked && !same_as_asked(&c->asked[i], a, given)) say_wrong(c->run, "sn_call_infer said otherwise", i);
    if (!stays_inside(c, i)) say_wrong(c->run, "bytes beside its memory are written", i);
    if (given && (a->data != c->rooms[i].bytes + GUARD_BYTES || a->owner)) say_wrong(c->run, "it is elsewhere", i);
    if (a->kind == SN_KIND_NONE || !a->bytes) return;
    if (a->alias == SN_ALIAS_INPUT) say_input(c, i, a->alias_of, a->alias_bytes);
    if (a->alias == SN_ALIAS_RESULT)
        say(c->run, "result %d shows result %d + %lld\n", i, a->alias_of, (long long)a->alias_bytes);
}

static sn_status by_arrays(ArrayCalls *c, sn_tensor **out) {
    bool given[MOST_RESULTS];
    const bool allocates = drawn(c, 5, 0) % 3 == 0;
    ask(c);
    for (int i = 0; i < c->n_out; i++) given[i] = c->out[i].data != NULL;
    sn_call_arrays(c->run->fn, c->in, c->n_in, c->out, c->n_out,
                   allocates ? SN_ARRAY_OPTIONS(.allocate = allocate, .context = c) : NULL);
    const bool good = sn_check() == SN_OK;
    if (good) keep_layouts(c->out, c->n_out, c->layouts);
    for (int i = 0; good && i < c->n_out; i++) {
        if (c->out[i].kind == SN_KIND_DEFAULT && given[i]) /* what it reaches, to be told like the others */
            c->out[i].bytes = c->rooms[i].n;
        see_array(c, i, given[i]);
    }
    for (int i = 0; good && i < c->n_out; i++) out[i] = own_copy(&c->out[i]);
    for (int i = 0; i < c->n_out; i++) {
        sn_release(good ? c->out[i].owner : NULL);
        free(c->rooms[i].bytes);
    }
    return sn_check();
}

/* Whose memory eager's results show, as an array would say; then copies of them. */
static void as_arrays(ArrayCalls *c, const sn_value *in, int n, sn_tensor **out) {
    for (int i = 0; i < c->n_out; i++) {
        if (!out[i] || !sn_numel(out[i])) continue;
        const char *const at = tensor_data(out[i]);
        int of = -1, base = -1;
        for (int k = 0; k < n && of < 0; k++)
            if (in[k].kind == SN_KIND_TENSOR && in[k].tensor->storage == out[i]->storage) of = k;
        for (int k = 0; k < i && of < 0 && base < 0; k++)
            if (out[k] && out[k]->storage == out[i]->storage) base = k;
        if (of >= 0)
            say(c->run, "result %d shows input %d + %lld\n", i, of, at - (const char *)tensor_data(in[of].tensor));
        else if (base >= 0)
            say(c->run, "result %d shows result %d + %lld\n", i, base, at - (const char *)tensor_data(out[base]));
    }
    for (int i = 0; i < c->n_out; i++)
        if (out[i]) out[i] = sn_copy_(sn_empty(sn_sizes(out[i]), sn_dtype_of(out[i])), sn_detach(out[i]));
}

sn_status fz_call_arrays(FzRun *run, uint64_t seed, const sn_value *in, int n, sn_tensor **out) {
    static ArrayCalls call;
    call = (ArrayCalls){.run = run, .seed = seed, .given = in, .n_out = fz_result_count(run->p)};
    if (run->arrays == FZ_as_arrays) {
        if (sn_call_values(run->fn, in, n, out, call.n_out) == SN_OK) as_arrays(&call, in, n, out);
        return sn_check();
    }
    for (int i = 0; i < n; i++) argument(&call, &in[i]);
    return by_arrays(&call, out);
}
