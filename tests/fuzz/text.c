/* text.c: programs as text, see program.h. One line a step; words are separated by blanks, so that
 * a reader needs no more than "the next word". */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/program.h"

static const char *const layouts[] = {"contiguous", "transposed", "sliced", "expanded", "channels_last"};

/* Printing ------------------------------------------------------------------------------------ */

static void print_int(Text *t, FzInt i) {
    if (i.var < 0)
        text_printf(t, "%lld", (long long)i.value);
    else if (i.value == 1)
        text_printf(t, "n%d", i.var);
    else
        text_printf(t, "%lld*n%d", (long long)i.value, i.var);
}

static void print_ints(Text *t, const FzInt *ints, int n) {
    text_puts(t, "[");
    for (int i = 0; i < n; i++) {
        if (i) text_puts(t, ",");
        print_int(t, ints[i]);
    }
    text_puts(t, "]");
}

static void print_values(Text *t, const FzArg *a) {
    text_puts(t, "(");
    for (int i = 0; i < a->n; i++) text_printf(t, "%sv%d", i ? "," : "", a->values[i]);
    text_puts(t, ")");
}

static void print_arg(Text *t, const FzArg *a) {
    text_puts(t, " ");
    switch (a->kind) {
    case FZ_none:
        text_puts(t, "none");
        break;
    case FZ_value:
        text_printf(t, "v%d", a->value);
        break;
    case FZ_int:
        text_puts(t, "i:");
        print_int(t, a->i);
        break;
    case FZ_float:
        text_puts(t, "f:");
        text_double(t, a->f);
        if (a->i.var >= 0) text_printf(t, "*n%d", a->i.var);
        break;
    case FZ_bool:
        text_printf(t, "b:%d", a->i.value != 0);
        break;
    case FZ_string:
        text_printf(t, "s:%s", a->s);
        break;
    case FZ_ints:
        print_ints(t, a->ints, a->n);
        break;
    case FZ_values:
        print_values(t, a);
        break;
    }
}

static void print_input(Text *t, const FzInput *in) {
    text_printf(t, "input %s", dtype_name((DType)in->dtype));
    print_ints(t, in->sizes, in->rank);
    if (in->grad) text_puts(t, " grad");
    if (in->closed) text_puts(t, in->held ? " held" : " closed");
    if (in->layout) text_printf(t, " %s", layouts[in->layout]);
    if (in->alias >= 0) text_printf(t, " alias %d%s", in->alias, in->shifted ? " shifted" : "");
    if (in->low || in->high) text_printf(t, " range %lld %lld", (long long)in->low, (long long)in->high);
    text_puts(t, "\n");
}

const char *const fz_how_words[] = {
    [FZ_of_grad] = "of_grad",    [FZ_in_eager] = "in_eager", [FZ_guarded] = "guarded",   [FZ_in_cond] = "in_cond",
    [FZ_in_map] = "in_map",      [FZ_in_scan] = "in_scan",   [FZ_in_while] = "in_while", [FZ_in_vmap] = "in_vmap",
    [FZ_in_grad] = "in_grad",    [FZ_in_vjp] = "in_vjp",     [FZ_in_jvp] = "in_jvp",     [FZ_in_sparse] = "in_sparse",
    [FZ_in_chunks] = "in_chunks"};

static void print_op(Text *t, const FzStep *step) {
    for (int i = 0; i < step->n_out; i++) text_printf(t, "%sv%d", i ? "," : "", step->out + i);
    text_printf(t, "%s= %s", step->n_out ? " " : "", step->op);
    for (int i = 0; i < step->n_args; i++) print_arg(t, &step->args[i]);
    if (step->how == FZ_asking) text_printf(t, " ask %s v%d", fz_query_name(step->query), step->value);
    if (fz_how_words[step->how]) text_printf(t, " %s", fz_how_words[step->how]);
}

const char *const fz_rng_words[] = {"save", "back", "jump", "fork"};

static void print_step(Text *t, const FzStep *step) {
    static const char *const words[] = {
        [FZ_item] = "item", [FZ_backward] = "backward", [FZ_keep] = "keep", [FZ_print] = "print"};
    if (step->kind == FZ_op)
        print_op(t, step);
    else if (step->kind == FZ_break)
        text_puts(t, "break");
    else if (step->kind == FZ_optim_step)
        text_puts(t, "step");
    else if (step->kind == FZ_loop)
        text_printf(t, "loop %d %d", step->from, step->times);
    else if (step->kind == FZ_checkpoint)
        text_printf(t, "checkpoint %d%s", step->times, step->value ? " saving" : "");
    else if (step->kind == FZ_rng)
        text_printf(t, "rng %s", fz_rng_words[step->times]);
    else if (step->kind == FZ_grad_mode)
        text_printf(t, "grad %d", step->times);
    else if (step->kind == FZ_autocast)
        text_printf(t, "autocast %d", step->times);
    else
        text_printf(t, "%s v%d", words[step->kind], step->value);
    text_puts(t, "\n");
}

void fz_print(const FzProgram *p, Text *t) {
    text_puts(t, "sizes");
    for (int s = 0; s < FZ_SETTINGS; s++) {
        if (s) text_puts(t, " /");
        for (int i = 0; i < p->n_sizes; i++) text_printf(t, " %lld", (long long)p->sizes[s][i]);
    }
    text_puts(t, "\n");
    for (int i = 0; i < p->n_inputs; i++) print_input(t, &p->inputs[i]);
    for (int i = 0; i < p->n_steps; i++) print_step(t, &p->steps[i]);
    for (int i = 0; i < p->n_varies; i++) {
        text_printf(t, "vary %d %d", p->varies[i].step, p->varies[i].arg);
        print_arg(t, &p->varies[i].to);
        text_puts(t, "\n");
    }
    if (p->given) text_puts(t, "given\n");
    text_puts(t, "return");
    for (int i = 0; i < p->n_returns; i++) text_printf(t, " v%d", p->returns[i]);
    text_puts(t, p->outer_write ? "\nouter_write\n" : "\n");
    if (p->outer_backward) text_puts(t, "outer_backward\n");
    if (p->no_grad) text_puts(t, "no_grad\n");
    if (p->region) text_printf(t, "region %d\n", p->region);
    if (p->functional) text_puts(t, "functional\n");
    if (p->packs) text_puts(t, "packs\n");
    if (p->hooked) text_puts(t, "hooked\n");
    if (p->crowd) text_printf(t, "crowd %d\n", p->crowd);
    if (p->marked) text_puts(t, "marked\n");
    if (p->api_mode) text_puts(t, "api_mode\n");
    if (p->optim) text_printf(t, "optim %d\n", p->optim);
    if (p->scaler) text_puts(t, "scaler\n");
}

/* Parsing ------------------------------------------------------------------------------------- */

typedef struct Reader {
    const char *at;
    bool bad;
} Reader;

static void skip(Reader *r) {
    while (*r->at == ' ') r->at++;
}

static bool take(Reader *r, const char *word) {
    skip(r);
    const size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static bool at_end(Reader *r) {
    skip(r);
    return *r->at == '\n' || !*r->at;
}

static int64_t number(Reader *r) {
    char *end;
    skip(r);
    const int64_t value = strtoll(r->at, &end, 10);
    if (end == r->at) r->bad = true;
    r->at = end;
    return value;
}

static int index_below(Reader *r, int capacity) {
    const int64_t value = number(r);
    if (value < 0 || value >= capacity) r->bad = true;
    return r->bad ? 0 : (int)value;
}

static FzInt parse_int(Reader *r) {
    FzInt out = {.value = 1, .var = -1};
    if (!take(r, "n")) {
        out.value = number(r);
        if (!take(r, "*n")) return out;
    }
    out.var = index_below(r, FZ_SIZES);
    return out;
}

static int parse_ints(Reader *r, FzInt *out, int capacity) {
    int n = 0;
    if (!take(r, "[")) r->bad = true;
    while (!r->bad && !take(r, "]")) {
        if (n == capacity || (n && !take(r, ","))) r->bad = true;
        if (!r->bad) out[n++] = parse_int(r);
    }
    return n;
}

static int parse_value(Reader *r) {
    if (!take(r, "v")) r->bad = true;
    return r->bad ? 0 : index_below(r, FZ_VALUES);
}

static void parse_word(Reader *r, char *out, size_t capacity) {
    size_t n = 0;
    skip(r);
    while (*r->at && !strchr(" \n", *r->at) && n + 1 < capacity) out[n++] = *r->at++;
    out[n] = 0;
    if (!n) r->bad = true;
}

static void parse_values(Reader *r, FzArg *a) {
    while (!r->bad && !take(r, ")")) {
        if (a->n == FZ_LIST || (a->n && !take(r, ","))) r->bad = true;
        if (!r->bad) a->values[a->n++] = parse_value(r);
    }
}

static void parse_float(Reader *r, FzArg *a) {
    char *end;
    a->f = strtod(r->at, &end);
    if (end == r->at) r->bad = true;
    r->at = end;
    if (take(r, "*n")) a->i = (FzInt){1, index_below(r, FZ_SIZES)};
}

static FzArg parse_arg(Reader *r) {
    FzArg a = {.kind = FZ_none, .i = {0, -1}};
    skip(r);
    if (take(r, "none")) return a;
    if (take(r, "i:")) {
        a.kind = FZ_int, a.i = parse_int(r);
    } else if (take(r, "f:")) {
        a.kind = FZ_float, parse_float(r, &a);
    } else if (take(r, "b:")) {
        a.kind = FZ_bool, a.i.value = number(r);
    } else if (take(r, "s:")) {
        a.kind = FZ_string, parse_word(r, a.s, sizeof a.s);
    } else if (take(r, "(")) {
        a.kind = FZ_values, parse_values(r, &a);
    } else if (*r->at == '[') {
        a.kind = FZ_ints, a.n = parse_ints(r, a.ints, FZ_LIST);
    } else {
        a.kind = FZ_value, a.value = parse_value(r);
    }
    return a;
}

static void parse_sizes(Reader *r, FzProgram *p) {
    for (int s = 0; s < FZ_SETTINGS; s++) {
        int n = 0;
        while (!r->bad && !at_end(r) && *r->at != '/') {
            const int64_t value = number(r);
            if (n == FZ_SIZES) r->bad = true;
            if (!r->bad) p->sizes[s][n++] = value;
        }
        if ((s && n != p->n_sizes) || (!s && !take(r, "/"))) r->bad = true;
        p->n_sizes = n;
    }
}

static void parse_input(Reader *r, FzProgram *p) {
    FzInput in = {.alias = -1};
    char name[8] = "";
    skip(r);
    for (size_t n = 0; *r->at && *r->at != '[' && n + 1 < sizeof name; n++) {
        name[n] = *r->at++;
        name[n + 1] = 0;
    }
    in.dtype = (sn_dtype)dtype_find(name, strlen(name));
    in.rank = parse_ints(r, in.sizes, FZ_DIMS);
    while (!r->bad && !at_end(r)) {
        if (take(r, "grad")) {
            in.grad = true;
        } else if (take(r, "closed")) {
            in.closed = true;
        } else if (take(r, "held")) {
            in.closed = in.held = true;
        } else if (take(r, "alias")) {
            in.alias = index_below(r, p->n_inputs);
        } else if (take(r, "shifted")) {
            in.shifted = true;
        } else if (take(r, "range")) {
            in.low = number(r), in.high = number(r);
        } else {
            int l = 0;
            while (l < FZ_LAYOUTS && !take(r, layouts[l])) l++;
            if (l == FZ_LAYOUTS) r->bad = true;
            in.layout = (FzLayout)l;
        }
    }
    if (!in.dtype || p->n_inputs == FZ_INPUTS) r->bad = true;
    if (!r->bad) p->inputs[p->n_inputs++] = in;
}

/* What stands behind an op's arguments; false: nothing. */
static bool parse_how(Reader *r, FzStep *step) {
    for (int how = FZ_of_grad; how < FZ_HOWS; how++)
        if (take(r, fz_how_words[how])) return step->how = (FzHow)how, true;
    if (!take(r, "ask ")) return false;
    char name[32] = "";
    step->how = FZ_asking;
    parse_word(r, name, sizeof name);
    while (step->query < fz_query_count() && strcmp(name, fz_query_name(step->query))) step->query++;
    if (step->query == fz_query_count()) r->bad = true;
    step->value = parse_value(r);
    return true;
}

static void parse_op(Reader *r, FzStep *step) {
    step->kind = FZ_op;
    while (!r->bad && !take(r, "=")) {
        if (step->n_out && !take(r, ",")) r->bad = true;
        const int value = parse_value(r);
        if (!step->n_out) step->out = value;
        if (value != step->out + step->n_out++) r->bad = true;
    }
    parse_word(r, step->op, sizeof step->op);
    while (!r->bad && !at_end(r) && !parse_how(r, step)) {
        if (step->n_args == FZ_ARGS) r->bad = true;
        if (!r->bad) step->args[step->n_args++] = parse_arg(r);
    }
    const bool is_scaling = step->n_args == 2 && step->args[0].kind == FZ_value && step->args[1].kind == FZ_float;
    if (step->how && !is_scaling) r->bad = true;
}

static void parse_step(Reader *r, FzProgram *p) {
    FzStep step = {.kind = FZ_op};
    if (take(r, "item")) {
        step.kind = FZ_item, step.value = parse_value(r);
    } else if (take(r, "checkpoint")) {
        step.kind = FZ_checkpoint, step.times = index_below(r, FZ_STEPS), step.value = take(r, "saving");
    } else if (take(r, "backward")) {
        step.kind = FZ_backward, step.value = parse_value(r);
    } else if (take(r, "keep")) {
        step.kind = FZ_keep, step.value = parse_value(r);
    } else if (take(r, "print")) {
        step.kind = FZ_print, step.value = parse_value(r);
    } else if (take(r, "break")) {
        step.kind = FZ_break;
    } else if (take(r, "step")) {
        step.kind = FZ_optim_step;
    } else if (take(r, "grad")) {
        step.kind = FZ_grad_mode, step.times = index_below(r, 3);
    } else if (take(r, "rng")) {
        step.kind = FZ_rng, step.times = 0;
        while (step.times < FZ_RNGS && !take(r, fz_rng_words[step.times])) step.times++;
        if (step.times == FZ_RNGS) r->bad = true;
    } else if (take(r, "autocast")) {
        step.kind = FZ_autocast, step.times = index_below(r, 3);
    } else if (take(r, "loop")) {
        step.kind = FZ_loop, step.from = index_below(r, FZ_STEPS);
        step.times = index_below(r, 64);
    } else {
        parse_op(r, &step);
    }
    if (p->n_steps == FZ_STEPS) r->bad = true;
    if (step.out + step.n_out > p->n_values) p->n_values = step.out + step.n_out;
    if (!r->bad) p->steps[p->n_steps++] = step;
}

static void parse_return(Reader *r, FzProgram *p) {
    while (!r->bad && !at_end(r)) {
        if (p->n_returns == 8) r->bad = true;
        const int value = parse_value(r);
        if (!r->bad) p->returns[p->n_returns++] = value;
    }
}

static void parse_vary(Reader *r, FzProgram *p) {
    FzVary vary = {.step = index_below(r, FZ_STEPS), .arg = index_below(r, FZ_ARGS)};
    vary.to = parse_arg(r);
    if (p->n_varies == FZ_VARIES || vary.step >= p->n_steps) r->bad = true;
    if (!r->bad) p->varies[p->n_varies++] = vary;
}

bool fz_parse(const char *text, FzProgram *out, int *line) {
    Reader r = {.at = text};
    memset(out, 0, sizeof *out);
    for (*line = 1; *r.at; ++*line) {
        if (at_end(&r) || *r.at == '#') {
            r.at += strcspn(r.at, "\n");
        } else if (take(&r, "sizes")) {
            parse_sizes(&r, out);
        } else if (take(&r, "input")) {
            parse_input(&r, out);
            if (out->n_inputs > out->n_values) out->n_values = out->n_inputs;
        } else if (take(&r, "vary ")) {
            parse_vary(&r, out);
        } else if (take(&r, "given")) {
            out->given = true;
        } else if (take(&r, "return")) {
            parse_return(&r, out);
        } else if (take(&r, "outer_write")) {
            out->outer_write = true;
        } else if (take(&r, "outer_backward")) {
            out->outer_backward = true;
        } else if (take(&r, "no_grad")) {
            out->no_grad = true;
        } else if (take(&r, "region")) {
            out->region = index_below(&r, 3);
        } else if (take(&r, "functional")) {
            out->functional = true;
        } else if (take(&r, "packs")) {
            out->packs = true;
        } else if (take(&r, "crowd")) {
            out->crowd = index_below(&r, FZ_CROWD + 1);
        } else if (take(&r, "hooked")) {
            out->hooked = true;
        } else if (take(&r, "marked")) {
            out->marked = true;
        } else if (take(&r, "api_mode")) {
            out->api_mode = true;
        } else if (take(&r, "optim")) {
            out->optim = index_below(&r, 5);
        } else if (take(&r, "scaler")) {
            out->scaler = true;
        } else {
            parse_step(&r, out);
        }
        if (r.bad || !at_end(&r)) return false;
        if (*r.at) r.at++;
    }
    return true;
}
