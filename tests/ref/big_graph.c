/* big_graph.c: the generators. Values of a text graph are numbered in the order in which they are written. */
#include "tests/ref/big_graph.h"

#include <stdio.h>
#include <string.h>

static void make_chain(Text *text, int n) {
    static const char *const ops[] = {"add.Tensor", "mul.Tensor", "relu", "neg"}; /* the first two take %b */
    text_printf(text, "graph chain(%%x: f32[64,64], %%b: f32[64]) {\n  %%0 = aten::add.Tensor(%%x, %%b)\n");
    for (int i = 1; i < n; i++)
        text_printf(text, "  %%%d = aten::%s(%%%d%s)\n", i, ops[i % 4], i - 1, i % 4 < 2 ? ", %b" : "");
    text_printf(text, "  return %%%d\n}\n", n - 1);
}

static void make_layers(Text *text, int n) {
    text_printf(text, "graph layers(%%x: f32[64,64], %%w: f32[64,64], %%b: f32[64]) {\n");
    text_printf(text, "  %%0 = aten::mm(%%x, %%w)\n");
    for (int i = 1; i < n; i++) {
        static const char *const ops[] = {"mm", "add.Tensor", "relu", "mul.Tensor"}, *const with[] = {", %w", ", %b",
                                                                                                      "", ", %b"};
        text_printf(text, "  %%%d = aten::%s(%%%d%s)\n", i, ops[i % 4], i - 1, with[i % 4]);
    }
    text_printf(text, "  return %%%d\n}\n", n - 1);
}

static void make_heads(Text *text, int n) {
    text_printf(text, "graph heads(%%x: f32[64,64], %%s: f32[]) {\n");
    for (int i = 0; i < n; i++) {
        text_printf(text, "  %%%d = aten::add.Scalar(%%s, %d)\n", 2 * i, i);
        text_printf(text, "  %%%d = aten::mul.Tensor(%%x, %%%d)\n", 2 * i + 1, 2 * i);
    }
    text_printf(text, "  return ");
    for (int i = 0; i < n; i++) text_printf(text, "%s%%%d", i ? ", " : "", 2 * i + 1);
    text_printf(text, "\n}\n");
}

/* GPT-2 --------------------------------------------------------------------------------------- */

static const struct Param {
    const char *name, *sizes;
} params[] = {{"ln1w", "[768]"},     {"ln1b", "[768]"}, {"qkvw", "[768,2304]"},  {"qkvb", "[2304]"},
              {"ow", "[768,768]"},   {"ob", "[768]"},   {"ln2w", "[768]"},       {"ln2b", "[768]"},
              {"upw", "[768,3072]"}, {"upb", "[3072]"}, {"downw", "[3072,768]"}, {"downb", "[768]"}};
enum { N_PARAMS = sizeof params / sizeof *params };

/* One line that makes the next value; its number. */
#define LINE(...)                                                                                                      \
    (text_printf(text, "  %%%d = aten::", *next), text_printf(text, __VA_ARGS__), text_puts(text, "\n"), (*next)++)

static int norm(Text *text, int *next, int x, int layer, int which) {
    const int first = *next;
    text_printf(text, "  %%%d, %%%d, %%%d = aten::native_layer_norm(%%%d, [768], %%ln%dw%d, %%ln%db%d, 1e-05)\n", first,
                first + 1, first + 2, x, which, layer, which, layer);
    *next += 3;
    return first;
}

static int attention(Text *text, int *next, int x, int layer) {
    int part[3];
    const int all = LINE("addmm(%%qkvb%d, %%%d, %%qkvw%d)", layer, x, layer);
    const int heads = LINE("view(%%%d, [2,64,3,12,64])", all), front = LINE("permute(%%%d, [2,0,3,1,4])", heads);
    for (int i = 0; i < 3; i++) part[i] = LINE("select.int(%%%d, 0, %d)", front, i);
    const int mixed =
        LINE("scaled_dot_product_attention(%%%d, %%%d, %%%d, None, 0.0, True)", part[0], part[1], part[2]);
    const int back = LINE("transpose.int(%%%d, 1, 2)", mixed), rows = LINE("reshape(%%%d, [128,768])", back);
    return LINE("addmm(%%ob%d, %%%d, %%ow%d)", layer, rows, layer);
}

static int mlp(Text *text, int *next, int x, int layer) {
    const int up = LINE("addmm(%%upb%d, %%%d, %%upw%d)", layer, x, layer);
    const int active = LINE("gelu(%%%d, approximate='tanh')", up);
    return LINE("addmm(%%downb%d, %%%d, %%downw%d)", layer, active, layer);
}

static void adamw(Text *text, int *next, const char *p, int layer, int grad) {
    LINE("mul_.Tensor(%%%s%d, %%decay)", p, layer);
    const int m = LINE("lerp_.Scalar(%%m_%s%d, %%%d, 0.1)", p, layer, grad);
    const int decayed = LINE("mul_.Tensor(%%v_%s%d, 0.999)", p, layer);
    const int v = LINE("addcmul_(%%%d, %%%d, %%%d, value=0.001)", decayed, grad, grad);
    const int root = LINE("sqrt(%%%d)", v), part = LINE("div.Tensor(%%%d, %%root)", root);
    const int under = LINE("add.Scalar(%%%d, 1e-08)", part), over = LINE("mul.Tensor(%%%d, %%size)", m);
    LINE("addcdiv_(%%%s%d, %%%d, %%%d)", p, layer, over, under);
}

static void gpt2_inputs(Text *text, int layers) {
    text_printf(text,
                "graph gpt2(%%x: f32[128,768], %%target: f32[128,768], %%decay: f32[], %%size: f32[], %%root: f32[]");
    for (int l = 0; l < layers; l++)
        for (int i = 0; i < N_PARAMS; i++) {
            static const char *const prefix[] = {"", "m_", "v_"};
            for (int k = 0; k < 3; k++)
                text_printf(text, ", %%%s%s%d: f32%s", prefix[k], params[i].name, l, params[i].sizes);
        }
    text_printf(text, ") {\n");
}

static void make_gpt2(Text *text, int layers) {
    int count = 0, *const next = &count;
    gpt2_inputs(text, layers);
    int x = LINE("add.Scalar(%%x, 0.5)");
    for (int l = 0; l < layers; l++) {
        const int mixed = attention(text, next, norm(text, next, x, l, 1), l);
        x = LINE("add.Tensor(%%%d, %%%d)", x, mixed);
        const int fed = mlp(text, next, norm(text, next, x, l, 2), l);
        x = LINE("add.Tensor(%%%d, %%%d)", x, fed);
    }
    const int loss = LINE("mse_loss(%%%d, %%target)", x), first = *next;
    const int one = LINE("ones_like(%%%d)", loss);
    *next += layers * N_PARAMS;
    text_puts(text, "  ");
    for (int i = 0; i < layers * N_PARAMS; i++) text_printf(text, "%s%%%d", i ? ", " : "", first + 1 + i);
    text_printf(text, " = sn::gradients([%%%d], [%%%d], [", loss, one);
    for (int i = 0; i < layers * N_PARAMS; i++)
        text_printf(text, "%s%%%s%d", i ? ", " : "", params[i % N_PARAMS].name, i / N_PARAMS);
    text_printf(text, "], [], [], False)\n");
    for (int i = 0; i < layers * N_PARAMS; i++)
        adamw(text, next, params[i % N_PARAMS].name, i / N_PARAMS, first + 1 + i);
    text_printf(text, "  return %%%d\n}\n", loss);
}

bool big_graph(Text *text, const char *kind, int n) {
    static const struct {
        const char *kind;
        void (*make)(Text *text, int n);
    } kinds[] = {{"chain", make_chain}, {"layers", make_layers}, {"heads", make_heads}, {"gpt2", make_gpt2}};
    for (int i = 0; i < COUNT_OF(kinds); i++)
        if (!strcmp(kind, kinds[i].kind)) {
            kinds[i].make(text, n);
            return true;
        }
    return false;
}
