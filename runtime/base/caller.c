/* caller.c: see caller.h. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "runtime/base/caller.h"

#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <unwind.h>

typedef struct LoadedRange {
    uintptr_t begin, end;
} LoadedRange;

static LoadedRange own; /* empty: the library is part of the program */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_in(const LoadedRange *range, uintptr_t address) {
    return address - range->begin < range->end - range->begin;
}

static LoadedRange range_of(const struct dl_phdr_info *object) {
    LoadedRange range = {UINTPTR_MAX, 0};
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *const part = &object->dlpi_phdr[i];
        const uintptr_t at = object->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD) continue;
        range.begin = at < range.begin ? at : range.begin;
        range.end = at + part->p_memsz > range.end ? at + part->p_memsz : range.end;
    }
    return range;
}

static int find_own(struct dl_phdr_info *object, size_t size, void *unused) {
    const LoadedRange range = range_of(object);
    if (range.end < range.begin || !is_in(&range, (uintptr_t)&own)) return 0;
    const bool is_program = is_in(&range, getauxval(AT_PHDR));
    if (!is_program) own = range;
    return 1;
}

static void find_range(void) { dl_iterate_phdr(find_own, NULL); }

bool caller_is_library(const void *address) {
    pthread_once(&once, find_range);
    return is_in(&own, (uintptr_t)address);
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *found) {
    const void *const address = (const void *)_Unwind_GetIP(context);
    if (caller_is_library(address)) return _URC_NO_REASON;
    *(const void **)found = address;
    return _URC_NORMAL_STOP;
}

const void *caller_outside(void) {
    const void *found = NULL;
    pthread_once(&once, find_range);
    if (own.end) _Unwind_Backtrace(visit, &found);
    return found;
}
