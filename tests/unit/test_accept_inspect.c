/* test_accept_inspect.c: rows of the acceptance list about what can be seen of tensors, ops and the tape, by public
 * headers alone, eagerly and in compiled functions. On a GPU: tests/cuda/test_cuda_inspect.c. */
#include <stdio.h>

#include "tests/unit/contract.h"

static sn_storage storage_of(sn_tensor *t) {
    sn_storage s = {.size = sizeof s};
    ck_assert_msg(sn_storage_of(t, &s) == SN_OK, "%s", sn_error_take()->message);
    return s;
}

/* Answers of a body as a tensor: what they are is compared with eager's by its bits. */
static sn_tensor *answers(const int64_t *at, int64_t n) { return sn_from_data(at, SN_INTS(n), SN_I64); }
#define ANSWERS(...) answers((int64_t[]){__VA_ARGS__}, SN_COUNT(int64_t, __VA_ARGS__))

static sn_status copies_handles(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_mul(x, x), *const view = sn_narrow(y, 0, 0, 2);
    const int64_t before = sn_use_count(y), of_x = sn_use_count(x);
    sn_tensor *const copy = sn_retain(y);
    const int64_t after = sn_use_count(y), same = copy == y && storage_of(y).id == storage_of(view).id;
    sn_release(copy);
    const int64_t back = sn_use_count(y), of_view = sn_use_count(view);
    return sn_out(f, 0, ANSWERS(before, after, back, same, of_x, of_view, storage_of(y).bytes));
}

START_TEST(a1_01_a_copied_handle_is_a_reference) {
    sn_tensor *const x = F32(1, 4);
    const sn_storage was = storage_of(x);
    ck_assert_int_eq(was.bytes, 16);
    ck_assert_int_eq(sn_use_count(x), 1);
    sn_tensor *const copy = sn_retain(x);
    ck_assert_int_eq(sn_use_count(x), 2);
    ck_assert(copy == x && storage_of(copy).id == was.id && storage_of(copy).bytes == was.bytes);
    ck_assert_ptr_eq(sn_data(copy, SN_F32), sn_data(x, SN_F32));
    sn_release(copy);
    ck_assert_int_eq(sn_use_count(x), 1);
    const Twin twin = twin_new(copies_handles, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        int64_t said[7];
        sn_tensor *const y = TWIN_CALL(twin, F32((uint64_t)i, 4));
        ck_assert_int_eq(sn_read(y, said, sizeof said), SN_OK);
        ck_assert_msg(said[1] == said[0] + 1 && said[2] == said[0] && said[3] == 1 && said[6] == 16, "call %d: %lld", i,
                      (long long)said[1]);
    }
    twin_free(twin);
}
END_TEST

static sn_status asks_fields(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const v = sn_transpose(sn_mul(x, x), 0, 1);
    sn_storage s = storage_of(v);
    const int64_t version = s.version;
    sn_add_(v, v);
    s = storage_of(v);
    return sn_out(f, 0,
                  ANSWERS(sn_size(v, 0), sn_strides(v).data[1], sn_storage_offset(v), sn_dtype_of(v), sn_device_of(v),
                          sn_layout_of(v), sn_requires_grad(v), sn_is_contiguous_as(v, SN_CONTIGUOUS_FORMAT),
                          s.version - version, s.resizable, s.read_only, (int64_t)strlen(sn_keys(v))));
}

START_TEST(a1_02_accessors_return_every_field) {
    sn_tensor *const x = LEAF(1, 3, 4), *const v = sn_select(sn_transpose(x, 0, 1), 0, 2);
    ck_assert(sn_rank(v) == 1 && sn_size(v, 0) == 3 && sn_numel(v) == 3 && sn_strides(v).data[0] == 4);
    ck_assert_int_eq(sn_storage_offset(v), 2);
    ck_assert(sn_dtype_of(v) == SN_F32 && sn_device_of(v) == SN_CPU && sn_layout_of(v) == SN_STRIDED);
    ck_assert_str_eq(sn_keys(v), "autograd, cpu");
    ck_assert(sn_requires_grad(v));
    sn_tensor *const images = sn_permute(F32(2, 2, 5, 6, 3), SN_INTS(0, 3, 1, 2)); /* NHWC as NCHW */
    ck_assert(!sn_is_contiguous(images) && !sn_is_contiguous_as(images, SN_CONTIGUOUS_FORMAT));
    ck_assert(sn_is_contiguous_as(images, SN_CHANNELS_LAST) && !sn_is_contiguous_as(images, SN_CHANNELS_LAST_3D));
    ck_assert(!sn_is_contiguous_as(x, SN_CHANNELS_LAST) && sn_is_contiguous_as(x, SN_CONTIGUOUS_FORMAT));
    ck_assert(!sn_is_contiguous_as(x, SN_PRESERVE_FORMAT));
    expect_error(SN_ERR_ARGUMENT, "memory format 1");
    const Twin twin = twin_new(asks_fields, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32((uint64_t)i, 3, 4));
    twin_free(twin);
}
END_TEST

static sn_status grows(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0));
    const sn_storage before = storage_of(y);
    sn_resize_(y, SN_INTS(16));
    const sn_storage after = storage_of(y);
    sn_fill_(sn_narrow(y, 0, 4, 12), sn_float(3));
    sn_out(f, 1, y);
    return sn_out(f, 0, ANSWERS(before.bytes, after.bytes, after.resizable, before.id == after.id));
}

static sn_status grows_what_is_given(sn_frame *f) { return sn_out(f, 0, sn_resize_(sn_in(f, 0), SN_INTS(16))); }

static void call_both(Twin twin, sn_tensor *x) {
    sn_tensor *out[2][2];
    ck_assert_int_eq(sn_call(twin.eager, &x, 1, out[0], 2), SN_OK);
    ck_assert_int_eq(sn_call(twin.fast, &x, 1, out[1], 2), SN_OK);
    for (int k = 0; k < 2; k++) ck_assert(same_bits(out[0][k], out[1][k]));
}

START_TEST(a1_03_only_own_storage_grows) {
    sn_tensor *const x = F32(1, 4);
    ck_assert_str_eq(storage_of(x).allocator, "caching allocator");
    ck_assert(storage_of(x).resizable && storage_of(x).device == SN_CPU);
    ck_assert_ptr_eq(sn_resize_(x, SN_INTS(100)), x);
    ck_assert_int_eq(storage_of(x).bytes, 400);
    static float memory[4] = {5, 6, 7, 8};
    sn_tensor *const theirs = sn_wrap(
        SN_BLOB(.data = memory, .bytes = sizeof memory, .dtype = SN_F32, .sizes = SN_INTS(4), .read_only = false));
    ck_assert_str_eq(storage_of(theirs).allocator, "program");
    ck_assert(!storage_of(theirs).resizable && storage_of(theirs).bytes == 16);
    ck_assert_ptr_eq(sn_resize_(theirs, SN_INTS(2)), theirs); /* it fits */
    ck_assert_ptr_null(sn_resize_(theirs, SN_INTS(16)));
    expect_error(SN_ERR_UNSUPPORTED, "16 bytes that the program owns cannot be resized");
    ck_assert(sn_size(theirs, 0) == 2 && memory[3] == 8);
    const Twin twin = twin_new(grows, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) call_both(twin, F32((uint64_t)i, 4));
    twin_free(twin);
    sn_function *const fn = sn_compile(grows_what_is_given, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(fn, theirs));
        expect_error(SN_ERR_UNSUPPORTED, "16 bytes that the program owns cannot be resized");
        ck_assert_int_eq(sn_size(theirs, 0), 2);
    }
    sn_function_free(fn);
}
END_TEST

enum { MIB = 1 << 20 };
static sn_status slices(sn_frame *f) { return sn_out(f, 0, sn_slice(sn_neg(sn_in(f, 0)), 0, 7, 8, 1)); }

static int64_t bytes_in_use(void) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(SN_CPU, &memory);
    return memory.current;
}

static sn_status slices_and_asks(sn_frame *f) {
    sn_tensor *const slice = sn_slice(sn_neg(sn_in(f, 0)), 0, 7, 8, 1);
    const int64_t bytes = storage_of(slice).bytes;
    sn_out(f, 1, slice);
    return sn_out(f, 0, ANSWERS(bytes, sn_storage_offset(slice)));
}

static void clone_frees(sn_tensor *slice, int64_t behind) {
    ck_assert_int_eq(sn_numel(slice), 1);
    ck_assert_int_eq(storage_of(slice).bytes, behind);
    const int64_t held = bytes_in_use();
    sn_tensor *const copy = sn_clone(slice);
    ck_assert(same_bits(copy, slice));
    sn_release(slice);
    ck_assert_int_le(bytes_in_use(), held - behind + 4096);
    ck_assert_int_eq(storage_of(copy).bytes, 4);
}

START_TEST(a1_11_a_slice_keeps_the_whole_storage) {
    sn_tensor *const x = F32(1, MIB / 4);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const slice = sn_keep(sn_slice(sn_neg(x), 0, 7, 8, 1));
    sn_scope_end(scope);
    clone_frees(slice, MIB);
    sn_function *const fn = sn_compile(slices, NULL, NULL); /* whose code makes what the result shows */
    for (int i = 0; i < 4; i++) clone_frees(sn_keep(SN_CALL(fn, x)), i ? 4 : MIB);
    sn_function_free(fn);
    const Twin twin = twin_new(slices_and_asks, NULL, NULL, NULL); /* a body sees what eager has */
    for (int i = 0; i < 4; i++) call_both(twin, x);
    twin_free(twin);
}
END_TEST

START_TEST(a1_01_a_report_says_who_keeps_a_storage) {
    sn_tensor *const x = sn_keep(LEAF(1, 2, 3)); /* no scope's */
    sn_keepers n = {.size = sizeof n};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const y = sn_exp(sn_mul(x, x)), *const view = sn_select(sn_detach(y), 0, 1);
    const char *const text = sn_tensor_report(x, sn_op_find("aten::mul.Tensor"), &n);
    ck_assert_msg(strstr(text, "f32[2,3]") && strstr(text, "storage: 24 bytes, version 0, resizable\n"), "%s", text);
    ck_assert_msg(strstr(text, "a leaf that requires gradients") && strstr(text, "MulBackward has saved it as self") &&
                      strstr(text, "MulBackward adds to its .grad"),
                  "%s", text);
    ck_assert_msg(strstr(text, "aten::mul.Tensor: autograd (fallback), then cpu (fallback)\n"), "%s", text);
    ck_assert(n.by_scopes == 0 && n.by_tape == 4 && n.by_others == 1 && n.references == 5); /* 2 edges, 2 saved */
    ck_assert(n.tensors == 1 && n.scope_handles == 0 && n.saved_values == 1 && n.other_tensors == 0);
    ck_assert_int_eq(n.references, sn_use_count(x));
    sn_tensor *const kept = sn_retain(sn_narrow(sn_detach(y), 0, 0, 1));
    ck_assert_ptr_nonnull(strstr(sn_tensor_report(y, NULL, &n), "ExpBackward has saved it as result"));
    /* y, two of detach, a select, a narrow; what the node has */
    ck_assert(n.scope_handles == 5 && n.saved_values == 1 && n.tensors == 6 && n.other_tensors == 0);
    ck_assert(n.by_scopes == 1 && n.references == 1);
    sn_tensor_report(view, sn_op_find("aten::linear"), &n);
    ck_assert_int_eq(n.tensors, 6);
    sn_scope_end(scope);
    sn_tensor_report(kept, NULL, &n);                  /* out of reach: it is nobody's but the program's */
    ck_assert(n.tensors == 2 && n.other_tensors == 2); /* and what it is a view of, which it keeps */
    ck_assert(n.references == 1 && n.by_others == 1);
    sn_release(kept);
    sn_tensor_report(x, NULL, &n);
    ck_assert(n.references == 1 && n.by_others == 1 && n.by_tape == 0);
    sn_release(x);
    ck_assert_str_eq(sn_tensor_report(NULL, NULL, &n), "");
    expect_error(SN_ERR_ARGUMENT, "sn_tensor_report: the tensor is NULL");
    ck_assert_int_eq(n.references, 0);
}
END_TEST

static sn_status reports(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0)), *const view = sn_narrow(y, 0, 0, 2);
    sn_keepers n = {.size = sizeof n};
    const bool found = strstr(sn_tensor_report(view, NULL, &n), "requires no gradients") != NULL;
    return sn_out(f, 0, ANSWERS(n.references, n.by_scopes, n.by_others, n.scope_handles, found));
}

START_TEST(a1_01_a_report_inside_of_a_body) {
    const Twin twin = twin_new(reports, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32((uint64_t)i, 4));
    twin_free(twin);
}
END_TEST

/* The tape ------------------------------------------------------------------------------------ */

typedef struct Layer {
    sn_tensor *w, *b;
} Layer;

static Layer layer_new(void) { return (Layer){LEAF(1, 3, 4), LEAF(2, 3)}; }

static sn_status layer_body(sn_frame *f) {
    const Layer *const l = sn_closure(f);
    return sn_out(f, 0, sn_sum(sn_relu(sn_linear(sn_in(f, 0), l->w, l->b))));
}

static sn_grad_info info_of(sn_grad_node *n) {
    sn_grad_info info = {.size = sizeof info};
    ck_assert_int_eq(sn_grad_node_get(n, &info), SN_OK);
    return info;
}

static sn_grad_edge edge_of(sn_grad_node *n, int i) {
    sn_grad_edge edge = {.size = sizeof edge};
    ck_assert_msg(sn_grad_node_edge(n, i, &edge) == SN_OK, "%s", sn_error_take()->message);
    return edge;
}

/* The names that lead from n along first inputs that have a history, and the leaves on the way. */
static void walk(sn_grad_node *n, char *to, size_t capacity) {
    while (n) {
        const sn_grad_info info = info_of(n);
        snprintf(to + strlen(to), capacity - strlen(to), "%s ", info.name);
        sn_grad_node *next = NULL;
        for (int i = 0; i < info.edges; i++) {
            const sn_grad_edge edge = edge_of(n, i);
            if (edge.leaf) snprintf(to + strlen(to), capacity - strlen(to), "AccumulateGrad ");
            if (edge.node) ck_assert_int_lt(info_of(edge.node).sequence, info.sequence);
            if (!next) next = edge.node;
        }
        n = next;
    }
}

static const char path[] = "SumBackward ReluBackward AddmmBackward AccumulateGrad TBackward AccumulateGrad ";

START_TEST(a3_03_the_tape_is_walked_from_a_loss) {
    const Layer l = layer_new();
    sn_tensor *const x = F32(3, 2, 4);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const loss = sn_sum(sn_relu(sn_linear(x, l.w, l.b)));
    ck_assert_ptr_null(sn_grad_fn(l.w)); /* a leaf */
    ck_assert_ptr_null(sn_grad_fn(x));
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert_msg(strstr(sn_grad_text(loss), "SumBackward -> #") && strstr(sn_grad_text(loss), "AccumulateGrad, #"),
                  "%s", sn_grad_text(loss));
    sn_grad_node *const root = sn_grad_fn(loss);
    sn_scope_end(scope); /* the loss and all results are gone, the node holds what it leads to */
    char seen[256] = "";
    walk(root, seen, sizeof seen);
    ck_assert_str_eq(seen, path);
    sn_grad_node *const relu = edge_of(root, 0).node, *const addmm = edge_of(relu, 0).node;
    ck_assert_ptr_eq(edge_of(addmm, 0).leaf, l.b);
    sn_grad_saved saved = {.size = sizeof saved};
    ck_assert_int_eq(info_of(relu).saved, 1);
    ck_assert_int_eq(sn_grad_node_saved(relu, 0, &saved), SN_OK);
    ck_assert_str_eq(saved.name, "result");
    ck_assert(saved.bytes == 24 && saved.version == saved.version_now);
    ck_assert(same_bits(saved.tensor, sn_relu(sn_linear(x, sn_detach(l.w), sn_detach(l.b)))));
    sn_tensor *const held = sn_keep(saved.tensor);
    sn_add_(held, held); /* the node's memory: a backward would refuse */
    ck_assert_int_eq(sn_grad_node_saved(relu, 0, &saved), SN_OK);
    ck_assert_int_eq(saved.version_now, saved.version + 1);
    ck_assert_int_ne(sn_grad_node_saved(relu, 1, &saved), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "no saved value 1; the node has 1");
    ck_assert_int_ne(sn_grad_node_edge(relu, -1, &(sn_grad_edge){.size = sizeof(sn_grad_edge)}), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "no input -1");
    sn_grad_node_free(root); /* relu and addmm were borrowed from it */
    ck_assert_int_eq(sn_live_nodes(NULL, 0), 0);
    ck_assert_int_eq(sn_numel(held), 6);
    sn_release(held);
}
END_TEST

/* Sequence numbers aside, what compiled code recorded is seen as eager's nodes, and goes backward with their bits. */
START_TEST(a3_03_what_a_compiled_function_recorded_is_walked_too) {
    Layer l[] = {layer_new(), layer_new()};
    const Twin twin = twin_new(layer_body, &l[0], &l[1], NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = F32(3 + (uint64_t)i, 2, 4), *const loss = SN_CALL(twin.fast, x);
        sn_grad_node *const root = sn_grad_fn(loss);
        char seen[256] = "";
        walk(root, seen, sizeof seen);
        ck_assert_msg(!strcmp(seen, path), "call %d: %s", i, seen);
        ck_assert_msg(strstr(sn_grad_text(loss), "ReluBackward"), "%s", sn_grad_text(loss));
        sn_grad_node *const relu = edge_of(root, 0).node;
        sn_grad_saved saved = {.size = sizeof saved};
        ck_assert_int_eq(sn_grad_node_saved(relu, 0, &saved), SN_OK);
        ck_assert(same_bits(saved.tensor, sn_relu(sn_linear(x, sn_detach(l[0].w), sn_detach(l[0].b)))));
        ck_assert_int_eq(sn_backward(loss), SN_OK);
        ck_assert(info_of(relu).freed && info_of(relu).saved == 0);
        ck_assert_int_eq(edge_of(relu, 0).node != NULL, 1); /* it leads on */
        sn_grad_node_free(root);
        ck_assert_int_eq(sn_backward(SN_CALL(twin.eager, x)), SN_OK);
        ck_assert(same_bits(sn_grad(l[0].w), sn_grad(l[1].w)) && same_bits(sn_grad(l[0].b), sn_grad(l[1].b)));
    }
    twin_free(twin);
}
END_TEST

/* In a body: a break, and eager's answer. */
static sn_status walks(sn_frame *f) {
    const Layer *const l = sn_closure(f);
    sn_tensor *const y = sn_relu(sn_linear(sn_in(f, 0), l->w, l->b));
    sn_grad_node *const n = sn_grad_fn(y);
    const sn_grad_info info = info_of(n);
    const int64_t edges = info.edges, bytes = info.saved_bytes, letter = info.name[0];
    sn_grad_node_free(n);
    sn_out(f, 1, ANSWERS(edges, bytes, letter));
    return sn_out(f, 0, sn_sum(y));
}

START_TEST(a3_03_a_walk_inside_of_a_body_breaks) {
    Layer l[] = {layer_new(), layer_new()};
    const Twin twin = twin_new(walks, &l[0], &l[1], NULL);
    for (int i = 0; i < 4; i++) call_both(twin, F32(3 + (uint64_t)i, 2, 4));
    ck_assert_msg(strstr(sn_explain(twin.fast), "sn_grad_fn"), "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

START_TEST(a3_16_live_nodes_are_listed) {
    const Layer l = layer_new();
    ck_assert_int_eq(sn_live_nodes(NULL, 0), 0);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const loss = sn_keep(sn_sum(sn_relu(sn_linear(F32(3, 2, 4), l.w, l.b))));
    sn_scope_end(scope);
    sn_grad_info nodes[8] = {{.size = sizeof *nodes}};
    const char *const names[] = {"SumBackward", "ReluBackward", "AddmmBackward", "TBackward"};
    ck_assert_int_eq(sn_live_nodes(nodes, 8), 4); /* a forgotten loss holds them */
    int64_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(nodes[i].name, names[i]);
        bytes += nodes[i].saved_bytes;
    }
    ck_assert_int_eq(nodes[1].saved_bytes, 24);
    ck_assert_int_ge(bytes, 24 + 32);
    ck_assert_int_eq(sn_live_nodes(nodes, 1), 4);
    ck_assert_int_eq(sn_backward(loss), SN_OK);
    ck_assert_int_eq(sn_live_nodes(nodes, 8), 4);
    for (int i = 0; i < 4; i++) ck_assert(nodes[i].saved_bytes == 0);
    ck_assert(nodes[1].freed);
    sn_release(loss);
    ck_assert_int_eq(sn_live_nodes(nodes, 8), 0);
    Layer own = layer_new();
    sn_function *const fn = sn_compile(layer_body, &own, NULL);
    sn_tensor *y = NULL;
    for (int i = 0; i < 3; i++) {
        sn_release(y);
        y = sn_keep(SN_CALL(fn, F32(3, 2, 4)));
    }
    ck_assert_int_eq(sn_live_nodes(nodes, 8), 1); /* what a compiled function recorded is one */
    ck_assert_int_gt(nodes[0].saved_bytes, 0);
    sn_release(y);
    ck_assert_int_eq(sn_live_nodes(nodes, 8), 0);
    ck_assert_int_eq(sn_live_nodes(nodes, -1), 0);
    expect_error(SN_ERR_ARGUMENT, "room for -1 nodes");
    sn_function_free(fn);
}
END_TEST

/* The part of a report that names places: from there on. */
static const char *places_of(sn_tensor *t) {
    const char *const report = sn_tensor_report(t, NULL, NULL), *const from = strstr(report, "oldest first:");
    ck_assert_msg(from != NULL, "%s", report);
    return from;
}

static int lines_with(const char *text, const char *word) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
    return n;
}

START_TEST(a1_11_tracked_tensors_have_names_and_places) {
    keep_no_handles();
    ck_assert(!strstr(sn_tensor_report(F32(1, 2), NULL, NULL), "oldest first"));
    ck_assert_int_eq(sn_setting_set("track_tensors", "1"), SN_OK);
    sn_dict *const d = sn_dict_new();
    sn_tensor *const w = sn_param(d, "layer.w", F32(1, 600)), *kept = NULL;
    const sn_scope scope = sn_scope_begin();
    kept = sn_keep(sn_slice(w, 0, 0, 8, 2));
    sn_tensor *const y = sn_exp(sn_slice(w, 0, 3, 9, 1));
    const char *text = places_of(w);
    ck_assert_int_eq(lines_with(text, "  of an open scope: f32[6]"), 1);
    ck_assert_msg(lines_with(text, "'layer.w' of a dictionary\n") == 1, "%s", text);
    ck_assert_int_eq(lines_with(text, "  another: f32[4]"), 1);
    ck_assert_int_eq(lines_with(text, ", kept at "), 1);
    ck_assert_int_eq(lines_with(text, ", itself"), 1);
    sn_scope_end(scope);
    text = places_of(w);
    ck_assert_msg(lines_with(text, "f32[6]") == 0 && lines_with(text, "f32[4]") == 1, "%s", text);
    sn_release(kept);
    ck_assert_int_eq(lines_with(places_of(w), "f32[4]"), 0);
    sn_dict *const other = sn_dict_new();
    sn_dict_set(other, "again", w);
    ck_assert_int_eq(lines_with(places_of(w), "'again' of a dictionary\n"), 1);
    sn_keep(w);
    sn_dict_free(other);
    ck_assert_int_eq(lines_with(places_of(w), "'layer.w' of a dictionary\n"), 1); /* the other one still has it */
    sn_dict_free(d);
    ck_assert_int_eq(lines_with(places_of(w), "of a dictionary"), 0);
    sn_release(w);
    (void)y;
    ck_assert_int_eq(sn_setting_set("track_tensors", "0"), SN_OK);
    ck_assert(!strstr(sn_tensor_report(F32(1, 2), NULL, NULL), "oldest first"));
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a1_01_a_copied_handle_is_a_reference,
        a1_01_a_report_says_who_keeps_a_storage,
        a1_01_a_report_inside_of_a_body,
        a1_02_accessors_return_every_field,
        a1_03_only_own_storage_grows,
        a1_11_a_slice_keeps_the_whole_storage,
        a1_11_tracked_tensors_have_names_and_places,
        a3_03_the_tape_is_walked_from_a_loss,
        a3_03_what_a_compiled_function_recorded_is_walked_too,
        a3_03_a_walk_inside_of_a_body_breaks,
        a3_16_live_nodes_are_listed,
    };
    return contract_main("test_accept_inspect", tests, (int)(sizeof tests / sizeof *tests));
}
