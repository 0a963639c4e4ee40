/* state.c: what outlives a call, and what a body asks: tensors that are closed over and change between calls, their
 * gradients, an optimizer of them, settings; a callee that compiled code never sees. A replayed call must notice each
 * of these. */
#include <math.h>
#include <string.h>

#include "tests/fuzz/run.h"

/* Queries ------------------------------------------------------------------------------------- */

static double ask_size(sn_tensor *t) { return sn_rank(t) ? (double)sn_size(t, 0) : 0; }
static double ask_stride(sn_tensor *t) { return sn_rank(t) ? (double)sn_strides(t).data[0] : 0; }
static double ask_rank(sn_tensor *t) { return (double)sn_rank(t); }
static double ask_numel(sn_tensor *t) { return (double)sn_numel(t); }
static double ask_dtype(sn_tensor *t) { return sn_dtype_of(t); }
static double ask_contiguous(sn_tensor *t) { return sn_is_contiguous(t); }
static double ask_requires_grad(sn_tensor *t) { return sn_requires_grad(t); }
static double ask_grad(sn_tensor *t) { return sn_grad(t) != NULL; }
static double ask_keys(sn_tensor *t) { return (double)strlen(sn_keys(t)); }
static double ask_setting(sn_tensor *t) { return strlen(sn_setting_get("pending_mib")) > 1; }

static const struct {
    const char *name;
    double (*ask)(sn_tensor *t);
    bool of_gradients;
} queries[] = {{"size", ask_size},
               {"stride", ask_stride},
               {"rank", ask_rank},
               {"numel", ask_numel},
               {"dtype", ask_dtype},
               {"contiguous", ask_contiguous},
               {"requires_grad", ask_requires_grad, true},
               {"grad", ask_grad, true},
               {"keys", ask_keys, true},
               {"setting", ask_setting}};

int fz_query_count(void) { return COUNT_OF(queries); }
bool fz_query_of_gradients(int query) { return queries[query].of_gradients; }
const char *fz_query_name(int query) { return queries[query].name; }

/* Small, so that products stay numbers. */
double fz_ask(int query, sn_tensor *t) { return t ? (double)((int64_t)queries[query].ask(t) % 5) : 0; }

bool fz_has_state(const FzProgram *p) {
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].held) return true;
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].how || p->steps[i].kind == FZ_optim_step) return true;
    return false;
}

/* A guard ------------------------------------------------------------------------------------- */

/* What the host says, by call: it comes back to what it was. */
static int64_t read_host(void *closure) { return ((const FzRun *)closure)->n_calls % 7 / 2; }

double fz_guarded(FzRun *run) {
    if (run->frame) sn_guard_add(run->frame, "the host's number", read_host, run);
    return (double)read_host(run);
}

/* A callee ------------------------------------------------------------------------------------ */

static sn_status scale(sn_frame *f) {
    FzRun *const run = sn_closure(f);
    const double number = run->called_for->args[1].f + (run->n_calls + run->n_callee_calls++) % 3;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(number)));
}

sn_tensor *fz_call_eager(FzRun *run, const FzStep *step) {
    sn_tensor *in = run->values[step->args[0].value];
    run->called_for = step;
    return sn_call1(run->callee, (sn_tensors){&in, 1});
}

/* Between calls ------------------------------------------------------------------------------- */

static sn_tensor *number_like(sn_tensor *t, uint64_t *s) {
    return sn_full_like(t, sn_float((double)(fz_next(s) % 8) * 0.25 - 1));
}

/* The first calls, after which a plan may be saved, see leaves as they are declared. */
bool fz_state_frozen(const FzRun *run) {
    enum { FIRST_CALLS = 6 };
    return run->frozen || (fz_has_state(run->p) && run->n_calls <= FIRST_CALLS);
}

/* What a program does with a leaf between two steps; only its values where it is to stay one. */
static void change_leaf(const FzRun *run, sn_tensor *t, uint64_t *s) {
    const bool stays = fz_state_frozen(run);
    if (run->scaler && fz_next(s) % 4 == 0) {
        sn_grad_set(t, sn_full_like(t, sn_float(fz_next(s) % 2 ? (double)INFINITY : -(double)NAN)));
        return;
    }
    switch (fz_next(s) % 7) {
    case 0:
        sn_grad_set(t, NULL);
        break;
    case 1:
    case 2:
        sn_grad_set(t, number_like(t, s));
        break;
    case 3:
        if (sn_grad(t)) sn_fill_(sn_grad(t), sn_float(0.5));
        break;
    case 4:
        if (!stays) sn_requires_grad_(t, !sn_requires_grad(t));
        break;
    default:
        break;
    }
}

static void change_held(const FzRun *run, int i, uint64_t *s) {
    sn_tensor *const t = run->inputs[i];
    if (run->apart) return;
    if (run->p->inputs[i].grad)
        change_leaf(run, t, s);
    else if (fz_next(s) % 2)
        sn_fill_(t, sn_float((double)(fz_next(s) % 3)));
}

static void make_optimizer(FzRun *run) {
    const FzProgram *const p = run->p;
    run->params = sn_dict_new();
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].held && p->inputs[i].grad)
            sn_dict_set(run->params, (char[]){(char)('a' + i), 0}, run->inputs[i]);
    if (p->optim == 4)
        run->optim = sn_adam(run->params, 0.125, 0.1);
    else if (p->optim)
        run->optim =
            p->optim == 3 ? sn_adamw(run->params, 0.125, 0.1) : sn_sgd(run->params, 0.125, p->optim == 2 ? 0.5 : 0);
    if (p->scaler) run->scaler = sn_scaler_new(SN_SCALER_OPTIONS(.init_scale = 2, .growth_interval = 2));
}

void fz_state_begin(FzRun *run, uint64_t seed) {
    const FzProgram *const p = run->p;
    uint64_t s = seed ^ 0x2545F4914F6CDD1Du;
    if (!fz_has_state(p)) return;
    const bool first = !run->params;
    run->n_calls++;
    for (int i = 0; i < p->n_inputs; i++) {
        if (!p->inputs[i].held) continue;
        if (first)
            run->inputs[i] = sn_keep(fz_make_input(run, i, &s));
        else
            change_held(run, i, &s);
    }
    if (first) make_optimizer(run);
    if (!run->callee)
        run->callee = sn_compile(scale, run, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER, .name = "callee"));
    sn_setting_set("pending_mib", (run->n_calls - 1) % 5 || run->frozen ? "1024" : "9");
    run->n_callee_calls = 0;
}

void fz_state_forget(FzRun *run) {
    if (!run->params) return;
    for (int i = 0; i < run->p->n_inputs; i++)
        if (run->p->inputs[i].held) sn_release(run->inputs[i]), run->inputs[i] = NULL;
    sn_scaler_free(run->scaler);
    sn_optim_free(run->optim);
    sn_dict_free(run->params);
    run->scaler = NULL;
    run->optim = NULL;
    run->params = NULL;
}

void fz_state_free(FzRun *run) {
    fz_state_forget(run);
    sn_function_free(run->callee);
    if (run->n_calls) sn_setting_set("pending_mib", "1024");
}
