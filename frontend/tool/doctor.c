/* doctor.c: `sinter doctor`: what this build and machine offer, one fact a line ("name: value") or
 * as JSON. It opens the LLVM module as the runtime would, so a broken installation shows here. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "frontend/tool/tool.h"
#include "ir/op.h"
#include "kernels/kernels.h"
#include "passes/passes.h"
#include "runtime/base/error.h"
#include <sinter/base.h>

typedef struct Report {
    Text text;
    bool json;
    int n;
} Report;

static void fact(Report *report, const char *name, const char *value) {
    if (!report->json) {
        text_printf(&report->text, "%s: %s\n", name, value);
        return;
    }
    text_puts(&report->text, report->n++ ? ", " : "{");
    text_json_string(&report->text, name);
    text_puts(&report->text, ": ");
    text_json_string(&report->text, value);
}

static void fact_int(Report *report, const char *name, int64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    fact(report, name, digits);
}

/* The module by the loader's search path, else in lib/ beside the program's folder. */
static void *open_llvm(void) {
    void *const handle = dlopen("libsinter-llvm.so", RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    if (n <= 0) return NULL;
    path[n] = '\0';
    char *const slash = strrchr(path, '/');
    if (!slash) return NULL;
    strcpy(slash, "/../lib/libsinter-llvm.so");
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void llvm_facts(Report *report) {
    void *const handle = open_llvm();
    if (!handle) {
        fact(report, "llvm", "absent: compiled functions run on the interpreter");
        return;
    }
    const LlvmModuleTable *const table = dlsym(handle, LLVM_MODULE_SYMBOL);
    if (!table)
        fact(report, "llvm", "broken: the module exports no table");
    else if (table->version != LLVM_MODULE_VERSION)
        fact(report, "llvm", "broken: another version of the module");
    else
        fact(report, "llvm", table->llvm_version());
    dlclose(handle);
}

int command_doctor(const Command *self, int argc, char **argv) {
    Report report = {0};
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json")) return usage_error(self, "unexpected argument", argv[i]);
        report.json = true;
    }
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", SN_VERSION >> 16, SN_VERSION >> 8 & 255,
             SN_VERSION & 255);
    fact(&report, "version", version);
    fact(&report, "isa of the machine", isa_name(isa_host()));
    fact(&report, "isa in use", isa_name(isa_used()));
    fact_int(&report, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    fact_int(&report, "page bytes", sysconf(_SC_PAGESIZE));
    fact_int(&report, "ops", OP_COUNT);
    llvm_facts(&report);
    if (report.json) text_puts(&report.text, "}\n");
    fputs(text_str(&report.text), stdout);
    text_free(&report.text);
    return EXIT_done;
}
