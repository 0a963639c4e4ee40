/* dispatch.h: the boxed call, custom ops, keys [neutral]. */
#ifndef SINTER_DISPATCH_H
#define SINTER_DISPATCH_H
#include <sinter/compile.h>
#include <sinter/autograd.h>
SN_BEGIN
typedef struct sn_op sn_op; /* as long as the process */
typedef struct sn_override sn_override;
typedef enum sn_key {
    SN_KEY_CPU = 1,
    SN_KEY_CUDA = 2,
    SN_KEY_META = 3,
    /* The first registered device's, followed by those of the others (device.h). */
    SN_KEY_SPARE = 4,
    SN_KEY_FUNCTIONALIZE = 16,
    SN_KEY_AUTOGRAD = 24,
    SN_KEY_AUTOCAST = 32,
    SN_KEY_VMAP = 40,
    SN_KEY_MODE = 48,
    /* Keys of PyTorch's order at which nothing here computes, but SN_KEY_SPARSE and SN_KEY_SPARSE_CSR (sparse.h): for
       sn_with_key, and kernels of a program's. */
    SN_KEY_HIP = 64,
    SN_KEY_XLA,
    SN_KEY_MPS,
    SN_KEY_IPU,
    SN_KEY_XPU,
    SN_KEY_HPU,
    SN_KEY_VE,
    SN_KEY_LAZY,
    SN_KEY_MTIA,
    SN_KEY_MAIA,
    SN_KEY_FPGA,
    SN_KEY_VULKAN,
    SN_KEY_METAL,
    SN_KEY_QUANTIZED,
    SN_KEY_CUSTOM_RNG,
    SN_KEY_MKLDNN,
    SN_KEY_SPARSE,
    SN_KEY_SPARSE_CSR,
    SN_KEY_NESTED,
    SN_KEY_NAMED,
    SN_KEY_CONJUGATE,
    SN_KEY_NEGATIVE,
    SN_KEY_ZERO_TENSOR
} sn_key;
/* "aten::add.Tensor", "add.Tensor", "aten::add_.Tensor" (in place), "aten::add.out", "my::op"; unknown, or one that
 * only graphs have (sn::...): NULL, an error, which lists near names */
const sn_op *sn_op_find(const char *name);
/* "aten::add_.Tensor"; in a handler: sn_op_name(sn_frame_op(f)). As long as the process; "" on error. */
const char *sn_op_name(const sn_op *op);
/* "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" */
const char *sn_op_schema(const sn_op *op);
/* Every op as JSON, with its rules. */
const char *sn_op_list(void);
/* "core, pointwise": what an op is, by its row: core (of PyTorch's core ATen), its kind (pointwise, reduction, view,
   kernel, decomposition, composite), random, checked (may fail for values), reads_values (on the host: a graph break),
   never_differentiable, maybe_copy (a view where strides allow), ordered. */
const char *sn_op_tags(const sn_op *op);
/* A tag of another name is an error that lists them. */
bool sn_op_has_tag(const sn_op *op, const char *tag);
/* How many ops have it, those that the program registered included; the tool prints all: sinter ops --tags. */
int sn_op_tag_count(const char *tag);
/* Arguments in the order of the schema; those left out default. *n_out: the room in out, then the count of results.
 * Of an op whose result is a number (sym_size.int, _local_scalar_dense) it is one; where the schema says SymInt it may
 * stand for an expression, as what sn_sym_arg gives: to pass on, or to read by sn_sym_value. [op] */
sn_status sn_op_call(const sn_op *op, const sn_value *in, int n_in, sn_value *out, int *n_out);
/* The first result, NULL on error. [op] */
sn_tensor *sn_op_call1(const sn_op *op, const sn_value *in, int n_in);

/* What autocast (amp.h) does with an op's tensors, those of up to 32 bits on the region's device: nothing; all to the
   region's dtype; all to f32; all to the widest among them. */
typedef enum sn_cast { SN_CAST_NONE, SN_CAST_LOWER, SN_CAST_F32, SN_CAST_PROMOTE } sn_cast;
/* PURE: the results depend on the arguments alone, and nothing else happens: compiled functions may share, drop and
   recompute it. ORDERED: it has an effect, keeps its place among its like and runs exactly once per call. An op with a
   meta rule and one of these is a node of graphs; any other, and one that writes an argument (Tensor(a!) in its
   schema), runs at once and breaks them, with the reason. */
enum { SN_OP_PURE = 1, SN_OP_ORDERED = 2 };
/* Bodies read the arguments in schema order by sn_in... and set each result by sn_out. */
typedef struct sn_op_desc {
    size_t size;
    /* "my::swish(Tensor x, float beta=1.0) -> Tensor"; at most 8 results, no list of tensors. */
    const char *schema;
    /* SN_OP_PURE or SN_OP_ORDERED, or 0; both at once are an error. */
    uint32_t flags;
    /* meta: results like the real ones, without values: inputs are on a device without data (sn_empty_like and the like
       are enough). cpu, cuda: the kernels (of the latter cuda.h). What a kernel returns has the dtype, sizes and
       strides that meta said, and is no argument of a PURE or ORDERED op nor a view of one; else the call is an error,
       eager and compiled alike. */
    sn_body meta, cpu, cuda;
    /* The same in other ops. Alone it suffices: differentiable, and captured as its parts. */
    sn_body decomposition;
    /* The gradients of the inputs (sn_grad_of, sn_in, sn_result, sn_set_grad_of), in ops. In a compiled function it
       runs once, on handles without values, and its ops become part of the graph; one that reads values on the host is
       right, too, but its segment runs eagerly. */
    sn_body derivative;
    /* "x, result": what derivative reads; nothing else is there. Another name is an error. */
    const char *saves;
    /* Given to each body; lives as long as the process. */
    void *closure;
    /* Its policy under autocast, which its kernels never see: they run below it. NONE: so do the kernels, and the parts
       of a decomposition have their own. Another one, of an op that writes an argument, is an error. */
    sn_cast autocast;
} sn_op_desc;
#define SN_OP_DESC(...) SN_STRUCT(sn_op_desc, __VA_ARGS__)
/* For the process and for good; a name that exists or has no namespace, or a schema that does not parse, is an error.
   [refused in bodies] */
const sn_op *sn_op_register(const sn_op_desc *desc);
/* In a derivative: a result that `saves` names. In a kernel or a mode: one that sn_redispatch or sn_out has set; of an
   out form the tensor that was written. Borrowed. [neutral] */
sn_tensor *sn_result(sn_frame *f, int output);

/* Dispatcher [event]. A kernel sees the op's arguments in schema order by sn_in..., those of an out form with the
   tensors to write behind them, sets each result by sn_out, or passes the call on by sn_redispatch; it runs in a scope
   of its own, and its results pass to the caller's. What a backend's kernel returns is on that backend's device. Keys
   at which no program's kernel runs (SN_KEY_FUNCTIONALIZE, SN_KEY_VMAP) are refused; SN_KEY_AUTOCAST is there while
   autocast is on.
   Overrides are process-wide, newest first; freeing one restores what was there, in any order. Compiled functions
   notice. Callbacks of every kind run 128 deep at most, one in the other: a kernel that calls its own op again ends in
   SN_ERR_CALLBACK. */
/* One op at one key. */
sn_override *sn_op_override(const sn_op *op, sn_key key, sn_body kernel, void *closure);
/* Every op that has nothing of its own at this key. */
sn_override *sn_fallback_set(sn_key key, sn_body kernel, void *closure);
void sn_override_free(sn_override *o);
/* The op whose kernel, or mode, this frame belongs to. [neutral] */
const sn_op *sn_frame_op(sn_frame *f);
/* The same call at the keys below; its results are set as outputs, which sn_out may replace, but for those that the op
   writes (in-place and out forms). [op] */
sn_status sn_redispatch(sn_frame *f);
/* Until popped or the scope ends, handler sees every op that reaches the keys below autograd (composites as their
   parts), inner modes first; ops that it calls itself go to the outer modes and are not recorded for gradients. */
sn_status sn_user_mode_push(sn_body handler, void *closure);
sn_status sn_user_mode_pop(void);
/* The same above everything: handler sees every op as the program calls it (a linear is a linear), eagerly and in
   compiled functions, whose bodies run for it, in replay too. By sn_redispatch it goes on, to the outer API modes
   first; handler has the result (sn_result), with its history, and may put another in its place (sn_out). Parts of an
   op, and what a backward computes, are no calls of the program's; ops that handler calls go to the outer API modes. */
sn_status sn_api_mode_push(sn_body handler, void *closure);
sn_status sn_api_mode_pop(void);
/* Fake tensors: no values and no memory, but a device that they claim. While the mode is on, until the scope ends, ops
   compute metadata only: results are fake and on the device that they would be on, those of factories (sn_zeros,
   sn_randn, sn_from_data...) too; what is wrong with arguments is the error that it is, so a program can be tried for
   sizes, dtypes and devices that are not there. Outside of it an op on a fake tensor has fake results. Tensors
   with values are taken for what they look like; writing one is SN_ERR_STATE, and so is asking a fake one for a value;
   ops whose results' sizes follow from values are SN_ERR_UNSUPPORTED. Random ops take no number of the generator. Views
   share nothing. Compiled functions run eagerly in the mode and for fake inputs, with the reason; control flow as ops
   (transform.h) is refused. Returns what it was. [event] */
bool sn_fake_mode_set(bool on);
/* Is it on? Guarded as modes are. [neutral] */
bool sn_fake_mode(void);
/* false on error. [flush] */
bool sn_is_fake(sn_tensor *t);
/* While it is on, until the scope ends, keys below autograd (user modes, backends) are given no in-place ops, no out
   forms and no views: an in-place op is the functional one, whose result all tensors of the memory then show; one into
   a view is followed by sn::view_scatter of what it views; an op that reads a view reads a copy (slice_copy, clone).
   Values, gradients, versions and errors are those without it. What resizes memory, copies between devices, and user's
   ops that write arguments stay as they are. Compiled functions, whose graphs are so anyway, run as ever. As PyTorch's
   functionalize, in eager. Returns what it was. [event] */
bool sn_functional_mode_set(bool on);
/* Is it on? Guarded as modes are. [neutral] */
bool sn_functional_mode(void);
/* One line per key, highest first: who serves it. [neutral] */
const char *sn_dispatch_dump(const sn_op *op);
/* A tensor's keys: "autograd, cpu". [meta] */
const char *sn_keys(sn_tensor *t);
/* The same memory under one more key, one from SN_KEY_HIP on at which nothing here computes, which comes before its
   backend's; (sn_key)0: without any of these. What the memory then means is what the program's kernels at that key say:
   sn_op_override and sn_fallback_set there; by sn_redispatch the backend has the call, whose result is a plain tensor.
   An op that has no kernel there, views and copies among them, is SN_ERR_UNSUPPORTED, "not implemented for key
   quantized"; composites are asked by their parts. The handle has no history. In compiled functions ops on it run
   eagerly, with the reason, and a saved plan refuses it. [flush] */
sn_tensor *sn_with_key(sn_tensor *t, sn_key key);
SN_END
#endif
