/* test_params.c: builders of parameters (sinter/nn.h): names, sizes and first values of PyTorch's modules, and
 * self-attention beside its parts, eagerly and compiled. */
#include "tests/unit/contract.h"

static void all_are(sn_tensor *t, float value) {
    float data[64];
    ck_assert_int_le(sn_numel(t), 64);
    ck_assert_int_eq(sn_read(t, data, (size_t)sn_numel(t) * sizeof *data), SN_OK);
    for (int64_t i = 0; i < sn_numel(t); i++) ck_assert_float_eq(data[i], value);
}

/* Within +-bound and not all near 0. */
static void uniform_within(sn_tensor *t, double bound) {
    const double most = sn_item(sn_max(sn_abs(t)));
    ck_assert(most <= bound && most > 0.9 * bound);
}

START_TEST(an_embedding_is_normal) {
    sn_dict *const d = sn_dict_new();
    sn_seed(3);
    sn_tensor *const w = sn_param_embedding(d, "tokens", 1000, 64);
    ck_assert(w && sn_requires_grad(w));
    ck_assert_str_eq(sn_dict_name(d, 0), "tokens.weight");
    ck_assert_int_eq(sn_size(w, 0), 1000);
    ck_assert(fabs(sn_item(sn_mean(w))) < 0.02 && fabs(sn_item(sn_mean(sn_mul(w, w))) - 1) < 0.03);
    sn_dict_free(d);
}
END_TEST

START_TEST(a_layer_norm_begins_as_the_identity_of_its_rows) {
    sn_dict *const d = sn_dict_new();
    sn_tensor *w, *b;
    ck_assert_int_eq(sn_param_layer_norm(d, "norm", 8, &w, &b), SN_OK);
    ck_assert_str_eq(sn_dict_name(d, 1), "norm.bias");
    all_are(w, 1), all_are(b, 0);
    ck_assert(sn_requires_grad(w) && sn_requires_grad(b));
    ck_assert_int_eq(sn_param_layer_norm(d, "other", 8, &w, NULL), SN_OK);
    ck_assert_int_eq(sn_dict_count(d), 3);
    sn_dict_free(d);
}
END_TEST

START_TEST(attention_has_the_names_and_values_of_pytorchs_module) {
    sn_dict *const d = sn_dict_new();
    sn_attention a;
    sn_seed(5);
    ck_assert_int_eq(sn_param_attention(d, "attn", 16, 4, true, &a), SN_OK);
    const char *const names[] = {"attn.in_proj_weight", "attn.in_proj_bias", "attn.out_proj.weight",
                                 "attn.out_proj.bias"};
    for (int i = 0; i < 4; i++) ck_assert_str_eq(sn_dict_name(d, i), names[i]);
    ck_assert(a.heads == 4 && a.in_weight == sn_dict_at(d, 0) && a.out_bias == sn_dict_at(d, 3));
    ck_assert_int_eq(sn_size(a.in_weight, 0), 48);
    uniform_within(a.in_weight, sqrt(6.0 / 64)), uniform_within(a.out_weight, 0.25);
    all_are(a.in_bias, 0), all_are(a.out_bias, 0);
    sn_dict_free(d);
}
END_TEST

static sn_status attend_body(sn_frame *f) { return sn_out(f, 0, sn_self_attention(sn_closure(f), sn_in(f, 0), true)); }

/* One head at a time, row by row of the same formula. */
static sn_tensor *head_by_head(const sn_attention *a, sn_tensor *x, int64_t width) {
    sn_tensor *const all = sn_linear(x, a->in_weight, a->in_bias);
    const int64_t head = width / a->heads;
    sn_tensor *seen[8];
    for (int64_t h = 0; h < a->heads; h++)
        seen[h] = sn_scaled_dot_product_attention_ex(
            sn_narrow(all, 2, h * head, head), sn_narrow(all, 2, width + h * head, head),
            sn_narrow(all, 2, 2 * width + h * head, head), NULL, 0, true, sn_none(), false);
    return sn_linear(sn_cat((sn_tensors){seen, a->heads}, 2), a->out_weight, a->out_bias);
}

START_TEST(self_attention_is_its_parts_in_one_graph) {
    sn_dict *const d = sn_dict_new();
    sn_attention a;
    sn_seed(5);
    ck_assert_int_eq(sn_param_attention(d, "attn", 16, 4, true, &a), SN_OK);
    sn_tensor *const x = F32(1, 3, 7, 16);
    const Twin twin = twin_new(attend_body, &a, &a, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const y = TWIN_CALL(twin, x);
        ck_assert(y && same_bits(y, head_by_head(&a, x, 16)));
    }
    ck_assert(stats_of(twin.fast).graphs == 1 && stats_of(twin.fast).breaks == 0);
    twin_free(twin);
    sn_dict_free(d);
}
END_TEST

START_TEST(bad_arguments_are_named) {
    sn_dict *const d = sn_dict_new();
    sn_attention a = {.size = sizeof a};
    ck_assert_ptr_null(sn_param_embedding(d, "e", 0, 4));
    expect_error(SN_ERR_ARGUMENT, "sn_param_embedding: 'e' has a size of 0");
    ck_assert_ptr_null(sn_param_embedding(NULL, "e", 2, 4));
    expect_error(SN_ERR_ARGUMENT, "sn_param_embedding: the dictionary is NULL");
    ck_assert_int_ne(sn_param_attention(d, "a", 10, 4, true, &a), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "a width of 10 is no multiple of 4 heads");
    ck_assert_int_eq(sn_param_attention(d, "a", 16, 4, false, &a), SN_OK);
    ck_assert_ptr_null(a.in_bias);
    ck_assert_ptr_null(sn_self_attention(&a, F32(1, 7, 16), true));
    expect_error(SN_ERR_SHAPE, "x has 2 dims");
    ck_assert_ptr_null(sn_self_attention(&a, F32(1, 2, 7, 15), true));
    expect_error(SN_ERR_SHAPE, "a width of 15 is no multiple of 4 heads");
    ck_assert_ptr_null(sn_self_attention(NULL, F32(1, 2, 7, 16), true));
    expect_error(SN_ERR_ARGUMENT, "the attention is NULL");
    sn_dict_free(d);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {an_embedding_is_normal, a_layer_norm_begins_as_the_identity_of_its_rows,
                                  attention_has_the_names_and_values_of_pytorchs_module,
                                  self_attention_is_its_parts_in_one_graph, bad_arguments_are_named};
    return contract_main("params", tests, sizeof tests / sizeof *tests);
}
