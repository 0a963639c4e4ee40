/* import.c: programs of .pt2 files (sinter/import.h): what frontend/import reads as a graph with its weights bound, and
 * the function, which asks each call for what the file says of sizes. */
#include <sinter/import.h>

#include "frontend/api/enter.h"
#include "frontend/api/graph_strides.h"
#include "frontend/import/program.h"
#include "frontend/import/weights.h"
#include "frontend/lib/options.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/function/function.h"
#include "runtime/core/frame.h"

typedef struct ProgramInput {
    const char *type;
    int64_t *sizes, *hints;
} ProgramInput;

struct sn_program {
    Arena *arena;
    Archive *archive;
    Model model;
    sn_tensor **weights;  /* by input of the model, kept */
    ProgramInput *inputs; /* by input that is no weight */
    const char **out_types;
    sn_graph *graph;
    sn_dict *dict;
    sn_function *of_graph, *fn; /* fn asks each call for what the file says of sizes, and calls the other */
};

/* Calls ---------------------------------------------------------------------------------------- */

/* What one call is given. */
typedef struct ProgramArgs {
    ProgramGiven *given;
    sn_value *values;
    sn_tensor **outs;
    int64_t *symbols;
} ProgramArgs;

/* Sizes are looked at beside capture: the graph's header, which a replayed call asks again, says the same of them;
 * where there is a guard that it can't hold, they are asked for. */
static Status take_inputs(sn_frame *f, const Model *m, ProgramArgs *args) {
    if (sn_in_count(f) != m->n_given)
        return error_raise(ST_ARGUMENT, "the program takes %d inputs, given are %d", m->n_given, sn_in_count(f));
    for (int i = 0; i < m->n_given; i++) {
        args->values[i] = sn_in_value(f, i);
        const sn_value *const value = &args->values[i];
        if (value->kind != SN_KIND_TENSOR && value->kind != SN_KIND_INT)
            return error_raise(ST_ARGUMENT, "input %d of the program is neither a tensor nor an int", i);
        if (value->kind == SN_KIND_INT) {
            const sn_sym number = {value->i};
            args->given[i] = (ProgramGiven){.is_int = true, .number = sn_sym_value(number)};
            continue;
        }
        TRY(tensor_valid(value->tensor, "sn_program_function"));
        const Meta *const meta = value->tensor->base.meta;
        if (m->asks_sizes) sn_sizes(value->tensor);
        args->given[i] = (ProgramGiven){.dtype = meta->dtype, .rank = meta->rank, .sizes = meta->sizes};
    }
    return error_pending();
}

static Status call_program(sn_frame *f, sn_program *p, ProgramArgs *args) {
    const Model *const m = &p->model;
    const int n_out = sn_program_out_count(p);
    TRY(take_inputs(f, m, args));
    TRY(program_check(&(ProgramCall){m, args->given, args->symbols}));
    TRY((Status)sn_call_values(p->of_graph, args->values, m->n_given, args->outs, n_out));
    for (int i = 0; i < n_out; i++)
        if (args->outs[i]) sn_out(f, i, args->outs[i]);
    return error_pending();
}

static sn_status body_of_program(sn_frame *f) {
    sn_program *const p = sn_closure(f);
    const Model *const m = &p->model;
    Arena *const arena = arena_new();
    Status status = ST_MEMORY;
    f->outs_optional = true;
    if (arena) {
        ProgramArgs args = {
            ARENA_ARRAY(arena, ProgramGiven, m->n_given + 1), ARENA_ARRAY(arena, sn_value, m->n_given + 1),
            ARENA_ARRAY(arena, sn_tensor *, m->outputs.n + 1), ARENA_ARRAY(arena, int64_t, m->symbols.list.n + 1)};
        if (args.given && args.values && args.outs && args.symbols) status = call_program(f, p, &args);
    }
    arena_free(arena);
    return (sn_status)status;
}

/* The header of the graph is that of the function, too, whose body does nothing else than to run it. */
static sn_function *compile_program(sn_program *p, const sn_compile_options *options) {
    sn_function *const fn = sn_compile(body_of_program, p, options);
    if (!fn) return NULL;
    fn->header = p->of_graph->header;
    fn->n_results = p->of_graph->n_results;
    return fn;
}

/* Loaded --------------------------------------------------------------------------------------- */

/* An error of the graph's text is one of a node: it says which, and the user's line. */
static Status name_node(Status status, const char *text) {
    ErrorSlot *const slot = error_slot();
    const char *line = text;
    if (status == ST_MEMORY || !slot->place.line) return status;
    for (int i = 1; i < slot->place.line && line; i++) line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    if (!line) return status;
    const char *const at = strstr(line, " at='"), *const end = strchr(line, '\n');
    char said[sizeof slot->message];
    memcpy(said, slot->message + slot->lead, sizeof said - (size_t)slot->lead);
    said[sizeof said - (size_t)slot->lead - 1] = '\0';
    error_clear();
    if (at && (!end || at < end)) {
        const int n = (int)strcspn(at + 5, "'\n");
        return error_raise(ST_UNSUPPORTED, "%.700s (%.*s)", said, n, at + 5);
    }
    return error_raise(ST_UNSUPPORTED, "%.700s: %.*s", said,
                       (int)(end ? end - line : 80) > 200 ? 200 : (int)(end ? end - line : 80), line);
}

static Status parse_text(sn_program *p, const Text *text) {
    p->graph = sn_graph_parse(text_str(text), text->n);
    if (!p->graph) return name_node(error_pending(), text_str(text));
    graph_accept_strides(p->graph);
    return ST_OK;
}

static Status make_graph(sn_program *p) {
    Text text = {0};
    Status status = program_text(&p->model, &text);
    if (status == ST_OK) status = parse_text(p, &text);
    text_free(&text);
    for (int i = 0, at = 0; status == ST_OK && i < p->model.inputs.n; i++) {
        const ModelInput *const in = &p->model.inputs.at[i];
        if (p->weights[i]) status = (Status)sn_node_bind(sn_graph_node(p->graph, at), p->weights[i]);
        at += in->kind != INPUT_int && in->kind != INPUT_fixed;
    }
    return status;
}

static Status make_dict(sn_program *p) {
    p->dict = sn_dict_new();
    for (int i = 0; p->dict && i < p->model.inputs.n; i++) {
        const ModelInput *const in = &p->model.inputs.at[i];
        if (in->kind == INPUT_parameter || in->kind == INPUT_buffer)
            TRY((Status)sn_dict_set(p->dict, in->name, p->weights[i]));
    }
    return error_pending();
}

/* Texts and sizes of sn_program_in. */
static Status describe_input(sn_program *p, int i) {
    const ModelInput *const in = &p->model.inputs.at[i];
    ProgramInput *const out = &p->inputs[i];
    Text text = {0};
    program_input_type(&p->model, in, &text);
    out->type = arena_printf(p->arena, "%s", text_str(&text));
    text_free(&text);
    out->sizes = ARENA_ARRAY(p->arena, int64_t, in->type.rank + 1);
    out->hints = ARENA_ARRAY(p->arena, int64_t, in->type.rank + 1);
    if (!out->type || !out->sizes || !out->hints) return ST_MEMORY;
    int64_t *const symbols = ARENA_ARRAY(p->arena, int64_t, p->model.symbols.list.n + 1);
    if (!symbols) return ST_MEMORY;
    for (int k = 0; k < p->model.symbols.list.n; k++) symbols[k] = p->model.symbols.list.at[k].hint;
    for (int d = 0; d < in->type.rank; d++) {
        const SizeExpr *const size = in->type.sizes[d];
        out->sizes[d] = size_is_number(size) ? size->value : -1;
        if (!size_eval(size, &(SizeValues){.symbols = symbols}, &out->hints[d])) out->hints[d] = -1;
    }
    return ST_OK;
}

static Status describe_inputs(sn_program *p) {
    p->inputs = ARENA_ARRAY(p->arena, ProgramInput, p->model.inputs.n + 1);
    if (!p->inputs) return ST_MEMORY;
    for (int i = 0; i < p->model.inputs.n; i++)
        if (!input_is_weight(p->model.inputs.at[i].kind)) TRY(describe_input(p, i));
    return ST_OK;
}

/* "f32[s77,4]", by output of the model. */
static Status describe_outputs(sn_program *p) {
    p->out_types = ARENA_ARRAY(p->arena, const char *, p->model.outputs.n + 1);
    if (!p->out_types) return ST_MEMORY;
    for (int i = 0; i < p->model.outputs.n; i++) {
        Text text = {0};
        const Status status = program_output_type(&p->model, &p->model.outputs.at[i], &text);
        p->out_types[i] = status == ST_OK ? arena_printf(p->arena, "%s", text_str(&text)) : NULL;
        text_free(&text);
        if (!p->out_types[i]) return status == ST_OK ? ST_MEMORY : status;
    }
    return ST_OK;
}

static Status make_functions(sn_program *p, const sn_compile_options *options) {
    sn_compile_options mine = {0};
    TRY(options_copy_in(&mine, sizeof mine, options, "sn_import"));
    mine.size = sizeof mine;
    mine.closure_free = NULL;
    if (!mine.name) mine.name = p->model.name;
    p->of_graph = sn_graph_compile(p->graph, &mine);
    if (!p->of_graph) return error_pending();
    p->fn = compile_program(p, &mine);
    return p->fn ? ST_OK : error_pending();
}

static Status load(sn_program *p, const char *path, const sn_import_options *options) {
    TRY(archive_open(path, &p->archive));
    TRY(model_read(p->arena, p->archive, options->model, &p->model));
    p->weights = ARENA_ARRAY(p->arena, sn_tensor *, p->model.inputs.n + 1);
    if (!p->weights) return ST_MEMORY;
    TRY(weights_load(&p->model, p->archive, p->weights));
    TRY(make_graph(p));
    TRY(make_dict(p));
    TRY(describe_inputs(p));
    TRY(describe_outputs(p));
    return make_functions(p, options->compile);
}

sn_program *sn_import(const char *path, const sn_import_options *options) {
    API_ENTER(sn_import);
    sn_import_options given = {0};
    if (entered.refused || error_pending() || options_copy_in(&given, sizeof given, options, "sn_import") != ST_OK)
        return NULL;
    if (!path) return error_raise(ST_ARGUMENT, "sn_import: the path is NULL"), NULL;
    sn_program *const p = mem_zero(sizeof *p);
    const sn_scope scope = sn_scope_begin();
    Status status = p && (p->arena = arena_new()) ? ST_OK : ST_MEMORY;
    if (status == ST_OK) status = load(p, path, &given);
    sn_scope_end(scope);
    if (status == ST_OK) return p;
    if (status != ST_MEMORY && status != ST_IO) error_add_path(path); /* which names it */
    sn_program_free(p);
    return NULL;
}

void sn_program_free(sn_program *p) {
    API_ENTER(sn_program_free);
    const Status before = error_pending();
    if (!p) return;
    sn_function_free(p->fn);
    if (before == ST_OK && error_pending() == ST_STATE) return; /* its body runs */
    sn_function_free(p->of_graph);
    sn_graph_free(p->graph);
    sn_dict_free(p->dict);
    for (int i = 0; p->weights && i < p->model.inputs.n; i++) sn_release(p->weights[i]);
    archive_release(p->archive);
    arena_free(p->arena);
    mem_free(p);
}

sn_function *sn_program_compile(sn_program *p, const sn_compile_options *options) {
    API_ENTER(sn_program_compile);
    sn_compile_options mine = {0};
    if (!p) error_raise(ST_ARGUMENT, "sn_program_compile: the program is NULL");
    if (entered.refused || error_pending() ||
        options_copy_in(&mine, sizeof mine, options, "sn_program_compile") != ST_OK)
        return NULL;
    mine.size = sizeof mine;
    mine.closure_free = NULL;
    if (!mine.name) mine.name = p->model.name;
    return compile_program(p, &mine);
}

/* Looked at ------------------------------------------------------------------------------------ */

static bool is_program(const sn_program *p, const char *function) {
    if (!p) error_raise(ST_ARGUMENT, "%s: the program is NULL", function);
    return p != NULL;
}

sn_function *sn_program_function(sn_program *p) { return is_program(p, "sn_program_function") ? p->fn : NULL; }
sn_graph *sn_program_graph(sn_program *p) { return is_program(p, "sn_program_graph") ? p->graph : NULL; }
sn_dict *sn_program_dict(sn_program *p) { return is_program(p, "sn_program_dict") ? p->dict : NULL; }

/* The i-th input that is no weight; -1: there are fewer. */
static int input_at(const sn_program *p, int i) {
    for (int k = 0; i >= 0 && k < p->model.inputs.n; k++)
        if (!input_is_weight(p->model.inputs.at[k].kind) && !i--) return k;
    return -1;
}

int sn_program_in_count(sn_program *p) {
    int n = 0;
    for (int i = 0; p && i < p->model.inputs.n; i++) n += !input_is_weight(p->model.inputs.at[i].kind);
    return n;
}

sn_status sn_program_in(sn_program *p, int i, sn_program_input *out) {
    const int at = p ? input_at(p, i) : -1;
    if (!p || !out || at < 0)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_program_in: NULL argument, or there is no input %d", i);
    const ModelInput *const in = &p->model.inputs.at[at];
    const ProgramInput *const about = &p->inputs[at];
    sn_program_input all = {.name = in->name, .type = about->type, .fixed = in->kind == INPUT_fixed};
    if (in->kind == INPUT_tensor) {
        all.dtype = (sn_dtype)in->type.dtype, all.rank = in->type.rank;
        all.sizes = about->sizes, all.hints = about->hints;
    }
    options_copy_out(&all, sizeof all, out);
    return SN_OK;
}

int sn_program_out_count(sn_program *p) {
    int n = 0;
    for (int i = 0; p && i < p->model.outputs.n; i++) n += p->model.outputs.at[i].kind != OUTPUT_write;
    return n;
}

/* The i-th output that is a result; -1: there are fewer. */
static int output_at(const sn_program *p, int i) {
    for (int k = 0; p && i >= 0 && k < p->model.outputs.n; k++)
        if (p->model.outputs.at[k].kind != OUTPUT_write && !i--) return k;
    return -1;
}

const char *sn_program_out_name(sn_program *p, int i) {
    const int at = output_at(p, i);
    if (at >= 0) return p->model.outputs.at[at].name;
    error_raise(ST_ARGUMENT, "sn_program_out_name: NULL argument, or there is no result %d", i);
    return "";
}

sn_status sn_program_out(sn_program *p, int i, sn_program_output *out) {
    const int at = output_at(p, i);
    if (!out || at < 0)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_program_out: NULL argument, or there is no result %d", i);
    const ModelOutput *const result = &p->model.outputs.at[at];
    const bool given = json_get(result->arg, "as_tensor") || json_get(result->arg, "as_sym_int") ||
                       json_get(result->arg, "as_sym_float") || json_get(result->arg, "as_sym_bool");
    const sn_program_output all = {.name = result->name, .type = p->out_types[at], .fixed = !given};
    options_copy_out(&all, sizeof all, out);
    return SN_OK;
}
