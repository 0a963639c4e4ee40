/* jit_symbols.h: whose an address of generated code is, for perf and gdb (setting jit_symbols, a comma list):
 *
 *   perf-map  a line for each function in /tmp/perf-PID.map, where perf looks for names
 *   jitdump   names and bytes in DIR/jit-PID.dump, of which `perf inject --jit` makes files that perf annotate reads;
 *             DIR is the setting jit_dump_dir, else $JITDUMPDIR, else /tmp
 *   gdb       an ELF image in memory for each mapping, by the interface __jit_debug_register_code
 *
 * What was loaded before the setting was made is not told. After a fork the child has files of its own, with what is
 * mapped then. A file that cannot be written is a warning, once, and no more is written there; nothing else comes of
 * it. Thread-safe. */
#ifndef SINTER_RUNTIME_JIT_SYMBOLS_H
#define SINTER_RUNTIME_JIT_SYMBOLS_H
#include <stdatomic.h>

#include "runtime/base/base.h"

typedef struct JitSymbol {
    const char *name;
    const void *at;
    size_t bytes;
} JitSymbol;

typedef struct JitCode JitCode; /* of one mapping */

/* What the settings say, for the process. Raise ST_ARGUMENT: which words there are; too long a path. A folder is asked
 * for when the file is opened. */
Status jit_symbols_choose(const char *words);
Status jit_dump_folder_choose(const char *path);
extern atomic_int jit_symbols_chosen; /* bits of jit_symbols.c */
static inline bool jit_symbols_on(void) {
    return UNLIKELY(atomic_load_explicit(&jit_symbols_chosen, memory_order_relaxed) != 0);
}
/* Copies the names. Whitespace and what else a line of a map or a debugger's command cannot have is '_' there. NULL:
 * nobody was told (memory); nothing is pending. */
JitCode *jit_code_register(const JitSymbol *symbols, int n);
void jit_code_forget(JitCode *code); /* before it is unmapped */

#endif
