/* propose.c: arguments for an op. Most rows are served by the types and names of their parameters;
 * those whose tensors must fit each other have shapes in a small notation, one word a parameter:
 *
 *   ab   a tensor of sizes a, b: the first takes them from a value that exists; digits are sizes
 *   <bac a tensor of i64 below size b, of sizes a, c         .  a tensor without dims    &a  of i64, all 1
 *   [a,b*c,-1   a list of ints    =-1  an int    #b  the size b    (ab,cb  a list of tensors
 *   !    false    +    true    ~    none    *    by type and name    %ab  a tensor of i8    $ab  of f32    :u8  a dtype
 *
 * A row of "base.overload" is for that one, which then has no rows of the base. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/schema.h"
#include "tests/fuzz/gen.h"

enum { MOST_WORDS = 11 };
typedef struct ShapeRow {
    const char *base;
    const char *words[MOST_WORDS];
} ShapeRow;

static const ShapeRow shapes[] = {
    {"mm", {"ab", "bc"}},
    {"_int_mm", {"%ab", "%bc"}},
    {"fake_quantize_per_tensor_affine", {"ab", "$", "<7", "=-8", "=7"}},
    {"fake_quantize_per_channel_affine", {"ab", "$b", "<7b", "=1", "=-8", "=7"}},
    {"fake_quantize_per_channel_affine", {"eab", "$a", "<7a", "=-2", "=0", "=255"}},
    {"fake_quantize_per_tensor_affine_cachemask", {"ab", "*", "=0", "=-2", "=1"}},
    {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", {"ab", "$", "<7", "<2", "=-8", "=7"}},
    {"fake_quantize_per_channel_affine_cachemask", {"ab", "$a", "<7a", "=0", "=-8", "=7"}},
    {"quantize_per_tensor", {"ab", "$", "<7", "=0", "=255", ":u8"}},
    {"quantize_per_tensor", {"eab", "$", "<7", "=-128", "=127", ":i8"}},
    {"quantize_per_channel", {"ab", "$b", "<7b", "=1", "=-128", "=127", ":i8"}},
    {"dequantize_per_tensor", {"%ab", "$", "<7", "=-128", "=127", ":i8"}},
    {"dequantize_per_channel", {"%ab", "$a", "<7a", "=0", "=-128", "=127", ":i8"}},
    {"bmm", {"eab", "ebc"}},
    {"addmm", {"c", "ab", "bc"}},
    {"addmm", {"ac", "ab", "bc"}},
    {"baddbmm", {"eac", "eab", "ebc"}},
    {"matmul", {"a", "a"}},
    {"matmul", {"ab", "b"}},
    {"matmul", {"ab", "bc"}},
    {"matmul", {"eab", "bc"}},
    {"matmul", {"eab", "ebc"}},
    {"matmul", {"b", "ebc"}},
    {"prelu", {"ab", "b"}},
    {"prelu", {"abc", "1"}},
    {"_prelu_kernel", {"ab", "b"}},
    {"_prelu_kernel_backward", {"ab", "ab", "b"}},
    {"pixel_shuffle", {"4bc", "=2"}},
    {"pixel_shuffle", {"a4bc", "=2"}},
    {"pixel_unshuffle", {"a24", "=2"}},
    {"channel_shuffle", {"a4b", "=2"}},
    {"diff", {"ab", "=1", "=0", "cb", "1b"}},
    {"diff", {"ab"}},
    {"isclose", {"ab", "ab"}},
    {"dist", {"ab", "ab"}},
    {"vdot", {"a", "a"}},
    {"addbmm", {"ac", "eab", "ebc"}},
    {"addmv", {"a", "ab", "b"}},
    {"addr", {"ab", "a", "b"}},
    {"repeat_interleave.Tensor", {"&a", "#a"}},
    {"repeat_interleave.self_int", {"ab", "=2", "=1"}},
    {"repeat_interleave.self_Tensor", {"ab", "<1b", "=1", "=0"}},
    {"trace", {"ab"}},
    {"cosine_similarity", {"ab", "ab"}},
    {"cosine_similarity", {"ab", "ab", "=0"}},
    {"_fused_rms_norm", {"ab", "[b", "b"}},
    {"rms_norm", {"ab", "[b", "b"}},
    {"select_backward", {"a", "[a,2", "=1", "=1"}},
    {"slice_backward", {"2b", "[4,b", "=0", "=1", "=3", "=1"}},
    {"diagonal_scatter", {"aa", "a"}},
    {"diagonal_backward", {"a", "[a,a", "=0", "=0", "=1"}},
    {"take", {"ab", "<ac"}},
    {"narrow_copy", {"ab", "=1", "=0", "#b"}},
    {"_scaled_dot_product_flash_attention_for_cpu", {"efab", "efcb", "efcb"}},
    {"_scaled_dot_product_flash_attention_for_cpu", {"e4ab", "e2cb", "e2cb"}},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", {"e4ab", "e4ab", "e2cb", "e2cb", "e4ab", "e4a"}},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", {"efab", "efab", "efcb", "efcb", "efab", "efa"}},
    {"masked_select", {"ab", "?ab"}},
    {"glu", {"a2"}},
    {"glu", {"4b", "=0"}},
    {"glu_backward", {"a1", "a2", "=1"}},
    {"glu_backward", {"2b", "4b", "=0"}},
    {"linear", {"ab", "cb", "c"}},
    {"linear", {"eab", "cb", "c"}},
    {"linear", {"b", "cb"}},
    {"outer", {"a", "b"}},
    {"dot", {"a", "a"}},
    {"mv", {"ab", "b"}},
    {"scaled_dot_product_attention", {"eab", "ecb", "ecb"}},
    {"scaled_dot_product_attention", {"eab", "ecb", "ecd", "ac"}},
    {"scaled_dot_product_attention", {"efab", "efcb", "efcb"}},
    {"scaled_dot_product_attention", {"efab", "efcb", "efcd", "~", "=0", "+"}},
    {"scaled_dot_product_attention", {"eab", "ecb", "ecd", "?ac", "=0", "!"}},
    {"scaled_dot_product_attention", {"efab", "efcb", "efcd", "?e1ac", "=0", "!"}},
    {"scaled_dot_product_attention", {"e4ab", "e2cb", "e2cd", "~", "=0", "+", "~", "+"}},
    {"scaled_dot_product_attention", {"e4ab", "e2cb", "e2cb", "1c", "=0", "!", "~", "+"}},
    {"embedding", {"ab", "<ac"}},
    {"embedding", {"ab", "<acd"}},
    {"embedding_dense_backward", {"cb", "<ac", "#a"}},
    {"index_select", {"ab", "=1", "<bc"}},
    {"index_select", {"ab", "=0", "<ac"}},
    {"gather", {"ab", "=1", "<bac"}},
    {"gather", {"ab", "=-2", "<acb"}},
    {"scatter", {"ab", "=1", "<bac", "ac"}},
    {"scatter", {"ab", "=0", "<acb", "cb"}},
    {"scatter_add", {"ab", "=1", "<bac", "ac"}},
    {"scatter_add", {"ab", "=0", "<acb", "cb"}},
    {"scatter_reduce", {"ab", "=1", "<bac", "ac"}},
    {"scatter_reduce", {"ab", "=0", "<acb", "cb"}},
    {"index", {"ab", "(<ac"}},
    {"index", {"abc", "(<ae,<be"}},
    {"index", {"ab", "(<ac1,<be"}},
    {"index_put", {"ab", "(<ac", "cb"}},
    {"index_put", {"abc", "(<ae,<be", "ec"}},
    {"index_put", {"ab", "(<ac,<bc", "1"}},
    {"index_add", {"ab", "=1", "<bc", "ac"}},
    {"index_add", {"ab", "=0", "<ac", "cb"}},
    {"index_select_backward", {"ac", "[a,b", "=1", "<bc"}},
    {"gather_backward", {"ac", "ab", "=1", "<bac"}},
    {"embedding_backward", {"cb", "<ac", "#a"}},
    {"index_copy", {"ab", "=0", "<ac", "cb"}},
    {"index_fill", {"ab", "=0", "<ac"}},
    {"native_layer_norm", {"ab", "[b", "b", "b"}},
    {"native_layer_norm", {"eab", "[a,b", "ab", "ab"}},
    {"layer_norm", {"ab", "[b", "b", "b"}},
    {"layer_norm", {"eab", "[b", "b"}},
    {"native_layer_norm_backward", {"ab", "ab", "[b", "a1", "a1", "b", "b", "[1,1,1"}},
    {"nll_loss_forward", {"ab", "<ba", "b"}},
    {"nll_loss", {"ab", "<ba"}},
    {"nll_loss_backward", {".", "ab", "<ba", "*", "=1", "*", "."}},
    {"nll_loss_backward", {"a", "ab", "<ba", "b", "=0", "*", "."}},
    {"cross_entropy_loss", {"ab", "<ba"}},
    {"cross_entropy_loss", {"ab", "ab"}},
    {"mse_loss", {"ab", "ab"}},
    {"_softmax_backward_data", {"ab", "ab", "=1"}},
    {"_softmax_backward_data", {"ab", "ab", "=0"}},
    {"_log_softmax_backward_data", {"ab", "ab", "=1"}},
    {"native_dropout_backward", {"ab", "?ab"}},
    {"view", {"ab", "[a*b"}},
    {"view", {"ab", "[a,1,b"}},
    {"view", {"abc", "[a,-1"}},
    {"view", {"ab", "[-1"}},
    {"_unsafe_view", {"ab", "[a,1,b"}},
    {"_unsafe_view", {"abc", "[-1,c"}},
    {"reshape", {"ab", "[-1"}},
    {"reshape", {"abc", "[a,b*c"}},
    {"reshape", {"abc", "[c,-1"}},
    {"expand", {"1b", "[a,b"}},
    {"expand", {"b", "[a,-1"}},
    {"expand", {"a1", "[a,b"}},
    {"broadcast_to", {"b", "[a,b"}},
    {"broadcast_to", {"1b", "[2,1,b"}},
    {"expand_as", {"1b", "ab"}},
    {"view_as", {"ab", "a1b"}},
    {"reshape_as", {"ab", "1ab"}},
    {"as_strided", {"ab", "[b,a", "[1,b", "=0"}}, /* all of it: any other offset ends outside */
    {"as_strided", {"4b", "[3,b", "[b,1", "#b"}},
    {"as_strided", {"ab", "[a", "[b", "=0"}},
    {"unflatten", {"ab", "=0", "[1,a"}},
    {"unflatten", {"ab", "=1", "[-1,1"}},
    {"split_with_sizes", {"3b", "[1,2", "=0"}},
    {"split_with_sizes", {"ab", "[b", "=1"}},
    {"split", {"3b", "[2,1", "=0"}},
    {"split", {"ab", "=2", "=0"}},
    {"chunk", {"ab", "=2", "=1"}},
    {"repeat", {"ab", "[2,1"}},
    {"repeat", {"b", "[3,2"}},
    {"constant_pad_nd", {"ab", "[1,2"}},
    {"constant_pad_nd", {"ab", "[0,1,2,0"}},
    {"constant_pad_nd", {"ab", "[-1,1"}},
    {"reflection_pad1d", {"abc", "[1,0"}},
    {"reflection_pad2d", {"abc", "[1,0,0,1"}},
    {"reflection_pad2d", {"eabc", "[-1,1,1,0"}},
    {"reflection_pad3d", {"eabc", "[0,1,1,0,1,0"}},
    {"reflection_pad1d_backward", {"abc", "abc", "[0,0"}},
    {"reflection_pad2d_backward", {"eabc", "eabc", "[1,-1,0,0"}},
    {"reflection_pad3d_backward", {"eabc", "eabc", "[0,0,1,-1,0,0"}},
    {"replication_pad1d", {"abc", "[1,0"}},
    {"replication_pad2d", {"abc", "[1,0,0,1"}},
    {"replication_pad2d", {"eabc", "[-1,1,1,0"}},
    {"replication_pad3d", {"eabc", "[0,1,1,0,1,0"}},
    {"replication_pad1d_backward", {"abc", "abc", "[0,0"}},
    {"replication_pad2d_backward", {"eabc", "eabc", "[1,-1,0,0"}},
    {"replication_pad3d_backward", {"eabc", "eabc", "[0,0,1,-1,0,0"}},
    {"max_pool1d", {"abc", "[2", "[1", "[1"}},
    {"max_pool2d", {"abc", "[2", "[2", "[1"}},
    {"max_pool2d", {"eabc", "[2,1", "[1"}},
    {"max_pool3d", {"eabc", "[1,2,1", "[1"}},
    {"avg_pool1d", {"abc", "[2", "[1", "[1"}},
    {"avg_pool2d", {"abc", "[2", "[2", "[1"}},
    {"avg_pool2d", {"eabc", "[2,1", "[1"}},
    {"avg_pool3d", {"eabc", "[1,2,1", "[1"}},
    {"max_pool2d_with_indices", {"abc", "[1,2", "[1"}},
    {"max_pool2d_with_indices_backward", {"abc", "abc", "[1", "[1", "[0", "[1", "=0", "<babc"}},
    {"avg_pool2d_backward", {"abc", "abc", "[1", "[1", "[0", "=0", "=1"}},
    {"_adaptive_avg_pool2d_backward", {"abc", "abc"}},
    {"_adaptive_avg_pool2d", {"abc", "[2,1"}},
    {"adaptive_avg_pool2d", {"abc", "[1,2"}},
    {"max_pool2d_with_indices", {"eabc", "[1,2", "[1"}},
    {"max_pool2d_with_indices_backward", {"eabc", "eabc", "[1", "[1", "[0", "[1", "=0", "<beabc"}},
    {"avg_pool2d_backward", {"eabc", "eabc", "[1", "[1", "[0", "=0", "=1"}},
    {"_adaptive_avg_pool2d_backward", {"eabc", "eabc"}},
    {"_adaptive_avg_pool2d", {"eabc", "[2,1"}},
    {"adaptive_avg_pool2d", {"eabc", "[1,2"}},
    {"max_pool3d_with_indices", {"eabc", "[1,2,1", "[1"}},
    {"max_pool3d_with_indices_backward", {"eabc", "eabc", "[1", "[1", "[0", "[1", "=0", "<beabc"}},
    {"avg_pool3d_backward", {"eabc", "eabc", "[1", "[1", "[0", "=0", "=1"}},
    {"_adaptive_avg_pool3d_backward", {"eabc", "eabc"}},
    {"_adaptive_avg_pool3d", {"eabc", "[2,1,3"}},
    {"adaptive_avg_pool3d", {"eabc", "[1,2,2"}},
    {"max_pool1d_with_indices", {"abc", "[2"}},
    {"adaptive_avg_pool1d", {"abc", "[2"}},
    {"upsample_nearest1d", {"abc", "[3"}},
    {"upsample_nearest1d_backward", {"ab3", "[3", "[a,b,2"}},
    {"upsample_nearest2d", {"eabc", "[3,2"}},
    {"upsample_nearest2d_backward", {"ab32", "[3,2", "[a,b,2,3"}},
    {"upsample_linear1d", {"abc", "[3", "=0"}},
    {"upsample_linear1d_backward", {"ab3", "[3", "[a,b,2", "=1"}},
    {"upsample_bilinear2d", {"eabc", "[3,2", "=0"}},
    {"upsample_bilinear2d_backward", {"ab32", "[3,2", "[a,b,2,3", "=0"}},
    {"im2col", {"abc", "[2,1", "[1", "[1", "[1"}},
    {"im2col", {"eabc", "[1,2", "[1", "[0,1", "[2"}},
    {"col2im", {"a4", "[3,3", "[2,2", "[2", "[1", "[2"}},
    {"col2im", {"eabc", "[b,c", "[1", "[1", "[0", "[1"}},
    {"col2im", {"a66", "[3,2", "[2,3", "[1", "[1", "[1"}},
    {"grid_sampler_2d", {"eabc", "ed32", "=0", "=0", "=0"}},
    {"grid_sampler_2d", {"eabc", "ed32", "=0", "=2", "=1"}},
    {"grid_sampler_2d", {"eabc", "e2d2", "=1", "=1", "=0"}},
    {"grid_sampler_2d", {"eabc", "e1d2", "=2", "=2", "=0"}},
    {"grid_sampler", {"eabc", "e2d2", "=0", "=1", "=0"}},
    {"grid_sampler_2d_backward", {"ead3", "eabc", "ed32", "=0", "=1", "=0", "[1,1"}},
    {"grid_sampler_2d_backward", {"ea1d", "eabc", "e1d2", "=2", "=0", "=1", "[0,1"}},
    {"grid_sampler_3d", {"2abc2", "2d123", "=0", "=0", "=0"}},
    {"grid_sampler_3d", {"1abc2", "12d13", "=1", "=2", "=1"}},
    {"grid_sampler_3d", {"1a2bc", "1d213", "=2", "=1", "=0"}},
    {"grid_sampler", {"2abc2", "221d3", "=0", "=1", "=1"}},
    {"grid_sampler_3d_backward", {"2a1d2", "2abc3", "21d23", "=0", "=2", "=0", "[1,1"}},
    {"_embedding_bag", {"ab", "<ac", "<1d", "=0", "=0", "=0", "c"}},
    {"_embedding_bag", {"ab", "<ac", "<1d", "=0", "=1"}},
    {"_embedding_bag", {"ab", "<ac", "<1d", "=0", "=2"}},
    {"_embedding_bag_forward_only", {"ab", "<ac", "<1d", "=0", "=1"}},
    {"embedding_bag", {"ab", "<ac", "<1d", "=0", "=0", "=0", "c"}},
    {"embedding_bag", {"ab", "<ac", "<1d", "=0", "=2"}},
    {"_embedding_bag_backward", {"db", "<ac", "<1d", "<dc", "<9d", "<adb", "#a", "=0", "=0", "=0", "c"}},
    {"_embedding_bag_dense_backward", {"db", "<ac", "<dc", "<9d", "<adb", "#a", "=0", "=1"}},
    {"_embedding_bag_dense_backward", {"db", "<ac", "<dc", "<9d", "<adb", "#a", "=0", "=2"}},
    {"_embedding_bag_per_sample_weights_backward", {"db", "ab", "<ac", "<1d", "<dc", "=0"}},
    {"_cdist_forward", {"ab", "cb"}},
    {"_cdist_backward", {"ac", "ab", "cb", "*", "ac"}},
    {"_pdist_forward", {"ab"}},
    {"_pdist_backward", {"3", "3b", "*", "3"}},
    {"slice_scatter", {"ab", "1b", "=0", "=0", "=1"}},
    {"slice_scatter", {"a4", "a2", "=1", "=1", "=4", "=2"}},
    {"select_scatter", {"ab", "b", "=0", "=0"}},
    {"select_scatter", {"ab", "a", "=1", "=-1"}},
    {"as_strided_scatter", {"ab", "ab", "[a,b", "[b,1"}},
    {"as_strided_scatter", {"4b", "3", "[3", "[b", "=0"}},
    {"as_strided_scatter", {"4b", "2b", "[2,b", "[b,1"}},
    {"stack", {"(ab,ab", "=0"}},
    {"stack", {"(a,a,a", "=-1"}},
    {"cat", {"(ab,cb", "=0"}},
    {"cat", {"(ab,ac,ab", "=1"}},
    {"permute", {"ab", "[1,0"}},
    {"permute", {"abc", "[2,0,1"}},
    {"movedim", {"abc", "[0", "[2"}},
    {"movedim", {"abc", "[0,1", "[1,2"}},
    {"diagonal", {"ab"}},
    {"diagonal", {"abc", "=1", "=0", "=2"}},
    {"unfold", {"ab", "=1", "=2", "=1"}},
    {"narrow", {"ab", "=1", "=0", "#b"}},
    {"narrow", {"ab", "=0", "=0", "=1"}},
    {"t", {"ab"}},
    {"tril", {"ab"}},
    {"triu", {"eab"}},
    {"where", {"?ab", "ab", "b"}},
    {"where", {"?a1", "ab", "ab"}},
    {"masked_fill", {"ab", "?ab", "."}},
    {"searchsorted", {"b", "ab"}},
    {"searchsorted", {"ab", "ac"}},
    {"bucketize", {"ab", "b"}},
    {"one_hot", {"<7ab", "=7"}},
    {"tril_indices", {"=3", "=4", "=1"}},
    {"triu_indices", {"=4", "=2", "=-1"}},
    {"index_reduce", {"ab", "=1", "<bc", "ac"}},
    {"index_reduce", {"ab", "=0", "<ac", "cb"}},
    {"randint", {"=9", "[a,b"}},
    {"randint.generator", {"=9", "[a,b"}},
    {"randint.low", {"=-2", "=9", "[a,b"}},
    {"randint.low_generator", {"=-2", "=9", "[a,b"}},
    {"randint_like", {"ab", "=9"}},
    {"random.from", {"ab", "=-2", "=9"}},
    {"random.to", {"ab", "=9"}},
    {"randint_like.low_dtype", {"ab", "=-2", "=9"}},
    {"normal", {"ab", "*", "*"}},
    {"multinomial", {"4b", "=1"}},
    {"take_along_dim", {"ab", "<bac", "=1"}},
    {"trapezoid", {"ab", "b"}},
    {"sum_to_size", {"ab", "[1,b"}},
    {"vstack", {"(ab,cb"}},
    {"tensor_split", {"ab", "=2", "=1"}},
    {"tensor_split", {"ab", "[1", "=0"}},
    {"lstm", {"3ab", "(1a2,1a2", "(8b,82", "!", "=1", "=0", "!", "!", "!"}},
    {"gru", {"3ab", "1a2", "(6b,62", "!", "=1", "=0", "!", "!", "!"}},
    {"rnn_tanh", {"3ab", "1ac", "(cb,cc", "!", "=1", "=0", "!", "!", "!"}},
    {"rnn_relu", {"3ab", "1ac", "(cb,cc", "!", "=1", "=0", "!", "!", "!"}},
    {"lstm_cell", {"ab", "(a2,a2", "8b", "82", "8", "8"}},
    {"gru_cell", {"ab", "a2", "6b", "62", "6", "6"}},
    {"rnn_tanh_cell", {"ab", "ac", "cb", "cc", "c", "c"}},
    {"rnn_relu_cell", {"ab", "ac", "cb", "cc"}},
    {"adaptive_max_pool1d", {"abc", "[3"}},
    {"adaptive_max_pool2d", {"abcd", "[2,3"}},
    {"adaptive_max_pool2d_backward", {"2132", "2145", "<92132"}},
    {"adaptive_max_pool3d", {"1abcd", "[2,1,2"}},
    {"adaptive_max_pool3d_backward", {"2121", "2232", "<92121"}},
    {"cdist", {"ab", "cb"}},
    {"cdist", {"eab", "cb"}},
    {"_euclidean_dist", {"ab", "cb"}},
    {"masked_scatter", {"ab", "?ab", "bab"}},
    {"masked_scatter", {"b", "?a1", "ab"}},
    {"masked_scatter_backward", {"ab", "?ab", "[b,a,2"}},
    {"fill", {"ab", "."}},
    {"zeros", {"[a,b"}},
    {"ones", {"[b"}},
    {"full", {"[a,b"}},
    {"rand", {"[a,b"}},
    {"randn", {"[b"}},
    {"empty", {"[0,a"}},
    {"new_zeros", {"a", "[a,2"}},
    {"new_ones", {"ab", "[b"}},
    {"new_full", {"ab", "[b,a"}},
    {"convolution", {"1cef", "dc33", "d", "[1,1", "[1,1", "[1,1", "!", "[0,0", "=1"}},
    {"convolution", {"ac4", "dc3", "d", "[2", "[1", "[1", "!", "[0", "=1"}},
    {"convolution_backward", {"ad44", "ac44", "dc33", "[d", "[1,1", "[1,1", "[1,1", "!", "[0,0", "=1", "[1,1,1"}},
    {"convolution_backward", {"2d3", "2c5", "dc3", "[d", "[1", "[0", "[1", "!", "[0", "=1", "[1,1,0"}},
    {"conv1d", {"ac4", "dc3", "d", "[1", "[1", "[1", "=1"}},
    {"conv2d", {"ac44", "dc33", "d", "[1,2", "[1,0", "[1,1", "=1"}},
    {"conv3d", {"1c232", "dc121", "d", "[1,1,1", "[0,1,0", "[1,1,1", "=1"}},
    {"conv_transpose1d", {"ac4", "cd3", "d", "[2", "[1", "[1", "=1", "[1"}},
    {"conv_transpose2d", {"ac33", "cd22", "d", "[1,2", "[0,1", "[0,1", "=1", "[1,1"}},
    {"conv_transpose3d", {"1c222", "cd121", "d", "[1,1,1", "[0,0,0", "[0,0,0", "=1", "[1,1,1"}},
    {"batch_norm", {"acb", "c", "c", "c", "c"}},
    {"native_batch_norm", {"acb", "c", "c", "c", "c"}},
    {"_native_batch_norm_legit", {"acb", "c", "c", "c", "c"}},
    {"_native_batch_norm_legit_functional", {"acb", "c", "c", "c", "c"}},
    {"_native_batch_norm_legit_no_training", {"acb", "c", "c", "c", "c"}},
    {"_batch_norm_with_update", {"acb", "c", "c", "c", "c"}},
    {"native_batch_norm_backward", {"acb", "acb", "c", "c", "c", "c", "c"}},
    {"instance_norm", {"acb", "c", "c", "c", "c"}},
    {"native_group_norm", {"acb", "c", "c", "#a", "#c", "#b", "=1"}},
    {"native_group_norm", {"a4b", "4", "4", "#a", "#4", "#b", "=2"}},
    {"native_group_norm_backward", {"acb", "acb", "a1", "a1", "c", "#a", "#c", "#b", "=1"}},
    {"group_norm", {"a4b", "=2", "4", "4"}},
    {"_upsample_nearest_exact1d", {"abc", "[3"}},
    {"_upsample_nearest_exact1d_backward", {"ab3", "[3", "[a,b,2"}},
    {"_upsample_nearest_exact2d", {"eabc", "[3,2"}},
    {"_upsample_nearest_exact2d_backward", {"ab32", "[3,2", "[a,b,2,3"}},
    {"_upsample_nearest_exact3d", {"12abc", "[3,2,2"}},
    {"_upsample_nearest_exact3d_backward", {"12322", "[3,2,2", "[1,2,2,3,1"}},
    {"upsample_trilinear3d", {"12abc", "[3,2,2", "=1"}},
    {"upsample_trilinear3d_backward", {"12322", "[3,2,2", "[1,2,2,3,1", "=0"}},
    {"upsample_bicubic2d", {"eabc", "[3,2", "=0"}},
    {"upsample_bicubic2d_backward", {"ab32", "[3,2", "[a,b,2,3", "=1"}},
    {"_upsample_bilinear2d_aa", {"eabc", "[3,2", "=0"}},
    {"_upsample_bilinear2d_aa_backward", {"ab32", "[3,2", "[a,b,5,3", "=0"}},
    {"_upsample_bicubic2d_aa", {"eabc", "[3,2", "=1"}},
    {"_upsample_bicubic2d_aa_backward", {"ab32", "[3,2", "[a,b,5,3", "=0"}},
    {"_upsample_lanczos2d_aa", {"eabc", "[3,2", "=1"}},
    {"_upsample_lanczos2d_aa_backward", {"ab32", "[3,2", "[a,b,5,3", "=0"}},
    {"_foreach_add", {"(ab,cb", "(ab,cb"}},
    {"_foreach_add", {"(ab,cb", "[2,3"}},
    {"_foreach_sub", {"(ab,cb", "(ab,cb"}},
    {"_foreach_sub", {"(ab,cb", "[2,3"}},
    {"_foreach_mul", {"(ab,cb", "(ab,cb"}},
    {"_foreach_mul", {"(ab,cb", "[2,3"}},
    {"_foreach_div", {"(ab,cb", "(ab,cb"}},
    {"_foreach_div", {"(ab,cb", "[2,3"}},
    {"_foreach_maximum", {"(ab,cb", "(ab,cb"}},
    {"_foreach_maximum", {"(ab,cb", "[2,3"}},
    {"_foreach_minimum", {"(ab,cb", "(ab,cb"}},
    {"_foreach_minimum", {"(ab,cb", "[2,3"}},
    {"_foreach_clamp_min", {"(ab,cb", "(ab,cb"}},
    {"_foreach_clamp_min", {"(ab,cb", "[2,3"}},
    {"_foreach_clamp_max", {"(ab,cb", "(ab,cb"}},
    {"_foreach_clamp_max", {"(ab,cb", "[2,3"}},
    {"_foreach_pow", {"(ab,cb", "(ab,cb"}},
    {"_foreach_pow", {"(ab,cb", "[2,3"}},
    {"_foreach_addcmul", {"(ab,cb", "(ab,cb", "(ab,cb"}},
    {"_foreach_addcmul", {"(ab,cb", "(ab,cb", "(ab,cb", "[2,3"}},
    {"_foreach_addcdiv", {"(ab,cb", "(ab,cb", "(ab,cb"}},
    {"_foreach_addcdiv", {"(ab,cb", "(ab,cb", "(ab,cb", "[2,3"}},
    {"_foreach_lerp", {"(ab,cb", "(ab,cb", "(ab,cb"}},
    {"_foreach_lerp", {"(ab,cb", "(ab,cb", "[1,2"}},
    {"_foreach_copy", {"(ab,cb", "(ab,cb"}},
    {"_foreach_mm", {"(ab,cb", "(bc,bb"}},
    {"meshgrid", {"(a,b"}},
    {"broadcast_tensors", {"(ab,1b"}},
    {"affine_grid_generator", {"a23", "[a,1,2,3", "=0"}},
    {"affine_grid_generator_backward", {"a232", "[a,1,2,3", "=1"}},
    {"_weight_norm", {"ab", "a1"}},
    {"_weight_norm", {"abc", "1b1", "=1"}},
    {"_weight_norm_interface", {"ab", "a1"}},
    {"_weight_norm_interface", {"ab", "1b", "=1"}},
    {"_weight_norm_interface_backward", {"ab", "ab", "a1", "a1", "=0"}},
    {"_weight_norm_differentiable_backward", {"ab", "ab", "1b", "1b", "=1"}},
    {"_pad_circular", {"1ab", "[1,1"}},
    {"numpy_T", {"ab"}},
    {"numpy_T", {"abc"}},
    {"_functional_assert_async", {"*", "*", "ab"}},
    {"upsample_nearest3d", {"12abc", "[3,2,2"}},
    {"upsample_nearest3d_backward", {"12322", "[3,2,2", "[1,2,2,3,1"}},
};

/* Templates ----------------------------------------------------------------------------------- */

typedef struct Letters {
    FzInt size['z' + 1];
    bool bound['z' + 1];
    DType dtype;
    bool started;
} Letters;

static FzInt letter(Gen *g, Letters *l, char c) {
    if (isdigit((unsigned char)c)) return (FzInt){c - '0', -1};
    if (!l->bound[(int)c]) l->size[(int)c] = gen_dim(g), l->bound[(int)c] = true;
    return l->size[(int)c];
}

/* The first tensor takes its sizes from a value that exists, so that programs hang together. */
static bool start_from(Gen *g, Letters *l, const char *word, int v) {
    const int rank = *word == '.' ? 0 : (int)strlen(word);
    if (!gen_live(g, v) || gen_rank(g, v) != rank || !dtype_is_float(gen_dtype(g, v))) return false;
    for (int d = 0; d < rank; d++) {
        const FzInt dim = g->v[v].dims[d];
        if (dim.var >= FZ_SIZES) return false;
        if (isdigit((unsigned char)word[d]) && (dim.var >= 0 || dim.value != word[d] - '0')) return false;
    }
    for (int d = 0; d < rank; d++)
        if (!isdigit((unsigned char)word[d])) l->size[(int)word[d]] = g->v[v].dims[d], l->bound[(int)word[d]] = true;
    l->dtype = gen_dtype(g, v);
    return true;
}

static bool distinct(const char *word) {
    for (const char *c = word; *c; c++)
        if (strchr(c + 1, *c)) return false;
    return true;
}

static bool tensor_word(Gen *g, Letters *l, const char *word, size_t n, FzArg *a) {
    char text[8] = "";
    FzInt dims[GEN_RANK];
    snprintf(text, sizeof text, "%.*s", (int)n, word);
    *a = (FzArg){.kind = FZ_value};
    if (!l->started && distinct(text)) {
        l->started = true;
        for (int i = 0; i < 12; i++) {
            a->value = gen_any(g);
            if (a->value >= 0 && start_from(g, l, text, a->value)) return true;
        }
    }
    int rank = 0;
    for (const char *c = text; *c && *c != '.' && rank < GEN_RANK; c++) dims[rank++] = letter(g, l, *c);
    a->value = gen_value(g, l->dtype, dims, rank, 0, -1);
    return a->value >= 0;
}

static bool index_word(Gen *g, Letters *l, const char *word, FzArg *a) {
    const FzInt bound = letter(g, l, word[1]);
    const int64_t high = bound.var >= FZ_SIZES ? 0 : min_i64(fz_int(g->p, bound, 0), fz_int(g->p, bound, 1));
    FzInt dims[4];
    int rank = 0;
    for (const char *c = word + 2; *c && rank < 4; c++) dims[rank++] = letter(g, l, *c);
    if (high < 1) return false;
    *a = (FzArg){.kind = FZ_value};
    a->value = gen_value(g, DT_i64, dims, rank, 0, high - 1);
    return a->value >= 0;
}

static bool ones_word(Gen *g, Letters *l, const char *word, FzArg *a) {
    const FzInt dim = letter(g, l, word[1]);
    *a = (FzArg){.kind = FZ_value, .value = gen_value(g, DT_i64, &dim, 1, 1, 1)};
    return a->value >= 0;
}

static bool bool_word(Gen *g, Letters *l, const char *word, FzArg *a) {
    FzInt dims[4];
    int rank = 0;
    for (const char *c = word + 1; *c && rank < 4; c++) dims[rank++] = letter(g, l, *c);
    *a = (FzArg){.kind = FZ_value, .value = gen_value(g, DT_bool, dims, rank, 0, 1)};
    return a->value >= 0;
}

static bool word_of_dtype(Gen *g, Letters *l, DType dtype, const char *word, FzArg *a) {
    FzInt dims[4];
    int rank = 0;
    for (const char *c = word + 1; *c && rank < 4; c++) dims[rank++] = letter(g, l, *c);
    *a = (FzArg){.kind = FZ_value, .value = gen_value(g, dtype, dims, rank, 0, -1)};
    return a->value >= 0;
}

static FzArg plain_bool(bool value) { return (FzArg){.kind = FZ_bool, .i = {value, -1}}; }
static FzArg plain_int(int64_t value) { return (FzArg){.kind = FZ_int, .i = {value, -1}}; }

/* a*b: one of the two must be a plain number. */
static bool product(FzInt *into, FzInt by) {
    if (into->var >= 0 && by.var >= 0) return false;
    into->value *= by.value;
    if (by.var >= 0) into->var = by.var;
    return into->var < FZ_SIZES;
}

static bool ints_word(Gen *g, Letters *l, const char *word, FzArg *a) {
    *a = (FzArg){.kind = FZ_ints};
    for (const char *c = word + 1; *c;) {
        FzInt value = {1, -1};
        if (*c == '-' || isdigit((unsigned char)*c)) {
            char *end;
            value.value = strtoll(c, &end, 10);
            c = end;
        } else if (!product(&value, letter(g, l, *c++))) {
            return false;
        }
        while (*c == '*') {
            if (!product(&value, letter(g, l, c[1]))) return false;
            c += 2;
        }
        a->ints[a->n++] = value;
        if (*c == ',') c++;
    }
    return true;
}

static bool list_word(Gen *g, Letters *l, const char *word, FzArg *a) {
    FzArg one;
    *a = (FzArg){.kind = FZ_values};
    for (const char *c = word + 1; *c;) {
        const size_t n = strcspn(c, ",");
        char index[16];
        snprintf(index, sizeof index, "%.*s", (int)n, c);
        if (!(*c == '<' ? index_word(g, l, index, &one) : tensor_word(g, l, c, n, &one))) return false;
        a->values[a->n++] = one.value;
        c += n + (c[n] == ',');
    }
    return true;
}

static bool word_argument(Gen *g, Letters *l, const char *word, FzArg *a) {
    switch (*word) {
    case '<':
        return index_word(g, l, word, a);
    case '?':
        return bool_word(g, l, word, a);
    case '&':
        return ones_word(g, l, word, a);
    case '[':
        return ints_word(g, l, word, a);
    case '(':
        return list_word(g, l, word, a);
    case '%':
        return word_of_dtype(g, l, DT_i8, word, a);
    case '$':
        return word_of_dtype(g, l, DT_f32, word, a);
    case ':':
        *a = plain_int(dtype_find(word + 1, strlen(word + 1)));
        return true;
    case '!':
        *a = (FzArg){.kind = FZ_bool, .i = {false, -1}};
        return true;
    case '+':
        *a = plain_bool(true);
        return true;
    case '~':
        *a = (FzArg){.kind = FZ_none};
        return true;
    case '=':
        *a = (FzArg){.kind = FZ_int, .i = {atoi(word + 1), -1}};
        return true;
    case '#':
        *a = (FzArg){.kind = FZ_int, .i = letter(g, l, word[1])};
        return a->i.var < FZ_SIZES;
    default:
        return tensor_word(g, l, word, strlen(word), a);
    }
}

/* By type and name ---------------------------------------------------------------------------- */

static FzArg plain_float(double value) { return (FzArg){.kind = FZ_float, .f = value, .i = {1, -1}}; }

static bool same_shape(Gen *g, const GenVal *v, DType dtype, FzArg *a) {
    FzInt dims[GEN_RANK];
    int rank = v->at[0].meta.rank;
    const int skip = rank && gen_chance(g, 20) ? 1 + (int)gen_below(g, rank) : 0;
    for (int d = skip; d < rank; d++) {
        dims[d - skip] = v->dims[d];
        if (gen_chance(g, 12)) dims[d - skip] = (FzInt){1, -1};
    }
    rank -= skip;
    *a = (FzArg){.kind = FZ_value, .value = gen_value(g, dtype, dims, rank, 0, -1)};
    return a->value >= 0;
}

/* Ints for the ops that take no floats. */
static bool first_tensor(Gen *g, const FzStep *step, FzArg *a) {
    const bool ints = strstr(step->op, "bitwise") != NULL;
    *a = (FzArg){.kind = FZ_value, .value = gen_any(g)};
    for (int i = 0; ints && i < 8 && a->value >= 0 && dtype_is_float(gen_dtype(g, a->value)); i++)
        a->value = gen_any(g);
    if (a->value < 0) return false;
    return !ints || !dtype_is_float(gen_dtype(g, a->value)) || same_shape(g, &g->v[a->value], DT_i64, a);
}

static bool tensor_argument(Gen *g, const FzStep *step, const Param *param, FzArg *a) {
    const bool boolean = !strcmp(param->name, "condition") || !strcmp(param->name, "mask");
    if (step->n_args && step->args[0].kind == FZ_value) {
        const GenVal *const first = &g->v[step->args[0].value];
        if (gen_chance(g, 10)) *a = step->args[0]; /* the same tensor twice */
        if (a->kind == FZ_value && !boolean) return true;
        DType dtype = gen_chance(g, 85) ? first->at[0].meta.dtype : gen_float(g);
        if (dtype == DT_bool && !boolean) dtype = DT_f32;
        return same_shape(g, first, boolean ? DT_bool : dtype, a);
    }
    if (!first_tensor(g, step, a)) return false;
    if (!boolean || gen_dtype(g, a->value) == DT_bool) return true;
    return same_shape(g, &g->v[a->value], DT_bool, a);
}

static FzArg number_argument(Gen *g, const Gen *unused, bool ints_only) {
    static const double floats[] = {0.5, -0.5, 2.0, 1.0, 0.0, -1.5, 3.0, 0.1};
    (void)unused;
    if (!ints_only && gen_chance(g, 60)) {
        FzArg a = plain_float(floats[gen_below(g, COUNT_OF(floats))]);
        if (gen_chance(g, 15)) a.i.var = (int)gen_below(g, g->p->n_sizes);
        return a;
    }
    if (gen_chance(g, 15)) return (FzArg){.kind = FZ_int, .i = {1, (int)gen_below(g, g->p->n_sizes)}};
    return plain_int(gen_below(g, 5) - 1);
}

static int self_rank(const Gen *g, const FzStep *step) {
    return step->n_args && step->args[0].kind == FZ_value ? gen_rank(g, step->args[0].value) : 1;
}

static FzArg int_argument(Gen *g, const FzStep *step, const char *name) {
    const int rank = (int)max_i64(self_rank(g, step), 1);
    if (!strncmp(name, "dim", 3) || strstr(name, "_dim")) return plain_int(gen_below(g, 2 * rank) - rank);
    if (!strcmp(name, "reduction")) return plain_int(gen_below(g, 3));
    if (!strcmp(name, "ignore_index")) return plain_int(gen_chance(g, 70) ? -100 : 1);
    if (!strcmp(name, "padding_idx")) return plain_int(gen_chance(g, 70) ? -1 : 0);
    if (!strcmp(name, "step")) return plain_int(1 + gen_below(g, 2));
    if (!strcmp(name, "end") && gen_chance(g, 40))
        return (FzArg){.kind = FZ_int, .i = {1, (int)gen_below(g, g->p->n_sizes)}};
    if (!strcmp(name, "length") || !strcmp(name, "chunks") || strstr(name, "size"))
        return plain_int(1 + gen_below(g, 3));
    return plain_int(gen_below(g, 4) - 1);
}

static FzArg ints_argument(Gen *g, const FzStep *step, const char *name) {
    FzArg a = {.kind = FZ_ints};
    const int rank = self_rank(g, step);
    if (!strncmp(name, "dim", 3)) {
        for (int d = 0; d < rank && d < FZ_LIST; d++)
            if (gen_chance(g, 50)) a.ints[a.n++] = (FzInt){gen_chance(g, 30) ? d - rank : d, -1};
        return a;
    }
    a.n = !strcmp(name, "output_mask") ? 3 : (int)gen_below(g, 3);
    for (int i = 0; i < a.n; i++) a.ints[i] = a.n == 3 ? (FzInt){1, -1} : gen_dim(g);
    return a;
}

static FzArg string_argument(Gen *g, const FzStep *step, const char *name) {
    static const char *const rounding[] = {"floor", "trunc"};
    FzArg a = {.kind = FZ_string};
    static const char *const reductions[] = {"add", "multiply", "sum", "prod", "mean", "amax", "amin"};
    const bool two = strstr(step->op, "scatter_reduce") != NULL; /* its words are others */
    const bool four = strstr(step->op, "index_reduce") != NULL;  /* no sum */
    const bool rounds = !strcmp(name, "rounding_mode"), reduces = !strcmp(name, "reduce");
    const bool pads = !strcmp(name, "padding");
    if (rounds && gen_chance(g, 30)) return (FzArg){.kind = FZ_none};
    snprintf(a.s, sizeof a.s, "%s",
             reduces                     ? reductions[four  ? 3 + gen_below(g, 4)
                                                      : two ? 2 + gen_below(g, 5)
                                                            : gen_below(g, 2)]
             : rounds                    ? rounding[gen_below(g, 2)]
             : !strcmp(name, "indexing") ? (gen_chance(g, 50) ? "ij" : "xy")
             : pads                      ? (gen_chance(g, 50) ? "same" : "valid")
             : !strcmp(name, "side")     ? (gen_chance(g, 50) ? "left" : "right")
             : gen_chance(g, 50)         ? "tanh"
                                         : "none");
    return a;
}

static FzArg bool_argument(Gen *g, const char *name) {
    static const char *const off[] = {"half_to_float", "sparse",     "sparse_grad",
                                      "implicit",      "enable_gqa", "scale_grad_by_freq"};
    for (int i = 0; i < COUNT_OF(off); i++)
        if (!strcmp(name, off[i])) return plain_bool(false);
    return plain_bool(gen_chance(g, 50));
}

static FzArg float_argument(Gen *g, const char *name) {
    static const double p[] = {0.0, 0.25, 0.5, 1.0};
    if (!strcmp(name, "eps")) return plain_float(1e-5);
    if (!strcmp(name, "dropout_p") || !strcmp(name, "label_smoothing"))
        return plain_float(gen_chance(g, 70) ? 0.0 : 0.1);
    return plain_float(p[gen_below(g, COUNT_OF(p))]);
}

static FzArg dtype_argument(Gen *g, const FzStep *step, bool optional) {
    static const uint8_t dtypes[] = {DT_f32, DT_f64, DT_bf16, DT_i64, DT_i32, DT_bool, DT_f16};
    if (optional && gen_chance(g, 65)) return (FzArg){.kind = FZ_none};
    if (step->n_args && step->args[0].kind == FZ_value && gen_chance(g, 40))
        return plain_int(gen_dtype(g, step->args[0].value));
    return plain_int(dtypes[gen_below(g, COUNT_OF(dtypes))]);
}

static bool list_argument(Gen *g, FzArg *a) {
    FzStep same = {.kind = FZ_op};
    *a = (FzArg){.kind = FZ_values};
    const int n = 1 + (int)gen_below(g, 3);
    for (int i = 0; i < n; i++) {
        FzArg one = {.kind = FZ_none};
        if (!tensor_argument(g, &same, &(Param){.name = ""}, &one)) return false;
        same.args[0] = one, same.n_args = 1;
        a->values[a->n++] = one.value;
    }
    return true;
}

static bool typed_argument(Gen *g, const FzStep *step, const Param *param, FzArg *a) {
    *a = (FzArg){.kind = FZ_none};
    switch (param->type) {
    case PT_tensor_opt:
        if (gen_chance(g, 50)) return true;
        return tensor_argument(g, step, param, a);
    case PT_tensor:
        return tensor_argument(g, step, param, a);
    case PT_tensors:
    case PT_tensors_opt:
        return list_argument(g, a);
    case PT_scalar_opt:
        if (gen_chance(g, 30)) return true;
        return *a = number_argument(g, g, !strcmp(param->name, "correction")), true;
    case PT_scalar: {
        const bool ints =
            step->n_args && step->args[0].kind == FZ_value && !dtype_is_float(gen_dtype(g, step->args[0].value));
        return *a = number_argument(g, g, ints && gen_chance(g, 70)), true;
    }
    case PT_int_opt:
        if (gen_chance(g, 40)) return true;
        return *a = int_argument(g, step, param->name), true;
    case PT_int:
        return *a = int_argument(g, step, param->name), true;
    case PT_ints_opt:
    case PT_int1_opt:
        if (gen_chance(g, 25)) return true;
        return *a = ints_argument(g, step, param->name), true;
    case PT_ints:
    case PT_int1:
        return *a = ints_argument(g, step, param->name), true;
    case PT_float_opt:
        if (gen_chance(g, 60)) return true;
        return *a = float_argument(g, param->name), true;
    case PT_float:
        return *a = float_argument(g, param->name), true;
    case PT_bool:
        return *a = bool_argument(g, param->name), true;
    case PT_bool_opt:
        if (!strcmp(param->name, "train")) *a = plain_bool(true);
        return true;
    case PT_string:
    case PT_string_opt:
        return *a = string_argument(g, step, param->name), true;
    case PT_dtype:
    case PT_dtype_opt:
        return *a = dtype_argument(g, step, param->type == PT_dtype_opt), true;
    default:
        return true;
    }
}

/* Rows ---------------------------------------------------------------------------------------- */

static const ShapeRow *shape_named(Gen *g, const char *name) {
    const ShapeRow *found = NULL;
    int n = 0;
    for (int i = 0; i < COUNT_OF(shapes); i++)
        if (!strcmp(shapes[i].base, name) && gen_below(g, ++n) == 0) found = &shapes[i];
    return found;
}

static const ShapeRow *choose_shape(Gen *g, const OpRow *row) {
    const char *const name = strstr(row->name, "::") + 2;
    const ShapeRow *const own = shape_named(g, name);
    return own || !strcmp(name, row->base) ? own : shape_named(g, row->base);
}

static bool takes_word(const Param *param, const char *word) {
    const bool tensor = param->type == PT_tensor || param->type == PT_tensor_opt;
    switch (*word) {
    case '*':
        return false;
    case '[':
        return param->type == PT_ints || param->type == PT_ints_opt || param->type == PT_int1 ||
               param->type == PT_int1_opt || param->type == PT_scalars;
    case '(':
        return param->type == PT_tensors;
    case ':':
        return param->type == PT_dtype;
    case '!':
        return param->type == PT_bool;
    case '=':
    case '#':
        return param->type == PT_int || param->type == PT_int_opt;
    default:
        return tensor;
    }
}

/* Where a device has to be given it is the CPU. */
static bool is_device(const Param *param) {
    return param->type == PT_device_opt && param->fallback.kind == ARG_default;
}

static bool arguments(Gen *g, const OpRow *row, FzStep *step) {
    const ShapeRow *const shape = choose_shape(g, row);
    Letters l = {.dtype = gen_float(g)};
    if (row->n_params > FZ_ARGS) return false;
    for (int i = 0; i < row->n_params; i++) {
        const Param *const param = &row->params[i];
        const char *const word = shape && i < MOST_WORDS ? shape->words[i] : NULL;
        const bool optional = param->fallback.kind != ARG_default || param->keyword;
        FzArg *const a = &step->args[step->n_args];
        if (!word && optional && gen_chance(g, 25)) break; /* the defaults from here on */
        if (word && param->type == PT_tensor_opt && gen_chance(g, 30))
            *a = (FzArg){.kind = FZ_none};
        else if (word && takes_word(param, word)) {
            if (!word_argument(g, &l, word, a)) return false;
        } else if (is_device(param) && row->params[i].type == PT_device_opt && !strcmp(row->base, "to")) {
            *a = plain_int(DEV_cpu);
        } else if (!typed_argument(g, step, param, a)) {
            return false;
        }
        if (a->kind == FZ_value && !l.started) l.started = true, l.dtype = gen_dtype(g, a->value);
        step->n_args++;
    }
    return true;
}

/* The tensor written stands for the options. */
static void drop_options(const OpRow *row, FzStep *step) {
    const int n = row->options ? (int)min_i64(N_OPTIONS, step->n_args - row->options) : 0;
    if (n <= 0) return;
    step->n_args -= n;
    memmove(&step->args[row->options], &step->args[row->options + n],
            sizeof *step->args * (size_t)(step->n_args - row->options));
}

/* Memory that the call reads: to be written it must have the result's layout, which that of a view may not be. */
static bool shares_argument(const Gen *g, const FzStep *step, int given, int memory) {
    for (int i = 0; i < given; i++) {
        const FzArg *const a = &step->args[i];
        if (a->kind == FZ_value && g->v[a->value].memory == memory) return true;
        for (int k = 0; a->kind == FZ_values && k < a->n; k++)
            if (g->v[a->values[k]].memory == memory) return true;
    }
    return false;
}

/* Something to write to: mostly of the result's shape, else it is resized. */
static bool out_arguments(Gen *g, const OpRow *row, FzStep *step) {
    const int values = g->p->n_values, steps = g->p->n_steps;
    FzStep probe = *step;
    snprintf(probe.op, sizeof probe.op, "%s", op_form_name(row, FORM_functional));
    if (step->n_args + row->n_out > FZ_ARGS || !gen_try(g, &probe)) return false;
    drop_options(row, step);
    const int given = step->n_args;
    GenVal like[GEN_OUTS];
    memcpy(like, &g->v[values], sizeof *like * (size_t)row->n_out);
    g->p->n_values = values, g->p->n_steps = steps;
    for (int i = 0; i < row->n_out; i++) {
        const DType dtype = like[i].at[0].meta.dtype;
        FzArg *const a = &step->args[given + i];
        *a = (FzArg){.kind = FZ_value};
        if (gen_chance(g, 4)) { /* resized */
            const FzInt one = {1, -1};
            a->value = gen_value(g, dtype, &one, 1, 0, -1);
        } else {
            a->value = gen_value(g, dtype, like[i].dims, like[i].at[0].meta.rank, 0, -1);
        }
        if (a->value < 0) return false;
        if (shares_argument(g, step, given, g->v[a->value].memory) && gen_chance(g, 80)) return false;
        for (int k = 0; k < i; k++) /* two results in one place: whichever is written last */
            if (g->v[step->args[given + k].value].memory == g->v[a->value].memory) return false;
        step->n_args++;
    }
    return true;
}

/* The argument whose values are probabilities, or -1: by the row's check, or of a composite whose parts have it. */
static int unit_argument(const OpRow *row) {
    const bool draws = !strcmp(row->base, "bernoulli");
    const char *const name = row->check.param                           ? row->check.param
                             : draws && strcmp(row->overload, "Tensor") ? "self"
                                                                        : "p";
    const CheckKind kind = row->check.kind;
    const bool bounded = kind == CHECK_unit || kind == CHECK_weight || kind == CHECK_deviation;
    if (!bounded && (!draws || !strcmp(row->overload, "p"))) return -1;
    for (int i = 0; i < row->n_params; i++)
        if (!strcmp(row->params[i].name, name)) return i;
    return -1;
}

/* The sigmoid of what was chosen, without its NaNs. */
static void make_unit(Gen *g, FzStep *step, int i) {
    if (i < 0 || i >= step->n_args || step->args[i].kind != FZ_value || !gen_chance(g, 98)) return;
    FzStep number = {.kind = FZ_op, .op = "aten::nan_to_num", .args = {step->args[i]}, .n_args = 1};
    if (!gen_try(g, &number)) return;
    FzStep inside = {.kind = FZ_op, .op = "aten::sigmoid", .n_args = 1};
    inside.args[0] = (FzArg){.kind = FZ_value, .value = number.out};
    if (gen_try(g, &inside)) step->args[i].value = inside.out;
}

/* Of ints that divide, those made odd: none is 0. */
static void make_divisor(Gen *g, const OpRow *row, FzStep *step) {
    const OpRow *const checked = row->alias_of ? row->alias_of : row;
    const int i = checked->check.kind == CHECK_divisor ? op_param_find(checked, checked->check.param) : -1;
    if (i < 0 || i >= step->n_args || step->args[i].kind != FZ_value || !gen_chance(g, 98)) return;
    if (!dtype_is_int(gen_dtype(g, step->args[i].value))) return;
    FzStep odd = {.kind = FZ_op, .op = "aten::bitwise_or.Scalar", .args = {step->args[i], plain_int(1)}, .n_args = 2};
    if (gen_try(g, &odd)) step->args[i].value = odd.out;
}

/* The remainder of what was chosen, where it is not known to lie below the bound: a value, or -1. */
static int position_below(Gen *g, int value, int64_t bound) {
    const GenVal *const v = &g->v[value];
    const bool known = v->low <= v->high && v->low >= 0 && v->high < bound;
    if (bound < 1 || known || !dtype_is_int(gen_dtype(g, value)) || !gen_chance(g, 98)) return -1;
    FzStep below = {.kind = FZ_op,
                    .op = "aten::remainder.Scalar",
                    .args = {{.kind = FZ_value, .value = value}, plain_int(bound)},
                    .n_args = 2};
    return gen_try(g, &below) ? below.out : -1;
}

static void make_positions(Gen *g, const OpRow *row, FzStep *step) {
    const int at = op_param_find(row->alias_of ? row->alias_of : row, row->check.param);
    if (at < 0 || at >= step->n_args) return;
    FzArg *const a = &step->args[at];
    for (int i = 0; a->kind == FZ_values && i < a->n; i++) {
        const int inside = position_below(g, a->values[i], gen_bound(g, row, step, i));
        if (inside >= 0) a->values[i] = inside;
    }
    if (a->kind != FZ_value) return;
    const int inside = position_below(g, a->value, gen_bound(g, row, step, 0));
    if (inside >= 0) a->value = inside;
}

/* Strides count in all of the memory: in that of a copy they mean what the row says. */
static void make_whole(Gen *g, const OpRow *row, FzStep *step) {
    if (!(row->flags & OPF_places) || step->args[0].kind != FZ_value || !gen_chance(g, 90)) return;
    FzStep whole = {.kind = FZ_op, .op = "aten::clone", .args = {step->args[0], plain_int(MF_contiguous)}, .n_args = 2};
    if (gen_try(g, &whole)) step->args[0].value = whole.out;
}

/* Mostly inside of its op's domain, since few programs may end in an error; what is written stays as it is. */
static void enter_domain(Gen *g, const OpRow *row, OpForm form, FzStep *step) {
    const int unit = unit_argument(row);
    if (row->check.bound) make_positions(g, row, step);
    make_divisor(g, row, step);
    if (form == FORM_functional) make_whole(g, row, step);
    if (unit > 0 || form != FORM_inplace) make_unit(g, step, unit);
    if (row->check.kind == CHECK_unit && row->check.of) make_unit(g, step, op_param_find(row, row->check.of));
}

bool gen_propose(Gen *g, const OpRow *row, OpForm form, FzStep *step) {
    *step = (FzStep){.kind = FZ_op};
    snprintf(step->op, sizeof step->op, "%s", op_form_name(row, form));
    if (!arguments(g, row, step)) return false;
    enter_domain(g, row, form, step);
    return form != FORM_out || out_arguments(g, row, step);
}
