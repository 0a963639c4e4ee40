/* watch.c: what is seen of the ops of a program while eager runs it: which forms really ran, and that sn_op_infer says
 * of each what eager then gives: dtypes, sizes, strides, whose memory a result shows; or an error, where eager has one.
 * Asked of the tensors themselves, and of texts in which equal sizes are one symbol, "f32[s0,4]": what it took to hold
 * of symbols is held against the sizes that they stand for. */
#include <inttypes.h>
#include <sinter/infer.h>
#include <stdio.h>

#include "ir/sym.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"
#include "tests/fuzz/run.h"

enum { MOST_SYMBOLS = 24, MOST_TYPE = 400 };

/* Symbols of one call: the sizes that they stand for. */
typedef struct Symbols {
    int64_t sizes[MOST_SYMBOLS];
    int n;
} Symbols;

static bool differs(FzWatch *watch, const FzStep *step, const char *why, const char *said) {
    if (!watch->story.n) text_printf(&watch->story, "sn_op_infer of %s: %s%s\n", step->op, why, said);
    return false;
}

static int form_number(const char *op) {
    OpForm form;
    const OpRow *const row = op_find(op, strlen(op), &form);
    return row && !op_is_made(row) ? row->id * FORM_COUNT + (int)form : -1;
}

bool fz_has_run(const uint8_t *ran, const OpRow *row, OpForm form) {
    const int at = row->id * FORM_COUNT + (int)form;
    return ran[at / 8] >> at % 8 & 1;
}

/* What texts say ------------------------------------------------------------------------------ */

/* 0 and 1 are cases of their own. */
static void put_size(Symbols *symbols, Text *to, int64_t size) {
    int i = 0;
    while (i < symbols->n && symbols->sizes[i] != size) i++;
    if (size < 2 || i == MOST_SYMBOLS) {
        text_printf(to, "%" PRId64, size);
        return;
    }
    symbols->sizes[i] = size;
    symbols->n = symbols->n > i ? symbols->n : i + 1;
    text_printf(to, "s%d", i);
}

static bool put_type(Symbols *symbols, Text *to, sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    if (memcmp(strides, meta->strides, sizeof *strides * (size_t)meta->rank) || meta->wrapped) return false;
    text_printf(to, "%s[", dtype_name(meta->dtype));
    for (int d = 0; d < meta->rank; d++) {
        if (d) text_puts(to, ",");
        put_size(symbols, to, meta->sizes[d]);
    }
    text_puts(to, "]");
    return true;
}

static bool put_types(Symbols *symbols, Text *to, const sn_value *list) {
    text_puts(to, "[");
    for (int i = 0; i < list->n; i++) {
        if (i) text_puts(to, ", ");
        if (!list->tensors[i])
            text_puts(to, "None");
        else if (!put_type(symbols, to, list->tensors[i]))
            return false;
    }
    text_puts(to, "]");
    return true;
}

/* The text in the place of a tensor or a list of them; else the argument itself. room: for the text. */
static sn_value described(Symbols *symbols, const sn_value *v, char *room) {
    Text text = {0};
    bool good = false;
    if (v->kind == SN_KIND_TENSOR) good = put_type(symbols, &text, v->tensor);
    if (v->kind == SN_KIND_TENSORS && v->n) good = put_types(symbols, &text, v);
    good = good && text.n < MOST_TYPE;
    if (good) memcpy(room, text_str(&text), text.n + 1);
    text_free(&text);
    return good ? sn_str(room) : *v;
}

/* What they are in this call ------------------------------------------------------------------- */

static SymEnv *known_sizes(Arena *arena, const Symbols *symbols) {
    SymEnv *const env = sym_env_new(arena);
    for (int i = 0; i < symbols->n; i++) sym_free(env, symbols->sizes[i], 2);
    return env;
}

static bool holds(const SymEnv *env, const SymGuard *guard) {
    const int64_t a = sym_hint(env, guard->a), b = sym_hint(env, guard->b);
    return guard->rel == SYM_eq ? a == b : guard->rel == SYM_ne ? a != b : guard->rel == SYM_lt ? a < b : a <= b;
}

/* Whether all that it took for granted is so. -1: it is no text that parses. */
static int all_hold(SymEnv *env, const char *assumed) {
    for (const char *at = assumed; *at; at += *at == '\n') {
        SymGuard guard;
        if (sym_guard_parse(env, at, &at, &guard) != ST_OK || (*at && *at != '\n')) return sn_error_take(), -1;
        if (!holds(env, &guard)) return 0;
    }
    return 1;
}

/* Compared ------------------------------------------------------------------------------------- */

static bool same_numbers(const SymEnv *env, const int64_t *said, const int64_t *are, int n) {
    for (int d = 0; d < n; d++)
        if ((env ? sym_hint(env, said[d]) : said[d]) != are[d]) return false;
    return true;
}

static bool same_type(Arena *arena, SymEnv *env, const char *type, sn_tensor *t) {
    const Meta *const is = t->base.meta;
    const char *end;
    Meta *said;
    if (meta_parse(arena, env, type, &end, &said) != ST_OK || *end) return sn_error_take(), false;
    return said->dtype == is->dtype && said->rank == is->rank && said->device == is->device &&
           same_numbers(env, said->sizes, is->sizes, is->rank) &&
           same_numbers(env, said->strides, is->strides, is->rank);
}

static bool same_plain(const sn_inferred *said, sn_tensor *t) {
    const Meta *const is = t->base.meta;
    return (DType)said->dtype == is->dtype && said->rank == is->rank &&
           same_numbers(NULL, said->sizes, is->sizes, is->rank) &&
           same_numbers(NULL, said->strides, is->strides, is->rank);
}

/* Whose memory it is: of the one that it is said to show, at the offset, or of no argument's. Nothing is in the memory
 * of an empty one. */
static bool same_memory(const sn_inferred *said, const sn_value *in, int n_in, sn_tensor *t) {
    if (!sn_numel(t)) return true;
    if (said->alias_of >= n_in) return false;
    if (said->alias_of >= 0) {
        const sn_value *const of = &in[said->alias_of];
        return of->kind != SN_KIND_TENSOR ||
               (of->tensor->storage == t->storage && of->tensor->offset + said->offset == t->offset);
    }
    for (int i = 0; i < n_in; i++)
        if (in[i].kind == SN_KIND_TENSOR && in[i].tensor->storage == t->storage) return false;
    return true;
}

static bool tell(FzWatch *watch, const FzStep *step, const char *what, int i, const char *type, sn_tensor *t) {
    Text text = {0};
    text_printf(&text, "%s: result %d is said to be %s, eager's is ", what, i, type);
    meta_print(NULL, &text, t->base.meta);
    differs(watch, step, text_str(&text), "");
    text_free(&text);
    return false;
}

/* What was asked before the op, and what is said. */
typedef struct Asked {
    sn_inferred said[8];
    int n;
    sn_status status;
    char error[256];
    const char *assumed;
} Asked;

static void ask(const sn_op *op, const sn_value *in, int n_in, Asked *asked) {
    *asked = (Asked){.n = 8, .assumed = ""};
    asked->status = sn_op_infer(op, in, n_in, asked->said, &asked->n, &asked->assumed);
    if (asked->status) snprintf(asked->error, sizeof asked->error, "%.250s", sn_error_take()->message);
}

static bool check_plain(FzWatch *watch, const FzStep *step, const Asked *asked, const sn_value *in, int n_in,
                        const sn_value *out, int n_out) {
    if (asked->status == SN_ERR_UNSUPPORTED) return true;
    /* Graphs refuse an out tensor of a dtype that eager's copies convert to. */
    if (asked->status && strstr(asked->error, ": out must be ")) return true;
    if (asked->status) return differs(watch, step, "eager runs it, and it says: ", asked->error);
    if (asked->n != n_out) return differs(watch, step, "another number of results than eager's", "");
    for (int i = 0; i < n_out; i++) {
        if (out[i].kind != SN_KIND_TENSOR || !out[i].tensor) continue;
        if (!same_plain(&asked->said[i], out[i].tensor))
            return tell(watch, step, "plain", i, asked->said[i].type, out[i].tensor);
        if (watch->memory && !same_memory(&asked->said[i], in, n_in, out[i].tensor))
            return tell(watch, step, "whose memory", i, asked->said[i].type, out[i].tensor);
    }
    watch->inferred++;
    return true;
}

static bool check_symbolic(FzWatch *watch, const FzStep *step, const Asked *asked, const Symbols *symbols,
                           const sn_value *out, int n_out) {
    Arena *const arena = arena_new();
    SymEnv *const env = known_sizes(arena, symbols);
    const int hold = asked->status ? 0 : all_hold(env, asked->assumed);
    bool good = hold >= 0 || differs(watch, step, "what it assumes is no text: ", asked->assumed);
    if (hold > 0 && asked->n != n_out)
        good = differs(watch, step, "of symbols: another number of results than eager's", "");
    for (int i = 0; good && hold > 0 && i < n_out; i++)
        if (out[i].kind == SN_KIND_TENSOR && out[i].tensor &&
            !same_type(arena, env, asked->said[i].type, out[i].tensor))
            good = tell(watch, step, "of symbols", i, asked->said[i].type, out[i].tensor);
    watch->symbolic += hold > 0;
    arena_free(arena);
    return good;
}

static bool has_all(const sn_value *in, int n_in) {
    for (int i = 0; i < n_in; i++) {
        if (in[i].kind == SN_KIND_TENSOR && !in[i].tensor) return false;
        for (int k = 0; in[i].kind == SN_KIND_TENSORS && k < in[i].n; k++)
            if (!in[i].tensors[k]) return false;
    }
    return true;
}

/* Its region changes dtypes, which no op knows of by itself. */
static bool is_asked(const FzWatch *watch, const sn_op *op, const sn_value *in, int n_in) {
    return watch->infers && op && sn_autocast_get(SN_CPU) == SN_F32 && fz_device == SN_CPU && has_all(in, n_in);
}

static Asked plain_said, symbolic_said;
static Symbols said_symbols;
static bool was_asked;

/* The call itself stands between the two: errors name its place. */
void fz_watch_before(FzWatch *watch, const sn_op *op, const sn_value *in, int n_in) {
    static char rooms[FZ_ARGS][MOST_TYPE];
    sn_value texts[FZ_ARGS];
    said_symbols.n = 0;
    was_asked = is_asked(watch, op, in, n_in);
    if (!was_asked) return;
    ask(op, in, n_in, &plain_said);
    for (int i = 0; i < n_in; i++) texts[i] = described(&said_symbols, &in[i], rooms[i]);
    ask(op, texts, n_in, &symbolic_said);
}

void fz_watch_after(FzWatch *watch, const FzStep *step, const sn_value *in, int n_in, const sn_value *out, int n_out) {
    const int number = form_number(step->op);
    if (sn_check()) return;
    if (number >= 0) watch->ran[number / 8] |= (uint8_t)(1 << number % 8);
    if (was_asked && check_plain(watch, step, &plain_said, in, n_in, out, n_out))
        check_symbolic(watch, step, &symbolic_said, &said_symbols, out, n_out);
}
