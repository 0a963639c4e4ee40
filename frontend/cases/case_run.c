/* case_run.c: one case: the eager call against the file, then the same call inside a compiled function against the
 * eager bits. The compiled function runs twice: the first call records, the second is what counts. */
#include <math.h>

#include "frontend/cases/cases.h"
#include "ir/op_ids.h"
#include "runtime/base/error.h"
#include "runtime/core/tensor.h"

enum { MAX_CASE_OUTS = 64 };
typedef struct Outcome {
    sn_tensor *outs[MAX_CASE_OUTS];
    sn_value values[MAX_CASE_OUTS]; /* of eager's call: what is no tensor stands here */
    int n_outs;
    sn_tensor *grads[MAX_CASE_INPUTS];  /* of inputs that require one, in order */
    sn_tensor *second[MAX_CASE_INPUTS]; /* gradients of these, where the case has such */
    int n_grads, n_second;
    CaseCall call;
} Outcome;

typedef struct CaseRun {
    Arena *arena;
    const SafeFile *file;
    const Json *spec;
    const char *op, *path;
    const Outcome *exact; /* of the call in f64, or NULL */
    const Outcome *terms; /* of the call on magnitudes, of a sum of products; or NULL */
    const CaseOptions *options;
    CaseDiffs diffs; /* of the part that is compared */
    Text why;
} CaseRun;

static bool flag(const Json *spec, const char *key) {
    const Json *value = json_get(spec, key);
    return value && value->i;
}

static Status prepare_case(CaseRun *run, Outcome *outcome, CaseFloats floats) {
    memset(outcome, 0, sizeof *outcome);
    CaseCall *call = &outcome->call;
    call->floats = floats;
    call->arena = run->arena;
    call->file = run->file;
    call->op = sn_op_find(run->op);
    call->row = op_find(run->op, strlen(run->op), &call->form);
    sn_seed(0);
    return case_call_make(call, run->spec);
}

static bool spec_is_tensor(const Json *spec) { return json_get(spec, "t") != NULL; }

/* Gradients of the first ones. One that depends on no input is no root. */
static Status run_second(CaseRun *run, Outcome *outcome, const Json *second, sn_tensors leaves) {
    const Json *of = json_get(second, "of"), *incoming = json_get(second, "with");
    sn_tensor *roots[MAX_CASE_INPUTS], *with[MAX_CASE_INPUTS];
    int n = 0;
    for (int i = 0; of && incoming && i < of->n && i < incoming->n; i++) {
        const int64_t at = of->items[i].i;
        sn_tensor *const root = at >= 0 && at < outcome->n_grads ? outcome->grads[at] : NULL;
        if (!root || !sn_requires_grad(root)) continue;
        roots[n] = root;
        with[n++] = case_tensor(run->file, &incoming->items[i], outcome->call.floats);
    }
    outcome->n_second = leaves.n;
    if (!n) return ST_OK;
    return (Status)sn_gradients((sn_tensors){roots, n}, leaves, (sn_tensors){with, n}, SN_ALLOW_UNUSED,
                                outcome->second);
}

/* Gradients of the listed outputs with the file's incoming gradients. */
static Status run_backward(CaseRun *run, Outcome *outcome) {
    const Json *grad = json_get(run->spec, "grad"), *outputs = json_get(grad, "outputs"),
               *incoming = json_get(grad, "grad_outputs");
    sn_tensor *roots[MAX_CASE_OUTS], *with[MAX_CASE_OUTS], *leaves[MAX_CASE_INPUTS];
    int n_roots = 0;
    if (!outputs || !incoming || outputs->n != incoming->n || outputs->n > MAX_CASE_OUTS)
        return error_raise(ST_PARSE, "the case's gradients are incomplete");
    for (int i = 0; i < outputs->n; i++) {
        const int64_t at = outputs->items[i].i;
        if (at < 0 || at >= outcome->n_outs) return error_raise(ST_PARSE, "the case's gradients are of no output");
        roots[n_roots] = outcome->outs[at];
        with[n_roots++] = case_tensor(run->file, &incoming->items[i], outcome->call.floats);
    }
    for (int i = 0; i < outcome->call.n_inputs; i++)
        if (flag(outcome->call.inputs[i].spec, "requires_grad"))
            leaves[outcome->n_grads++] = outcome->call.inputs[i].tensor;
    const Json *const second = json_get(grad, "second");
    TRY((Status)sn_gradients((sn_tensors){roots, n_roots}, (sn_tensors){leaves, outcome->n_grads},
                             (sn_tensors){with, n_roots}, second ? SN_ALLOW_UNUSED | SN_CREATE_GRAPH : SN_ALLOW_UNUSED,
                             outcome->grads));
    return second ? run_second(run, outcome, second, (sn_tensors){leaves, outcome->n_grads}) : ST_OK;
}

/* "autocast": "bf16": calls are made in such a region, backwards outside of it. */
static void begin_region(const CaseRun *run) {
    const char *const name = json_string(json_get(run->spec, "autocast"));
    const DType dtype = name ? dtype_find(name, strlen(name)) : DT_default;
    if (name) sn_autocast_set(SN_CPU, dtype == DT_default ? SN_I64 : (sn_dtype)dtype); /* else an error names it */
}

static void end_region(const CaseRun *run) {
    if (json_get(run->spec, "autocast")) sn_autocast_set(SN_CPU, SN_F32);
}

static Status call_eagerly(const CaseRun *run, const CaseCall *call, sn_value *values, int *n) {
    begin_region(run);
    const sn_status status = sn_op_call(call->op, call->args, call->n_args, values, n);
    end_region(run);
    return (Status)status;
}

static Status adopt_outs(Outcome *outcome, const sn_value *values, int n) {
    for (int i = 0; i < n; i++) {
        outcome->outs[i] = values[i].kind == SN_KIND_TENSOR ? values[i].tensor : NULL;
        outcome->values[i] = values[i];
    }
    outcome->n_outs = n;
    return ST_OK;
}

static Status run_eager(CaseRun *run, Outcome *outcome, CaseFloats floats) {
    sn_value values[MAX_CASE_OUTS];
    int n = MAX_CASE_OUTS;
    TRY(prepare_case(run, outcome, floats));
    sn_grad_mode_set(json_get(run->spec, "grad") ? SN_GRAD_ON : SN_GRAD_OFF);
    TRY(call_eagerly(run, &outcome->call, values, &n));
    TRY(adopt_outs(outcome, values, n));
    return json_get(run->spec, "grad") ? run_backward(run, outcome) : ST_OK;
}

/* checks against the file --------------------------------------------------------------------- */

static bool shares_input(const Outcome *outcome, const sn_tensor *t) {
    for (int i = 0; i < outcome->call.n_inputs; i++)
        if (outcome->call.inputs[i].tensor->storage == t->storage) return true;
    return false;
}

static bool check_alias(CaseRun *run, const Outcome *outcome, int i, const Json *spec) {
    const Json *alias = json_get(spec, "alias_of_tensor_input");
    const sn_tensor *t = outcome->outs[i];
    if (!sn_numel(outcome->outs[i]) || !t->storage) return true;
    if (!alias) {
        if (!shares_input(outcome, t)) return true;
        text_printf(&run->why, "output %d shares an input's memory", i);
        return false;
    }
    const bool shares = alias->i >= 0 && alias->i < outcome->call.n_inputs &&
                        outcome->call.inputs[alias->i].tensor->storage == t->storage;
    if (!shares) text_printf(&run->why, "output %d does not share input %lld's memory", i, (long long)alias->i);
    return shares;
}

/* A number of the same kind; null: there is no output. */
static bool check_number(CaseRun *run, const Outcome *outcome, int i, const Json *spec) {
    const sn_value *const got = &outcome->values[i];
    sn_value want;
    bool same = spec->kind == JSON_null && !outcome->outs[i] && got->kind != SN_KIND_INT && got->kind != SN_KIND_FLOAT;
    if (spec->kind != JSON_null && case_number(spec, &want) == ST_OK && got->kind == want.kind)
        same = want.kind == SN_KIND_FLOAT ? got->f == want.f || (isnan(got->f) && isnan(want.f)) : got->i == want.i;
    if (!same) text_printf(&run->why, "output %d is no tensor, and another", i);
    return same;
}

/* The tolerance of a comparison that looks at all elements, where the options ask for it. */
static CaseTolerance counted(CaseRun *run, CaseTolerance tolerance) {
    if (!run->options->edges) return tolerance;
    tolerance.diffs = &run->diffs;
    return tolerance;
}

static bool check_out(CaseRun *run, const Outcome *outcome, int i, const Json *spec) {
    if (!spec_is_tensor(spec)) return check_number(run, outcome, i, spec);
    if (flag(run->spec, "random") || flag(spec, "alike"))
        return case_alike(outcome->outs[i], spec, &run->why) && case_laid_out(outcome->outs[i], spec, &run->why);
    CaseTolerance tolerance = counted(run, case_tolerance(spec, run->exact ? run->exact->outs[i] : NULL));
    tolerance.terms = run->terms ? run->terms->outs[i] : NULL;
    return case_close(run->file, outcome->outs[i], spec, &tolerance, &run->why) &&
           case_laid_out(outcome->outs[i], spec, &run->why) && check_alias(run, outcome, i, spec);
}

static bool check_mutated(CaseRun *run, const Outcome *outcome) {
    const Json *mutated = json_get(run->spec, "mutated");
    for (int i = 0; mutated && !flag(run->spec, "random") && i < mutated->n; i++) {
        const Json *spec = &mutated->items[i], *input = json_get(spec, "tensor_input");
        if (!input || input->i < 0 || input->i >= outcome->call.n_inputs)
            return text_puts(&run->why, "bad tensor_input"), false;
        const CaseTolerance tolerance =
            counted(run, case_tolerance_of_dtype(spec, run->exact ? run->exact->call.inputs[input->i].tensor : NULL));
        sn_tensor *got = outcome->call.inputs[input->i].tensor;
        if (case_close(run->file, got, spec, &tolerance, &run->why)) continue;
        text_printf(&run->why, " (input %lld after the call)", (long long)input->i);
        return false;
    }
    return true;
}

static bool is_zero(sn_tensor *t) { return sn_item(sn_any(t)) == 0; }

/* A gradient lies in memory as PyTorch's, where its result does: not where that is a choice of PyTorch's backends. The
 * sweep of the edges counts those that do not. */
static bool check_grad_layout(CaseRun *run, sn_tensor *got, const Json *spec) {
    const Json *const outs = json_get(run->spec, "out");
    const bool any = outs && outs->n && spec_is_tensor(&outs->items[0]) && flag(&outs->items[0], "any_layout");
    Text why = {0};
    const bool same = case_laid_out(got, spec, &why);
    const bool counts = !same && run->options->edges, fails = !same && !counts && !any;
    run->diffs.strides += counts;
    if (counts || fails) text_printf(&run->why, "%s ", text_str(&why));
    text_free(&why);
    return !fails;
}

/* None stands for zeros: which of both there is depends on how a rule is written. The sweep of the edges counts it, and
 * takes none for recorded zeros, too. */
static bool check_grad(CaseRun *run, sn_tensor *got, sn_tensor *exact, const Json *spec) {
    const bool recorded = spec_is_tensor(spec);
    if (!recorded && got && !is_zero(got))
        return text_puts(&run->why, "there is one that is not zeros, though none is recorded"), false;
    if (!recorded || (!got && run->options->edges && case_zeros(run->file, spec))) {
        run->diffs.none += recorded || got;
        return true;
    }
    const CaseTolerance tolerance = counted(run, case_tolerance_of_dtype(spec, exact));
    return case_close(run->file, got, spec, &tolerance, &run->why) && check_grad_layout(run, got, spec);
}

static bool check_grads(CaseRun *run, const Outcome *outcome) {
    const Json *grads = json_get(json_get(run->spec, "grad"), "grads");
    bool same = true;
    for (int i = 0; grads && i < grads->n && (same || run->options->edges); i++) {
        if (i >= outcome->n_grads) return text_puts(&run->why, "gradients are missing"), false;
        if (check_grad(run, outcome->grads[i], run->exact ? run->exact->grads[i] : NULL, &grads->items[i])) continue;
        text_printf(&run->why, " (gradient %d) ", i);
        same = false;
    }
    return same;
}

static bool check_second(CaseRun *run, const Outcome *outcome) {
    const Json *grads = json_get(json_get(json_get(run->spec, "grad"), "second"), "grads");
    bool same = true;
    for (int i = 0; grads && i < grads->n && i < outcome->n_second; i++) {
        if (check_grad(run, outcome->second[i], run->exact ? run->exact->second[i] : NULL, &grads->items[i])) continue;
        text_printf(&run->why, " (second gradient %d) ", i);
        same = false;
    }
    return same;
}

static bool check_outs(CaseRun *run, const Outcome *outcome) {
    const Json *outs = json_get(run->spec, "out");
    if (!outs || outs->n != outcome->n_outs)
        return text_printf(&run->why, "%d outputs, not %d", outcome->n_outs, outs ? outs->n : 0), false;
    bool same = true;
    for (int i = 0; i < outs->n && (same || run->options->edges); i++)
        same = check_out(run, outcome, i, &outs->items[i]) && same;
    return same;
}

static bool check_outcome(CaseRun *run, const Outcome *outcome) {
    return check_outs(run, outcome) && check_mutated(run, outcome) && check_grads(run, outcome);
}

static const Outcome *run_other(CaseRun *run, const Outcome *outcome, CaseFloats floats) {
    Outcome *other = ARENA_NEW(run->arena, Outcome);
    if (!other || error_pending() != ST_OK) return NULL;
    const bool ran = run_eager(run, other, floats) == ST_OK && other->n_outs == outcome->n_outs;
    sn_error_take();
    return ran ? other : NULL;
}

/* Rows whose elements are sums of products of two inputs, and perhaps of a third, and nothing else. */
static bool is_product(const OpRow *row) {
    static const OpId products[] = {OP_mm,
                                    OP_bmm,
                                    OP_mv,
                                    OP_dot,
                                    OP_matmul,
                                    OP_conv1d,
                                    OP_conv2d,
                                    OP_conv3d,
                                    OP_conv_transpose1d,
                                    OP_conv_transpose2d_input,
                                    OP_conv_transpose3d_input,
                                    OP_convolution};
    for (int i = 0; i < COUNT_OF(products); i++)
        if (row->id == products[i]) return true;
    return false;
}

/* Again, with the call's result in f64 at hand. */
static bool check_with_exact(CaseRun *run, const Outcome *outcome) {
    run->exact = run_other(run, outcome, FLOATS_wide);
    if (!run->exact) return false;
    if (is_product(outcome->call.row)) run->terms = run_other(run, outcome, FLOATS_magnitudes);
    Text first = run->why;
    run->why = (Text){0};
    const bool right = check_outcome(run, outcome);
    run->exact = run->terms = NULL;
    text_free(&run->why);
    run->why = first;
    return right;
}

/* compiled ------------------------------------------------------------------------------------ */

/* The function under test: the case's call on the frame's inputs. */
static sn_status body(sn_frame *f) {
    Outcome *outcome = sn_closure(f);
    const CaseCall *call = &outcome->call;
    sn_value args[MAX_ARGS + MAX_OUTS], values[MAX_CASE_OUTS];
    sn_tensor *tensors[MAX_CASE_INPUTS], *lists[MAX_CASE_INPUTS];
    int n = MAX_CASE_OUTS;
    for (int i = 0; i < sn_in_count(f); i++) tensors[i] = sn_in(f, i);
    case_args_with(call, tensors, args, lists);
    const sn_status status = sn_op_call(call->op, args, call->n_args, values, &n);
    if (status != SN_OK) return status;
    for (int i = 0; i < n; i++)
        if (values[i].kind == SN_KIND_TENSOR && sn_out(f, i, values[i].tensor) != SN_OK) return sn_check();
    return SN_OK;
}

static Status call_compiled(CaseRun *run, sn_function *fn, Outcome *outcome, int n_outs) {
    sn_tensor *inputs[MAX_CASE_INPUTS];
    sn_grad_mode_set(json_get(run->spec, "grad") ? SN_GRAD_ON : SN_GRAD_OFF);
    begin_region(run);
    const sn_status status = sn_call(fn, inputs, case_inputs(&outcome->call, inputs), outcome->outs, n_outs);
    end_region(run);
    if (status != SN_OK) return (Status)status;
    outcome->n_outs = n_outs;
    return json_get(run->spec, "grad") ? run_backward(run, outcome) : ST_OK;
}

static bool same_outcome(CaseRun *run, const Outcome *eager, const Outcome *compiled) {
    const bool unset = flag(run->spec, "random") && !(eager->call.row->flags & OPF_random); /* empty and its kind */
    for (int i = 0; !unset && i < eager->n_outs; i++)
        if (!case_same_bits(eager->outs[i], compiled->outs[i], &run->why))
            return text_printf(&run->why, " (compiled output %d)", i), false;
    for (int i = 0; i < eager->call.n_inputs; i++)
        if (!case_same_bits(eager->call.inputs[i].tensor, compiled->call.inputs[i].tensor, &run->why))
            return text_printf(&run->why, " (compiled, input %d after the call)", i), false;
    for (int i = 0; i < eager->n_grads; i++)
        if (!case_same_bits(eager->grads[i], compiled->grads[i], &run->why))
            return text_printf(&run->why, " (compiled gradient %d)", i), false;
    for (int i = 0; i < eager->n_second; i++)
        if (!case_same_bits(eager->second[i], compiled->second[i], &run->why))
            return text_printf(&run->why, " (compiled second gradient %d)", i), false;
    return true;
}

static bool compiled_agrees(CaseRun *run, const Outcome *eager, CaseCounts *counts) {
    Outcome *outcome = ARENA_NEW(run->arena, Outcome);
    if (!outcome) return text_puts(&run->why, "out of memory"), false;
    sn_function *fn = sn_compile(body, outcome, NULL);
    bool same = fn != NULL;
    sn_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    for (int i = 0; same && i < 2; i++) {
        same = prepare_case(run, outcome, FLOATS_recorded) == ST_OK &&
               call_compiled(run, fn, outcome, eager->n_outs) == ST_OK;
        if (same) sn_function_stats(fn, i ? &after : &before);
        same = same && same_outcome(run, eager, outcome);
    }
    if (error_pending() != ST_OK) text_printf(&run->why, "compiled: %s", sn_error_take()->message);
    if (same) {
        counts->ops_generated += after.ops_generated - before.ops_generated;
        counts->ops_interpreted += after.ops_interpreted - before.ops_interpreted;
        counts->ops_eager += after.ops_eager - before.ops_eager;
    }
    sn_function_free(fn);
    return same;
}

/* one case, one file -------------------------------------------------------------------------- */

/* An expected error must come; any other error is a failure. */
static bool run_error_case(CaseRun *run, Outcome *outcome) {
    const Status status = run_eager(run, outcome, FLOATS_recorded);
    sn_error_take();
    if (status == ST_OK) text_puts(&run->why, "no error, though one is expected");
    return status != ST_OK;
}

/* Of a call without a region: the loop's bits are its own. */
static void run_mapped(CaseRun *run, const Outcome *outcome, CaseCounts *counts) {
    Text why = {0};
    CaseMapped mapped = {0};
    const bool made = !json_get(run->spec, "autocast") && case_vmap(&outcome->call, &mapped, &why);
    counts->not_mapped += !made;
    counts->mapped += mapped.same + mapped.differing > 0;
    counts->mapped_differing += mapped.differing > 0;
    counts->mapped_ways += mapped.same + mapped.differing;
    counts->unmapped_ways += mapped.refused, counts->alone_ways += mapped.alone;
    text_puts(&run->why, text_str(&why));
    text_free(&why);
}

/* edges ----------------------------------------------------------------------------------------- */

static void report_edge(CaseRun *run, const char *part, int64_t count) {
    const char *const note = json_string(json_get(run->spec, "note"));
    run->options->found(run->options->context, &(CaseFinding){.file = run->path,
                                                              .op = run->op,
                                                              .note = note ? note : "",
                                                              .why = text_str(&run->why),
                                                              .failed = true,
                                                              .part = part,
                                                              .count = count});
}

/* A part of the outcome; where it differs again, with the call's results in f64 at hand. */
static bool check_part(CaseRun *run, const Outcome *outcome, const char *name,
                       bool (*check)(CaseRun *, const Outcome *)) {
    run->diffs = (CaseDiffs){0};
    bool right = check(run, outcome);
    if (!right) {
        text_free(&run->why);
        run->diffs = (CaseDiffs){0};
        run->exact = run_other(run, outcome, FLOATS_wide);
        right = check(run, outcome);
        run->exact = NULL;
    }
    const CaseDiffs diffs = run->diffs;
    if (!right) report_edge(run, name, max_i64(diffs.wrong, 1));
    if (diffs.off) report_edge(run, "further", diffs.off);
    if (diffs.signs) report_edge(run, "zero", diffs.signs);
    if (diffs.none) report_edge(run, "none", diffs.none);
    if (diffs.strides) report_edge(run, "strides", diffs.strides);
    return right && !diffs.off && !diffs.signs && !diffs.none && !diffs.strides;
}

static bool check_edges(CaseRun *run, const Outcome *outcome) {
    static const struct {
        const char *name;
        bool (*check)(CaseRun *, const Outcome *);
    } parts[] = {{"result", check_outs}, {"mutated", check_mutated}, {"grad", check_grads}, {"second", check_second}};
    bool right = true;
    for (int i = 0; i < COUNT_OF(parts); i++) {
        right = check_part(run, outcome, parts[i].name, parts[i].check) && right;
        text_free(&run->why);
    }
    return right;
}

static bool run_edge_case(CaseRun *run, Outcome *outcome) {
    const Status status = run_eager(run, outcome, FLOATS_recorded);
    const bool refuses = json_get(run->spec, "error") != NULL;
    if (status == ST_OK) {
        if (!refuses) return check_edges(run, outcome);
        text_printf(&run->why, "PyTorch: %s", json_string(json_get(run->spec, "error")));
        return report_edge(run, "accepted", 1), false;
    }
    text_puts(&run->why, sn_error_take()->message);
    outcome->n_outs = 0;
    if (!refuses) return report_edge(run, "refused", 1), false;
    text_free(&run->why);
    return true;
}

static void run_case(CaseRun *run, const CaseOptions *options, CaseCounts *counts) {
    Outcome *outcome = ARENA_NEW(run->arena, Outcome);
    if (!outcome) return;
    if (!sn_op_find(run->op)) {
        sn_error_take();
        counts->unsupported++;
        return;
    }
    bool passed, off_reference = false;
    if (options->edges) {
        passed = run_edge_case(run, outcome);
        if (options->compiled && outcome->n_outs && outcome->call.row->kind != KIND_number) {
            counts->compiled++;
            if (!compiled_agrees(run, outcome, counts)) counts->compiled_differing++, report_edge(run, "compiled", 1);
        }
    } else if (json_get(run->spec, "error")) {
        passed = run_error_case(run, outcome);
    } else {
        const bool ran = run_eager(run, outcome, FLOATS_recorded) == ST_OK;
        if (!ran) text_puts(&run->why, sn_error_take()->message);
        passed = ran && check_outcome(run, outcome);
        off_reference = ran && !passed && check_with_exact(run, outcome);
        if (error_pending() != ST_OK) text_puts(&run->why, sn_error_take()->message);
        if (options->compiled && outcome->n_outs && outcome->call.row->kind != KIND_number) {
            counts->compiled++;
            if (!compiled_agrees(run, outcome, counts)) counts->compiled_differing++;
        }
        if (options->mapped && ran) run_mapped(run, outcome, counts);
    }
    *(passed ? &counts->passed : off_reference ? &counts->off_reference : &counts->failed) += 1;
}

void case_counts_add(CaseCounts *to, const CaseCounts *more) {
    to->passed += more->passed, to->failed += more->failed, to->unsupported += more->unsupported;
    to->off_reference += more->off_reference, to->compiled += more->compiled,
        to->compiled_differing += more->compiled_differing;
    to->ops_generated += more->ops_generated, to->ops_interpreted += more->ops_interpreted,
        to->ops_eager += more->ops_eager;
    to->mapped += more->mapped, to->mapped_differing += more->mapped_differing, to->mapped_ways += more->mapped_ways;
    to->unmapped_ways += more->unmapped_ways, to->alone_ways += more->alone_ways, to->not_mapped += more->not_mapped;
}

static Status replay_case(const char *path, const SafeFile *file, const Json *spec, const CaseOptions *options,
                          CaseCounts *totals) {
    const char *op = json_string(json_get(spec, "op")), *note = json_string(json_get(spec, "note"));
    if (!op || (options->op && strcmp(op, options->op))) return ST_OK;
    CaseRun run = {.arena = arena_new(), .file = file, .spec = spec, .op = op, .path = path, .options = options};
    if (!run.arena) return ST_MEMORY;
    CaseCounts counts = {0};
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_ON);
    const sn_scope scope = sn_scope_begin();
    run_case(&run, options, &counts);
    sn_scope_end(scope);
    sn_error_take();
    sn_grad_mode_set(mode);
    const bool failed = counts.failed + counts.compiled_differing + counts.mapped_differing > 0;
    if ((failed || counts.off_reference) && options->found && !options->edges)
        options->found(
            options->context,
            &(CaseFinding){
                .file = path, .op = op, .note = note ? note : "", .why = text_str(&run.why), .failed = failed});
    if (options->counted) options->counted(options->context, op, &counts);
    case_counts_add(totals, &counts);
    text_free(&run.why);
    arena_free(run.arena);
    return ST_OK;
}

Status cases_replay(const char *path, const CaseOptions *options, CaseCounts *totals) {
    SafeFile *file;
    TRY(safetensors_open(path, &file));
    const Json *list = NULL;
    const char *format = json_string(json_get(file->metadata, "format")),
               *text = json_string(json_get(file->metadata, "cases"));
    Status status = ST_OK;
    if (!format || strcmp(format, "cases-1") || !text)
        status = error_raise(ST_PARSE, "'%s' is no case file of format cases-1", path);
    if (status == ST_OK) status = json_parse(file->arena, text, strlen(text), &list);
    for (int i = 0; status == ST_OK && i < list->n; i++)
        status = replay_case(path, file, &list->items[i], options, totals);
    safetensors_close(file);
    return status;
}
