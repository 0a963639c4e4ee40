/* cuda_user.c: see cuda_user.h. A kernel is compiled and loaded once for a device; a launch is checked by what its text
 * declares (cuda_signature.h), so that a wrong argument is an error here and no illegal address there.
 *
 * What others see is never written after a check has failed [semantics C8]: kernels of our own test the stream's word,
 * a program's know nothing of it. So a body that may write such memory begins only when all checks have passed. */
#include "runtime/cuda/cuda_user.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/cuda/cuda_signature.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/device/watch.h"

typedef struct UserCode { /* of one device */
    CuLibrary library;    /* NULL: not made */
    CuFunction function;
} UserCode;

struct sn_kernel {
    char *source, *name;
    CudaSignature signature;
    pthread_mutex_t making;
    UserCode code[CUDA_MOST_DEVICES];
};

/* code ------------------------------------------------------------------------------------------ */

static Status find_function(CudaDevice *device, const sn_kernel *kernel, UserCode *code) {
    CuKernel found;
    const CuResult result = device->driver->LibraryGetKernel(&found, code->library, kernel->name);
    if (result == CU_not_found)
        return error_raise(ST_ARGUMENT, "sn_cuda_kernel: the program's '%s' is no extern \"C\" __global__ function",
                           kernel->name);
    TRY(cuda_answer(device, "finding a kernel", result));
    return cuda_answer(device, "finding a kernel", device->driver->KernelGetFunction(&code->function, found));
}

static Status make_code(CudaDevice *device, const sn_kernel *kernel, UserCode *out) {
    CudaCode code;
    UserCode made = {0};
    TRY(cuda_compile(kernel->source, kernel->name, device->arch, &code));
    const CuResult result = device->driver->LibraryLoadData(&made.library, code.bytes, NULL, NULL, 0, NULL, NULL, 0);
    cuda_code_free(&code);
    TRY(cuda_answer(device, "loading a program", result));
    const Status status = find_function(device, kernel, &made);
    if (status == ST_OK)
        *out = made;
    else
        device->driver->LibraryUnload(made.library);
    return status;
}

/* Entered. */
static Status code_for(CudaDevice *device, sn_kernel *kernel, CuFunction *out) {
    UserCode *const code = &kernel->code[device->row.memory.device - DEV_cuda];
    pthread_mutex_lock(&kernel->making);
    const Status status = code->library ? ST_OK : make_code(device, kernel, code);
    *out = code->function;
    pthread_mutex_unlock(&kernel->making);
    return status;
}

static Status compile_first(sn_kernel *kernel) {
    CudaDevice *const device = cuda_device_of(device_row(DEV_cuda));
    CuFunction unused;
    TRY(cuda_enter(device));
    const Status status = code_for(device, kernel, &unused);
    cuda_leave(device);
    return status;
}

Status cuda_user_kernel(const char *source, const char *name, sn_kernel **out) {
    sn_kernel *const kernel = mem_zero(sizeof *kernel);
    if (!kernel) return ST_MEMORY;
    pthread_mutex_init(&kernel->making, NULL);
    kernel->source = mem_strdup(source), kernel->name = mem_strdup(name);
    Status status = kernel->source && kernel->name ? ST_OK : ST_MEMORY;
    if (status == ST_OK) status = cuda_signature(source, name, &kernel->signature);
    if (status == ST_OK) status = compile_first(kernel);
    if (status == ST_OK)
        *out = kernel;
    else
        cuda_user_kernel_free(kernel);
    return status;
}

/* A device that is lost has unloaded its code. */
static void unload(CudaDevice *device, const UserCode *code) {
    if (!code->library || device->lost || device->driver->CtxPushCurrent(device->context) != CU_success) return;
    if (device->driver->CtxSynchronize() == CU_success) device->driver->LibraryUnload(code->library);
    cuda_leave(device);
}

void cuda_user_kernel_free(sn_kernel *kernel) {
    for (int i = 0; i < CUDA_MOST_DEVICES; i++)
        if (kernel->code[i].library) unload(cuda_device_of(device_row(DEV_cuda + i)), &kernel->code[i]);
    pthread_mutex_destroy(&kernel->making);
    mem_free(kernel->source);
    mem_free(kernel->name);
    mem_free(kernel);
}

/* bodies ---------------------------------------------------------------------------------------- */

Status cuda_body_begin(const Memory *memory, bool writes) {
    CudaDevice *const device = cuda_device_of_memory(memory);
    TRY(cuda_enter(device));
    const Status status = writes ? cuda_checks_read(cuda_stream(device)) : ST_OK;
    if (status != ST_OK) cuda_leave(device);
    return status;
}

void cuda_body_end(const Memory *memory) { cuda_leave(cuda_device_of_memory(memory)); }

/* The one that the frame's op runs on. */
static Status device_of_frame(const sn_frame *f, const char *what, CudaDevice **out) {
    const Device device = f && f->call && f->call->key == KEY_cuda ? call_device(f->call) : DEV_cpu;
    if (!device_is_host(device)) {
        *out = cuda_device_of(device_row(device));
        return ST_OK;
    }
    return error_raise(ST_STATE, "%s: %s is no kernel of an op on a CUDA device", what, f ? f->what : "NULL");
}

Status cuda_user_stream(const sn_frame *f, void **stream) {
    CudaDevice *device = NULL;
    TRY(device_of_frame(f, "sn_cuda_stream", &device));
    *stream = cuda_stream(device)->handle;
    return ST_OK;
}

/* arguments ------------------------------------------------------------------------------------- */

typedef struct UserLaunch {
    const sn_frame *frame;
    const sn_kernel *kernel;
    CudaDevice *device;
    bool strided;
    int64_t values[CUDA_MOST_PARAMETERS]; /* addresses, ints, bits of floats */
    void *at[CUDA_MOST_PARAMETERS];
} UserLaunch;

/* "my::op: kernel 'k', parameter 'x'" */
typedef struct WhereText {
    char buffer[256];
} WhereText;
static const char *where(const UserLaunch *launch, int i, WhereText *text) {
    snprintf(text->buffer, sizeof text->buffer, "%s: kernel '%s', parameter '%s'", launch->frame->what,
             launch->kernel->name, launch->kernel->signature.at[i].name);
    return text->buffer;
}
#define WHERE(launch, i) where(launch, i, &(WhereText){{0}})

static const char *type_text(const CudaParameter *p, WhereText *text) {
    snprintf(text->buffer, sizeof text->buffer, "%s%s%s", p->pointer && !p->written ? "const " : "", p->type->words,
             p->pointer ? " *" : "");
    return text->buffer;
}
#define TYPE_TEXT(p) type_text(p, &(WhereText){{0}})

static bool points_to(const CudaType *type, DType dtype) {
    if (type->kind == CUDA_void) return true;
    return type->dtype >= 0 ? type->dtype == (int)dtype : type->bytes == dtype_bytes(dtype);
}

/* The op's argument that has this memory, or -1. */
static int argument_of(const sn_frame *f, const sn_tensor *t) {
    for (int i = 0; i < f->call->row->n_params; i++) {
        const Arg *const arg = &f->call->args[i];
        const int n = arg->kind == ARG_tensor ? 1 : arg->kind == ARG_tensors ? arg->n : 0;
        for (int k = 0; k < n; k++) {
            Val *const val = arg->kind == ARG_tensor ? arg->val : arg->vals[k];
            if (val && tensor_of(val)->storage == t->storage) return i;
        }
    }
    return -1;
}

static bool may_write(const sn_frame *f, int argument) {
    const OpCall *const call = f->call;
    return call->form == FORM_inplace ? argument == 0 : param_is_written(&call->row->params[argument]);
}

static Status check_write(const UserLaunch *launch, int i, sn_tensor *t) {
    const int argument = argument_of(launch->frame, t);
    if (argument >= 0 && !may_write(launch->frame, argument))
        return error_raise(ST_ARGUMENT,
                           "%s is a pointer that is not const, to argument '%s' of the op: what an op writes is marked "
                           "in its schema, Tensor(a!)",
                           WHERE(launch, i), launch->frame->call->row->params[argument].name);
    if (t->storage->read_only)
        return error_raise(ST_VALUE, "%s: a tensor in read-only memory would be written", WHERE(launch, i));
    tensor_written(t);
    return ST_OK;
}

static Status raise_strides(const UserLaunch *launch, int i, const Meta *meta) {
    Text text = {0};
    meta_print(NULL, &text, meta);
    const Status status =
        error_raise(ST_ARGUMENT,
                    "%s is given %s, which is not contiguous: give sn_contiguous of it, or set `strided` and tell the "
                    "kernel its strides",
                    WHERE(launch, i), text_str(&text));
    text_free(&text);
    return status;
}

static Status bind_tensor(UserLaunch *launch, int i, sn_tensor *t) {
    const CudaParameter *const p = &launch->kernel->signature.at[i];
    if (!t) return error_raise(ST_ARGUMENT, "%s is given no tensor", WHERE(launch, i));
    TRY(tensor_ready(t, "sn_cuda_launch"));
    const Meta *const meta = t->base.meta;
    if (meta->device != launch->device->row.memory.device)
        return error_raise(ST_DEVICE, "%s is given a tensor on %s, and the op runs on %s", WHERE(launch, i),
                           DEVICE_TEXT(meta->device), launch->device->name);
    if (!points_to(p->type, meta->dtype))
        return error_raise(ST_DTYPE, "%s is '%s' and is given a tensor of %s", WHERE(launch, i), TYPE_TEXT(p),
                           dtype_name(meta->dtype));
    if (!meta->contiguous && !launch->strided) return raise_strides(launch, i, meta);
    if (p->written) TRY(check_write(launch, i, t));
    launch->values[i] = (int64_t)(intptr_t)tensor_data(t);
    return ST_OK;
}

static bool holds_int(const CudaType *type, int64_t value) {
    const int bits = 8 * type->bytes;
    if (type->kind == CUDA_bool) return value == 0 || value == 1;
    if (type->kind == CUDA_unsigned) return value >= 0 && (bits == 64 || value >> bits == 0);
    return bits == 64 || (value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1));
}

static Status bind_number(UserLaunch *launch, int i, const Arg *arg) {
    const CudaParameter *const p = &launch->kernel->signature.at[i];
    if (p->type->kind == CUDA_float) {
        const double wide = arg_double(arg);
        const float narrow = (float)wide;
        memcpy(&launch->values[i], p->type->bytes == 8 ? (const void *)&wide : &narrow, (size_t)p->type->bytes);
        return ST_OK;
    }
    if (arg->kind == ARG_float)
        return error_raise(ST_ARGUMENT, "%s is '%s' and is given the float %g", WHERE(launch, i), TYPE_TEXT(p), arg->f);
    if (!holds_int(p->type, arg->i))
        return error_raise(ST_ARGUMENT, "%s is '%s', which cannot hold %lld", WHERE(launch, i), TYPE_TEXT(p),
                           (long long)arg->i);
    launch->values[i] = arg->i; /* little-endian: its first bytes are the narrower number */
    return ST_OK;
}

static Status bind_argument(UserLaunch *launch, int i, const Arg *arg) {
    const CudaParameter *const p = &launch->kernel->signature.at[i];
    const bool number = arg->kind == ARG_int || arg->kind == ARG_float || arg->kind == ARG_bool;
    launch->at[i] = &launch->values[i];
    if (p->pointer && (arg->kind == ARG_tensor || arg->kind == ARG_none))
        return bind_tensor(launch, i, arg->kind == ARG_tensor ? tensor_of(arg->val) : NULL);
    if (!p->pointer && number) return bind_number(launch, i, arg);
    return error_raise(ST_ARGUMENT, "%s is '%s' and is given no %s", WHERE(launch, i), TYPE_TEXT(p),
                       p->pointer ? "tensor" : "number");
}

/* launches -------------------------------------------------------------------------------------- */

enum { MOST_THREADS = 1024, PLAIN_SHARED = 48 << 10 /* bytes that need no leave */ };

static uint64_t times(const uint32_t *n) { return (uint64_t)n[0] * n[1] * n[2]; }

static Status check_grid(const UserLaunch *launch, const sn_cuda_grid *g) {
    const uint32_t *const b = g->blocks, *const t = g->threads;
    const bool fits = b[0] <= INT32_MAX && b[1] <= 65535 && b[2] <= 65535 && t[0] && t[0] <= 1024 && t[1] <= 1024 &&
                      t[2] <= 64 && times(t) <= MOST_THREADS;
    if (fits) return ST_OK;
    return error_raise(
        ST_ARGUMENT,
        "%s: kernel '%s': %u x %u x %u blocks of %u x %u x %u threads: a block has 1 to 1024 threads, at "
        "most 64 in z, a grid at most 2147483647 x 65535 x 65535 blocks",
        launch->frame->what, launch->kernel->name, b[0], b[1], b[2], t[0], t[1], t[2]);
}

static Status allow_shared(const UserLaunch *launch, CuFunction function, uint32_t bytes) {
    if (bytes <= PLAIN_SHARED) return ST_OK;
    const CuResult result = launch->device->driver->FuncSetAttribute(function, CU_function_dynamic_shared, (int)bytes);
    if (result != CU_invalid_value) return cuda_answer(launch->device, "shared memory of a kernel", result);
    return error_raise(ST_ARGUMENT, "%s: kernel '%s': %u bytes of shared memory: %s has fewer for a block",
                       launch->frame->what, launch->kernel->name, bytes, launch->device->name);
}

static Status launch_entered(UserLaunch *launch, sn_kernel *kernel, const sn_cuda_grid *g) {
    CuFunction function;
    CudaDevice *const device = launch->device;
    TRY(code_for(device, kernel, &function));
    TRY(allow_shared(launch, function, g->shared_bytes));
    CudaStream *const stream = cuda_stream(device);
    __attribute__((cleanup(watch_step_end))) StepWatch watched =
        watch_is_on() ? watch_step_begin(NULL, kernel->name, &device->row) : (StepWatch){0};
    TRY(cuda_answer(device, kernel->name,
                    device->driver->LaunchKernel(function, g->blocks[0], g->blocks[1], g->blocks[2], g->threads[0],
                                                 g->threads[1], g->threads[2], g->shared_bytes, stream->handle,
                                                 launch->at, NULL)));
    return cuda_launched(stream);
}

static void fill_ones(uint32_t *n) {
    for (int d = 1; d < 3; d++)
        if (!n[d]) n[d] = 1;
}

Status cuda_user_launch(const sn_frame *f, sn_kernel *kernel, const sn_cuda_grid *grid, const Arg *arguments, int n) {
    sn_cuda_grid g = *grid;
    UserLaunch launch = {.frame = f, .kernel = kernel, .strided = g.strided};
    fill_ones(g.blocks), fill_ones(g.threads);
    TRY(device_of_frame(f, "sn_cuda_launch", &launch.device));
    if (n != kernel->signature.n)
        return error_raise(ST_ARGUMENT, "%s: kernel '%s' has %d parameters and is given %d arguments", f->what,
                           kernel->name, kernel->signature.n, n);
    TRY(check_grid(&launch, &g));
    for (int i = 0; i < n; i++) TRY(bind_argument(&launch, i, &arguments[i]));
    if (!g.blocks[0]) return ST_OK;
    TRY(cuda_enter(launch.device));
    const Status status = launch_entered(&launch, kernel, &g);
    cuda_leave(launch.device);
    return status;
}
