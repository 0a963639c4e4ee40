/* check_vmap.c: vmap has the loop's bits [semantics T5]: each sample for 2 and 3 examples, batch dim first and last,
 * all tensors batched and each one alone, beside the calls of the single examples. What runs example by example, and
 * what cannot be batched, is listed by name. */
#include <sinter/transform.h>
#include <stdio.h>

#include "runtime/base/error.h"
#include "tests/ops/ops.h"

/* Random numbers are another test's; memory that is not set, or that lies elsewhere, has no other example's bits; rows
 * of graphs alone nobody calls. */
enum { MOST_EXAMPLES = 3, NOT_COMPARED = OPF_random | OPF_unset | OPF_places | OPF_internal };

typedef struct Batched {
    const Case *c;
    SampleCall calls[MOST_EXAMPLES]; /* the first one's numbers are everybody's */
    int n;
    bool last;      /* the batch dim is the last one */
    uint32_t which; /* bits of tensors that are batched */
    sn_tensor *loop[MOST_EXAMPLES][MAX_LIST];
    int n_outs, slots[MAX_LIST], n_wanted;
} Batched;

static char slow[256];

static void note_slow(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    if (!strcmp(topic, "vmap")) snprintf(slow, sizeof slow, "%s", line);
}

static void call_with(const Batched *b, sn_tensor *const *tensors, SampleCall *other) {
    sample_with(&b->calls[0], tensors, other);
}

static sn_tensor *stacked(const Batched *b, int k) {
    sn_tensor *parts[MOST_EXAMPLES];
    if (!(b->which >> k & 1)) return b->calls[0].tensors[k];
    for (int i = 0; i < b->n; i++) parts[i] = b->calls[i].tensors[k];
    sn_tensor *const all = sn_stack((sn_tensors){parts, b->n}, 0);
    return b->last ? sn_contiguous(sn_movedim_int(all, 0, -1)) : all;
}

/* Example i alone, as a part of what all lie in. */
static bool run_one(Batched *b, int i, sn_tensor *const *in) {
    sn_tensor *tensors[SAMPLE_TENSORS];
    SampleCall call;
    for (int k = 0; k < b->calls[0].n_tensors; k++)
        tensors[k] = b->which >> k & 1 ? sn_select(in[k], b->last ? -1 : 0, i) : in[k];
    call_with(b, tensors, &call);
    int n = 0;
    if (sample_run(&call, b->loop[i], &n) != ST_OK) return sn_error_take(), false;
    if (i && n != b->n_outs) return false;
    b->n_outs = n;
    return true;
}

static sn_status body(sn_frame *f) {
    Batched *const b = sn_closure(f);
    sn_tensor *tensors[SAMPLE_TENSORS], *outs[MAX_LIST];
    SampleCall call;
    int n = 0;
    for (int k = 0; k < b->calls[0].n_tensors; k++) tensors[k] = sn_in(f, k);
    call_with(b, tensors, &call);
    if (sample_run(&call, outs, &n) != ST_OK) return sn_check();
    for (int i = 0; i < b->n_wanted; i++) sn_out(f, i, outs[b->slots[i]]);
    return sn_check();
}

/* Sizes and elements; how they lie in memory may differ. */
static void show(Text *text, sn_tensor *t) {
    if (!t) return;
    const sn_ints sizes = sn_sizes(t);
    for (int64_t d = 0; d < sizes.n; d++) text_printf(text, "%lld ", (long long)sizes.data[d]);
    ops_show(text, sn_contiguous(sn_reshape(t, SN_INTS(sn_numel(t)))));
}

static void compare(const Batched *b, int slot, int i, sn_tensor *got) {
    Text want = {0}, is = {0};
    show(&want, b->loop[i][slot]);
    show(&is, got);
    if (sn_check() != SN_OK) ops_fail(b->c, "%s", sn_error_take()->message);
    if (strcmp(text_str(&want), text_str(&is)))
        ops_fail(b->c, "%d examples%s, tensors 0x%x: result %d, example %d\n  loop %.300s\n  vmap %.300s", b->n,
                 b->last ? ", last" : "", b->which, slot, i, text_str(&want), text_str(&is));
    text_free(&want);
    text_free(&is);
    if (sn_check() != SN_OK) sn_error_take();
}

/* Whether what failed is a random part. */
static bool draws(const Batched *b) {
    const sn_rng before = sn_rng_get();
    sn_tensor *outs[MAX_LIST];
    int n = 0;
    sn_error_take();
    sample_run(&b->calls[0], outs, &n);
    return sn_rng_get().sequence != before.sequence;
}

static void run_batched(Batched *b) {
    sn_tensor *in[SAMPLE_TENSORS], *outs[MAX_LIST] = {0};
    int64_t dims[SAMPLE_TENSORS];
    const int n = b->calls[0].n_tensors;
    for (int k = 0; k < n; k++) {
        in[k] = stacked(b, k);
        dims[k] = b->which >> k & 1 ? (b->last ? -1 : 0) : SN_NO_INT;
    }
    for (int i = 0; i < b->n; i++)
        if (!run_one(b, i, in)) return;
    b->n_wanted = 0;
    for (int i = 0; i < b->n_outs; i++)
        if (b->loop[0][i]) b->slots[b->n_wanted++] = i;
    ops_now("sn_vmap");
    const sn_status status =
        sn_vmap(body, b, SN_VMAP_OPTIONS(.in_dims = {dims, n}), (sn_tensors){in, n}, outs, b->n_wanted);
    ops_now(NULL);
    if (status == SN_ERR_STATE && b->c->row->kind == KIND_composite && draws(b)) return;
    if (status != SN_OK) {
        ops_fail(b->c, "%d examples%s, tensors 0x%x: %s", b->n, b->last ? ", last" : "", b->which,
                 sn_error_take()->message);
        return;
    }
    for (int j = 0; j < b->n_wanted; j++)
        for (int i = 0; i < b->n; i++) compare(b, b->slots[j], i, sn_select(outs[j], 0, i));
}

void check_vmap(const Case *c) {
    static Batched b;
    b = (Batched){.c = c};
    if (c->row->flags & NOT_COMPARED) {
        ops_count();
        return;
    }
    /* a number that counts from where the storage begins is another place in each example */
    const bool by_storage = c->row->role == ROLE_told_place;
    for (int i = 0; i < MOST_EXAMPLES; i++) {
        Case one = *c;
        one.style.seed += (uint64_t)i * 77;
        if (!ops_make(&one, &b.calls[i])) return;
    }
    ops_count();
    if (by_storage && b.calls[0].args[c->row->n_params - 1].kind == ARG_int) return;
    sn_logging_set(note_slow, NULL, "vmap");
    slow[0] = '\0';
    const int n = b.calls[0].n_tensors;
    const uint32_t all = (1u << n) - 1;
    for (int k = -1; k < n; k++)
        for (int way = 0; way < 2; way++) {
            if (!all || (k >= 0 && all == 1u << k)) continue;
            b.n = k >= 0 || way ? 2 : 3;
            b.which = k < 0 ? all : way ? all & ~(1u << k) : 1u << k;
            b.last = way;
            run_batched(&b);
        }
    if (slow[0]) printf("%s\n", slow);
}
