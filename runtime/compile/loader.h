/* loader.h: loads the relocatable ELF64 objects that code generation makes, without LLVM [semantics
 * O4].
 *
 * Accepted: x86-64 objects with code and constants, no writable data, and no undefined symbols but
 * memcpy, memmove and memset. Memory is never writable and executable at once. Refused objects
 * (truncated, foreign, unknown relocations) raise ST_IO or ST_UNSUPPORTED and name what was found;
 * nothing is left mapped. */
#ifndef SINTER_RUNTIME_LOADER_H
#define SINTER_RUNTIME_LOADER_H
#include "runtime/base/bail.h"

typedef struct LoadedCode LoadedCode;

/* Copies what it needs; `object` may go afterwards. Failpoints: load, exec_memory. *why, which may be NULL: of a
 * failure. */
Status loader_load(const void *object, size_t bytes, LoadedCode **out, BailCode *why);
void *loader_symbol(const LoadedCode *code, const char *name); /* an exported function, or NULL */
size_t loader_bytes(const LoadedCode *code);                   /* mapped */
/* Tells perf and gdb whose it is (core/jit_symbols.h), where they are to know: names[i] is called shown[i], the other
 * functions of the object as they are called there, and .behind. */
typedef struct LoaderNames {
    int n;
    const char *const *names, *const *shown;
    const char *behind;
} LoaderNames;
void loader_register(LoadedCode *code, const LoaderNames *names);
void loader_free(LoadedCode *code); /* nobody may be running in it */

#endif
