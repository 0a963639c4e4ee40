/* doctor.c: `sinter doctor`: what this build and machine offer, one fact a line ("name: value") or as JSON. It opens
 * the LLVM module, the CUDA driver, NVRTC and cuBLASLt as the runtime would, so a broken installation shows here. */
#include <stdio.h>
#include <unistd.h>

#include "frontend/tool/arguments.h"
#include "ir/op.h"
#include "kernels/kernels.h"
#include "passes/passes.h"
#include "runtime/base/error.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/cuda/blaslt.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"
#include <sinter/base.h>

typedef struct DoctorReport {
    Text text;
    bool json;
    int n;
} DoctorReport;

static void begin_fact(DoctorReport *report, const char *name) {
    if (!report->json) {
        text_printf(&report->text, "%s: ", name);
        return;
    }
    text_puts(&report->text, report->n++ ? ", " : "{");
    text_json_string(&report->text, name);
    text_puts(&report->text, ": ");
}

static void end_fact(DoctorReport *report) {
    if (!report->json) text_puts(&report->text, "\n");
}

static void fact(DoctorReport *report, const char *name, const char *value) {
    begin_fact(report, name);
    if (report->json)
        text_json_string(&report->text, value);
    else
        text_puts(&report->text, value);
    end_fact(report);
}

static void fact_int(DoctorReport *report, const char *name, int64_t value) {
    begin_fact(report, name);
    text_printf(&report->text, "%lld", (long long)value);
    end_fact(report);
}

static void llvm_facts(DoctorReport *report) {
    const LlvmModuleTable *const llvm = llvm_module();
    fact(report, "llvm", llvm ? llvm->llvm_version() : "absent: functions run on the interpreter");
    if (!llvm) fact(report, "llvm is absent because", llvm_module_reason());
}

static void gpu_fact(DoctorReport *report, int ordinal) {
    CudaFacts facts;
    char name[32], value[256];
    if (cuda_facts(ordinal, &facts) != ST_OK) return;
    snprintf(name, sizeof name, "cuda:%d", ordinal);
    snprintf(value, sizeof value, "%s, sm_%d, %d multiprocessors, %.1f GiB", facts.name, facts.capability,
             facts.multiprocessors, (double)facts.bytes / (1 << 30));
    fact(report, name, value);
}

/* What is missing, and where to get it, is the reason. */
static void cuda_facts_all(DoctorReport *report) {
    const char *why;
    const Driver *const driver = driver_find(&why);
    if (!driver) {
        fact(report, "cuda driver", "absent: there are no CUDA devices");
        fact(report, "cuda driver is absent because", why);
        return;
    }
    char version[32];
    snprintf(version, sizeof version, "CUDA %d.%d", driver->version / 1000, driver->version % 1000 / 10);
    fact(report, "cuda driver", version);
    fact_int(report, "cuda devices", driver->devices);
    for (int i = 0; i < driver->devices && i < CUDA_MOST_DEVICES; i++) gpu_fact(report, i);
}

static void nvrtc_facts(DoctorReport *report) {
    const char *why;
    const Nvrtc *const nvrtc = nvrtc_find(&why);
    if (!nvrtc) {
        fact(report, "nvrtc", "absent: no code is made for CUDA devices");
        fact(report, "nvrtc is absent because", why);
        return;
    }
    char value[600];
    snprintf(value, sizeof value, "%d.%d, %s", nvrtc->major, nvrtc->minor, nvrtc->path);
    fact(report, "nvrtc", value);
}

static void blaslt_facts(DoctorReport *report) {
    const char *why;
    const Blaslt *const lt = blaslt_find(&why);
    if (!lt) {
        fact(report, "cublaslt", "absent: products of f16 and bf16 on CUDA devices use no tensor cores");
        fact(report, "cublaslt is absent because", why);
        return;
    }
    char value[600];
    snprintf(value, sizeof value, "%d.%d.%d, %s", lt->version / 10000, lt->version / 100 % 100, lt->version % 100,
             lt->path);
    fact(report, "cublaslt", value);
}

int command_doctor(const Command *self, int argc, char **argv) {
    DoctorReport report = {0};
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!argument_flag(&a, "json", &report.json)) arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", SN_VERSION >> 16, SN_VERSION >> 8 & 255, SN_VERSION & 255);
    fact(&report, "version", version);
    fact(&report, "isa of the machine", isa_name(isa_host()));
    fact(&report, "isa in use", isa_name(isa_used()));
    fact_int(&report, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    fact_int(&report, "page bytes", sysconf(_SC_PAGESIZE));
    fact_int(&report, "ops", op_row_count());
    llvm_facts(&report);
    cuda_facts_all(&report);
    nvrtc_facts(&report);
    blaslt_facts(&report);
    if (report.json) text_puts(&report.text, "}\n");
    fputs(text_str(&report.text), stdout);
    text_free(&report.text);
    return EXIT_done;
}
