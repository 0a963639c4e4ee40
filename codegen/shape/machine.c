/* machine.c: see machine.h. What is a call comes from scalar.def: its OP and CMP rows are instructions; so are the few
 * CALL rows that every instruction set can do in one or two. */
#include "codegen/shape/machine.h"

#include "runtime/base/error.h"

static const Machine machines[] = {
#define MACHINE(name, level, lanes, near, ahead, keep, stream, fma, doc)                                               \
    {#name, level, lanes, near, ahead, keep, stream, fma},
#include "codegen/shape/machine.def"
#undef MACHINE
};

const Machine *machine_at(int i) { return i >= 0 && i < COUNT_OF(machines) ? &machines[i] : NULL; }

const Machine *machine_find(const char *name, size_t n) {
    for (int i = 0; i < COUNT_OF(machines); i++)
        if (strlen(machines[i].name) == n && !memcmp(machines[i].name, name, n)) return &machines[i];
    Text list = {0};
    for (int i = 0; i < COUNT_OF(machines); i++) text_printf(&list, "%s%s", i ? ", " : "", machines[i].name);
    error_raise(ST_ARGUMENT, "machine '%.*s' is unknown; machines: %s", (int)n, name, text_str(&list));
    text_free(&list);
    return NULL;
}

#define OP(f, i)  false
#define CMP(f, i) false
#define CALL      true
static const bool in_library[PRIM_COUNT] = {
#define SCALAR(name, arity, types, result, llvm, bound, doc) llvm,
#include "ir/scalar.def"
#undef SCALAR
};
#undef OP
#undef CMP
#undef CALL

bool machine_calls(const Machine *machine, int prim, SType type) {
    switch (prim) {
    case PRIM_select:
    case PRIM_neg:
    case PRIM_not:
    case PRIM_sqrt:
    case PRIM_floor:
    case PRIM_ceil:
    case PRIM_trunc:
    case PRIM_rint:
        return false;
    case PRIM_abs:
        return type != S_f32 && type != S_f64;
    case PRIM_fma:
        return !machine->fma;
    default:
        return in_library[prim];
    }
}

void machine_print(const Machine *m, Text *text) {
    text_printf(text, "machine %s: lanes %d, near %lld, ahead %lld, keep %lld, stream %lld%s\n", m->name, m->lanes,
                (long long)m->near_bytes, (long long)m->ahead_bytes, (long long)m->keep_bytes,
                (long long)m->stream_bytes, m->fma ? ", fma" : "");
}

static Status read_bytes(TextReader *in, int64_t *out) {
    TRY(reader_int(in, out));
    return *out < 0 ? reader_expected(in, "a number of bytes before this") : ST_OK;
}

Status machine_parse(TextReader *in, Machine *out) {
    const char *name;
    size_t n;
    EAT(in, "machine");
    if (!reader_word(in, &name, &n)) return reader_expected(in, "a machine's name");
    const Machine *const known = machine_find(name, n);
    if (!known) return error_pending();
    Machine m = *known;
    EAT(in, ": lanes");
    TRY(reader_count(in, &m.lanes));
    if (m.lanes != known->lanes) return reader_expected(in, "the lanes of this machine before this");
    EAT(in, ", near");
    TRY(read_bytes(in, &m.near_bytes));
    EAT(in, ", ahead");
    TRY(read_bytes(in, &m.ahead_bytes));
    EAT(in, ", keep");
    TRY(read_bytes(in, &m.keep_bytes));
    EAT(in, ", stream");
    TRY(read_bytes(in, &m.stream_bytes));
    if (reader_eat(in, ", fma") != known->fma) return reader_expected(in, "what this machine has before this");
    *out = m;
    return ST_OK;
}
