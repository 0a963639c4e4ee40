/* cpu_code.h: what the CPU runs a kernel by: a function or a loop program for each of its nests. */
#ifndef SINTER_RUNTIME_CPU_CODE_H
#define SINTER_RUNTIME_CPU_CODE_H
#include "codegen/codegen.h"
#include "runtime/device/device.h"

/* A nest's code: generated, or else a program for the interpreter. */
typedef struct NestCode {
    NestFn *native; /* NULL: interpret */
    const BlockProgram *program;
} NestCode;

typedef struct CpuStep {
    void (*give)(NestFn *fn); /* takes native functions back */
    int n_nests;
    NestCode nests[];
} CpuStep;

Status cpu_make_code(const DeviceRow *row, Executable *e, const NativeCode *native, void *context);
void cpu_drop_code(void *step);
size_t cpu_code_bytes(const void *step);

#endif
