/* vary.c: numbers, lists, dims and flags of ops that differ from call to call of one function, of all types that a
 * schema has, 0, -1, 1 and what is out of range among them: code that took one for a constant, or a constant for a
 * number, gives what another call should have had. */
#include <math.h>

#include "ir/schema.h"
#include "tests/fuzz/gen.h"

/* Which one a call has --------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

/* Mostly one at a time, since not all go together; now and then none, or any. */
static bool has_it(uint64_t seed, int n, int i) {
    const uint64_t draw = mixed(seed + 0x51ED27), pick = draw >> 8;
    if (draw % 8 < 6) return pick % (uint64_t)n == (uint64_t)i;
    return draw % 8 < 7 && mixed(pick + (uint64_t)i) % 2;
}

void fz_vary(const FzProgram *p, uint64_t seed, FzProgram *out) {
    *out = *p;
    for (int i = 0; i < p->n_varies; i++)
        if (has_it(seed, p->n_varies, i)) out->steps[p->varies[i].step].args[p->varies[i].arg] = p->varies[i].to;
}

/* Numbers that are given -------------------------------------------------------------------------- */

static bool is_number(const FzArg *a) { return a->kind == FZ_int || a->kind == FZ_float; }

static bool is_given(const FzProgram *p, const FzVary *vary) {
    bool numbers = p->given && is_number(&p->steps[vary->step].args[vary->arg]);
    for (int i = 0; i < p->n_varies; i++)
        if (p->varies[i].step == vary->step && p->varies[i].arg == vary->arg) numbers &= is_number(&p->varies[i].to);
    return numbers;
}

int fz_given(const FzProgram *p, FzVary *out) {
    int n = 0;
    for (int i = 0; i < p->n_varies; i++) {
        const FzVary *const vary = &p->varies[i];
        bool again = false;
        for (int k = 0; k < n; k++) again |= out[k].step == vary->step && out[k].arg == vary->arg;
        if (again || !is_given(p, vary)) continue;
        out[n] = *vary;
        out[n++].to = p->steps[vary->step].args[vary->arg];
    }
    return n;
}

bool fz_all_given(const FzProgram *p) {
    bool all = true;
    for (int i = 0; i < p->n_varies; i++) all &= is_given(p, &p->varies[i]);
    return all;
}

/* Making them --------------------------------------------------------------------------------------- */

static FzInt other_size(Gen *g, FzInt now) {
    static const int8_t values[] = {0, -1, 1, 2, -2, 3, 4, 5, 8, -3};
    if (gen_chance(g, 20)) return (FzInt){1, (int)gen_below(g, g->p->n_sizes)};
    if (now.var < 0 && gen_chance(g, 25)) return (FzInt){now.value + (gen_chance(g, 50) ? 1 : -1), -1};
    return (FzInt){values[gen_below(g, COUNT_OF(values))], -1};
}

static FzInt other_dim(Gen *g, const FzStep *step) {
    const int rank = step->args[0].kind == FZ_value ? (int)max_i64(gen_rank(g, step->args[0].value), 1) : 2;
    if (gen_chance(g, 4)) return (FzInt){gen_chance(g, 50) ? rank : -rank - 1, -1};
    return (FzInt){gen_below(g, 2 * rank) - rank, -1};
}

static bool is_dim(const Param *param) { return !strncmp(param->name, "dim", 3) || strstr(param->name, "_dim"); }

static FzInt other_int(Gen *g, const FzStep *step, const Param *param, FzInt now) {
    return is_dim(param) ? other_dim(g, step) : other_size(g, now);
}

/* One item is another, or there is one less or more, or two change places. */
static void other_list(Gen *g, const FzStep *step, const Param *param, FzArg *a) {
    const int64_t which = gen_below(g, 16), i = a->n ? gen_below(g, a->n) : 0, k = a->n ? gen_below(g, a->n) : 0;
    if (which == 0 && a->n) {
        a->ints[--a->n] = (FzInt){0, 0};
    } else if (which == 1 && a->n < FZ_LIST) {
        a->ints[a->n++] = other_int(g, step, param, (FzInt){1, -1});
    } else if (which == 2) {
        const FzInt first = a->ints[i];
        a->ints[i] = a->ints[k], a->ints[k] = first;
    } else if (a->n) {
        a->ints[i] = other_int(g, step, param, a->ints[i]);
    }
}

static void other_number(Gen *g, FzArg *a) {
    static const double floats[] = {0.0, -0.0, 1, -1, 2, 0.5, -0.5, 3, 0.3, 1e10, -2, 0.25, INFINITY};
    static const double beyond[] = {65505, -7e4, 3.5e38, -1e39}; /* halves and f32 have no such numbers */
    static const int8_t ints[] = {0, 1, -1, 2, 3, -2, 7};
    if (a->kind == FZ_float && gen_chance(g, 3)) {
        a->f = beyond[gen_below(g, COUNT_OF(beyond))];
        return;
    }
    const bool is_float = gen_chance(g, 90) ? a->kind == FZ_float : a->kind != FZ_float;
    *a = is_float ? (FzArg){.kind = FZ_float, .f = floats[gen_below(g, COUNT_OF(floats))], .i = {1, -1}}
                  : (FzArg){.kind = FZ_int, .i = {ints[gen_below(g, COUNT_OF(ints))], -1}};
}

static void other_word(Gen *g, const FzStep *step, FzArg *a) {
    const bool no_sum = strstr(step->op, "index_reduce") != NULL;
    static const char *const words[][7] = {{"floor", "trunc"},
                                           {"none", "tanh"},
                                           {"same", "valid"},
                                           {"add", "multiply"},
                                           {"sum", "prod", "mean", "amax", "amin"}};
    for (int i = 0; i < COUNT_OF(words); i++)
        for (int k = 0; words[i][k]; k++) {
            if (strcmp(words[i][k], a->s)) continue;
            int n = 0;
            while (words[i][n]) n++;
            const int first = no_sum && n == 5;
            strcpy(a->s, words[i][first + gen_below(g, n - first)]);
            return;
        }
}

static void other_dtype(Gen *g, FzArg *a) {
    static const uint8_t dtypes[] = {DT_f32, DT_f64, DT_bf16, DT_f16, DT_i64, DT_i32};
    *a = (FzArg){.kind = FZ_int, .i = {dtypes[gen_below(g, COUNT_OF(dtypes))], -1}};
}

/* What is there where nothing was given. */
static bool first_argument(Gen *g, const FzStep *step, const Param *param, FzArg *a) {
    switch (param->type) {
    case PT_int_opt:
        return *a = (FzArg){.kind = FZ_int, .i = other_int(g, step, param, (FzInt){1, -1})}, true;
    case PT_ints_opt:
    case PT_int1_opt:
        return *a = (FzArg){.kind = FZ_ints, .n = 1, .ints = {other_int(g, step, param, (FzInt){1, -1})}}, true;
    case PT_scalar_opt:
    case PT_float_opt:
        *a = (FzArg){.kind = FZ_float};
        return other_number(g, a), true;
    case PT_dtype_opt:
        return other_dtype(g, a), true;
    default:
        return false;
    }
}

static bool other_argument(Gen *g, const FzStep *step, const Param *param, FzArg *a) {
    if (a->kind == FZ_none) return first_argument(g, step, param, a);
    if (param_type_optional(param->type) && a->kind != FZ_value && gen_chance(g, 8))
        return *a = (FzArg){.kind = FZ_none, .i = {0, -1}}, true;
    switch (param->type) {
    case PT_int:
    case PT_int_opt:
        return a->kind == FZ_int && (a->i = other_int(g, step, param, a->i), true);
    case PT_ints:
    case PT_ints_opt:
    case PT_int1:
    case PT_int1_opt:
        return a->kind == FZ_ints && (other_list(g, step, param, a), true);
    case PT_tensor:
    case PT_tensor_opt:
    case PT_scalar:
    case PT_scalar_opt:
    case PT_float:
    case PT_float_opt:
        return (a->kind == FZ_int || a->kind == FZ_float) && (other_number(g, a), true);
    case PT_bool:
    case PT_bool_opt:
        return a->kind == FZ_bool && (a->i.value = !a->i.value, true);
    case PT_string:
    case PT_string_opt:
        return a->kind == FZ_string && (other_word(g, step, a), true);
    case PT_dtype:
    case PT_dtype_opt:
        return other_dtype(g, a), true;
    default:
        return false;
    }
}

static const Param *param_of(const FzStep *step, int arg) {
    OpForm form;
    const OpRow *const row = step->kind == FZ_op && !step->how ? op_find(step->op, strlen(step->op), &form) : NULL;
    return row && arg < op_form_params(row, form) ? &row->params[op_form_param(row, form, arg)] : NULL;
}

/* Rules branch on these; numbers that they compute with are met anyway. */
static bool is_structural(ParamType type) {
    const uint32_t types = 1u << PT_int | 1u << PT_int_opt | 1u << PT_ints | 1u << PT_ints_opt | 1u << PT_int1 |
                           1u << PT_int1_opt | 1u << PT_bool | 1u << PT_string | 1u << PT_string_opt;
    return types >> type & 1;
}

uint32_t gen_structure(const OpRow *row) {
    uint32_t classes = 0;
    for (int i = 0; i < row->n_params; i++) {
        const Param *const param = &row->params[i];
        const bool asked = is_structural(param->type) && (param->type != PT_bool || !param->keyword);
        const bool list = param->type != PT_int && param->type != PT_int_opt;
        const bool flag = param->type == PT_bool || param->type == PT_string || param->type == PT_string_opt;
        if (asked) classes |= 1u << (flag ? 4 + (param->type != PT_bool) : 2 * list + param->symbolic);
    }
    return classes;
}

static bool same_argument(const FzArg *a, const FzArg *b) { return !memcmp(a, b, sizeof *a); }

/* What the argument is in some of the calls already. */
static bool is_known(const FzProgram *p, const FzVary *vary) {
    bool known = same_argument(&vary->to, &p->steps[vary->step].args[vary->arg]);
    for (int i = 0; i < p->n_varies; i++) {
        const FzVary *const other = &p->varies[i];
        known |= other->step == vary->step && other->arg == vary->arg && same_argument(&other->to, &vary->to);
    }
    return known;
}

/* Positions that were in range for one dim are not for another. */
static bool picks_positions(const FzStep *step, const Param *param) {
    OpForm form;
    const OpRow *const row = op_find(step->op, strlen(step->op), &form);
    if (row->check.bound == BOUND_number && param->type == PT_int) return true;
    return is_dim(param) && (row->check.bound || strstr(row->base, "gather") || strstr(row->base, "scatter") ||
                             strstr(row->base, "index"));
}

/* They leave the steps behind it possible, but for one of few programs: that is an error, in some calls. False: nothing
 * came of it. */
static bool add_vary(Gen *g, FzVary vary, const Param *param) {
    FzProgram *const p = g->p;
    if (!other_argument(g, &p->steps[vary.step], param, &vary.to) || is_known(p, &vary)) return false;
    if (p->given && !is_number(&vary.to)) return false;
    if (!gen_remains_valid(p, &vary) || picks_positions(&p->steps[vary.step], param)) {
        if (!g->wild) return false;
        g->wild = false;
    }
    p->varies[p->n_varies++] = vary;
    return true;
}

/* Two and more others, of lists of one length: the second call of an argument that differs is compiled for what both
 * had, and only a third value shows what it took for a number. */
static void vary_argument(Gen *g, int at, int arg) {
    FzProgram *const p = g->p;
    const Param *const param = param_of(&p->steps[at], arg);
    const bool computed_with = param && !p->given && !is_structural(param->type) && gen_chance(g, 80);
    if (!param || computed_with || !strcmp(param->name, "half_to_float")) return;
    if (p->given && !is_number(&p->steps[at].args[arg])) return;
    FzVary vary = {.step = at, .arg = arg, .to = p->steps[at].args[arg]};
    for (int k = 0, added = 0; k < 24 && added < 3 && p->n_varies < FZ_VARIES; k++) {
        added += add_vary(g, vary, param);
        if (added && gen_chance(g, 30)) vary.to = p->varies[p->n_varies - 1].to;
    }
}

/* Steps of gen_value's own say little. */
static bool is_filler(const FzStep *step) { return !strcmp(step->op, "aten::full"); }

void gen_varies(Gen *g) {
    FzProgram *const p = g->p;
    const int first = p->n_steps ? (int)gen_below(g, p->n_steps) : 0;
    g->wild = gen_chance(g, 5);
    for (int i = 0; i < 3 * p->n_steps && p->n_varies < FZ_VARIES; i++) {
        const int at = (first + i) % p->n_steps;
        if (p->steps[at].n_args && (!is_filler(&p->steps[at]) || gen_chance(g, 10)))
            vary_argument(g, at, (int)gen_below(g, p->steps[at].n_args));
    }
}

/* A number, list or flag of this kind is among those that differ. */
bool fz_varies(const FzProgram *p, FzKind kind, bool dims) {
    for (int i = 0; i < p->n_varies; i++) {
        const Param *const param = param_of(&p->steps[p->varies[i].step], p->varies[i].arg);
        if (p->varies[i].to.kind == kind && param && (!dims || is_dim(param))) return true;
    }
    return false;
}
