/* jit_symbols.c: see jit_symbols.h: the setting, what is mapped, forks. Log lines are said outside of the lock: a
 * program's handler may compile. */
#include "runtime/core/jit_symbols.h"

#include <pthread.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/core/jit_registered.h"

enum { REGISTER_map = 1, REGISTER_dump = 2, REGISTER_gdb = 4 };

static const struct {
    const char *word;
    int bit;
} words[] = {{"perf-map", REGISTER_map}, {"jitdump", REGISTER_dump}, {"gdb", REGISTER_gdb}};

atomic_int jit_symbols_chosen;
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;
static JitCode *first_code;
static char dump_folder[JIT_PATH];

typedef struct Complaints {
    char map[JIT_COMPLAINT], dump[JIT_COMPLAINT];
} Complaints;

static void write_files(const JitCode *code, Complaints *complaints) {
    const int chosen = atomic_load(&jit_symbols_chosen);
    if (chosen & REGISTER_map) jit_map_add(code, complaints->map);
    if (chosen & REGISTER_dump) jit_dump_add(code, dump_folder, complaints->dump);
}

static void report_complaints(const Complaints *complaints) {
    if (complaints->map[0]) LOG(general, WARNING, "setting jit_symbols: perf-map: %s", complaints->map);
    if (complaints->dump[0]) LOG(general, WARNING, "setting jit_symbols: jitdump: %s", complaints->dump);
}

/* Forks ------------------------------------------------------------------------------------------ */

static void before_fork(void) { pthread_mutex_lock(&registered_lock); }
static void after_fork(void) { pthread_mutex_unlock(&registered_lock); }

/* Nothing here allocates. */
static void in_child(void) {
    Complaints complaints = {0};
    jit_map_end();
    jit_dump_end(false); /* it is the parent's */
    for (const JitCode *code = first_code; code; code = code->next) write_files(code, &complaints);
    pthread_mutex_unlock(&registered_lock);
    report_complaints(&complaints);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

/* The process ends, or the library is closed. */
__attribute__((destructor)) static void finish(void) {
    pthread_mutex_lock(&registered_lock);
    jit_map_end();
    jit_dump_end(true);
    atomic_store(&jit_symbols_chosen, 0);
    pthread_mutex_unlock(&registered_lock);
}

/* The setting ------------------------------------------------------------------------------------ */

static int bit_of(const char *word, size_t n) {
    for (int i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i].word) == n && !memcmp(words[i].word, word, n)) return words[i].bit;
    return 0;
}

Status jit_symbols_choose(const char *list) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int chosen = 0;
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, ",");
        const int bit = bit_of(at, n);
        if (!bit)
            return error_raise(ST_ARGUMENT, "setting jit_symbols: '%.*s' is none of perf-map, jitdump, gdb", (int)n,
                               at);
        chosen |= bit;
        at += n + (at[n] == ',');
    }
    if (chosen) pthread_once(&once, watch_forks);
    pthread_mutex_lock(&registered_lock);
    if (!(chosen & REGISTER_map)) jit_map_end();
    if (!(chosen & REGISTER_dump)) jit_dump_end(true);
    atomic_store(&jit_symbols_chosen, chosen);
    pthread_mutex_unlock(&registered_lock);
    return ST_OK;
}

Status jit_dump_folder_choose(const char *path) {
    if (strlen(path) >= sizeof dump_folder)
        return error_raise(ST_ARGUMENT, "setting jit_dump_dir: a path of more than %d bytes", JIT_PATH - 1);
    pthread_mutex_lock(&registered_lock);
    memcpy(dump_folder, path, strlen(path) + 1);
    pthread_mutex_unlock(&registered_lock);
    return ST_OK;
}

/* Code ------------------------------------------------------------------------------------------- */

static bool is_name_letter(unsigned char c) { return c > ' ' && c != 0x7f && c != '\'' && c != '"' && c != '@'; }

static JitCode *copy_code(const JitSymbol *symbols, int n) {
    size_t letters = 0;
    for (int i = 0; i < n; i++) letters += strlen(symbols[i].name) + 1;
    JitCode *const code = mem_zero(sizeof *code + (size_t)n * sizeof *code->symbols + letters);
    if (!code) return NULL;
    char *name = (char *)&code->symbols[n];
    code->n = n;
    for (int i = 0; i < n; i++) {
        code->symbols[i] = symbols[i];
        code->symbols[i].name = name;
        for (const char *c = symbols[i].name; *c; c++) *name++ = is_name_letter((unsigned char)*c) ? *c : '_';
        name++;
    }
    return code;
}

JitCode *jit_code_register(const JitSymbol *symbols, int n) {
    Complaints complaints = {0};
    JitCode *const code = n ? copy_code(symbols, n) : NULL;
    if (!code) {
        error_clear();
        return NULL;
    }
    pthread_mutex_lock(&registered_lock);
    code->next = first_code;
    if (first_code) first_code->previous = code;
    first_code = code;
    write_files(code, &complaints);
    if ((atomic_load(&jit_symbols_chosen) & REGISTER_gdb) && !jit_gdb_add(code)) error_clear();
    pthread_mutex_unlock(&registered_lock);
    report_complaints(&complaints);
    return code;
}

void jit_code_forget(JitCode *code) {
    if (!code) return;
    pthread_mutex_lock(&registered_lock);
    *(code->previous ? &code->previous->next : &first_code) = code->next;
    if (code->next) code->next->previous = code->previous;
    jit_gdb_remove(code);
    pthread_mutex_unlock(&registered_lock);
    mem_free(code);
}
