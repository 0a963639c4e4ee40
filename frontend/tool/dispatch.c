/* dispatch.c: `sinter dispatch OP --inputs TYPES --modes A,B`: which keys a call of an op would visit, by the tables
 * alone, as runtime/core/dispatch.c goes through them:
 *
 *     keys = (those of the inputs, with those that the modes add) without those that the modes take away
 *     from the highest one down: a key without a kernel falls through; one with a kernel is visited. A backend, fake
 *     mode, and where a composite is taken apart end it, all others hand the call on.
 *
 *     $ sinter dispatch aten::mul.Tensor --inputs 'f32[2,3] f32[3]' --modes=autocast
 *     aten::mul.Tensor: autocast, autograd, cpu
 *
 * --check makes the call, and compares with what the dispatch trace then says of that op. */
#include <stdio.h>

#include "frontend/tool/target.h"
#include "ir/graph.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"

enum { MOST_VISITS = 64 };

typedef struct DispatchJob {
    const char *op, *inputs, *modes, *call;
    bool check, json;
    bool pretend; /* no call is made: the inputs need no memory, and their devices need not be there */
    Arena *arena;
    const OpRow *row;
    TargetOptions options;
    Target target;
} DispatchJob;

typedef struct Visits {
    Key at[MOST_VISITS];
    int n;
    const char *end; /* what the last one does */
} Visits;

/* The call ------------------------------------------------------------------------------------ */

static Status no_such_op(const char *name) {
    Text near = {0};
    op_unknown_hint(&near, name, strlen(name));
    error_raise(ST_ARGUMENT, "'%s' is no op%s", name, text_str(&near));
    text_free(&near);
    return ST_ARGUMENT;
}

/* "mul.Tensor" is aten::mul.Tensor. */
static Status find_op(DispatchJob *job) {
    OpForm form = FORM_functional;
    char full[128];
    snprintf(full, sizeof full, "aten::%s", job->op);
    const OpRow *row = op_find(job->op, strlen(job->op), &form);
    if (!row) row = op_find(full, strlen(full), &form);
    if (!row) return no_such_op(job->op);
    job->row = row->alias_of ? row->alias_of : row;
    if (form == FORM_functional && !row->returns_list) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "'%s' is no functional op with a fixed number of results", job->op);
}

/* "f32[2, 3] f32[3]": blanks between types, not in them, divide. */
static Status split_inputs(DispatchJob *job) {
    for (const char *at = job->inputs + strspn(job->inputs, " "); *at; at += strspn(at, " ")) {
        int n = 0, depth = 0;
        for (; at[n] && (depth || at[n] != ' '); n++) depth += (at[n] == '[') - (at[n] == ']');
        if (job->options.n_inputs == TARGET_INPUTS)
            return error_raise(ST_ARGUMENT, "more than %d inputs", TARGET_INPUTS);
        const char *const type = arena_printf(job->arena, "%.*s", n, at);
        if (!type) return ST_MEMORY;
        job->options.inputs[job->options.n_inputs++] = type;
        at += n;
    }
    return ST_OK;
}

static Status write_call(const DispatchJob *job, Text *text) {
    text_puts(text, "graph call(");
    for (int i = 0; i < job->options.n_inputs; i++)
        text_printf(text, "%s%%x%d: %s", i ? ", " : "", i, job->options.inputs[i]);
    text_puts(text, ") {\n  ");
    for (int i = 0; i < job->row->n_out; i++) text_printf(text, "%s%%%d", i ? ", " : "", i);
    text_printf(text, " = %s(", job->row->name);
    if (job->call) text_puts(text, job->call);
    for (int i = 0; !job->call && i < job->options.n_inputs; i++) text_printf(text, "%s%%x%d", i ? ", " : "", i);
    text_puts(text, ")\n  return %0\n}\n");
    return error_pending();
}

/* The arguments of the text's call, checked and complete, with tensors in the place of its inputs. */
static Status parse_call(const DispatchJob *job, Arg *args) {
    Graph *graph;
    Text text = {0};
    Status status = write_call(job, &text);
    source_remember("<call>", text_str(&text));
    if (status == ST_OK) status = graph_parse(job->arena, text_str(&text), text.n, &graph);
    text_free(&text);
    TRY(status);
    for (int i = 0; i < job->row->n_params; i++) {
        Arg *const arg = &args[i];
        *arg = graph->first->args[i];
        if (arg->kind == ARG_tensor && arg->val) arg->val = &job->target.in[gval(arg->val)->index]->base;
        if (arg->kind != ARG_tensors) continue;
        Val **const vals = ARENA_ARRAY(job->arena, Val *, arg->n + 1);
        for (int k = 0; k < arg->n; k++)
            vals[k] = arg->vals[k] ? &job->target.in[gval(arg->vals[k])->index]->base : NULL;
        arg->vals = vals;
    }
    return ST_OK;
}

/* Modes --------------------------------------------------------------------------------------- */

static void set_grad_off(void) { sn_grad_mode_set(SN_GRAD_OFF); }
static void set_inference(void) { sn_grad_mode_set(SN_INFERENCE); }
static void set_autocast(void) { sn_autocast_set(SN_CPU, SN_BF16), sn_autocast_set(SN_CUDA(0), SN_BF16); }
static void set_fake(void) { sn_fake_mode_set(true); }
static void set_anomaly(void) { sn_anomaly_set(true); }
static void set_nothing(void) {}

static const struct {
    const char *name;
    void (*set)(void);
    bool first; /* the inputs are made in it */
} modes[] = {{"grad", set_nothing, false},      {"no_grad", set_grad_off, false}, {"inference", set_inference, false},
             {"autocast", set_autocast, false}, {"anomaly", set_anomaly, false},  {"fake", set_fake, true}};

static bool has_mode(const DispatchJob *job, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = job->modes; (at = strstr(at, name)); at += n)
        if ((at == job->modes || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

static Status check_modes(const DispatchJob *job) {
    for (const char *at = job->modes; *at;) {
        const size_t n = strcspn(at, ",");
        int i = 0;
        while (i < COUNT_OF(modes) && (strlen(modes[i].name) != n || strncmp(modes[i].name, at, n))) i++;
        if (i == COUNT_OF(modes))
            return error_raise(
                ST_ARGUMENT, "no mode is called '%.*s': grad, no_grad, inference, autocast, anomaly, fake", (int)n, at);
        at += n + (at[n] == ',');
    }
    return ST_OK;
}

static void set_modes(const DispatchJob *job, bool first) {
    for (int i = 0; i < COUNT_OF(modes); i++)
        if (modes[i].first == first && has_mode(job, modes[i].name)) modes[i].set();
}

/* The prediction ------------------------------------------------------------------------------ */

/* Of what the call reads; 0-dim CPU tensors go with any device. */
static uint64_t keys_of_inputs(const DispatchJob *job) {
    uint64_t keys = 0;
    for (int i = 0; i < job->target.n_in; i++) keys |= job->target.in[i]->keys;
    if (job->pretend) keys &= ~KEY_BIT(fake);
    if (!keys) keys = KEY_BIT(cpu) | KEY_BIT(autograd);
    return keys & KEYS_BESIDE ? keys & ~KEY_BIT(cpu) : keys;
}

static const char *ends_at(const OpRow *row, Key key) {
    const uint64_t bit = UINT64_C(1) << key;
    if (row->kind == KIND_composite && dispatch_own(row, key)) return "where the composite is taken apart";
    if (bit & KEY_BIT(fake)) return "which computes metadata only";
    return bit & KEYS_KERNEL ? "which computes it" : NULL;
}

static Visits predict(const OpRow *row, uint64_t keys) {
    Visits visits = {.n = 0};
    for (uint64_t left = keys; left && !visits.end;) {
        const Key key = (Key)(63 - __builtin_clzll(left));
        left &= ~(UINT64_C(1) << key);
        if (!dispatch_entry(row, key)) continue;
        visits.at[visits.n++] = key;
        visits.end = ends_at(row, key);
    }
    return visits;
}

static void print_visits(const OpRow *row, const Visits *visits, Text *text) {
    text_printf(text, "%s:", row->name);
    for (int i = 0; i < visits->n; i++) text_printf(text, "%s %s", i ? "," : "", key_name(visits->at[i]));
}

static void put_keys_json(Text *text, const char *key, uint64_t keys) {
    const char *between = "";
    text_printf(text, ", \"%s\": [", key);
    for (int k = KEY_COUNT - 1; k > KEY_none; k--)
        if (keys >> k & 1) text_printf(text, "%s\"%s\"", between, key_name((Key)k)), between = ", ";
    text_puts(text, "]");
}

/* The object's end comes with the trace, or without one. */
static void print_prediction_json(const DispatchJob *job, const Visits *visits) {
    Text text = {0};
    put_json_pair(&text, "{", "op", job->row->name);
    text_puts(&text, ", \"visits\": [");
    for (int i = 0; i < visits->n; i++) text_printf(&text, "%s\"%s\"", i ? ", " : "", key_name(visits->at[i]));
    put_json_pair(&text, "], ", "end", visits->end ? visits->end : "and then there is no key: it is an error");
    put_keys_json(&text, "inputs", keys_of_inputs(job));
    put_keys_json(&text, "modes_add", state_get()->include);
    put_keys_json(&text, "modes_take_away", state_get()->exclude);
    printf("%s%s", text_str(&text), job->check ? "" : "}\n");
    text_free(&text);
}

static void print_prediction(const DispatchJob *job, const Visits *visits) {
    const sn_state *const state = state_get();
    const struct {
        const char *what;
        uint64_t keys;
    } lines[] = {{"keys of the inputs", keys_of_inputs(job)},
                 {"modes add", state->include},
                 {"modes take away", state->exclude}};
    Text text = {0};
    print_visits(job->row, visits, &text);
    text_printf(&text, ", %s\n", visits->end ? visits->end : "and then there is no key: it is an error");
    for (int i = 0; i < COUNT_OF(lines); i++) {
        text_printf(&text, "  %s: ", lines[i].what);
        keys_print(&text, lines[i].keys);
        text_puts(&text, lines[i].keys ? "\n" : "none\n");
    }
    fputs(text_str(&text), stdout);
    text_free(&text);
}

/* The trace ----------------------------------------------------------------------------------- */

typedef struct Traced {
    char head[128]; /* "aten::mul.Tensor: " */
    Text text;      /* as print_visits says it */
} Traced;

static void on_line(void *context, int level, const char *topic, const char *line) {
    Traced *const traced = context;
    const size_t n = strlen(traced->head);
    if (strcmp(topic, "dispatch") || strncmp(line, traced->head, n)) return;
    text_printf(&traced->text, "%s%s", traced->text.n ? ", " : traced->head, line + n);
}

static int compare_trace(const DispatchJob *job, const Visits *visits) {
    Arg args[MAX_ARGS + MAX_OUTS];
    sn_tensor *outs[MAX_OUTS];
    Traced traced = {.head = ""};
    snprintf(traced.head, sizeof traced.head, "%s: ", job->row->name);
    if (parse_call(job, args) != ST_OK) {
        if (job->json) puts("}");
        return report_error(EXIT_wrong);
    }
    sn_logging_set(on_line, &traced, "dispatch");
    const Status status = dispatch(job->row, FORM_functional, args, NULL, outs);
    sn_logging_set(NULL, NULL, "-dispatch");
    Text predicted = {0};
    print_visits(job->row, visits, &predicted);
    const bool same = !strcmp(text_str(&predicted), text_str(&traced.text));
    if (job->json) {
        Text text = {0};
        put_json_pair(&text, ", ", "trace", text_str(&traced.text));
        printf("%s, \"same\": %s}\n", text_str(&text), same ? "true" : "false");
        text_free(&text);
    } else {
        printf("  the trace of a call: %s%s\n", text_str(&traced.text), same ? ", the same" : ", which differs");
    }
    text_free(&predicted);
    text_free(&traced.text);
    if (status != ST_OK) return report_error(EXIT_wrong);
    return same ? EXIT_done : EXIT_wrong;
}

static void make_inputs(DispatchJob *job) {
    const bool before = job->pretend && sn_fake_mode_set(true);
    target_inputs(&job->options, &job->target, DEFAULT_SIZE);
    if (job->pretend) sn_fake_mode_set(before);
}

static int run_job(DispatchJob *job) {
    sn_scope scope = sn_scope_begin();
    Status status = find_op(job);
    if (status == ST_OK) status = check_modes(job);
    if (status == ST_OK) status = split_inputs(job);
    job->options.grad = has_mode(job, "grad");
    job->pretend = !job->check && !has_mode(job, "fake");
    set_modes(job, true);
    if (status == ST_OK) make_inputs(job);
    set_modes(job, false);
    int code = EXIT_done;
    if (error_pending() == ST_OK) {
        const sn_state *const state = state_get();
        const Visits visits = predict(job->row, (keys_of_inputs(job) | state->include) & ~state->exclude);
        if (job->json)
            print_prediction_json(job, &visits);
        else
            print_prediction(job, &visits);
        if (job->check) code = compare_trace(job, &visits);
    } else {
        code = report_error(job->target.exit_code ? job->target.exit_code : EXIT_wrong);
    }
    target_close(&job->target);
    sn_scope_end(scope);
    return code;
}

int command_dispatch(const Command *self, int argc, char **argv) {
    DispatchJob job = {.inputs = "", .modes = ""};
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_text(&a, "inputs", &job.inputs) || argument_text(&a, "modes", &job.modes) ||
              argument_text(&a, "call", &job.call) || argument_flag(&a, "check", &job.check) ||
              argument_flag(&a, "json", &job.json) || argument_name(&a, &job.op)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!job.op) return usage_error(self, "an op is missing after", self->name);
    job.arena = arena_new();
    const int code = job.arena ? run_job(&job) : report_error(EXIT_environment);
    if (job.arena) arena_free(job.arena);
    return code;
}
