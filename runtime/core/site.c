/* site.c: names of call sites. With libdw (elfutils) present at run time the file and line; else
 * what the dynamic linker knows. libdw is opened on first use: neither needed to build nor to run.
 *
 * The line is that of the compile unit whose ranges hold the address. dwfl_module_getsrc would find
 * the unit by .debug_aranges, which clang does not write. */
#define _GNU_SOURCE
#include "runtime/core/site.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"

typedef struct Dwfl Dwfl;
typedef struct DwflModule DwflModule;
typedef struct DwarfLine DwarfLine;
typedef struct DwarfUnit DwarfUnit;
typedef struct DwflCallbacks { /* layout of libdwfl.h's Dwfl_Callbacks */
    int (*find_elf)(void);
    int (*find_debuginfo)(void);
    int (*section_address)(void);
    char **debuginfo_path;
} DwflCallbacks;

static struct {
    Dwfl *(*begin)(const DwflCallbacks *);
    int (*report)(Dwfl *, pid_t);
    int (*report_end)(Dwfl *, void *, void *);
    DwflModule *(*module)(Dwfl *, uint64_t);
    /* a unit is its Dwarf_Die; after NULL comes the first; the bias is what the addresses in memory
     * are above those in the file */
    DwarfUnit *(*next_unit)(DwflModule *, DwarfUnit *, uint64_t *bias);
    int (*unit_has)(DwarfUnit *, uint64_t); /* 1, 0 or -1: an error */
    DwarfLine *(*line)(DwarfUnit *, uint64_t);
    const char *(*line_file)(DwarfLine *, uint64_t *, uint64_t *);
    int (*line_number)(DwarfLine *, int *); /* 0: fine */
    DwflCallbacks callbacks;
    Dwfl *session;
} dw;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool find_symbol(void *library, const char *name, void *slot) {
    void *const symbol = dlsym(library, name);
    memcpy(slot, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void open_libdw(void) {
    void *const library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    const bool whole =
        find_symbol(library, "dwfl_begin", &dw.begin) && find_symbol(library, "dwfl_linux_proc_report", &dw.report) &&
        find_symbol(library, "dwfl_report_end", &dw.report_end) &&
        find_symbol(library, "dwfl_addrmodule", &dw.module) &&
        find_symbol(library, "dwfl_module_nextcu", &dw.next_unit) &&
        find_symbol(library, "dwarf_haspc", &dw.unit_has) && find_symbol(library, "dwarf_getsrc_die", &dw.line) &&
        find_symbol(library, "dwarf_linesrc", &dw.line_file) && find_symbol(library, "dwarf_lineno", &dw.line_number) &&
        find_symbol(library, "dwfl_linux_proc_find_elf", &dw.callbacks.find_elf) &&
        find_symbol(library, "dwfl_standard_find_debuginfo", &dw.callbacks.find_debuginfo);
    if (!whole) return;
    dw.session = dw.begin(&dw.callbacks);
    if (dw.session && (dw.report(dw.session, getpid()) || dw.report_end(dw.session, NULL, NULL))) dw.session = NULL;
}

static DwarfLine *find_cache_entry(DwflModule *module, uint64_t address) {
    uint64_t bias = 0;
    DwarfUnit *unit = NULL;
    while ((unit = dw.next_unit(module, unit, &bias)))
        if (dw.unit_has(unit, address - bias) == 1) return dw.line(unit, address - bias);
    return NULL;
}

/* The thread's own stack, asked for once: for the first thread glibc reads all of /proc/self/maps. */
typedef struct Stack {
    bool asked;
    uintptr_t low;
    size_t bytes; /* 0: not known */
} Stack;

static const Stack *own_stack(void) {
    static _Thread_local Stack stack;
    pthread_attr_t attributes;
    void *low;
    if (stack.asked) return &stack;
    stack.asked = true;
    if (pthread_getattr_np(pthread_self(), &attributes)) return &stack;
    if (!pthread_attr_getstack(&attributes, &low, &stack.bytes)) stack.low = (uintptr_t)low;
    pthread_attr_destroy(&attributes);
    return &stack;
}

/* libdw has frames of 100 KiB; a stack that is not the thread's own (of a coroutine) is not known. */
static bool stack_is_large(void) {
    enum { LIBDW_BYTES = 256 << 10 };
    const Stack *const stack = own_stack();
    const uintptr_t above = (uintptr_t)__builtin_frame_address(0) - stack->low;
    return above < stack->bytes && above >= LIBDW_BYTES;
}

static bool by_line(uint64_t address, char *out, size_t capacity) {
    if (!stack_is_large()) return false;
    pthread_once(&once, open_libdw);
    if (!dw.session) return false;
    DwflModule *const module = dw.module(dw.session, address);
    DwarfLine *const line = module ? find_cache_entry(module, address) : NULL;
    const char *const file = line ? dw.line_file(line, NULL, NULL) : NULL;
    int number = 0;
    if (!file || dw.line_number(line, &number)) return false;
    const char *const base = strrchr(file, '/');
    snprintf(out, capacity, "%s:%d", base ? base + 1 : file, number);
    return true;
}

static void by_symbol(const void *site, char *out, size_t capacity) {
    Dl_info info;
    if (!dladdr(site, &info)) {
        snprintf(out, capacity, "%p", site);
        return;
    }
    const char *const slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    const char *const module = slash ? slash + 1 : info.dli_fname ? info.dli_fname : "?";
    const void *const base = info.dli_sname ? info.dli_saddr : info.dli_fbase;
    snprintf(out, capacity, "%s%s%s+0x%zx", module, info.dli_sname ? ":" : "", info.dli_sname ? info.dli_sname : "",
             (size_t)((const char *)site - (const char *)base));
}

/* Texts behind each other; a place in them is the site. Graphs of one name share theirs. They are found by hash: a slot
 * has where one begins, plus 1. */
enum { TEXT_BYTES = 1 << 20, TEXT_SLOTS = 1 << 17, MOST_TEXTS = TEXT_SLOTS / 2 };
static char *texts;
static uint32_t *text_slots;
static size_t texts_used;
static int n_texts;

/* Where it is, or would be. */
static uint32_t *text_slot(const char *text) {
    for (uint64_t i = hash_bytes(17, text, strlen(text));; i++) {
        uint32_t *const slot = &text_slots[i % TEXT_SLOTS];
        if (!*slot || !strcmp(texts + *slot - 1, text)) return slot;
    }
}

const void *site_of_text(const char *text) {
    const size_t size = strlen(text) + 1;
    const char *found = NULL;
    pthread_mutex_lock(&lock);
    if (!texts) texts = mem_alloc(TEXT_BYTES);
    if (!text_slots) text_slots = mem_zero(TEXT_SLOTS * sizeof *text_slots);
    uint32_t *const slot = texts && text_slots ? text_slot(text) : NULL;
    if (slot && !*slot && size <= TEXT_BYTES - texts_used && n_texts < MOST_TEXTS) {
        memcpy(texts + texts_used, text, size);
        *slot = (uint32_t)texts_used + 1;
        texts_used += size;
        n_texts++;
    }
    if (slot && *slot) found = texts + *slot - 1;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool by_text(const char *site, char *out, size_t capacity) {
    if (!texts || site < texts || site >= texts + texts_used) return false;
    snprintf(out, capacity, "%s", site);
    return true;
}

void site_name(const void *site, char *out, size_t capacity) {
    out[0] = '\0';
    if (!site) {
        snprintf(out, capacity, "an unknown place");
        return;
    }
    const char *const call = (const char *)site - 1; /* a return address is just past its call */
    pthread_mutex_lock(&lock);
    const bool found = by_text(site, out, capacity) || by_line((uint64_t)(uintptr_t)call, out, capacity);
    pthread_mutex_unlock(&lock);
    if (!found) by_symbol(call, out, capacity);
}
