/* extend.c: see extend.h. */
#include "tests/fuzz/extend.h"

#include <stdlib.h>
#include <string.h>

/* Backends ----------------------------------------------------------------------------------- */

static sn_function *runs_op_by_op(sn_graph *g, void *closure) {
    (void)closure;
    return sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}

typedef struct Flaky {
    sn_function *fn;
    int runs, n_out;
} Flaky;

enum { MOST = 4096 };

/* Every third call fails, every third gives the results of a smaller type. */
static sn_status runs_at_times(sn_frame *f) {
    Flaky *const flaky = sn_closure(f);
    sn_tensor *in[MOST], *out[MOST];
    const int n = sn_in_count(f), run = flaky->runs++;
    if (n > MOST) return sn_fail(SN_ERR_UNSUPPORTED, "more arguments than it has room for");
    if (run % 3 == 1) return sn_fail(SN_ERR_IO, "not now");
    for (int i = 0; i < n; i++) in[i] = sn_in(f, i);
    if (sn_call(flaky->fn, in, n, out, flaky->n_out) != SN_OK) return sn_check();
    for (int i = 0; i < flaky->n_out; i++) sn_out(f, i, run % 3 == 2 ? sn_to(out[i], SN_BOOL) : out[i]);
    return sn_check();
}

static void free_flaky(void *closure, void *context) {
    (void)context;
    sn_function_free(((Flaky *)closure)->fn);
    free(closure);
}

/* As the text says. */
static int count_results(sn_graph *g) {
    const char *at = strstr(sn_graph_text(g), "\n  return ");
    int n = at != NULL;
    for (at = at ? at + 1 : ""; *at && *at != '\n'; at++) n += at[0] == ',' && at[1] == ' ' && at[2] == '%';
    return n;
}

static sn_function *fails_at_times(sn_graph *g, void *closure) {
    (void)closure;
    sn_function *const fn = runs_op_by_op(g, NULL);
    Flaky *const flaky = fn ? malloc(sizeof *flaky) : NULL;
    if (!flaky) return NULL;
    *flaky = (Flaky){fn, 0, count_results(g)};
    if (flaky->n_out > MOST) {
        free_flaky(flaky, NULL);
        return NULL;
    }
    return sn_compile(runs_at_times, flaky, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER, .closure_free = free_flaky));
}

const char *fz_backend(uint64_t seed) {
    static const char *const names[] = {NULL,    "aot_eager",   "op by op", "fails at times",
                                        "eager", "interpreter", "unfused"};
    static bool registered;
    if (!registered) {
        sn_backend_register("op by op", "1", runs_op_by_op, NULL);
        sn_backend_register("fails at times", NULL, fails_at_times, NULL);
        registered = true;
    }
    return names[seed % (sizeof names / sizeof *names)];
}

/* Passes -------------------------------------------------------------------------------------- */

/* Each gives the bits of what it replaces; where gradients are still to come, those behind the doubled ones: x + x
 * sends two gradients, which meet others of x in another order than one twice as large. */
typedef struct Rule {
    const char *pattern, *replacement;
} Rule;

static const Rule rules[] = {
    {"graph p(%x: f32[s0]) {\n  %0 = aten::mul.Tensor(%x, 2.0)\n  return %0\n}\n",
     "graph r(%x: f32[s0]) {\n  %0 = aten::add.Tensor(%x, %x)\n  return %0\n}\n"},
    {"graph p(%x: f32[s0,s1]) {\n  %0 = aten::mul.Tensor(%x, 2.0)\n  return %0\n}\n",
     "graph r(%x: f32[s0,s1]) {\n  %0 = aten::add.Tensor(%x, %x)\n  return %0\n}\n"},
    {"graph p(%x: f32[s0,s1], %y: f32[s0,s1]) {\n  %0 = aten::add.Tensor(%x, %y)\n  return %0\n}\n",
     "graph r(%x: f32[s0,s1], %y: f32[s0,s1]) {\n  %0 = aten::add.Tensor(%y, %x)\n  return %0\n}\n"},
    {"graph p(%x: f32[s0], %y: f32[s0]) {\n  %0 = aten::mul.Tensor(%x, %y)\n  return %0\n}\n",
     "graph r(%x: f32[s0], %y: f32[s0]) {\n  %0 = aten::mul.Tensor(%y, %x)\n  return %0\n}\n"},
    {"graph p(%x: f32[s0,s1], %y: f32[s0,s1]) {\n  %0 = aten::sub.Tensor(%x, %y)\n  %1 = aten::neg(%0)\n"
     "  %2 = aten::neg(%1)\n  return %2\n}\n",
     "graph r(%x: f32[s0,s1], %y: f32[s0,s1]) {\n  %0 = aten::sub.Tensor(%x, %y)\n  return %0\n}\n"},
    {"graph p(%x: f32[s0,s1]) {\n  %0 = aten::neg(%x)\n  return %0\n}\n",
     "graph r(%x: f32[s0,s1]) {\n  %0 = aten::neg(%x)\n  return %0\n}\n"},
};

enum { DOUBLED = 2 };
static int first_of_all = 0, first_with_gradients = DOUBLED;

static sn_status rewrites(sn_graph *g, void *closure) {
    for (int i = *(const int *)closure; i < (int)(sizeof rules / sizeof *rules); i++)
        if (sn_graph_rewrite(g, rules[i].pattern, rules[i].replacement) < 0) return sn_check();
    return sn_graph_check(g);
}

static sn_status looks(sn_graph *g, void *closure) {
    (void)closure;
    sn_node *found[4];
    for (int i = 0; i < sn_graph_count(g); i++) {
        sn_node *const n = sn_graph_node(g, i);
        for (int k = 0; k < sn_node_in_count(n); k++) sn_node_op(sn_node_in(n, k));
    }
    sn_graph_match(g, rules[0].pattern, NULL, found, 4);
    return sn_graph_run(g, "cse,dce");
}

static bool is_on(uint64_t seed, int which) { return seed / 7 >> which & 1; }

void fz_passes_begin(uint64_t seed) {
    if (is_on(seed, 0)) sn_pass_register(SN_PASS_CAPTURED, rewrites, &first_with_gradients, "rewrites captured", "1");
    if (is_on(seed, 1)) sn_pass_register(SN_PASS_JOINT, rewrites, &first_of_all, "rewrites joint", NULL);
    if (is_on(seed, 2)) sn_pass_register(SN_PASS_DECOMPOSED, rewrites, &first_of_all, "rewrites decomposed", "1");
    if (is_on(seed, 3)) sn_pass_register(SN_PASS_JOINT, looks, NULL, "looks", NULL);
}

void fz_passes_end(void) {
    static const char *const names[] = {"rewrites captured", "rewrites joint", "rewrites decomposed", "looks"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (sn_pass_remove(names[i]) != SN_OK) sn_error_take();
}

/* Stances ------------------------------------------------------------------------------------- */

sn_stance fz_stance(uint64_t seed, int i) {
    const uint64_t at = seed * 31 + (uint64_t)i * 17;
    return at % 5 == 3 ? SN_STANCE_FORCE_EAGER : at % 5 == 1 ? SN_STANCE_EAGER_ON_RECOMPILE : SN_STANCE_DEFAULT;
}
