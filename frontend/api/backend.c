/* backend.c: backends: the library's, by name, and those that a program registers (sinter/graph.h). A program's
 * gets a graph of its own, made of the text of what is compiled, and gives a function, which the code then is. */
#include <pthread.h>
#include <stdio.h>

#include "frontend/api/backends.h"
#include "frontend/api/graph_handle.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/function/function.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/frame.h"

static Status run_function(void *context, sn_tensor *const *in, int n_in, sn_tensor **out, int n_out) {
    Arg *const args = mem_alloc((size_t)(n_in + 1) * sizeof *args);
    if (!args) return ST_MEMORY;
    for (int i = 0; i < n_in; i++) args[i] = A_VAL(&in[i]->base);
    const Status status = function_call(context, args, n_in, out, n_out);
    mem_free(args);
    return status;
}

static void drop_function(void *fn) { function_free(fn); }

typedef struct MakeCall {
    const Backend *row;
    sn_graph *graph;
    sn_function *made;
} MakeCall;

static void ask_program(void *argument) {
    MakeCall *const call = argument;
    context_enter_scope(state_get(), CONTEXT_below_api);
    call->made = ((sn_backend_fn)call->row->made_by)(call->graph, call->row->closure);
}

static Status make_function(const Backend *row, Graph *graph, BackendCode *code) {
    Text text = {0};
    graph_print(graph, &text);
    sn_graph *const g = sn_graph_parse(text_str(&text), text.n);
    text_free(&text);
    if (!g) return error_pending();
    MakeCall call = {row, g, NULL};
    const Status status = callback_run(row->name, ask_program, &call);
    sn_function *const fn = call.made;
    sn_graph_free(g);
    if (status != ST_OK && fn) function_free(fn);
    TRY(status);
    if (!fn) return error_raise(ST_CALLBACK, "it returned NULL");
    code->run = run_function, code->drop = drop_function, code->context = fn;
    return ST_OK;
}

/* Op by op, what is left after the passes. */
static sn_function *run_op_by_op(sn_graph *g, void *closure) {
    (void)closure;
    return sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}

enum { OWN_ROWS = 5, MAX_ROWS = 64 };
static Backend rows[MAX_ROWS] = {
    {.name = "generated", .version = "1", .kind = BACK_generated},
    {.name = "interpreter", .version = "1", .kind = BACK_interpreter},
    {.name = "eager", .version = "1", .kind = BACK_eager},
    {.name = "unfused", .version = "1", .kind = BACK_unfused},
    {.name = "aot_eager", .version = "1", .kind = BACK_called, .make = make_function, .made_by = (void *)run_op_by_op},
};
static int n_rows = OWN_ROWS;
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. */
static Backend *find_row(const char *name) {
    for (int i = 0; i < n_rows; i++)
        if (*rows[i].name && !strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

static const Backend *unknown_row(const char *name) {
    Text list = {0};
    for (int i = 0; i < n_rows; i++)
        if (*rows[i].name) text_printf(&list, "%s%s", i ? ", " : "", rows[i].name);
    error_raise(ST_ARGUMENT, "sn_compile: there is no backend '%s'; backends: %s", name, text_str(&list));
    text_free(&list);
    return NULL;
}

const Backend *backend_named(const char *name) {
    if (!name) return &rows[BACK_generated];
    pthread_mutex_lock(&rows_lock);
    const Backend *const row = find_row(name);
    const Backend *const found = row ? row : unknown_row(name);
    pthread_mutex_unlock(&rows_lock);
    return found;
}

/* A function may have it: its row stays, and nobody finds it. */
static void withdraw_rows(int batch) {
    pthread_mutex_lock(&rows_lock);
    for (int i = OWN_ROWS; i < n_rows; i++)
        if (rows[i].batch == batch) *(char *)rows[i].name = '\0'; /* of add_row */
    pthread_mutex_unlock(&rows_lock);
}

static Status add_row(const char *name, const char *version, sn_backend_fn make, void *closure) {
    if (find_row(name)) return error_raise(ST_ARGUMENT, "sn_backend_register: there is a backend '%s' already", name);
    if (n_rows == MAX_ROWS) return error_raise(ST_UNSUPPORTED, "sn_backend_register: more than %d backends", MAX_ROWS);
    char *const own = mem_strdup(name), *const text = version ? mem_strdup(version) : NULL;
    if (!own || (version && !text)) {
        mem_free(own);
        mem_free(text);
        return ST_MEMORY;
    }
    rows[n_rows++] = (Backend){.name = own,
                               .version = text,
                               .kind = BACK_called,
                               .make = make_function,
                               .made_by = (void *)make,
                               .closure = closure,
                               .batch = custom_op_batch(withdraw_rows)};
    return ST_OK;
}

/* It stands in keys and texts as it is. */
static bool is_short_line(const char *text) {
    size_t n = 0;
    for (; text[n]; n++)
        if ((unsigned char)text[n] < ' ' || text[n] == '\'' || text[n] == '"') return false;
    return n <= 64;
}

Status extension_check(const char *what, const char *name, const char *version) {
    if (!name || !*name) return error_raise(ST_ARGUMENT, "%s: the name is %s", what, name ? "empty" : "NULL");
    if (!is_short_line(name))
        return error_raise(ST_ARGUMENT, "%s: the name '%.80s' is no line of at most 64 letters", what, name);
    if (!version || (*version && is_short_line(version) && !strchr(version, ' '))) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: the version '%.80s' of '%s' is no word of 1 to 64 letters", what, version,
                       name);
}

sn_status sn_backend_register(const char *name, const char *version, sn_backend_fn make, void *closure) {
    if (error_pending()) return (sn_status)error_pending();
    if (extension_check("sn_backend_register", name, version) != ST_OK) return (sn_status)error_pending();
    if (!make) return (sn_status)error_raise(ST_ARGUMENT, "sn_backend_register: the callback is NULL");
    pthread_mutex_lock(&rows_lock);
    const Status status = add_row(name, version, make, closure);
    pthread_mutex_unlock(&rows_lock);
    return (sn_status)status;
}
