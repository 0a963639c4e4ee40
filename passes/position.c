/* position.c: affine arithmetic of positions; the one place where index expressions are taken
 * apart.
 *
 * address() reads the row-major position of an element with other strides: it walks the dims from
 * the left, and at each boundary splits the position by the size of what is to the right,
 * symbolically: coefficients that are multiples go to the quotient, the rest must stay below the
 * divisor. For i0*768 + j0 (j0 < 768) and sizes [s0, 768] that gives i0 and j0. Dims whose strides
 * continue each other need no boundary, so contiguous data is never split. Only what is known of all
 * sizes decides, never a hint: no guard is recorded here. */
#include "passes/lower.h"

static Affine affine_var(const Domain *domain, int var) {
    Affine at = {0};
    at.coef[var] = domain->extent[var] == 1 ? 0 : 1; /* a dim of one element has index 0 */
    return at;
}

void affine_add(SymEnv *env, Affine *to, const Affine *term, int64_t scale) {
    if (scale == 0) return;
    to->offset = sym_add(env, to->offset, sym_mul(env, term->offset, scale));
    for (int i = 0; i < MAX_LOOP_DIMS; i++)
        if (term->coef[i]) to->coef[i] = sym_add(env, to->coef[i], sym_mul(env, term->coef[i], scale));
}

bool affine_equal(const Affine *a, const Affine *b) { return !memcmp(a, b, sizeof *a); }

void row_major(SymEnv *env, const int64_t *sizes, int rank, int64_t *strides) {
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = step;
        step = sym_mul(env, step, sizes[d]);
    }
}

int64_t dim_product(SymEnv *env, const int64_t *sizes, int rank) { return sym_product(env, sizes, rank); }

typedef enum DivideHow {
    DIVIDE_whole, /* where that leaves no rest; else all of it is rest */
    DIVIDE_terms  /* of a sum, those that are multiples */
} DivideHow;

/* a = quotient * by + rest */
static void divide(SymEnv *env, int64_t a, int64_t by, DivideHow how, int64_t *quotient, int64_t *rest) {
    *quotient = 0;
    *rest = a;
    if (a == 0 || by == 0) return;
    if (!sym_is(a) && !sym_is(by)) {
        *quotient = a / by;
        *rest = a % by;
    } else if (by == 1 || a == by) {
        *quotient = by == 1 ? a : 1;
        *rest = 0;
    } else if (sym_is(a)) {
        sym_split(env, a, by, quotient, rest);
        if (how == DIVIDE_terms || *rest == 0) return;
        *quotient = 0;
        *rest = a;
    }
}

static bool is_negative(SymEnv *env, int64_t coef) { return sym_hint(env, coef) < 0; }

/* Smallest and largest value of an affine expression; sizes are never negative, so neither are
 * symbolic coefficients unless their hint is. */
static void range(const Domain *domain, const Affine *at, int64_t *low, int64_t *high) {
    SymEnv *const env = domain->env;
    *low = *high = at->offset;
    for (int i = 0; i < domain->n_vars; i++) {
        if (!at->coef[i]) continue;
        const int64_t reach = sym_mul(env, at->coef[i], sym_sub(env, domain->extent[i], 1));
        int64_t *const end = is_negative(env, at->coef[i]) ? low : high;
        *end = sym_add(env, *end, reach);
    }
}

static bool stays_below(const Domain *domain, const Affine *at, int64_t bound) {
    int64_t low, high;
    range(domain, at, &low, &high);
    return sym_known(domain->env, SYM_le, 0, low) && sym_known(domain->env, SYM_lt, high, bound);
}

static bool split_so(const Domain *domain, const Affine *at, int64_t by, DivideHow how, Affine *quotient,
                     Affine *rest) {
    *quotient = *rest = (Affine){0};
    divide(domain->env, at->offset, by, how, &quotient->offset, &rest->offset);
    for (int i = 0; i < domain->n_vars; i++)
        divide(domain->env, at->coef[i], by, how, &quotient->coef[i], &rest->coef[i]);
    return stays_below(domain, rest, by);
}

/* An offset may be what one dim leaves, or have parts of several: those of two dims that are read backwards are
 * (a-1)*b and b-1, together a*b-1. */
static bool affine_split(const Domain *domain, const Affine *at, int64_t by, Affine *quotient, Affine *rest) {
    if (split_so(domain, at, by, DIVIDE_whole, quotient, rest) ||
        split_so(domain, at, by, DIVIDE_terms, quotient, rest))
        return true;
    quotient->offset = sym_sub(domain->env, quotient->offset, 1);
    rest->offset = sym_add(domain->env, rest->offset, by);
    return stays_below(domain, rest, by);
}

/* The var that reaches over the boundary `by`, if it can be cut there. */
static void want_split(const Domain *domain, const Affine *at, int64_t by, VarSplit *split) {
    SymEnv *const env = domain->env;
    if (domain->fixed) return;
    for (int i = 0; i < domain->n_vars; i++) {
        int64_t factor, rest, outer;
        if (!at->coef[i]) continue;
        const bool back = is_negative(env, at->coef[i]); /* a dim that is read backwards */
        divide(env, by, back ? sym_mul(env, at->coef[i], -1) : at->coef[i], DIVIDE_whole, &factor, &rest);
        if (rest != 0 || factor == 1) continue;
        divide(env, domain->extent[i], factor, DIVIDE_whole, &outer, &rest);
        if (rest != 0 || outer == 0 || outer == 1) continue;
        *split = (VarSplit){true, i, factor};
        return;
    }
}

bool address(const Domain *domain, const Affine *at, const int64_t *sizes, const int64_t *strides, int rank,
             Affine *out, VarSplit *split) {
    SymEnv *const env = domain->env;
    int64_t run_size[MAX_RANK], run_stride[MAX_RANK];
    int n = 0;
    bool empty = false;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] == 1) continue;
        empty |= sizes[d] == 0;
        if (n && run_stride[n - 1] == sym_mul(env, strides[d], sizes[d]))
            run_size[n - 1] = sym_mul(env, run_size[n - 1], sizes[d]);
        else
            run_size[n++] = sizes[d];
        run_stride[n - 1] = strides[d];
    }
    *out = empty ? *at : (Affine){0}; /* no element is read: only which vars it uses matters */
    if (empty || n == 0) return true;
    Affine left = *at;
    for (int r = 0; r < n; r++) {
        Affine quotient = left, rest = {0};
        const int64_t by = sym_product(env, run_size + r + 1, n - r - 1);
        if (r + 1 < n && !affine_split(domain, &left, by, &quotient, &rest)) {
            want_split(domain, &left, by, split);
            return false;
        }
        affine_add(env, out, &quotient, run_stride[r]);
        left = rest;
    }
    return true;
}

/* Whether an index of the dims that end at d, `bound` in all, moves by strides[d] for each step. */
static bool spans(SymEnv *env, const int64_t *sizes, const int64_t *strides, int d, int64_t bound) {
    int64_t reach = sizes[d], next = sym_mul(env, sizes[d], strides[d]);
    while (reach != bound && d-- > 0) {
        if (sizes[d] == 1) continue;
        if (strides[d] != next) return false;
        reach = sym_mul(env, reach, sizes[d]);
        next = sym_mul(env, next, sizes[d]);
    }
    return reach == bound || bound == 1; /* index 0 moves nothing */
}

bool address_gather(const Domain *domain, const Pos *pos, const int64_t *sizes, const int64_t *strides, int rank,
                    Affine *out, int64_t *gather_stride, VarSplit *split) {
    *gather_stride = 0;
    if (!address(domain, &pos->at, sizes, strides, rank, out, split)) return false;
    if (pos->gather < 0) return true;
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        if (step == pos->stride && (sizes[d] != 1 || pos->bound == 1)) {
            *gather_stride = strides[d];
            return spans(domain->env, sizes, strides, d, pos->bound);
        }
        step = sym_mul(domain->env, step, sizes[d]);
    }
    *gather_stride = 1; /* a 0-dim value: only index 0 passes the check */
    return rank == 0;
}

/* True if `at` runs through 0..numel-1 once while the vars that it uses do: strides of a mixed
 * radix in some order. */
bool affine_is_bijection(const Domain *domain, const Affine *at, int64_t numel) {
    if (at->offset != 0) return false;
    bool used[MAX_LOOP_DIMS] = {false};
    int64_t step = 1;
    for (int round = 0; round < domain->n_vars; round++)
        for (int i = 0; i < domain->n_vars; i++)
            if (!used[i] && at->coef[i] == step && domain->extent[i] != 1) {
                used[i] = true;
                step = sym_mul(domain->env, step, domain->extent[i]);
                break;
            }
    for (int i = 0; i < domain->n_vars; i++)
        if (!used[i] && at->coef[i] != 0) return false;
    return step == numel;
}

void domain_pointwise(Domain *domain, SymEnv *env, int64_t numel) {
    *domain = (Domain){.env = env, .n_vars = 1, .n_outer = 1, .full_numel = numel, .outer_numel = numel};
    domain->s_numel = domain->l_numel = 1;
    domain->extent[0] = numel;
    domain->full = domain->outer = affine_var(domain, 0);
}

enum { CLASS_outer, CLASS_s, CLASS_l };

/* Reduced dims at the end of the input are L, other reduced dims S; dims count as the input has
 * them [semantics B2]. */
static void dim_classes(const Meta *input, const bool *reduced, uint8_t *classes) {
    bool trailing = true;
    for (int d = input->rank - 1; d >= 0; d--) {
        trailing = trailing && reduced[d];
        classes[d] = reduced[d] ? trailing ? CLASS_l : CLASS_s : CLASS_outer;
    }
}

/* Vars of one class: a run of neighbouring dims of the class is one var. */
static int64_t class_vars(Domain *domain, const Meta *input, const uint8_t *classes, int class, Affine *inside) {
    SymEnv *const env = domain->env;
    int64_t total = 1;
    for (int d = input->rank - 1; d >= 0;) { /* from the right: strides within the class grow */
        if (classes[d] != class) {
            d--;
            continue;
        }
        const int last = d;
        while (d >= 0 && classes[d] == class) d--;
        const int64_t extent = sym_product(env, input->sizes + d + 1, last - d);
        const int64_t right = sym_product(env, input->sizes + last + 1, input->rank - 1 - last);
        const int var = domain->n_vars++;
        domain->extent[var] = extent;
        if (extent != 1) {
            domain->full.coef[var] = right;
            inside->coef[var] = total;
        }
        total = sym_mul(env, total, extent);
    }
    return total;
}

/* class_vars makes vars from the right; a sequence runs from the left. */
static void reverse_vars(Domain *domain, int first, int end, Affine *inside) {
    for (int a = first, b = end - 1; a < b; a++, b--) {
        const int64_t extent = domain->extent[a], full = domain->full.coef[a], in = inside->coef[a];
        domain->extent[a] = domain->extent[b];
        domain->full.coef[a] = domain->full.coef[b];
        inside->coef[a] = inside->coef[b];
        domain->extent[b] = extent;
        domain->full.coef[b] = full;
        inside->coef[b] = in;
    }
}

bool domain_reduction(Domain *domain, SymEnv *env, const Meta *input, const bool *reduced) {
    uint8_t classes[MAX_RANK];
    dim_classes(input, reduced, classes);
    int runs = 0;
    for (int d = 0; d < input->rank; d++) runs += d == 0 || classes[d] != classes[d - 1];
    if (runs >= MAX_LOOP_DIMS) return false;
    *domain = (Domain){.env = env, .has_inner = true, .full_numel = dim_product(env, input->sizes, input->rank)};
    domain->outer_numel = class_vars(domain, input, classes, CLASS_outer, &domain->outer);
    reverse_vars(domain, 0, domain->n_vars, &domain->outer);
    domain->n_outer = domain->n_vars;
    domain->s_numel = class_vars(domain, input, classes, CLASS_s, &domain->s);
    reverse_vars(domain, domain->n_outer, domain->n_vars, &domain->s);
    domain->n_s = domain->n_vars - domain->n_outer;
    const int first_l = domain->n_vars;
    domain->l_numel = class_vars(domain, input, classes, CLASS_l, &domain->l);
    reverse_vars(domain, first_l, domain->n_vars, &domain->l);
    if (domain->n_vars == domain->n_outer) domain->extent[domain->n_vars++] = 1; /* a 0-dim input: one element of L */
    return true;
}

void domain_template(Domain *domain, SymEnv *env, const int64_t *sizes, int rank) {
    domain_dims(domain, env, sizes, rank);
    domain->fixed = true;
}

void domain_dims(Domain *domain, SymEnv *env, const int64_t *sizes, int rank) {
    *domain = (Domain){.env = env, .n_vars = rank, .n_outer = rank, .s_numel = 1, .l_numel = 1};
    int64_t strides[MAX_RANK];
    row_major(env, sizes, rank, strides);
    for (int d = 0; d < rank; d++) {
        domain->extent[d] = sizes[d];
        domain->full.coef[d] = sizes[d] == 1 ? 0 : strides[d];
    }
    domain->outer = domain->full;
    domain->full_numel = domain->outer_numel = dim_product(env, sizes, rank);
}

static void split_affine(SymEnv *env, Affine *at, const VarSplit *split, int n_vars) {
    for (int i = n_vars; i > split->var + 1; i--) at->coef[i] = at->coef[i - 1];
    const int64_t coef = at->coef[split->var];
    at->coef[split->var + 1] = coef;
    at->coef[split->var] = sym_mul(env, coef, split->factor);
}

bool domain_split(Domain *domain, const VarSplit *split) {
    if (domain->n_vars == MAX_LOOP_DIMS || domain->fixed) return false;
    const int n = domain->n_vars;
    for (int i = n; i > split->var + 1; i--) domain->extent[i] = domain->extent[i - 1];
    domain->extent[split->var + 1] = split->factor;
    domain->extent[split->var] = sym_div(domain->env, domain->extent[split->var], split->factor);
    Affine *const parts[] = {&domain->full, &domain->outer, &domain->s, &domain->l};
    for (int i = 0; i < COUNT_OF(parts); i++) split_affine(domain->env, parts[i], split, n);
    if (split->var < domain->n_outer)
        domain->n_outer++;
    else if (split->var < domain->n_outer + domain->n_s)
        domain->n_s++;
    domain->n_vars++;
    return true;
}
