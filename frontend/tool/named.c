/* named.c: see named.h. */
#include "frontend/tool/named.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/api/graph_handle.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"

typedef struct WantedInput {
    char name[256], type[128];
    bool number, fixed;
    sn_dtype dtype; /* of a tensor whose type is known; else SN_DTYPE_DEFAULT */
    int rank;
    const int64_t *sizes; /* plain ones; -1: any */
} WantedInput;

typedef struct WantedInputs {
    WantedInput *at;
    int n;
    bool by_place; /* nobody knows how many there are: "0", "1"... as the file has them */
    Arena *arena;
} WantedInputs;

/* What is wanted ----------------------------------------------------------------------------- */

static Status want_of_program(sn_program *p, WantedInputs *out) {
    const int n = sn_program_in_count(p);
    out->at = ARENA_ARRAY(out->arena, WantedInput, n + 1);
    if (!out->at) return ST_MEMORY;
    for (; out->n < n; out->n++) {
        sn_program_input in = {.size = sizeof in};
        TRY((Status)sn_program_in(p, out->n, &in));
        WantedInput *const w = &out->at[out->n];
        *w = (WantedInput){.number = in.fixed || in.dtype == SN_DTYPE_DEFAULT,
                           .fixed = in.fixed,
                           .dtype = in.dtype,
                           .rank = in.rank,
                           .sizes = in.sizes};
        snprintf(w->name, sizeof w->name, "%s", in.name);
        snprintf(w->type, sizeof w->type, "%s%s", in.type, in.fixed ? ", may be left out" : "");
    }
    return ST_OK;
}

static void want_int(const Graph *graph, int i, WantedInput *out) {
    Text name = {0};
    sym_print(graph->env, &name, graph->int_inputs.at[i].symbol);
    *out = (WantedInput){.number = true, .type = "int"};
    snprintf(out->name, sizeof out->name, "%s", text_str(&name));
    text_free(&name);
}

static Status want_tensor(Arena *arena, const Graph *graph, int i, WantedInput *out) {
    const Meta *const meta = graph->inputs.at[i]->base.meta;
    int64_t *const sizes = ARENA_ARRAY(arena, int64_t, meta->rank + 1);
    Text type = {0};
    if (!sizes) return ST_MEMORY;
    for (int d = 0; d < meta->rank; d++) sizes[d] = sym_is(meta->sizes[d]) ? -1 : meta->sizes[d];
    *out = (WantedInput){.dtype = (sn_dtype)meta->dtype, .rank = meta->rank, .sizes = sizes};
    meta_print(graph->env, &type, meta);
    snprintf(out->name, sizeof out->name, "%s", graph->inputs.at[i]->name);
    snprintf(out->type, sizeof out->type, "%s", text_str(&type));
    text_free(&type);
    return ST_OK;
}

static Status want_of_graph(const Graph *graph, WantedInputs *out) {
    out->at = ARENA_ARRAY(out->arena, WantedInput, graph->inputs.n + graph->int_inputs.n + 1);
    if (!out->at) return ST_MEMORY;
    for (int i = 0, k = 0; i <= graph->inputs.n; i++) {
        for (; k < graph->int_inputs.n && graph->int_inputs.at[k].before == i; k++)
            want_int(graph, k, &out->at[out->n++]);
        if (i < graph->inputs.n) TRY(want_tensor(out->arena, graph, i, &out->at[out->n++]));
    }
    return ST_OK;
}

static Status want_of_file(sn_dict *given, WantedInputs *out) {
    out->by_place = true;
    out->n = sn_dict_count(given);
    out->at = ARENA_ARRAY(out->arena, WantedInput, out->n + 1);
    if (!out->at) return ST_MEMORY;
    for (int i = 0; i < out->n; i++) snprintf(out->at[i].name, sizeof out->at[i].name, "%d", i);
    return ST_OK;
}

/* Compared ----------------------------------------------------------------------------------- */

static Status refuse_inputs(const WantedInputs *wanted, const char *path, const char *name, const char *what) {
    Text list = {0};
    for (int i = 0; i < wanted->n && list.n < 600; i++)
        text_printf(&list, "%s%s%s%s", i ? ", " : "", wanted->at[i].name, wanted->by_place ? "" : ": ",
                    wanted->at[i].type);
    const Status status =
        error_raise(ST_ARGUMENT, "'%s': the input '%.100s' %s; wanted are %s", path, name, what, text_str(&list));
    text_free(&list);
    return status;
}

static sn_tensor *find_given(sn_dict *given, const char *name) {
    for (int i = 0; i < sn_dict_count(given); i++)
        if (!strcmp(sn_dict_name(given, i), name)) return sn_dict_at(given, i);
    return NULL;
}

static bool fits_sizes(const WantedInput *w, sn_tensor *t) {
    bool fits = w->number ? sn_numel(t) == 1 : !w->sizes || sn_rank(t) == w->rank;
    for (int d = 0; fits && w->sizes && !w->number && d < w->rank; d++)
        fits = w->sizes[d] < 0 || w->sizes[d] == sn_size(t, d);
    return fits;
}

/* A fixed one that is given has the value that the export fixed. */
static bool fits_fixed(const WantedInput *w, sn_tensor *t) {
    char text[64];
    const double value = sn_item(t);
    if (!strncmp(w->type, "True", 4) || !strncmp(w->type, "False", 5)) return (value != 0) == (w->type[0] == 'T');
    snprintf(text, sizeof text, "%.17g", value);
    return strtod(w->type, NULL) == value && strncmp(w->type, "None", 4);
}

/* "is f32[3,2]" */
static Status refuse_type(const WantedInputs *wanted, const char *path, const char *name, sn_tensor *given) {
    char what[160];
    Text type = {0};
    meta_print(NULL, &type, given->base.meta);
    snprintf(what, sizeof what, "is %s", text_str(&type));
    text_free(&type);
    return refuse_inputs(wanted, path, name, what);
}

/* A bool or an int of one element. */
static bool fits_number(const WantedInput *w, sn_tensor *t) {
    return w->fixed || !dtype_is_float((DType)sn_dtype_of(t)) || sn_item(t) == floor(sn_item(t));
}

static Status add_named(const WantedInputs *wanted, const WantedInput *w, const char *path, sn_tensor *given,
                        Target *t) {
    if (!given) return w->fixed ? ST_OK : refuse_inputs(wanted, path, w->name, "is missing");
    if (w->dtype != SN_DTYPE_DEFAULT && sn_dtype_of(given) != w->dtype)
        return refuse_type(wanted, path, w->name, given);
    if (!fits_sizes(w, given)) return refuse_type(wanted, path, w->name, given);
    if (w->fixed)
        return fits_fixed(w, given) ? ST_OK : refuse_inputs(wanted, path, w->name, "is fixed to another value");
    if (w->number) {
        if (!fits_number(w, given)) return refuse_inputs(wanted, path, w->name, "is no integer");
        if (t->numbers.n == TARGET_NUMBERS)
            return error_raise(ST_UNSUPPORTED, "it has more than %d numbers", TARGET_NUMBERS);
        t->numbers.at[t->numbers.n].value = sn_int(sn_item_int(given));
        t->numbers.at[t->numbers.n++].before = t->n_in;
        return error_pending();
    }
    if (t->n_in == TARGET_INPUTS) return error_raise(ST_UNSUPPORTED, "it has more than %d inputs", TARGET_INPUTS);
    t->in[t->n_in++] = sn_retain(given);
    return error_pending();
}

static Status check_extra(const WantedInputs *wanted, const char *path, sn_dict *given) {
    for (int i = 0; i < sn_dict_count(given); i++) {
        bool known = false;
        for (int k = 0; k < wanted->n; k++) known |= !strcmp(wanted->at[k].name, sn_dict_name(given, i));
        if (!known) return refuse_inputs(wanted, path, sn_dict_name(given, i), "is none of the target's");
    }
    return ST_OK;
}

static Status take_named(const char *path, sn_dict *given, Target *t) {
    WantedInputs wanted = {.arena = arena_new()};
    Status status = !wanted.arena ? ST_MEMORY
                    : t->program  ? want_of_program(t->program, &wanted)
                    : t->graph    ? want_of_graph(t->graph->graph, &wanted)
                                  : want_of_file(given, &wanted);
    if (status == ST_OK) status = check_extra(&wanted, path, given);
    for (int i = 0; status == ST_OK && i < wanted.n; i++)
        status = add_named(&wanted, &wanted.at[i], path, find_given(given, wanted.at[i].name), t);
    arena_free(wanted.arena);
    return status;
}

void named_inputs(const char *path, Target *t) {
    sn_dict *const given = sn_dict_load(path);
    if (!given) {
        if (sn_check() == SN_ERR_IO) t->exit_code = EXIT_environment;
        return;
    }
    if (take_named(path, given, t) == ST_MEMORY && !sn_check()) error_raise(ST_MEMORY, "out of memory");
    sn_dict_free(given);
}

Status named_save(const char *path, const Target *t, sn_tensor *const *out) {
    sn_dict *const results = sn_dict_new();
    for (int i = 0; results && i < t->n_out && !sn_check(); i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        if (out[i]) sn_dict_set(results, t->program ? sn_program_out_name(t->program, i) : number, out[i]);
    }
    if (results && !sn_check()) sn_dict_save(results, path);
    sn_dict_free(results);
    return error_pending();
}
