/* headers.c: fuzz --headers N: random graphs from text whose sizes are symbols of the header, with bounds, as
 * expressions that are solved, or tied by what the header assumes. Each is called at several sizes that the header
 * allows: bits are eager's, no op runs eagerly, from the first call on, and one compile serves all sizes; gradients
 * too in every third. A size outside of the bounds is an error.
 *
 *     graph g[s0=9>=2<=40, s1=7>=2<=40](%x0: f32[s0,s1], %x1: f32[s0*2,s1]) {
 *       %0 = aten::cat([%x0, %x0], 0)         values are known by their two sizes, as texts: "s0*2", "s1"
 *       %1 = aten::add.Tensor(%0, %x1)
 *       return %1
 *
 * Beside ops of two dims: recurrent layers, halves, pads by a remainder, sizes by factors, attention. */
#include <inttypes.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "tests/fuzz/headers.h"
#include "tests/fuzz/run.h"

enum {
    DRAWN = 3,
    INPUTS = DRAWN + 2,
    MOST_VALUES = 40,
    OPS = 9,
    CALLS = 5,
    LOW = 2,
    HIGH = 40,
    SIZE_TEXT = 48,
    RETURNS = 3
};

typedef struct Sized { /* a value: two sizes, each an expression of s0 and s1 */
    char name[16], sizes[2][SIZE_TEXT];
} Sized;

typedef struct HeaderProgram {
    uint64_t seed;
    int drawn, n, n_in, n_ops;
    Sized values[MOST_VALUES];
    bool tied; /* s1 is s0 * 2: the header assumes it */
    Text text;
} HeaderProgram;

static int draw(HeaderProgram *p, int below) {
    return (int)((hash_mix(p->seed * 2654435761u + 17, (uint64_t)++p->drawn) >> 20) % (uint64_t)below);
}

static Sized *any_value(HeaderProgram *p) { return &p->values[draw(p, p->n)]; }

static Sized *new_value(HeaderProgram *p, const char *rows, const char *columns) {
    Sized *const made = &p->values[p->n++];
    snprintf(made->name, sizeof made->name, "%%%d", p->n_ops++);
    snprintf(made->sizes[0], SIZE_TEXT, "%s", rows);
    snprintf(made->sizes[1], SIZE_TEXT, "%s", columns);
    text_printf(&p->text, "  %s = ", made->name);
    return made;
}

/* Of a recurrent layer. */
static void add_weights(HeaderProgram *p) {
    static const char *const names[] = {"%w", "%u"}, *const columns[] = {"1", "4"};
    for (int i = 0; i < 2; i++) {
        Sized *const in = &p->values[p->n++];
        p->n_in++;
        snprintf(in->name, sizeof in->name, "%s", names[i]);
        snprintf(in->sizes[0], SIZE_TEXT, "4");
        snprintf(in->sizes[1], SIZE_TEXT, "%s", columns[i]);
        text_printf(&p->text, ", %s: f32[4,%s]", names[i], columns[i]);
    }
}

static const char *const input_sizes[] = {"s0", "s1", "s0*2", "s1+3", "s0+s1", "4", "s1*3-1"};
enum { INPUT_SIZES = sizeof input_sizes / sizeof *input_sizes };

static void add_inputs(HeaderProgram *p) {
    p->n_in = 1 + draw(p, DRAWN);
    p->tied = draw(p, 4) == 0;
    text_printf(&p->text, "graph g[s0=9>=%d<=%d, s1=7>=%d<=%d%s](", LOW, HIGH, LOW, 2 * HIGH,
                p->tied ? "; s1==s0*2" : "");
    for (int i = 0; i < p->n_in; i++) {
        Sized *const in = &p->values[p->n++];
        const bool first = i == 0; /* so that each symbol has its size: alone or solved */
        snprintf(in->name, sizeof in->name, "%%x%d", i);
        snprintf(in->sizes[0], SIZE_TEXT, "%s",
                 first ? (draw(p, 2) ? "s0*2" : "s0") : input_sizes[draw(p, INPUT_SIZES)]);
        snprintf(in->sizes[1], SIZE_TEXT, "%s",
                 first ? (draw(p, 2) ? "s0+s1" : "s1") : input_sizes[draw(p, INPUT_SIZES)]);
        text_printf(&p->text, "%s%s: f32[%s,%s]", i ? ", " : "", in->name, in->sizes[0], in->sizes[1]);
    }
    add_weights(p);
    text_puts(&p->text, ") {\n");
}

/* Is it at least 2, whatever the symbols are? Sizes of inputs are. */
static bool is_wide(const char *size) {
    bool any = false;
    for (int i = 0; i < INPUT_SIZES; i++) any |= !strcmp(size, input_sizes[i]);
    return any;
}

/* An op whose value gets sizes back by a view. */
static void back(HeaderProgram *p, const char *rows, const char *columns) {
    const int last = p->n_ops - 1;
    new_value(p, rows, columns);
    text_printf(&p->text, "aten::view(%%%d, [%s, %s])\n", last, rows, columns);
}

/* A value with one more dim; its number. */
static int unsqueezed(HeaderProgram *p, const char *name, int dim) {
    text_printf(&p->text, "  %%%d = aten::unsqueeze(%s, %d)\n", p->n_ops, name, dim);
    return p->n_ops++;
}

/* A recurrent layer over the rows, of as many sequences as there are columns. */
static void add_layer(HeaderProgram *p, const Sized *a) {
    unsqueezed(p, a->name, 2);
    text_printf(&p->text, "  %%%d = aten::zeros([1, %s, 4], dtype=f32, device=cpu)\n", p->n_ops, a->sizes[1]);
    const int zeros = p->n_ops++;
    text_printf(&p->text,
                "  %%%d, %%%d = aten::rnn_tanh.input(%%%d, %%%d, [%%w, %%u], False, 1, 0.0, False, False, False)\n",
                zeros + 1, zeros + 2, zeros - 1, zeros);
    p->n_ops += 2;
    new_value(p, a->sizes[0], a->sizes[1]);
    text_printf(&p->text, "aten::sum.dim_IntList(%%%d, [2])\n", zeros + 1);
}

/* One of the halves, of odd sizes too. */
static void add_half(HeaderProgram *p, const Sized *a) {
    char size[2][2 * SIZE_TEXT + 16];
    const int which = draw(p, 2), first = p->n_ops;
    snprintf(size[0], sizeof size[0], "(%s+1)//2", a->sizes[1]);
    snprintf(size[1], sizeof size[1], "%s-(%s+1)//2", a->sizes[1], a->sizes[1]);
    text_printf(&p->text, "  %%%d, %%%d = aten::chunk(%s, 2, 1)\n", first, first + 1, a->name);
    p->n_ops += 2;
    new_value(p, a->sizes[0], size[which]);
    text_printf(&p->text, "aten::tanh(%%%d)\n", first + which);
}

static void add_resampled(HeaderProgram *p, const Sized *a) {
    char name[16], size[2][SIZE_TEXT + 16];
    snprintf(name, sizeof name, "%%%d", unsqueezed(p, a->name, 0));
    const int whole = unsqueezed(p, name, 0);
    text_printf(&p->text, "  %%%d = aten::upsample_nearest2d.vec(%%%d, None, [2.0, 1.5])\n", p->n_ops++, whole);
    snprintf(size[0], sizeof size[0], "(%s)*2", a->sizes[0]);
    snprintf(size[1], sizeof size[1], "((%s)*3)//2", a->sizes[1]);
    back(p, size[0], size[1]);
}

/* By the root of a size. */
static void add_attention(HeaderProgram *p, const Sized *a) {
    const int q = unsqueezed(p, a->name, 0);
    text_printf(&p->text, "  %%%d = aten::scaled_dot_product_attention(%%%d, %%%d, %%%d, None, 0.0, %s)\n", p->n_ops++,
                q, q, q, draw(p, 2) ? "True" : "False");
    back(p, a->sizes[0], a->sizes[1]);
}

/* Not where gradients are asked for: that of a pad cuts, or does not. */
static void add_pad(HeaderProgram *p, const Sized *a) {
    char size[2 * SIZE_TEXT + 16];
    if (p->seed % 3 == 0) return;
    snprintf(size, sizeof size, "%s+(%s)%%2", a->sizes[1], a->sizes[1]);
    new_value(p, a->sizes[0], size);
    text_printf(&p->text, "aten::constant_pad_nd(%s, [0, (%s)%%2], 0.5)\n", a->name, a->sizes[1]);
}

static void add_variance(HeaderProgram *p, const Sized *a) {
    new_value(p, a->sizes[0], "1");
    text_printf(&p->text, "aten::var.correction(%s, [1], correction=1.0, keepdim=True)\n", a->name);
}

/* What has more dims, several results, or numbers made of sizes. */
static void add_large_op(HeaderProgram *p) {
    static void (*const adds[])(HeaderProgram * p, const Sized *a) = {add_layer,     add_half, add_resampled,
                                                                      add_attention, add_pad,  add_variance};
    const Sized a = *any_value(p);
    if (is_wide(a.sizes[0]) && is_wide(a.sizes[1])) adds[draw(p, sizeof adds / sizeof *adds)](p, &a);
}

/* One more op on a value, or two that fit. */
static void add_op(HeaderProgram *p) {
    static const char *const unary[] = {"relu", "tanh", "sigmoid", "exp", "neg", "gelu"};
    const Sized a = *any_value(p), b = *any_value(p);
    char size[2 * SIZE_TEXT + 16];
    const bool long_text = strlen(a.sizes[0]) + strlen(a.sizes[1]) + strlen(b.sizes[1]) > SIZE_TEXT / 2;
    switch (draw(p, 12)) {
    case 0:
        new_value(p, a.sizes[1], a.sizes[0]);
        text_printf(&p->text, "aten::transpose.int(%s, 0, 1)\n", a.name);
        return;
    case 1:
        new_value(p, a.sizes[0], "1");
        text_printf(&p->text, "aten::sum.dim_IntList(%s, [1], True)\n", a.name);
        return;
    case 2:
        new_value(p, "1", a.sizes[1]);
        text_printf(&p->text, "aten::mean.dim(%s, [0], True)\n", a.name);
        return;
    case 3:
        new_value(p, a.sizes[0], a.sizes[1]);
        text_printf(&p->text, "aten::softmax.int(%s, 1)\n", a.name);
        return;
    case 4:
        snprintf(size, sizeof size, "(%s)*(%s)", a.sizes[0], a.sizes[1]);
        if (long_text) break;
        new_value(p, "1", size);
        text_printf(&p->text, "aten::reshape(%s, [1, %s])\n", a.name, size);
        return;
    case 5:
        if (strcmp(a.sizes[1], b.sizes[1]) || long_text) break;
        snprintf(size, sizeof size, "%s+%s", a.sizes[0], b.sizes[0]);
        new_value(p, size, a.sizes[1]);
        text_printf(&p->text, "aten::cat([%s, %s], 0)\n", a.name, b.name);
        return;
    case 6:
        if (long_text || !strcmp(a.sizes[0], "1")) break;
        snprintf(size, sizeof size, "(%s)//2", a.sizes[0]);
        new_value(p, size, a.sizes[1]);
        text_printf(&p->text, "aten::slice.Tensor(%s, 0, 0, %s)\n", a.name, size);
        return;
    case 7:
        if (strcmp(a.sizes[1], b.sizes[1])) break;
        new_value(p, a.sizes[0], b.sizes[0]);
        text_printf(&p->text, "aten::linear(%s, %s)\n", a.name, b.name);
        return;
    case 8:
    case 9:
        if (strcmp(a.sizes[0], b.sizes[0]) || strcmp(a.sizes[1], b.sizes[1])) break;
        new_value(p, a.sizes[0], a.sizes[1]);
        text_printf(&p->text, "aten::%s.Tensor(%s, %s)\n", draw(p, 2) ? "add" : "mul", a.name, b.name);
        return;
    default:
        break;
    }
    new_value(p, a.sizes[0], a.sizes[1]);
    text_printf(&p->text, "aten::%s(%s)\n", unary[draw(p, 6)], a.name);
}

static void make_program(HeaderProgram *p, uint64_t seed) {
    *p = (HeaderProgram){.seed = seed};
    add_inputs(p);
    const int n = 2 + draw(p, OPS);
    add_op(p);
    for (int i = 1; i < n; i++)
        if (draw(p, 4))
            add_op(p);
        else
            add_large_op(p);
    text_puts(&p->text, "  return ");
    for (int i = 0; i < RETURNS && i < p->n_ops; i++) text_printf(&p->text, "%s%%%d", i ? ", " : "", p->n_ops - 1 - i);
    text_puts(&p->text, "\n}\n");
}

/* The sizes of inputs are sums and products of few terms. */
static int64_t eval_size(const char *text, const int64_t *symbols) {
    int64_t sum = 0;
    for (const char *at = text; *at;) {
        const int sign = *at == '-' ? -1 : 1;
        if (*at == '+' || *at == '-') at++;
        int64_t product = sign;
        for (;;) {
            char *end;
            const bool symbol = *at == 's';
            const int64_t number = strtoll(at + symbol, &end, 10);
            product *= symbol ? symbols[number] : number;
            at = end;
            if (*at != '*') break;
            at++;
        }
        sum += product;
    }
    return sum;
}

static sn_tensor *make_input(const HeaderProgram *p, int i, const int64_t *symbols, uint64_t seed, bool grad) {
    const int64_t sizes[2] = {eval_size(p->values[i].sizes[0], symbols), eval_size(p->values[i].sizes[1], symbols)};
    const int64_t n = sizes[0] * sizes[1];
    float *const data = malloc((size_t)(n + 1) * sizeof *data);
    for (int64_t k = 0; k < n; k++)
        data[k] = (float)((double)(hash_mix(seed + (uint64_t)i, (uint64_t)k) >> 40) * 0x1p-23 - 1.0);
    sn_tensor *const t = sn_from_data(data, (sn_ints){sizes, 2}, SN_F32);
    free(data);
    return grad ? sn_requires_grad_(t, true) : t;
}

/* What a call gives: results, then gradients; false: it failed. */
static bool seen(const HeaderProgram *p, sn_function *fn, const int64_t *symbols, uint64_t seed, bool grad, Text *out) {
    sn_tensor *in[INPUTS], *results[RETURNS] = {NULL};
    const int n_out = p->n_ops < RETURNS ? p->n_ops : RETURNS;
    for (int i = 0; i < p->n_in; i++) in[i] = make_input(p, i, symbols, seed, grad);
    if (sn_call(fn, in, p->n_in, results, n_out) != SN_OK) return false;
    if (grad && sn_backward(sn_sum(results[0])) != SN_OK) return false;
    for (int i = 0; i < n_out + (grad ? p->n_in : 0); i++) {
        sn_tensor *const t = i < n_out ? results[i] : sn_grad(in[i - n_out]);
        sn_tensor *const whole = t ? sn_contiguous(sn_detach(t)) : NULL;
        const uint32_t *const bits = whole ? sn_data(whole, SN_F32) : NULL;
        for (int d = 0; t && d < 2; d++) text_printf(out, "%" PRId64 " ", sn_size(t, d));
        for (int64_t k = 0; bits && k < sn_numel(whole); k++) text_printf(out, "%08" PRIx32, bits[k]);
        text_puts(out, "\n");
    }
    return true;
}

static bool fails(const HeaderProgram *p, const char *why) {
    const sn_error *const error = sn_error_take();
    printf("headers: seed %" PRIu64 ": %s%s%s\n%s", p->seed, why, error && error->message[0] ? ": " : "",
           error && error->message[0] ? error->message : "", text_str((Text *)(uintptr_t)&p->text));
    return false;
}

static bool calls_agree(HeaderProgram *p, sn_function *fn, sn_function *eager) {
    const bool grad = p->seed % 3 == 0;
    for (int call = 0; call < CALLS; call++) {
        int64_t symbols[2] = {LOW + draw(p, HIGH - LOW + 1), LOW + draw(p, HIGH)};
        if (p->tied) symbols[1] = 2 * symbols[0];
        Text got = {0}, want = {0};
        const sn_scope scope = sn_scope_begin();
        const bool ran = seen(p, fn, symbols, p->seed + (uint64_t)call, grad, &got) &&
                         seen(p, eager, symbols, p->seed + (uint64_t)call, grad, &want);
        const bool same = ran && !strcmp(text_str(&got), text_str(&want));
        sn_scope_end(scope);
        text_free(&got);
        text_free(&want);
        if (!ran) return fails(p, "a call failed");
        if (!same) return fails(p, "bits differ");
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    if (stats.ops_eager) return fails(p, "an op ran eagerly");
    return stats.compiles == 1 || fails(p, "more than one compile");
}

static bool refuses_large(HeaderProgram *p, sn_function *fn) {
    const int64_t symbols[2] = {HIGH + 1, p->tied ? 2 * HIGH + 2 : LOW};
    Text got = {0};
    const sn_scope scope = sn_scope_begin();
    const bool ran = seen(p, fn, symbols, p->seed, false, &got);
    sn_scope_end(scope);
    text_free(&got);
    if (ran) return fails(p, "a size outside of the bounds was taken");
    return !strncmp(sn_error_take()->message, "graph g: s", 10) || fails(p, "another error than of the bounds");
}

static bool run_program(uint64_t seed, bool told) {
    HeaderProgram program, *const p = &program;
    make_program(p, seed);
    if (told) printf("seed %" PRIu64 "\n%s", seed, text_str(&p->text));
    sn_graph *const g = sn_graph_parse(text_str(&p->text), p->text.n);
    const sn_compile_mode mode = seed % 2 ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY;
    sn_function *const fn = g ? sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = mode)) : NULL;
    sn_function *const eager = g ? sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)) : NULL;
    const bool good =
        fn && eager ? calls_agree(p, fn, eager) && refuses_large(p, fn) : fails(p, "the graph was not taken");
    if (fn) sn_function_free(fn);
    if (eager) sn_function_free(eager);
    if (g) sn_graph_free(g);
    text_free(&p->text);
    return good;
}

int fz_headers(int64_t n, uint64_t seed, bool told) {
    int64_t failed = 0;
    for (int64_t i = 0; i < n; i++) failed += !run_program(seed + (uint64_t)i, told);
    printf("headers: %" PRId64 " graphs, %" PRId64 " failed\n", n, failed);
    return failed != 0;
}
