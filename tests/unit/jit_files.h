/* jit_files.h: strict readers of perf's two files of generated code, by its documentation (jit-interface.txt,
 * jitdump-specification.txt): whatever they do not allow is an error that says where. */
#ifndef SINTER_TESTS_UNIT_JIT_FILES_H
#define SINTER_TESTS_UNIT_JIT_FILES_H
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "tests/unit/suite.h"

typedef struct NamedCode {
    uint64_t at, bytes;
    char name[256];
    const uint8_t *code; /* jitdump's copy */
} NamedCode;

enum { MOST_NAMED = 512 };
typedef struct JitFiles {
    int n;
    NamedCode named[MOST_NAMED];
    bool closed; /* the dump says that it ends */
    char *bytes; /* of the dump; they stay */
} JitFiles;

static inline char *read_all(const char *path, size_t *n) {
    FILE *const file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *const bytes = malloc(*n + 1);
    ck_assert_uint_eq(fread(bytes, 1, *n, file), *n);
    bytes[*n] = 0;
    fclose(file);
    return bytes;
}

static inline void add_named(JitFiles *files, NamedCode named) {
    ck_assert_int_lt(files->n, MOST_NAMED);
    ck_assert_uint_gt(named.bytes, 0);
    for (const char *c = named.name; *c; c++) ck_assert_msg(isgraph((unsigned char)*c), "name '%s'", named.name);
    ck_assert_uint_gt(strlen(named.name), 0);
    files->named[files->n++] = named;
}

/* "7f12 1a name\n": lower-case hexadecimal numbers without 0x, one space between. False: there is no file. */
static inline bool read_perf_map(pid_t pid, JitFiles *files) {
    char path[64];
    size_t n;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)pid);
    char *const text = read_all(path, &n);
    *files = (JitFiles){0};
    if (!text) return false;
    ck_assert_uint_eq(strlen(text), n);
    for (const char *line = text; *line;) {
        NamedCode named = {0};
        const char *const end = strchr(line, '\n');
        int used = -1;
        ck_assert_msg(end, "%s: the last line is cut off", path);
        const size_t first = strspn(line, "0123456789abcdef"), second = strspn(line + first + 1, "0123456789abcdef");
        ck_assert_msg(first && second && line[first] == ' ' && line[first + 1 + second] == ' ', "%s: %s", path, line);
        ck_assert_int_eq(sscanf(line, "%" SCNx64 " %" SCNx64 " %n", &named.at, &named.bytes, &used), 2);
        ck_assert_int_eq(used, (int)(first + second) + 2);
        snprintf(named.name, sizeof named.name, "%.*s", (int)(end - line) - used, line + used);
        add_named(files, named);
        line = end + 1;
    }
    free(text);
    return true;
}

static inline uint32_t u32_at(const char *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t u64_at(const char *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* A record JIT_CODE_LOAD of `bytes` bytes, which has number `index`. */
static inline void read_load(JitFiles *files, const char *at, uint32_t bytes, pid_t pid) {
    enum { LOAD_HEAD = 56 };
    ck_assert_uint_gt(bytes, LOAD_HEAD);
    ck_assert_uint_eq(u32_at(at + 16), (uint32_t)pid);
    ck_assert_uint_gt(u32_at(at + 20), 0); /* the thread */
    NamedCode named = {.at = u64_at(at + 32), .bytes = u64_at(at + 40)};
    ck_assert_uint_eq(u64_at(at + 24), named.at); /* mapped where it runs */
    ck_assert_uint_eq(u64_at(at + 48), (uint64_t)files->n);
    const char *const name = at + LOAD_HEAD, *const end = memchr(name, 0, bytes - LOAD_HEAD);
    ck_assert_ptr_nonnull(end);
    snprintf(named.name, sizeof named.name, "%s", name);
    ck_assert_uint_eq((uint64_t)(end + 1 - at) + named.bytes, bytes);
    named.code = (const uint8_t *)end + 1;
    add_named(files, named);
}

static inline bool read_jitdump(const char *folder, pid_t pid, JitFiles *files) {
    enum { LOAD = 0, CLOSE = 3 };
    char path[512];
    size_t n;
    snprintf(path, sizeof path, "%s/jit-%d.dump", folder, (int)pid);
    char *const bytes = read_all(path, &n);
    static char *kept[32]; /* names and code are read from them later */
    static int n_kept;
    ck_assert_int_lt(n_kept, 32);
    *files = (JitFiles){.bytes = kept[n_kept++] = bytes};
    if (!bytes) return false;
    ck_assert_uint_ge(n, 40);
    ck_assert_uint_eq(u32_at(bytes), 0x4a695444);
    ck_assert_uint_eq(u32_at(bytes + 4), 1);
    ck_assert_uint_eq(u32_at(bytes + 8), 40);
    ck_assert_uint_eq(u32_at(bytes + 12), 62); /* EM_X86_64 */
    ck_assert_uint_eq(u32_at(bytes + 16), 0);
    ck_assert_uint_eq(u32_at(bytes + 20), (uint32_t)pid);
    ck_assert_uint_eq(u64_at(bytes + 32), 0);
    uint64_t time = u64_at(bytes + 24);
    for (size_t at = 40; at < n;) {
        ck_assert_msg(n - at >= 16 && !files->closed, "%s: something behind the last record", path);
        const uint32_t id = u32_at(bytes + at), length = u32_at(bytes + at + 4);
        ck_assert_msg(length >= 16 && length <= n - at, "%s: a record is cut off", path);
        ck_assert_uint_ge(u64_at(bytes + at + 8), time);
        time = u64_at(bytes + at + 8);
        if (id == LOAD) read_load(files, bytes + at, length, pid);
        ck_assert_msg(id == LOAD || (id == CLOSE && length == 16), "%s: record %u of %u bytes", path, id, length);
        files->closed |= id == CLOSE;
        at += length;
    }
    return true;
}

static inline const NamedCode *named_at(const JitFiles *files, uint64_t address) {
    for (int i = files->n - 1; i >= 0; i--) /* the latest that was loaded there */
        if (address - files->named[i].at < files->named[i].bytes) return &files->named[i];
    return NULL;
}

static inline const NamedCode *named_so(const JitFiles *files, const char *name) {
    for (int i = 0; i < files->n; i++)
        if (!strcmp(files->named[i].name, name)) return &files->named[i];
    return NULL;
}

#endif
