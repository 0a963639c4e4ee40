/* transform.h: ops whose arguments are functions. All have one form, (body, closure, options, in, out, n_out), and run
   at once; bodies nest by calling another one inside. out has room n_out, the body sets exactly these, and all are NULL
   on error. closure is passed to the bodies as it is.

   Control flow as ops. For it a body is called once on tensors without values, to learn what it does; then its ops run,
   as often as they have to. So host code in it runs once, not once a round, and a branch that is not taken is seen,
   too. A body that asks for a value (sn_item...), breaks, keeps tensors or changes what belongs to the program runs
   itself instead, each time; so does one with a user's op, in an autocast region, in anomaly mode, or where a user or
   API mode is active. sn_logging_set("graph_breaks") tells why. A body may not write what is not its own (of one that
   runs itself, only writes into its inputs are seen). Only ops that run can fail on values. Results are row-major and
   never share memory with inputs. Each of these ops takes one sequence number of the generator, however many random ops
   run inside, which draw from a generator of their own, made of seed and that number.
   In a compiled function control flow is an op of the graph, a step whose bodies, and their gradients, are compiled
   graphs of their own: no value is asked for (of a CUDA device the library reads predicates). Where a body runs
   itself, and where there are more than 8 results or tensors that require gradients, it ends the segment and runs
   eagerly, and sn_explain says why.

   Gradients of cond, scan and map: one node (CondBackward, ScanBackward) saves what goes in and what the bodies close
   over; backward runs the bodies once more, with the same random numbers, and goes back through their ops, the last
   round first, so that nothing between rounds is kept and every sum is that of a loop by hand. What a wanted gradient
   does not come to is zeros. Where a result could carry a gradient and does not (sn_detach), and where a body runs
   itself, each op has a node of its own instead.

   Inside of sn_vmap, sn_func_grad and their like the bodies run on what these have, round by round, with the bits of a
   loop over the examples. Where the predicate of a cond or while_loop differs from example to example, it runs example
   by example (the log says so once, topic vmap), in a compiled function as ops of the graph; then its bodies must be
   such as can be traced, and at a level inside of that sn_vmap a cond has no second derivatives, and neither has
   tangents: errors say so. Random ops of bodies do as sn_vmap's randomness says, and break a compiled function. */
#ifndef SINTER_TRANSFORM_H
#define SINTER_TRANSFORM_H
#include <sinter/tensor.h>
SN_BEGIN
typedef struct sn_cond_options {
    size_t size;
    /* Passed to if_false; NULL: closure. */
    void *false_closure;
} sn_cond_options;
#define SN_COND_OPTIONS(...) SN_STRUCT(sn_cond_options, __VA_ARGS__)
/* pred, one bool, says which body gives the results. Both give the same dtypes, sizes and devices, else an error; a
   result requires gradients if it does in either; what only the other body uses gets zeros. As torch.cond. [op] */
sn_status sn_cond(sn_tensor *pred, sn_body if_true, sn_body if_false, void *closure, const sn_cond_options *options,
                  sn_tensors in, sn_tensor **out, int n_out);

typedef struct sn_while_options {
    size_t size;
    /* Where the condition still holds after so many rounds: SN_ERR_VALUE; 0: no bound. */
    int64_t max_iterations;
    /* Passed to the condition; NULL: closure. */
    void *condition_closure;
} sn_while_options;
#define SN_WHILE_OPTIONS(...) SN_STRUCT(sn_while_options, __VA_ARGS__)
/* While condition(carry) gives true, one bool, carry = body(carry), which begins as `in` and keeps dtypes and sizes;
   n_out is in.n. Nothing that the body uses may require gradients in SN_GRAD_ON, or be what sn_func_grad is asked the
   gradient of: sn_scan gives these; tangents go through it. As torch's while_loop. [op] */
sn_status sn_while_loop(sn_body condition, sn_body body, void *closure, const sn_while_options *options, sn_tensors in,
                        sn_tensor **out, int n_out);

typedef struct sn_scan_options {
    size_t size;
    /* How many of `in` come first as what is carried; 0: one. */
    int32_t carries;
    /* From the last slice to the first. */
    bool reverse;
    /* Along which dim the others are taken apart, without it. */
    int64_t dim;
} sn_scan_options;
#define SN_SCAN_OPTIONS(...) SN_STRUCT(sn_scan_options, __VA_ARGS__)
/* carry, y = body(carry, x) for each slice x in turn, numbers of carries and ys as there are; carries keep dtypes and
   sizes. Gives the last carries, then ys stacked along a new dim 0, in the order of the slices. Gradients go through
   all rounds, the last one first. As torch's scan. [op] */
sn_status sn_scan(sn_body body, void *closure, const sn_scan_options *options, sn_tensors in, sn_tensor **out,
                  int n_out);

typedef struct sn_map_options {
    size_t size;
    int64_t dim;
} sn_map_options;
#define SN_MAP_OPTIONS(...) SN_STRUCT(sn_map_options, __VA_ARGS__)
/* y = body(x) for each slice of the inputs along a dim, the first one by default; ys stacked along a new dim 0. As
   torch's map. [op] */
sn_status sn_map(sn_body body, void *closure, const sn_map_options *options, sn_tensors in, sn_tensor **out, int n_out);

typedef enum sn_checkpoint_choice { SN_CHECKPOINT_RECOMPUTE, SN_CHECKPOINT_SAVE } sn_checkpoint_choice;
typedef struct sn_checkpoint_options {
    size_t size;
    /* Names of ops ("aten::mm") whose results are saved, up to a NULL; NULL: none. Ops are those that the tape records:
       of sn_linear its parts. Views, results of in-place and out forms, and control flow, whatever its bodies call, are
       always computed again; a write into a result that is saved is an error (SN_ERR_STATE). */
    const char *const *save;
    /* Asked in the forward, for each op that `save` does not name; NULL: all are computed again. Under autocast casts
       are among the ops ("aten::_to_copy"): with `save` or a policy the body makes one for each use, as PyTorch does
       with cache_enabled=False. */
    sn_checkpoint_choice (*policy)(void *context, const char *op);
    void *context;
    /* Once, with the closure, when no backward can run the body again: in a compiled function, once it has returned,
       and where sn_checkpoint fails, before it does; only options that are refused say nothing of it. */
    sn_free_fn closure_free;
} sn_checkpoint_options;
#define SN_CHECKPOINT_OPTIONS(...) SN_STRUCT(sn_checkpoint_options, __VA_ARGS__)
/* Trades memory for time: nothing that the body makes is kept for the backward but the results that options say. When
   the backward comes to it, the body runs again, under the modes and from the generator's state of the forward, and is
   ended, by an error that it passes on, as soon as all is there. Gradients have the bits that they have without. Bodies
   may call sn_checkpoint. The closure, and what it points at, must live until the last backward or closure_free;
   what changes from call to call comes by `in`. An error where the body writes memory from outside, or calls
   sn_backward; in the backward where a tensor that it read was written since, or where it calls other ops than in
   the forward (SN_ERR_STATE, with the first of them and its place). Ordered ops are not run again. Without
   gradients it just runs; so it does inside of sn_vmap, sn_func_grad and their like, which keep what they need, and
   where a mode of sn_user_mode_push or sn_api_mode_push is active, whose handler may be gone by the backward (the log
   says so once, topic vmap). In a compiled function the body's ops are a part of the graph that the backward computes
   again, and the body itself runs once; sn_explain says what is saved and what is not. [op] */
sn_status sn_checkpoint(sn_body body, void *closure, const sn_checkpoint_options *options, sn_tensors in,
                        sn_tensor **out, int n_out);

/* What random ops inside of sn_vmap do: an error; the same numbers for all examples; others for each. An op takes one
   number of the generator, whatever the examples and chunks; their elements are counted with the batch dim in front. */
typedef enum sn_vmap_randomness {
    SN_VMAP_RANDOM_ERROR,
    SN_VMAP_RANDOM_SAME,
    SN_VMAP_RANDOM_DIFFERENT
} sn_vmap_randomness;
typedef struct sn_vmap_options {
    size_t size;
    /* Which dim of an input, or output, is that of the examples: one for each, negative ones from the end; SN_NO_INT:
       none, it is the same for all. NULL: all 0. */
    sn_ints in_dims, out_dims;
    /* So many examples at a time; 0: all. */
    int64_t chunk_size;
    sn_vmap_randomness randomness;
} sn_vmap_options;
#define SN_VMAP_OPTIONS(...) SN_STRUCT(sn_vmap_options, __VA_ARGS__)
/* body as if it were called once for each example, and its results stacked, with the same bits, by ops on all examples
   at once. In the body a tensor shows one example's sizes; its value is an error to ask for (sn_item, sn_data...), and
   so is writing it into a tensor that is the same for all. What no batching rule is for runs example by example, which
   the log says once (topic vmap). Gradients go through it, and a compiled function holds its ops like any others.
   As torch.vmap. [op] */
sn_status sn_vmap(sn_body body, void *closure, const sn_vmap_options *options, sn_tensors in, sn_tensor **out,
                  int n_out);

/* Gradients of functions, as torch.func has them. Each gives derivatives first and then, as far as out has room, the
   body's outputs, so that a body's value and what else it gives (aux) need no second run:

       sn_func_grad(f, c, NULL, in, out, 1)     d f / d in[0]
       sn_func_grad(f, c, NULL, in, out, 2)     and f's value, its output 0
       sn_func_grad(f, c, NULL, in, out, 4)     and its outputs 1 and 2, which no gradient is of

   A function's derivative is its own: what requires gradients outside plays no part in it, nor does .grad; gradients
   outside, sn_vmap, and these functions again go through it, in any order. In a body the arguments are tensors of the
   level (sn_keys shows vmap); sn_item gives their values where no sn_vmap is around, ops take them, and no other
   function does. Gradients are on when it begins; a body that switches them off does so for itself and all further out.
   It may write in place what it made itself, no tensor from outside. sn_backward, sn_gradients, sn_requires_grad_,
   sn_custom_call, sn_sharded_call and collectives are errors in it that say so. A compiled function holds all of its
   ops in its graph. argnums: of which inputs, each once, negative ones from the end; floats only. What does not
   depend on an argument has a gradient of zeros. */
typedef struct sn_func_grad_options {
    size_t size;
    sn_ints argnums; /* NULL: 0 */
} sn_func_grad_options;
#define SN_FUNC_GRAD_OPTIONS(...) SN_STRUCT(sn_func_grad_options, __VA_ARGS__)
/* out: the gradients of the body's output 0, a 0-dim float, by argnums, each of its input's sizes and dtype; then
   outputs. [op] */
sn_status sn_func_grad(sn_body body, void *closure, const sn_func_grad_options *options, sn_tensors in, sn_tensor **out,
                       int n_out);

typedef struct sn_func_vjp_options {
    size_t size;
    /* Of the body's first outputs, of their sizes and dtypes; an entry NULL: zeros. At least one. */
    sn_tensors cotangents;
    sn_ints argnums; /* NULL: all inputs */
} sn_func_vjp_options;
#define SN_FUNC_VJP_OPTIONS(...) SN_STRUCT(sn_func_vjp_options, __VA_ARGS__)
/* out: by argnums the sum over outputs of cotangent times derivative, J'u; then outputs. [op] */
sn_status sn_func_vjp(sn_body body, void *closure, const sn_func_vjp_options *options, sn_tensors in, sn_tensor **out,
                      int n_out);

typedef struct sn_func_jvp_options {
    size_t size;
    /* One for each input, of its sizes and dtype; an entry NULL: the input is a constant. */
    sn_tensors tangents;
    /* How many outputs, the first ones, tangents are given of; 0: of all that out has room for. */
    int32_t n_tangents;
} sn_func_jvp_options;
#define SN_FUNC_JVP_OPTIONS(...) SN_STRUCT(sn_func_jvp_options, __VA_ARGS__)
/* Forward mode: out: how the first outputs, floats, change as the inputs change by their tangents, J t; then outputs.
   Values and tangents are computed side by side, and nothing is saved for a backward. A tensor that the body writes in
   place gets the tangent of what it is now; where it has views, or is one, it must have had a tangent before. [op] */
sn_status sn_func_jvp(sn_body body, void *closure, const sn_func_jvp_options *options, sn_tensors in, sn_tensor **out,
                      int n_out);

typedef struct sn_jacobian_options {
    size_t size;
    sn_ints argnums; /* NULL: 0 */
    /* By forward mode: cheaper where inputs have fewer elements than outputs. Of second derivatives the outer ones. */
    bool forward;
} sn_jacobian_options;
#define SN_JACOBIAN_OPTIONS(...) SN_STRUCT(sn_jacobian_options, __VA_ARGS__)
/* All derivatives of all outputs: of output i by argument k it is out[i * arguments + k], of the output's sizes, then
   the input's; n_out is outputs times arguments. By one backward for all elements of an output, or one forward for all
   of an input, as if by sn_vmap. [op] */
sn_status sn_jacobian(sn_body body, void *closure, const sn_jacobian_options *options, sn_tensors in, sn_tensor **out,
                      int n_out);
/* Second derivatives, the jacobian of the jacobian: of output i by arguments k and l
   out[(i * arguments + k) * arguments + l], of the output's sizes, then both inputs'. [op] */
sn_status sn_hessian(sn_body body, void *closure, const sn_jacobian_options *options, sn_tensors in, sn_tensor **out,
                     int n_out);
SN_END
#endif
