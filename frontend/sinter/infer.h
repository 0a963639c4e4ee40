/* infer.h: what an op's results are, without running it.

       const sn_value in[] = {sn_str("f32[s0,4]"), sn_str("f32[4,s1]")};
       sn_inferred y;
       int n = 1;
       sn_op_infer(sn_op_find("aten::mm"), in, 2, &y, &n, NULL);    y.type: "f32[s0,s1]", y.sizes: {-1, -1} */
#ifndef SINTER_INFER_H
#define SINTER_INFER_H
#include <sinter/dispatch.h>
SN_BEGIN
typedef struct sn_inferred {
    /* "f32[2*s0,4]", with strides where they are not row-major "f32[3,s0]{1,3}", and the device where it is not the CPU
       "@meta": as sn_graph_input (graph.h) takes it. */
    const char *type;
    sn_dtype dtype;
    sn_device device;
    int32_t rank;
    /* The argument, by its place, whose memory it shows, and how many elements behind that one's first (below 0 only
       where as_strided goes back in a real tensor's storage); -1: its own memory. An offset that is an expression is
       -1. */
    int32_t alias_of;
    int64_t offset;
    /* In elements; -1: an expression, which type has. */
    const int64_t *sizes, *strides;
} sn_inferred;
/* Arguments as of sn_op_call, in the order of the op's schema, those of an out form with the tensors to write behind
   them. A tensor is described by a text, sn_str("f32[s0,4]"), or is a tensor, whose layout counts; a list of them by
   "[f32[2,3], f32[s0,3]]"; an int may be an expression of the symbols, sn_str("2*s0"), and so a list,
   sn_str("[s0, 4]"). A symbol is a size from 2 on (0 and 1 are cases of their own).
   *n_out: the room in out, then the count of results. What they point to lives until the innermost scope ends. assumed
   (NULL: not wanted) gets what was taken to hold of symbols, a line each: "s0 == s1"; "": nothing.
   Errors are the op's own. Ops whose results' sizes follow from values, or that give a number, are SN_ERR_UNSUPPORTED;
   a user's op's number is what stands for it in graphs: "i64[]", "f64[]", "bool[]".
   [neutral] */
sn_status sn_op_infer(const sn_op *op, const sn_value *in, int n_in, sn_inferred *out, int *n_out,
                      const char **assumed);
SN_END
#endif
