/* einsum.c: see einsum.h. Labels are letters; blanks say nothing. Without "->" the result has the labels that occur
 * once, in the order of the alphabet (A to Z, then a to z), behind the ellipsis. As PyTorch reads it. */
#include "ir/einsum.h"

#include <ctype.h>
#include <string.h>

enum { ELLIPSIS = 'z' + 1, LABELS = ELLIPSIS + 1 };

typedef struct Equation {
    const char *at;
    int n_labels[EINSUM_OPERANDS + 1];
    uint8_t labels[EINSUM_OPERANDS + 1][EINSUM_DIMS]; /* the last are the result's */
    int count[LABELS];                                /* over all operands */
    int first[LABELS];                                /* where its dims begin among all; -1: it has none yet */
    int ellipsis;                                     /* how many dims it stands for */
} Equation;

/* Up to ',' or '-' or the end. */
static const char *read_labels(Equation *e, int k) {
    bool has_ellipsis = false;
    for (; *e->at && *e->at != ',' && *e->at != '-'; e->at++) {
        int label = (unsigned char)*e->at;
        if (label == ' ') continue;
        if (label == '.') {
            if (has_ellipsis || strncmp(e->at, "...", 3)) return "a '.' is no part of one ellipsis '...'";
            has_ellipsis = true, label = ELLIPSIS, e->at += 2;
        } else if (!isalpha(label)) {
            return "a label is no letter";
        }
        if (e->n_labels[k] == EINSUM_DIMS - 1) return "it has too many labels";
        e->labels[k][e->n_labels[k]++] = (uint8_t)label;
    }
    return NULL;
}

static const char *read_operands(Equation *e, int n) {
    for (int k = 0; k < n; k++) {
        const char *const wrong = read_labels(e, k);
        if (wrong) return wrong;
        for (int i = 0; i < e->n_labels[k]; i++) e->count[e->labels[k][i]]++;
        if (k + 1 < n && *e->at++ != ',') return "it has fewer terms than there are operands";
    }
    return *e->at == ',' ? "it has more terms than there are operands" : NULL;
}

/* How many dims each ellipsis stands for: the most that an operand has. */
static const char *measure_operands(Equation *e, const int *ranks, int n) {
    for (int k = 0; k < n; k++) {
        const bool has = memchr(e->labels[k], ELLIPSIS, (size_t)e->n_labels[k]) != NULL;
        const int covered = ranks[k] - (e->n_labels[k] - has);
        if (has ? covered < 0 : covered != 0) return "an operand does not have as many dims as its term has labels";
        if (has && covered > e->ellipsis) e->ellipsis = covered;
    }
    return NULL;
}

static void einsum_place(Equation *e, int label, Einsum *out) {
    if (e->first[label] >= 0) return;
    e->first[label] = out->n_dims;
    out->n_dims += label == ELLIPSIS ? e->ellipsis : 1;
}

static const char *place_result(Equation *e, int n, Einsum *out) {
    if (*e->at) {
        if (strncmp(e->at, "->", 2)) return "a '-' begins no '->'";
        e->at += 2;
        const char *const wrong = read_labels(e, n);
        if (wrong || *e->at) return wrong ? wrong : "something follows the result's labels";
        for (int i = 0; i < e->n_labels[n]; i++) {
            const int label = e->labels[n][i];
            if (e->first[label] >= 0) return "a label stands twice in the result";
            if (!e->count[label] && label != ELLIPSIS) return "a label of the result is none of an operand's";
            einsum_place(e, label, out);
        }
    } else {
        einsum_place(e, ELLIPSIS, out);
        for (int label = 'A'; label <= 'z'; label++)
            if (e->count[label] == 1) einsum_place(e, label, out);
    }
    out->n_out = out->n_dims;
    if (e->count[ELLIPSIS]) einsum_place(e, ELLIPSIS, out);
    for (int label = 'A'; label <= 'z'; label++)
        if (e->count[label]) einsum_place(e, label, out);
    return NULL;
}

static void place_operand(const Equation *e, int k, const int *ranks, Einsum *out) {
    const int covered = ranks[k] - (e->n_labels[k] - 1);
    int n = 0;
    for (int i = 0; i < e->n_labels[k]; i++) {
        const int label = e->labels[k][i], first = e->first[label];
        if (label == ELLIPSIS)
            for (int d = e->ellipsis - covered; d < e->ellipsis; d++) out->dim[k][n++] = (uint8_t)(first + d);
        else
            out->dim[k][n++] = (uint8_t)first;
    }
    out->rank[k] = n;
}

const char *einsum_parse(const char *equation, const int *ranks, int n, Einsum *out) {
    Equation e = {.at = equation};
    *out = (Einsum){.n_operands = n};
    if (n < 1 || n > EINSUM_OPERANDS) return "it is for 1 to 16 operands";
    for (int k = 0; k < n; k++)
        if (ranks[k] > EINSUM_DIMS / 2) return "an operand has more than 32 dims";
    for (int label = 0; label < LABELS; label++) e.first[label] = -1;
    const char *wrong = read_operands(&e, n);
    if (!wrong) wrong = measure_operands(&e, ranks, n);
    if (!wrong) wrong = place_result(&e, n, out);
    if (!wrong && out->n_dims > EINSUM_DIMS) wrong = "it has more than 64 dims";
    for (int k = 0; k < n && !wrong; k++) place_operand(&e, k, ranks, out);
    return wrong;
}

EinsumStep einsum_step(SymEnv *env, const Einsum *e, int *left, const int64_t *a, const int64_t *b) {
    EinsumStep step = {0};
    for (int d = e->n_out; d < e->n_dims; d++) {
        const bool in_a = !sym_same(env, a[d], 1), in_b = !sym_same(env, b[d], 1);
        if (in_a && in_b) {
            if (--left[d] == 1) step.sum[d] = step.any = true, left[d] = 0;
        } else if (left[d] == 1 && (in_a || in_b)) {
            (in_a ? step.sum_a : step.sum_b)[d] = true, left[d] = 0;
            *(in_a ? &step.any_a : &step.any_b) = true;
        }
    }
    return step;
}

static int group_of(SymEnv *env, const EinsumStep *step, const int64_t *a, const int64_t *b, int d) {
    if (step->sum[d]) return 2;
    const bool in_a = !step->sum_a[d] && !sym_same(env, a[d], 1), in_b = !step->sum_b[d] && !sym_same(env, b[d], 1);
    return in_a && in_b ? 0 : in_a ? 1 : 3;
}

void einsum_product(SymEnv *env, const Einsum *e, const EinsumStep *step, const int64_t *a, const int64_t *b,
                    int order[EINSUM_DIMS], int counts[4]) {
    int n = 0;
    for (int group = 0; group < 4; group++) {
        const int first = n;
        for (int d = 0; d < e->n_dims; d++)
            if (group_of(env, step, a, b, d) == group) order[n++] = d;
        counts[group] = n - first;
    }
}
