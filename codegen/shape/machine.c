/* machine.c: see machine.h. What is a call comes from scalar.def: its OP and CMP rows are instructions; so are the few
 * CALL rows that every instruction set can do in one or two. */
#include "codegen/shape/machine.h"

#include "runtime/base/error.h"

static const Machine machines[] = {
#define MACHINE(name, level, lanes, near, prefetch, keep, stream, fma, doc)                                            \
    {#name, level, lanes, near, prefetch, keep, stream, fma},
#include "codegen/shape/machine.def"
};
static const Machine gpu_machines[] = {
#define GPU_MACHINE(name_, capability_, threads_, few, ordered, words_, doc)                                           \
    {.name = #name_,                                                                                                   \
     .capability = capability_,                                                                                        \
     .threads = threads_,                                                                                              \
     .words = words_,                                                                                                  \
     .few_threads = few,                                                                                               \
     .ordered_blocks = ordered},
#include "codegen/shape/machine.def"
};

const Machine *machine_at(int i) { return i >= 0 && i < COUNT_OF(machines) ? &machines[i] : NULL; }
const Machine *machine_gpu_at(int i) { return i >= 0 && i < COUNT_OF(gpu_machines) ? &gpu_machines[i] : NULL; }
const Machine *machine_gpu(void) { return &gpu_machines[COUNT_OF(gpu_machines) - 1]; }

const Machine *machine_of_capability(int capability) {
    int i = COUNT_OF(gpu_machines) - 1;
    while (i > 0 && gpu_machines[i].capability > capability) i--;
    return &gpu_machines[i];
}

static const Machine *any_machine(int i) {
    return i < COUNT_OF(machines) ? machine_at(i) : machine_gpu_at(i - COUNT_OF(machines));
}

const Machine *machine_find(const char *name, size_t n) {
    const Machine *m;
    for (int i = 0; (m = any_machine(i)); i++)
        if (strlen(m->name) == n && !memcmp(m->name, name, n)) return m;
    Text list = {0};
    for (int i = 0; (m = any_machine(i)); i++) text_printf(&list, "%s%s", i ? ", " : "", m->name);
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

/* text ------------------------------------------------------------------------------------------ */

void machine_print(const Machine *m, Text *text) {
    if (machine_is_gpu(m))
        text_printf(text, "machine %s: threads %d, few %lld, ordered %lld, words %d\n", m->name, m->threads,
                    (long long)m->few_threads, (long long)m->ordered_blocks, m->words);
    else
        text_printf(text, "machine %s: lanes %d, near %lld, ahead %lld, keep %lld, stream %lld%s\n", m->name, m->lanes,
                    (long long)m->near_bytes, (long long)m->prefetch_bytes, (long long)m->keep_bytes,
                    (long long)m->stream_bytes, m->fma ? ", fma" : "");
}

static Status read_size(TextReader *in, int64_t *out) {
    TRY(reader_int(in, out));
    return *out < 0 ? reader_expected(in, "a number that is not negative before this") : ST_OK;
}

static Status read_cpu(TextReader *in, Machine *m) {
    const Machine known = *m;
    EAT(in, ": lanes");
    TRY(reader_count(in, &m->lanes));
    if (m->lanes != known.lanes) return reader_expected(in, "the lanes of this machine before this");
    EAT(in, ", near");
    TRY(read_size(in, &m->near_bytes));
    EAT(in, ", ahead");
    TRY(read_size(in, &m->prefetch_bytes));
    EAT(in, ", keep");
    TRY(read_size(in, &m->keep_bytes));
    EAT(in, ", stream");
    TRY(read_size(in, &m->stream_bytes));
    return reader_eat(in, ", fma") == known.fma ? ST_OK : reader_expected(in, "what this machine has before this");
}

static Status read_gpu(TextReader *in, Machine *m) {
    const int most = m->words;
    EAT(in, ": threads");
    TRY(reader_count(in, &m->threads));
    EAT(in, ", few");
    TRY(read_size(in, &m->few_threads));
    EAT(in, ", ordered");
    TRY(read_size(in, &m->ordered_blocks));
    EAT(in, ", words");
    TRY(reader_count(in, &m->words));
    return m->words <= most ? ST_OK : reader_expected(in, "at most the words of this machine before this");
}

Status machine_parse(TextReader *in, Machine *out) {
    const char *name;
    size_t n;
    EAT(in, "machine");
    if (!reader_word(in, &name, &n)) return reader_expected(in, "a machine's name");
    const Machine *const known = machine_find(name, n);
    if (!known) return error_pending();
    Machine m = *known;
    TRY((machine_is_gpu(&m) ? read_gpu : read_cpu)(in, &m));
    *out = m;
    return ST_OK;
}
