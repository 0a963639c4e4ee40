/* llvm_module.h: opens libsinter-llvm.so on first use: a program that only runs eagerly never loads
 * LLVM. Looked for at SINTER_LLVM_MODULE (a path), else in this version's private folder beside the library or program
 * that this code is in, or in the configured prefix. */
#ifndef SINTER_RUNTIME_LLVM_MODULE_H
#define SINTER_RUNTIME_LLVM_MODULE_H
#include "codegen/codegen.h"

/* The module's table, NULL when it is not there or does not fit; thread-safe, decided once. Its
 * compile raises the thread's error as usual, honours this library's failpoints, and fills the
 * result's message and bail too. */
const LlvmModuleTable *llvm_module(void);
/* Before a thread of the library's own is to open it. The shared LLVM has destructors, which the end of the process
 * must not run while constructors run: it is opened here and now. Otherwise nothing. */
void llvm_module_before_worker(void);
const char *llvm_module_reason(void); /* why not; "" when it is there */

#endif
