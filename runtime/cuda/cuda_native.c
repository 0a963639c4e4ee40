/* cuda_native.c: see cuda_native.h. A program is made at a kernel's first use with a dtype, found again by its text and
 * held as long as the process lives; its functions are kept by (kernel, dtype, device). */
#include <stdio.h>

#include "kernels/cuda/prelude.h"
#include "ir/op_ids.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/cuda/cuda_code.h"
#include "runtime/cuda/cuda_native.h"
#include "runtime/device/launch_bind.h"

#define CUDA_NATIVE(op, body) OpKernel cuda_##body;
#include "runtime/cuda/cuda_native.def"

static const struct {
    const char *name, *file, *text;
} hands[HAND_COUNT] = {
#define CUDA_HAND(text, kernel) [HAND_##kernel] = {#kernel, #text, cuda_text_##text},
#include "runtime/cuda/cuda_native.def"
};

static _Atomic(CuFunction) functions[CUDA_MOST_DEVICES][HAND_COUNT][DT_COUNT];

static Status make_function(CudaDevice *device, CudaHandKernel kernel, DType dtype, CuFunction *out) {
    char name[64];
    Text source = {0};
    CudaProgram *program;
    snprintf(name, sizeof name, "%s_%s", hands[kernel].file, dtype_name(dtype));
    text_printf(&source, "#define DTYPE %s\n#define TYPE %s\n", dtype_name(dtype), stype_name(dtype_compute(dtype)));
    text_puts(&source, hands[kernel].text);
    const Status status = source.at ? cuda_program(device, name, &source, &program) : ST_MEMORY;
    text_free(&source);
    return status == ST_OK ? cuda_program_function(device, program, hands[kernel].name, out) : status;
}

static Status find_function(CudaDevice *device, CudaHandKernel kernel, DType dtype, CuFunction *out) {
    _Atomic(CuFunction) *const cached = &functions[device->row.memory.device - DEV_cuda][kernel][dtype];
    if (LIKELY((*out = atomic_load(cached)) != NULL)) return ST_OK;
    TRY(make_function(device, kernel, dtype, out));
    atomic_store(cached, *out);
    return ST_OK;
}

Status cuda_hand_launch(CudaDevice *device, const CudaHandLaunch *launch) {
    const int64_t blocks = launch->blocks ? launch->blocks : ceil_div(launch->threads, CUDA_HAND_THREADS);
    CudaStream *const stream = cuda_stream(device);
    void *values[CUDA_HAND_ARGUMENTS + 2];
    CuFunction function;
    int32_t number = 0;
    int n = launch->n;
    if (!blocks) return cuda_checked_drop(launch->checked), ST_OK;
    memcpy(values, launch->values, (size_t)n * sizeof *values);
    Status status = find_function(device, launch->kernel, launch->dtype, &function);
    if (status == ST_OK && launch->checked) {
        number = cuda_checks_add(stream, launch->checked);
        values[n++] = &number;
    }
    cuda_checked_drop(launch->checked);
    TRY(status);
    values[n] = &stream->checks.word;
    const unsigned threads = launch->blocks ? CUDA_HAND_BLOCK : CUDA_HAND_THREADS;
    return cuda_launch_function(device, &(CudaStart){function, (unsigned)blocks, threads, 0, values});
}

CudaChecked *cuda_hand_check(const OpRow *row, CudaSay *say) {
    CudaChecked *const checked = mem_zero(sizeof *checked + sizeof checked->at[0]);
    if (!checked) return NULL;
    checked->refs = 1;
    snprintf(checked->kernel, sizeof checked->kernel, "%s", row->name);
    checked->n = 1, checked->at[0].row = row, checked->say = say;
    return checked;
}

CudaDevice *cuda_hand_device(const OpCall *call) {
    return cuda_device_of(device_row(call->outs[0]->base.meta->device));
}

/* rows ------------------------------------------------------------------------------------------ */

static OpKernel *const natives[OP_IDS] = {
#define CUDA_NATIVE(op, body) [OP_##op] = cuda_##body,
#include "runtime/cuda/cuda_native.def"
};

OpKernel *cuda_native(const OpRow *row) { return !op_is_made(row) ? natives[row->id] : NULL; }
