/* cuda_code.h: what a CUDA device runs a step by: functions of its plan's program, nearly always one. */
#ifndef SINTER_RUNTIME_CUDA_CODE_H
#define SINTER_RUNTIME_CUDA_CODE_H
#include "codegen/cuda/cuda.h"
#include "runtime/cuda/cuda_internal.h"
#include "runtime/device/launch_bind.h"

typedef struct CudaProgram CudaProgram;

typedef struct CudaStepLaunch {
    CuFunction function;
    const CudaFunction *text;   /* its words; without its name */
    const CudaChecked *checked; /* NULL: nothing in it can fail */
} CudaStepLaunch;

typedef struct CudaStep {
    CudaProgram *program;      /* of the nests; NULL: there is none */
    CudaProgram *core_program; /* of a template that has a core for the step; else NULL */
    CuFunction core;
    bool core_visible; /* what it stores others see */
    bool core_narrow;  /* the tile is of the operands' dtype */
    int n;
    CudaStepLaunch launches[]; /* of the nests */
} CudaStep;

typedef struct CudaCodeCounts {       /* of the process */
    int64_t compiled, loaded, reused; /* programs, ever: by NVRTC, of the disk, already there */
    int programs;                     /* loaded now */
} CudaCodeCounts;
CudaCodeCounts cuda_code_counts(void);

/* A program of this text after the prelude, compiled if there is none; held until it is given back. Entered. */
Status cuda_program(CudaDevice *device, const char *name, const Text *source, CudaProgram **out);
void cuda_program_release(CudaProgram *program);
Status cuda_program_function(CudaDevice *device, const CudaProgram *program, const char *name, CuFunction *out);

/* cuda_launch.c */
/* The nests of a step. */
Status cuda_launch_nests(CudaDevice *device, const Kernel *kernel, const CudaStep *code, const Bound *bound);

/* cuda_template.c. A template's row, cuda_template_<name>: its core for a step, held by the caller (NULL: it keeps
 * its cores itself); a step's launch; the device row's remark on one (NULL: never any). */
typedef struct CudaTemplate {
    Status (*core)(CudaDevice *device, const Kernel *kernel, CudaProgram **program, CuFunction *function);
    Status (*run)(CudaDevice *device, const Kernel *kernel, const CudaStep *code, Bound *bound);
    bool (*remark)(const Kernel *kernel, Text *text);
} CudaTemplate;
const CudaTemplate *cuda_template_of(const Kernel *kernel);

#endif
