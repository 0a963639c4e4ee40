/* compiler.h: clang, as libemulated_nvrtc runs it: from a text to an object for this machine, which is kept by what it
 * was made from (EMULATED_CUDA_CACHE, else the folder CMake names), so that a program is compiled once for many runs.
 * Where a text begins as most do, a clang that has read that beginning compiles the rest in a fork (zygote.c). */
#ifndef SINTER_TESTS_COMPILER_H
#define SINTER_TESTS_COMPILER_H
#include <stddef.h>

typedef struct Bytes {
    char *at;
    size_t n;
} Bytes;

Bytes bytes_of_file(const char *path); /* {NULL, 0}: there is none. A 0 stands behind them. */

/* The object, or NULL and what clang says. The first `head` bytes are what most programs begin with, 0: this one does
 * not; the first line names words.h, wherever that is. Both results are the caller's. */
Bytes compiler_object(Bytes text, size_t head, Bytes *log);

#endif
