/* jit_registered.h: the parts of jit_symbols.c: who is told. All are called under its lock. */
#ifndef SINTER_RUNTIME_JIT_REGISTERED_H
#define SINTER_RUNTIME_JIT_REGISTERED_H
#include "runtime/core/jit_symbols.h"

/* gdb's interface has its layout; gdb and lldb read it in this process' memory. */
typedef struct GdbEntry {
    struct GdbEntry *next, *previous;
    const char *image;
    uint64_t bytes;
} GdbEntry;

struct JitCode {
    JitCode *next, *previous; /* that is mapped */
    GdbEntry gdb;             /* image NULL: gdb does not know it */
    int n;
    JitSymbol symbols[]; /* behind them their names */
};

/* False: memory. */
bool jit_gdb_add(JitCode *code);
void jit_gdb_remove(JitCode *code);

enum { JIT_COMPLAINT = 512, JIT_PATH = 256 };
/* Opens the file at first use, for this process. Neither allocates: a child of a fork calls them, too. False: why,
 * which has JIT_COMPLAINT bytes; the file is shut then, and stays so until jit_map_end or jit_dump_end. */
bool jit_map_add(const JitCode *code, char *why);
bool jit_dump_add(const JitCode *code, const char *folder, char *why);
/* Another process, or nobody is told any more. finished: the dump says that it ends here. */
void jit_map_end(void);
void jit_dump_end(bool finished);

#endif
