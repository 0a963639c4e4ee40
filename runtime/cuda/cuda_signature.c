/* cuda_signature.c: see cuda_signature.h. No compiler: words of the text one after another, comments and strings left
 * out; the kernel is the first `void name(` or `) name(` (after __launch_bounds__). */
#include "runtime/cuda/cuda_signature.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const CudaType types[] = {
    {"void", CUDA_void, 0, -1},
    {"bool", CUDA_bool, 1, DT_bool},
    {"float", CUDA_float, 4, DT_f32},
    {"double", CUDA_float, 8, DT_f64},
    {"char", CUDA_int, 1, DT_i8},
    {"signed char", CUDA_int, 1, DT_i8},
    {"unsigned char", CUDA_unsigned, 1, DT_u8},
    {"short", CUDA_int, 2, DT_i16},
    {"unsigned short", CUDA_unsigned, 2, -1},
    {"int", CUDA_int, 4, DT_i32},
    {"signed", CUDA_int, 4, DT_i32},
    {"signed int", CUDA_int, 4, DT_i32},
    {"unsigned", CUDA_unsigned, 4, -1},
    {"unsigned int", CUDA_unsigned, 4, -1},
    {"long", CUDA_int, 8, DT_i64},
    {"long int", CUDA_int, 8, DT_i64},
    {"long long", CUDA_int, 8, DT_i64},
    {"long long int", CUDA_int, 8, DT_i64},
    {"unsigned long", CUDA_unsigned, 8, -1},
    {"unsigned long long", CUDA_unsigned, 8, -1},
    {"size_t", CUDA_unsigned, 8, -1},
};

/* words ----------------------------------------------------------------------------------------- */

typedef struct KernelText {
    const char *p;
    const char *word; /* an identifier or number, or one other character; n 0: the end */
    size_t n;
} KernelText;

static bool is_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *skip_comment(const char *p) {
    if (p[1] == '/') return p + strcspn(p, "\n");
    const char *const end = strstr(p + 2, "*/");
    return end ? end + 2 : p + strlen(p);
}

static const char *skip_quoted(const char *p) {
    const char quote = *p++;
    while (*p && *p != quote) p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}

static const char *skip_between(const char *p) {
    for (;;) {
        if (p[0] == '/' && (p[1] == '/' || p[1] == '*'))
            p = skip_comment(p);
        else if (*p == '"' || *p == '\'')
            p = skip_quoted(p);
        else if (isspace((unsigned char)*p))
            p++;
        else
            return p;
    }
}

static bool next_word(KernelText *text) {
    text->word = text->p = skip_between(text->p);
    if (*text->p) do
            text->p++;
        while (is_part(text->word[0]) && is_part(*text->p));
    text->n = (size_t)(text->p - text->word);
    return text->n > 0;
}

static bool is(const KernelText *text, const char *word) {
    return text->n == strlen(word) && !memcmp(text->word, word, text->n);
}

/* parameters ------------------------------------------------------------------------------------ */

static bool is_qualifier(const KernelText *text) {
    static const char *const words[] = {"const", "volatile", "__restrict__", "__restrict", "__grid_constant__"};
    for (int i = 0; i < COUNT_OF(words); i++)
        if (is(text, words[i])) return true;
    return false;
}

/* One that a type of the table has. */
static bool is_type_word(const KernelText *text) {
    for (int i = 0; i < COUNT_OF(types); i++) {
        const char *const at = types[i].words;
        for (const char *w = at; *w; w += strcspn(w, " "), w += *w == ' ')
            if (strcspn(w, " ") == text->n && !memcmp(w, text->word, text->n)) return true;
    }
    return false;
}

typedef struct ParameterText {
    const char *from; /* as it is written, for errors */
    char words[64];
    int stars;
    bool to_const, odd;
} ParameterText;

static void parse_word(const KernelText *text, ParameterText *read, CudaParameter *out) {
    const size_t used = strlen(read->words);
    if (is(text, "*"))
        read->stars++;
    else if (is(text, "const") && !read->stars)
        read->to_const = true;
    else if (is_qualifier(text))
        return;
    else if (!read->stars && !out->name[0] && is_type_word(text))
        snprintf(read->words + used, sizeof read->words - used, "%s%.*s", used ? " " : "", (int)text->n, text->word);
    else if (is_part(text->word[0]) && !out->name[0] && (used || read->stars))
        snprintf(out->name, sizeof out->name, "%.*s", (int)text->n, text->word);
    else
        read->odd = true;
}

static const CudaType *find_type(const char *words) {
    for (int i = 0; i < COUNT_OF(types); i++)
        if (!strcmp(types[i].words, words)) return &types[i];
    return NULL;
}

static Status read_parameter(KernelText *text, const char *kernel, int number, CudaParameter *out) {
    ParameterText read = {.from = text->word};
    int depth = 0;
    *out = (CudaParameter){0};
    do {
        depth += is(text, "(") - is(text, ")");
        if (depth < 0 || (!depth && is(text, ","))) break;
        parse_word(text, &read, out);
    } while (next_word(text));
    out->type = find_type(read.words);
    out->pointer = read.stars == 1;
    out->written = out->pointer && !read.to_const;
    if (!out->name[0]) snprintf(out->name, sizeof out->name, "%d", number);
    if (out->type && !read.odd && read.stars < 2 && (out->pointer || out->type->kind != CUDA_void)) return ST_OK;
    return error_raise(ST_ARGUMENT,
                       "sn_cuda_kernel: parameter %d of '%s' is '%.*s': a kernel's parameters are numbers of C's types "
                       "(float, long long, unsigned...) and pointers to these or to void",
                       number, kernel, (int)(text->word - read.from), read.from);
}

static Status read_parameters(KernelText *text, const char *kernel, CudaSignature *out) {
    if (!next_word(text) || is(text, ")")) return ST_OK;
    do {
        if (out->n == CUDA_MOST_PARAMETERS)
            return error_raise(ST_ARGUMENT, "sn_cuda_kernel: '%s' has more than %d parameters", kernel,
                               CUDA_MOST_PARAMETERS);
        TRY(read_parameter(text, kernel, out->n, &out->at[out->n]));
        out->n++;
    } while (is(text, ",") && next_word(text));
    return ST_OK;
}

Status cuda_signature(const char *source, const char *name, CudaSignature *out) {
    KernelText text = {.p = source};
    bool is_start = false; /* the word before can stand before a kernel's name */
    *out = (CudaSignature){0};
    while (next_word(&text)) {
        const bool found = is_start && is(&text, name);
        is_start = is(&text, "void") || is(&text, ")");
        if (found && next_word(&text) && is(&text, "(")) return read_parameters(&text, name, out);
    }
    return error_raise(ST_ARGUMENT,
                       "sn_cuda_kernel: the program has no kernel '%s': extern \"C\" __global__ void %s(...)", name,
                       name);
}
