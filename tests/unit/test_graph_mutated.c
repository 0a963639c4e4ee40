/* test_graph_mutated.c: texts that are nearly graphs. Every golden graph is changed at random (letters, numbers, words
 * of other graphs, lines), read, checked and, where it still is a graph, called: an error or a result, never a crash.
 *
 * GRAPH_MUTATIONS=N tries N, SEED=S begins at S; a crash prints the text that it came from. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>

#include "ir/graph.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"
#include "tests/unit/contract.h"

enum { MAX_FILES = 256, MAX_TEXT = 8192, MUTATIONS = 4000, MOST_ELEMENTS = 20000 };

static char *graphs[MAX_FILES];
static int n_graphs;
static uint64_t state = 1;

static uint64_t draw(uint64_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* The texts -------------------------------------------------------------------------------------- */

/* From a line that begins with "graph" to the next line "}". */
static void consume_graph(const char *file) {
    char whole[1 << 16];
    FILE *const f = fopen(file, "r");
    const size_t n = f ? fread(whole, 1, sizeof whole - 1, f) : 0;
    if (f) fclose(f);
    whole[n] = '\0';
    const char *const from = !strncmp(whole, "graph ", 6) ? whole : strstr(whole, "\ngraph ");
    const char *const to = from ? strstr(from, "\n}") : NULL;
    if (!to || to - from > MAX_TEXT / 2 || n_graphs == MAX_FILES) return;
    graphs[n_graphs++] = strndup(from, (size_t)(to - from) + 3);
}

static void load(void) {
    glob_t found;
    ck_assert_int_eq(glob(SINTER_SOURCE_DIR "/tests/golden/*/*.sn", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) consume_graph(found.gl_pathv[i]);
    globfree(&found);
    ck_assert_int_ge(n_graphs, 40);
}

/* Changes -------------------------------------------------------------------------------------- */

typedef struct Span {
    int at, n;
} Span;

static void splice(char *text, Span by, const char *with, int n) {
    const int length = (int)strlen(text);
    if (length - by.n + n >= MAX_TEXT - 1) return;
    memmove(text + by.at + n, text + by.at + by.n, (size_t)(length - by.at - by.n + 1));
    memcpy(text + by.at, with, (size_t)n);
}

static bool in_word(char c) { return c && strchr("%._:", c) ? true : is_word_char(c); }

/* The word at or behind a random place. */
static Span word_of(const char *text) {
    int at = (int)draw(strlen(text));
    while (text[at] && !in_word(text[at])) at++;
    while (at && in_word(text[at - 1])) at--;
    int n = 0;
    while (in_word(text[at + n])) n++;
    return (Span){at, n};
}

static Span line_of(const char *text) {
    int at = (int)draw(strlen(text)), n = 0;
    while (at && text[at - 1] != '\n') at--;
    while (text[at + n] && text[at + n] != '\n') n++;
    return (Span){at, n + (text[at + n] == '\n')};
}

static void change_letter(char *text) {
    static const char letters[] = "%[](){},.:=-+*/ \n'\"0123456789sxe@!|\\#";
    const char with = letters[draw(sizeof letters - 1)];
    splice(text, (Span){(int)draw(strlen(text)), (int)draw(2)}, &with, (int)draw(2));
}

static void change_word(char *text) {
    static const char *const words[] = {"None",
                                        "True",
                                        "False",
                                        "0",
                                        "1",
                                        "-1",
                                        "2",
                                        "7",
                                        "100",
                                        "4611686018427387904",
                                        "-9223372036854775808",
                                        "9223372036854775807",
                                        "-6917529027641081855",
                                        "s0",
                                        "s1",
                                        "s0*2",
                                        "s7",
                                        "s0//3",
                                        "nan",
                                        "inf",
                                        "1e300",
                                        "-0.5",
                                        "f32",
                                        "f64",
                                        "i64",
                                        "bool",
                                        "u8",
                                        "[]",
                                        "[0]",
                                        "[1,1,1,1]",
                                        "%0",
                                        "%1",
                                        "%x",
                                        "'sum'",
                                        "default",
                                        "s3: int",
                                        "runtime(0, 1.5)",
                                        "aten::relu",
                                        "sn::view_of",
                                        "sn::view_scatter",
                                        "sn::restride",
                                        "sn::zeros_strided",
                                        "sn::gradients",
                                        "sn::overwrite",
                                        "aten::as_strided",
                                        "write",
                                        "return",
                                        "random seed=s0 sequence=s1 count=1"};
    const char *const other = graphs[draw((uint64_t)n_graphs)];
    const Span to = word_of(text), from = word_of(other);
    const char *const word = words[draw(sizeof words / sizeof *words)];
    if (draw(2))
        splice(text, to, word, (int)strlen(word));
    else
        splice(text, to, other + from.at, from.n);
}

/* Sizes, strides, dims, positions: what leaves a text a graph most often. */
static void change_number(char *text) {
    int at = (int)draw(strlen(text)), n = 0;
    char with[8];
    while (text[at] && (text[at] < '0' || text[at] > '9')) at++;
    while (text[at + n] >= '0' && text[at + n] <= '9') n++;
    splice(text, (Span){at, n}, with, snprintf(with, sizeof with, "%d", (int)draw(12) - 2));
}

static void change_line(char *text) {
    const char *const other = draw(2) ? graphs[draw((uint64_t)n_graphs)] : text;
    char line[MAX_TEXT];
    const Span from = line_of(other);
    memcpy(line, other + from.at, (size_t)from.n);
    Span to = line_of(text);
    if (draw(2)) to.n = 0;
    splice(text, to, line, draw(4) ? from.n : 0);
}

static void mutate(char *text) {
    for (uint64_t n = 1 + draw(2); n && strlen(text) > 8; n--) {
        const uint64_t kind = draw(16);
        if (kind < 2)
            change_letter(text);
        else if (kind < 7)
            change_word(text);
        else if (kind < 14)
            change_number(text);
        else
            change_line(text);
    }
}

/* Calls -------------------------------------------------------------------------------------- */

static bool small(const Graph *graph, const Meta *meta, const int64_t *symbols) {
    double elements = 1, span = 1;
    for (int d = 0; d < meta->rank; d++) {
        const double size = (double)sym_eval(graph->env, meta->sizes[d], symbols);
        elements *= size;
        span += (size > 1 ? size - 1 : 0) * (double)sym_eval(graph->env, meta->strides[d], symbols);
        if (size < 0 || span < 0) return false;
    }
    return elements <= MOST_ELEMENTS && span <= MOST_ELEMENTS;
}

static sn_tensor *made(const Graph *graph, const Meta *meta, const int64_t *symbols) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK], span = 1;
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = sym_eval(graph->env, meta->sizes[d], symbols);
        strides[d] = sym_eval(graph->env, meta->strides[d], symbols);
        span += (sizes[d] ? sizes[d] - 1 : 0) * strides[d];
    }
    sn_tensor *const whole = sn_ones((sn_ints){&span, 1}, (sn_dtype)meta->dtype);
    return sn_as_strided(whole, (sn_ints){sizes, meta->rank}, (sn_ints){strides, meta->rank}, 0);
}

/* All values are small: a call of this graph ends soon. */
static bool runs_soon(const Graph *graph, const int64_t *symbols) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (!small(graph, graph->inputs.at[i]->base.meta, symbols)) return false;
    for (const Node *node = graph->first; node; node = node->next)
        for (int i = 0; i < node->n_outs; i++)
            if (!small(graph, node->outs[i].base.meta, symbols)) return false;
    return true;
}

static int call(sn_graph *g, const Graph *graph) {
    int64_t symbols[64];
    sn_value in[256];
    sn_tensor *out[256];
    const int n_in = graph->inputs.n + graph->int_inputs.n;
    if (sym_free_count(graph->env) > 64 || n_in > 256 || graph->outputs.n > 256) return 0;
    for (int i = 0; i < 64; i++) symbols[i] = 2 + (int64_t)draw(4);
    if (!runs_soon(graph, symbols)) return 0;
    for (int i = 0, k = 0; i + k < n_in;)
        if (k < graph->int_inputs.n && graph->int_inputs.at[k].before == i) {
            in[i + k] = sn_int(sym_eval(graph->env, graph->int_inputs.at[k].symbol, symbols));
            k++;
        } else {
            in[i + k] = sn_val(made(graph, graph->inputs.at[i]->base.meta, symbols));
            i++;
        }
    sn_function *const fn =
        sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = draw(4) ? SN_COMPILE_EAGER : SN_COMPILE_VERIFY));
    bool called = false;
    for (int i = 0; fn && i < 2 && !sn_check(); i++)
        called = sn_call_values(fn, in, n_in, out, graph->outputs.n) == SN_OK;
    sn_error_take();
    sn_function_free(fn);
    return called;
}

static char text[MAX_TEXT];

static void on_crash(int number) {
    signal(number, SIG_DFL);
    fprintf(stderr, "signal %d from\n%s\n", number, text);
    raise(number);
}

/* 0: no graph, 1: one, 2: it was called. */
static int attempt(void) {
    Arena *const arena = arena_new();
    Graph *graph = NULL;
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    const sn_scope scope = sn_scope_begin();
    int result = 0;
    if (g && sn_graph_check(g) == SN_OK && graph_parse(arena, text, strlen(text), &graph) == ST_OK)
        result = 1 + call(g, graph);
    else
        ck_assert_msg(strchr(sn_error_take()->message, '\n') == NULL, "more than a line, of\n%s", text);
    sn_error_take();
    sn_scope_end(scope);
    sn_graph_free(g);
    arena_free(arena);
    return result;
}

START_TEST(nearly_graphs) {
    int results[3] = {0};
    const char *const count = getenv("GRAPH_MUTATIONS"), *const seed = getenv("SEED");
    const int signals[] = {SIGSEGV, SIGFPE, SIGABRT, SIGBUS};
    for (int i = 0; i < 4; i++) signal(signals[i], on_crash);
    load();
    for (int i = 0, n = count ? atoi(count) : MUTATIONS; i < n; i++) {
        state = (seed ? strtoull(seed, NULL, 10) : 1) + (uint64_t)i * 7919;
        draw(2);
        strcpy(text, graphs[draw((uint64_t)n_graphs)]);
        if (i >= n_graphs)
            mutate(text);
        else
            strcpy(text, graphs[i]); /* as it is */
        results[attempt()]++;
    }
    for (int i = 0; i < n_graphs; i++) free(graphs[i]);
    printf("%d no graphs, %d not called, %d called\n", results[0], results[1], results[2]);
    ck_assert_int_gt(results[0], 0);
    ck_assert_int_gt(results[2], 0); /* some changes leave a graph */
}
END_TEST

int main(void) {
    const TTest *const tests[] = {nearly_graphs};
    return contract_main("test_graph_mutated", tests, (int)(sizeof tests / sizeof *tests));
}
