/* training_launch.c: one launch of a trained segment: the forward runs, what the backward reads is
 * saved, and one tape node stands for all of eager's.
 *
 * Of eager's nodes it knows what can be seen from outside: which of them a backward runs, which held
 * values the caller has written meanwhile (the version error, in the name of eager's node), and which
 * nodes have given up what they held to a backward without retain [semantics G3]. */
#include "runtime/capture/training/training_parts.h"
#include "runtime/autograd/region.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/capture/variant/variant.h"

#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"

static void free_saved(TrainingLaunch *l) {
    for (int i = 0; i < l->n_saved; i++) tensor_release(l->saved[i].tensor);
    for (int i = 0; i < l->n_checked_memory; i++) tensor_release(l->checked_memory[i].tensor);
    l->n_saved = l->n_checked_memory = 0;
}

/* But what is kept (find_kept). */
static void free_others(TapeSaved *saved, const bool *kept, int n) {
    for (int i = 0; i < n; i++) {
        if (kept[i]) continue;
        tensor_release(saved[i].tensor);
        saved[i].tensor = NULL;
    }
}

static void free_unkept(TrainingLaunch *l) {
    free_others(l->saved, l->kept, l->n_saved);
    free_others(l->checked_memory, l->kept + l->n_saved, l->n_checked_memory);
}

static void launch_release(void *context) {
    TrainingLaunch *const l = context;
    free_saved(l);
    variant_free(l->variant);
    mem_free(l);
}

static const TapeSaved *launch_saved(void *context, int *n) {
    const TrainingLaunch *const l = context;
    *n = l->n_saved;
    return l->saved;
}

/* Checks -------------------------------------------------------------------------------------- */

static Status step_used_twice(const TapeRecord *step) {
    Text name = {0};
    tape_row_name(step->node->row, &name);
    const Status status = tape_used_twice(text_str(&name));
    text_free(&name);
    return status;
}

/* How an error names who holds the value: eager's node, or the region that read it. */
static void saver_name(const TapeRecord *step, const TapeSavedValue *tape_saved, const Node *reader, Text *name) {
    if (!reader)
        tape_row_name(step->node->row, name);
    else
        region_print_name(name, reader == tape_saved->value->def ? NULL : reader->row, reader->site);
}

static Status check_version(const TrainingLaunch *l, const TapeRecord *step, int save) {
    const TapeTable *const p = &l->training->tape;
    const TapeSavedValue *const tape_saved = &p->tape_saved.at[p->step_saves.at[save]];
    const int check = version_check_at(p, save);
    if (check < 0) return ST_OK;
    const TapeSaved *const checked_memory = &l->checked_memory[check];
    const uint32_t now = tensor_version(checked_memory->tensor);
    if (now == checked_memory->version) return ST_OK;
    const Meta *const meta = training_meta(p->functional->env, tape_saved->meta, l->symbols);
    if (!meta) return error_pending();
    Text name = {0};
    saver_name(step, tape_saved, p->readers.at[save], &name);
    const Status status = tape_saved_error(meta, text_str(&name), now, checked_memory->version);
    text_free(&name);
    return status;
}

/* As eager's engine meets them: the newest first; those before an error have run. */
static Status check_steps(TrainingLaunch *l, const BackwardSpecialization *c, bool retain) {
    const TapeTable *const p = &l->training->tape;
    for (int s = p->steps.n - 1; s >= 0; s--) {
        const TapeRecord *const step = &p->steps.at[s];
        if (!c->ran[s] || !step->n_saves) continue;
        if (l->used[s]) return step_used_twice(step);
        for (int i = 0; i < step->n_saves; i++) TRY(check_version(l, step, step->first_save + i));
        if (!retain) l->used[s] = true;
    }
    return ST_OK;
}

static bool all_used(const TrainingLaunch *l) {
    const TapeTable *const p = &l->training->tape;
    for (int s = 0; s < p->steps.n; s++)
        if (p->steps.at[s].n_saves && !l->used[s]) return false;
    return true;
}

/* What steps that have not run yet hold, or look at: as eager's nodes keep what they hold until they have run. */
static Status find_kept(TrainingLaunch *l) {
    const Training *const t = l->training;
    memset(l->kept, 0, (size_t)(l->n_saved + l->n_checked_memory));
    if (all_used(l)) return ST_OK;
    bool *const needed = training_needed(t, NULL, l->used);
    if (!needed) return ST_MEMORY;
    for (int i = 0; i < l->n_saved; i++) l->kept[i] = needed[t->partition->restore->inputs.at[i]->id];
    mem_free(needed);
    for (int s = 0; s < t->tape.steps.n; s++) {
        const TapeRecord *const step = &t->tape.steps.at[s];
        for (int i = 0; !l->used[s] && i < step->n_saves; i++) {
            const int check = t->tape.tape_saved.at[t->tape.step_saves.at[step->first_save + i]].check;
            if (check >= 0) l->kept[l->n_saved + check] = true;
        }
    }
    return ST_OK;
}

/* Behind find_kept. */
static void free_used(TrainingLaunch *l) {
    if (all_used(l))
        free_saved(l);
    else
        free_unkept(l);
}

/* Backward ------------------------------------------------------------------------------------ */

enum { FEW_TENSORS = 64 };

/* Gradients and sums are laid out as the code wants them: that is of its signature. */
static void gather(const TrainingLaunch *l, const BackwardSpecialization *c, const TapeBackward *call, sn_tensor **to) {
    const Training *const t = l->training;
    int n = 0;
    for (int i = 0; i < c->n_saved; i++) to[n++] = l->saved[c->saved ? c->saved[i] : i].tensor;
    for (int i = 0; i < t->n_inputs; i++)
        if (c->partial[i]) to[n++] = call->partial[i];
    for (int i = 0; i < t->n_user; i++)
        if (c->defined[i]) to[n++] = call->grad_out[i];
}

/* What no later backward reads goes with the last step that reads it; what none reads, at once. */
static void hand_over(TrainingLaunch *l, const BackwardSpecialization *c, sn_tensor **owned, int n) {
    for (int i = 0; i < n; i++) {
        const int from = i >= c->n_saved ? -1 : c->saved ? c->saved[i] : i;
        owned[i] = NULL;
        if (from < 0 || l->kept[from]) continue;
        owned[i] = l->saved[from].tensor;
        l->saved[from].tensor = NULL;
    }
    free_unkept(l);
}

/* A specialization's inputs, room for what it may let go of, and its results. */
static Status run_case(TrainingLaunch *l, const BackwardSpecialization *c, TapeBackward *call, sn_tensor **inputs,
                       sn_tensor **owned, sn_tensor **outs) {
    const Training *const t = l->training;
    if (!inputs || !owned || !outs) return ST_MEMORY;
    gather(l, c, call, inputs);
    const bool lets_go = !call->retain && !executable_is_foreign(c->run);
    if (lets_go) hand_over(l, c, owned, c->n_saved + t->n_inputs + t->n_user);
    TRY(lets_go ? execute_last(c->run, inputs, owned, l->symbols, l->floats, outs)
                : execute(c->run, inputs, l->symbols, l->floats, outs));
    for (int i = 0, k = 0; i < t->n_inputs; i++)
        if (c->needs[i]) call->grad_in[i] = outs[k++];
    return ST_OK;
}

static Status run_compiled(TrainingLaunch *l, const BackwardSpecialization *c, TapeBackward *call) {
    const Training *const t = l->training;
    const int n = c->n_saved + t->n_inputs + t->n_user;
    sn_tensor *few_in[FEW_TENSORS], *few_owned[FEW_TENSORS], *few_out[FEW_TENSORS];
    sn_tensor **const inputs = SMALL_ARRAY(few_in, n), **const owned = SMALL_ARRAY(few_owned, n);
    sn_tensor **const outs = SMALL_ARRAY(few_out, t->n_inputs);
    SMALL_ARRAY_OWNER in = {few_in, inputs}, own = {few_owned, owned}, out = {few_out, outs};
    return run_case(l, c, call, inputs, owned, outs);
}

/* An earlier backward through other results may have let go of what only its steps hold, and this one's code might
 * read in the place of an equal value. */
static bool has_what_it_reads(const TrainingLaunch *l, const BackwardSpecialization *c) {
    for (int i = 0; i < c->n_saved; i++)
        if (!l->saved[c->saved ? c->saved[i] : i].tensor) return false;
    return true;
}

/* What a backend of the program's fails to compute, which it has noted, eager's nodes do. */
static Status run_or_expand(TrainingLaunch *l, const BackwardSpecialization *c, TapeBackward *call) {
    if (!specialization_code(c) || !has_what_it_reads(l, c)) return training_expand(l, c, call);
    const Status status = run_compiled(l, c, call);
    if (status == ST_OK) training_record_call(c);
    if (status == ST_OK || !executable_is_foreign(specialization_code(c))) return status;
    error_clear();
    return training_expand(l, c, call);
}

static Status launch_backward(void *context, TapeBackward *call) {
    TrainingLaunch *const l = context;
    const BackwardSpecialization *const c = training_specialization(l->variant, l->training, l->symbols, call);
    if (!c) return error_pending();
    TRY(check_steps(l, c, call->retain));
    if (!call->retain) TRY(find_kept(l));
    TRY(run_or_expand(l, c, call));
    if (!call->retain) free_used(l);
    return ST_OK;
}

static const TapeCompiled compiled_class = {.name = "Compiled",
                                            .backward = launch_backward,
                                            .release = launch_release,
                                            .saved = launch_saved,
                                            .expand = training_become,
                                            .frees = true};

/* Forward ------------------------------------------------------------------------------------- */

static TrainingLaunch *launch_new(Variant *v, Training *t, const int64_t *symbols, const double *floats) {
    const size_t n_saved = (size_t)(t->n_saved + t->tape.checks.n),
                 n_ints = (size_t)(v->symbols.n_bindings + t->n_floats);
    TrainingLaunch *const l =
        mem_zero(sizeof *l + n_saved * (sizeof(TapeSaved) + 1) + n_ints * sizeof(int64_t) + (size_t)t->tape.steps.n);
    if (!l) return NULL;
    l->saved = (TapeSaved *)(l + 1);
    l->checked_memory = l->saved + t->n_saved;
    l->symbols = (int64_t *)(l->checked_memory + t->tape.checks.n);
    l->floats = (double *)(l->symbols + v->symbols.n_bindings);
    l->used = (bool *)(l->floats + t->n_floats);
    l->kept = l->used + t->tape.steps.n;
    memcpy(l->symbols, symbols, sizeof *symbols * (size_t)v->symbols.n_bindings);
    if (t->n_floats) memcpy(l->floats, floats, sizeof *floats * (size_t)t->n_floats);
    variant_retain(v);
    l->variant = v;
    l->training = t;
    return l;
}

/* Versions of results are checked by handles of their own: a node must not hold what holds it. */
static Status note_versions(TrainingLaunch *l, sn_tensor *const *inputs, sn_tensor *const *outs) {
    const Training *const t = l->training;
    for (; l->n_checked_memory < t->tape.checks.n; l->n_checked_memory++) {
        const VersionCheck *const w = &t->tape.checks.at[l->n_checked_memory];
        TapeSaved *const to = &l->checked_memory[l->n_checked_memory];
        if (!w->output) {
            TRY(tape_save(to, inputs[w->index]));
            continue;
        }
        *to = (TapeSaved){.tensor = tensor_alias(outs[w->index]), .version = tensor_version(outs[w->index])};
        if (!to->tensor) return error_pending();
    }
    return ST_OK;
}

static Status save_values(TrainingLaunch *l, sn_tensor *const *inputs, sn_tensor *const *outs) {
    const Training *const t = l->training;
    for (int i = 0, extra = t->n_forward; i < t->n_saved; i++, l->n_saved++) {
        const int from = t->partition->saved_inputs[i];
        TRY(tape_save(&l->saved[i], from >= 0 ? inputs[from] : outs[extra++]));
    }
    return note_versions(l, inputs, outs);
}

/* tracked: the results that carry gradients; NULL: one does not. */
static Status add_node(TrainingLaunch *l, sn_tensor **tracked, sn_tensor *const *inputs) {
    const Training *const t = l->training;
    sn_state *const state = state_get();
    l->sequence = state->tape.sequence;
    state->tape.sequence += (uint64_t)t->tape.n_recorded;
    /* whether gradients flow is in the graph, not in the mode at the segment's end */
    const ContextSaved saved = context_enter(state, CONTEXT_recorded);
    const Status status = tape_add_compiled(tracked, t->n_user, inputs, t->n_inputs, &compiled_class, l);
    context_leave(&saved);
    return status;
}

/* all: what the forward makes, user outputs first; tracked: room for the user's. */
static Status run_forward(Variant *v, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                          sn_tensor **outs, sn_tensor **all, sn_tensor **tracked) {
    const Training *const t = v->training;
    if (!all || !tracked) return ST_MEMORY;
    TRY(execute(v->code.run, inputs, symbols, floats, all));
    variant_count_writes(v, inputs, all);
    TrainingLaunch *const l = launch_new(v, v->training, symbols, floats);
    if (!l) return error_pending();
    const Status saved = save_values(l, inputs, all);
    if (saved != ST_OK) {
        launch_release(l);
        return saved;
    }
    for (int i = 0; i < t->n_user; i++) {
        outs[i] = all[i];
        tracked[i] = t->out_tracked[i] ? all[i] : NULL;
    }
    return add_node(l, tracked, inputs);
}

/* What it makes is saved for the backward: none of it goes into memory that the caller may write. */
Status training_run(Variant *v, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                    Storage *const *given, sn_tensor **outs) {
    (void)given;
    const Training *const t = v->training;
    sn_tensor *few_all[FEW_TENSORS], *few_tracked[FEW_TENSORS];
    sn_tensor **const all = SMALL_ARRAY(few_all, t->n_forward + t->n_saved);
    sn_tensor **const tracked = SMALL_ARRAY(few_tracked, t->n_user);
    SMALL_ARRAY_OWNER every = {few_all, all}, those = {few_tracked, tracked};
    return run_forward(v, inputs, symbols, floats, outs, all, tracked);
}

static Status attach_history(Variant *v, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                             sn_tensor *const *outs) {
    Training *const t = v->history;
    sn_tensor *few[FEW_TENSORS];
    sn_tensor **const tracked = SMALL_ARRAY(few, t->n_user);
    TrainingLaunch *const l = tracked ? launch_new(v, t, symbols, floats) : NULL;
    for (int s = 0; l && s < t->tape.steps.n; s++) l->used[s] = t->tape.steps.at[s].n_saves > 0;
    for (int i = 0; l && i < t->n_user; i++) tracked[i] = t->out_tracked[i] ? outs[i] : NULL;
    const Status status = l ? add_node(l, tracked, inputs) : ST_MEMORY;
    small_array_free(few, tracked);
    return status;
}

Status training_run_with_history(Variant *v, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                                 Storage *const *given, sn_tensor **outs) {
    (void)given;
    TRY(variant_plain_run(v, inputs, symbols, floats, NULL, outs));
    return attach_history(v, inputs, symbols, floats, outs);
}

/* A second launch ----------------------------------------------------------------------------- */

/* The first launch's handle of the same memory, with the version that it had then; where it has let go of that, the
 * second one's handle has it, of an input. */
static void adopt_version(TapeSaved *to, const TapeSaved *from, const VersionCheck *check) {
    if (!from->tensor) {
        if (!check->output) to->version = from->version;
        return;
    }
    tensor_release(to->tensor);
    *to = *from;
    tensor_retain(to->tensor);
}

static void adopt_versions(TrainingLaunch *l, const TrainingLaunch *old) {
    const Variant *const v = l->variant, *const before = old->variant;
    for (int w = 0; w < l->n_checked_memory; w++) {
        const VersionCheck *const to = &v->training->tape.checks.at[w];
        const int index = to->output ? variant_output_of(before, v->outputs[to->index]) : to->index;
        for (int k = 0; index >= 0 && k < old->n_checked_memory; k++) {
            const VersionCheck *const from = &before->training->tape.checks.at[k];
            if (from->output == to->output && from->index == index)
                adopt_version(&l->checked_memory[w], &old->checked_memory[k], to);
        }
    }
}

/* The first launch has no steps for what none of its results comes from. */
static void adopt_used(TrainingLaunch *l, const TrainingLaunch *old) {
    const TapeTable *const p = &l->training->tape, *const before = &old->training->tape;
    for (int s = 0, from = 0; s < p->steps.n; s++) {
        while (from < before->steps.n && before->steps.at[from].number < p->steps.at[s].number) from++;
        const bool both = from < before->steps.n && before->steps.at[from].number == p->steps.at[s].number;
        l->used[s] = both && old->used[from];
    }
}

Status training_replace(TapeNode *was, const Variant *before, TapeNode *node, const Variant *variant) {
    const TrainingLaunch *const old = tape_compiled_context(was);
    TrainingLaunch *const l = tape_compiled_context(node);
    TapeEdge *const now = mem_zero((size_t)was->n_outs * sizeof *now);
    if (!now) return ST_MEMORY;
    adopt_versions(l, old);
    adopt_used(l, old);
    const Status kept = find_kept(l);
    if (kept != ST_OK) return mem_free(now), kept;
    free_used(l);
    node->sequence = was->sequence; /* what was recorded since then comes behind it */
    for (int i = 0; i < before->n_outputs; i++) {
        if (!before->training->out_tracked[i]) continue;
        now[i] = (TapeEdge){.target = node, .output = variant_output_of(variant, before->outputs[i])};
        tape_node_retain(node);
    }
    const Status status = tape_node_expand(was, now);
    mem_free(now);
    return status;
}
