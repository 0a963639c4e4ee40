/* bail.h: the one exit of a failing compile. runtime/compile/compile.c sets the single setjmp; passes and codegen call
 * bail(). What lives outside the compile's arena (LLVM objects, mappings, files) belongs to code that returns Status
 * and calls nothing that can bail. A bail never crosses a user callback. */
#ifndef SINTER_RUNTIME_BASE_BAIL_H
#define SINTER_RUNTIME_BASE_BAIL_H
#include <setjmp.h>

#include "runtime/base/base.h"

#define BAIL_CODES(X)                                                                                                  \
    X(memory, "out of memory while compiling")                                                                         \
    X(unsupported, "an op or form that compiling does not know")                                                       \
    X(verify, "the verifier refused a graph")                                                                          \
    X(lower, "no loop program for a group of ops")                                                                     \
    X(codegen, "code generation failed")                                                                               \
    X(llvm_absent, "libsinter-llvm is not there")                                                                      \
    X(llvm_verify, "LLVM's verifier refused a module")                                                                 \
    X(emit, "LLVM could not emit an object")                                                                           \
    X(load, "the object could not be loaded")                                                                          \
    X(exec_memory, "executable memory was refused")                                                                    \
    X(failpoint, "a test's failpoint")
typedef enum BailCode {
    BAIL_none,
#define X(name, text) BAIL_##name,
    BAIL_CODES(X)
#undef X
        BAIL_COUNT
} BailCode;

typedef struct Bail {
    jmp_buf exit;
    BailCode code;
    struct Arena *scratch; /* of the pass that runs: freed by who catches; NULL */
    char message[512];
} Bail;

_Noreturn void bail(Bail *to, BailCode code, const char *format, ...) PRINTF_LIKE(3, 4);
const char *bail_name(BailCode code);

/* Failpoints: the setting failpoints (SINTER_FAILPOINTS="pass:cse,emit") or failpoint_set make a named point fail;
 * tests only. */
bool failpoint(const char *name);
/* The first of the names that no place asks for, in place; NULL: all are known. *n: its length. is_pass: whether there
 * is a pass of this name. */
typedef bool FailpointPass(const char *name, size_t n);
const char *failpoint_unknown(const char *names, FailpointPass *is_pass, size_t *n);
bool failpoint_set(const char *names);    /* comma list; NULL or "" clears; false: too long, none is set */
extern char failpoint_names[];            /* ",a,b,", so that a whole name can be searched */
static inline bool failpoints_set(void) { /* any; for places too hot to ask by name */
    return failpoint_names[0] != '\0';
}

#endif
