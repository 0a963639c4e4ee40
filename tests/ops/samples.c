/* samples.c: the table of samples by row, and how a line of them becomes tensors and arguments. */
#include "tests/ops/samples.h"
#include "ir/op_ids.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/base/error.h"

#define ALIAS(...)
#define OP(id, schema, doc, kind, samples, ...) extern const Samples samples_##samples;
#include "ir/ops.def"
#undef OP

#define OP(id, schema, doc, kind, samples, ...) [OP_##id] = &samples_##samples,
static const Samples *const table[OP_IDS] = {
#include "ir/ops.def"
};
#undef OP
#undef ALIAS

const Samples *samples_of(const OpRow *row) { return table[row->alias_of ? row->alias_of->id : row->id]; }

/* The length of "name:" at the head of a line, 0 without one. */
static size_t head_length(const char *line) {
    const size_t n = strcspn(line, ": ");
    return line[n] == ':' && line[n + 1] == ' ' && n ? n : 0;
}

static const char *row_name(const OpRow *row) { return strstr(row->name, "::") + 2; }

static bool names_row(const OpRow *row, const char *line) {
    const size_t n = head_length(line);
    const char *const name = row_name(row->alias_of ? row->alias_of : row);
    return n == strlen(name) && !strncmp(line, name, n);
}

bool sample_is_for(const OpRow *row, const char *line) { return !head_length(line) || names_row(row, line); }

const char *samples_next(const OpRow *row, const char *const *lines, int *at) {
    bool named = false;
    for (int i = 0; lines && lines[i]; i++) named |= names_row(row, lines[i]);
    while (lines && lines[*at]) {
        const char *const line = lines[(*at)++];
        if (named ? names_row(row, line) : !head_length(line)) return line;
    }
    return NULL;
}

const char *layout_name(Layout layout) {
    return (const char *const[]){"contiguous", "transposed", "sliced", "expanded"}[layout];
}

/* values -------------------------------------------------------------------------------------- */

static double uniform(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static double draw(const SampleStyle *style, char kind, int64_t below, DType dtype, uint64_t *seed) {
    static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, 65504, 1};
    const double r = uniform(seed);
    if (kind == 'i') return floor(r * (double)below);
    if (kind == 'm' || dtype == DT_bool) return kind == 'p' || kind == 'w' || r < 0.5;
    if (kind == '=') return dtype_is_float(dtype) ? 4 * r - 2 : floor(4 * r);
    if (!dtype_is_float(dtype))
        return kind == 'p' || kind == 'q' || kind == 'w' || dtype == DT_u8 ? 1 + floor(6 * r) : floor(12 * r) - 6;
    if (style->special && uniform(seed) < 0.15)
        return specials[kind == 'q' ? 3 + (int)(uniform(seed) * 3) : (int)(uniform(seed) * 8)];
    if (kind == 'q') return 0.1 + 0.8 * r;
    if (style->wide && kind != 'u') return (kind == 'x' && uniform(seed) < 0.5 ? -1 : 1) * pow(10, 13 * r - 3);
    if (kind == 'w' || (kind == 'p' && !style->range)) return 0.2 + 1.8 * r;
    if (kind == 'u' && !style->range) return 1.8 * r - 0.9;
    static const double low[] = {-2, 0.2, -0.9, 1.2}, high[] = {2, 2, 0.9, 3};
    return low[style->range] + (high[style->range] - low[style->range]) * r;
}

typedef struct Reader {
    const char *at, *line;
    const SampleStyle *style;
    SampleCall *call;
    uint64_t seed;
} Reader;

/* A mistake in the samples, not in what they test. */
static Status mistake(const Reader *r, const char *wanted) {
    return error_raise(ST_PARSE, "sample '%s': %s expected at '%s'", r->line, wanted, r->at);
}

static bool eat(Reader *r, char c) {
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static Status read_ints(Reader *r, int64_t **out, int *n) {
    SampleCall *const call = r->call;
    *out = call->ints + call->n_ints;
    *n = 0;
    if (!eat(r, '[')) return mistake(r, "'['");
    while (!eat(r, ']')) {
        char *end;
        if (call->n_ints == SAMPLE_INTS) return mistake(r, "fewer numbers");
        (*out)[(*n)++] = strtoll(r->at, &end, 10);
        call->n_ints++;
        if (end == r->at) return mistake(r, "a number");
        r->at = end;
        eat(r, ',');
    }
    return ST_OK;
}

/* As C masks and other libraries' memory may have them. */
static sn_tensor *loosened(sn_tensor *t) {
    static const uint8_t truths[] = {255, 1, 2, 128, 254};
    uint8_t *const data = t ? tensor_data(t) : NULL;
    for (int64_t i = 0; data && i < sn_numel(t); i++) data[i] = data[i] ? truths[i % 5] : 0;
    return t;
}

static sn_tensor *fresh(Reader *r, char kind, int64_t below, DType dtype, const int64_t *sizes, int rank) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    double *const data = calloc((size_t)n + 1, sizeof *data);
    if (!data) return NULL;
    for (int64_t i = 0; i < n; i++) data[i] = draw(r->style, kind, below, dtype, &r->seed);
    sn_tensor *const t = sn_from_data(data, (sn_ints){sizes, rank}, SN_F64);
    free(data);
    sn_tensor *const made = sn_to(t, (sn_dtype)dtype);
    return r->style->loose && dtype == DT_bool ? loosened(made) : made;
}

/* A tensor of these sizes in the style's layout, as a view of a larger or permuted one. */
static sn_tensor *laid_out(Reader *r, char kind, int64_t below, DType dtype, const int64_t *sizes, int rank) {
    const Layout layout = rank ? r->style->layout : LAYOUT_contiguous;
    int64_t other[MAX_RANK], dims[MAX_RANK];
    for (int d = 0; d < rank; d++) {
        other[d] = layout == LAYOUT_transposed ? sizes[rank - 1 - d]
                   : layout == LAYOUT_expanded ? (d ? sizes[d] : 1)
                   : layout == LAYOUT_sliced   ? (d == rank - 1 ? 2 * sizes[d] + 3 : sizes[d] + 1)
                                               : sizes[d];
        dims[d] = rank - 1 - d;
    }
    sn_tensor *t = fresh(r, kind, below, dtype, other, rank);
    if (layout == LAYOUT_transposed) return sn_permute(t, (sn_ints){dims, rank});
    if (layout == LAYOUT_expanded) return sn_expand(t, (sn_ints){sizes, rank});
    if (layout != LAYOUT_sliced) return t;
    for (int d = 0; d < rank - 1; d++) t = sn_narrow(t, d, 1, sizes[d]);
    return sn_slice(t, rank - 1, 3, 3 + 2 * sizes[rank - 1], 2);
}

/* reading ------------------------------------------------------------------------------------- */

static DType dtype_word(Reader *r, size_t n) {
    if (n == 1 && *r->at == 'x') return r->style->dtype;
    return dtype_find(r->at, n);
}

static int64_t resized(const Resize *to, int64_t size) {
    for (; to && size > 1; to = to->also)
        if (!to->only || size == to->only) return size * to->times + to->plus;
    return size;
}

static void resize(const Resize *to, int64_t *sizes, int rank) {
    for (int d = 0; d < rank; d++) sizes[d] = resized(to, sizes[d]);
}

static Status read_tensor(Reader *r, sn_tensor **out) {
    SampleCall *const call = r->call;
    const size_t n = strcspn(r->at, "[<");
    const bool batched = isupper((unsigned char)*r->at);
    char kind = (char)tolower((unsigned char)*r->at);
    DType dtype = r->style->dtype;
    int64_t below = 0, *sizes;
    int rank;
    if (n > 1) dtype = dtype_find(r->at, n), kind = '=';
    if (kind == 'm' || kind == 'i') dtype = kind == 'm' ? DT_bool : DT_i64;
    if (!dtype || !strchr("xpuqmiw=", kind)) return mistake(r, "a tensor");
    r->at += n;
    if (eat(r, '<')) below = strtoll(r->at, (char **)&r->at, 10);
    TRY(read_ints(r, &sizes, &rank));
    resize(r->style->resize, sizes, rank);
    if (call->n_tensors == SAMPLE_TENSORS) return mistake(r, "fewer tensors");
    sn_tensor *t = laid_out(r, kind, below, dtype, sizes, rank);
    if (!t) return error_pending();
    if (r->style->leaves && dtype_is_float(dtype) && kind != 'w') t = sn_requires_grad_(t, true);
    call->batched[call->n_tensors] = batched;
    *out = call->tensors[call->n_tensors++] = t;
    return ST_OK;
}

static Status read_list(Reader *r, Arg *arg) {
    SampleCall *const call = r->call;
    Val **const list = call->vals + call->n_vals;
    int n = 0;
    while (!eat(r, ')')) {
        sn_tensor *t = NULL;
        if (strncmp(r->at, "none", 4) != 0)
            TRY(read_tensor(r, &t));
        else
            r->at += 4;
        list[n++] = t ? &t->base : NULL;
        call->n_vals++;
        eat(r, ',');
    }
    *arg = A_VALS(list, n);
    return ST_OK;
}

static Status read_string(Reader *r, Arg *arg) {
    SampleCall *const call = r->call;
    char *const to = call->chars + call->n_chars;
    const size_t n = strcspn(r->at, "'");
    memcpy(to, r->at, n);
    to[n] = 0;
    call->n_chars += (int)n + 1;
    r->at += n + 1;
    *arg = A_STR(to);
    return ST_OK;
}

static Status read_number(Reader *r, size_t n, Arg *arg) {
    char *end;
    const bool is_float = memchr(r->at, '.', n) || memchr(r->at, 'e', n) || memchr(r->at, 'n', n);
    *arg = is_float ? A_FLOAT(strtod(r->at, &end)) : A_INT(strtoll(r->at, &end, 10));
    if (end != r->at + n) return mistake(r, "a number");
    r->at = end;
    return ST_OK;
}

static Status read_arg(Reader *r, Arg *arg) {
    static const struct {
        const char *word;
        Arg arg;
    } words[] = {{"none", A_NONE}, {"true", A_BOOL(1)}, {"false", A_BOOL(0)}};
    const size_t n = strcspn(r->at, " ");
    for (int i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i].word) == n && !strncmp(words[i].word, r->at, n))
            return *arg = words[i].arg, r->at += n, ST_OK;
    if (eat(r, '(')) return read_list(r, arg);
    if (eat(r, '\'')) return read_string(r, arg);
    if (eat(r, ':')) {
        *arg = A_INT(dtype_word(r, n - 1));
        r->at += n - 1;
        return arg->i ? ST_OK : mistake(r, "a dtype");
    }
    if (*r->at == '[') {
        int64_t *ints;
        int count;
        TRY(read_ints(r, &ints, &count));
        return *arg = A_INTS(ints, count), ST_OK;
    }
    if (!memchr(r->at, '[', n)) return read_number(r, n, arg);
    sn_tensor *t;
    TRY(read_tensor(r, &t));
    return *arg = A_VAL(&t->base), ST_OK;
}

/* The number that an alias takes in place of a tensor. */
static Arg number_for(const SampleStyle *style) { return dtype_is_float(style->dtype) ? A_FLOAT(1.5) : A_INT(2); }

static bool is_number_param(const Param *param) { return param->type == PT_scalar || param->type == PT_scalar_opt; }

/* What an alias takes for its row's number or int. */
static void suit_alias(const Reader *r, int at, Arg *given) {
    const OpRow *const row = r->call->row;
    if (!row->alias_of) return;
    if (is_number_param(&row->params[at]) && given->kind == ARG_tensor) *given = number_for(r->style);
    if (row->params[at].type == PT_tensor && given->kind == ARG_int)
        *given = A_VAL(&sn_full((sn_ints){(const int64_t[]){0}, 0}, sn_int(given->i), SN_I64)->base);
}

static Status read_args(Reader *r, Arg *given) {
    const OpRow *const row = r->call->row;
    int next = 0;
    for (int i = 0; i < row->n_params; i++) given[i] = A_DEFAULT;
    while (eat(r, ' ')) {}
    while (*r->at) {
        const size_t n = strcspn(r->at, "= ");
        int at = next++;
        if (r->at[n] == '=') {
            char name[32] = "";
            memcpy(name, r->at, min_i64((int64_t)n, 31));
            at = op_param_find(row, name);
            r->at += n + 1;
        }
        if (at < 0 || at >= row->n_params) return mistake(r, "a parameter");
        TRY(read_arg(r, &given[at]));
        suit_alias(r, at, &given[at]);
        while (eat(r, ' ')) {}
    }
    return ST_OK;
}

Status sample_make(const OpRow *row, const char *line, const SampleStyle *style, SampleCall *call) {
    const size_t head = head_length(line);
    *call = (SampleCall){.row = row};
    Reader r = {head ? line + head + 1 : line, line, style, call, 7 + style->seed * 1000003};
    TRY(read_args(&r, call->given));
    if (style->number) call->given[style->number_at] = *style->number;
    return op_args_normalize(row, call->given, row->n_params, call->args);
}

static Val *val_with(const SampleCall *call, sn_tensor *const *tensors, Val *val) {
    for (int i = 0; i < call->n_tensors; i++)
        if (&call->tensors[i]->base == val) return &tensors[i]->base;
    return val;
}

void sample_with(const SampleCall *call, sn_tensor *const *tensors, SampleCall *other) {
    *other = *call;
    other->n_vals = 0;
    for (int i = 0; i < call->row->n_params; i++) {
        Arg *const arg = &other->args[i];
        if (arg->kind == ARG_tensor) arg->val = val_with(call, tensors, arg->val);
        if (arg->kind != ARG_tensors) continue;
        Val **const list = other->vals + other->n_vals;
        for (int k = 0; k < arg->n; k++) list[k] = val_with(call, tensors, arg->vals[k]);
        arg->vals = list;
        other->n_vals += arg->n;
    }
    memcpy(other->tensors, tensors, sizeof *tensors * (size_t)call->n_tensors);
}

Status sample_run(const SampleCall *call, sn_tensor **outs, int *n_outs) {
    *n_outs = call->row->n_out;
    if (call->row->returns_list) return dispatch_list(call->row, call->args, outs, n_outs);
    return dispatch(call->row, FORM_functional, call->args, NULL, outs);
}
