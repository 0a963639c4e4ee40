/* compile.h: compile, call, frames, symbolic ints, what happened.

   A compiled function gives the bits that its body gives eagerly. Its first call of a case (dtypes, ranks, sizes,
   strides, which tensors require gradients, which share memory, modes) runs the ops eagerly, records them, and compiles
   them when the body has returned; later calls whose guards hold run the compiled segments. What cannot be captured, or
   does not compile, runs eagerly with the same result, and every call can say which path it took and why. */
#ifndef SINTER_COMPILE_H
#define SINTER_COMPILE_H
#include <sinter/tensor.h>
SN_BEGIN
/* VERIFY: the body runs on every call and its ops are matched against what was recorded, so host code may branch,
     print, count.
   REPLAY: a call whose inputs were seen runs the graph without the body: side effects and host state are not repeated,
     closed-over tensors, those of an sn_dict among them, are bound by identity (writes to them are seen, another tensor
     in their place is not) and kept until the function is freed; .grad slots are looked up at each call. What the body
     asked of tensors and settings (sn_size, sn_requires_grad, sn_grad...) is asked again first, and another answer runs
     the body. A function that breaks, keeps tensors, calls sn_backward or a function in mode EAGER, changes what
     belongs to the program (gradients, hooks, settings, dictionaries), changes a view of an input in place to another
     layout (t_), writes what it makes of host memory, or returns an input or what requires gradients turns into VERIFY,
     said once; a call whose written inputs share memory is verified, too.
   EAGER: the body runs as it is. */
typedef enum sn_compile_mode { SN_COMPILE_VERIFY, SN_COMPILE_REPLAY, SN_COMPILE_EAGER } sn_compile_mode;
/* EXACT: the bits of eager. FAST: compiled code may round otherwise where a device has something faster: on a CUDA
   device products of f32 go to cuBLASLt's tensor cores, which round the operands to tf32 (10 bits of fraction; sums are
   f32); all else stays exact, and so is all on the CPU, where sn_explain says that it changes nothing. Calls that run
   eagerly, a case's first one among them, are exact. Every call of a case that runs compiled gives the same bits. */
typedef enum sn_numerics { SN_EXACT, SN_FAST } sn_numerics;
/* AUTO: a size or number that differs between two captures becomes a symbol. ALWAYS: all sizes are from the start (0
   and 1 stay special). NEVER: each size is a case of its own. */
typedef enum sn_dynamic { SN_DYNAMIC_AUTO, SN_DYNAMIC_ALWAYS, SN_DYNAMIC_NEVER } sn_dynamic;
/* What a call costs beside its kernels; goes with every mode. DEFAULT: each step is launched by itself.
   REDUCE_OVERHEAD: on a CUDA device the steps of a graph are recorded as a CUDA graph, in the second call that has
   compiled code; from then on they are one launch. Inputs may lie elsewhere in each call, results are new ones,
   what is written is written in place; random ops, checks and gradients are as without it, and so are the bits.
   The graph keeps its arena. Where it cannot be (ops of the program, values that the host reads or that go to
   another device; on the CPU a step is no launch and nothing changes) calls go on as by default, and sn_explain
   says why. MAX_AUTOTUNE is reserved for choices that a saved plan has made; sn_compile refuses it in this
   version. */
typedef enum sn_preset { SN_PRESET_DEFAULT, SN_PRESET_REDUCE_OVERHEAD, SN_PRESET_MAX_AUTOTUNE } sn_preset;
typedef struct sn_compile_options {
    size_t size;
    sn_compile_mode mode;
    sn_numerics numerics;
    sn_dynamic dynamic;
    /* A break, or nothing compiled, is SN_ERR_STRICT. */
    bool full_graph;
    /* Ops that may fail on values (indices) answer at once: they break the graph. */
    bool eager_checks;
    /* Code is made by a thread of the library, one for the process: until it is in place, calls of its case run
       eagerly, and are counted apart (sn_stats.ops_waiting). Where there is no such thread (after a fork, while the
       program ends) it is made at the end of the call, as without. A fork and the program's end wait for the code that
       is being made just then. */
    bool background;
    /* REPLAY: every n-th hit is verified; 0: never. */
    int32_t check_every;
    /* Variants of one segment; 0: the setting recompile_limit. */
    int32_t recompile_limit;
    /* For texts; copied; NULL: "fn". */
    const char *name;
    /* Called with the closure when the function is freed. */
    sn_free_fn closure_free;
    sn_preset preset;
} sn_compile_options;
#define SN_COMPILE_OPTIONS(...) SN_STRUCT(sn_compile_options, __VA_ARGS__)
/* closure is passed to body as it is and must live as long as the function. options NULL: defaults. An unknown
   option value is SN_ERR_ARGUMENT, one that this version does not have SN_ERR_UNSUPPORTED. [neutral] */
sn_function *sn_compile(sn_body body, void *closure, const sn_compile_options *options);
/* From any thread, while no call of it runs; waits for code that is being made. NULL: nothing. SN_ERR_STATE while its
   body runs, in any mode, inlined or on another thread. [refused in its own body] */
void sn_function_free(sn_function *fn);

/* Waits until all code of fn that is being made in the background is in place, or is known to fail, which sn_explain
   tells; without such code: nothing. [neutral] */
sn_status sn_function_wait(sn_function *fn);

/* Calls [op]: inside another compiled function the body is inlined: its ops become part of the caller's graph, under
   the caller's options, but eager_checks and full_graph of the callee hold for them too; a callee in mode EAGER ends
   the segment and runs as it is. Results belong to the innermost scope; out has room n_out, the body
   must set exactly these, and all are NULL on error. Several threads may call one function. Recorded ops read their
   tensors when their segment runs, at the latest as the call ends: until then no other thread may write an input or
   what is closed over, even after the op that reads it was called. Results of the body's ops another thread may touch:
   what is pending runs first. */
sn_status sn_call(sn_function *fn, sn_tensor *const *in, int n_in, sn_tensor **out, int n_out);
/* With numbers among the inputs: the body reads them by sn_in_value, sn_in_int, sn_in_float or sn_in_sym. */
sn_status sn_call_values(sn_function *fn, const sn_value *in, int n_in, sn_tensor **out, int n_out);
/* Of one result, which is returned; NULL on error. */
sn_tensor *sn_call1(sn_function *fn, sn_tensors in);
#define SN_CALL(fn, ...) sn_call1(fn, SN_TENSORS(__VA_ARGS__))

/* Frames [neutral]: what a body sees of its call; gone when it returns. A wrong index or kind is an error. */
void *sn_closure(sn_frame *f);
/* Its inputs [meta]. How many there are. */
int sn_in_count(sn_frame *f);
/* Input i, borrowed; an absent one is an error. */
sn_tensor *sn_in(sn_frame *f, int i);
/* The same; an absent one is NULL and no error. */
sn_tensor *sn_in_opt(sn_frame *f, int i);
/* Passed on as it is, a number stays free in replay. */
sn_value sn_in_value(sn_frame *f, int i);
/* Plain numbers: replay specialises. */
int64_t sn_in_int(sn_frame *f, int i);
double sn_in_float(sn_frame *f, int i);
/* Sets output i, each once; returns sn_check(). The call holds t to its end, whoever else lets go of it. [neutral] */
sn_status sn_out(sn_frame *f, int i, sn_tensor *t);
/* Ends the segment here: what is pending runs, ops that follow are a new one. Outside a compiled function: nothing.
   reason is copied and shows in sn_explain. [flush] */
sn_status sn_graph_break(const char *reason);

/* Symbolic ints [meta]: sizes and scalar inputs to compute with and to pass on as arguments, which say that they are
   not to be branched on. In REPLAY they stay free: a call with other sizes or positions uses the right values without
   the body. What plain getters (sn_size, sn_numel, sn_sizes, sn_strides, sn_in_int, sn_in_float, sn_sym_value) have
   shown to the body specialises. Sizes 0 and 1 are always cases of their own. In VERIFY they carry plain values; which
   numbers follow sizes is found by comparing calls. An sn_sym is opaque, and for the call that made it. */
typedef struct sn_sym {
    int64_t bits;
} sn_sym;
/* Input i, an int. */
sn_sym sn_in_sym(sn_frame *f, int i);
/* dim from -rank to rank - 1, else SN_ERR_SHAPE. */
sn_sym sn_sym_size(sn_tensor *t, int64_t dim);
sn_sym sn_sym_stride(sn_tensor *t, int64_t dim);
/* The number of elements. */
sn_sym sn_sym_numel(sn_tensor *t);
/* As sn_storage_offset, but answered from metadata: no expression stands for it, and in a replay function a view waits
 * for the tensor. [meta] */
sn_sym sn_sym_storage_offset(sn_tensor *t);
/* A constant. */
sn_sym sn_sym_int(int64_t value);
/* op is one of + - * / %, the last two floored; by 0: SN_ERR_VALUE. */
sn_sym sn_sym_op(sn_sym a, char op, sn_sym b);
/* To pass on as an op's int64_t, in SN_INTS or sn_int; not to compute with. */
int64_t sn_sym_arg(sn_sym s);
/* The plain value: specialises. */
int64_t sn_sym_value(sn_sym s);

/* What happened [neutral] */
typedef enum sn_path { SN_PATH_COMPILED, SN_PATH_INTERPRETED, SN_PATH_EAGER, SN_PATH_MIXED } sn_path;
/* Sums over the life of a function. ops_...: ops run from the second call on, as compiled sequences (views, native
   kernels and templates among them), by the interpreter, and eagerly. graphs: compiled variants of segments; compiles:
   how often one was made; recompiles: of these, for a segment that had a variant, or for a path that a later call was
   the first to take; breaks: distinct places; kernels: entries of all call sequences. Times of all compiles in
   nanoseconds; arena_bytes: the largest arena of a call. ops_waiting: ops that ran eagerly while their code was made
   in the background; they are none of ops_eager. */
typedef struct sn_stats {
    size_t size;
    int64_t calls, graphs, compiles, recompiles, breaks, kernels, ops_generated, ops_interpreted, ops_eager;
    int64_t trace_ns, passes_ns, codegen_ns, arena_bytes;
    int64_t ops_waiting;
} sn_stats;
typedef struct sn_call_report {
    size_t size;
    sn_path path;
    const char *reason;
} sn_call_report;
/* Set out->size first. */
sn_status sn_function_stats(sn_function *fn, sn_stats *out);
/* Of the newest sn_call of this state; reason: why the first part that no compiled code ran was not compiled, "" if all
   was; lives as long as the function. Set out->size first. */
sn_status sn_last_call(sn_call_report *out);
/* Graphs, breaks and where, guards, kernels, bytes, times; as text, and as JSON with the keys that frontend/README.md
   lists. Like sn_dump's, the text lives until the state makes another one. */
const char *sn_explain(sn_function *fn);
const char *sn_explain_json(sn_function *fn);
/* Text of one stage of every graph: "capture", "functional", "joint", "loops", "llvm"...: sn_stage_name lists them.
   Shapes and code are those of this machine, or of a named one: "shapes@v3", "llvm@v4". */
const char *sn_dump(sn_function *fn, const char *stage);
/* Stage i from 0; NULL past the last. */
const char *sn_stage_name(int i);
SN_END
#endif
