/* shrink.c: makes a failing program smaller: tries one simplification after another, keeps those
 * that still fail, until none does. A case is a program and, for some, the variant that is run on
 * the same function; steps they share are dropped from both. */
#include <stdlib.h>

#include "tests/fuzz/program.h"

typedef struct Case {
    FzProgram p, variant;
    bool has_variant;
} Case;

typedef struct Shrinker {
    Case *now, *next;
    FzFails *fails;
    void *context;
    bool changed;
} Shrinker;

/* `next` was changed: keeps it if it still fails. */
static void attempt(Shrinker *s) {
    const Case *const c = s->next;
    if (!s->fails(s->context, &c->p, c->has_variant ? &c->variant : NULL)) return;
    *s->now = *s->next;
    s->changed = true;
}

static Case *begin(Shrinker *s) {
    *s->next = *s->now;
    return s->next;
}

static void replace_value(FzProgram *p, int from, int to) {
    for (int i = 0; i < p->n_steps; i++) {
        FzStep *const step = &p->steps[i];
        if ((step->kind != FZ_op || step->how == FZ_asking) && step->value == from) step->value = to;
        for (int k = 0; k < step->n_args; k++) {
            FzArg *const a = &step->args[k];
            if (a->kind == FZ_value && a->value == from) a->value = to;
            for (int n = 0; a->kind == FZ_values && n < a->n; n++)
                if (a->values[n] == from) a->values[n] = to;
        }
    }
    for (int i = 0; i < p->n_returns; i++)
        if (p->returns[i] == from) p->returns[i] = to;
}

static void drop_vary(FzProgram *p, int i) {
    memmove(&p->varies[i], &p->varies[i + 1], sizeof *p->varies * (size_t)(p->n_varies - i - 1));
    p->n_varies--;
}

static void drop_step(FzProgram *p, int at, int argument) {
    const FzStep *const step = &p->steps[at];
    if (argument >= 0 && argument < step->n_args && step->args[argument].kind == FZ_value && step->n_out == 1)
        replace_value(p, step->out, step->args[argument].value);
    memmove(&p->steps[at], &p->steps[at + 1], sizeof *p->steps * (size_t)(p->n_steps - at - 1));
    p->n_steps--;
    for (int i = p->n_varies - 1; i >= 0; i--) {
        if (p->varies[i].step == at)
            drop_vary(p, i);
        else if (p->varies[i].step > at)
            p->varies[i].step--;
    }
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == FZ_loop && p->steps[i].from > at)
            p->steps[i].from--;
        else if (p->steps[i].kind == FZ_checkpoint && i < at && i + p->steps[i].times >= at)
            p->steps[i].times--;
}

static bool shares(const Case *c, int at) {
    return c->has_variant && at < c->p.n_steps && at < c->variant.n_steps &&
           !memcmp(&c->p.steps[at], &c->variant.steps[at], sizeof(FzStep));
}

static void drop_steps(Shrinker *s) {
    for (int i = s->now->p.n_steps - 1; i >= 0; i--)
        for (int argument = -1; argument < 3 && i < s->now->p.n_steps; argument++) {
            Case *const c = begin(s);
            if (shares(c, i)) drop_step(&c->variant, i, argument);
            drop_step(&c->p, i, argument);
            attempt(s);
        }
    for (int i = s->now->variant.n_steps - 1; s->now->has_variant && i >= 0; i--) {
        Case *const c = begin(s);
        if (i >= c->variant.n_steps || shares(c, i)) continue;
        drop_step(&c->variant, i, -1);
        attempt(s);
    }
}

static void drop_varies(Shrinker *s) {
    if (s->now->p.given) {
        begin(s)->p.given = false;
        attempt(s);
    }
    for (int i = s->now->p.n_varies - 1; i >= 0; i--) {
        drop_vary(&begin(s)->p, i);
        attempt(s);
    }
}

static void drop_returns(Shrinker *s) {
    for (int which = 0; which < 1 + s->now->has_variant; which++)
        for (int i = 7; i >= 0; i--) {
            Case *const c = begin(s);
            FzProgram *const p = which ? &c->variant : &c->p;
            if (i >= p->n_returns || p->n_returns < 2) continue;
            memmove(&p->returns[i], &p->returns[i + 1], sizeof *p->returns * (size_t)(p->n_returns - i - 1));
            p->n_returns--;
            attempt(s);
        }
}

static bool simplify_input(FzInput *in, int how) {
    const FzInput old = *in;
    if (how == 0) in->layout = FZ_contiguous;
    if (how == 1) in->grad = false;
    if (how == 2) in->closed = in->held = false;
    if (how == 3) in->alias = -1, in->shifted = false;
    if (how == 5) in->shifted = false;
    if (how == 4 && dtype_is_float((DType)in->dtype)) in->dtype = SN_F32;
    return memcmp(&old, in, sizeof old) != 0;
}

static void simplify_inputs(Shrinker *s) {
    for (int i = 0; i < s->now->p.n_inputs; i++)
        for (int how = 0; how < 6; how++) {
            Case *const c = begin(s);
            const bool changed = simplify_input(&c->p.inputs[i], how);
            if (c->has_variant) simplify_input(&c->variant.inputs[i], how);
            if (changed) attempt(s);
        }
}

static void set_size(Case *c, int setting, int i, int64_t value) {
    c->p.sizes[setting][i] = c->variant.sizes[setting][i] = value;
}

static void make_plain(Shrinker *s) {
    for (int i = 0; i < s->now->p.n_steps; i++) {
        if (!s->now->p.steps[i].how) continue;
        Case *const c = begin(s);
        if (shares(c, i)) c->variant.steps[i].how = FZ_plainly;
        c->p.steps[i].how = FZ_plainly;
        attempt(s);
    }
}

static void shrink_sizes(Shrinker *s) {
    for (int i = 0; i < s->now->p.n_sizes; i++) {
        set_size(begin(s), 1, i, s->now->p.sizes[0][i]);
        if (s->now->p.sizes[1][i] != s->now->p.sizes[0][i]) attempt(s);
        for (int setting = 0; setting < FZ_SETTINGS; setting++)
            for (int64_t n = 1; n < s->now->p.sizes[setting][i]; n++) {
                set_size(begin(s), setting, i, n);
                attempt(s);
                if (n > 4) break;
            }
    }
}

static void drop_last_inputs(Shrinker *s) {
    Case *const c = begin(s);
    if (c->p.n_inputs < 2) return;
    c->p.n_inputs--;
    if (c->has_variant && c->variant.n_inputs > c->p.n_inputs) c->variant.n_inputs--;
    attempt(s);
}

static void drop_whole_parts(Shrinker *s) {
    if (s->now->has_variant) {
        begin(s)->has_variant = false;
        attempt(s);
    }
    if (s->now->p.scaler) {
        begin(s)->p.scaler = false;
        attempt(s);
    }
    if (s->now->p.outer_backward) {
        begin(s)->p.outer_backward = false;
        attempt(s);
    }
    if (s->now->p.outer_write) {
        begin(s)->p.outer_write = false;
        attempt(s);
    }
    if (s->now->has_variant && s->now->variant.outer_backward) {
        begin(s)->variant.outer_backward = false;
        attempt(s);
    }
    if (s->now->has_variant && s->now->variant.outer_write) {
        begin(s)->variant.outer_write = false;
        attempt(s);
    }
    if (s->now->p.region) {
        begin(s)->p.region = 0;
        attempt(s);
    }
    if (s->now->p.functional) {
        begin(s)->p.functional = false;
        attempt(s);
    }
    if (s->now->p.packs) {
        begin(s)->p.packs = false;
        attempt(s);
    }
    if (s->now->p.marked) {
        begin(s)->p.marked = false;
        attempt(s);
    }
    if (s->now->p.crowd) {
        begin(s)->p.crowd = 0;
        attempt(s);
    }
    if (s->now->p.hooked) {
        begin(s)->p.hooked = false;
        attempt(s);
    }
    if (s->now->p.api_mode) {
        begin(s)->p.api_mode = false;
        attempt(s);
    }
    if (s->now->p.no_grad) {
        begin(s)->p.no_grad = false;
        attempt(s);
    }
    drop_last_inputs(s);
}

void fz_shrink(FzProgram *p, FzProgram *variant, FzFails *fails, void *context) {
    Shrinker s = {.now = calloc(1, sizeof(Case)), .next = calloc(1, sizeof(Case)), .fails = fails, .context = context};
    s.now->p = *p;
    if (variant->n_steps || variant->n_returns) s.now->variant = *variant, s.now->has_variant = true;
    for (int round = 0; round < 6; round++) {
        s.changed = false;
        drop_whole_parts(&s);
        drop_varies(&s);
        drop_steps(&s);
        drop_returns(&s);
        make_plain(&s);
        simplify_inputs(&s);
        shrink_sizes(&s);
        if (!s.changed) break;
    }
    *p = s.now->p;
    *variant = (FzProgram){.n_steps = 0};
    if (s.now->has_variant) *variant = s.now->variant;
    free(s.now);
    free(s.next);
}
