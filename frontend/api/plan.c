/* plan.c: compiled functions as files (sinter/plan.h): the text of runtime/capture/function/saved.h and the tensors
 * as safetensors, in one bundle. */
#include <sinter/device.h>
#include <sinter/ops.h>
#include <sinter/plan.h>

#include "frontend/api/enter.h"
#include "frontend/api/dict.h"
#include "frontend/lib/options.h"
#include "passes/user_pass.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/function/saved.h"
#include "runtime/core/background.h"
#include "runtime/core/bundle.h"
#include "runtime/core/safetensors.h"

/* Saving -------------------------------------------------------------------------------------- */

static Status name_closed(SavedPlan *plan, const sn_plan_options *options) {
    const sn_dict *const d = options->tensors;
    for (int i = 0; i < plan->closed.n; i++) {
        SavedTensor *const t = &plan->closed.at[i];
        t->embedded = options->embed;
        for (int k = 0; d && k < d->n; k++)
            if (d->entries[k].tensor == t->tensor) t->name = d->entries[k].name;
        if (!*t->name || strchr(t->name, '\n'))
            return error_raise(ST_ARGUMENT, "sn_plan_save: a tensor's name is empty or has a line end");
        for (int k = 0; k < i; k++)
            if (!strcmp(plan->closed.at[k].name, t->name))
                return error_raise(ST_ARGUMENT, "sn_plan_save: two tensors are named '%s'", t->name);
    }
    return ST_OK;
}

static Status check_embedded(const SavedPlan *plan, int i) {
    const SavedTensor *const t = &plan->closed.at[i];
    for (int k = 0; k < i; k++)
        if (plan->closed.at[k].tensor->storage == t->tensor->storage)
            return error_raise(ST_UNSUPPORTED,
                               "sn_plan_save: '%s' and '%s' share memory, which would be lost in a file: do not embed, "
                               "and give them to the load",
                               plan->closed.at[k].name, t->name);
    if (!t->meta->contiguous && meta_overlaps(t->meta))
        return error_raise(ST_UNSUPPORTED, "sn_plan_save: '%s' overlaps itself: it cannot be embedded", t->name);
    return ST_OK;
}

typedef struct PlanFile {
    SavedPlan plan;
    Text text, header; /* of the tensors */
    FileSpan *pieces;  /* the header, and each tensor where it lies */
    int n_pieces;
    size_t tensors; /* bytes of all pieces */
} PlanFile;

enum { ALIGNED = 64 };

/* Blanks behind the header of the tensors, so that their bytes begin at a multiple of ALIGNED in the file: a mapped one
 * is read where it lies. */
static void pad_header(PlanFile *file, size_t data) {
    Text *const out = &file->header;
    const size_t unpadded = out->n;
    for (;; text_puts(out, " ")) {
        const FileSpan parts[BUNDLE_SECTIONS] = {{"", file->text.n}, {"", out->n + data}, {"", 0}};
        if (!((bundle_line_bytes("plan", parts) + file->text.n + out->n) % ALIGNED)) break;
        if (out->n > unpadded + 4 * ALIGNED || error_pending()) return; /* the line's length goes with it */
    }
    const uint64_t length = out->n - sizeof length;
    for (size_t i = 0; i < sizeof length; i++) out->at[i] = (char)(unsigned char)(length >> 8 * i);
}

/* Those of wide elements first: each is then aligned to its own. */
static void sort_by_width(SafeTensor *tensors, int n) {
    for (int i = 1; i < n; i++) {
        const SafeTensor t = tensors[i];
        int k = i;
        for (; k > 0 && dtype_bytes(tensors[k - 1].dtype) < dtype_bytes(t.dtype); k--) tensors[k] = tensors[k - 1];
        tensors[k] = t;
    }
}

/* What is contiguous and on the CPU is not copied: it is written from where it lies. */
static Status print_tensors(PlanFile *file) {
    const SavedPlan *const plan = &file->plan;
    const int n = plan->closed.n;
    size_t data = 0;
    SafeTensor *const tensors = ARENA_ARRAY(plan->arena, SafeTensor, n + 1);
    file->pieces = ARENA_ARRAY(plan->arena, FileSpan, n + 1);
    if (!tensors || !file->pieces) return ST_MEMORY;
    for (int i = 0; i < n; i++) {
        TRY(check_embedded(plan, i));
        TRY(dict_safe(plan->closed.at[i].tensor, plan->closed.at[i].name, "sn_plan_save", &tensors[i]));
        data += tensors[i].bytes;
    }
    sort_by_width(tensors, n);
    safetensors_print(&file->header, tensors, n, NULL, 0);
    if (data) pad_header(file, data);
    file->tensors = file->header.n + data;
    file->pieces[file->n_pieces++] = (FileSpan){text_str(&file->header), file->header.n};
    for (int i = 0; i < n; i++)
        if (tensors[i].bytes) file->pieces[file->n_pieces++] = (FileSpan){tensors[i].data, tensors[i].bytes};
    return error_pending();
}

static Status save(sn_function *fn, const char *path, const sn_plan_options *options, PlanFile *file) {
    TRY(saved_collect(fn, &file->plan));
    TRY(name_closed(&file->plan, options));
    TRY(saved_print(fn, &file->plan, &file->text));
    if (options->embed) TRY(print_tensors(file));
    const FileSpan parts[BUNDLE_SECTIONS] = {{text_str(&file->text), file->text.n}, {"", file->tensors}, {"", 0}};
    return bundle_save(path, "plan", parts, file->pieces, file->n_pieces);
}

sn_status sn_plan_save(sn_function *fn, const char *path, const sn_plan_options *options) {
    API_ENTER(sn_plan_save);
    sn_plan_options known = {0};
    if (error_pending()) return (sn_status)error_pending();
    if (!fn || !path)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_plan_save: the %s is NULL", fn ? "path" : "function");
    if (entered.refused) return (sn_status)error_pending();
    if (options_copy_in(&known, sizeof known, options, "sn_plan_save") != ST_OK) return (sn_status)error_pending();
    if (fn->background) background_wait(fn->background);
    if (!known.as_called) saved_prepare(fn);
    PlanFile file = {.plan.arena = arena_new()};
    const sn_scope scope = scope_begin_library();
    const Status status = file.plan.arena ? save(fn, path, &known, &file) : ST_MEMORY;
    sn_scope_end(scope);
    arena_free(file.plan.arena);
    text_free(&file.text);
    text_free(&file.header);
    return (sn_status)status;
}

/* Loading ------------------------------------------------------------------------------------- */

static bool is_as_saved(const Meta *a, const Meta *b) {
    return a->device == b->device && a->wrapped == b->wrapped && meta_same_layout(a, b);
}

static void drop_map(void *data, void *map) {
    (void)data;
    file_map_release(map);
}

/* Where it lies in the mapped file; NULL: it is not aligned there, or raises. */
static sn_tensor *mapped_tensor(const SafeTensor *from, FileMap *map) {
    if ((uintptr_t)from->data % (size_t)dtype_bytes(from->dtype)) return NULL;
    const sn_blob blob = {.size = sizeof blob,
                          .data = (void *)(uintptr_t)from->data,
                          .bytes = from->bytes,
                          .sizes = {from->sizes, from->rank},
                          .dtype = (sn_dtype)from->dtype,
                          .free = drop_map,
                          .context = map};
    file_map_retain(map);
    sn_tensor *const t = sn_wrap(&blob);
    if (!t) file_map_release(map);
    return t;
}

/* Of the innermost scope; NULL raises. */
static sn_tensor *embedded_tensor(const SavedTensor *t, const SafeTensor *from, FileMap *map) {
    sn_tensor *flat = map ? mapped_tensor(from, map) : NULL;
    if (!flat) flat = sn_from_data(from->data, (sn_ints){from->sizes, from->rank}, (sn_dtype)from->dtype);
    if (!flat || is_as_saved(flat->base.meta, t->meta)) return flat;
    return sn_copy_(sn_empty_strided((sn_ints){t->meta->sizes, t->meta->rank},
                                     (sn_ints){t->meta->strides, t->meta->rank}, (sn_dtype)t->meta->dtype),
                    flat);
}

static Status refuse_tensor(const SavedTensor *t, const sn_tensor *given) {
    Text text = {0};
    text_printf(&text, "sn_plan_load: the plan closes over '%s', ", t->name);
    meta_print(NULL, &text, t->meta);
    if (given) {
        text_puts(&text, "; it was given ");
        meta_print(NULL, &text, given->base.meta);
    } else {
        text_puts(&text, ", which is not in options.tensors");
    }
    const Status status = error_raise(ST_ARGUMENT, "%s", text_str(&text));
    text_free(&text);
    return status;
}

static Status find_tensor(SavedTensor *t, const SafeFile *embedded, FileMap *map, const sn_dict *given) {
    const DictEntry *const entry = given ? dict_find(given, t->name) : NULL;
    const SafeTensor *const stored = t->embedded && embedded ? safetensors_find(embedded, t->name) : NULL;
    if (entry)
        t->tensor = entry->tensor;
    else if (stored && stored->dtype && !(t->tensor = embedded_tensor(t, stored, map)))
        return error_pending();
    if (!t->tensor) return refuse_tensor(t, NULL);
    TRY(tensor_ready(t->tensor, "sn_plan_load"));
    return is_as_saved(t->tensor->base.meta, t->meta) ? ST_OK : refuse_tensor(t, t->tensor);
}

static Status open_tensors(const Bundle *bundle, SafeFile **out) {
    const FileSpan *const part = &bundle->parts[BUNDLE_tensors];
    return part->bytes ? safetensors_view(part->at, part->bytes, out) : ST_OK;
}

/* "pass fuse 3": a program that has the pass in another version would have made another plan. */
static Status check_extension(const char *line, Arena *arena) {
    char now[USER_PASS_TEXT];
    const char *const last = strrchr(line, ' ');
    if (strncmp(line, "pass ", 5) != 0 || !last || last < line + 5) return ST_OK;
    char *const name = arena_printf(arena, "%.*s", (int)(last - line - 5), line + 5);
    if (!name) return ST_MEMORY;
    if (!user_pass_version(name, now) || !strcmp(now, last + 1)) return ST_OK;
    return error_raise(ST_ARGUMENT, "sn_plan_load: the plan was made with version %s of pass '%s', which is %s here",
                       last + 1, name, *now ? now : "without a version");
}

static Status load(const Bundle *bundle, const sn_dict *given, Arena *arena, SafeFile **embedded, sn_function **out) {
    SavedPlan plan;
    TRY(saved_parse_head(arena, bundle->text, &plan));
    for (int i = 0; i < plan.extensions.n; i++) TRY(check_extension(plan.extensions.at[i], arena));
    TRY(open_tensors(bundle, embedded));
    for (int i = 0; i < plan.closed.n; i++) TRY(find_tensor(&plan.closed.at[i], *embedded, bundle->map, given));
    TRY(saved_parse(&plan, out));
    (*out)->page = sn_report_save;
    return ST_OK;
}

static sn_function *load_bundle(const Bundle *bundle, const sn_dict *given, const char *path) {
    SafeFile *embedded = NULL;
    sn_function *fn = NULL;
    Arena *const arena = arena_new();
    const sn_scope scope = scope_begin_library();
    const Status status = arena ? load(bundle, given, arena, &embedded, &fn) : ST_MEMORY;
    if (status == ST_PARSE) error_add_path(path);
    sn_scope_end(scope);
    safetensors_close(embedded);
    arena_free(arena);
    return fn;
}

static sn_function *load_and_close(Bundle *bundle, const sn_dict *given, const char *name) {
    sn_function *const fn = load_bundle(bundle, given, name);
    bundle_close(bundle);
    return fn;
}

sn_function *sn_plan_load(const char *path, const sn_plan_options *options) {
    API_ENTER(sn_plan_load);
    sn_plan_options known = {0};
    Bundle bundle;
    if (error_pending()) return NULL;
    if (!path) error_raise(ST_ARGUMENT, "sn_plan_load: the path is NULL");
    if (!path || entered.refused) return NULL;
    if (options_copy_in(&known, sizeof known, options, "sn_plan_load") != ST_OK) return NULL;
    return bundle_open(path, "plan", &bundle) == ST_OK ? load_and_close(&bundle, known.tensors, path) : NULL;
}

sn_function *sn_plan_load_memory(const void *bytes, size_t n, const sn_plan_options *options) {
    API_ENTER(sn_plan_load_memory);
    sn_plan_options known = {0};
    Bundle bundle;
    if (error_pending()) return NULL;
    if (!bytes && n) error_raise(ST_ARGUMENT, "sn_plan_load_memory: the memory is NULL");
    if ((!bytes && n) || entered.refused) return NULL;
    if (options_copy_in(&known, sizeof known, options, "sn_plan_load_memory") != ST_OK) return NULL;
    return bundle_view(bytes, n, "memory", "plan", &bundle) == ST_OK ? load_and_close(&bundle, known.tensors, "memory")
                                                                     : NULL;
}
