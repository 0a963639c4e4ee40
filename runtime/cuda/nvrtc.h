/* nvrtc.h: CUDA C to code for a GPU, by NVIDIA's run-time compiler, which is opened at its first use and never linked.
 * nvrtc.def has one row per function; library.h says where it is looked for (SINTER_CUDA_NVRTC=path: that file alone).
 *
 *   CudaCode code;
 *   TRY(cuda_compile(source, "k3_add_gelu_sum", 90, &code));
 *   ... code.bytes is what cuLibraryLoadData takes ...
 *   cuda_code_free(&code);
 *
 * No header is included for a program and none is there to include: the text is whole. */
#ifndef SINTER_RUNTIME_CUDA_NVRTC_H
#define SINTER_RUNTIME_CUDA_NVRTC_H
#include "runtime/base/text.h"
#include "runtime/cuda/nvrtc_types.h"

/* NVRTC_success... */
typedef enum NvrtcResultCode {
#define NVRTC_RESULT(name, theirs, value) NVRTC_##name = value,
#include "runtime/cuda/nvrtc.def"
} NvrtcResultCode;

typedef struct Nvrtc {
#define NVRTC(type, name, parameters)          type(*name) parameters;
#define NVRTC_OPTIONAL(type, name, parameters) type(*name) parameters;
#include "runtime/cuda/nvrtc.def"
    int major, minor; /* 13, 0 */
    char path[512];   /* the file that it came from */
} Nvrtc;

/* Opens it once. NULL, and *why: what is missing and where to get it; raises nothing. */
const Nvrtc *nvrtc_find(const char **why);
const Nvrtc *nvrtc_opened(void);      /* NULL: nobody has asked for it yet, or it is not there */
void nvrtc_options_print(Text *text); /* those of every program, but its architecture's */

typedef struct CudaCode {
    char *bytes; /* a cubin */
    size_t n;
    char *log; /* warnings of the compiler; "": none */
} CudaCode;

/* `arch`: 90 for sm_90. Products and sums stay apart (-fmad=false): the bits are those of the source. From any thread.
 * ST_DEVICE where there is no NVRTC; ST_INTERNAL with the compiler's words where it refuses the program, which is then
 * kept as <name>.cu with the whole log in the folder of the setting dump_dir, if that is set. */
Status cuda_compile(const char *source, const char *name, int arch, CudaCode *out);
/* The same, and the log has what ptxas says of each kernel: registers, stack frame, spills. */
Status cuda_compile_verbose(const char *source, const char *name, int arch, CudaCode *out);
/* PTX for compute_<arch> as text in code.bytes. */
Status cuda_compile_ptx(const char *source, const char *name, int arch, CudaCode *out);
void cuda_code_free(CudaCode *code);

#endif
