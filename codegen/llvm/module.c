/* module.c: the table of libsinter-llvm.so: a request's nests become one LLVM module, then object
 * bytes.
 *
 *   emit (emit_nest.c) -> verify -> link the bitcode functions it names -> always-inline, dce,
 *   early-cse, instcombine, simplifycfg -> object
 *
 * Every function of the bitcode is a module of its own (library.c), read when it is first named.
 * Everything lives in one context per call; nothing here is global but LLVM's own initialisation.
 * Failures come back as a Status and a message; what LLVM itself calls fatal (a broken target,
 * memory running out inside LLVM) still aborts the process [semantics O4]. */
#include "codegen/llvm/emit.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/bitcode.h"
#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

static const char PIPELINE[] =
    "always-inline,globaldce,function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";
static const char TRIPLE[] = "x86_64-unknown-linux-gnu";
static const char *const cpus[ISA_COUNT] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

typedef struct ModuleJob {
    Emitter e;
    const CodegenRequest *request;
    CodegenResult *result;
    LLVMTargetMachineRef machine;
    char complaint[256]; /* of LLVM's diagnostics */
} ModuleJob;

#ifdef SINTER_OWN_LLVM
/* LLVM's static objects have no end: while the program exits, a thread may still compile. */
int __cxa_atexit(void (*end)(void *), void *object, void *library);
int __cxa_atexit(void (*end)(void *), void *object, void *library) {
    (void)end, (void)object, (void)library;
    return 0;
}
#endif

static Status module_fail(ModuleJob *job, Status status, int bail, const char *format, ...) PRINTF_LIKE(4, 5);
static Status module_fail(ModuleJob *job, Status status, int bail, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(job->result->message, sizeof job->result->message, format, args);
    va_end(args);
    job->result->bail = bail;
    return status;
}

static bool fails_here(const ModuleJob *job, const char *point) {
    return job->request->failpoint && job->request->failpoint(point);
}

/* Passes that found nothing to do in any kernel of the samples, but cost a twentieth of a compile.
 * Options belong to a whole LLVM: one that the program may share is left alone. */
static void drop_passes(void) {
#ifdef SINTER_OWN_LLVM
    static const char *const options[] = {"sinter",
                                          "-disable-constant-hoisting",
                                          "-disable-mergeicmps",
                                          "-disable-partial-libcall-inlining",
                                          "-disable-replace-with-vec-lib",
                                          "-disable-early-ifcvt",
                                          "-disable-postra-machine-licm",
                                          "-disable-postra-machine-sink",
                                          "-disable-tail-duplicate",
                                          "-disable-post-ra",
                                          "-disable-x86-domain-reassignment",
                                          "-disable-x86-lea-opt",
                                          "-disable-cfi-fixup",
                                          "-enable-shrink-wrap=0",
                                          "-x86-cmov-converter=0",
                                          "-fixup-byte-word-insts=0"};
    LLVMParseCommandLineOptions(COUNT_OF(options), options, NULL);
#endif
}

static void initialise(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    drop_passes();
}

static void complain(LLVMDiagnosticInfoRef info, void *context) {
    ModuleJob *job = context;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || job->complaint[0]) return;
    char *text = LLVMGetDiagInfoDescription(info);
    snprintf(job->complaint, sizeof job->complaint, "%s", text);
    LLVMDisposeMessage(text);
}

/* The function of one part, lazily; the part is linked when all is emitted. */
static Value open_part(Emitter *e, const char *name) {
    size_t bytes;
    const void *bitcode = kernels_bitcode((Isa)e->request->machine->level, name, &bytes);
    if (!bitcode || e->unit.n_parts == EMIT_MAX_PARTS) return NULL;
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRange(bitcode, bytes, "bitcode", 0);
    LLVMModuleRef part;
    if (LLVMGetBitcodeModuleInContext2(e->unit.context, buffer, &part)) return NULL; /* takes the buffer */
    e->unit.parts[e->unit.n_parts++] = part;
    return LLVMGetNamedFunction(part, name);
}

Value emit_library(Emitter *e, const char *name) {
    const Value known = LLVMGetNamedFunction(e->unit.module, name);
    if (known) return known;
    const Value theirs = open_part(e, name);
    if (theirs) return LLVMAddFunction(e->unit.module, name, LLVMGlobalGetValueType(theirs));
    if (!e->unit.missing[0]) snprintf(e->unit.missing, sizeof e->unit.missing, "%s", name);
    return NULL;
}

/* Target machines know nothing of a compile but cost 0.5 ms to make (their subtarget): idle ones
 * are kept, each used by one compile at a time. */
enum { IDLE_MACHINES = 4 };
static pthread_mutex_t machines_lock = PTHREAD_MUTEX_INITIALIZER;
static LLVMTargetMachineRef idle_machines[ISA_COUNT][IDLE_MACHINES];

static LLVMTargetMachineRef acquire_machine(int isa) {
    LLVMTargetMachineRef taken = NULL;
    pthread_mutex_lock(&machines_lock);
    for (int i = 0; i < IDLE_MACHINES && !taken; i++) {
        taken = idle_machines[isa][i];
        idle_machines[isa][i] = NULL;
    }
    pthread_mutex_unlock(&machines_lock);
    return taken;
}

static void release_machine(int isa, LLVMTargetMachineRef machine) {
    pthread_mutex_lock(&machines_lock);
    for (int i = 0; i < IDLE_MACHINES && machine; i++) {
        if (idle_machines[isa][i]) continue;
        idle_machines[isa][i] = machine;
        machine = NULL;
    }
    pthread_mutex_unlock(&machines_lock);
    if (machine) LLVMDisposeTargetMachine(machine);
}

static Status open_machine(ModuleJob *job) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise);
    job->machine = acquire_machine(job->request->machine->level);
    if (job->machine) return ST_OK;
    LLVMTargetRef target;
    char *text = NULL;
    if (LLVMGetTargetFromTriple(TRIPLE, &target, &text)) {
        const Status status = module_fail(job, ST_UNSUPPORTED, BAIL_codegen, "LLVM has no x86-64 target: %s", text);
        LLVMDisposeMessage(text);
        return status;
    }
    job->machine = LLVMCreateTargetMachine(target, TRIPLE, cpus[job->request->machine->level], "",
                                           LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    return job->machine ? ST_OK : module_fail(job, ST_UNSUPPORTED, BAIL_codegen, "no target machine for %s", TRIPLE);
}

static void name_types(Emitter *e) {
    e->type.i1 = LLVMInt1TypeInContext(e->unit.context), e->type.i8 = LLVMInt8TypeInContext(e->unit.context);
    e->type.i16 = LLVMInt16TypeInContext(e->unit.context), e->type.i32 = LLVMInt32TypeInContext(e->unit.context);
    e->type.i64 = LLVMInt64TypeInContext(e->unit.context);
    e->type.f32 = LLVMFloatTypeInContext(e->unit.context), e->type.f64 = LLVMDoubleTypeInContext(e->unit.context);
    e->type.ptr = LLVMPointerTypeInContext(e->unit.context, 0);
}

static Status open_job(ModuleJob *job) {
    Emitter *e = &job->e;
    if (job->request->machine->level < 0 || job->request->machine->level >= ISA_COUNT)
        return module_fail(job, ST_ARGUMENT, BAIL_codegen, "instruction set %d is not known",
                           job->request->machine->level);
    TRY(open_machine(job));
    e->request = job->request;
    e->lanes = job->request->machine->lanes;
    e->arena = arena_new();
    if (!e->arena) return module_fail(job, ST_MEMORY, BAIL_memory, "out of memory");
    e->unit.context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(e->unit.context, complain, job);
    e->b = LLVMCreateBuilderInContext(e->unit.context);
    e->entry = LLVMCreateBuilderInContext(e->unit.context);
    e->unit.module = LLVMModuleCreateWithNameInContext("sinter", e->unit.context);
    LLVMSetTarget(e->unit.module, TRIPLE);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(job->machine);
    LLVMSetModuleDataLayout(e->unit.module, layout);
    LLVMDisposeTargetData(layout);
    name_types(e);
    return ST_OK;
}

static void close_job(ModuleJob *job) {
    Emitter *e = &job->e;
    if (e->b) LLVMDisposeBuilder(e->b);
    if (e->entry) LLVMDisposeBuilder(e->entry);
    for (int i = 0; i < e->unit.n_parts; i++)
        if (e->unit.parts[i]) LLVMDisposeModule(e->unit.parts[i]);
    if (e->unit.module) LLVMDisposeModule(e->unit.module);
    if (e->unit.context) LLVMContextDispose(e->unit.context);
    if (job->machine) release_machine(job->request->machine->level, job->machine);
    if (e->arena) arena_free(e->arena);
    error_clear(); /* the module's own slot: the message is in the result */
}

static Status emit_all(ModuleJob *job) {
    Emitter *e = &job->e;
    if (fails_here(job, "codegen")) return module_fail(job, ST_INTERNAL, BAIL_codegen, "failpoint codegen");
    for (int i = 0; i < job->request->n_nests; i++) {
        const char *refusal = emit_refusal(job->request, i);
        if (refusal) return module_fail(job, ST_UNSUPPORTED, BAIL_codegen, "%s: %s", job->request->names[i], refusal);
        e->nest = job->request->nests[i];
        e->bufs = job->request->bufs[i];
        e->shape = job->request->shapes[i];
        emit_nest(e, job->request->names[i]);
        if (error_pending())
            return module_fail(job, ST_MEMORY, BAIL_memory, "out of memory in %s", job->request->names[i]);
        if (e->unit.missing[0])
            return module_fail(job, ST_UNSUPPORTED, BAIL_codegen, "%s: no bitcode function %s", job->request->names[i],
                               e->unit.missing);
    }
    char *text = NULL;
    const bool broken = LLVMVerifyModule(e->unit.module, LLVMReturnStatusAction, &text);
    Status status = ST_OK;
    if (broken || fails_here(job, "llvm_verify"))
        status =
            module_fail(job, ST_INTERNAL, BAIL_llvm_verify, "LLVM's verifier: %.400s", broken ? text : "failpoint");
    LLVMDisposeMessage(text);
    return status;
}

static bool exported(const CodegenRequest *request, const char *name) {
    for (int i = 0; i < request->n_nests; i++)
        if (!strcmp(request->names[i], name)) return true;
    return false;
}

static void drop_attribute(Value f, const char *name) {
    LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
}

static void add_enum_attribute(LLVMContextRef context, Value f, const char *name) {
    const unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(context, kind, 0));
}

/* One fixed feature set for all functions, else they could not be inlined into each other. */
static void set_attributes(ModuleJob *job) {
    const LLVMContextRef context = job->e.unit.context;
    for (Value f = LLVMGetFirstFunction(job->e.unit.module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f)) continue;
        drop_attribute(f, "target-features"), drop_attribute(f, "target-cpu"), drop_attribute(f, "tune-cpu");
        drop_attribute(f, "min-legal-vector-width"), drop_attribute(f, "prefer-vector-width");
        LLVMAddTargetDependentFunctionAttr(f, "target-cpu", cpus[job->request->machine->level]);
        LLVMAddTargetDependentFunctionAttr(f, "prefer-vector-width", "512");
        LLVMAddTargetDependentFunctionAttr(f, "min-legal-vector-width", "512");
        LLVMAddTargetDependentFunctionAttr(f, "no-builtins", "");
        add_enum_attribute(context, f, "nounwind");
        size_t n;
        if (!exported(job->request, LLVMGetValueName2(f, &n))) LLVMSetLinkage(f, LLVMInternalLinkage);
    }
}

static Status link_library(ModuleJob *job) {
    Emitter *e = &job->e;
    for (int i = 0; i < e->unit.n_parts; i++) {
        const bool failed = LLVMLinkModules2(e->unit.module, e->unit.parts[i]);
        e->unit.parts[i] = NULL; /* taken, also on failure */
        if (failed) return module_fail(job, ST_INTERNAL, BAIL_codegen, "linking the bitcode: %s", job->complaint);
    }
    set_attributes(job);
    for (Value g = LLVMGetFirstGlobal(e->unit.module); g; g = LLVMGetNextGlobal(g))
        LLVMSetLinkage(g, LLVMInternalLinkage); /* tables of the primitives */
    return ST_OK;
}

static Status run_passes(ModuleJob *job) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(job->e.unit.module, PIPELINE, job->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return ST_OK;
    char *text = LLVMGetErrorMessage(error);
    const Status status = module_fail(job, ST_INTERNAL, BAIL_codegen, "passes: %.400s", text);
    LLVMDisposeErrorMessage(text);
    return status;
}

/* Everything up to the optimised module; close_job in any case. */
static Status build(ModuleJob *job) {
    const int64_t start = clock_ns();
    TRY(open_job(job));
    TRY(emit_all(job));
    const int64_t built = clock_ns();
    job->result->times.build_ns = built - start;
    TRY(link_library(job));
    TRY(run_passes(job));
    job->result->times.passes_ns = clock_ns() - built;
    return ST_OK;
}

static Status emit_bytes(ModuleJob *job, bool assembly, LLVMMemoryBufferRef *out) {
    const int64_t start = clock_ns();
    char *text = NULL;
    if (fails_here(job, "emit")) return module_fail(job, ST_INTERNAL, BAIL_emit, "failpoint emit");
    if (LLVMTargetMachineEmitToMemoryBuffer(job->machine, job->e.unit.module,
                                            assembly ? LLVMAssemblyFile : LLVMObjectFile, &text, out)) {
        const Status status = module_fail(job, ST_INTERNAL, BAIL_emit, "emitting the object: %.400s", text);
        LLVMDisposeMessage(text);
        return status;
    }
    job->result->times.emit_ns = clock_ns() - start;
    return ST_OK;
}

static Status copy_bytes(ModuleJob *job, LLVMMemoryBufferRef buffer) {
    const size_t bytes = LLVMGetBufferSize(buffer);
    void *copy = mem_alloc(bytes);
    if (copy) memcpy(copy, LLVMGetBufferStart(buffer), bytes);
    LLVMDisposeMemoryBuffer(buffer);
    if (!copy) return module_fail(job, ST_MEMORY, BAIL_memory, "out of memory for %zu bytes of object", bytes);
    job->result->object = copy;
    job->result->bytes = bytes;
    return ST_OK;
}

static Status compile_job(ModuleJob *job) {
    LLVMMemoryBufferRef buffer;
    TRY(build(job));
    TRY(emit_bytes(job, false, &buffer));
    return copy_bytes(job, buffer);
}

static Status compile_module(const CodegenRequest *request, CodegenResult *result) {
    *result = (CodegenResult){.bail = BAIL_none};
    ModuleJob *job = mem_zero(sizeof *job);
    if (!job) return ST_MEMORY;
    job->request = request;
    job->result = result;
    const Status status = compile_job(job);
    close_job(job);
    mem_free(job);
    return status;
}

static char *text_of(ModuleJob *job, bool assembly) {
    if (build(job) != ST_OK) return NULL;
    if (!assembly) {
        char *text = LLVMPrintModuleToString(job->e.unit.module);
        char *copy = mem_strdup(text);
        LLVMDisposeMessage(text);
        return copy;
    }
    LLVMMemoryBufferRef buffer;
    if (emit_bytes(job, true, &buffer) != ST_OK) return NULL;
    const size_t n = LLVMGetBufferSize(buffer);
    char *copy = mem_alloc(n + 1);
    if (copy) memcpy(copy, LLVMGetBufferStart(buffer), n), copy[n] = 0;
    LLVMDisposeMemoryBuffer(buffer);
    return copy;
}

static char *text(const CodegenRequest *request, bool assembly) {
    CodegenResult result = {.bail = BAIL_none};
    ModuleJob *job = mem_zero(sizeof *job);
    if (!job) return NULL;
    job->request = request;
    job->result = &result;
    char *copy = text_of(job, assembly);
    close_job(job);
    mem_free(job);
    return copy;
}

static const char *llvm_version(void) { return "LLVM 19"; }

__attribute__((visibility("default"))) extern const LlvmModuleTable sinter_llvm_module;
const LlvmModuleTable sinter_llvm_module = {.version = LLVM_MODULE_VERSION,
                                            .llvm_version = llvm_version,
                                            .compile = compile_module,
                                            .text = text,
                                            .free_bytes = mem_free};
