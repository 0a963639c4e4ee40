/* features.c: what a program is made of besides ops, so that a campaign can say what it covered: a table of
 * predicates. */
#include "tests/fuzz/program.h"

typedef struct Uses { /* of a program's values */
    int reads[FZ_VALUES];
} Uses;

static const OpRow *row_of(const FzStep *step, OpForm *form) {
    return step->kind == FZ_op ? op_find(step->op, strlen(step->op), form) : NULL;
}

static bool any_step(const FzProgram *p, FzStepKind kind) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == kind) return true;
    return false;
}

static bool any_how(const FzProgram *p, FzHow how) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == FZ_op && p->steps[i].how == how) return true;
    return false;
}

static bool any_row(const FzProgram *p, bool (*is)(const OpRow *row, OpForm form)) {
    for (int i = 0; i < p->n_steps; i++) {
        OpForm form;
        const OpRow *const row = row_of(&p->steps[i], &form);
        if (row && is(row, form)) return true;
    }
    return false;
}

static bool any_input(const FzProgram *p, bool (*is)(const FzInput *in)) {
    for (int i = 0; i < p->n_inputs; i++)
        if (is(&p->inputs[i])) return true;
    return false;
}

/* Of rows and forms, of inputs ---------------------------------------------------------------- */

static bool is_view(const OpRow *row, OpForm form) { return row->kind == KIND_view; }
static bool is_inplace(const OpRow *row, OpForm form) { return form == FORM_inplace; }
static bool is_out(const OpRow *row, OpForm form) { return form == FORM_out; }
static bool is_reduction(const OpRow *row, OpForm form) { return row->kind == KIND_reduction; }
static bool is_random(const OpRow *row, OpForm form) { return row->flags & OPF_random; }
static bool is_dropout(const OpRow *row, OpForm form) { return strstr(row->name, "dropout"); }
static bool is_cast(const OpRow *row, OpForm form) {
    return !strcmp(row->base, "to") || !strcmp(row->base, "_to_copy");
}

static bool is_scalar_op(const OpRow *row, OpForm form) { return row->expression != NULL; }
static bool is_writing_op(const OpRow *row, OpForm form) { return fz_user_op_writes(row); }

static bool is_closed(const FzInput *in) { return in->closed; }
static bool is_held(const FzInput *in) { return in->held; }
static bool is_alias(const FzInput *in) { return in->alias >= 0; }
static bool is_transposed(const FzInput *in) { return in->layout == FZ_transposed; }
static bool is_sliced(const FzInput *in) { return in->layout == FZ_sliced; }
static bool is_expanded(const FzInput *in) { return in->layout == FZ_expanded; }
static bool is_channels_last(const FzInput *in) { return in->layout == FZ_channels_last; }
static bool is_grad(const FzInput *in) { return in->grad; }

static bool views(const FzProgram *p) { return any_row(p, is_view); }
static bool inplace(const FzProgram *p) { return any_row(p, is_inplace); }
static bool out_forms(const FzProgram *p) { return any_row(p, is_out); }
static bool reductions(const FzProgram *p) { return any_row(p, is_reduction); }
static bool scalar_ops(const FzProgram *p) { return any_row(p, is_scalar_op); }
static bool writing_ops(const FzProgram *p) { return any_row(p, is_writing_op); }
static bool casts(const FzProgram *p) { return any_row(p, is_cast); }
static bool dropout(const FzProgram *p) { return any_row(p, is_dropout); }
static bool random_numbers(const FzProgram *p) { return any_row(p, is_random); }
static bool closed_over(const FzProgram *p) { return any_input(p, is_closed); }
static bool held(const FzProgram *p) { return any_input(p, is_held); }
static bool alias_inputs(const FzProgram *p) { return any_input(p, is_alias); }
static bool transposed(const FzProgram *p) { return any_input(p, is_transposed); }
static bool sliced(const FzProgram *p) { return any_input(p, is_sliced); }
static bool expanded(const FzProgram *p) { return any_input(p, is_expanded); }
static bool channels_last(const FzProgram *p) { return any_input(p, is_channels_last); }
static bool leaves(const FzProgram *p) { return any_input(p, is_grad); }

static bool alias_shifted(const FzProgram *p) {
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].shifted) return true;
    return false;
}

/* Between calls ------------------------------------------------------------------------------- */

static bool numbers_vary(const FzProgram *p) { return fz_varies(p, FZ_float, false) || fz_varies(p, FZ_int, false); }
static bool numbers_given(const FzProgram *p) { return p->given && fz_all_given(p); }
static bool lists_vary(const FzProgram *p) { return fz_varies(p, FZ_ints, false); }
static bool dims_vary(const FzProgram *p) { return fz_varies(p, FZ_ints, true) || fz_varies(p, FZ_int, true); }
static bool flags_vary(const FzProgram *p) { return fz_varies(p, FZ_bool, false); }
static bool words_vary(const FzProgram *p) { return fz_varies(p, FZ_string, false); }

/* Of steps ------------------------------------------------------------------------------------ */

static bool items(const FzProgram *p) { return any_step(p, FZ_item); }
static bool asks(const FzProgram *p) { return any_how(p, FZ_asking); }
static bool of_gradients(const FzProgram *p) { return any_how(p, FZ_of_grad); }
static bool eager_callees(const FzProgram *p) { return any_how(p, FZ_in_eager); }
static bool user_guards(const FzProgram *p) { return any_how(p, FZ_guarded); }
static bool conds(const FzProgram *p) { return any_how(p, FZ_in_cond); }
static bool maps(const FzProgram *p) { return any_how(p, FZ_in_map); }
static bool scans(const FzProgram *p) { return any_how(p, FZ_in_scan); }
static bool sparse_tensors(const FzProgram *p) { return any_how(p, FZ_in_sparse); }
static bool while_loops(const FzProgram *p) { return any_how(p, FZ_in_while); }
static bool vmaps(const FzProgram *p) { return any_how(p, FZ_in_vmap); }
static bool func_grads(const FzProgram *p) { return any_how(p, FZ_in_grad); }
static bool func_vjps(const FzProgram *p) { return any_how(p, FZ_in_vjp); }
static bool func_jvps(const FzProgram *p) { return any_how(p, FZ_in_jvp); }
static bool random_chunks(const FzProgram *p) { return any_how(p, FZ_in_chunks); }
static bool optim_steps(const FzProgram *p) { return any_step(p, FZ_optim_step); }
static bool adam_steps(const FzProgram *p) { return p->optim == 4 && optim_steps(p); }
static bool scaler_steps(const FzProgram *p) { return p->scaler && optim_steps(p); }
static bool breaks(const FzProgram *p) { return any_step(p, FZ_break); }
static bool loops(const FzProgram *p) { return any_step(p, FZ_loop); }
static bool keeps(const FzProgram *p) { return any_step(p, FZ_keep); }
static bool backward(const FzProgram *p) { return any_step(p, FZ_backward); }
static bool grad_modes(const FzProgram *p) { return any_step(p, FZ_grad_mode); }
static bool generators(const FzProgram *p) { return any_step(p, FZ_rng); }
static bool checkpoints(const FzProgram *p) { return any_step(p, FZ_checkpoint); }
static bool policies(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == FZ_checkpoint && p->steps[i].value) return true;
    return false;
}
static bool checkpoints_inside(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = i + 1; p->steps[i].kind == FZ_checkpoint && k <= i + p->steps[i].times && k < p->n_steps; k++)
            if (p->steps[k].kind == FZ_checkpoint) return true;
    return false;
}
static bool inference(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == FZ_grad_mode && p->steps[i].times == SN_INFERENCE) return true;
    return false;
}
static bool autocast_calls(const FzProgram *p) { return p->region != 0; }
static bool autocast_parts(const FzProgram *p) { return any_step(p, FZ_autocast); }

/* A part of a region. */
static bool autocast_off(const FzProgram *p) {
    int mode = p->region;
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind != FZ_autocast) continue;
        if (mode && !p->steps[i].times) return true;
        mode = p->steps[i].times;
    }
    return false;
}

static bool autocast_backward(const FzProgram *p) {
    return (autocast_calls(p) || autocast_parts(p)) && any_input(p, is_grad) &&
           (p->outer_backward || any_step(p, FZ_backward));
}

static bool autocast_f16(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == FZ_autocast && p->steps[i].times == 2) return true;
    return p->region == 2;
}

static bool outer_backward(const FzProgram *p) { return p->outer_backward && leaves(p); }

/* Many ops, with native ones between that keep them from being one nest (weave.c). */
static bool woven(const FzProgram *p) {
    int ops = 0, between = 0;
    for (int i = 0; i < p->n_steps; i++) {
        ops += p->steps[i].kind == FZ_op;
        between += p->steps[i].kind == FZ_op && !strcmp(p->steps[i].op, "aten::cumsum");
    }
    return ops >= 15 && between;
}

static bool api_mode(const FzProgram *p) { return p->api_mode; }
static bool prints(const FzProgram *p) { return any_step(p, FZ_print); }
static bool packs_saved(const FzProgram *p) {
    return p->packs && leaves(p) && (p->outer_backward || any_step(p, FZ_backward));
}
static bool marked_sizes(const FzProgram *p) {
    return p->marked && p->n_inputs && memcmp(p->sizes[0], p->sizes[1], sizeof p->sizes[0]) != 0;
}
static bool crowds(const FzProgram *p) { return p->crowd > 0; }
static bool hooked_leaves(const FzProgram *p) {
    return p->hooked && leaves(p) && (p->outer_backward || any_step(p, FZ_backward));
}
static bool functional_mode(const FzProgram *p) { return p->functional; }

static bool outer_write(const FzProgram *p) { return p->outer_write; }

static bool loops_with_breaks(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = p->steps[i].from; p->steps[i].kind == FZ_loop && k < i; k++)
            if (p->steps[k].kind == FZ_item || p->steps[k].kind == FZ_break) return true;
    return false;
}

/* A leaf that is written where gradients are off, as an optimizer does. */
static bool leaf_updates(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++) {
        OpForm form;
        const FzStep *const step = &p->steps[i];
        if (!row_of(step, &form) || form != FORM_inplace) continue;
        const int v = step->args[0].value;
        if (v < p->n_inputs && p->inputs[v].grad) return true;
    }
    return false;
}

/* One that is used before and after it, as the pattern has it (gen_cast_leaf). */
static bool leaves_cast_again(const FzProgram *p) {
    int mode = p->region;
    for (int i = 0; i < p->n_steps; i++) {
        OpForm form;
        const FzStep *const step = &p->steps[i];
        if (step->kind == FZ_autocast) mode = step->times;
        if (!mode || !row_of(step, &form) || form != FORM_inplace) continue;
        const int v = step->args[0].value;
        if (v < p->n_inputs && p->inputs[v].grad) return true;
    }
    return false;
}

/* One compare is of what another gave. */
static bool bools_in_order(const FzProgram *p) {
    bool is_bool[FZ_VALUES] = {false};
    for (int i = 0; i < p->n_steps; i++) {
        OpForm form;
        const OpRow *const row = row_of(&p->steps[i], &form);
        const bool order = row && row->base[2] == 0 && strchr("lg", row->base[0]) && strchr("te", row->base[1]);
        if (!order) continue;
        if (p->steps[i].args[0].kind == FZ_value && is_bool[p->steps[i].args[0].value]) return true;
        is_bool[p->steps[i].out] = true;
    }
    return false;
}

static bool reads(const FzStep *step, int v) {
    for (int k = 0; k < step->n_args; k++)
        if (step->args[k].kind == FZ_value && step->args[k].value == v) return true;
    return false;
}

/* Steps from `at` on that read one of the two. */
static int reads_from(const FzProgram *p, int at, int v, int other) {
    int n = 0;
    for (int i = at; i < p->n_steps; i++)
        n += p->steps[i].kind == FZ_op && (reads(&p->steps[i], v) || reads(&p->steps[i], other));
    return n;
}

/* The first step from `at` on that writes v in place, or -1. */
static int write_of(const FzProgram *p, int at, int v) {
    for (int i = at; i < p->n_steps; i++) {
        OpForm form;
        if (row_of(&p->steps[i], &form) && form == FORM_inplace && p->steps[i].args[0].value == v) return i;
    }
    return -1;
}

/* The value that the step makes a view of, or -1. */
static int viewed_by(const FzStep *step) {
    OpForm form;
    const OpRow *const row = row_of(step, &form);
    const bool is = row && row->kind == KIND_view && form == FORM_functional;
    return is && step->args[0].kind == FZ_value ? step->args[0].value : -1;
}

static bool returns_views(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->n_returns; k++)
            if (p->returns[k] == p->steps[i].out && viewed_by(&p->steps[i]) >= 0) return true;
    return false;
}

static bool written_views(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++) {
        const int base = viewed_by(&p->steps[i]), view = p->steps[i].out;
        const int first = write_of(p, i, view), second = write_of(p, i, base);
        const int written = first >= 0 ? first : second;
        if (base >= 0 && written >= 0 && reads_from(p, written + 1, view, base) >= 3) return true;
    }
    return false;
}

static bool fresh_memory(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++) {
        const int base = viewed_by(&p->steps[i]);
        for (int k = 0; base >= 0 && k < i; k++)
            if (p->steps[k].kind == FZ_op && p->steps[k].out == base &&
                (strstr(p->steps[k].op, "zeros") || strstr(p->steps[k].op, "empty") ||
                 strstr(p->steps[k].op, "clone")) &&
                write_of(p, i, p->steps[i].out) >= 0)
                return true;
    }
    return false;
}

static bool detached(const FzProgram *p) {
    bool any = false;
    for (int i = 0; i < p->n_steps; i++) {
        any |= p->steps[i].kind == FZ_op && !strcmp(p->steps[i].op, "aten::detach");
        if (any && p->steps[i].kind == FZ_backward) return true;
    }
    return false;
}

static bool around_a_break(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        for (int v = 0; p->steps[i].kind == FZ_break && v < p->n_inputs; v++) {
            const int after = p->inputs[v].grad ? reads_from(p, i, v, v) : 0;
            if (after && reads_from(p, 0, v, v) > after) return true;
        }
    return false;
}

static void count_reads(const FzProgram *p, Uses *uses) {
    *uses = (Uses){{0}};
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_args; k++) {
            const FzArg *const a = &p->steps[i].args[k];
            if (a->kind == FZ_value) uses->reads[a->value]++;
            for (int n = 0; a->kind == FZ_values && n < a->n; n++) uses->reads[a->values[n]]++;
        }
}

static bool used_often(const FzProgram *p) {
    Uses uses;
    count_reads(p, &uses);
    for (int v = 0; v < p->n_values; v++)
        if (uses.reads[v] >= 3) return true;
    return false;
}

static bool returns_twice(const FzProgram *p) {
    for (int i = 0; i < p->n_returns; i++)
        for (int k = 0; k < i; k++)
            if (p->returns[i] == p->returns[k]) return true;
    return false;
}

static bool returns_inputs(const FzProgram *p) {
    for (int i = 0; i < p->n_returns; i++)
        if (p->returns[i] < p->n_inputs) return true;
    return false;
}

static bool sizes_change(const FzProgram *p) { return memcmp(p->sizes[0], p->sizes[1], sizeof p->sizes[0]) != 0; }

static bool zero_sizes(const FzProgram *p) {
    for (int i = 0; i < p->n_inputs; i++)
        for (int d = 0; d < p->inputs[i].rank; d++)
            if (!fz_int(p, p->inputs[i].sizes[d], 0) || !fz_int(p, p->inputs[i].sizes[d], 1)) return true;
    return false;
}

static bool changes(const FzProgram *p, FzKind kind) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_args; k++) {
            const FzArg *const a = &p->steps[i].args[k];
            if (a->kind == kind && a->i.var >= 0 && p->sizes[0][a->i.var] != p->sizes[1][a->i.var]) return true;
        }
    return false;
}

static bool ints_change(const FzProgram *p) { return changes(p, FZ_int); }
static bool floats_change(const FzProgram *p) { return changes(p, FZ_float); }

static const struct {
    const char *name;
    bool (*has)(const FzProgram *p);
} features[] = {{"views", views},
                {"in-place forms", inplace},
                {"out forms", out_forms},
                {"reductions", reductions},
                {"user's ops by expressions", scalar_ops},
                {"user's ops that write", writing_ops},
                {"casts", casts},
                {"dropout", dropout},
                {"random numbers", random_numbers},
                {"closed-over tensors", closed_over},
                {"tensors that outlive a call", held},
                {"queries", asks},
                {"gradients read", of_gradients},
                {"callees in mode EAGER", eager_callees},
                {"guards of the program's own", user_guards},
                {"cond", conds},
                {"map", maps},
                {"scan", scans},
                {"while_loop", while_loops},
                {"vmap", vmaps},
                {"gradients of functions", func_grads},
                {"vjps of functions", func_vjps},
                {"jvps of functions", func_jvps},
                {"vmap in chunks with random numbers", random_chunks},
                {"sparse tensors", sparse_tensors},
                {"steps of optimizers", optim_steps},
                {"steps of Adam", adam_steps},
                {"steps of a scaler", scaler_steps},
                {"inputs that share memory", alias_inputs},
                {"inputs that share memory at changing offsets", alias_shifted},
                {"transposed inputs", transposed},
                {"sliced inputs", sliced},
                {"expanded inputs", expanded},
                {"channels_last inputs", channels_last},
                {"inputs that require gradients", leaves},
                {"items", items},
                {"breaks", breaks},
                {"loops", loops},
                {"loops with breaks", loops_with_breaks},
                {"kept values", keeps},
                {"backward inside", backward},
                {"backward outside", outer_backward},
                {"results written outside", outer_write},
                {"gradients switched", grad_modes},
                {"inference mode", inference},
                {"API modes", api_mode},
                {"pointwise ops around native ones", woven},
                {"checkpoints", checkpoints},
                {"checkpoints with a policy", policies},
                {"checkpoints in checkpoints", checkpoints_inside},
                {"functional mode", functional_mode},
                {"prints", prints},
                {"hooks of saved tensors", packs_saved},
                {"hooks behind .grad", hooked_leaves},
                {"hundreds of tensors", crowds},
                {"sizes marked as dynamic", marked_sizes},
                {"states of the generator", generators},
                {"autocast around calls", autocast_calls},
                {"autocast in parts", autocast_parts},
                {"autocast off in a part", autocast_off},
                {"autocast to f16", autocast_f16},
                {"gradients through autocast", autocast_backward},
                {"leaves written without gradients", leaf_updates},
                {"views used after a write", written_views},
                {"fresh memory written through views", fresh_memory},
                {"detach before a backward", detached},
                {"leaves used around a break", around_a_break},
                {"values used three times", used_often},
                {"results returned twice", returns_twice},
                {"inputs returned", returns_inputs},
                {"views returned", returns_views},
                {"sizes that change", sizes_change},
                {"sizes of zero", zero_sizes},
                {"numbers that differ between calls", numbers_vary},
                {"numbers that calls are given", numbers_given},
                {"lists that differ between calls", lists_vary},
                {"dims that differ between calls", dims_vary},
                {"flags that differ between calls", flags_vary},
                {"words that differ between calls", words_vary},
                {"bools in order", bools_in_order},
                {"leaves written in a region of autocast", leaves_cast_again},
                {"ints that change", ints_change},
                {"floats that change", floats_change}};

int fz_feature_count(void) { return COUNT_OF(features); }
const char *fz_feature_name(int i) { return features[i].name; }
bool fz_has_feature(const FzProgram *p, int i) { return features[i].has(p); }
