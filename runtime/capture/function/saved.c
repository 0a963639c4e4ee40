/* saved.c: see saved.h. */
#include "runtime/capture/function/saved.h"

#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/base/small_array.h"
#include "runtime/capture/function/saved_small.h"
#include "runtime/capture/replay/replay.h"
#include "runtime/capture/variant/variant_ops.h"
#include "runtime/core/frame.h"

enum { MAX_SPECIALIZED = 64, FEW_INPUTS = 16 };

/* Saving -------------------------------------------------------------------------------------- */

static Status refuse_as(Status status, const sn_function *fn, const char *why) {
    return error_raise(status, "function '%s' cannot be saved: %s", fn->name, why);
}
static Status refuse_function(const sn_function *fn, const char *why) { return refuse_as(ST_UNSUPPORTED, fn, why); }

/* Oldest first: how many. */
static int list_specialized(sn_function *fn, SpecializedCall **specialized) {
    SpecializedCall *p = atomic_load_explicit(&fn->specialized, memory_order_acquire);
    int n = 0;
    for (SpecializedCall *at = p; at && n < MAX_SPECIALIZED; at = *specialized_next(at)) n++;
    for (int i = n; i-- > 0; p = *specialized_next(p)) specialized[i] = p;
    return n;
}

static Status check_function(const sn_function *fn) {
    if (fn->saved) return refuse_function(fn, "it is of a file, which can be copied");
    if (fn->options.mode != SN_COMPILE_REPLAY)
        return refuse_function(fn, "compile it with mode SN_COMPILE_REPLAY: other modes run the body at each call and "
                                   "do not note what of it depends on the arguments");
    if (fn->not_saved) return refuse_function(fn, fn->not_saved);
    const FailureRow *const failure = fn->failures.n ? &fn->failures.at[0] : NULL;
    if (failure) return refuse_as(failure_status(failure, ST_UNSUPPORTED), fn, failure->text);
    if (!atomic_load(&fn->specialized))
        return refuse_function(fn, fn->background ? "no call has run the code that was made in the background: call it "
                                                    "once more"
                                                  : "no call of it has been compiled");
    return ST_OK;
}

static Status check_cases(const sn_function *fn, const SpecializedCall *p) {
    for (const Variant *v = atomic_load(&specialized_end(p)->variants); v; v = v->next) {
        const char *const why = case_refusal(v);
        if (why) return refuse_function(fn, why);
    }
    return ST_OK;
}

static Status check_specialized(const sn_function *fn, const SpecializedCall *p) {
    Text why = {0};
    Status status = ST_OK;
    if (specialized_refusal(p, &why)) status = refuse_function(fn, text_str(&why));
    text_free(&why);
    return status == ST_OK ? check_cases(fn, p) : status;
}

static bool is_listed(const SavedPlan *plan, const sn_tensor *t) {
    for (int i = 0; i < plan->closed.n; i++)
        if (plan->closed.at[i].tensor == t) return true;
    return false;
}

static Status list_closed(SavedPlan *plan, const SpecializedCall *p) {
    for (int i = 0; i < specialized_closed_over(p); i++) {
        sn_tensor *const t = specialized_closed_at(p, i);
        if (is_listed(plan, t)) continue;
        const SavedTensor saved = {
            .name = arena_printf(plan->arena, "closed%d", plan->closed.n), .meta = t->base.meta, .tensor = t};
        VEC_PUSH(plan->arena, &plan->closed, saved);
    }
    return error_pending();
}

void saved_prepare(sn_function *fn) {
    if (check_function(fn) == ST_OK)
        saved_small_learn(fn);
    else
        error_clear();
}

Status saved_collect(sn_function *fn, SavedPlan *plan) {
    SpecializedCall *specialized[MAX_SPECIALIZED];
    TRY(check_function(fn));
    plan->name = arena_strdup(plan->arena, fn->name);
    const int n = list_specialized(fn, specialized);
    for (int i = 0; i < n; i++) {
        TRY(check_specialized(fn, specialized[i]));
        TRY(list_closed(plan, specialized[i]));
    }
    return error_pending();
}

static Status print_cases(const SpecializedCall *p, ClosedOver closed, Text *text) {
    const CaseShape shape = specialized_shape(p);
    const Variant *const newest = atomic_load(&specialized_end(p)->variants);
    InputName few[FEW_INPUTS], *const names = SMALL_ARRAY(few, shape.n_inputs);
    int n = 0;
    Status status = names ? ST_OK : ST_MEMORY;
    if (names) specialized_input_names(p, closed, names);
    for (const Variant *v = newest; v; v = v->next) n++;
    text_printf(text, "segment inputs %d, numbers %d\n", shape.n_inputs, shape.n_numbers);
    while (n-- > 0 && status == ST_OK) { /* oldest first */
        const Variant *v = newest;
        for (int i = 0; i < n; i++) v = v->next;
        status = case_print(v, names, text);
    }
    small_array_free(few, names);
    return status;
}

/* The first one of the same ops. */
static int first_like(SpecializedCall *const *specialized, int i) {
    int k = 0;
    while (specialized_end(specialized[k]) != specialized_end(specialized[i])) k++;
    return k;
}

static Status print_all_specialized(SpecializedCall *const *specialized, int n, ClosedOver closed, Text *text) {
    int segments[MAX_SPECIALIZED], n_segments = 0;
    for (int i = 0; i < n; i++) {
        const int first = first_like(specialized, i);
        segments[i] = first < i ? segments[first] : n_segments++;
        if (first == i) TRY(print_cases(specialized[i], closed, text));
    }
    for (int i = 0; i < n; i++) specialized_print(specialized[i], segments[i], closed, text);
    return ST_OK;
}

/* Each once, of all variants. */
static Status print_extensions(const sn_function *fn, Text *text) {
    Text known = {0};
    for (int i = 0; i < fn->variants.n; i++) {
        const char *line = fn->variants.at[i]->info.extensions;
        if (fn->variants.at[i]->info.unversioned) {
            text_free(&known);
            return refuse_function(fn, "an extension without a version took part");
        }
        for (size_t n; *line; line += n + 1) {
            n = strcspn(line, "\n");
            char one[256];
            snprintf(one, sizeof one, "\n%.*s\n", (int)n, line);
            if (strstr(text_str(&known), one)) continue;
            text_puts(&known, one);
            text_printf(text, "extension %.*s\n", (int)n, line);
        }
    }
    text_free(&known);
    return error_pending();
}

static Status print_locked(sn_function *fn, const SavedPlan *plan, Text *text) {
    SpecializedCall *specialized[MAX_SPECIALIZED];
    const int n = list_specialized(fn, specialized);
    sn_tensor **const tensors = ARENA_ARRAY(plan->arena, sn_tensor *, plan->closed.n + 1);
    if (!tensors) return ST_MEMORY;
    text_printf(text, "plan %s\n", plan->name);
    for (int i = 0; i < plan->closed.n; i++) {
        const SavedTensor *const t = &plan->closed.at[i];
        tensors[i] = t->tensor;
        text_puts(text, "closed over ");
        meta_print(NULL, text, t->meta);
        text_printf(text, "%s: %s\n", t->embedded ? " embedded" : "", t->name);
    }
    TRY(print_extensions(fn, text));
    for (int i = 0; i < n; i++) {
        TRY(check_specialized(fn, specialized[i]));
        for (int k = 0; k < specialized_closed_over(specialized[i]); k++)
            if (!is_listed(plan, specialized_closed_at(specialized[i], k)))
                return error_raise(ST_STATE, "function '%s' is called while it is saved", fn->name);
    }
    TRY(print_all_specialized(specialized, n, (ClosedOver){tensors, plan->closed.n}, text));
    text_puts(text, "end\n");
    return error_pending();
}

Status saved_print(sn_function *fn, const SavedPlan *plan, Text *text) {
    pthread_mutex_lock(&fn->compiling);
    const Status status = print_locked(fn, plan, text);
    pthread_mutex_unlock(&fn->compiling);
    return status;
}

/* Calling ------------------------------------------------------------------------------------- */

/* Where a compiled function calls it: as a callee in mode EAGER. The frame holds its outputs. */
static sn_status run_saved(sn_frame *f) {
    f->outs_optional = true;
    const Status status = replay_run(f->closure, f->in, f->n_in, f->out, f->n_out, (ReplayResults){0});
    for (int i = 0; i < f->n_out; i++)
        if (status == ST_OK && f->out[i])
            tensor_retain(f->out[i]);
        else
            f->out[i] = NULL;
    return (sn_status)status;
}

/* Loading ------------------------------------------------------------------------------------- */

static Status read_line_rest(TextReader *in, Arena *arena, const char **out) {
    const size_t n = strcspn(in->at, "\n");
    if (!n) return reader_expected(in, "a name");
    *out = arena_printf(arena, "%.*s", (int)n, in->at);
    in->at += n;
    EAT(in, "\n");
    return *out ? ST_OK : ST_MEMORY;
}

/* Numbers only: it is compared with that of a tensor. */
static Status read_closed_over(SavedPlan *plan) {
    SavedTensor t = {0};
    Meta *meta;
    SymEnv *const none = sym_env_new(plan->arena);
    if (!none) return ST_MEMORY;
    TRY(meta_parse(plan->arena, none, plan->rest.at, &plan->rest.at, &meta));
    for (int d = 0; d < meta->rank; d++)
        if (sym_is(meta->sizes[d]) || sym_is(meta->strides[d]) || meta->sizes[d] < 0)
            return reader_expected(&plan->rest, "sizes before this");
    t.meta = meta;
    t.embedded = reader_eat(&plan->rest, " embedded");
    EAT(&plan->rest, ": ");
    TRY(read_line_rest(&plan->rest, plan->arena, &t.name));
    VEC_PUSH(plan->arena, &plan->closed, t);
    return error_pending();
}

static Status read_extension(SavedPlan *plan) {
    const char *line;
    TRY(read_line_rest(&plan->rest, plan->arena, &line));
    VEC_PUSH(plan->arena, &plan->extensions, line);
    return error_pending();
}

Status saved_parse_head(Arena *arena, const char *text, SavedPlan *plan) {
    *plan = (SavedPlan){.arena = arena, .rest = {.what = "saved plan", .start = text, .at = text}};
    EAT(&plan->rest, "plan ");
    TRY(read_line_rest(&plan->rest, arena, &plan->name));
    while (reader_eat(&plan->rest, "closed over ")) TRY(read_closed_over(plan));
    while (reader_eat(&plan->rest, "extension ")) TRY(read_extension(plan));
    return ST_OK;
}

static void publish_case(sn_function *fn, TrieNode *end, Variant *v) {
    v->id = fn->variants.n;
    v->end = end;
    v->next = atomic_load(&end->variants);
    atomic_store(&end->variants, v);
    VEC_PUSH(fn->arena, &fn->variants, v);
}

static Status read_segment(TextReader *in, sn_function *fn, SavedSegment *segment) {
    TRY(reader_count(in, &segment->shape.n_inputs));
    EAT(in, ", numbers ");
    TRY(reader_count(in, &segment->shape.n_numbers));
    EAT(in, "\n");
    if (segment->shape.n_inputs > MAX_SLOTS) return reader_expected(in, "fewer inputs before this");
    segment->end = ARENA_NEW(fn->arena, TrieNode);
    if (!segment->end) return ST_MEMORY;
    while (!strncmp(in->at, "case ", 5)) {
        Variant *v;
        CaseShape shape = segment->shape;
        shape.function = fn->name, shape.id = fn->variants.n;
        TRY(case_parse(in, shape, &v));
        publish_case(fn, segment->end, v);
        TRY(error_pending());
    }
    return ST_OK;
}

static Status read_function(SavedPlan *plan, ClosedOver closed, sn_function *fn) {
    SavedSegment segments[MAX_SPECIALIZED];
    TextReader *const in = &plan->rest;
    int n_segments = 0, n_programs = 0;
    while (reader_eat(in, "segment inputs ")) {
        if (n_segments == MAX_SPECIALIZED) return reader_expected(in, "fewer segments before this");
        TRY(read_segment(in, fn, &segments[n_segments++]));
    }
    while (!strncmp(in->at, "program ", 8)) {
        SpecializedCall *p;
        if (n_programs++ == MAX_SPECIALIZED) return reader_expected(in, "fewer programs before this");
        TRY(specialized_parse(in, segments, n_segments, closed, &p));
        const int n_results = specialized_result_count(p);
        fn->n_results = n_programs == 1 || fn->n_results == n_results ? n_results : -1;
        *specialized_next(p) = atomic_load(&fn->specialized);
        atomic_store(&fn->specialized, p);
    }
    EAT(in, "end\n");
    return *in->at || !n_programs ? reader_expected(in, "nothing behind the programs") : ST_OK;
}

Status saved_parse(SavedPlan *plan, sn_function **out) {
    const sn_compile_options options = {.size = sizeof options, .mode = SN_COMPILE_EAGER, .name = plan->name};
    sn_tensor **const tensors = ARENA_ARRAY(plan->arena, sn_tensor *, plan->closed.n + 1);
    sn_function *const fn = tensors ? function_new(run_saved, NULL, &options) : NULL;
    if (!fn) return ST_MEMORY;
    for (int i = 0; i < plan->closed.n; i++) tensors[i] = plan->closed.at[i].tensor;
    fn->closure = fn;
    fn->saved = true;
    const Status status = read_function(plan, (ClosedOver){tensors, plan->closed.n}, fn);
    if (status == ST_OK)
        *out = fn;
    else
        function_free(fn);
    return status;
}

Status saved_run_by_ops(sn_function *fn) {
    for (int i = 0; i < fn->variants.n; i++) TRY(variant_run_by_ops(fn->variants.at[i]));
    return ST_OK;
}
