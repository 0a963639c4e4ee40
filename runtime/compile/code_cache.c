/* code_cache.c: see code_cache.h. The key is the structure of a nest with its buffers' types, and the instruction set:
 * a hash finds the functions that may be meant, their words say which one is. The code of one module is mapped and
 * unmapped as one: it stays while an executable has a function of it, then among the unused ones, of which the longest
 * unused go first.
 *
 *   hash -> Function -> Function of the same hash...  \
 *                                                       Module (pages, users) -- unused: newest <-> ... <-> oldest
 *   fn   -> Function                                  / */
#include "runtime/compile/code_cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/shape/plan_shapes.h"
#include "kernels/kernels.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/small_array.h"
#include "runtime/compile/code_disk.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/compile/loader.h"
#include "runtime/core/jit_symbols.h"
#include "runtime/core/profile.h"

/* By what the code of a nest is found. */
typedef struct CodeSignature {
    uint64_t hash;
    uint64_t tuned; /* its shape, where it is not the decided one (Step.tuned); 0: it is */
    int isa, n_words;
    int64_t *words;
} CodeSignature;

typedef struct Module Module;
typedef struct Function {
    CodeSignature key; /* its words are the module's */
    NestFn *fn;
    Module *module;
    struct Function *next; /* of the same hash */
} Function;

struct Module {
    LoadedCode *code;
    int64_t users;         /* functions taken */
    Module *newer, *older; /* while there is no user */
    int64_t *words;        /* of all keys */
    int n_functions;
    Function functions[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Map by_hash, by_fn; /* -> Function */
static Module *newest, *oldest;
static CodeCounts counts;
static int held; /* compiles that rely on what they have seen */

/* words: room for all; NULL: they are only counted. */
static CodeSignature key_of(const Nest *nest, const Buf *bufs, uint64_t tuned, int64_t *words) {
    CodeSignature key = {.tuned = tuned, .isa = isa_used(), .words = words};
    key.n_words = nest_words(nest, bufs, words, &key.hash);
    key.hash = failpoint("one_hash") ? 1 : hash_mix(key.hash, (uint64_t)key.isa);
    return key;
}

static bool same_key(const CodeSignature *a, const CodeSignature *b) {
    return a->hash == b->hash && a->tuned == b->tuned && a->isa == b->isa && a->n_words == b->n_words &&
           !memcmp(a->words, b->words, sizeof *a->words * (size_t)a->n_words);
}

static uint64_t key_of_fn(NestFn *fn) {
    uint64_t key;
    memcpy(&key, &fn, sizeof key);
    return key;
}

static Function *find_locked(const CodeSignature *key) {
    Function *at = map_get(&by_hash, key->hash);
    while (at && !same_key(&at->key, key)) at = at->next;
    return at;
}

static bool add_locked(Function *function) {
    function->next = map_get(&by_hash, function->key.hash);
    return map_set(&by_hash, function->key.hash, function);
}

/* It may not be there: its module could not be entered as a whole. */
static void remove_locked(Function *function) {
    Function *const first = map_get(&by_hash, function->key.hash);
    if (first == function) map_set(&by_hash, function->key.hash, function->next);
    for (Function *at = first; at; at = at->next)
        if (at->next == function) at->next = function->next;
}

/* unused modules ------------------------------------------------------------------------------ */

static void unused_add(Module *module) {
    module->newer = NULL;
    module->older = newest;
    *(newest ? &newest->newer : &oldest) = module;
    newest = module;
    counts.unused_bytes += loader_bytes(module->code);
}

static void unused_remove(Module *module) {
    *(module->newer ? &module->newer->older : &newest) = module->older;
    *(module->older ? &module->older->newer : &oldest) = module->newer;
    counts.unused_bytes -= loader_bytes(module->code);
}

static void module_free(Module *module) {
    loader_free(module->code);
    mem_free(module->words);
    mem_free(module);
}

static void unmap(Module *module) {
    for (int i = 0; i < module->n_functions; i++) {
        remove_locked(&module->functions[i]);
        map_set(&by_fn, key_of_fn(module->functions[i].fn), NULL);
    }
    counts.bytes -= loader_bytes(module->code);
    counts.modules--;
    module_free(module);
}

static void shrink_code(void) {
    while (!held && counts.unused_bytes > CODE_MOST_UNUSED) {
        Module *const module = oldest;
        unused_remove(module);
        unmap(module);
    }
}

NestFn *code_acquire(const Nest *nest, const Buf *bufs, uint64_t tuned) {
    int64_t few[1024], *const words = SMALL_ARRAY(few, nest_words(nest, bufs, NULL, NULL));
    if (!words) return NULL;
    const CodeSignature key = key_of(nest, bufs, tuned, words);
    pthread_mutex_lock(&lock);
    Function *const found = find_locked(&key);
    if (found && found->module->users++ == 0) unused_remove(found->module);
    pthread_mutex_unlock(&lock);
    small_array_free(few, words);
    return found ? found->fn : NULL;
}

void code_release(NestFn *fn) {
    pthread_mutex_lock(&lock);
    Module *const module = ((Function *)map_get(&by_fn, key_of_fn(fn)))->module;
    if (--module->users == 0) unused_add(module);
    shrink_code();
    pthread_mutex_unlock(&lock);
}

void code_hold(void) {
    pthread_mutex_lock(&lock);
    held++;
    pthread_mutex_unlock(&lock);
}

void code_let_go(void) {
    pthread_mutex_lock(&lock);
    held--;
    shrink_code();
    pthread_mutex_unlock(&lock);
}

CodeCounts code_counts(void) {
    pthread_mutex_lock(&lock);
    const CodeCounts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}

/* generating ---------------------------------------------------------------------------------- */

/* What one module is asked for: each distinct nest once. */
typedef struct WantedCode {
    Arena *arena;
    VEC(const Nest *) nests;
    VEC(const Buf *) bufs;
    VEC(const NestMapping *) shapes;
    VEC(const char *) names;  /* in the object: the same for equal code */
    VEC(const char *) titles; /* of the kernel, or of its nest: what the first who asks calls it */
    VEC(CodeSignature) keys;
} WantedCode;

static bool wants_key(const WantedCode *wanted, const CodeSignature *key) {
    for (int i = 0; i < wanted->keys.n; i++)
        if (same_key(&wanted->keys.at[i], key)) return true;
    return false;
}

static void want(WantedCode *wanted, const Step *step, int number, CompileReport *info) {
    const Kernel *const kernel = step->kernel;
    const Nest *const nest = &kernel->nests[number];
    int64_t *const words = ARENA_ARRAY(wanted->arena, int64_t, nest_words(nest, kernel->bufs, NULL, NULL));
    if (!words) return; /* the interpreter has it */
    const CodeSignature key = key_of(nest, kernel->bufs, step->tuned ? step->tuned[number] : 0, words);
    if (wants_key(wanted, &key)) return;
    info->nests++;
    if (find_locked(&key)) {
        info->reused++;
        return;
    }
    VEC_PUSH(wanted->arena, &wanted->nests, nest);
    VEC_PUSH(wanted->arena, &wanted->bufs, kernel->bufs);
    VEC_PUSH(wanted->arena, &wanted->shapes, step->shapes[number]);
    VEC_PUSH(wanted->arena, &wanted->names, arena_printf(wanted->arena, "n%d", wanted->keys.n));
    VEC_PUSH(wanted->arena, &wanted->titles, kernel->n_nests == 1 ? kernel->name : nest->name);
    VEC_PUSH(wanted->arena, &wanted->keys, key);
}

static void want_all(WantedCode *wanted, const Plan *plan, CompileReport *info) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        if (step->kind != STEP_kernel || !device_is_host(step->device)) continue;
        for (int k = 0; k < step->kernel->n_nests; k++) want(wanted, step, k, info);
    }
    pthread_mutex_unlock(&lock);
}

/* All of its functions are found, or none. */
static bool enter_module(Module *module) {
    for (int i = 0; i < module->n_functions; i++) {
        Function *const function = &module->functions[i];
        if (!map_set(&by_fn, key_of_fn(function->fn), function) || !add_locked(function)) return false;
    }
    return true;
}

/* The keys, in memory of the module's. */
static bool copy_keys(const WantedCode *wanted, Module *module) {
    size_t n = 0;
    for (int i = 0; i < wanted->keys.n; i++) n += (size_t)wanted->keys.at[i].n_words;
    int64_t *at = module->words = mem_alloc(n * sizeof *at);
    for (int i = 0; at && i < wanted->keys.n; i++) {
        CodeSignature *const key = &module->functions[i].key;
        *key = wanted->keys.at[i];
        key->words = memcpy(at, key->words, sizeof *at * (size_t)key->n_words);
        at += key->n_words;
    }
    return at;
}

static Module *module_new(const WantedCode *wanted, LoadedCode *code) {
    const int n = wanted->keys.n;
    Module *const module = mem_zero(sizeof *module + (size_t)n * sizeof *module->functions);
    if (!module || !copy_keys(wanted, module)) {
        mem_free(module);
        return NULL;
    }
    module->code = code;
    for (int i = 0; i < n; i++) {
        void *const at = loader_symbol(code, wanted->names.at[i]);
        module->functions[i].module = module;
        memcpy(&module->functions[i].fn, &at, sizeof at);
        module->n_functions += at != NULL;
    }
    return module;
}

static Status publish_code(const WantedCode *wanted, LoadedCode *code) {
    Module *const module = module_new(wanted, code);
    if (!module) {
        loader_free(code);
        return ST_MEMORY;
    }
    if (module->n_functions < wanted->keys.n) {
        module_free(module);
        return error_raise(ST_IO, "loading code: the object lacks a function");
    }
    pthread_mutex_lock(&lock);
    counts.bytes += loader_bytes(code);
    counts.modules++;
    const bool entered = enter_module(module);
    if (entered)
        unused_add(module); /* until the executable takes it */
    else
        unmap(module);
    pthread_mutex_unlock(&lock);
    return entered ? ST_OK : ST_MEMORY;
}

static Status code_fail(CompileReport *info, Status status, int code, const char *text) {
    info->failure = (BailCode)code;
    snprintf(info->reason, sizeof info->reason, "%.*s", (int)sizeof info->reason - 1, text);
    error_clear();
    return status;
}

/* "k0_tanh_mul.f.graph2": as kernels are called in dumps, graphs in sn_explain. */
static void register_names(const WantedCode *wanted, LoadedCode *code, const CompileReport *info) {
    const int n = wanted->nests.n;
    const char **const shown = ARENA_ARRAY(wanted->arena, const char *, n);
    const char *behind = "";
    const CompileRequest *const request = compile_request(info);
    if (request->function[0])
        behind = arena_printf(wanted->arena, ".%s.graph%d%s%s", request->function, request->variant,
                              info->part ? "." : "", info->part ? info->part : "");
    for (int i = 0; shown && behind && i < n; i++) {
        const char *const name = wanted->titles.at[i];
        shown[i] = arena_printf(wanted->arena, "%s%s", name ? name : wanted->names.at[i], behind);
        if (!shown[i]) return;
    }
    if (shown && behind) loader_register(code, &(LoaderNames){n, wanted->names.at, shown, behind});
}

static Status load_code(const WantedCode *wanted, const FileSpan *object, CompileReport *info) {
    LoadedCode *code;
    const int64_t start = clock_ns();
    BailCode why = BAIL_load;
    Status status = loader_load(object->at, object->bytes, &code, &why);
    if (status == ST_OK && jit_symbols_on()) register_names(wanted, code, info);
    if (status == ST_OK && (status = publish_code(wanted, code)) == ST_MEMORY) why = BAIL_memory;
    info->load_ns += clock_ns() - start;
    profile_record_stage("load", start);
    if (status == ST_OK) return ST_OK;
    return code_fail(info, status, why, error_slot()->message);
}

/* What is there but does not load goes, and code is made anew; what says why then is that. */
static bool load_cached(const WantedCode *wanted, const DiskSignature *key, CompileReport *info) {
    const int64_t start = clock_ns();
    DiskCode code;
    const bool taken = disk_load(key, &code);
    info->load_ns += clock_ns() - start;
    profile_record_stage("load", start);
    if (!taken) return false;
    CompileReport trial = *info;
    const bool loaded = load_code(wanted, &(FileSpan){code.at, code.bytes}, &trial) == ST_OK;
    info->load_ns = trial.load_ns;
    mem_free(code.at);
    if (loaded)
        info->loaded += wanted->nests.n;
    else if (trial.failure == BAIL_load)
        disk_unloadable(key, trial.reason);
    return loaded;
}

/* A nest that stores more than half of the last cache goes past it: the other half is for what is loaded. At most 16
 * MiB: larger caches are shared with more cores, and in a virtual machine with its neighbours. */
static int64_t stream_bytes(int64_t most) {
    const long last = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return last > 0 ? min_i64(last / 2, most) : most;
}

static Machine machines[ISA_COUNT];

static void measure_code(void) {
    for (int i = 0; i < ISA_COUNT; i++) {
        machines[i] = *machine_at(i);
        machines[i].stream_bytes = stream_bytes(machines[i].stream_bytes);
    }
}

const Machine *code_machine(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, measure_code);
    return &machines[isa_used()];
}

/* Said once: everything still runs, but as loop programs, and nothing else shows it. */
static Status llvm_is_absent(CompileReport *info) {
    static atomic_bool said;
    if (!compile_request(info)->optional && !atomic_exchange(&said, true))
        LOG(compile, WARNING, "no code is generated: %s", llvm_module_reason());
    return code_fail(info, ST_UNSUPPORTED, BAIL_llvm_absent, llvm_module_reason());
}

static Status compile_code(const WantedCode *wanted, const CodegenRequest *request, const DiskSignature *key,
                           CompileReport *info) {
    const LlvmModuleTable *const llvm = llvm_module();
    if (!llvm) return llvm_is_absent(info);
    CodegenResult result = {0};
    const int64_t start = clock_ns();
    const Status status = llvm->compile(request, &result);
    info->codegen_ns += clock_ns() - start;
    profile_record_stage("codegen", start);
    info->build_ns += result.times.build_ns;
    info->optimise_ns += result.times.passes_ns;
    info->emit_ns += result.times.emit_ns;
    if (status != ST_OK) return code_fail(info, status, result.bail ? result.bail : BAIL_codegen, result.message);
    const FileSpan object = {result.object, result.bytes};
    const Status loaded = load_code(wanted, &object, info);
    if (loaded == ST_OK && key) disk_store(key, &object);
    llvm->free_bytes(result.object);
    if (loaded == ST_OK) info->generated += wanted->nests.n;
    return loaded;
}

/* What the code is of beside its nests: the program's extensions, shapes that were measured. */
static void print_known_by(const WantedCode *wanted, const Plan *plan, Text *text) {
    if (plan->extensions) text_puts(text, plan->extensions);
    for (int i = 0; i < wanted->keys.n; i++)
        if (wanted->keys.at[i].tuned)
            text_printf(text, "nest %d tuned %016llx\n", i, (unsigned long long)wanted->keys.at[i].tuned);
}

static Status generate(const WantedCode *wanted, const Plan *plan, const Machine *machine, CompileReport *info) {
    const CodegenRequest request = {.n_nests = wanted->nests.n,
                                    .nests = wanted->nests.at,
                                    .bufs = wanted->bufs.at,
                                    .shapes = wanted->shapes.at,
                                    .names = wanted->names.at,
                                    .machine = machine};
    DiskSignature key = {0};
    Text by = {0};
    print_known_by(wanted, plan, &by);
    const bool has_key = !plan->unversioned && code_disk_signature(&request, text_str(&by), &key);
    text_free(&by);
    Status status = ST_OK;
    if (!has_key || !load_cached(wanted, &key, info))
        status = compile_code(wanted, &request, has_key ? &key : NULL, info);
    code_disk_signature_free(&key);
    return status;
}

Status code_generate(Plan *plan, CompileReport *info) {
    const Machine *const machine = code_machine();
    const bool shaped = plan->machine == machine || plan_shape(plan, machine) == ST_OK;
    WantedCode wanted = {.arena = shaped ? arena_new() : NULL};
    if (!wanted.arena) return code_fail(info, ST_MEMORY, BAIL_memory, "out of memory");
    want_all(&wanted, plan, info);
    const Status status = wanted.nests.n ? generate(&wanted, plan, machine, info) : ST_OK;
    arena_free(wanted.arena);
    return status;
}
