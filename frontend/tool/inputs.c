/* inputs.c: see inputs.h. A symbol is what --number says, or else the usual size (t->symbol), or a hint that the text
 * gives; an int input that is no size is its hint, and where other sizes than the hints do not suit the types of the
 * text, so are symbols one by one, from the first on, until they do. */
#include "frontend/tool/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/tool/domains.h"
#include "ir/graph.h"
#include "runtime/base/error.h"
#include "runtime/core/tensor.h"

enum { PLAIN_HINT = 2, MOST_ELEMENTS = 1 << 30 };

typedef struct Maker {
    const TargetOptions *o;
    Target *t;
    Arena *arena;
    SymEnv *env;
    int64_t *symbols; /* by number */
} Maker;

/* One tensor. */
typedef struct Wanted {
    const Meta *meta;
    ValueDomain domain;
    int64_t before, behind; /* elements of its memory before and from its first one on, at least */
} Wanted;

/* Symbols ------------------------------------------------------------------------------------- */

static bool is_symbol(const Maker *m, int64_t size, int i) { return sym_identical(size, sym_free_at(m->env, i)); }

/* An int among the inputs whose symbol is no size. */
static bool is_plain_int(const Maker *m, const Graph *graph, int i) {
    bool given = false;
    for (int k = 0; graph && k < graph->int_inputs.n; k++) given |= is_symbol(m, graph->int_inputs.at[k].symbol, i);
    for (int k = 0; given && k < graph->inputs.n; k++) {
        const Meta *const meta = graph->inputs.at[k]->base.meta;
        for (int d = 0; d < meta->rank; d++) given &= !is_symbol(m, meta->sizes[d], i);
    }
    return given;
}

static int64_t usual_value(const Maker *m, const Graph *graph, int i) {
    const SymExpr *const e = sym_expr(m->env, sym_free_at(m->env, i));
    if (is_plain_int(m, graph, i)) return e->hint;
    const int64_t hinted = e->hint == PLAIN_HINT ? m->t->symbol : e->hint * m->t->symbol / DEFAULT_SIZE;
    return hinted < e->b ? e->b : hinted;
}

/* Several elements at one place: some dim's step lies inside of what the dims of smaller steps reach. */
static bool input_overlaps(const Maker *m, const Meta *meta, const int64_t *symbols) {
    for (int d = 0; d < meta->rank; d++) {
        const int64_t step = sym_eval(m->env, meta->strides[d], symbols);
        int64_t reach = 0;
        if (sym_eval(m->env, meta->sizes[d], symbols) <= 1) continue;
        for (int k = 0; k < meta->rank; k++) {
            const int64_t smaller = sym_eval(m->env, meta->strides[k], symbols);
            if (k != d && (smaller < step || (smaller == step && k > d)))
                reach += (sym_eval(m->env, meta->sizes[k], symbols) - 1) * smaller;
        }
        if (step <= reach) return true;
    }
    return false;
}

/* What the types of the text decided; and no input overlaps that did not under the hints. */
static bool suits(const Maker *m, const Graph *graph, const int64_t *hints) {
    bool hold = true;
    for (int i = 0; i < sym_guard_count(m->env) && hold; i++)
        hold = sym_guard_holds(m->env, sym_guard_at(m->env, i), m->symbols);
    for (int i = 0; graph && i < graph->inputs.n && hold; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        hold = !input_overlaps(m, meta, m->symbols) || input_overlaps(m, meta, hints);
    }
    return hold;
}

static Status set_numbered_symbols(const Maker *m, int n) {
    for (int i = 0; i < m->o->n_numbers; i++) {
        const int symbol = atoi(m->o->numbers[i] + 1);
        if (symbol >= n) {
            m->t->exit_code = EXIT_usage;
            return error_raise(ST_ARGUMENT, "--number '%s': the inputs have no s%d", m->o->numbers[i], symbol);
        }
        m->symbols[symbol] = strtoll(strchr(m->o->numbers[i], '=') + 1, NULL, 10);
    }
    return ST_OK;
}

/* graph NULL: of types alone. */
static Status set_symbols(Maker *m, const Graph *graph) {
    const int n = sym_free_count(m->env);
    int64_t *const hints = ARENA_ARRAY(m->arena, int64_t, n + 1);
    m->symbols = ARENA_ARRAY(m->arena, int64_t, n + 1);
    if (!m->symbols || !hints) return ST_MEMORY;
    for (int i = 0; i < n; i++) hints[i] = sym_hint(m->env, sym_free_at(m->env, i));
    for (int i = 0; i < n; i++) m->symbols[i] = usual_value(m, graph, i);
    for (int i = 0; i < n && !suits(m, graph, hints); i++) m->symbols[i] = hints[i];
    return set_numbered_symbols(m, n);
}

/* Values -------------------------------------------------------------------------------------- */

static sn_tensor *random_floats(sn_ints sizes, sn_dtype dtype, bool unit) {
    return sn_to(unit ? sn_rand(sizes, SN_F32) : sn_randn(sizes, SN_F32), dtype);
}

/* least to past - 1: drawn in f64, in which each is a number. */
static sn_tensor *random_counts(sn_ints sizes, sn_dtype dtype, const ValueDomain *domain) {
    sn_tensor *const drawn = sn_mul_scalar(sn_rand(sizes, SN_F64), sn_float((double)(domain->past - domain->least)));
    return sn_to(sn_add_scalar(sn_floor(drawn), sn_int(domain->least)), dtype);
}

/* From 0 on, in steps that reach `end` behind the last, or with it. */
static sn_tensor *evenly(sn_ints sizes, sn_dtype dtype, int64_t end, bool with_last) {
    int64_t n = 1;
    for (int64_t d = 0; d < sizes.n; d++) n *= sizes.data[d];
    const int64_t parts = max_i64(n - with_last, 1);
    sn_tensor *const ends = sn_mul_scalar(sn_arange(sn_int(n), SN_F64), sn_float((double)end));
    return sn_to(sn_view(sn_floor(sn_div_scalar(ends, sn_float((double)parts))), sizes), dtype);
}

/* The same values on any device: they are drawn on the CPU. */
static sn_tensor *random_values(sn_ints sizes, DType dtype, const ValueDomain *domain) {
    const DCategory category = dtype_category(dtype);
    if (category == CAT_float) return random_floats(sizes, (sn_dtype)dtype, domain->unit);
    if (category == CAT_bool) return sn_gt_scalar(sn_randn(sizes, SN_F32), sn_float(0));
    if (domain->bags) return evenly(sizes, (sn_dtype)dtype, domain->past - 1, domain->closed);
    if (domain->counted) return random_counts(sizes, (sn_dtype)dtype, domain);
    return sn_to(sn_mul_scalar(sn_rand(sizes, SN_F32), sn_float(4)), (sn_dtype)dtype);
}

/* Tensors ------------------------------------------------------------------------------------- */

typedef struct InputLayout {
    int64_t sizes[MAX_RANK], strides[MAX_RANK], span;
    int rank;
    bool row_major;
} InputLayout;

static Status wanted_layout(const Maker *m, const Meta *meta, InputLayout *out) {
    int64_t usual[MAX_RANK];
    out->rank = meta->rank;
    out->row_major = true;
    for (int d = 0; d < meta->rank; d++) {
        out->sizes[d] = sym_eval(m->env, meta->sizes[d], m->symbols);
        out->strides[d] = sym_eval(m->env, meta->strides[d], m->symbols);
        if (out->sizes[d] >= 0 && out->strides[d] >= 0) continue;
        return error_raise(ST_SHAPE, "an input has the size %lld and the stride %lld in dim %d",
                           (long long)out->sizes[d], (long long)out->strides[d], d);
    }
    meta_contiguous_strides(NULL, out->sizes, out->rank, usual);
    for (int d = 0; d < out->rank; d++) out->row_major &= out->strides[d] == usual[d];
    if (!meta_span(out->sizes, out->strides, out->rank, &out->span) || out->span > MOST_ELEMENTS)
        return error_raise(ST_MEMORY, "an input has more than %d elements", MOST_ELEMENTS);
    return ST_OK;
}

/* What is not a block of its own lies in one of random values. */
static sn_tensor *laid_out(const Maker *m, const Wanted *w, const InputLayout *layout) {
    const sn_device device = (sn_device)(m->o->device_given ? m->o->device : w->meta->device);
    const sn_ints sizes = {layout->sizes, layout->rank}, strides = {layout->strides, layout->rank};
    const int64_t behind = w->behind > layout->span ? w->behind : layout->span, all = w->before + behind;
    if (layout->row_major && all == layout->span)
        return sn_to_device(random_values(sizes, w->meta->dtype, &w->domain), device);
    if (all > MOST_ELEMENTS) {
        error_raise(ST_MEMORY, "the memory of an input has more than %d elements", MOST_ELEMENTS);
        return NULL;
    }
    sn_tensor *const block = sn_to_device(random_values(SN_INTS(all), w->meta->dtype, &w->domain), device);
    return sn_detach(sn_as_strided(block, sizes, strides, w->before));
}

static void add_input(const Maker *m, const Wanted *w) {
    InputLayout layout;
    if (wanted_layout(m, w->meta, &layout) != ST_OK) return;
    sn_tensor *const made = laid_out(m, w, &layout);
    const bool tracked = m->o->grad && !w->domain.written && !w->domain.untracked;
    if (made && (tracked || w->domain.leaf) && dtype_is_float(w->meta->dtype)) sn_requires_grad_(made, true);
    if (made && m->t->n_in == TARGET_INPUTS)
        error_raise(ST_UNSUPPORTED, "it has more than %d inputs", TARGET_INPUTS);
    else if (made)
        m->t->in[m->t->n_in++] = sn_keep(made);
}

static Status add_number(const Maker *m, sn_value value) {
    CallNumbers *const all = &m->t->numbers;
    if (all->n == TARGET_NUMBERS) return error_raise(ST_UNSUPPORTED, "it has more than %d numbers", TARGET_NUMBERS);
    all->at[all->n].value = value;
    all->at[all->n++].before = m->t->n_in;
    return ST_OK;
}

/* What a dense tensor's memory holds beyond it no op reads. */
static sn_tensor *copy_of_memory(sn_tensor *t, sn_dtype dtype) {
    const Meta *const meta = t->base.meta;
    const sn_ints sizes = {meta->sizes, meta->rank}, strides = {meta->strides, meta->rank};
    const int64_t all = t->storage ? (int64_t)t->storage->bytes / dtype_bytes(meta->dtype) : meta->numel;
    if (all == meta->numel && meta_is_row_major(meta))
        return sn_to_ex(t, dtype, false, true, sn_int(SN_PRESERVE_FORMAT));
    sn_tensor *const block = sn_as_strided(t, SN_INTS(all), SN_INTS(1), 0);
    return sn_as_strided(sn_to_ex(block, dtype, false, true, sn_none()), sizes, strides, t->offset);
}

sn_tensor *input_copy(sn_tensor *t, sn_dtype dtype) {
    sn_tensor *const copy = sn_keep(sn_detach(copy_of_memory(sn_detach(t), dtype)));
    return copy && sn_requires_grad(t) && dtype_is_float((DType)dtype) ? sn_requires_grad_(copy, true) : copy;
}

/* --input ------------------------------------------------------------------------------------- */

/* The reader says what it wants where; this, of which option. */
static Status wrong_input(const Maker *m, const char *given) {
    ErrorSlot *const slot = error_slot();
    char said[sizeof slot->message];
    m->t->exit_code = EXIT_usage;
    memcpy(said, slot->message, sizeof said);
    snprintf(slot->message, sizeof slot->message, "--input '%.200s': %.*s", given, (int)sizeof said - 256, said);
    return slot->status;
}

static bool is_number(const char *given, sn_value *out) {
    char *end;
    const double f = strtod(given, &end);
    if (end == given || *end) return false;
    *out = strpbrk(given, ".eEnN") ? sn_float(f) : sn_int(strtoll(given, NULL, 10));
    return true;
}

/* meta NULL: a number. */
static Status read_given(const Maker *m, const char *given, Meta **meta, sn_value *number) {
    const char *end;
    *meta = NULL;
    if (is_number(given, number)) return ST_OK;
    if (meta_parse(m->arena, m->env, given, &end, meta) != ST_OK) return wrong_input(m, given);
    if (!*end) return ST_OK;
    m->t->exit_code = EXIT_usage;
    return error_raise(ST_PARSE, "--input '%s': unexpected '%s'", given, end);
}

static Status add_given(Maker *m) {
    const int n = m->o->n_inputs;
    Meta **const metas = ARENA_ARRAY(m->arena, Meta *, n + 1);
    sn_value *const numbers = ARENA_ARRAY(m->arena, sn_value, n + 1);
    m->env = sym_env_new(m->arena);
    if (!metas || !numbers || !m->env) return ST_MEMORY;
    for (int i = 0; i < n; i++) TRY(read_given(m, m->o->inputs[i], &metas[i], &numbers[i]));
    TRY(set_symbols(m, NULL));
    for (int i = 0; i < n; i++) {
        if (metas[i])
            add_input(m, &(Wanted){.meta = metas[i]});
        else
            TRY(add_number(m, numbers[i]));
        TRY(error_pending());
    }
    return ST_OK;
}

/* Graphs -------------------------------------------------------------------------------------- */

static Status add_of_graph(Maker *m, Graph *graph) {
    const int n = graph->inputs.n;
    int64_t *const before = ARENA_ARRAY(m->arena, int64_t, n + 1), *const behind =
                                                                       ARENA_ARRAY(m->arena, int64_t, n + 1);
    m->env = graph->env;
    TRY(set_symbols(m, graph));
    const ValueDomain *const domains = graph_domains(graph, m->arena, m->symbols);
    if (!before || !behind || !domains) return ST_MEMORY;
    TRY(graph_find_reach(graph, m->symbols, before, behind));
    for (int i = 0, k = 0; i <= n; i++) {
        for (; k < graph->int_inputs.n && graph->int_inputs.at[k].before == i; k++)
            TRY(add_number(m, sn_int(sym_eval(m->env, graph->int_inputs.at[k].symbol, m->symbols))));
        if (i == n) break;
        const GVal *const input = graph->inputs.at[i];
        m->t->asks_gradients |= domains[input->id].leaf;
        add_input(m, &(Wanted){input->base.meta, domains[input->id], before[i], behind[i]});
        TRY(error_pending());
    }
    return ST_OK;
}

/* Programs ------------------------------------------------------------------------------------- */

/* Symbols are what they were in the export, in later calls of --vary twice and three times that. */
static Status set_exported_symbols(Maker *m) {
    const int n = sym_free_count(m->env);
    m->symbols = ARENA_ARRAY(m->arena, int64_t, n + 1);
    if (!m->symbols) return ST_MEMORY;
    for (int i = 0; i < n; i++) m->symbols[i] = sym_hint(m->env, sym_free_at(m->env, i)) * m->t->symbol / DEFAULT_SIZE;
    return set_numbered_symbols(m, n);
}

/* What a call gives: inputs of the graph that are not bound, and ints; those behind them are the program's to find. */
static Status add_given_inputs(Maker *m, Graph *graph) {
    const ValueDomain *const domains = graph_domains(graph, m->arena, m->symbols);
    int at = 0, ints = 0;
    if (!domains) return ST_MEMORY;
    for (int i = 0; i < sn_program_in_count(m->t->program); i++) {
        sn_program_input in = {.size = sizeof in};
        sn_program_in(m->t->program, i, &in);
        if (in.fixed) continue;
        if (in.dtype == SN_DTYPE_DEFAULT) {
            TRY(add_number(m, sn_int(sym_eval(m->env, graph->int_inputs.at[ints++].symbol, m->symbols))));
            continue;
        }
        while (at < graph->inputs.n - 1 && sn_node_tensor(sn_graph_node(sn_program_graph(m->t->program), at))) at++;
        const GVal *const input = graph->inputs.at[at++];
        add_input(m, &(Wanted){.meta = input->base.meta, .domain = domains[input->id]});
        TRY(error_pending());
    }
    return ST_OK;
}

static Status add_of_program(Maker *m) {
    const char *const text = sn_graph_text(sn_program_graph(m->t->program));
    Graph *graph;
    TRY(graph_parse(m->arena, text, strlen(text), &graph));
    m->env = graph->env;
    TRY(set_exported_symbols(m));
    return add_given_inputs(m, graph);
}

static Status make_all(Maker *m) {
    if (m->t->program && !m->o->n_inputs) return add_of_program(m);
    if (m->o->n_inputs || !m->t->graph) return add_given(m);
    const char *const text = sn_graph_text(m->t->graph);
    Graph *graph;
    TRY(graph_parse(m->arena, text, strlen(text), &graph));
    return add_of_graph(m, graph);
}

void inputs_make(const TargetOptions *o, Target *t) {
    Maker m = {.o = o, .t = t, .arena = arena_new()};
    const Status status = m.arena ? make_all(&m) : ST_MEMORY;
    if (status == ST_MEMORY && !sn_check()) error_raise(ST_MEMORY, "out of memory");
    arena_free(m.arena);
}
