/* machine_code.c: see machine_code.h. nvdisasm is a program: SINTER_NVDISASM names it, else it is looked for where the
 * toolkit is, then in PATH. It is started without a shell, on a file in a folder of its own. */
#define _GNU_SOURCE /* memmem */
#include "frontend/tool/machine_code.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/prelude.h"
#include "runtime/base/alloc.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/cuda/nvrtc.h"

enum { PATH_BYTES = 4096 };

MachineCode machine_code_stage(const char *stage) {
    return !strcmp(stage, "ptx") ? CODE_ptx : !strcmp(stage, "sass") ? CODE_sass : CODE_none;
}

/* nvdisasm ------------------------------------------------------------------------------------- */

/* In out; a bare name is left to PATH. */
static void find_disassembler(char *out, size_t capacity) {
    static const char *const folders[] = {"CUDA_HOME", "CUDA_PATH"};
    const char *const given = environment("SINTER_NVDISASM");
    if (given && *given) {
        snprintf(out, capacity, "%s", given);
        return;
    }
    for (int i = 0; i < COUNT_OF(folders); i++) {
        if (!environment_is_set(folders[i])) continue;
        snprintf(out, capacity, "%s/bin/nvdisasm", environment(folders[i]));
        if (access(out, X_OK) == 0) return;
    }
    snprintf(out, capacity, "/usr/local/cuda/bin/nvdisasm");
    if (access(out, X_OK) != 0) snprintf(out, capacity, "nvdisasm");
}

static Status start_failed(const char *program, int error) {
    return error_raise(
        ST_DEVICE,
        "SASS is printed by nvdisasm, which cannot be started ('%s': %s): install NVIDIA's CUDA toolkit, "
        "or set SINTER_NVDISASM",
        program, strerror(error));
}

static Status run_disassembler(const char *program, const char *cubin, const char *said) {
    char *const argv[] = {(char *)(uintptr_t)program, "-c", (char *)(uintptr_t)cubin, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int ended = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    const int error = posix_spawnp(&child, program, &actions, NULL, argv, environment_all());
    posix_spawn_file_actions_destroy(&actions);
    if (error) return start_failed(program, error);
    while (waitpid(child, &ended, 0) < 0)
        if (errno != EINTR) return start_failed(program, errno);
    return WIFEXITED(ended) && !WEXITSTATUS(ended) ? ST_OK : ST_DEVICE;
}

static Status disassemble_file(const char *cubin, const char *said, Text *out) {
    char program[PATH_BYTES], *words = NULL;
    size_t n = 0;
    find_disassembler(program, sizeof program);
    const Status status = run_disassembler(program, cubin, said);
    TRY(error_pending());
    TRY(file_read(said, &words, &n));
    if (status == ST_OK)
        text_put(out, words, n);
    else
        error_raise(ST_DEVICE, "'%s' refuses the code: %.400s", program, words);
    mem_free(words);
    return error_pending();
}

static Status disassemble(const CudaCode *code, Text *out) {
    char folder[PATH_BYTES - 32], cubin[PATH_BYTES], said[PATH_BYTES];
    snprintf(folder, sizeof folder, "%.4000s/sinter-XXXXXX", environment_temporary());
    if (!mkdtemp(folder)) return error_raise(ST_IO, "cannot make a folder like '%s': %s", folder, strerror(errno));
    snprintf(cubin, sizeof cubin, "%s/code.cubin", folder);
    snprintf(said, sizeof said, "%s/said", folder);
    Status status = file_write(cubin, code->bytes, code->n);
    if (status == ST_OK) status = disassemble_file(cubin, said, out);
    unlink(cubin);
    unlink(said);
    rmdir(folder);
    return status;
}

/* Programs ------------------------------------------------------------------------------------- */

/* One plan's kernels, as a device compiles them. */
static Status print_program(const char *text, size_t n, MachineCode code, int arch, Text *out) {
    CudaCode made;
    Text source = {0};
    text_puts(&source, cuda_prelude);
    text_put(&source, text, n);
    Status status = !source.at         ? ST_MEMORY
                    : code == CODE_ptx ? cuda_compile_ptx(source.at, "dump", arch, &made)
                                       : cuda_compile(source.at, "dump", arch, &made);
    text_free(&source);
    TRY(status);
    if (code == CODE_ptx)
        text_puts(out, made.bytes);
    else
        status = disassemble(&made, out);
    cuda_code_free(&made);
    return status;
}

/* The end of the text under one head line of a dump ("# graph 0"). */
static const char *end_of_program(const char *text) {
    while (*text && strncmp(text, "# ", 2)) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

Status machine_code_print(const char *cuda, MachineCode code, int arch, Text *out) {
    while (*cuda) {
        const char *const end = end_of_program(cuda);
        if (memmem(cuda, (size_t)(end - cuda), "KERNEL ", 7))
            TRY(print_program(cuda, (size_t)(end - cuda), code, arch, out));
        else
            text_put(out, cuda, (size_t)(end - cuda)); /* why there is none */
        const size_t head = strcspn(end, "\n");
        text_put(out, end, head + (end[head] == '\n'));
        cuda = end + head + (end[head] == '\n');
    }
    return error_pending();
}
