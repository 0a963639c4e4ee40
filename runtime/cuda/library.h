/* library.h: NVIDIA's libraries, opened at their first use and never linked: where they are looked for, and why one was
 * not found, in words for an error. driver.c, nvrtc.c and blaslt.c use it.
 *
 *   static const LibrarySearch places = {"SINTER_CUDA_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"}, true};
 *   void *const library = library_open(&places, &reason);
 *
 * A path in the variable is taken alone: a test's emulation, or a file that does not exist, as if there were none. Else
 * each name is asked of the linker, which also knows what the process has loaded; then, where `toolkit` says so, of the
 * folders of toolkits (CUDA_HOME, CUDA_PATH, /usr/local/cuda*) and of the packages of PyPI: nvidia/<package>/lib in the
 * site-packages of VIRTUAL_ENV, CONDA_PREFIX, ~/.local, /usr/local and /usr. No Python is run for that. */
#ifndef SINTER_RUNTIME_CUDA_LIBRARY_H
#define SINTER_RUNTIME_CUDA_LIBRARY_H
#include "runtime/base/base.h"

enum { LIBRARY_MOST_NAMES = 2 };

typedef struct LibrarySearch {
    const char *variable;
    const char *names[LIBRARY_MOST_NAMES + 1]; /* the preferred one first, NULL behind the last */
    bool toolkit;
    const char *helper; /* pattern of a file beside it that it opens by its bare name; NULL: none */
} LibrarySearch;

typedef struct LibraryReason {
    char buffer[512];
} LibraryReason;

/* NULL and *why where there is none; what is opened stays open. */
void *library_open(const LibrarySearch *places, LibraryReason *why);
/* Fills *why; returns false. */
bool library_because(LibraryReason *why, const char *format, ...) PRINTF_LIKE(2, 3);
/* The function, for a pointer of its type at `at`; false where the library has none. */
bool library_function(void *library, const char *name, void *at);

#endif
