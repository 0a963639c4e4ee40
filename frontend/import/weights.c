/* weights.c: a payload is a whole storage; sizes, strides and offset count in it. Each is wrapped once, with a
 * reference to the archive, which stays mapped for as long as any tensor lies in it. */
#include "frontend/import/weights.h"

#include <sinter/autograd.h>
#include <sinter/device.h>
#include <sinter/dispatch.h>
#include <sinter/tensor.h>
#include <stdio.h>

#include "runtime/base/error.h"

/* One entry of a payload config. */
typedef struct Payload {
    const ArchiveEntry *entry;
    const char *what; /* the tensor's name */
    bool requires_grad;
    DType dtype;
    Device device;
    int rank;
    int64_t sizes[MAX_RANK], strides[MAX_RANK], offset;
} Payload;

typedef struct Loader {
    Model *m;
    Archive *archive;
    const Json *weights, *constants; /* {FQN: {...}} */
    Payload *payloads;               /* by input */
    sn_tensor **out;
} Loader;

/* kind: "weights" or "constants". */
static Status read_config(Loader *l, const char *kind, const Json **out) {
    char path[512];
    snprintf(path, sizeof path, "data/%s/%.200s_%s_config.json", kind, l->m->name, kind);
    const ArchiveEntry *const e = archive_find(l->archive, path);
    const Json *root;
    *out = NULL;
    if (!e) return ST_OK;
    TRY(json_parse(l->m->arena, (const char *)e->data, e->bytes, &root));
    *out = json_get(root, "config");
    return *out ? ST_OK : error_raise(ST_PARSE, "%s has no config", path);
}

static Status plain_number(const SizeExpr *e, const char *what, int64_t *out) {
    if (!size_is_number(e)) return error_raise(ST_PARSE, "the tensor '%.200s' has a size that is no number", what);
    *out = e->value;
    return ST_OK;
}

static Status read_layout(Model *m, const Json *meta, Payload *out) {
    ModelType type;
    const SizeExpr *offset;
    TRY(model_type(m, meta, out->what, &type));
    TRY(model_size(m, json_get(meta, "storage_offset"), &offset));
    TRY(plain_number(offset, out->what, &out->offset));
    out->dtype = type.dtype, out->device = type.device, out->rank = type.rank;
    for (int d = 0; d < type.rank; d++) {
        TRY(plain_number(type.sizes[d], out->what, &out->sizes[d]));
        TRY(plain_number(type.strides[d], out->what, &out->strides[d]));
    }
    return ST_OK;
}

static Status read_payload(const Loader *l, const ModelInput *in, Payload *out) {
    char path[512];
    const Json *weight = json_get(l->weights, in->name);
    const char *const folder = weight ? "weights" : "constants";
    if (!weight) weight = json_get(l->constants, in->name);
    const char *const name = json_string(json_get(weight, "path_name"));
    const Json *const meta = json_get(weight, "tensor_meta"), *const pickled = json_get(weight, "use_pickle");
    const Json *const grad = json_get(meta, "requires_grad");
    if (!name) return error_raise(ST_PARSE, "the file holds no tensor '%.200s'", in->name);
    if (pickled && pickled->i)
        return error_raise(ST_UNSUPPORTED, "the tensor '%.200s' is pickled: a custom object, or a subclass of Tensor",
                           in->name);
    snprintf(path, sizeof path, "data/%s/%s", folder, name);
    *out = (Payload){.entry = archive_find(l->archive, path), .what = in->name, .requires_grad = grad && grad->i};
    if (!out->entry) return error_raise(ST_PARSE, "the file has no entry '%.300s' for '%.200s'", path, in->name);
    return read_layout(l->m, meta, out);
}

static void release_archive(void *data, void *context) {
    (void)data;
    archive_release(context);
}

/* The whole storage, in one layout of it. */
static sn_tensor *wrap_storage(Archive *a, const Payload *p, sn_ints sizes, sn_ints strides) {
    archive_retain(a);
    sn_tensor *const t =
        sn_wrap(SN_BLOB(.data = p->entry->data, .bytes = p->entry->bytes, .sizes = sizes, .strides = strides,
                        .dtype = (sn_dtype)p->dtype, .free = release_archive, .context = a));
    if (!t) archive_release(a);
    return t;
}

static sn_tensor *view_storage(sn_tensor *base, const Payload *p) {
    const sn_value in[] = {sn_val(base), sn_ints_value((sn_ints){p->sizes, p->rank}),
                           sn_ints_value((sn_ints){p->strides, p->rank}), sn_int(p->offset)};
    const sn_value view = sn_val(sn_op_call1(sn_op_find("aten::as_strided"), in, 4));
    return sn_op_call1(sn_op_find("aten::detach"), &view, 1);
}

static sn_tensor *first_of_storage(Archive *a, const Payload *p) {
    const sn_ints sizes = {p->sizes, p->rank}, strides = {p->strides, p->rank};
    if (!p->offset) return wrap_storage(a, p, sizes, strides);
    const int64_t all = (int64_t)p->entry->bytes / dtype_bytes(p->dtype);
    return view_storage(wrap_storage(a, p, (sn_ints){&all, 1}, (sn_ints){NULL, 0}), p);
}

static bool same_layout(const Payload *a, const Payload *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset;
    for (int d = 0; same && d < a->rank; d++) same = a->sizes[d] == b->sizes[d] && a->strides[d] == b->strides[d];
    return same;
}

/* Another name of a storage that is there. */
static sn_tensor *again(const Loader *l, const Payload *p, int first) {
    if (same_layout(p, &l->payloads[first])) return sn_retain(l->out[first]);
    if (p->dtype == l->payloads[first].dtype) return sn_keep(view_storage(l->out[first], p));
    error_raise(ST_UNSUPPORTED, "'%.200s' and '%.200s' are one memory in two dtypes", p->what, l->payloads[first].what);
    return NULL;
}

static Status load_one(const Loader *l, int i) {
    const Payload *const p = &l->payloads[i];
    int first = 0;
    while (first < i && (!l->out[first] || l->payloads[first].entry != p->entry)) first++;
    const bool shared = first < i;
    sn_tensor *t = shared ? again(l, p, first) : sn_keep(first_of_storage(l->archive, p));
    if (t && !shared && p->device != DEV_cpu) {
        sn_tensor *const moved = sn_keep(sn_to_device(t, (sn_device)p->device));
        sn_release(t);
        t = moved;
    }
    if (!t) return error_pending();
    l->out[i] = t;
    if (p->requires_grad && dtype_is_float(p->dtype) && !sn_requires_grad(t)) sn_requires_grad_(t, true);
    return error_pending();
}

Status weights_load(Model *m, Archive *a, sn_tensor **out) {
    Loader l = {.m = m, .archive = a, .payloads = ARENA_ARRAY(m->arena, Payload, m->inputs.n + 1), .out = out};
    if (!l.payloads) return ST_MEMORY;
    TRY(read_config(&l, "weights", &l.weights));
    TRY(read_config(&l, "constants", &l.constants));
    for (int i = 0; i < m->inputs.n; i++) {
        if (!input_is_weight(m->inputs.at[i].kind)) continue;
        TRY(read_payload(&l, &m->inputs.at[i], &l.payloads[i]));
        TRY(load_one(&l, i));
    }
    return ST_OK;
}
