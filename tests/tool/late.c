/* late.c LIBRARY: a program that does not link the library but opens it when it already runs, as plugins and bindings
 * of other languages do; what it compiles is generated code, on a thread of its own too, which outlives a dlclose. */
#include <dlfcn.h>
#include <pthread.h>
#include <sinter/sinter.h>
#include <stdio.h>

#define FUNCTIONS(X)                                                                                                   \
    X(sn_graph_parse)                                                                                                  \
    X(sn_graph_compile)                                                                                                \
    X(sn_graph_free)                                                                                                   \
    X(sn_from_data)                                                                                                    \
    X(sn_call1) X(sn_function_stats) X(sn_function_free) X(sn_explain) X(sn_error_take)
#define X(name) static __typeof__(name) *call_##name;
FUNCTIONS(X)
#undef X

static const char text[] = "graph late(%x: f32[4]) {\n  %0 = aten::relu(%x)\n"
                           "  %1 = aten::exp(%0)\n  return %1\n}\n";

static int say(const char *wrong) {
    fprintf(stderr, "%s\n", wrong);
    return 1;
}

/* Says what is wrong while it can: texts end with their thread. */
static int compiles(void) {
    sn_graph *const graph = call_sn_graph_parse(text, sizeof text - 1);
    sn_function *const fn = call_sn_graph_compile(graph, NULL);
    sn_tensor *const x = call_sn_from_data((float[]){1, 2, 3, 4}, SN_INTS(4), SN_F32);
    for (int i = 0; i < 3; i++)
        if (!call_sn_call1(fn, SN_TENSORS(x))) return say(call_sn_error_take()->message);
    sn_stats stats = {.size = sizeof stats};
    call_sn_function_stats(fn, &stats);
    if (stats.ops_generated == 0) return say(call_sn_explain(fn));
    call_sn_function_free(fn);
    call_sn_graph_free(graph);
    return 0;
}

static void *library;

/* It ends, and lets its state go, after the library was closed. */
static void *on_a_thread(void *wrong) {
    *(int *)wrong = compiles();
    dlclose(library);
    return NULL;
}

int main(int n_args, char **args) {
    library = n_args > 1 ? dlopen(args[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return say(n_args > 1 ? dlerror() : "late LIBRARY");
#define X(name)                                                                                                        \
    if (!(call_##name = (__typeof__(call_##name))dlsym(library, #name))) return say(#name);
    FUNCTIONS(X)
#undef X
    int wrong = compiles();
    if (wrong) return wrong;
    pthread_t thread;
    if (pthread_create(&thread, NULL, on_a_thread, &wrong) || pthread_join(thread, NULL)) return say("no thread");
    return wrong;
}
