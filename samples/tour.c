/* tour: how Sinter thinks of a program, in seven sentences, each with its evidence: a part of its own in tour/.
 *
 *   tour          all of them
 *   tour views    one */
#include <stdio.h>
#include <string.h>

#include "tour/tour.h"
#include "work.h"

const char sample_arguments[] = "[tensor | views | dispatch | autograd | inference | autocast | compile]";

static const struct {
    const char *name, *sentence;
    void (*show)(void);
} parts[] = {
    {"tensor", "A tensor is storage, sizes, strides, offset, dtype and device.", tour_tensor},
    {"views", "Views share storage, and contiguous() materialises.", tour_views},
    {"dispatch", "A key set from inputs and thread modes picks the kernel, and layers redispatch below themselves.",
     tour_dispatch},
    {"autograd", "Autograd is a layer that builds a tape.", tour_autograd},
    {"inference", "Inference mode removes it.", tour_inference},
    {"autocast", "Autocast is a layer that casts.", tour_autocast},
    {"compile", "Compile is capture, joint graph and fused code, reused under guards.", tour_compile},
};
enum { PARTS = sizeof parts / sizeof *parts };

static void print_line(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    if (!strcmp(topic, "dispatch")) printf("    %s\n", line);
}

void tour_trace_begin(void) {
    sn_logging_set(print_line, NULL, "dispatch");
    sn_setting_set("dispatch_trace", "1");
}

void tour_trace_end(void) {
    sn_setting_set("dispatch_trace", "0");
    sn_logging_set(NULL, NULL, "");
}

static void print_list(const char *name, sn_ints list) {
    printf(" %s [", name);
    for (int64_t i = 0; i < list.n; i++) printf("%s%lld", i ? "," : "", (long long)list.data[i]);
    printf("]");
}

void tour_print_layout(const char *name, sn_tensor *t) {
    printf("  %s:", name);
    print_list("sizes", sn_sizes(t));
    print_list("strides", sn_strides(t));
    printf(" offset %lld\n", (long long)sn_storage_offset(t));
}

static bool wants(int argc, char **argv, int part) { return argc < 2 || !strcmp(argv[1], parts[part].name); }

/* What `sinter bench tour` times: the function of the last part. */
static sn_status normalise(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_softmax(sn_mul_scalar(x, sn_float(0.5)), -1));
}

void sample_work(SampleWork *work) {
    sn_tensor *const x = sn_randn(SN_INTS(64, 256), SN_F32);
    *work = (SampleWork){.body = normalise, .in = {x}, .n_in = 1, .n_out = 1};
}

int main(int argc, char **argv) {
    int shown = 0;
    for (int i = 0; i < PARTS; i++) {
        if (!wants(argc, argv, i)) continue;
        printf("%d. %s\n", i + 1, parts[i].sentence);
        const sn_scope scope = sn_scope_begin();
        parts[i].show();
        sn_scope_end(scope);
        shown++;
    }
    if (shown) return sn_finish();
    fprintf(stderr, "tour: no part '%s'; tour %s\n", argv[1], sample_arguments);
    return 2;
}
