/* plugin_build.c: a plug-in from sources: one run of the system's C compiler, in a folder of its own.
 *
 *   scale.c  scale.cu  ->  /tmp/sinter-XXXXXX/ scale_cu.c  (the text of scale.cu as a C string)
 *                                              said        (what the compiler says)
 *                                              plugin.so
 *
 * The library is mapped when the folder goes. No shell is started, so names hold any characters. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sinter/base.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/core/plugin.h"
#include "runtime/core/state.h"

enum { MAX_SOURCES = 256, FIXED = 24 };

typedef struct PluginBuild {
    Arena *arena;
    char folder[PATH_MAX];
    const char *said, *library;
    const char *files[MAX_SOURCES + 4]; /* in the folder, which go with it */
    int n_files;
    char *argv[MAX_SOURCES * 2 + FIXED];
    int n_argv;
} PluginBuild;

typedef struct PluginTexts {    /* what it is built from */
    const char *const *sources; /* paths; NULL: the texts */
    int n;
    const char *name, *c, *cuda; /* cuda may be NULL */
} PluginTexts;

static const char *in_folder(PluginBuild *b, const char *name) {
    const size_t n = strlen(b->folder) + strlen(name) + 2;
    char *const path = arena_alloc(b->arena, n);
    if (!path) return NULL;
    snprintf(path, n, "%s/%s", b->folder, name);
    return b->files[b->n_files++] = path;
}

static void add(PluginBuild *b, const char *argument) {
    const size_t n = strlen(argument) + 1;
    char *const copy = arena_alloc(b->arena, n);
    if (copy) b->argv[b->n_argv++] = memcpy(copy, argument, n);
}

/* sources ------------------------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *ending) {
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcmp(path + n - m, ending);
}

/* "scale" of "kernels/scale.cu"; false: no name of C's. */
static bool base_name(const char *path, char *name, size_t capacity) {
    const char *const slash = strrchr(path, '/'), *const begin = slash ? slash + 1 : path;
    const size_t n = strlen(begin) - 3;
    if (!n || n >= capacity || (begin[0] >= '0' && begin[0] <= '9')) return false;
    for (size_t i = 0; i < n; i++)
        if (begin[i] != '_' && !(begin[i] >= '0' && begin[i] <= '9') &&
            !((begin[i] | 32) >= 'a' && (begin[i] | 32) <= 'z'))
            return false;
    memcpy(name, begin, n);
    name[n] = '\0';
    return true;
}

/* One string literal a line. */
static void quote(Text *text, const char *bytes, size_t n) {
    text_puts(text, "\"");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c == '\n')
            text_puts(text, i + 1 < n ? "\\n\"\n\"" : "\\n");
        else if (c == '"' || c == '\\' || c == '?' || c < 32 || c > 126)
            text_printf(text, "\\%03o", c);
        else
            text_put(text, &bytes[i], 1);
    }
    text_puts(text, "\"");
}

static Status embed(PluginBuild *b, const char *path) {
    char name[128], file[160], *bytes;
    size_t n;
    if (!base_name(path, name, sizeof name))
        return error_raise(ST_ARGUMENT, "sn_plugin_build: '%.300s': the name of a .cu file is one of C's", path);
    TRY(file_read(path, &bytes, &n));
    Text text = {0};
    text_printf(&text, "extern const char %s_cu[];\nconst char %s_cu[] =\n", name, name);
    quote(&text, bytes, n);
    text_puts(&text, ";\n");
    mem_free(bytes);
    snprintf(file, sizeof file, "%s_cu.c", name);
    const char *const to = in_folder(b, file);
    Status status = to ? error_pending() : ST_MEMORY;
    if (status == ST_OK) status = file_replace(to, &(FileSpan){text_str(&text), text.n}, 1);
    text_free(&text);
    if (status == ST_OK) add(b, to);
    return status;
}

static Status add_source(PluginBuild *b, const char *path) {
    char whole[PATH_MAX];
    if (!ends_in(path, ".c") && !ends_in(path, ".cu"))
        return error_raise(ST_ARGUMENT, "sn_plugin_build: '%.300s' is no .c and no .cu file", path);
    if (!realpath(path, whole))
        return error_raise(ST_IO, "sn_plugin_build: cannot open '%.300s': %s", path, strerror(errno));
    if (ends_in(path, ".cu")) return embed(b, whole);
    add(b, whole);
    return ST_OK;
}

/* the command --------------------------------------------------------------------------------- */

static bool is_file(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode);
}

/* The library as a file; false: the program holds it itself. */
static bool own_library(char path[PATH_MAX]) {
    Dl_info info;
    const char *name;
    if (!dladdr((void *)(uintptr_t)plugin_load, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
        return false;
    name = strrchr(path, '/');
    return name && !strncmp(name, "/libsinter.so", 13);
}

static Status add_include(PluginBuild *b, const char *library, bool found) {
    const char *const folders = setting_text(state_get(), SET_plugin_include);
    char path[PATH_MAX + 32] = "";
    for (const char *at = folders; *at; at += strcspn(at, ":"), at += *at == ':') {
        snprintf(path, sizeof path, "%.*s", (int)strcspn(at, ":"), at);
        add(b, "-I"), add(b, path);
    }
    if (*folders) return ST_OK;
    const char *const end = found ? strrchr(library, '/') : NULL;
    if (end) snprintf(path, sizeof path, "%.*s/../include/sinter/sinter.h", (int)(end - library), library);
    if (!end || !is_file(path))
        return error_raise(ST_IO, "sn_plugin_build: there is no '%s' beside the library: set plugin_include", path);
    path[strlen(path) - strlen("/sinter/sinter.h")] = '\0';
    add(b, "-I"), add(b, path);
    return ST_OK;
}

static Status make_command(PluginBuild *b, const char *const *sources, int n) {
    static const char *const flags[] = {
        "-std=c17", "-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-fexceptions"};
    char library[PATH_MAX];
    const bool found = own_library(library);
    add(b, setting_text(state_get(), SET_plugin_compiler));
    for (int i = 0; i < COUNT_OF(flags); i++) add(b, flags[i]);
    TRY(add_include(b, library, found));
    add(b, "-o"), add(b, b->library);
    for (int i = 0; i < n; i++) TRY(add_source(b, sources[i]));
    add(b, "-lm");
    return error_pending();
}

static Status spawn_failed(const PluginBuild *b, int error) {
    return error_raise(ST_IO, "sn_plugin_build: cannot start the compiler '%s' (setting plugin_compiler): %s",
                       b->argv[0], strerror(error));
}

/* As it ended; the errors and warnings are in the file `said`. */
static Status run_compiler(const PluginBuild *b, bool *well) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child;
    int ended = 0;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, b->said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    const int error = posix_spawnp(&child, b->argv[0], &actions, &attributes, b->argv, environment_all());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error) return spawn_failed(b, error);
    while (waitpid(child, &ended, 0) < 0)
        if (errno != EINTR) return spawn_failed(b, errno);
    *well = WIFEXITED(ended) && !WEXITSTATUS(ended);
    return ST_OK;
}

/* Its first words; a program's signals may have been taken, an empty file says nothing. */
static Status compiler_refused(const PluginBuild *b) {
    char *words = NULL;
    size_t n;
    if (file_read(b->said, &words, &n) != ST_OK) return error_pending();
    char lead[320];
    snprintf(lead, sizeof lead, "sn_plugin_build: %.280s: ", b->argv[0]);
    const Status status = error_raise_lines(ST_ARGUMENT, lead, *words ? words : "it failed");
    mem_free(words);
    return status;
}

/* The library's ELF machine, beside that of this program; what is no ELF file the loader refuses. */
static Status check_machine(const PluginBuild *b) {
    Elf64_Ehdr made, own;
    FILE *const file = fopen(b->library, "rb"), *const self = fopen("/proc/self/exe", "rb");
    const bool read = file && self && fread(&made, sizeof made, 1, file) == 1 && fread(&own, sizeof own, 1, self) == 1;
    if (file) fclose(file);
    if (self) fclose(self);
    if (!read || memcmp(made.e_ident, ELFMAG, SELFMAG) != 0 ||
        (made.e_machine == own.e_machine && made.e_ident[EI_CLASS] == own.e_ident[EI_CLASS]))
        return ST_OK;
    return error_raise(ST_UNSUPPORTED,
                       "sn_plugin_build: the compiler '%s' (setting plugin_compiler) makes code for another machine: "
                       "ELF machine %d of %d bits, this program's is %d of %d bits",
                       b->argv[0], made.e_machine, made.e_ident[EI_CLASS] * 32, own.e_machine,
                       own.e_ident[EI_CLASS] * 32);
}

static Status build_and_load(PluginBuild *b, const char *const *sources, int n) {
    bool well = false;
    b->said = in_folder(b, "said");
    b->library = in_folder(b, "plugin.so");
    if (!b->said || !b->library) return ST_MEMORY;
    TRY(make_command(b, sources, n));
    TRY(run_compiler(b, &well));
    if (!well) return compiler_refused(b);
    TRY(check_machine(b));
    return plugin_load(b->library);
}

static Status make_folder(PluginBuild *b) {
    snprintf(b->folder, sizeof b->folder, "%.4000s/sinter-XXXXXX", environment_temporary());
    if (mkdtemp(b->folder)) return ST_OK; /* of mode 0700 */
    return error_raise(ST_IO, "sn_plugin_build: cannot make a folder like '%s': %s", b->folder, strerror(errno));
}

/* The texts as files of the folder, which go with it. */
static Status write_text(PluginBuild *b, const char *name, const char *ending, const char *text) {
    char file[160];
    snprintf(file, sizeof file, "%.120s%s", name, ending);
    const char *const path = in_folder(b, file);
    return path ? file_replace(path, &(FileSpan){text, strlen(text)}, 1) : ST_MEMORY;
}

static bool is_word_of_c(const char *name) {
    char source[160], base[128];
    snprintf(source, sizeof source, "%.140s.cu", name);
    return strlen(name) < sizeof base && !strchr(name, '/') && base_name(source, base, sizeof base);
}

static Status build_texts(PluginBuild *b, const PluginTexts *texts) {
    const char *sources[2];
    int n = 0;
    TRY(write_text(b, texts->name, ".c", texts->c));
    sources[n++] = b->files[b->n_files - 1];
    if (texts->cuda) {
        TRY(write_text(b, texts->name, ".cu", texts->cuda));
        sources[n++] = b->files[b->n_files - 1];
    }
    return build_and_load(b, sources, n);
}

static Status build_sources(PluginBuild *b, const PluginTexts *texts) {
    return texts->sources ? build_and_load(b, texts->sources, texts->n) : build_texts(b, texts);
}

static Status build_in_folder(const PluginTexts *texts) {
    if (environment_is_foreign())
        return error_raise(ST_STATE,
                           "sn_plugin_build: a program with more rights than its user has starts no compiler");
    PluginBuild *const b = mem_zero(sizeof *b);
    if (!b || !(b->arena = arena_new())) {
        mem_free(b);
        return ST_MEMORY;
    }
    Status status = make_folder(b);
    if (status == ST_OK) {
        status = build_sources(b, texts);
        for (int i = 0; i < b->n_files; i++) unlink(b->files[i]);
        rmdir(b->folder);
    }
    arena_free(b->arena);
    mem_free(b);
    return status;
}

Status plugin_build(const char *const *sources, int n) {
    if (n < 1 || n > MAX_SOURCES)
        return error_raise(ST_ARGUMENT, "sn_plugin_build: %d sources, not 1 to %d", n, MAX_SOURCES);
    return build_in_folder(&(PluginTexts){.sources = sources, .n = n});
}

Status plugin_build_text(const char *name, const char *c, const char *cuda) {
    if (!is_word_of_c(name))
        return error_raise(ST_ARGUMENT, "sn_plugin_build_text: the name '%.300s' is no word of C's", name);
    return build_in_folder(&(PluginTexts){.name = name, .c = c, .cuda = cuda});
}
