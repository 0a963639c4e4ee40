/* nvrtc.c: see nvrtc.h. Options are tried from the newest compiler's to what every one of CUDA 12 takes: some shorten
 * compile times only, and an older compiler refuses a program for one that it does not know. */
#define _GNU_SOURCE /* dladdr */
#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/fpenv.h"
#include "runtime/base/text.h"
#include "runtime/core/settings.h"
#include "runtime/core/state.h"
#include "runtime/cuda/library.h"

#define HOW_TO_GET                                                                                                     \
    "install NVIDIA's CUDA toolkit 12.0 or newer, or PyPI's nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for a driver "   \
    "that has CUDA 12) in the active virtual environment"

/* opening ------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Nvrtc nvrtc;
static _Atomic bool is_open;
static LibraryReason reason;

static bool open_functions(void *library) {
    const struct {
        const char *name;
        void *at;
    } rows[] = {
#define NVRTC(type, name, parameters) {"nvrtc" #name, &nvrtc.name},
#include "runtime/cuda/nvrtc.def"
    };
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (!library_function(library, rows[i].name, rows[i].at))
            return library_because(&reason, "NVRTC has no %s; " HOW_TO_GET, rows[i].name);
#define NVRTC_OPTIONAL(type, name, parameters) library_function(library, "nvrtc" #name, &nvrtc.name);
#include "runtime/cuda/nvrtc.def"
    Dl_info from;
    void *address;
    memcpy(&address, &nvrtc.Version, sizeof address);
    if (dladdr(address, &from) && from.dli_fname) snprintf(nvrtc.path, sizeof nvrtc.path, "%s", from.dli_fname);
    if (nvrtc.Version(&nvrtc.major, &nvrtc.minor) == NVRTC_success && nvrtc.major >= 12) return true;
    return library_because(&reason, "NVRTC %d.%d is too old; " HOW_TO_GET, nvrtc.major, nvrtc.minor);
}

static void open_once(void) {
    static const LibrarySearch places = {.variable = "SINTER_CUDA_NVRTC",
                                         .names = {"libnvrtc.so.13", "libnvrtc.so.12"},
                                         .toolkit = true,
                                         .helper = "libnvrtc-builtins.so.1[23]*"};
    LibraryReason absent;
    void *const library = library_open(&places, &absent);
    if (library)
        is_open = open_functions(library);
    else
        library_because(&reason, "there is no NVRTC (%.200s); " HOW_TO_GET, absent.buffer);
}

const Nvrtc *nvrtc_find(const char **why) {
    pthread_once(&once, open_once);
    *why = reason.buffer;
    return is_open ? &nvrtc : NULL;
}

const Nvrtc *nvrtc_opened(void) { return is_open ? &nvrtc : NULL; }

/* compiling ----------------------------------------------------------------------------------- */

/* Of all programs. upto: the levels that have it. Level 0 is all, 1 without those of CUDA 13, 2 without those that
 * CUDA 12 got late. None but -fmad changes results; the suppressed remarks are of functions and variables that a
 * program does not use. */
static const struct {
    const char *option;
    int upto;
} option_rows[] = {{"-fmad=false", 2}, {"-default-device", 2}, {"--device-int128", 2},  {"-diag-suppress=177,550", 2},
                   {"-minimal", 1},    {"-Ofc=min", 0},        {"--split-compile=2", 0}};

void nvrtc_options_print(Text *text) {
    for (int i = 0; i < COUNT_OF(option_rows); i++) text_printf(text, "%s%s", i ? " " : "", option_rows[i].option);
}

typedef enum CudaWanted { WANTED_code, WANTED_verbose, WANTED_ptx } CudaWanted;

typedef struct OptionList {
    char arch[24];
    const char *at[COUNT_OF(option_rows) + 2];
    int n;
} OptionList;

static void fill_options(OptionList *options, int arch, int level, CudaWanted wanted) {
    options->n = 0;
    snprintf(options->arch, sizeof options->arch, "-arch=%s_%d", wanted == WANTED_ptx ? "compute" : "sm", arch);
    options->at[options->n++] = options->arch;
    for (int i = 0; i < COUNT_OF(option_rows); i++)
        if (level <= option_rows[i].upto) options->at[options->n++] = option_rows[i].option;
    if (wanted == WANTED_verbose) options->at[options->n++] = "--ptxas-options=-v";
}

static NvrtcResult compile_program(NvrtcProgram program, int arch, CudaWanted wanted) {
    OptionList options;
    NvrtcResult result = NVRTC_invalid_option;
    for (int level = 0; level < 3 && result == NVRTC_invalid_option; level++) {
        fill_options(&options, arch, level, wanted);
        result = nvrtc.CompileProgram(program, options.n, options.at);
    }
    return result;
}

/* NULL where memory is out, which is raised. */
static char *log_of(NvrtcProgram program) {
    size_t bytes = 0;
    nvrtc.GetProgramLogSize(program, &bytes);
    char *const log = mem_zero(bytes + 1);
    if (log && bytes > 1) nvrtc.GetProgramLog(program, log);
    return log;
}

/* What was refused, and behind it why, line by line as a comment. Nothing is said of a file that cannot be written: the
 * compiler's own words matter more. */
static bool keep_refused(const char *source, const char *name, const char *log, char *path, size_t buffer) {
    const char *const folder = setting_text(state_get(), SET_dump_dir);
    if (!folder[0]) return false;
    Text text = {0};
    snprintf(path, buffer, "%s/%s.cu", folder, name);
    text_printf(&text, "%s\n", source);
    for (const char *line = log; *line; line += strcspn(line, "\n") + 1) {
        text_printf(&text, "// %.*s\n", (int)strcspn(line, "\n"), line);
        if (!line[strcspn(line, "\n")]) break;
    }
    const FileSpan part = {text_str(&text), text.n};
    const bool kept = file_replace(path, &part, 1) == ST_OK;
    if (!kept) error_clear();
    text_free(&text);
    return kept;
}

/* From the first line that is an error, on one line. */
static void report_shortly(const char *log, char *line, size_t buffer) {
    const char *error = strstr(log, "error");
    while (error && error > log && error[-1] != '\n') error--;
    snprintf(line, buffer, "%s", error ? error : log);
    for (char *at = line; (at = strchr(at, '\n'));) *at = at[1] ? ';' : '\0';
}

static Status refused(const char *source, const char *name, NvrtcResult result, const char *log) {
    char path[4096], says[500];
    const bool kept = keep_refused(source, name, log, path, sizeof path);
    report_shortly(log, says, sizeof says);
    return error_raise(ST_INTERNAL, "NVRTC %d.%d refuses '%s': %s: %s%s%.300s", nvrtc.major, nvrtc.minor, name,
                       nvrtc.GetErrorString(result), says[0] ? says : "it says nothing more",
                       kept ? "; the source is " : "; SINTER_DUMP_DIR=folder keeps the source", kept ? path : "");
}

static Status acquire_code(NvrtcProgram program, const char *name, CudaWanted wanted, CudaCode *code) {
    const bool ptx = wanted == WANTED_ptx;
    NvrtcResult result = (ptx ? nvrtc.GetPTXSize : nvrtc.GetCUBINSize)(program, &code->n);
    code->bytes = result == NVRTC_success ? mem_zero(code->n + 1) : NULL;
    if (result == NVRTC_success && !code->bytes) return ST_MEMORY;
    if (result == NVRTC_success) result = (ptx ? nvrtc.GetPTX : nvrtc.GetCUBIN)(program, code->bytes);
    if (result == NVRTC_success) return ST_OK;
    return error_raise(ST_INTERNAL, "NVRTC %d.%d gives no code for '%s': %s", nvrtc.major, nvrtc.minor, name,
                       nvrtc.GetErrorString(result));
}

static Status compile_created(NvrtcProgram program, const char *source, const char *name, int arch, CudaWanted wanted,
                              CudaCode *code) {
    const NvrtcResult result = compile_program(program, arch, wanted);
    if (!(code->log = log_of(program))) return ST_MEMORY;
    return result == NVRTC_success ? acquire_code(program, name, wanted, code)
                                   : refused(source, name, result, code->log);
}

/* The compiler folds constants: under the program's own rounding it would fold others. */
static Status compile_any(const char *source, const char *name, int arch, CudaWanted wanted, CudaCode *out) {
    const char *why;
    if (!nvrtc_find(&why)) return error_raise(ST_DEVICE, "CUDA: %s", why);
    if (wanted == WANTED_ptx && !(nvrtc.GetPTXSize && nvrtc.GetPTX))
        return error_raise(ST_DEVICE, "CUDA: NVRTC %d.%d gives no PTX", nvrtc.major, nvrtc.minor);
    NvrtcProgram program;
    CudaCode code = {0};
    const uint32_t fp = fp_enter();
    const NvrtcResult result = nvrtc.CreateProgram(&program, source, name, 0, NULL, NULL);
    Status status;
    if (result == NVRTC_success) {
        status = compile_created(program, source, name, arch, wanted, &code);
        nvrtc.DestroyProgram(&program);
    } else
        status = refused(source, name, result, "");
    fp_leave(fp);
    if (status == ST_OK)
        *out = code;
    else
        cuda_code_free(&code);
    return status;
}

Status cuda_compile(const char *source, const char *name, int arch, CudaCode *out) {
    return compile_any(source, name, arch, WANTED_code, out);
}

Status cuda_compile_verbose(const char *source, const char *name, int arch, CudaCode *out) {
    return compile_any(source, name, arch, WANTED_verbose, out);
}

void cuda_code_free(CudaCode *code) {
    mem_free(code->bytes);
    mem_free(code->log);
    *code = (CudaCode){0};
}

Status cuda_compile_ptx(const char *source, const char *name, int arch, CudaCode *out) {
    return compile_any(source, name, arch, WANTED_ptx, out);
}
