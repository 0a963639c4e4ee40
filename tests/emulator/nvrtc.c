/* nvrtc.c: libemulated_nvrtc: a compiler of CUDA C++ without NVIDIA's, by NVRTC's names. A program's code is an object
 * for this machine that the emulated driver loads (code.c): clang compiles words.h, the source and a line for each
 * kernel. Before that the text is changed in two ways, within its lines:
 *
 *   extern __shared__ float all[];    becomes    __launch__ float all[];
 *   __global__ void scale(...)        is found, so that EMULATED_KERNEL(scale, bound) can stand at the end; so is a
 *                                     macro of the program's that means __global__
 *
 * compiler.c makes and keeps the objects. No clang: CompileProgram fails and its log says so. */
#define _GNU_SOURCE
#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/compiler.h"
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

typedef struct Program {
    char *source, *name;
    Bytes code, log;
} Program;

static void set_log(Program *program, const char *text) {
    free(program->log.at);
    program->log = (Bytes){strdup(text), strlen(text)};
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

/* As clang is to see it; the caller frees both. */
static char *changed_text(const char *source, Kernels *kernels) {
    char *const wrong = planted_text(source), *const text = wrong ? wrong : strdup(source);
    read_program(text, kernels);
    return text;
}

/* What nearly all programs begin with, changed as they are. */
static Bytes prelude;
static void read_prelude(void) {
    Kernels kernels = {.marker = ""};
    const Bytes text = bytes_of_file(EMULATOR_PRELUDE);
    if (!text.at) return;
    prelude.at = changed_text(text.at, &kernels);
    prelude.n = strlen(prelude.at);
    free(text.at), free(kernels.lines);
}

static int count_lines(const char *text, size_t n) {
    int lines = 0;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    return lines;
}

/* *head: how much of it is a beginning that others have as well, or 0. A prelude's lines have a name of their own: the
 * program's would make it another text in each; those of the program are counted from the start of both. */
static Bytes whole_text(const Program *program, size_t *head) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_prelude);
    Kernels kernels = {.marker = ""};
    Bytes out;
    char *const text = changed_text(program->source, &kernels);
    const bool is_known = prelude.n && !strncmp(text, prelude.at, prelude.n) && prelude.at[prelude.n - 1] == '\n';
    const char *const rest = text + (is_known ? prelude.n : 0);
    FILE *const file = open_memstream(&out.at, &out.n);
    fprintf(file, "#include \"%s\"\n", EMULATOR_WORDS);
    if (is_known) fprintf(file, "#line 1 \"prelude.cu\"\n%s", prelude.at);
    fflush(file);
    *head = is_known ? out.n : 0;
    fprintf(file, "#line %d \"%s\"\n%s\n%s", 1 + count_lines(text, (size_t)(rest - text)), program->name, rest,
            kernels.lines);
    fclose(file);
    free(text), free(kernels.lines);
    return out;
}

/* options --------------------------------------------------------------------------------------- */

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
    size_t head;
    if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
    for (int i = 0; i < n_options; i++) {
        if (knows_option(options[i])) continue;
        set_log(program, "emulated NVRTC: an option that it does not know");
        return NVRTC_ERROR_INVALID_OPTION;
    }
    const Bytes text = whole_text(program, &head);
    Bytes log;
    free(program->code.at);
    program->code = compiler_object(text, head, &log);
    set_log(program, program->code.at || !log.at ? "" : log.at);
    free(text.at), free(log.at);
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
