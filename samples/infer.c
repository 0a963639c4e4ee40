/* infer: runs what digits has saved (digits --save FILE; infer FILE) on the test images: a program that has neither the
 * model's body nor its parameters, and needs no LLVM (SINTER_LLVM_MODULE=/ takes it away): the digest of the logits is
 * the one that digits printed. Also with --json. */
#include <sinter/sinter.h>

#include <stdio.h>
#include <string.h>

#include "sample.h"
#include "work.h"

const char sample_arguments[] = "FILE [--json]";

enum { CLASSES = 10, MAX_IMAGES = 1000 };

/* Pixels of 0..16 as floats of 0..1, labels as i64, of the innermost scope. */
static sn_tensor *load(sn_tensor **labels) {
    char path[1024];
    snprintf(path, sizeof path, "%s/digits/digits.safetensors", sample_data_dir());
    sn_dict *file = sn_dict_load(path);
    *labels = sn_to(sn_dict_get(file, "test.y"), SN_I64);
    sn_tensor *x = sn_mul_scalar(sn_to(sn_dict_get(file, "test.x"), SN_F32), sn_float(1.0 / 16));
    sn_dict_free(file);
    return x;
}

/* Two images at a time give the bits of all at once. */
static bool rows_agree(sn_function *plan, sn_tensor *x, const float *all) {
    float row[CLASSES];
    for (int64_t i = 0; i < 20 && !sn_check(); i++) {
        sn_tensor *y = SN_CALL(plan, sn_narrow(x, 0, 2 * i, 2));
        if (sn_read(sn_select(y, 0, 0), row, sizeof row) != SN_OK) return false;
        if (memcmp(row, all + 2 * i * CLASSES, sizeof row)) return false;
    }
    return !sn_check();
}

int main(int argc, char **argv) {
    const bool json = argc == 3 && !strcmp(argv[2], "--json");
    if (argc < 2 || (argc > 2 && !json)) {
        fprintf(stderr, "infer: arguments: %s\n", sample_arguments);
        return 2;
    }
    static float logits[MAX_IMAGES * CLASSES];
    sn_scope scope = sn_no_grad_begin(); /* as the plan was saved */
    sn_function *plan = sn_plan_load(argv[1], NULL);
    sn_tensor *labels, *x = load(&labels), *y = SN_CALL(plan, x);
    const size_t bytes = (size_t)sn_numel(y) * sizeof *logits;
    sn_call_report report = {.size = sizeof report};
    sn_last_call(&report);
    sn_tensor *right = sn_sum(sn_eq(sn_argmax(y, -1, false), labels));
    const double accuracy = sn_item(right) / (double)sn_numel(labels);
    if (sn_check() == SN_OK && bytes <= sizeof logits && sn_read(y, logits, bytes) == SN_OK) {
        const char *by = report.path == SN_PATH_COMPILED ? "compiled" : "interpreted";
        const bool agree = rows_agree(plan, x, logits);
        printf(json ? "{\"logits\": \"%016llx\", \"accuracy\": %.4f, \"path\": \"%s\", \"rows_agree\": %d}\n"
                    : "digest of the logits %016llx, accuracy %.4f, %s, rows agree: %d\n",
               (unsigned long long)sample_digest(logits, bytes), accuracy, by, agree);
    }
    sn_function_free(plan);
    sn_scope_end(scope);
    return sn_finish();
}
