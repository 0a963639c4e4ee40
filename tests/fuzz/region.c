/* region.c: some of a program's steps as the body of a checkpoint. What they use of earlier values comes as inputs,
 * for the body runs again when other steps, or rounds of a loop, have put their own in these places. */
#include "tests/fuzz/gen.h"
#include "tests/fuzz/run.h"

/* running ---------------------------------------------------------------------------------------------------------- */

static FzRegion *region_of(FzRun *run, int at) {
    FzRegion *const region = &run->regions[at];
    *region = (FzRegion){.run = run, .first = at + 1, .end = at + 1 + run->p->steps[at].times};
    if (region->end > run->p->n_steps) region->end = run->p->n_steps;
    return region;
}

static bool makes(const FzStep *step, int value) {
    return step->kind == FZ_op && value >= step->out && value < step->out + step->n_out;
}

static bool is_made(const FzRegion *region, int value) {
    for (int i = region->first; i < region->end; i++)
        if (makes(&region->run->p->steps[i], value)) return true;
    return false;
}

/* A result that an op did not give is none of the region's. */
static sn_status body(sn_frame *f) {
    FzRegion *const region = sn_closure(f);
    FzRun *const run = region->run;
    sn_tensor *outside[FZ_VALUES];
    memcpy(outside, run->values, sizeof outside);
    memset(run->values, 0, sizeof run->values); /* a run again comes when others are there, or are gone */
    for (int i = 0; i < region->n_in; i++) run->values[region->in[i]] = sn_in(f, i);
    const bool again = region->n_runs++ > 0;
    run->n_again += again;
    fz_run_steps(run, region->first, region->end);
    run->n_again -= again;
    for (int i = 0; i < region->n_out && !sn_check(); i++) {
        sn_tensor *const t = run->values[region->out[i]];
        region->lacks[i] = !t;
        sn_out(f, i, t ? t : sn_zeros(SN_INTS(), SN_F32));
    }
    memcpy(run->values, outside, sizeof outside);
    return sn_check();
}

/* Half of them, by name. */
static sn_checkpoint_choice saves_some(void *context, const char *op) {
    return strlen(op) % 2 ? SN_CHECKPOINT_SAVE : SN_CHECKPOINT_RECOMPUTE;
}

void fz_run_region(FzRun *run, int at) {
    FzRegion *const region = region_of(run, at);
    const bool saving = run->p->steps[at].value;
    sn_tensor *in[FZ_VALUES], *out[FZ_VALUES];
    for (int v = 0; v < FZ_VALUES; v++) {
        if (is_made(region, v))
            region->out[region->n_out++] = v;
        else if (run->values[v])
            in[region->n_in] = run->values[v], region->in[region->n_in++] = v;
    }
    sn_checkpoint(body, region, saving ? SN_CHECKPOINT_OPTIONS(.policy = saves_some) : NULL,
                  (sn_tensors){in, region->n_in}, out, region->n_out);
    for (int i = 0; i < region->n_out; i++) run->values[region->out[i]] = region->lacks[i] ? NULL : out[i];
}

/* making ----------------------------------------------------------------------------------------------------------- */

/* What is written there is made there, mostly: anything else is an error. */
static bool writes_own(const FzProgram *p, int first, int i) {
    const FzStep *const step = &p->steps[i];
    OpForm form;
    const OpRow *const row = step->kind == FZ_op ? op_find(step->op, strlen(step->op), &form) : NULL;
    const bool first_written = row && (form == FORM_inplace || fz_user_op_writes(row));
    if (!row || (form == FORM_functional && !first_written)) return true;
    for (int k = first; k < i; k++)
        if (first_written && makes(&p->steps[k], step->args[0].value)) return true;
    return false;
}

static bool may_lie_inside(Gen *g, int first, int i) {
    const FzProgram *const p = g->p;
    const FzStep *const step = &p->steps[i];
    if (!writes_own(p, first, i) && !gen_chance(g, 1)) return false;
    for (int k = i; k < p->n_steps; k++) /* rounds start outside, or at the checkpoint itself */
        if (p->steps[k].kind == FZ_loop && p->steps[k].from == i) return false;
    if (step->kind != FZ_op) return step->kind == FZ_break || step->kind == FZ_item;
    return step->how == FZ_plainly || (step->how >= FZ_in_cond && step->how != FZ_in_sparse);
}

static void insert(FzProgram *p, int at, FzStep step) {
    memmove(&p->steps[at + 1], &p->steps[at], sizeof *p->steps * (size_t)(p->n_steps - at));
    p->steps[at] = step;
    p->n_steps++;
    for (int i = 0; i < p->n_steps; i++) {
        FzStep *const other = &p->steps[i];
        if (other->kind == FZ_loop && other->from >= at) other->from++;
        if (i < at && other->kind == FZ_checkpoint && i + other->times >= at) other->times++;
    }
}

/* How many steps from the first one on, before the last, become a body. */
static int region_length(Gen *g, int first, int last) {
    const int most = 1 + (int)gen_below(g, 6);
    int end = first;
    while (end < last && end - first < most && may_lie_inside(g, first, end)) end++;
    return end - first;
}

/* A second one mostly lies in the first. */
void gen_regions(Gen *g) {
    FzProgram *const p = g->p;
    const int n = gen_chance(g, 20) ? 1 + (int)gen_below(g, 2) : 0;
    int from = 0, last = p->n_steps;
    for (int k = 0; k < n && from < last && p->n_steps < FZ_STEPS; k++) {
        const int first = from + (int)gen_below(g, last - from), length = region_length(g, first, last);
        if (!length) continue;
        insert(p, first, (FzStep){.kind = FZ_checkpoint, .times = length, .value = gen_chance(g, 25)});
        const bool inside = gen_chance(g, 60);
        from = inside ? first + 1 : 0, last = inside ? first + 1 + length : p->n_steps;
    }
}
