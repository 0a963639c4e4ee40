/* dynamic_call.c: see dynamic_call.h. A symbol is added where eager still takes all calls: with the numbers as they
 * are, or with some of those that are multiples or parts of it as expressions; sizes that may be anything before those
 * that must be multiples of the sample's. */
#include "tests/ops/dynamic_call.h"

#include "runtime/base/error.h"

int64_t dynamic_size(const DynamicCall *d, int symbol, int k) {
    const DynamicSymbol *const s = &d->symbols[symbol];
    return s->multiple ? s->size * (k + 1) : s->size + k * (symbol + 1);
}

int dynamic_symbol_of(const DynamicCall *d, int64_t size) {
    for (int i = 0; i < d->n_symbols; i++)
        if (d->symbols[i].size == size && !d->symbols[i].number) return i;
    return -1;
}

static int64_t slot_value(const DynamicCall *d, const DynamicSlot *slot, int k) {
    int64_t value = slot->times;
    for (int i = 0; i < d->n_symbols; i++)
        if (slot->symbols >> i & 1) value *= dynamic_size(d, i, k);
    return value / slot->over;
}

void dynamic_slot_text(const DynamicSlot *slot, Text *text) {
    text_printf(text, "%lld", (long long)slot->times);
    for (int i = 0; i < DYNAMIC_SYMBOLS; i++)
        if (slot->symbols >> i & 1) text_printf(text, "*s%d", i);
    if (slot->over > 1) text_printf(text, "//%lld", (long long)slot->over);
}

static void put_slot(SampleCall *call, const DynamicSlot *slot, int64_t value) {
    Arg *const arg = &call->args[slot->param];
    if (slot->item < 0)
        arg->i = value;
    else
        ((int64_t *)(uintptr_t)arg->ints)[slot->item] = value;
}

Status dynamic_make(const DynamicCall *d, int k, SampleCall *call) {
    Resize to[DYNAMIC_SYMBOLS];
    Case with = *d->of;
    int n = 0;
    for (int i = 0; i < d->n_symbols; i++) {
        if (d->symbols[i].number) continue;
        to[n] = (Resize){.only = d->symbols[i].size, .plus = dynamic_size(d, i, k), .also = n ? &to[n - 1] : NULL};
        n++;
    }
    with.style.resize = n ? &to[n - 1] : NULL;
    TRY(sample_make(with.row, with.line, &with.style, call));
    for (int i = 0; i < d->n_slots; i++) put_slot(call, &d->slots[i], slot_value(d, &d->slots[i], k));
    return ST_OK;
}

static bool runs(const DynamicCall *d, int k) {
    const sn_scope scope = sn_scope_begin();
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    const bool fine = dynamic_make(d, k, &call) == ST_OK && sample_run(&call, outs, &n) == ST_OK && n == d->n_outs;
    if (sn_check() != SN_OK) sn_error_take();
    sn_scope_end(scope);
    return fine;
}

static bool all_run(const DynamicCall *d) {
    for (int k = DYNAMIC_CALLS - 1; k > 0; k--)
        if (!runs(d, k)) return false;
    return true;
}

/* A list that the sample wrote lies in the call, and may be changed. */
static bool is_own(const SampleCall *call, const int64_t *at) {
    return (at >= call->ints && at < call->ints + SAMPLE_INTS) ||
           ((const char *)at >= (const char *)call->given && (const char *)at < (const char *)(call->given + MAX_ARGS));
}

static void add_slot(DynamicCall *d, int param, int item, int64_t value) {
    if (value < 2 || d->n_slots == DYNAMIC_SLOTS) return;
    d->slots[d->n_slots++] = (DynamicSlot){param, item, value, value, 1, 0};
}

/* How many groups a convolution has is what it is, for every export. */
static bool may_follow(const Param *param) { return param->symbolic && strcmp(param->name, "groups") != 0; }

static void find_slots(DynamicCall *d, const SampleCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (!may_follow(&call->row->params[i])) continue;
        if (arg->kind == ARG_int) add_slot(d, i, -1, arg->i);
        if (arg->kind == ARG_ints && arg->n && is_own(call, arg->ints))
            for (int k = 0; k < arg->n; k++) add_slot(d, i, k, arg->ints[k]);
    }
}

/* Symbols ------------------------------------------------------------------------------------- */

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static bool is_related(const DynamicSlot *slot, int64_t size) {
    return slot->value % size == 0 || size % slot->value == 0;
}

static void follow(DynamicSlot *slot, int symbol, int64_t size) {
    const int64_t times = slot->times, over = slot->over * size, common = gcd(times, over);
    slot->times = times / common;
    slot->over = over / common;
    slot->symbols |= 1u << symbol;
}

/* With the slots that `which` names, of those that the symbol may have to do with. */
static void follow_some(DynamicCall *d, int symbol, uint32_t which) {
    const int64_t size = d->symbols[symbol].size;
    int at = 0;
    for (int i = 0; i < d->n_slots; i++)
        if (is_related(&d->slots[i], size) && which >> at++ & 1) follow(&d->slots[i], symbol, size);
}

static bool try_symbol(DynamicCall *d, DynamicSymbol symbol) {
    enum { MOST_RELATED = 4 };
    const int at = d->n_symbols;
    int related = 0;
    for (int i = 0; i < d->n_slots; i++) related += is_related(&d->slots[i], symbol.size);
    for (uint32_t which = 0; which < 1u << min_i64(related, MOST_RELATED); which++) {
        DynamicCall with = *d;
        with.symbols[with.n_symbols++] = symbol;
        follow_some(&with, at, which);
        if (all_run(&with)) return *d = with, true;
    }
    return false;
}

static void add_size(DynamicCall *d, int64_t size) {
    if (size < 2 || d->n_symbols == DYNAMIC_SYMBOLS || dynamic_symbol_of(d, size) >= 0) return;
    if (!try_symbol(d, (DynamicSymbol){.size = size})) try_symbol(d, (DynamicSymbol){.size = size, .multiple = true});
}

/* A number that follows no size: an int input. */
static void add_number(DynamicCall *d, int slot) {
    if (d->slots[slot].symbols || d->n_symbols == DYNAMIC_SYMBOLS) return;
    DynamicCall with = *d;
    with.symbols[with.n_symbols++] = (DynamicSymbol){.size = d->slots[slot].value, .number = true};
    follow(&with.slots[slot], d->n_symbols, d->slots[slot].value);
    if (all_run(&with)) *d = with;
}

bool dynamic_find(const Case *c, DynamicCall *d) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    *d = (DynamicCall){.of = c};
    if (!ops_run(c, &call, outs, &d->n_outs)) return false;
    find_slots(d, &call);
    for (int i = 0; i < call.n_tensors; i++)
        for (int k = 0; k < call.tensors[i]->base.meta->rank; k++) add_size(d, call.tensors[i]->base.meta->sizes[k]);
    if (!d->n_symbols)
        for (int i = 0; i < d->n_slots; i++) add_number(d, i);
    return true;
}
