/* model.c: the schema's versions, the signature, ranges and guards. PyTorch: torch/_export/serde/schema.py has every
 * record, serialize.py what writes them. */
#include "frontend/import/model.h"

#include <stdio.h>

#include "frontend/import/tree.h"
#include "runtime/base/error.h"

enum { SCHEMA_MAJOR = 8 };

static Status wrong(const char *what) { return error_raise(ST_PARSE, "model.json: %s", what); }

/* What kind of archive ---------------------------------------------------------------------- */

static bool has_prefix(const Archive *a, const char *prefix) {
    for (int i = 0; i < archive_count(a); i++)
        if (!strncmp(archive_at(a, i)->name, prefix, strlen(prefix))) return true;
    return false;
}

static Status refuse_kind(const Archive *a) {
    if (archive_find(a, "serialized_exported_program.json"))
        return error_raise(ST_UNSUPPORTED, "the file has the format before PyTorch 2.8: export it again");
    if (has_prefix(a, "data/aotinductor/") || has_prefix(a, "aotinductor/"))
        return error_raise(ST_UNSUPPORTED, "the file is a package of AOTInductor: it holds code, and no program");
    return error_raise(ST_PARSE, "the file holds no program: there is no models/model.json");
}

/* An old or another archive may have zip's own ways; what there is decides. */
static Status find_entry(const Archive *a, const char *name, const ArchiveEntry **out) {
    char path[256];
    const ArchiveEntry *only = NULL;
    int n = 0;
    snprintf(path, sizeof path, "models/%s.json", name ? name : "model");
    *out = archive_find(a, path);
    for (int i = 0; i < archive_count(a); i++) {
        const ArchiveEntry *const e = archive_at(a, i);
        const size_t length = strlen(e->name);
        if (strncmp(e->name, "models/", 7) || length < 12 || strcmp(e->name + length - 5, ".json")) continue;
        only = e;
        n++;
    }
    if (*out) return ST_OK;
    if (!n) return refuse_kind(a);
    if (name || n > 1)
        return error_raise(ST_ARGUMENT, "the file has no program '%s', but %s%s", name ? name : "model",
                           n > 1 ? "several others, among them " : "", only->name + 7);
    *out = only;
    return ST_OK;
}

static Status check_format(const Archive *a) {
    const ArchiveEntry *const order = archive_find(a, "byteorder"), *const format = archive_find(a, "archive_format");
    if (order && (order->bytes != 6 || memcmp(order->data, "little", 6)))
        return error_raise(ST_UNSUPPORTED, "the file's numbers are big-endian");
    if (format && (format->bytes != 3 || memcmp(format->data, "pt2", 3)))
        return error_raise(ST_UNSUPPORTED, "the archive says that it is no pt2 but '%.*s'",
                           (int)(format->bytes < 40 ? format->bytes : 40), (const char *)format->data);
    return ST_OK;
}

static Status check_schema(const Json *root) {
    const Json *const major = json_get(json_get(root, "schema_version"), "major");
    if (!major || !major->is_int) return wrong("it says no schema_version");
    if (major->i == SCHEMA_MAJOR) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "the schema of the file has the major version %lld, known is %d",
                       (long long)major->i, SCHEMA_MAJOR);
}

/* Types ------------------------------------------------------------------------------------- */

/* torch/_export/serde/schema.py, ScalarType: not c10's numbers. */
DType model_dtype(int64_t code) {
    static const DType by_code[] = {[1] = DT_u8,  [2] = DT_i8,  [3] = DT_i16, [4] = DT_i32,   [5] = DT_i64,
                                    [6] = DT_f16, [7] = DT_f32, [8] = DT_f64, [12] = DT_bool, [13] = DT_bf16};
    return code >= 0 && code < COUNT_OF(by_code) ? by_code[code] : DT_default;
}

Status model_device(const Json *device, Device *out) {
    const char *const type = json_string(json_get(device, "type"));
    const Json *const index = json_get(device, "index");
    char text[64];
    const char *end;
    if (!type) return wrong("a device has no type");
    snprintf(text, sizeof text, "%s:%lld", type, index && index->is_int ? (long long)index->i : 0);
    if (!strcmp(type, "cpu") || !strcmp(type, "meta")) snprintf(text, sizeof text, "%s", type);
    if (device_parse(text, &end, out) && !*end) return ST_OK;
    return error_raise(ST_DEVICE, "the program uses a device '%.40s', which there is none of here", text);
}

/* What a symbol was in the export, where a size of that symbol alone was `size`: the first size that has one answer
 * says it (s0 % 4 was 3 of 7, too). */
static Status learn_hint(Model *m, const SizeExpr *e, int64_t size) {
    const int symbol = size_one_symbol(e);
    int64_t *const now = ARENA_ARRAY(m->arena, int64_t, m->symbols.list.n + 1);
    int64_t value, again;
    if (!now) return ST_MEMORY;
    if (symbol < 0 || m->symbols.list.at[symbol].hint || !size_is_linear(e)) return ST_OK;
    if (!size_solve(e, symbol, size, now, &value)) return ST_OK;
    now[symbol] = value;
    if (size_eval(e, &(SizeValues){.symbols = now}, &again) && again == size) m->symbols.list.at[symbol].hint = value;
    return ST_OK;
}

Status model_size(Model *m, const Json *size, const SizeExpr **out) {
    const Json *const number = json_get(size, "as_int"), *const e = json_get(size, "as_expr");
    const char *const text = json_string(json_get(e, "expr_str"));
    const Json *const hint = json_get(json_get(e, "hint"), "as_int");
    if (number && number->is_int) {
        SizeExpr *const made = ARENA_NEW(m->arena, SizeExpr);
        if (!made) return ST_MEMORY;
        *made = (SizeExpr){.op = SIZE_number, .value = number->i};
        *out = made;
        return ST_OK;
    }
    if (!text) return wrong("a size is no number and no expression");
    TRY(size_parse_sympy(&m->symbols, text, out));
    return hint && hint->is_int ? learn_hint(m, *out, hint->i) : ST_OK;
}

static Status read_sizes(Model *m, const Json *list, const SizeExpr *const **out) {
    const SizeExpr **const sizes = ARENA_ARRAY(m->arena, const SizeExpr *, list->n + 1);
    if (!sizes) return ST_MEMORY;
    for (int i = 0; i < list->n; i++) TRY(model_size(m, &list->items[i], &sizes[i]));
    *out = sizes;
    return ST_OK;
}

Status model_type(Model *m, const Json *meta, const char *what, ModelType *out) {
    const Json *const dtype = json_get(meta, "dtype"), *const layout = json_get(meta, "layout");
    const Json *const sizes = json_get(meta, "sizes"), *const strides = json_get(meta, "strides");
    if (!dtype || !sizes || !strides || sizes->kind != JSON_list || strides->kind != JSON_list ||
        sizes->n != strides->n)
        return error_raise(ST_PARSE, "model.json: %.200s has no dtype, sizes or strides", what);
    if (sizes->n > MAX_RANK)
        return error_raise(ST_UNSUPPORTED, "%.200s has %d dims, more than %d", what, sizes->n, MAX_RANK);
    out->dtype = model_dtype(dtype->is_int ? dtype->i : 0);
    if (out->dtype == DT_default)
        return error_raise(
            ST_DTYPE, "%.200s has a dtype that there is none of here (complex, float8 or unsigned; ScalarType %lld)",
            what, (long long)dtype->i);
    if (layout && (!layout->is_int || layout->i != 7))
        return error_raise(ST_UNSUPPORTED, "%.200s is not strided (layout %lld)", what, (long long)layout->i);
    out->rank = sizes->n;
    TRY(model_device(json_get(meta, "device"), &out->device));
    TRY(read_sizes(m, sizes, &out->sizes));
    return read_sizes(m, strides, &out->strides);
}

const Json *model_meta(const Json *graph, const char *value) {
    return json_get(json_get(graph, "tensor_values"), value);
}

/* Inputs ------------------------------------------------------------------------------------ */

/* {"parameter": {...}}: which one it is. */
static const Json *only_member(const Json *object, const char **key) {
    const bool one = object && object->kind == JSON_object && object->n == 1;
    *key = one ? object->items[0].key : "";
    return one ? &object->items[0] : NULL;
}

static Status add_weight(Model *m, ModelInputKind kind, const Json *spec, const char *name_key) {
    const Json *const persistent = json_get(spec, "persistent");
    const ModelInput in = {.kind = kind,
                           .persistent = !persistent || persistent->i,
                           .value = json_string(json_get(json_get(spec, "arg"), "name")),
                           .name = json_string(json_get(spec, name_key)),
                           .number = -1};
    if (!in.value || !in.name) return wrong("a parameter, buffer or constant has no name");
    VEC_PUSH(m->arena, &m->inputs, in);
    return error_pending();
}

static Status add_given(Model *m, const Json *spec) {
    const Json *const arg = json_get(spec, "arg"), *const tensor = json_get(arg, "as_tensor");
    const Json *const number = json_get(arg, "as_sym_int");
    const char *const name = json_string(json_get(tensor ? tensor : number, tensor ? "name" : "as_name"));
    if (!name) return error_raise(ST_UNSUPPORTED, "an input is neither a tensor nor an int");
    const ModelInput in = {
        .kind = tensor ? INPUT_tensor : INPUT_int, .value = name, .name = name, .number = m->n_given++};
    VEC_PUSH(m->arena, &m->inputs, in);
    return error_pending();
}

static Status add_fixed(Model *m, const Json *spec) {
    const ModelInput in = {.kind = INPUT_fixed,
                           .name = json_string(json_get(spec, "name")),
                           .fixed = json_get(spec, "value"),
                           .number = -1};
    if (!in.name || !in.fixed) return wrong("a fixed input has no name or no value");
    VEC_PUSH(m->arena, &m->inputs, in);
    return error_pending();
}

static Status read_input_spec(Model *m, const Json *spec) {
    const char *kind;
    const Json *const what = only_member(spec, &kind);
    if (!strcmp(kind, "parameter")) return add_weight(m, INPUT_parameter, what, "parameter_name");
    if (!strcmp(kind, "buffer")) return add_weight(m, INPUT_buffer, what, "buffer_name");
    if (!strcmp(kind, "tensor_constant")) return add_weight(m, INPUT_constant, what, "tensor_constant_name");
    if (!strcmp(kind, "user_input")) return add_given(m, what);
    if (!strcmp(kind, "constant_input")) return add_fixed(m, what);
    if (!strcmp(kind, "custom_obj"))
        return error_raise(
            ST_UNSUPPORTED, "the program has a custom object among its inputs: %s",
            json_string(json_get(what, "custom_obj_name")) ? json_string(json_get(what, "custom_obj_name")) : "?");
    return error_raise(ST_UNSUPPORTED, "the program has an input of the kind '%.60s'", kind);
}

/* What calls give has types. */
static Status read_types(Model *m) {
    for (int i = 0; i < m->inputs.n; i++) {
        ModelInput *const in = &m->inputs.at[i];
        if (in->kind == INPUT_tensor) TRY(model_type(m, model_meta(m->graph, in->value), in->name, &in->type));
        if (in->kind == INPUT_int)
            TRY(model_size(m, json_get(json_get(m->graph, "sym_int_values"), in->value), &in->number_expr));
    }
    return ST_OK;
}

/* Leaves of the tree are the inputs of a call, fixed ones among them, in order. */
static Status name_paths(Model *m, const Json *signature) {
    TreeNames names = {.arena = m->arena,
                       .fields = json_get(json_get(m->root, "graph_module"), "treespec_namedtuple_fields")};
    int leaf = 0;
    TRY(tree_arguments(&names, json_string(json_get(signature, "in_spec")), json_get(signature, "forward_arg_names")));
    for (int i = 0; i < m->inputs.n; i++)
        if (!input_is_weight(m->inputs.at[i].kind) && leaf < names.leaves.n)
            m->inputs.at[i].path = names.leaves.at[leaf++];
    return ST_OK;
}

/* Outputs ----------------------------------------------------------------------------------- */

static Status add_output(Model *m, ModelOutputKind kind, const Json *arg, const char *name) {
    if (!arg || !name) return wrong("a result has no value or no name");
    VEC_PUSH(m->arena, &m->outputs, ((ModelOutput){kind, arg, name}));
    return error_pending();
}

/* The value in the graph of the weight, or input, of this name. */
static const char *input_value(const Model *m, const char *name) {
    for (int i = 0; name && i < m->inputs.n; i++)
        if (m->inputs.at[i].value && !strcmp(m->inputs.at[i].name, name)) return m->inputs.at[i].value;
    return NULL;
}

/* {"name": "add"}, which is a tensor's, as {"as_tensor": ...}. */
static const Json *as_tensor(Model *m, const Json *named) {
    Json *const outer = ARENA_NEW(m->arena, Json), *const inner = ARENA_NEW(m->arena, Json);
    if (!outer || !inner || !named) return NULL;
    *inner = *named;
    inner->key = "as_tensor";
    *outer = (Json){.kind = JSON_object, .n = 1, .items = inner};
    return outer;
}

typedef struct OutputNames {
    const TreeNames *tree;
    int leaf;
} OutputNames;

static Status read_write(Model *m, const Json *what, const char *key) {
    const char *const name = json_string(json_get(what, key));
    const char *const value = input_value(m, name);
    if (!value) return error_raise(ST_PARSE, "model.json: '%.200s' is written, and no input", name ? name : "");
    return add_output(m, OUTPUT_write, as_tensor(m, json_get(what, "arg")), value);
}

static Status read_gradient(Model *m, const Json *what, const char *key) {
    const char *const name = json_string(json_get(what, key));
    m->joint = true;
    return add_output(m, OUTPUT_gradient, as_tensor(m, json_get(what, "arg")),
                      name ? arena_printf(m->arena, "%s.grad", name) : NULL);
}

static Status read_output(Model *m, const Json *spec, OutputNames *names) {
    const char *kind;
    const Json *const what = only_member(spec, &kind), *const arg = json_get(what, "arg");
    if (!strcmp(kind, "buffer_mutation")) return read_write(m, what, "buffer_name");
    if (!strcmp(kind, "parameter_mutation")) return read_write(m, what, "parameter_name");
    if (!strcmp(kind, "user_input_mutation")) return read_write(m, what, "user_input_name");
    if (!strcmp(kind, "gradient_to_parameter")) return read_gradient(m, what, "parameter_name");
    if (!strcmp(kind, "gradient_to_user_input")) return read_gradient(m, what, "user_input_name");
    const bool loss = !strcmp(kind, "loss_output");
    if (!loss && strcmp(kind, "user_output"))
        return error_raise(ST_UNSUPPORTED, "the program has a result of the kind '%.60s'", kind);
    const char *const name = names->leaf < names->tree->leaves.n ? names->tree->leaves.at[names->leaf] : NULL;
    if (!name) return wrong("it has more results than its tree");
    names->leaf++;
    return add_output(m, OUTPUT_result, loss ? as_tensor(m, arg) : arg, name);
}

static Status read_outputs(Model *m, const Json *specs, const Json *signature) {
    TreeNames tree = {.arena = m->arena,
                      .fields = json_get(json_get(m->root, "graph_module"), "treespec_namedtuple_fields")};
    OutputNames names = {&tree, 0};
    TRY(tree_results(&tree, json_string(json_get(signature, "out_spec"))));
    for (int i = 0; i < specs->n; i++) TRY(read_output(m, &specs->items[i], &names));
    return names.leaf == tree.leaves.n ? ST_OK : wrong("it has fewer results than its tree");
}

/* What holds of sizes ----------------------------------------------------------------------- */

/* Keys are symbols, or expressions whose bounds follow from theirs. */
static Status read_ranges(Model *m, const Json *ranges) {
    for (int i = 0; ranges && ranges->kind == JSON_object && i < ranges->n; i++) {
        const Json *const range = &ranges->items[i];
        const Json *const min = json_get(range, "min_val"), *const max = json_get(range, "max_val");
        const size_t n = strlen(range->key), word = strspn(range->key, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (word != n) continue;
        const int symbol = size_symbol(&m->symbols, range->key, n);
        if (symbol < 0) return ST_MEMORY;
        if (min && min->is_int) m->symbols.list.at[symbol].min = min->i;
        if (max && max->is_int) m->symbols.list.at[symbol].max = max->i;
    }
    return ST_OK;
}

/* Sizes of inputs, and ints among them, as what the file says that they are. */
static Status resolve_guard(Model *m, const char *text, const SizeExpr *e, const SizeExpr **out) {
    const ModelInput *const in = e->op == SIZE_dim || e->op == SIZE_given ? &m->inputs.at[e->value] : NULL;
    const Json *const fixed = in && in->kind == INPUT_fixed ? json_get(in->fixed, "as_int") : NULL;
    SizeExpr *const own = arena_copy(m->arena, e, sizeof *e);
    if (!own) return ST_MEMORY;
    *out = own;
    if (in && e->op == SIZE_dim && in->kind == INPUT_tensor && e->dim < in->type.rank)
        return *out = in->type.sizes[e->dim], ST_OK;
    if (in && e->op == SIZE_given && in->kind == INPUT_int) return *out = in->number_expr, ST_OK;
    if (fixed && fixed->is_int) return *own = (SizeExpr){.op = SIZE_number, .value = fixed->i}, ST_OK;
    if (in) return error_raise(ST_UNSUPPORTED, "the guard %.300s is about something else than sizes", text);
    const SizeExpr **const parts = ARENA_ARRAY(m->arena, const SizeExpr *, e->n + 1);
    if (!parts) return ST_MEMORY;
    for (int i = 0; i < e->n; i++) TRY(resolve_guard(m, text, e->parts[i], &parts[i]));
    own->parts = parts;
    return ST_OK;
}

/* "s0 == 2" says more than any size does. */
static void learn_from_guard(Model *m, const SizeExpr *e) {
    for (int i = 0; e->op == SIZE_and && i < e->n; i++) learn_from_guard(m, e->parts[i]);
    for (int i = 0; e->op == SIZE_eq && i < 2; i++) {
        const SizeExpr *const symbol = e->parts[i], *const number = e->parts[1 - i];
        if (symbol->op == SIZE_symbol && size_is_number(number)) m->symbols.list.at[symbol->value].hint = number->value;
    }
}

static Status read_guards(Model *m, const Json *guards) {
    const char **const paths = ARENA_ARRAY(m->arena, const char *, m->inputs.n + 1);
    if (!paths) return ST_MEMORY;
    for (int i = 0; i < m->inputs.n; i++) paths[i] = m->inputs.at[i].path;
    for (int i = 0; guards && guards->kind == JSON_list && i < guards->n; i++) {
        ModelCheck check = {.text = json_string(&guards->items[i])};
        if (!check.text) return wrong("a guard is no text");
        TRY(size_parse_guard(&m->symbols, check.text, paths, m->inputs.n, &check.holds));
        TRY(resolve_guard(m, check.text, check.holds, &check.holds));
        learn_from_guard(m, check.holds);
        VEC_PUSH(m->arena, &m->checks, check);
    }
    return error_pending();
}

static Status read_program(Model *m) {
    const Json *const module = json_get(m->root, "graph_module"), *const signature = json_get(module, "signature");
    const Json *const ins = json_get(signature, "input_specs"), *const outs = json_get(signature, "output_specs");
    const Json *const calls = json_get(module, "module_call_graph");
    const Json *const call =
        calls && calls->kind == JSON_list && calls->n ? json_get(&calls->items[0], "signature") : NULL;
    m->graph = json_get(module, "graph");
    if (!m->graph || !ins || !outs || !call || ins->kind != JSON_list || outs->kind != JSON_list)
        return wrong("it has no graph or no signature");
    for (int i = 0; i < ins->n; i++) TRY(read_input_spec(m, &ins->items[i]));
    TRY(name_paths(m, call));
    TRY(read_types(m));
    TRY(read_outputs(m, outs, call));
    TRY(read_ranges(m, json_get(m->root, "range_constraints")));
    return read_guards(m, json_get(m->root, "guards_code"));
}

static Status find_program(Model *m, const Archive *a, const char *name, const ArchiveEntry **out) {
    TRY(find_entry(a, name, out));
    const char *const own = (*out)->name + strlen("models/");
    m->name = arena_printf(m->arena, "%.*s", (int)(strlen(own) - strlen(".json")), own);
    return m->name ? ST_OK : ST_MEMORY;
}

Status model_read(Arena *arena, const Archive *a, const char *name, Model *out) {
    const ArchiveEntry *entry;
    *out = (Model){.arena = arena, .symbols = {.arena = arena}};
    TRY(check_format(a));
    TRY(find_program(out, a, name, &entry));
    TRY(json_parse(arena, (const char *)entry->data, entry->bytes, &out->root));
    TRY(check_schema(out->root));
    return read_program(out);
}
