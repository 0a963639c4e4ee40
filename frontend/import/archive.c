/* archive.c: reads the end record, its 64-bit twin where there is one, then the central directory, one entry after the
 * other. Every offset and length is held against the file's size before it is used; what a local header adds is only
 * how long it is. */
#include "frontend/import/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/name_index.h"

struct Archive {
    _Atomic int refs;
    Arena *arena;
    unsigned char *at;
    size_t bytes;
    VEC(ArchiveEntry) entries;
    NameIndex names;
};

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    LONGEST_COMMENT = 0xFFFF,
    MOST_ENTRIES = 1 << 20
};
static const uint32_t END_MARK = 0x06054b50, END64_MARK = 0x06064b50, LOCATOR_MARK = 0x07064b50,
                      CENTRAL_MARK = 0x02014b50, LOCAL_MARK = 0x04034b50, IN_64_BITS = 0xFFFFFFFF;

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

static Status zip_damaged(const char *what) { return error_raise(ST_PARSE, "no zip file that can be read: %s", what); }

/* The bytes from `from` on, if the file has `n` of them. */
static const unsigned char *file_part(const Archive *a, uint64_t from, uint64_t n) {
    return from <= a->bytes && n <= a->bytes - from ? a->at + from : NULL;
}

/* What the end record, or its twin, says of the directory. */
typedef struct Directory {
    uint64_t n, bytes, from;
} Directory;

static const unsigned char *find_end(const Archive *a) {
    if (a->bytes < END_BYTES) return NULL;
    const size_t last = a->bytes - END_BYTES, first = last > LONGEST_COMMENT ? last - LONGEST_COMMENT : 0;
    for (size_t i = last + 1; i-- > first;)
        if (number(a->at + i, 4) == END_MARK) return a->at + i;
    return NULL;
}

static Status read_end64(const Archive *a, const unsigned char *end, Directory *out) {
    const size_t before = (size_t)(end - a->at);
    const unsigned char *const locator = before < LOCATOR_BYTES ? NULL : end - LOCATOR_BYTES;
    if (!locator || number(locator, 4) != LOCATOR_MARK) return zip_damaged("its 64-bit end record is not told");
    const unsigned char *const wide = file_part(a, number(locator + 8, 8), END64_BYTES);
    if (!wide || number(wide, 4) != END64_MARK) return zip_damaged("its 64-bit end record is not where it should be");
    *out = (Directory){number(wide + 32, 8), number(wide + 40, 8), number(wide + 48, 8)};
    return ST_OK;
}

static Status read_end(const Archive *a, Directory *out) {
    const unsigned char *const end = find_end(a);
    if (!end) return zip_damaged("it has no end record");
    *out = (Directory){number(end + 10, 2), number(end + 12, 4), number(end + 16, 4)};
    if (number(end + 4, 2) || number(end + 6, 2)) return zip_damaged("it is one of several parts");
    return out->n == 0xFFFF || out->bytes == IN_64_BITS || out->from == IN_64_BITS ? read_end64(a, end, out) : ST_OK;
}

/* One record of the directory. */
typedef struct Central {
    uint64_t flags, method, packed, bytes, from;
    size_t name_bytes, extra_bytes, comment_bytes;
    const unsigned char *name;
} Central;

/* Numbers that don't fit 32 bits stand in the extra field 1, in order, those alone. */
static Status read_wide(Central *c, const unsigned char *extra) {
    uint64_t *const wanted[] = {&c->bytes, &c->packed, &c->from};
    const unsigned char *at = extra, *const end = extra + c->extra_bytes;
    while (end - at >= 4 && number(at, 2) != 1) {
        const size_t skip = 4 + (size_t)number(at + 2, 2);
        if (skip > (size_t)(end - at)) return zip_damaged("an extra field is cut off");
        at += skip;
    }
    const size_t n = end - at >= 4 ? (size_t)number(at + 2, 2) : 0;
    if (n > (size_t)(end - at)) return zip_damaged("an extra field is cut off");
    const unsigned char *value = at + 4;
    for (int i = 0; i < COUNT_OF(wanted); i++) {
        if (*wanted[i] != IN_64_BITS) continue;
        if (end - at < 4 || value + 8 > at + 4 + n) return zip_damaged("a 64-bit size is missing");
        *wanted[i] = number(value, 8);
        value += 8;
    }
    return ST_OK;
}

static Status read_central(const Archive *a, uint64_t from, uint64_t limit, Central *out) {
    const unsigned char *const at =
        from <= limit && limit - from >= CENTRAL_BYTES ? file_part(a, from, CENTRAL_BYTES) : NULL;
    if (!at || number(at, 4) != CENTRAL_MARK) return zip_damaged("its directory is cut off or zip_damaged");
    *out = (Central){.flags = number(at + 8, 2),
                     .method = number(at + 10, 2),
                     .packed = number(at + 20, 4),
                     .bytes = number(at + 24, 4),
                     .from = number(at + 42, 4),
                     .name_bytes = (size_t)number(at + 28, 2),
                     .extra_bytes = (size_t)number(at + 30, 2),
                     .comment_bytes = (size_t)number(at + 32, 2)};
    const size_t behind = out->name_bytes + out->extra_bytes + out->comment_bytes;
    if (limit - from - CENTRAL_BYTES < behind || !file_part(a, from + CENTRAL_BYTES, behind))
        return zip_damaged("its directory is cut off");
    out->name = at + CENTRAL_BYTES;
    return read_wide(out, out->name + out->name_bytes);
}

static Status add_entry(Archive *a, const Central *c) {
    char *const name = arena_alloc(a->arena, c->name_bytes + 1);
    if (!name) return ST_MEMORY;
    memcpy(name, c->name, c->name_bytes);
    if (strlen(name) != c->name_bytes) return zip_damaged("an entry's name has a NUL");
    if (c->flags & 1) return error_raise(ST_UNSUPPORTED, "the entry '%s' is encrypted", name);
    if (c->method)
        return error_raise(ST_UNSUPPORTED,
                           "the entry '%s' is compressed (method %d): torch.export.save compresses none", name,
                           (int)c->method);
    const unsigned char *const local = file_part(a, c->from, LOCAL_BYTES);
    if (!local || number(local, 4) != LOCAL_MARK || c->packed != c->bytes)
        return error_raise(ST_PARSE, "the entry '%s' is not where the directory says", name);
    const uint64_t data = c->from + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
    if (!file_part(a, data, c->bytes)) return error_raise(ST_PARSE, "the entry '%s' is cut off", name);
    VEC_PUSH(a->arena, &a->entries, ((ArchiveEntry){name, a->at + data, (size_t)c->bytes}));
    return error_pending();
}

/* The folder that all names begin with goes; a folder's own entry does, too. */
static Status name_entries(Archive *a) {
    const char *const first = a->entries.n ? a->entries.at[0].name : "", *const slash = strchr(first, '/');
    const size_t n = slash ? (size_t)(slash - first) + 1 : 0;
    for (int i = 0; i < a->entries.n; i++) {
        ArchiveEntry *const e = &a->entries.at[i];
        if (strncmp(e->name, first, n)) return zip_damaged("its entries do not lie in one folder");
        e->name += n;
        if (name_index_find(&a->names, e->name) >= 0)
            return error_raise(ST_PARSE, "there are two entries '%s'", e->name);
        TRY(name_index_add(&a->names, e->name));
    }
    return ST_OK;
}

static Status read_directory(Archive *a) {
    Directory all = {0};
    TRY(read_end(a, &all));
    if (!file_part(a, all.from, all.bytes) || all.n > MOST_ENTRIES)
        return zip_damaged("its directory is not where it should be");
    uint64_t from = all.from;
    for (uint64_t i = 0; i < all.n; i++) {
        Central c;
        TRY(read_central(a, from, all.from + all.bytes, &c));
        TRY(add_entry(a, &c));
        from += CENTRAL_BYTES + c.name_bytes + c.extra_bytes + c.comment_bytes;
    }
    return name_entries(a);
}

static Status map_file(Archive *a, const char *path) {
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return error_raise(ST_IO, "cannot open '%s': %s", path, strerror(errno));
    void *at = MAP_FAILED;
    const bool known = !fstat(file, &about), regular = known && S_ISREG(about.st_mode);
    if (regular && about.st_size > 0)
        at = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    const int why = errno;
    close(file);
    if (known && !regular) return error_raise(ST_IO, "'%s' is no regular file", path);
    if (known && !about.st_size) return zip_damaged("it is empty");
    if (at == MAP_FAILED) return error_raise(ST_IO, "cannot map '%s': %s", path, strerror(why));
    a->at = at;
    a->bytes = (size_t)about.st_size;
    return ST_OK;
}

Status archive_open(const char *path, Archive **out) {
    Archive *const a = mem_zero(sizeof *a);
    if (!a) return ST_MEMORY;
    a->refs = 1;
    a->arena = arena_new();
    Status status = a->arena ? map_file(a, path) : ST_MEMORY;
    if (status == ST_OK) status = read_directory(a);
    if (status != ST_OK) return archive_release(a), status;
    *out = a;
    return ST_OK;
}

void archive_retain(Archive *a) { atomic_fetch_add(&a->refs, 1); }

void archive_release(Archive *a) {
    if (!a || atomic_fetch_sub(&a->refs, 1) > 1) return;
    if (a->at) munmap(a->at, a->bytes);
    name_index_free(&a->names);
    arena_free(a->arena);
    mem_free(a);
}

const ArchiveEntry *archive_find(const Archive *a, const char *name) {
    const int i = name_index_find(&a->names, name);
    return i < 0 ? NULL : &a->entries.at[i];
}

int archive_count(const Archive *a) { return a->entries.n; }
const ArchiveEntry *archive_at(const Archive *a, int i) { return &a->entries.at[i]; }
