/* target.c: see target.h. */
#define _GNU_SOURCE /* memmem */
#include "frontend/tool/target.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontend/api/graph_handle.h"
#include "frontend/api/sparse.h"
#include "frontend/tool/crash.h"
#include "frontend/tool/inputs.h"
#include "frontend/tool/named.h"
#include "frontend/tool/sample.h"
#include "frontend/tool/values.h"
#include "ir/graph.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/capture/function/saved.h"
#include "samples/work.h"
#include <sinter/target.h>

static const char *const modes[] = {"verify", "replay", "eager"}; /* by sn_compile_mode, as in commands.def */

const char *target_mode_name(sn_compile_mode mode) { return modes[mode]; }

/* "cuda" is its first one, as elsewhere. */
static void read_device(CommandLine *a, TargetOptions *o) {
    const char *end, *const text = strcmp(a->value, "cuda") ? a->value : "cuda:0";
    o->device_given = device_parse(text, &end, &o->device) && !*end;
    if (!o->device_given) arguments_refuse_value(a, "a device is written as cpu, cuda or cuda:1, not");
}

static void add_input_type(CommandLine *a, TargetOptions *o) {
    if (o->n_inputs == TARGET_INPUTS)
        arguments_refuse_value(a, "there are too many inputs from here on:");
    else
        o->inputs[o->n_inputs++] = a->value;
}

/* "s0=16"; that the target has it is seen where it is made. */
static void add_number(CommandLine *a, TargetOptions *o) {
    int symbol, end = 0;
    long long value;
    if (o->n_numbers == TARGET_NUMBERS)
        arguments_refuse_value(a, "there are too many numbers from here on:");
    else if (sscanf(a->value, "s%d=%lld%n", &symbol, &value, &end) != 2 || symbol < 0 || a->value[end])
        arguments_refuse_value(a, "a symbol's number is written as s0=16, not");
    else
        o->numbers[o->n_numbers++] = a->value;
}

/* Values whose words are in the order of their enum. */
static bool words_argument(CommandLine *a, TargetOptions *o) {
    int word;
    if (argument_word(a, "mode", &word)) return o->compile.mode = (sn_compile_mode)word, true;
    if (argument_word(a, "dynamic", &word)) return o->compile.dynamic = (sn_dynamic)word, true;
    if (argument_word(a, "numerics", &word)) return o->compile.numerics = (sn_numerics)word, true;
    return false;
}

bool target_argument(CommandLine *a, TargetOptions *o) {
    if (argument_name(a, &o->name)) return true;
    if (argument_is(a, "input"))
        add_input_type(a, o);
    else if (argument_is(a, "number"))
        add_number(a, o);
    else if (argument_is(a, "device"))
        read_device(a, o);
    else if (argument_int(a, "outputs", 0, TARGET_OUTPUTS, &o->n_out))
        o->outs_given = true;
    else if (!(words_argument(a, o) || argument_text(a, "inputs", &o->inputs_file) ||
               argument_text(a, "backend", &o->compile.backend) || argument_text(a, "library", &o->library) ||
               argument_flag(a, "grad", &o->grad) || argument_flag(a, "no-grad", &o->no_grad) ||
               argument_flag(a, "vary", &o->vary)))
        return false;
    o->given = a->typed;
    return true;
}

/* The same values in other tensors. */
static void renew_inputs(Target *t) {
    for (int i = 0; i < t->n_in && !sn_check(); i++) {
        sn_tensor *const copy = input_copy(t->in[i], sn_dtype_of(t->in[i]));
        if (!copy) return;
        sn_release(t->in[i]);
        t->in[i] = copy;
    }
}

void target_inputs(const TargetOptions *o, Target *t, int64_t symbol) {
    if (t->has_inputs && !o->n_inputs) {
        renew_inputs(t);
        return;
    }
    for (int i = 0; i < t->n_in; i++) sn_release(t->in[i]);
    t->n_in = t->numbers.n = 0;
    t->symbol = symbol;
    if (o->inputs_file) {
        named_inputs(o->inputs_file, t);
        return;
    }
    inputs_make(o, t);
    if (t->values && !o->n_inputs) values_read(t, t->values, o->name);
}

static Status move_inputs(Arena *arena, Graph *graph, Device device) {
    for (int i = 0; i < graph->inputs.n; i++) {
        Val *const input = &graph->inputs.at[i]->base;
        const Meta *const m = input->meta;
        input->meta = meta_new(arena, graph->env, m->dtype, device, m->sizes, m->strides, m->rank);
        if (!input->meta) return error_raise(ST_MEMORY, "out of memory");
    }
    return ST_OK;
}

static Status prepare_graph(const TargetOptions *o, Arena *arena, Graph *graph, bool *changed) {
    const int ints = graph->int_inputs.n;
    if (o->device_given) TRY(move_inputs(arena, graph, o->device));
    TRY(graph_assign_symbols(graph));
    *changed = o->device_given || graph->int_inputs.n != ints;
    return ST_OK;
}

/* The same graph with all its inputs on the device that is asked for (types of the rest are inferred from theirs), and
 * with an int for each symbol that no input gives. */
static sn_graph *prepared_graph(const TargetOptions *o, const char *text, size_t n) {
    Arena *const arena = arena_new();
    Graph *graph;
    Text print = {0};
    bool changed = false;
    if (strstr(text, " sparse::"))
        sparse_start(); /* whose ops are the library's own, from its first sparse tensor on */
    if (arena && graph_parse(arena, text, n, &graph) == ST_OK && prepare_graph(o, arena, graph, &changed) == ST_OK &&
        changed)
        graph_print(graph, &print);
    sn_graph *const made = error_pending() != ST_OK ? NULL
                           : changed                ? sn_graph_parse(text_str(&print), print.n)
                                                    : sn_graph_parse(text, n);
    source_remember(o->name, made && changed ? "" : text); /* lines are those of the text that was parsed */
    text_free(&print);
    arena_free(arena);
    return made;
}

static void open_graph(const TargetOptions *o, Target *t) {
    char *text;
    size_t n;
    t->exit_code = EXIT_environment;
    if (input_read(o->name, &text, &n) != ST_OK) return;
    t->exit_code = EXIT_wrong;
    t->graph = prepared_graph(o, text, n);
    if (strncmp(text, "# values ", strlen("# values ")))
        mem_free(text);
    else
        t->values = text;
    if (t->graph) t->n_out = t->graph->graph->outputs.n, target_inputs(o, t, DEFAULT_SIZE);
}

/* What a library's constructors or a sample's set-up draw changes no input: those are made once more for each way that
 * `verify` calls a target, where it is open already. A variable's cleanup. */
static void rng_back(const sn_rng *before) { sn_rng_set(*before); }
#define RNG_STAYS __attribute__((cleanup(rng_back), unused)) const sn_rng rng = sn_rng_get()

void *target_library(const char *path) {
    char whole[PATH_MAX]; /* a bare name is a file here, not one of the loader's */
    const char *const file = realpath(path, whole) ? whole : path;
    RNG_STAYS;
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error_raise(ST_IO, "cannot open %s", dlerror());
        return NULL;
    }
    return !dlsym(library, "sn_plugin_start") || sn_plugin_load(file) == SN_OK ? library : NULL;
}

/* Rows of its ops live as long as the process, and it stays open as long. */
Status target_extend(const char *path) {
    Target sample;
    RNG_STAYS;
    if (!sample_exists(path)) return target_library(path) ? error_pending() : ST_IO;
    if (target_open_sample(path, &sample)) target_close(&sample);
    return error_pending();
}

/* Once: a target may be opened several times. */
static Status open_extension(const TargetOptions *o) {
    static const char *opened;
    if (!o->library || opened == o->library) return ST_OK;
    opened = o->library;
    return target_extend(o->library);
}

static void take_input(Target *t, const TargetOptions *o, const sn_value *value) {
    if (value->kind != SN_KIND_TENSOR) {
        if (t->numbers.n == TARGET_NUMBERS)
            error_raise(ST_UNSUPPORTED, "it has more than %d numbers", TARGET_NUMBERS);
        else
            t->numbers.at[t->numbers.n].value = *value, t->numbers.at[t->numbers.n++].before = t->n_in;
        return;
    }
    sn_tensor *const made = value->tensor;
    if (o->grad && made && dtype_is_float((DType)sn_dtype_of(made))) sn_requires_grad_(made, true);
    t->in[t->n_in++] = sn_keep(made);
}

/* --vary and --device are about inputs that the tool makes. */
static Status check_own_inputs(const TargetOptions *o, Target *t) {
    if (o->n_inputs || !(o->vary || o->device_given)) return ST_OK;
    t->exit_code = EXIT_usage;
    return error_raise(ST_ARGUMENT, "'%s' has inputs of its own: with --vary or --device give others by --input",
                       o->name);
}

/* A function that the library gives to others can be bound to one of the same name that was there before it: `step`
 * is one of libc's. */
static Status check_bound(const TargetOptions *o, void *library, sn_body body) {
    Dl_info info;
    void *address, *own;
    memcpy(&address, &body, sizeof address);
    if (!body || !dladdr(address, &info) || !info.dli_sname || info.dli_saddr != address) return error_pending();
    own = dlsym(library, info.dli_sname);
    if (!own || own == address) return error_pending();
    return error_raise(
        ST_ARGUMENT,
        "'%s': its body is %s of %s, for which the library's own function of this name was taken: make it "
        "static, or link the library with -Wl,-Bsymbolic",
        o->name, info.dli_sname, info.dli_fname);
}

/* What the library says of it (sinter/target.h). */
static void open_described(const TargetOptions *o, Target *t, void *library, void (*describe)(sn_target *target)) {
    sn_target given = {.size = sizeof given, .outputs = 1};
    if (check_own_inputs(o, t) != ST_OK) return;
    describe(&given);
    if (!sn_check() && !given.body == !given.graph)
        error_raise(ST_ARGUMENT, "'%s': a target has a body or a graph", o->name);
    if (!sn_check()) check_bound(o, library, given.body);
    t->body = given.body;
    t->closure = given.closure;
    t->graph = given.graph;
    t->backward = given.kind == SN_TARGET_BACKWARD;
    t->step = given.kind == SN_TARGET_STEP;
    t->n_out = o->outs_given ? o->n_out : given.outputs;
    t->has_inputs = true;
    if (o->n_inputs)
        target_inputs(o, t, DEFAULT_SIZE);
    else
        for (int i = 0; i < given.inputs && !sn_check(); i++) take_input(t, o, &given.input[i]);
}

static void *described_symbol(void *library, const char *name) {
    char symbol[512];
    snprintf(symbol, sizeof symbol, "sn_target_%s", name);
    return dlsym(library, symbol);
}

/* Whether its code asks for closures, which none of its functions has here. */
static bool names_closures(const char *path) {
    char *bytes;
    size_t n;
    if (file_read(path, &bytes, &n) != ST_OK) return error_clear(), false;
    const bool names = memmem(bytes, n, "sn_closure", strlen("sn_closure") + 1) != NULL;
    mem_free(bytes);
    return names;
}

static void open_library(const TargetOptions *o, Target *t) {
    char path[1024];
    snprintf(path, sizeof path, "%s", o->name);
    char *const colon = strrchr(path, ':');
    *colon = '\0';
    t->exit_code = EXIT_environment;
    void *const library = target_library(path), *const described =
                                                    library ? described_symbol(library, colon + 1) : NULL;
    if (!library) return;
    if (described) {
        void (*describe)(sn_target *);
        memcpy(&describe, &described, sizeof describe);
        t->exit_code = EXIT_wrong;
        open_described(o, t, library, describe);
        return;
    }
    void *const symbol = dlsym(library, colon + 1);
    if (!symbol) {
        error_raise(ST_IO, "cannot open %s", dlerror());
        return;
    }
    t->exit_code = EXIT_wrong;
    memcpy(&t->body, &symbol, sizeof t->body);
    if (names_closures(path)) crash_no_closure(o->name, colon + 1);
    t->n_out = o->outs_given ? o->n_out : 1;
    target_inputs(o, t, DEFAULT_SIZE);
}

/* A plan that cannot be loaded says so where it is called. */
static int results_of_plan(const char *path) {
    sn_function *const fn = sn_plan_load(path, NULL);
    const int n = fn ? sn_function_result_count(fn) : -1;
    sn_function_free(fn);
    error_clear();
    return n < 0 ? 1 : n;
}

static void open_plan(const TargetOptions *o, Target *t) {
    t->plan = o->name;
    t->n_out = o->outs_given ? o->n_out : results_of_plan(o->name);
    if (o->compile.mode || o->compile.dynamic) {
        error_raise(ST_ARGUMENT, "'%s' is a saved plan, whose mode and sizes are as they were saved", o->name);
        t->exit_code = EXIT_usage;
        return;
    }
    target_inputs(o, t, DEFAULT_SIZE);
}

/* What the export fixed is no input of a call; the others are of the exported sizes. */
static void open_program(const TargetOptions *o, Target *t) {
    t->exit_code = EXIT_wrong;
    t->program = sn_import(o->name, NULL);
    if (!t->program) {
        if (sn_check() == SN_ERR_IO) t->exit_code = EXIT_environment;
        return;
    }
    t->n_out = sn_program_out_count(t->program);
    target_inputs(o, t, DEFAULT_SIZE);
}

static bool is_program(const char *name) {
    const size_t n = strlen(name);
    return n > 4 && !strcmp(name + n - 4, ".pt2");
}

static bool is_library(const char *name) { return strstr(name, ".so:") != NULL; }
static bool is_graph(const char *name) { return strstr(name, ".sn") || !strcmp(name, "-"); }

/* By its name or by what it begins with: opening one says what is wrong with it. */
bool target_is_plan(const char *name) {
    static const char head[] = "sinter plan,", suffix[] = ".plan";
    const size_t n = strlen(name), tail = strlen(suffix);
    char start[sizeof head] = "";
    if (is_library(name) || is_program(name) || is_graph(name)) return false;
    if (n > tail && !strcmp(name + n - tail, suffix)) return true;
    FILE *const file = fopen(name, "rb");
    if (!file) return false;
    const size_t got = fread(start, 1, strlen(head), file);
    fclose(file);
    return got == strlen(head) && !strcmp(start, head);
}

bool target_is_file(const char *name) {
    return is_library(name) || is_program(name) || is_graph(name) || target_is_plan(name);
}

bool target_open(const TargetOptions *o, Target *out) {
    *out = (Target){.n_out = o->n_out, .exit_code = EXIT_wrong};
    if (o->no_grad) sn_grad_mode_set(SN_GRAD_OFF); /* of the process */
    if (open_extension(o) != ST_OK)
        out->exit_code = EXIT_environment;
    else if (is_library(o->name))
        open_library(o, out);
    else if (is_program(o->name))
        open_program(o, out);
    else if (is_graph(o->name))
        open_graph(o, out);
    else if (target_is_plan(o->name))
        open_plan(o, out);
    else
        return false;
    if (!sn_check() && (out->n_out < 0 || out->n_out > TARGET_OUTPUTS))
        error_raise(ST_UNSUPPORTED, "'%s' has %d results; the tool has room for %d", o->name, out->n_out,
                    TARGET_OUTPUTS);
    return true;
}

static void acquire_work(Target *out, void (*make)(SampleWork *work)) {
    SampleWork work = {0};
    make(&work);
    out->exit_code = EXIT_wrong;
    out->graph = work.graph;
    out->body = work.body;
    out->closure = work.closure;
    out->backward = work.kind == SAMPLE_BACKWARD;
    out->step = work.kind == SAMPLE_STEP;
    out->n_out = work.n_out;
    for (int i = 0; i < work.n_in; i++) out->in[out->n_in++] = sn_keep(work.in[i]);
}

bool target_open_sample(const char *name, Target *out) {
    if (!sample_exists(name)) return false;
    *out = (Target){.exit_code = EXIT_environment};
    void *const symbol = sample_symbol(name, "sample_work");
    if (!symbol) {
        error_raise(ST_IO, "sample '%s' gives nothing to call: %s", name, dlerror());
        return true;
    }
    void (*make)(SampleWork * work);
    memcpy(&make, &symbol, sizeof make);
    acquire_work(out, make);
    return true;
}

Status keep_stdin(void) {
    FILE *const copy = tmpfile();
    char part[4096];
    size_t n;
    while (copy && (n = fread(part, 1, sizeof part, stdin)) > 0) fwrite(part, 1, n, copy);
    const bool kept = copy && !fflush(copy) && !ferror(stdin) && dup2(fileno(copy), STDIN_FILENO) >= 0;
    if (copy) fclose(copy);
    if (!kept) return error_raise(ST_IO, "cannot read '-'");
    rewind_stdin();
    return ST_OK;
}

void rewind_stdin(void) {
    clearerr(stdin);
    lseek(STDIN_FILENO, 0, SEEK_SET);
}

void target_close(Target *t) {
    for (int i = 0; i < t->n_in; i++) sn_release(t->in[i]);
    sn_graph_free(t->graph);
    mem_free(t->values);
    sn_program_free(t->program);
}

/* In mode eager by the ops of the graphs that it was compiled of, which the file has. */
static sn_function *load_plan(const char *path, sn_compile_mode mode) {
    sn_function *const fn = sn_plan_load(path, NULL);
    if (!fn || mode != SN_COMPILE_EAGER || saved_run_by_ops(fn) == ST_OK) return fn;
    sn_function_free(fn);
    return NULL;
}

sn_function *target_compile(const Target *t, const TargetOptions *o, sn_compile_mode mode) {
    sn_compile_options options = o->compile;
    if (t->plan) return load_plan(t->plan, mode);
    options.size = sizeof options;
    options.mode = mode;
    if (t->program) return sn_program_compile(t->program, &options);
    const char *const colon = strrchr(o->name, ':');              /* of library.so:symbol; a sample has none */
    options.name = t->graph ? NULL : colon ? colon + 1 : o->name; /* NULL: the graph's own */
    return t->graph ? sn_graph_compile(t->graph, &options) : sn_compile(t->body, t->closure, &options);
}

int call_values(sn_tensor *const *in, int n_in, const CallNumbers *numbers, sn_value *values) {
    int n = 0;
    for (int i = 0, k = 0; i <= n_in; i++) {
        for (; k < numbers->n && numbers->at[k].before <= i; k++) values[n++] = numbers->at[k].value;
        if (i < n_in) values[n++] = sn_val(in[i]);
    }
    return n;
}

sn_status call_with_numbers(sn_function *fn, sn_tensor *const *in, int n_in, const CallNumbers *numbers,
                            sn_tensor **out, int n_out) {
    sn_value values[TARGET_INPUTS + TARGET_NUMBERS];
    return sn_call_values(fn, values, call_values(in, n_in, numbers, values), out, n_out);
}

sn_status target_call(const Target *t, sn_function *fn, sn_tensor **out) {
    return call_with_numbers(fn, t->in, t->n_in, &t->numbers, out, t->n_out);
}
