/* plugin.c: one plug-in in several versions of itself, for tests/unit/test_plugins.c; built with the headers of this
 * tree and with those of 0.1 (tests/abi/0.1), which know no SN_PLUGIN: the symbols are defined by hand. PLUGIN_NAME is
 * the namespace of its ops. */
#include <sinter/sinter.h>

#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION SN_VERSION
#endif
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

__attribute__((visibility("default"))) extern const uint32_t sn_plugin_version;
__attribute__((visibility("default"))) sn_status sn_plugin_start(void);
const uint32_t sn_plugin_version = PLUGIN_VERSION;
#ifdef SN_PLUGIN_MARK
__attribute__((visibility("default"))) extern const char sn_plugin_mark[32];
const char sn_plugin_mark[32] = SN_PLUGIN_MARK;
#endif

static sn_status swish_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }

static sn_status swish_cpu(sn_frame *f) {
    sn_tensor *const x = sn_contiguous(sn_in(f, 0)), *const y = sn_empty_like(x);
    const float *const from = sn_data(x, SN_F32), beta = (float)sn_in_float(f, 1);
    float *const to = sn_data_mut(y, SN_F32);
    for (int64_t i = 0; from && to && i < sn_numel(x); i++) to[i] = from[i] * beta;
    return sn_out(f, 0, y);
}

static sn_status swish_derivative(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_in_value(f, 1)));
}

#ifdef PLUGIN_FAILS
static sn_status pass_fails(sn_graph *g, void *closure) { return (void)g, (void)closure, SN_ERR_VALUE; }
static sn_function *makes_nothing(sn_graph *g, void *closure) { return (void)g, (void)closure, NULL; }
static void *no_memory(void *context, size_t bytes) { return (void)context, (void)bytes, NULL; }
static void no_free(void *context, void *block, size_t bytes) { (void)context, (void)block, (void)bytes; }
static sn_status no_copy(void *context, void *to, const void *from, size_t bytes, sn_copy_way way) {
    return (void)context, (void)to, (void)from, (void)bytes, (void)way, SN_ERR_IO;
}

static void register_much(void) {
    sn_pass_register(SN_PASS_JOINT, pass_fails, NULL, "of a plug-in", "1");
    sn_backend_register("of_a_plugin", "1", makes_nothing, NULL);
    sn_device_register(SN_DEVICE_DESC(.name = "failing", .allocate = no_memory, .free = no_free, .copy = no_copy));
}
#endif

#if defined PLUGIN_FAILS || defined PLUGIN_MODES
static sn_status gives_ones(sn_frame *f) { return sn_out(f, 0, sn_ones_like(sn_in(f, 0))); }

static void change_much(void) {
    sn_scope_begin(); /* left open */
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_op_override(sn_op_find("aten::sin"), SN_KEY_CPU, gives_ones, NULL);
    sn_op_override(sn_op_find("aten::sin"), SN_KEY_CPU, gives_ones, NULL);
    sn_op_override(sn_op_find("aten::cos"), SN_KEY_CPU, gives_ones, NULL);
}
#endif

#ifdef PLUGIN_MISSING
void sn_of_a_later_version(void);
#endif

#ifdef SN_PLUGIN_MARK /* results of several kinds are newer than 0.1 */
static sn_status halves_meta(sn_frame *f) {
    for (int i = 0; i < 2; i++) sn_out(f, i, sn_empty_like(sn_in(f, 0)));
    return sn_out_value(f, 2, sn_int(sn_numel(sn_in(f, 0))));
}
static sn_status halves_cpu(sn_frame *f) {
    for (int i = 0; i < 2; i++) sn_out(f, i, sn_mul_scalar(sn_in(f, 0), sn_float(0.5 + i)));
    return sn_out_value(f, 2, sn_int(sn_numel(sn_in(f, 0))));
}
#endif

sn_status sn_plugin_start(void) {
#ifdef PLUGIN_MISSING
    sn_of_a_later_version();
#endif
    sn_op_register(SN_OP_DESC(.schema = TEXT(PLUGIN_NAME) "::swish(Tensor x, float beta=1.0) -> Tensor",
                              .flags = SN_OP_PURE, .meta = swish_meta, .cpu = swish_cpu, .derivative = swish_derivative,
                              .saves = "x", .autocast = SN_CAST_F32));
#ifdef SN_PLUGIN_MARK
    sn_op_register(SN_OP_DESC(.schema = TEXT(PLUGIN_NAME) "::halves(Tensor x) -> (Tensor[], int)", .flags = SN_OP_PURE,
                              .meta = halves_meta, .cpu = halves_cpu));
#endif
#ifdef PLUGIN_TWICE
    sn_op_register(SN_OP_DESC(.schema = TEXT(PLUGIN_NAME) "::swish(Tensor x) -> Tensor", .cpu = swish_cpu));
#endif
#if defined PLUGIN_FAILS || defined PLUGIN_MODES
    change_much();
#endif
#ifdef PLUGIN_FAILS
    register_much();
    return SN_ERR_VALUE;
#endif
    return sn_check();
}
