/* nvrtc.c: libemulated_nvrtc: a compiler of CUDA C++ without NVIDIA's, by NVRTC's names. A program's code is an object
 * for this machine that the emulated driver loads (code.c): clang compiles words.h, the source and a line for each
 * kernel. Before that the text is changed in two ways, within its lines:
 *
 *   extern __shared__ float all[];    becomes    __launch__ float all[];
 *   __global__ void scale(...)        is found, so that EMULATED_KERNEL(scale, bound) can stand at the end; so is a
 *                                     macro of the program's that means __global__
 *
 * Objects are kept by what they were made from (EMULATED_CUDA_CACHE, else the folder CMake names), so that a program is
 * compiled once for many runs. No clang: CompileProgram fails and its log says so. */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emulator/planted.h"

#define PUBLIC __attribute__((visibility("default")))

typedef enum nvrtcResult {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_INTERNAL = 11,
} nvrtcResult;

typedef struct Bytes {
    char *at;
    size_t n;
} Bytes;

typedef struct Program {
    char *source, *name;
    Bytes code, log;
} Program;

static void set_log(Program *program, const char *text) {
    free(program->log.at);
    program->log = (Bytes){strdup(text), strlen(text)};
}

/* files ---------------------------------------------------------------------------------------- */

static Bytes read_file(const char *path) {
    Bytes out = {NULL, 0};
    FILE *const file = fopen(path, "rb");
    if (!file) return out;
    fseek(file, 0, SEEK_END);
    out.n = (size_t)ftell(file);
    rewind(file);
    out.at = calloc(1, out.n + 1);
    out.n = fread(out.at, 1, out.n, file);
    fclose(file);
    return out;
}

static bool write_file(const char *path, Bytes text) {
    FILE *const file = fopen(path, "wb");
    if (!file) return false;
    const bool all = fwrite(text.at, 1, text.n, file) == text.n;
    return !fclose(file) && all;
}

static uint64_t hash(uint64_t h, const char *at, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)at[i]) * 1099511628211u;
    return h;
}

/* the text --------------------------------------------------------------------------------------- */

typedef struct Reader {
    char *p;
    char *word; /* the identifier or number that was read, or the place of one other character */
    size_t n;
} Reader;

static char *skip_quoted(char *p) {
    const char quote = *p++;
    while (*p && *p != quote) p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}

static char *skip_blank(char *p) {
    for (;;) {
        if (p[0] == '/' && p[1] == '/')
            while (*p && *p != '\n') p++;
        else if (p[0] == '/' && p[1] == '*') {
            char *const end = strstr(p + 2, "*/");
            p = end ? end + 2 : p + strlen(p);
        } else if (isspace((unsigned char)*p))
            p++;
        else
            return p;
    }
}

static bool next_word(Reader *r) {
    r->word = r->p = skip_blank(r->p);
    if (!*r->p) return false;
    if (*r->p == '"' || *r->p == '\'')
        r->p = skip_quoted(r->p);
    else if (!isalnum((unsigned char)*r->p) && *r->p != '_')
        r->p++;
    else
        while (isalnum((unsigned char)*r->p) || *r->p == '_') r->p++;
    r->n = (size_t)(r->p - r->word);
    return true;
}

static bool is_word(const Reader *r, const char *word) { return r->n == strlen(word) && !strncmp(r->word, word, r->n); }

/* From the word before the opening one to the closing one. */
static void skip_parentheses(Reader *r) {
    for (int depth = 0; next_word(r);) {
        depth += is_word(r, "(") - is_word(r, ")");
        if (!depth) return;
    }
}

typedef struct Kernels {
    char marker[64]; /* a macro that means __global__ */
    char *lines;     /* EMULATED_KERNEL(...) for each */
    size_t n;
    FILE *out;
} Kernels;

/* #define KERNEL extern "C" __global__ void */
static void read_macro(Reader *r, Kernels *k) {
    char *const end = r->p + strcspn(r->p, "\n");
    if (!next_word(r) || !is_word(r, "define") || !next_word(r) || r->p > end || *r->p == '(') return;
    const Reader name = *r;
    while (r->p < end && next_word(r))
        if (is_word(r, "__global__")) snprintf(k->marker, sizeof k->marker, "%.*s", (int)name.n, name.word);
}

/* Behind __global__: what comes before the parameters' parenthesis is the name. */
static void read_kernel(Reader *r, Kernels *k) {
    Reader name = {0}, bound = {0};
    while (next_word(r) && !is_word(r, "(") && !is_word(r, ";")) {
        name = *r;
        if (!is_word(r, "__launch_bounds__") && !is_word(r, "__attribute__")) continue;
        if (is_word(r, "__launch_bounds__")) bound.word = skip_blank(r->p) + 1;
        skip_parentheses(r);
        if (bound.word && !bound.p) bound.p = bound.word + strcspn(bound.word, ",)");
    }
    const char *const most = bound.word ? bound.word : "0";
    fprintf(k->out, "EMULATED_KERNEL(%.*s, (int)(%.*s))\n", (int)name.n, name.word,
            bound.word ? (int)(bound.p - bound.word) : 1, most);
}

/* In as many letters. */
static void rewrite_shared(char *extern_word, char *shared_word) {
    memset(extern_word, ' ', strlen("extern"));
    memcpy(shared_word, "__launch__", strlen("__shared__"));
}

/* Changes the text in place, and lists its kernels. */
static void read_program(char *text, Kernels *k) {
    Reader r = {.p = text};
    char *extern_word = NULL;
    k->out = open_memstream(&k->lines, &k->n);
    while (next_word(&r)) {
        if (is_word(&r, "#"))
            read_macro(&r, k);
        else if (is_word(&r, "__global__") || (*k->marker && is_word(&r, k->marker)))
            read_kernel(&r, k);
        else if (is_word(&r, "__shared__") && extern_word)
            rewrite_shared(extern_word, r.word);
        if (is_word(&r, "extern"))
            extern_word = r.word;
        else if (strchr(";{\"", *r.word))
            extern_word = NULL;
    }
    fclose(k->out);
}

static Bytes whole_text(const Program *program) {
    Kernels kernels = {.marker = ""};
    Bytes out;
    char *const wrong = planted_text(program->source), *const text = wrong ? wrong : strdup(program->source);
    read_program(text, &kernels);
    FILE *const file = open_memstream(&out.at, &out.n);
    fprintf(file, "#include \"%s\"\n#line 1 \"%s\"\n%s\n%s", EMULATOR_WORDS, program->name, text, kernels.lines);
    fclose(file);
    free(text), free(kernels.lines);
    return out;
}

/* compiling -------------------------------------------------------------------------------------- */

static const char *const flags[] = {EMULATOR_CLANG,
                                    "-x",
                                    "c++",
                                    "-std=gnu++17",
                                    "-O1",
                                    "-march=native",
                                    "-mcmodel=large",
                                    "-fno-pic",
                                    "-w",
                                    "-nostdinc",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-asynchronous-unwind-tables",
                                    "-fno-stack-protector",
                                    "-fno-strict-aliasing",
                                    "-fsanitize=thread",
                                    "-mllvm",
                                    "-tsan-instrument-func-entry-exit=0",
                                    "-mllvm",
                                    "-tsan-instrument-atomics=0",
                                    "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero",
                                    "-fsanitize=float-cast-overflow,array-bounds",
                                    "-c"};
enum { FLAGS = (int)(sizeof flags / sizeof *flags) };

/* By what is compiled: the text's first line names words.h, wherever that is. */
static void object_path(char *path, size_t room, Bytes text) {
    const char *const set = getenv("EMULATED_CUDA_CACHE"), *const folder = set && *set ? set : EMULATOR_CACHE;
    const Bytes words = read_file(EMULATOR_WORDS);
    const size_t first = strcspn(text.at, "\n");
    uint64_t h = hash(14695981039346656037u, text.at + first, text.n - first);
    h = hash(h, words.at ? words.at : "", words.n);
    for (int i = 0; i < FLAGS; i++) h = hash(h, flags[i], strlen(flags[i]) + 1);
    free(words.at);
    mkdir(folder, 0777);
    snprintf(path, room, "%s/%016llx.o", folder, (unsigned long long)h);
}

static bool run_clang(const char *source, const char *object, const char *log) {
    extern char **environ;
    const char *words[FLAGS + 4];
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 1;
    memcpy(words, flags, sizeof flags);
    words[FLAGS] = source, words[FLAGS + 1] = "-o", words[FLAGS + 2] = object, words[FLAGS + 3] = NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (!posix_spawnp(&child, words[0], &actions, NULL, (char **)(uintptr_t)words, environ)) waitpid(child, &status, 0);
    posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

/* Under names of its own until it is whole: other processes compile the same. */
static bool compile(Program *program, Bytes text, const char *path) {
    static _Atomic int serial;
    char source[600], object[600], log[600];
    const int mine = serial++, process = (int)getpid();
    snprintf(source, sizeof source, "%s.%d.%d.cpp", path, process, mine);
    snprintf(object, sizeof object, "%s.%d.%d.new", path, process, mine);
    snprintf(log, sizeof log, "%s.%d.%d.log", path, process, mine);
    const bool done = write_file(source, text) && run_clang(source, object, log) && !rename(object, path);
    const Bytes said = read_file(log);
    if (!done) set_log(program, said.at && said.n ? said.at : "emulated NVRTC: there is no " EMULATOR_CLANG " to run");
    free(said.at);
    unlink(source), unlink(object), unlink(log);
    return done;
}

/* Those that Sinter has reason to give; the value is the GPU's, whose limits do not matter here. */
static bool knows_option(const char *option) {
    static const char *const known[] = {"--gpu-architecture=sm_",
                                        "-arch=sm_",
                                        "-minimal",
                                        "--minimal",
                                        "-fmad=false",
                                        "--fmad=false",
                                        "-default-device",
                                        "--device-int128",
                                        "-device-int128",
                                        "--std=c++17",
                                        "-std=c++17",
                                        "-diag-suppress=",
                                        "--diag-suppress=",
                                        "-Ofc=",
                                        "--Ofast-compile=",
                                        "--split-compile=",
                                        "-split-compile=",
                                        "--ptxas-options=",
                                        "-Xptxas",
                                        "-v",
                                        "--restrict",
                                        "-restrict",
                                        "-lineinfo",
                                        "--generate-line-info",
                                        "-D",
                                        "--define-macro="};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(option, known[i], strlen(known[i]))) return true;
    return false;
}

/* NVRTC's functions ------------------------------------------------------------------------------ */

#define NVRTC(name, ...)                                                                                               \
    PUBLIC nvrtcResult nvrtc##name(__VA_ARGS__);                                                                       \
    PUBLIC nvrtcResult nvrtc##name(__VA_ARGS__)

NVRTC(CreateProgram, Program **out, const char *source, const char *name, int n_headers, const char *const *headers,
      const char *const *names) {
    (void)headers, (void)names;
    if (!out || !source) return NVRTC_ERROR_INVALID_INPUT;
    if (n_headers) return NVRTC_ERROR_PROGRAM_CREATION_FAILURE; /* programs of Sinter's include nothing */
    *out = calloc(1, sizeof **out);
    (*out)->source = strdup(source);
    (*out)->name = strdup(name && *name ? name : "default_program");
    set_log(*out, "");
    return NVRTC_SUCCESS;
}

NVRTC(DestroyProgram, Program **program) {
    if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
    free((*program)->source), free((*program)->name), free((*program)->code.at), free((*program)->log.at);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

NVRTC(CompileProgram, Program *program, int n_options, const char *const *options) {
    char path[512];
    if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
    for (int i = 0; i < n_options; i++) {
        if (knows_option(options[i])) continue;
        set_log(program, "emulated NVRTC: an option that it does not know");
        return NVRTC_ERROR_INVALID_OPTION;
    }
    const Bytes text = whole_text(program);
    object_path(path, sizeof path, text);
    free(program->code.at);
    program->code = read_file(path);
    if (!program->code.at && compile(program, text, path)) program->code = read_file(path);
    free(text.at);
    return program->code.at ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

NVRTC(GetCUBINSize, Program *program, size_t *bytes) {
    if (!program || !bytes) return NVRTC_ERROR_INVALID_INPUT;
    *bytes = program->code.n;
    return program->code.at ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

NVRTC(GetCUBIN, Program *program, char *code) {
    if (!program || !code || !program->code.at) return NVRTC_ERROR_INVALID_INPUT;
    memcpy(code, program->code.at, program->code.n);
    return NVRTC_SUCCESS;
}

NVRTC(GetProgramLogSize, Program *program, size_t *bytes) {
    if (!program || !bytes) return NVRTC_ERROR_INVALID_INPUT;
    *bytes = program->log.n + 1;
    return NVRTC_SUCCESS;
}

NVRTC(GetProgramLog, Program *program, char *log) {
    if (!program || !log) return NVRTC_ERROR_INVALID_INPUT;
    memcpy(log, program->log.at, program->log.n + 1);
    return NVRTC_SUCCESS;
}

NVRTC(Version, int *major, int *minor) {
    *major = 13, *minor = 0;
    return NVRTC_SUCCESS;
}

NVRTC(GetNumSupportedArchs, int *n) {
    *n = 2;
    return NVRTC_SUCCESS;
}

NVRTC(GetSupportedArchs, int *out) {
    out[0] = 80, out[1] = 90;
    return NVRTC_SUCCESS;
}

PUBLIC const char *nvrtcGetErrorString(nvrtcResult result);
PUBLIC const char *nvrtcGetErrorString(nvrtcResult result) {
    switch (result) {
    case NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case NVRTC_ERROR_PROGRAM_CREATION_FAILURE:
        return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case NVRTC_ERROR_INVALID_INPUT:
        return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM:
        return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_INTERNAL:
        return "NVRTC_ERROR_INTERNAL";
    }
    return "NVRTC_ERROR unknown";
}
