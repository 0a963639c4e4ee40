/* inspect.h: what tensors, their memory and the tape are, to look at: while debugging, in tests, in tools. */
#ifndef SINTER_INSPECT_H
#define SINTER_INSPECT_H
#include <sinter/dispatch.h>
SN_BEGIN
/* Tensors. On an error (NULL, the handle of an op that failed) they give 0. */
/* How the elements are stored. [meta] */
sn_layout sn_layout_of(sn_tensor *t);
/* Dense in this order: row-major (as sn_is_contiguous), or images of 4 dims, volumes of 5, whose dim 1 is fastest; of
   another rank never. A tensor may be so in several orders. SN_PRESERVE_FORMAT is none: an error. [meta] */
bool sn_is_contiguous_as(sn_tensor *t, sn_memory_format format);
/* References to the handle: one of the scope that it belongs to, those of sn_keep and sn_retain, of dictionaries, of
   the tape (for a leaf, each op that it was given to). What a running call has recorded does not count; a compiled
   function's part of the tape holds a leaf once. [flush] */
int64_t sn_use_count(sn_tensor *t);
typedef struct sn_storage {
    size_t size;
    /* The same for all tensors that share it, and for nothing else alive. */
    const void *id;
    /* All of the memory, whatever part t shows. The code of a compiled function may make less of a result that it
       returns than eager does: what the result shows. */
    int64_t bytes;
    /* Writes so far, by any of its tensors: what the tape compares before it uses what it has saved. */
    int64_t version;
    sn_device device;
    /* "caching allocator", "program" (sn_wrap, DLPack), "none" (SN_META). */
    const char *allocator;
    /* Ops that need more room (sn_resize_, out forms) may move it to larger memory; else they fail. */
    bool resizable;
    bool read_only;
} sn_storage;
/* Fills *out as far as its size says; of SN_META: no id, no bytes. [flush] */
sn_status sn_storage_of(sn_tensor *t, sn_storage *out);
/* PyTorch's is_leaf: no op that the tape recorded made it, whether or not it requires gradients; also of SN_META and
   fake tensors. [flush] */
bool sn_is_leaf(sn_tensor *t);
/* PyTorch's _version: writes so far to its memory, by any of the tensors that share it; of SN_META and fake tensors,
   too, which have none: what ops would have written. A tensor made in inference mode has none: SN_ERR_STATE, "Inference
   tensors do not track version counter", and -1. [flush] */
int64_t sn_version_of(sn_tensor *t);
/* PyTorch's output_nr: which result of sn_grad_fn(t) it is; 0 of a leaf. [flush] */
int32_t sn_output_nr(sn_tensor *t);

/* Copies that ops made of an argument, into row-major order, because its strides did not suit: reshape and flatten of
   what no view can show so, products that merge dims, contiguous. */
typedef struct sn_copy_count {
    /* "aten::reshape": the op that the program called, whatever parts it has. */
    const char *op;
    int64_t copies, bytes;
} sn_copy_count;
/* Of this state since the last reset, by op, the first to copy first; out: room for so many. Returns how many ops there
   are. Compiled code, whose kernels read through strides, is not counted, nor are backwards. [neutral] */
int sn_hidden_copies(sn_copy_count *out, int capacity);
void sn_hidden_copies_reset(void);
/* The same by op and line, "aten::reshape at model.c:12: 3 copies, 144 bytes", a line each; "" where there are none.
   Lives as long as the scope. [neutral] */
const char *sn_hidden_copies_text(void);

/* Who keeps a tensor, and its storage, alive. */
typedef struct sn_keepers {
    size_t size;
    /* References to the handle (sn_use_count): of an open scope, of this state's tape (edges to a leaf, saved
       values, bases of views), and others: sn_keep and sn_retain, dictionaries, compiled functions, other threads. */
    int64_t references, by_scopes, by_tape, by_others;
    /* Tensors that share the storage, t among them: handles of this state's open scopes, values that its tape has
       saved, and others. */
    int64_t tensors, scope_handles, saved_values, other_tensors;
} sn_keepers;
/* All of it as text, in one call: what t is and where, its storage, who keeps both, which op made it, which nodes of
   this state's tape have saved it or lead to it; where op is given, by which keys it would go now, and what serves
   each. Under the setting track_tensors (SINTER_TRACK_TENSORS=1; slow) each tensor of the storage by its kind, too, of
   those made since it is on, with the line that made it, that of its last sn_keep or sn_retain, and its name in a
   dictionary. keepers: filled as its size says; op and keepers may be NULL. "" on error; lives as long as the scope.
   [flush] */
const char *sn_tensor_report(sn_tensor *t, const sn_op *op, sn_keepers *keepers);

/* The tape: one node per recorded op, which leads to those that made its inputs. What a compiled function recorded is
   one node; who walks there finds those that eager would have, which its backward is then run by.

       sn_grad_node *n = sn_grad_fn(loss);                      yours: sn_grad_node_free
       sn_grad_info info = {.size = sizeof info};
       sn_grad_node_get(n, &info);                              info.name: "SumBackward"
       for (int i = 0; i < info.edges; i++)
           sn_grad_node_edge(n, i, &edge);                      edge.node: "AddmmBackward", or edge.leaf

   A node holds all that it leads to, whatever else is freed; a backward frees what it saved, not the node. */
typedef struct sn_grad_node sn_grad_node;
typedef struct sn_grad_info {
    size_t size;
    const char *name;
    /* Higher: recorded later. Edges lead to lower ones. */
    int64_t sequence;
    /* Inputs, results, values kept for its backward. */
    int32_t edges, outputs, saved;
    /* Of the elements of what is saved. */
    int64_t saved_bytes;
    /* A backward has used it and freed what was saved. */
    bool freed;
} sn_grad_info;
/* NULL and no error: a leaf, or a tensor that requires no gradients. [flush] */
sn_grad_node *sn_grad_fn(sn_tensor *t);
void sn_grad_node_free(sn_grad_node *n); /* [neutral] */
/* info.name lives as long as the scope. [neutral] */
sn_status sn_grad_node_get(sn_grad_node *n, sn_grad_info *out);
typedef struct sn_grad_edge {
    size_t size;
    /* One of the two: the node that made the input, borrowed from n; the leaf whose .grad is added to, borrowed. Both
       NULL: the input has no gradient. */
    sn_grad_node *node;
    sn_tensor *leaf;
    /* Which result of the node. */
    int32_t output;
} sn_grad_edge;
/* Of input i from 0. [neutral] */
sn_status sn_grad_node_edge(sn_grad_node *n, int i, sn_grad_edge *out);
typedef struct sn_grad_saved {
    size_t size;
    /* The op's argument ("self", "tensors[1]"), "result", or a number. */
    const char *name;
    /* A handle without history, the scope's; NULL: nothing is kept in this place (a checkpoint makes it again). */
    sn_tensor *tensor;
    int64_t bytes;
    /* Of its memory when it was saved, and now: where they differ, backward refuses. */
    int64_t version, version_now;
} sn_grad_saved;
/* Saved value i from 0. [neutral] */
sn_status sn_grad_node_saved(sn_grad_node *n, int i, sn_grad_saved *out);
/* All that t leads to, newest first, as text:
       #7 SumBackward -> #6 AddmmBackward
       #6 AddmmBackward -> AccumulateGrad, #5 TBackward; saved f32[8,16] v0 (512 bytes)
       2 nodes, 512 bytes saved                                 memory that is shared counts once
   Lives as long as the scope. [flush] */
const char *sn_grad_text(sn_tensor *t);
/* Why no gradient of y reaches x, a leaf, while the setting track_tensors is on (SINTER_TRACK_TENSORS=1) from before y
   was computed; a line for each place where what came from x lost its history, with its op and line, the first first:
       detached by aten::detach at model.c:12: its result has no history
       aten::mul.Tensor at model.c:14 ran with gradients off, set at model.c:13
       aten::argmax at model.c:15 is not differentiable: its result is i64
   Or "a gradient flows", "it requires no gradients: ..." of x, "no op that it was computed by was given that leaf, or
   what came from it, outside of inference mode", or that it is not known. "" on error: SN_ERR_STATE where the setting
   is off. Lives as long as the scope. [flush] */
const char *sn_gradient_why(sn_tensor *y, sn_tensor *x);
/* What is kept for t's backward, or, t NULL, for any of this state, by the op whose node keeps it, most bytes first:
            bytes    shared    values  nodes  op
             4096      1024         3      1  GeluBackward
       4096 bytes in 1 node, 1024 of them of leaves
   bytes: memory that no row above has, so that they add up; shared: what another node has as well; of leaves: not
   through views of them. A compiled function is one node. Lives as long as the scope. [flush] */
const char *sn_saved_text(sn_tensor *t);
/* Nodes that this state recorded and something still holds, newest first: fills nodes[0] to nodes[capacity - 1] as
   nodes[0].size says, and returns how many there are. What a compiled function recorded is one. [neutral] */
int64_t sn_live_nodes(sn_grad_info *nodes, int64_t capacity);
SN_END
#endif
