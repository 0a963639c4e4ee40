/* op.c: the op table: rows pasted from ops.def, their schemas parsed once, names of all forms in one hash table.
 *
 * Parsing happens at the first question, under pthread_once, into static memory, so that asking for a row never fails.
 * A row whose schema does not parse is a bug of the table: it keeps no parameters, and tests/ops names it. */
#include "ir/op_ids.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "ir/schema.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

/* Where the rows stand: in the order of the table, without the gaps that ids have. */
enum {
#define OP(id, ...)    ROW_##id,
#define ALIAS(id, ...) ROW_##id,
#include "ir/ops.def"
#undef OP
#undef ALIAS
    ROW_COUNT
};
#define ID(id, number) HIDDEN const OpId op_id_##id = (number); /* OP_ID */
#include "ir/op_ids.def"
#undef ID
#define ID(...) +1
_Static_assert(ROW_COUNT == 0
#include "ir/op_ids.def"
               ,
               "a row that op_ids.cmake doesn't see: each begins its line");
#undef ID

/* The meta rules. */
#define META(rule)                     MetaFn meta_##rule;
#define META_pointwise(rule, _)        META(rule)
#define META_reduction(rule, _)        META(rule)
#define META_view(rule)                META(rule)
#define META_kernel(rule, _)           META(rule)
#define META_decomposition(rule, _)    META(rule)
#define META_composite(rule, _)        META(rule)
#define META_number(rule, _)           META(rule)
#define OP(id, schema, doc, kind, ...) META_##kind
#define ALIAS(...)
#include "ir/ops.def"
#undef OP
#undef ALIAS

#define RULES(kind_, rule, body_)        .kind = KIND_##kind_, .meta = meta_##rule, .meta_rule = #rule, .body = body_
#define RULES_pointwise(rule, body)      RULES(pointwise, rule, #body)
#define RULES_reduction(rule, body)      RULES(reduction, rule, #body)
#define RULES_view(rule)                 RULES(view, rule, NULL)
#define RULES_kernel(rule, body)         RULES(kernel, rule, #body)
#define RULES_decomposition(rule, body)  RULES(decomposition, rule, #body)
#define RULES_composite(rule, body)      RULES(composite, rule, #body)
#define RULES_number(rule, body)         RULES(number, rule, #body)
#define COLUMNS(id_, schema_, doc_, ...) [ROW_##id_] = {.id = OP_##id_, .schema = schema_, .doc = doc_, __VA_ARGS__},
#define OP(id, schema, doc, kind, samples_, ...)                                                                       \
    COLUMNS(id, schema, doc, RULES_##kind, .samples = #samples_, __VA_ARGS__)
#define ALIAS(id, schema, doc, of, ...) COLUMNS(id, schema, doc, .alias_of = &rows[ROW_##of], __VA_ARGS__)
static OpRow rows[ROW_COUNT] = {
#include "ir/ops.def"
};
#undef OP
#undef ALIAS

static const struct {
    const char *rule, *saves;
} derivatives[ROW_COUNT] = {
#define DERIV(id, rule, saves) [ROW_##id] = {#rule, saves},
#include "ir/ops/derivatives.def"
#undef DERIV
};

static const struct {
    CastPolicy policy, list;
} casts[ROW_COUNT] = {
#define CAST(id, policy, list) [ROW_##id] = {CAST_##policy, CAST_##list},
#include "ir/ops/autocast.def"
#undef CAST
};

static const struct {
    double ulps;
    BoundUnit unit;
    const char *why;
} bounds[ROW_COUNT] = {
#define BOUND(id, ulps, unit, why) [ROW_##id] = {ulps, UNIT_##unit, why},
#include "ir/ops/bounds.def"
#undef BOUND
};

const char *cast_policy_name(CastPolicy policy) {
    static const char *const words[] = {"none", "lower", "f32", "f32_dtype", "promote"};
    return words[policy];
}

/* Room for names, defaults and the schemas of three forms of every row. */
enum {
    TEXT_BYTES = 0
#define OP(id, schema, ...)    +4 * (int)sizeof(schema) + 384
#define ALIAS(id, schema, ...) +4 * (int)sizeof(schema) + 384
#include "ir/ops.def"
#undef OP
#undef ALIAS
};
static _Alignas(16) char text_pool[TEXT_BYTES];
static Param param_pool[ROW_COUNT][MAX_ARGS];
static const char *form_names[ROW_COUNT][FORM_COUNT];
static const char *form_schemas[ROW_COUNT][FORM_COUNT];

enum { NAME_SLOTS = 8192 };
_Static_assert(ROW_COUNT *FORM_COUNT * 2 <= NAME_SLOTS, "the table of names is too small");
typedef struct NameSlot {
    const char *name; /* without "aten::" */
    uint16_t place;   /* of the row in the table */
    uint8_t form;
} NameSlot;
static NameSlot names[NAME_SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
_Atomic bool op_rows_ready;
const OpRow *op_rows_by_id[OP_IDS];

int op_row_count(void) { return ROW_COUNT; }

const OpRow *op_row_at(int i) {
    op_rows_init();
    return &rows[i];
}

/* Where the row stands; -1: a program's own. */
static int row_place(const OpRow *row) {
    const uintptr_t from = (uintptr_t)row - (uintptr_t)rows;
    return from < sizeof rows ? (int)(from / sizeof *rows) : -1;
}

static uint64_t name_hash(const char *name, size_t n) { return hash_bytes(7, name, n); }

static void name_add(const char *name, int place, OpForm form) {
    if (!strncmp(name, "aten::", 6)) name += 6;
    size_t slot = name_hash(name, strlen(name)) % NAME_SLOTS;
    while (names[slot].name) slot = (slot + 1) % NAME_SLOTS;
    names[slot] = (NameSlot){name, (uint16_t)place, (uint8_t)form};
}

static size_t pool_used;
static const char *pool_print(const char *format, const char *a, const char *b, const char *c, const char *d) {
    char one[1280], *at = text_pool + pool_used;
    snprintf(one, sizeof one, format, a, b, c, d);
    memcpy(at, one, strlen(one) + 1);
    pool_used += strlen(one) + 1;
    return at;
}

static const char *full_name(const Schema *s, const char *suffix, const char *overload) {
    char base[128];
    snprintf(base, sizeof base, "%s%s", s->base, suffix);
    return pool_print("%s::%s%s%s", s->name_space, base, *overload ? "." : "", overload);
}

/* What Python calls __and__ is __iand__ in place. */
static const char *inplace_name(const Schema *s, const char *overload) {
    if (strncmp(s->base, "__", 2) != 0) return full_name(s, "_", overload);
    return pool_print("aten::__i%s%s%s", s->base + 2, *overload ? "." : "", overload, "");
}

/* The parameters that an out form's schema lacks. */
static void cut_options(char *params) {
    static const char options[] =
        "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";
    char *const at = strstr(params, options);
    if (!at) return;
    const char *const rest = at + strlen(options);
    if (*rest)
        memmove(at, rest + strlen(", "), strlen(rest + strlen(", ")) + 1);
    else
        at[-(int)strlen(", ")] = 0;
}

/* The schema of a written form: self marked as written, or the out tensors appended. */
static const char *written_schema(const OpRow *row, OpForm form, const char *name) {
    char params[768], outs[MAX_OUTS * 32] = "";
    const char *open = strchr(row->schema, '('), *arrow = strstr(row->schema, ") ->");
    if (!open || !arrow) return name;
    snprintf(params, sizeof params, "%.*s", (int)(arrow - open - 1), open + 1);
    if (form == FORM_inplace) {
        const char *rest = strchr(params, ' ');
        return pool_print("%s(Tensor(a!)%s%s%s", name, rest ? rest : "", ") -> Tensor(a!)", "");
    }
    cut_options(params);
    const size_t n = strlen(params);
    const bool keywords = strstr(params, "*,") || (n && params[n - 1] == '*');
    if (!keywords) strcat(outs, ", *");
    if (row->n_out == 1) { /* a backward op's out tensor and overload share a name */
        const char *const named = !strcmp(row->out, "grad_input") ? "grad_input" : "out";
        strcat(strcat(outs, ", Tensor(a!) "), named);
        return pool_print("%s(%s%s%s", name, params, outs, ") -> Tensor(a!)");
    }
    char results[MAX_OUTS * 16] = ") -> (";
    for (int i = 0; i < row->n_out; i++) {
        char one[32];
        snprintf(one, sizeof one, ", Tensor(%c!) out%d", 'a' + i, i);
        strcat(outs, one);
        snprintf(one, sizeof one, i ? ", Tensor(%c!)" : "Tensor(%c!)", 'a' + i);
        strcat(results, one);
    }
    return pool_print("%s(%s%s%s", name, params, outs, strcat(results, ")"));
}

/* ATen's in-place overloads of some ops are called otherwise than the functional ones. */
static const char *inplace_overload(const OpRow *row) { return row->inplace_as ? row->inplace_as : row->overload; }

/* A tensor where the row that does the work has an int. */
static bool reads_number(const OpRow *row) {
    for (int i = 0; i < row->n_params; i++)
        if (row->params[i].type == PT_tensor && row->alias_of->params[i].type == PT_int) return true;
    return false;
}

static int find_options(const OpRow *row) {
    for (int i = 0; i < row->n_params; i++)
        if (row->params[i].type == PT_layout_opt) return i - 1;
    return 0;
}

int op_device_param(const OpRow *row) {
    int i = row->n_params;
    while (--i >= 0 && row->params[i].type != PT_device_opt) {}
    return i;
}

/* Eager's dispatcher prepares calls of these forms: an int is read out of a tensor; an out form's tensor decides dtype
 * and device; in place, a view changes its handle. */
static uint8_t forms_prepared(const OpRow *row) {
    if (row->alias_of && row->flags & OPF_host) return (1 << FORM_COUNT) - 1;
    return (row->kind == KIND_view) << FORM_inplace | (row->options > 0) << FORM_out;
}

static bool lists_name(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static bool is_limited(const OpRow *row, const Param *param) {
    if (row->limit.params) return lists_name(row->limit.params, param->name);
    return param->type == PT_scalar || param->type == PT_scalar_opt || param->type == PT_float ||
           param->type == PT_float_opt;
}

/* An overload's numbers that stand for its row's tensors are named there, or free. */
static uint32_t limited_args(const OpRow *row) {
    const Param *const params = (row->alias_of ? row->alias_of : row)->params;
    uint32_t args = 0;
    for (int i = 0; row->limit.kind && i < row->n_params; i++) args |= (uint32_t)is_limited(row, &params[i]) << i;
    return args;
}

static void row_init(int place) {
    OpRow *const row = &rows[place];
    if (row->alias_of) {
        const OpRow *of = row->alias_of;
        row->kind = of->kind, row->meta = of->meta, row->flags = of->flags, row->role = of->role, row->body = of->body;
        row->samples = of->samples, row->check = of->check, row->limit = of->limit;
        row->neutral = of->neutral, row->product = of->product;
    }
    if (row->check.param) row->flags |= OPF_check;
    const int worker = row->alias_of ? row_place(row->alias_of) : place;
    row->derivative = derivatives[worker].rule;
    row->saves = derivatives[worker].saves ? derivatives[worker].saves : "";
    row->autocast = casts[worker].policy, row->autocast_list = casts[worker].list;
    row->bound.ulps = bounds[worker].ulps, row->bound.unit = bounds[worker].unit, row->bound.why = bounds[worker].why;
    pool_used = (pool_used + 15) & ~(size_t)15;
    Schema s = {.params = param_pool[place], .text = text_pool + pool_used};
    if (schema_parse(row->schema, &s) != ST_OK) return;
    pool_used += s.text_used;
    row->base = s.base, row->overload = s.overload, row->params = s.params;
    row->n_params = s.n_params, row->n_out = s.n_out, row->returns_list = s.returns_list;
    row->limit.args = limited_args(row);
    row->shares = op_shares(row->params, row->n_params);
    row->options = find_options(row);
    row->device = op_device_param(row);
    if (row->alias_of && reads_number(row)) row->flags |= OPF_host;
    row->prepares = forms_prepared(row);
    const char **name = form_names[place], **schema = form_schemas[place];
    row->name = name[FORM_functional] = full_name(&s, "", s.overload);
    row->schema = schema[FORM_functional] =
        pool_print("%s%s%s%s", strstr(row->schema, "::") ? "" : "aten::", row->schema, "", "");
    if (row->inplace) name[FORM_inplace] = inplace_name(&s, inplace_overload(row));
    if (row->out) name[FORM_out] = full_name(&s, "", row->out);
    for (int form = 0; form < FORM_COUNT; form++) {
        if (!name[form]) continue;
        if (form != FORM_functional) schema[form] = written_schema(row, (OpForm)form, name[form]);
        name_add(name[form], place, (OpForm)form);
    }
}

static void table_init(void) {
    for (int i = 0; i < ROW_COUNT; i++) op_rows_by_id[rows[i].id] = &rows[i], row_init(i);
    atomic_store_explicit(&op_rows_ready, true, memory_order_release);
}

void op_rows_init(void) { pthread_once(&once, table_init); }

const OpRow *(*op_find_made)(const char *name, size_t n);

static const NameSlot *find_slot(const char *name, size_t n) {
    if (n >= 6 && !memcmp(name, "aten::", 6)) name += 6, n -= 6;
    for (size_t slot = name_hash(name, n) % NAME_SLOTS; names[slot].name; slot = (slot + 1) % NAME_SLOTS)
        if (strlen(names[slot].name) == n && !memcmp(names[slot].name, name, n)) return &names[slot];
    return NULL;
}

const OpRow *op_find(const char *name, size_t n, OpForm *form) {
    op_rows_init();
    const NameSlot *const found = find_slot(name, n);
    if (form) *form = found ? (OpForm)found->form : FORM_functional;
    if (found) return &rows[found->place];
    return op_find_made ? op_find_made(name, n) : NULL;
}

const char *op_form_name(const OpRow *row, OpForm form) {
    const int place = row_place(row);
    return place >= 0 && form_names[place][form] ? form_names[place][form] : row->name;
}

const char *op_form_schema(const OpRow *row, OpForm form) {
    const int place = row_place(row);
    return place >= 0 && form_schemas[place][form] ? form_schemas[place][form] : row->schema;
}

/* Most names differ at once: a call of strcmp costs rules of views more than they do. */
static bool same_name(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

int op_param_find(const OpRow *row, const char *name) {
    for (int i = 0; name && i < row->n_params; i++)
        if (same_name(row->params[i].name, name)) return i;
    return -1;
}

static bool lacks_options(const OpRow *row, OpForm form) { return form == FORM_out && row->options; }

int op_form_params(const OpRow *row, OpForm form) { return row->n_params - (lacks_options(row, form) ? N_OPTIONS : 0); }

int op_form_param(const OpRow *row, OpForm form, int i) {
    return i + (lacks_options(row, form) && i >= row->options ? N_OPTIONS : 0);
}

bool op_shares(const Param *params, int n) {
    for (int i = 0; i < n; i++)
        if (*params[i].alias && !param_is_written(&params[i])) return true;
    return false;
}

const char *order_name(Order order) {
    static const char *const order_names[] = {"none", "L", "S", "LS", "chain", "index"};
    return order_names[order];
}
