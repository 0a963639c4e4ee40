/* inspect.c: tensors and their memory, to look at (sinter/inspect.h); the tape is in grad_node.c. */
#include <sinter/inspect.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/autograd/gradient_cut.h"
#include "runtime/autograd/query.h"
#include "runtime/autograd/tape.h"
#include "runtime/core/tracer.h"
#include "runtime/core/tracking.h"
#include "runtime/core/site.h"
#include "runtime/core/dispatch.h"

sn_layout sn_layout_of(sn_tensor *t) {
    API_ENTER(sn_layout_of);
    if (tensor_valid(t, "sn_layout_of") != ST_OK || !(t->keys & KEYS_SPARSE)) return SN_STRIDED;
    return t->keys & KEY_BIT(sparse_csr) ? SN_SPARSE_CSR : SN_SPARSE_COO;
}

bool sn_is_contiguous_as(sn_tensor *t, sn_memory_format format) {
    API_ENTER(sn_is_contiguous_as);
    if (tensor_valid(t, "sn_is_contiguous_as") != ST_OK) return false;
    if (format == SN_CONTIGUOUS_FORMAT) return sn_is_contiguous(t);
    if (format != SN_CHANNELS_LAST && format != SN_CHANNELS_LAST_3D) {
        error_raise(ST_ARGUMENT, "sn_is_contiguous_as: memory format %d is no order that a tensor can have",
                    (int)format);
        return false;
    }
    const sn_ints sizes = sn_sizes(t), strides = sn_strides(t);
    return sizes.n == (format == SN_CHANNELS_LAST ? 4 : 5) &&
           meta_is_channels_last(NULL, sizes.data, strides.data, (int)sizes.n);
}

/* With all that is pending done, where the tensor can have data. */
static Status flushed(sn_tensor *t, const char *what) {
    TRY(tensor_valid(t, what));
    TRY(tensor_materialize_all(reason_called(what)));
    return tensor_handle_materialize(t, what);
}

/* The first line of the op at i; i itself where it is the first. */
static int first_of_op(const HiddenCopies *h, int i) {
    int first = 0;
    while (h->at[first].row != h->at[i].row) first++;
    return first;
}

int sn_hidden_copies(sn_copy_count *out, int capacity) {
    API_ENTER(sn_hidden_copies);
    const HiddenCopies *const h = &state_get()->hidden;
    int n = 0;
    for (int i = 0; i < h->n; i++) {
        if (first_of_op(h, i) != i) continue;
        sn_copy_count sum = {.op = h->at[i].row->name};
        for (int k = i; k < h->n; k++)
            if (h->at[k].row == h->at[i].row) sum.copies += h->at[k].copies, sum.bytes += h->at[k].bytes;
        if (out && n < capacity) out[n] = sum;
        n++;
    }
    return n;
}

enum { PLACE_BYTES = 256 };

/* Calls of one line can have several places in the code. */
static bool same_line(const HiddenCopy *a, const HiddenCopy *b, const char *where) {
    char other[PLACE_BYTES];
    if (a->row != b->row) return false;
    site_name(b->site, other, sizeof other);
    return !strcmp(where, other);
}

static void print_copies(const HiddenCopies *h, int i, Text *text) {
    char where[PLACE_BYTES];
    int64_t copies = 0, bytes = 0;
    site_name(h->at[i].site, where, sizeof where);
    for (int k = 0; k < h->n; k++) {
        if (!same_line(&h->at[i], &h->at[k], where)) continue;
        if (k < i) return; /* it is in a line above */
        copies += h->at[k].copies, bytes += h->at[k].bytes;
    }
    text_printf(text, "%s at %s: %lld cop%s, %lld bytes\n", h->at[i].row->name, where, (long long)copies,
                copies == 1 ? "y" : "ies", (long long)bytes);
}

const char *sn_hidden_copies_text(void) {
    API_ENTER(sn_hidden_copies_text);
    const HiddenCopies *const h = &state_get()->hidden;
    Text text = {0};
    for (int i = 0; i < h->n; i++) print_copies(h, i, &text);
    return state_text(state_get(), text.at);
}

void sn_hidden_copies_reset(void) {
    API_ENTER(sn_hidden_copies_reset);
    state_get()->hidden.n = 0;
}

int64_t sn_use_count(sn_tensor *t) {
    API_ENTER(sn_use_count);
    if (flushed(t, "sn_use_count") != ST_OK) return 0;
    return atomic_load_explicit(&t->refs, memory_order_acquire) - tracer_references(t);
}

static sn_storage describe(const sn_tensor *t) {
    const Storage *const s = t->storage;
    sn_storage known = {.device = t->base.meta->device, .allocator = "none"};
    if (!s) return known;
    known.id = s;
    known.bytes = (int64_t)s->bytes;
    known.version = atomic_load_explicit(&s->version, memory_order_relaxed);
    known.allocator = s->user_owned ? "program" : "caching allocator";
    known.resizable = !s->user_owned;
    known.read_only = s->read_only;
    return known;
}

sn_status sn_storage_of(sn_tensor *t, sn_storage *out) {
    API_ENTER(sn_storage_of);
    if (!out || !out->size) return (sn_status)error_raise(ST_ARGUMENT, "sn_storage_of: out is NULL, or its size is 0");
    const sn_storage none = {0};
    Status status = flushed(t, "sn_storage_of");
    if (status == ST_OK && t->keys & KEYS_SPARSE)
        status = error_raise(ST_UNSUPPORTED, "sn_storage_of: a sparse tensor has several, those of its parts");
    const sn_storage known = status == ST_OK ? describe(t) : none;
    options_copy_out(&known, sizeof known, out);
    return (sn_status)status;
}

bool sn_is_leaf(sn_tensor *t) {
    API_ENTER(sn_is_leaf);
    TapeNode *node = NULL;
    if (flushed(t, "sn_is_leaf") != ST_OK || tape_node_of(t, &node) != ST_OK) return false;
    tape_node_release(node);
    return !node;
}

int64_t sn_version_of(sn_tensor *t) {
    API_ENTER(sn_version_of);
    if (flushed(t, "sn_version_of") != ST_OK) return -1;
    if (t->flags & TF_inference) {
        error_raise(ST_STATE, "sn_version_of: Inference tensors do not track version counter");
        return -1;
    }
    return tensor_version(t);
}

int32_t sn_output_nr(sn_tensor *t) {
    API_ENTER(sn_output_nr);
    TapeNode *node = NULL;
    if (flushed(t, "sn_output_nr") != ST_OK || tape_node_of(t, &node) != ST_OK) return 0;
    tape_node_release(node); /* a compiled one is expanded: the result is of eager's now */
    return t->autograd && t->autograd->node ? t->autograd->output : 0;
}

const char *sn_gradient_why(sn_tensor *y, sn_tensor *x) {
    API_ENTER(sn_gradient_why);
    Text text = {0};
    if (flushed(y, "sn_gradient_why") != ST_OK || flushed(x, "sn_gradient_why") != ST_OK) return "";
    if (!tracking_is_on()) {
        error_raise(ST_STATE, "sn_gradient_why: the setting track_tensors is off: it is to be on before y is computed");
        return "";
    }
    if (!tape_is_leaf(x)) {
        error_raise(ST_ARGUMENT, "sn_gradient_why: x is no leaf: an op made it");
        return "";
    }
    TapeNode *node = NULL;
    if (tape_node_of(y, &node) == ST_OK) gradient_cut_print(y, x, &text);
    tape_node_release(node);
    return state_text(state_get(), text.at);
}
