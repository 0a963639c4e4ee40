/* specialized_text.c: see specialized_text.h. */
#include "runtime/capture/replay/specialized_text.h"

#include <stdlib.h>

#include "runtime/base/error.h"
#include "runtime/core/user_guard.h"
#include "runtime/capture/replay/replay_parts.h"
#include "runtime/capture/variant/guards_text.h"
#include "runtime/core/settings.h"

static const char *const source_names[] = {
    [SOURCE_size] = "size", [SOURCE_stride] = "stride", [SOURCE_scalar] = "number"};

/* What it is of ------------------------------------------------------------------------------- */

static bool is_known_kind(int kind) {
    return kind == ARG_tensor || kind == ARG_int || kind == ARG_float || kind == ARG_bool || kind == ARG_none ||
           kind == ARG_default;
}

static bool argument_refused(const SpecializedCall *p, int i, Text *why) {
    const SlotSignature *const slot = &p->first->slots[i];
    if (!is_known_kind(slot->kind)) {
        text_printf(why, "argument %d is a list or a string", i);
        return true;
    }
    if (!atomic_load(&p->guards->given[i])) return false;
    text_printf(why, "argument %d was the same tensor in every call of a case (", i);
    if (slot->meta) meta_print(NULL, why, slot->meta);
    text_puts(why, "), which the body may have closed over: call it with another one, too");
    return true;
}

bool specialized_refusal(const SpecializedCall *p, Text *why) {
    const ReplayGuards *const w = p->guards;
    for (int i = 0; i < w->n_in; i++)
        if (argument_refused(p, i, why)) return true;
    for (int i = w->n_in; i < w->n_slots; i++) {
        if (w->found[i - w->n_in].bound) continue;
        text_puts(why, "it reads a .grad");
        return true;
    }
    for (int i = 0; i < w->n_asked; i++) {
        if (w->answers[i].query == QUERY_guard) {
            text_printf(why, "it has a guard of the program's, '%s'", user_guard_at(w->answers[i].at)->name);
            return true;
        }
        if (!p->forward || w->answers[i].query != QUERY_requires_grad || !w->answers[i].answer) continue;
        text_puts(why, "its body asks whether a tensor requires gradients, and a plan records none");
        return true;
    }
    return false;
}

int specialized_closed_over(const SpecializedCall *p) { return p->guards->n_slots - p->guards->n_in; }
sn_tensor *specialized_closed_at(const SpecializedCall *p, int i) { return p->guards->found[i].bound; }
TrieNode *specialized_end(const SpecializedCall *p) { return p->end; }
int specialized_result_count(const SpecializedCall *p) { return p->n_out; }
CaseShape specialized_shape(const SpecializedCall *p) {
    return (CaseShape){.n_inputs = p->guards->n_inputs, .n_numbers = p->n_numbers};
}

static int closed_number(ClosedOver closed, const sn_tensor *t) {
    int i = 0;
    while (i < closed.n && closed.tensors[i] != t) i++;
    return i;
}

void specialized_input_names(const SpecializedCall *p, ClosedOver closed, InputName *names) {
    const ReplayGuards *const w = p->guards;
    for (int i = 0; i < w->n_inputs; i++) {
        const int slot = w->source[i];
        names[i] = slot < w->n_in
                       ? (InputName){INPUT_argument, slot}
                       : (InputName){INPUT_closed_over, closed_number(closed, w->found[slot - w->n_in].bound)};
    }
}

/* Printing ------------------------------------------------------------------------------------ */

static void print_frees(const Symbols *s, Text *text) {
    for (int i = 0; i < s->frees.n; i++) {
        const SymSource *const source = &s->frees.at[i];
        const SymExpr *const e = sym_expr(s->env, sym_free_at(s->env, i));
        text_printf(text, "s%d = %lld >= %lld: %s %d of argument %d\n", i, (long long)e->hint, (long long)e->b,
                    source_names[source->kind], source->dim, source->input);
    }
}

/* symbols NULL: as it was in the first call. */
static void print_argument(const SpecializedCall *p, int i, Text *text) {
    const SlotSignature *const first = &p->first->slots[i];
    const Symbols *const s = p->symbols;
    text_printf(text, "argument %d: ", i);
    if (first->kind == ARG_tensor && first->meta) {
        meta_print(s ? s->env : NULL, text, s ? s->metas[i] : first->meta);
    } else if (first->kind == ARG_int) {
        text_puts(text, "int ");
        if (p->read[i])
            sym_print(s ? s->env : NULL, text, s ? s->ints[i] : first->word);
        else
            text_puts(text, "unread");
    } else if (first->kind == ARG_float) {
        text_puts(text, "float ");
        if (!p->read[i])
            text_puts(text, "unread");
        else if (s && !s->pinned[i])
            text_puts(text, "any");
        else
            guard_number_print(text, first->word);
    } else if (first->kind == ARG_bool) {
        text_printf(text, "bool %lld", (long long)first->word);
    } else {
        text_printf(text, "absent %d", first->kind);
    }
    text_puts(text, "\n");
}

static void print_replay_guards(const ReplayGuards *w, ClosedOver closed, Text *text) {
    for (int i = w->n_in; i < w->n_slots; i++)
        text_printf(text, "closed over %d\n", closed_number(closed, w->found[i - w->n_in].bound));
    for (int i = 0; i < w->n_asked; i++)
        text_printf(text, "asked %s of slot %d at %lld: %lld\n", query_name(w->answers[i].query), w->answers[i].slot,
                    (long long)w->answers[i].at, (long long)w->answers[i].answer);
}

static void print_relations(const Symbols *s, Text *text) {
    for (int i = 0; i < sym_guard_count(s->env); i++) {
        text_puts(text, "guard ");
        guard_relation_print(s->env, text, sym_guard_at(s->env, i));
        text_puts(text, "\n");
    }
}

static void print_numbers(const SpecializedCall *p, Text *text) {
    text_puts(text, "\nnumbers");
    for (int k = 0; k < p->n_numbers; k++) {
        const int64_t value = p->symbols ? p->numbers[k].value : p->first_numbers[k];
        text_puts(text, k ? ", " : " ");
        if (p->symbols && p->numbers[k].input >= 0)
            text_printf(text, "argument %d", p->numbers[k].input);
        else if (sym_is(value))
            sym_print(p->symbols->env, text, value);
        else
            guard_number_print(text, value);
    }
}

void specialized_print(const SpecializedCall *p, int segment, ClosedOver closed, Text *text) {
    const ReplayGuards *const w = p->guards;
    text_printf(text, "program of segment %d, grad mode %s, keys %llu %llu", segment,
                grad_mode_word(w->context.grad_mode), (unsigned long long)w->context.include,
                (unsigned long long)w->context.exclude);
    if (w->context.autocast) text_printf(text, ", autocast %u", w->context.autocast);
    if (w->context.device != DEV_cpu) text_printf(text, ", default device %s", DEVICE_TEXT(w->context.device));
    text_printf(text, "%s\narguments %d\n", p->free_scalars && p->symbols ? ", free scalars" : "", w->n_in);
    if (p->symbols) print_frees(p->symbols, text);
    for (int i = 0; i < w->n_in; i++) print_argument(p, i, text);
    print_replay_guards(w, closed, text);
    if (p->symbols) print_relations(p->symbols, text);
    text_puts(text, "twins");
    for (int i = 0; i < w->n_slots; i++) text_printf(text, "%s%d", i ? ", " : " ", (int)p->first->slots[i].alias);
    text_puts(text, "\ninputs");
    for (int i = 0; i < w->n_inputs; i++) text_printf(text, "%s%d", i ? ", " : " ", w->source[i]);
    print_numbers(p, text);
    text_puts(text, "\nresults");
    for (int i = 0; i < p->n_out; i++)
        if (is_slot_result(p->result[i]))
            text_printf(text, "%sslot %d", i ? ", " : " ", result_slot(p->result[i]));
        else if (p->result[i] < 0)
            text_puts(text, i ? ", none" : " none");
        else
            text_printf(text, "%s%d", i ? ", " : " ", p->result[i]);
    text_puts(text, "\n");
}

/* Parsing ------------------------------------------------------------------------------------- */

typedef struct ProgramReader {
    TextReader in;
    SpecializedCall *specialized;
    Symbols *symbols;
    CallSignature *first; /* room for the arguments and all that the file closes over */
    VEC(Answer) answers;
    ClosedOver closed;
    int n_slots; /* so far */
} ProgramReader;

static Status read_word64(ProgramReader *r, uint64_t *out) {
    char *end;
    if (r->in.at[0] < '0' || r->in.at[0] > '9') return reader_expected(&r->in, "a set of keys");
    *out = strtoull(r->in.at, &end, 10);
    r->in.at = end;
    return ST_OK;
}

static Status read_autocast(ProgramReader *r) {
    uint64_t word = 0;
    TRY(read_word64(r, &word));
    r->specialized->guards->context.autocast = (uint32_t)word;
    return word && word <= UINT32_MAX ? ST_OK : reader_expected(&r->in, "autocast's word before this");
}

static Status read_specialized_head(ProgramReader *r, const SavedSegment *segments, int n_segments) {
    SpecializedCall *const p = r->specialized;
    int segment, mode = SN_GRAD_ON;
    EAT(&r->in, "program of segment ");
    TRY(reader_count(&r->in, &segment));
    if (segment >= n_segments) return reader_expected(&r->in, "a segment of the file before this");
    p->end = segments[segment].end;
    p->n_numbers = p->n_sources = segments[segment].shape.n_numbers;
    p->guards->n_inputs = segments[segment].shape.n_inputs;
    EAT(&r->in, ", grad mode ");
    while (mode <= SN_INFERENCE && !reader_eat(&r->in, grad_mode_word((sn_grad_mode)mode))) mode++;
    if (mode > SN_INFERENCE) return reader_expected(&r->in, "on, off or inference");
    p->guards->context.grad_mode = (sn_grad_mode)mode;
    EAT(&r->in, ", keys ");
    p->guards->bodyless = true;
    TRY(read_word64(r, &p->guards->context.include));
    EAT(&r->in, " ");
    TRY(read_word64(r, &p->guards->context.exclude));
    if (reader_eat(&r->in, ", autocast ")) TRY(read_autocast(r));
    if (reader_eat(&r->in, ", default device ") && !device_parse(r->in.at, &r->in.at, &p->guards->context.device))
        return reader_expected(&r->in, "a device");
    p->free_scalars = reader_eat(&r->in, ", free scalars");
    EAT(&r->in, "\narguments ");
    TRY(reader_count(&r->in, &p->guards->n_in));
    EAT(&r->in, "\n");
    return p->guards->n_in <= MAX_SLOTS ? ST_OK : reader_expected(&r->in, "fewer arguments before this");
}

static Status read_free(ProgramReader *r) {
    Symbols *const s = r->symbols;
    SymSource source = {0};
    int number, kind = 0;
    int64_t hint, bound;
    TRY(reader_count(&r->in, &number));
    if (number != sym_free_count(s->env) || number >= MAX_CASE_SYMBOLS)
        return reader_expected(&r->in, "the next symbol before this");
    EAT(&r->in, " = ");
    TRY(reader_int(&r->in, &hint));
    EAT(&r->in, " >= ");
    TRY(reader_int(&r->in, &bound));
    EAT(&r->in, ": ");
    while (kind < COUNT_OF(source_names) && !reader_eat(&r->in, source_names[kind])) kind++;
    if (kind == COUNT_OF(source_names)) return reader_expected(&r->in, "where the symbol comes from");
    source.kind = kind;
    EAT(&r->in, " ");
    TRY(reader_count(&r->in, &source.dim));
    EAT(&r->in, " of argument ");
    TRY(reader_count(&r->in, &source.input));
    EAT(&r->in, "\n");
    if (sym_is(hint) || sym_is(bound) || hint < bound || source.input >= s->n_in)
        return reader_expected(&r->in, "a hint in bounds, of an argument, before this");
    sym_free(s->env, hint, bound);
    VEC_PUSH(s->arena, &s->frees, source);
    return error_pending();
}

/* Without strides it is row-major, also where a symbol may be 0, of which the sizes alone do not tell. */
static Status read_tensor_argument(ProgramReader *r, int i) {
    Meta *meta;
    const char *const from = r->in.at;
    TRY(meta_parse(r->symbols->arena, r->symbols->env, r->in.at, &r->in.at, &meta));
    meta->contiguous = meta->contiguous || !memchr(from, '{', (size_t)(r->in.at - from));
    r->symbols->metas[i] = meta;
    ((Arg *)r->symbols->in)[i].kind = ARG_tensor;
    r->first->slots[i].kind = ARG_tensor;
    r->first->slots[i].meta = meta;
    return ST_OK;
}

static Status read_number_argument(ProgramReader *r, int i, int kind) {
    Symbols *const s = r->symbols;
    Arg *const arg = &((Arg *)s->in)[i];
    int64_t value = 0;
    arg->kind = kind;
    s->read[i] = !reader_eat(&r->in, "unread");
    const bool any = s->read[i] && kind == ARG_float && reader_eat(&r->in, "any");
    if (s->read[i] && !any) TRY(guard_number_read(&r->in, s->env, &value));
    if (sym_is(value) && (kind != ARG_int || sym_expr(s->env, value)->op != SYM_free))
        return reader_expected(&r->in, "a number before this");
    s->ints[i] = value;
    s->pinned[i] = !any;
    arg->i = sym_is(value) ? 0 : value;
    r->first->slots[i].kind = kind;
    r->first->slots[i].word = arg->i;
    return ST_OK;
}

static Status read_absent_argument(ProgramReader *r, int i) {
    int kind;
    EAT(&r->in, "absent ");
    TRY(reader_count(&r->in, &kind));
    if (kind != ARG_tensor && kind != ARG_none && kind != ARG_default)
        return reader_expected(&r->in, "what is absent before this");
    ((Arg *)r->symbols->in)[i].kind = kind;
    r->first->slots[i].kind = kind;
    return ST_OK;
}

static Status read_argument(ProgramReader *r, int i) {
    int number;
    EAT(&r->in, "argument ");
    TRY(reader_count(&r->in, &number));
    if (number != i) return reader_expected(&r->in, "the next argument before this");
    EAT(&r->in, ": ");
    if (reader_eat(&r->in, "int "))
        TRY(read_number_argument(r, i, ARG_int));
    else if (reader_eat(&r->in, "float "))
        TRY(read_number_argument(r, i, ARG_float));
    else if (reader_eat(&r->in, "bool "))
        TRY(read_number_argument(r, i, ARG_bool));
    else
        TRY(!strncmp(r->in.at, "absent", 6) ? read_absent_argument(r, i) : read_tensor_argument(r, i));
    EAT(&r->in, "\n");
    return ST_OK;
}

/* Where symbols come from is there, and each is declared. */
static Status check_frees(ProgramReader *r) {
    const Symbols *const s = r->symbols;
    for (int i = 0; i < s->frees.n; i++) {
        const SymSource *const source = &s->frees.at[i];
        const Meta *const meta = s->metas[source->input];
        const bool there =
            source->kind == SOURCE_scalar ? s->in[source->input].kind == ARG_int : meta && source->dim < meta->rank;
        if (!there) return reader_expected(&r->in, "before this an argument that each symbol comes from");
    }
    return s->frees.n == sym_free_count(s->env) ? ST_OK : reader_expected(&r->in, "every symbol before this");
}

static Status read_closed(ProgramReader *r) {
    ReplayGuards *const w = r->specialized->guards;
    int number;
    TRY(reader_count(&r->in, &number));
    EAT(&r->in, "\n");
    if (number >= r->closed.n || r->n_slots == w->n_in + r->closed.n)
        return reader_expected(&r->in, "what the file lists before this");
    sn_tensor *const t = r->closed.tensors[number];
    tensor_retain(t);
    w->found[r->n_slots - w->n_in] = (FoundTensor){.bound = t};
    r->first->slots[r->n_slots] = (SlotSignature){.meta = t->base.meta, .kind = ARG_tensor};
    w->n_slots = ++r->n_slots;
    return ST_OK;
}

static bool is_answer(const ReplayGuards *w, const Answer *a) {
    if (a->query == QUERY_COUNT || a->query == QUERY_guard || query_of_layout(a->query)) return false;
    if (a->query == QUERY_setting) return a->slot == -1 && a->at >= 0 && a->at < SET_COUNT;
    return a->slot >= 0 && a->slot < w->n_slots;
}

static Status read_asked(ProgramReader *r) {
    ReplayGuards *const w = r->specialized->guards;
    Answer a = {.query = 0};
    int64_t slot;
    while (a.query < QUERY_COUNT && !reader_eat(&r->in, query_name(a.query))) a.query++;
    EAT(&r->in, " of slot ");
    TRY(reader_int(&r->in, &slot));
    EAT(&r->in, " at ");
    TRY(reader_int(&r->in, &a.at));
    EAT(&r->in, ": ");
    TRY(reader_int(&r->in, &a.answer));
    EAT(&r->in, "\n");
    a.slot = slot < -1 || slot > INT32_MAX ? INT32_MAX : (int)slot;
    if (!is_answer(w, &a)) return reader_expected(&r->in, "a question before this");
    VEC_PUSH(r->specialized->arena, &r->answers, a);
    w->answers = r->answers.at;
    w->n_answers = w->n_asked = r->answers.n;
    return error_pending();
}

static Status read_relation(ProgramReader *r) {
    SymGuard guard;
    TRY(guard_relation_read(&r->in, r->symbols->env, &guard));
    EAT(&r->in, "\n");
    sym_require(r->symbols->env, guard.rel, guard.a, guard.b);
    return ST_OK;
}

/* n numbers below `below`, as many as are wanted. */
static Status read_list(ProgramReader *r, const char *head, int n, int below, int *out) {
    if (!reader_eat(&r->in, head)) return reader_expected(&r->in, head);
    for (int i = 0; i < n; i++) {
        if (!reader_eat(&r->in, i ? ", " : " ")) return reader_expected(&r->in, "a number");
        TRY(reader_count(&r->in, &out[i]));
        if (out[i] >= below) return reader_expected(&r->in, "a slot before this");
    }
    EAT(&r->in, "\n");
    return ST_OK;
}

static Status read_slots(ProgramReader *r) {
    ReplayGuards *const w = r->specialized->guards;
    while (reader_eat(&r->in, "closed over ")) TRY(read_closed(r));
    while (reader_eat(&r->in, "asked ")) TRY(read_asked(r));
    while (reader_eat(&r->in, "guard ")) TRY(read_relation(r));
    int *const aliases = ARENA_ARRAY(r->specialized->arena, int, w->n_slots + 1);
    w->source = ARENA_ARRAY(r->specialized->arena, int, w->n_inputs + 1);
    w->given = ARENA_ARRAY(r->specialized->arena, GivenTensor, w->n_slots + 1);
    if (!aliases || !w->source || !w->given) return ST_MEMORY;
    TRY(read_list(r, "twins", w->n_slots, w->n_slots, aliases));
    for (int i = 0; i < w->n_slots; i++) r->first->slots[i].alias = aliases[i];
    TRY(read_list(r, "inputs", w->n_inputs, w->n_slots, w->source));
    for (int i = 0; i < w->n_inputs; i++)
        if (!r->first->slots[w->source[i]].meta) return reader_expected(&r->in, "inputs that are tensors before this");
    return ST_OK;
}

static Status read_number_source(ProgramReader *r, struct NumberSource *source) {
    const Symbols *const s = r->symbols;
    source->input = -1;
    if (!reader_eat(&r->in, "argument ")) return guard_number_read(&r->in, s->env, &source->value);
    TRY(reader_count(&r->in, &source->input));
    const bool fits = source->input < s->n_in && s->read[source->input] &&
                      (s->in[source->input].kind == ARG_float || s->in[source->input].kind == ARG_int);
    return fits ? ST_OK : reader_expected(&r->in, "a number among the arguments before this");
}

static Status read_numbers(ProgramReader *r) {
    SpecializedCall *const p = r->specialized;
    p->numbers = ARENA_ARRAY(p->arena, struct NumberSource, p->n_numbers + 1);
    if (!p->numbers) return ST_MEMORY;
    EAT(&r->in, "numbers");
    for (int k = 0; k < p->n_numbers; k++) {
        if (!reader_eat(&r->in, k ? ", " : " ")) return reader_expected(&r->in, "a number");
        TRY(read_number_source(r, &p->numbers[k]));
    }
    EAT(&r->in, "\n");
    return ST_OK;
}

/* A value of the segment, an argument or what is closed over, or none. */
static Status read_result(ProgramReader *r, int *out) {
    if (reader_eat(&r->in, "none")) return *out = -1, ST_OK;
    const bool slot = reader_eat(&r->in, "slot ");
    TRY(reader_count(&r->in, out));
    if (!slot) return ST_OK;
    if (*out >= r->n_slots || !r->first->slots[*out].meta)
        return reader_expected(&r->in, "a tensor's slot before this");
    *out = slot_result(*out);
    return ST_OK;
}

static Status read_program_results(ProgramReader *r) {
    VEC(int) results = {0};
    EAT(&r->in, "results");
    while (reader_eat(&r->in, results.n ? ", " : " ")) {
        int value;
        TRY(read_result(r, &value));
        VEC_PUSH(r->specialized->arena, &results, value);
    }
    EAT(&r->in, "\n");
    r->specialized->result = results.at;
    r->specialized->n_out = results.n;
    return error_pending();
}

static bool make_symbols(ProgramReader *r) {
    const int n_in = r->specialized->guards->n_in;
    Arena *const arena = arena_new();
    Symbols *const s = arena ? ARENA_NEW(arena, Symbols) : NULL;
    if (!s) {
        arena_free(arena);
        return false;
    }
    *s = (Symbols){.arena = arena,
                   .env = sym_env_new(arena),
                   .n_in = n_in,
                   .in = ARENA_ARRAY(arena, Arg, n_in + 1),
                   .metas = ARENA_ARRAY(arena, const Meta *, n_in + 1),
                   .ints = ARENA_ARRAY(arena, int64_t, n_in + 1),
                   .pinned = ARENA_ARRAY(arena, bool, n_in + 1),
                   .read = ARENA_ARRAY(arena, bool, n_in + 1)};
    r->specialized->symbols = r->symbols = s;
    r->specialized->read = s->read;
    return s->env && s->in && s->metas && s->ints && s->pinned && s->read;
}

static bool make_slots(ProgramReader *r) {
    SpecializedCall *const p = r->specialized;
    const int n = p->guards->n_in + r->closed.n;
    p->guards->found = ARENA_ARRAY(p->arena, FoundTensor, r->closed.n + 1);
    r->first = arena_alloc(p->arena, call_signature_bytes(n));
    if (r->first) memset(r->first, 0, call_signature_bytes(n));
    return p->guards->found && r->first;
}

/* The cases of its segment say what the call writes and how many random numbers a run draws. */
static Status read_variants(SpecializedCall *p) {
    p->written = ARENA_ARRAY(p->arena, bool, p->guards->n_slots + 1);
    if (!p->written) return ST_MEMORY;
    for (const Variant *v = atomic_load(&p->end->variants); v; v = v->next) {
        for (int i = 0; i < v->n_inputs; i++) v->inputs[i].inference = false; /* asked by the call (mode_refusal) */
        p->writes |= v->segment.writes;
        for (int i = 0; i < v->n_graph_inputs; i++)
            p->written[p->guards->source[v->graph_inputs[i].captured]] |= v->info.plans[0]->inputs.at[i].written;
        p->n_random = v->segment.n_random;
        p->n_ops = v->segment.n_ops;
    }
    return ST_OK;
}

static Status read_program(ProgramReader *r, const SavedSegment *segments, int n_segments) {
    SpecializedCall *const p = r->specialized;
    TRY(read_specialized_head(r, segments, n_segments));
    if (!make_symbols(r) || !make_slots(r)) return ST_MEMORY;
    while (reader_eat(&r->in, "s")) TRY(read_free(r));
    for (int i = 0; i < p->guards->n_in; i++) TRY(read_argument(r, i));
    r->n_slots = p->guards->n_slots = p->guards->n_in;
    TRY(read_slots(r));
    TRY(read_numbers(r));
    TRY(check_frees(r));
    TRY(read_program_results(r));
    p->first = r->first;
    return read_variants(p);
}

Status specialized_parse(TextReader *in, const SavedSegment *segments, int n_segments, ClosedOver closed,
                         SpecializedCall **out) {
    Arena *const arena = arena_new();
    SpecializedCall *const p = arena ? ARENA_NEW(arena, SpecializedCall) : NULL;
    ProgramReader r = {.in = *in, .specialized = p, .closed = closed};
    if (p) {
        p->arena = arena;
        p->saved = true;
        p->guards = ARENA_NEW(arena, ReplayGuards);
    }
    if (!p || !p->guards) {
        arena_free(arena);
        return ST_MEMORY;
    }
    const Status status = read_program(&r, segments, n_segments);
    if (status == ST_OK) {
        *in = r.in;
        *out = p;
    } else {
        specialized_free(p);
    }
    return status;
}
