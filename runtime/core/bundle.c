/* bundle.c: see bundle.h. */
#include "runtime/core/bundle.h"

#include <inttypes.h>
#include <sinter/base.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

/* It changes with the parts, and where what a plan says computes other bits than before: 2, since elementary functions
 * are primitives with bounds; 3, since gelu is one; 4, since squares of norms are added in a wider type. */
enum { BUNDLE_FORMAT = 4 };

static const char *const section_names[BUNDLE_SECTIONS] = {"text", "tensors", "objects"};

/* hash_bytes of pieces, as if they lay one behind the other: words may reach over their ends. */
typedef struct PieceHash {
    uint64_t hash, word;
    size_t n; /* bytes of the word so far */
} PieceHash;

static void add_piece(PieceHash *h, const FileSpan *piece) {
    const unsigned char *at = piece->at, *const end = at + piece->bytes;
    while (at < end) {
        const size_t left = sizeof h->word - h->n, n = (size_t)(end - at) < left ? (size_t)(end - at) : left;
        memcpy((char *)&h->word + h->n, at, n);
        at += n, h->n += n;
        if (h->n < sizeof h->word) return;
        h->hash = hash_mix(h->hash, h->word);
        h->word = h->n = 0;
    }
}

static uint64_t hash_pieces(uint64_t seed, size_t bytes, const FileSpan *pieces, int n) {
    PieceHash h = {.hash = hash_mix(seed, bytes)};
    for (int i = 0; i < n; i++) add_piece(&h, &pieces[i]);
    return hash_mix(h.hash, h.word);
}

/* tensors: that part in pieces. */
static uint64_t digest_of(const char *kind, const FileSpan *parts, const FileSpan *tensors, int n) {
    uint64_t hash = hash_bytes(BUNDLE_FORMAT, kind, strlen(kind));
    for (int i = 0; i < BUNDLE_SECTIONS; i++) {
        const uint64_t seed = hash_mix(hash, parts[i].bytes);
        hash = i == BUNDLE_tensors ? hash_pieces(seed, parts[i].bytes, tensors, n)
                                   : hash_bytes(seed, parts[i].at, parts[i].bytes);
    }
    return hash;
}

static uint64_t digest_of_parts(const char *kind, const FileSpan *parts) {
    return digest_of(kind, parts, &parts[BUNDLE_tensors], 1);
}

static int print_bundle_line(char *line, const char *kind, const FileSpan *parts, uint64_t digest) {
    int n = snprintf(line, BUNDLE_LINE, "sinter %.32s, format %d, version 0x%06x, digest %016" PRIx64, kind,
                     BUNDLE_FORMAT, SN_VERSION, digest);
    for (int i = 0; i < BUNDLE_SECTIONS; i++)
        n += snprintf(line + n, BUNDLE_LINE - (size_t)n, ", %s %zu", section_names[i], parts[i].bytes);
    n += snprintf(line + n, BUNDLE_LINE - (size_t)n, "\n");
    return n;
}

size_t bundle_line(const char *kind, const FileSpan parts[BUNDLE_SECTIONS], char line[BUNDLE_LINE]) {
    return (size_t)print_bundle_line(line, kind, parts, digest_of_parts(kind, parts));
}

size_t bundle_line_bytes(const char *kind, const FileSpan parts[BUNDLE_SECTIONS]) {
    char line[BUNDLE_LINE];
    return (size_t)print_bundle_line(line, kind, parts, 0);
}

Status bundle_save(const char *path, const char *kind, const FileSpan parts[BUNDLE_SECTIONS], const FileSpan *tensors,
                   int n) {
    char line[BUNDLE_LINE];
    FileSpan *const all = mem_alloc(sizeof *all * (size_t)(n + BUNDLE_SECTIONS));
    if (!all) return ST_MEMORY;
    all[0] = (FileSpan){line, (size_t)print_bundle_line(line, kind, parts, digest_of(kind, parts, tensors, n))};
    all[1] = parts[BUNDLE_text];
    if (n) memcpy(&all[2], tensors, sizeof *tensors * (size_t)n);
    all[2 + n] = parts[BUNDLE_objects];
    const Status status = file_replace(path, all, n + BUNDLE_SECTIONS);
    mem_free(all);
    return status;
}

static Status refuse_file(const char *path, const char *kind, const char *why) {
    return error_raise(ST_PARSE, "'%s' is no saved %s of this version of Sinter: %s", path, kind, why);
}

/* Line by line would allow other spellings: the line is printed again and compared. */
static Status find_parts(Bundle *b, const char *all, size_t bytes, const char *path, const char *kind, bool *other) {
    char line[BUNDLE_LINE], head[64];
    size_t n[BUNDLE_SECTIONS];
    unsigned format, version;
    uint64_t digest;
    snprintf(head, sizeof head, "sinter %.32s, format ", kind);
    const char *const content = b->head;
    if (strncmp(content, head, strlen(head))) return refuse_file(path, kind, "it begins otherwise");
    const int known = sscanf(content + strlen(head),
                             "%9u, version 0x%8x, digest %16" SCNx64 ", text %18zu, tensors %18zu, objects %18zu",
                             &format, &version, &digest, &n[0], &n[1], &n[2]);
    *other = (known >= 1 && format != BUNDLE_FORMAT) || (known >= 2 && version != SN_VERSION);
    if (known >= 1 && format != BUNDLE_FORMAT) return refuse_file(path, kind, "it has another format");
    if (known >= 2 && version != SN_VERSION) return refuse_file(path, kind, "another version wrote it");
    if (known != 6) return refuse_file(path, kind, "its first line is damaged");
    for (int i = 0; i < BUNDLE_SECTIONS; i++) b->parts[i].bytes = n[i];
    const size_t start = (size_t)print_bundle_line(line, kind, b->parts, digest);
    if (strncmp(content, line, start)) return refuse_file(path, kind, "its first line is damaged");
    if (start + n[0] + n[1] + n[2] != bytes) return refuse_file(path, kind, "its length is not what it says");
    const char *at = all + start;
    for (int i = 0; i < BUNDLE_SECTIONS; at += n[i++]) b->parts[i].at = at;
    return digest_of_parts(kind, b->parts) == digest ? ST_OK : refuse_file(path, kind, "it is damaged");
}

/* b: what owns the bytes, which goes where this fails. */
static Status open_parts(Bundle b, const char *all, size_t bytes, const char *path, const char *kind, bool *other,
                         Bundle *out) {
    memcpy(b.head, all ? all : "", bytes < sizeof b.head ? bytes : sizeof b.head - 1);
    Status status = find_parts(&b, all, bytes, path, kind, other);
    const size_t n = b.parts[BUNDLE_text].bytes;
    if (status == ST_OK && !(b.text = mem_alloc(n + 1))) status = ST_MEMORY;
    if (status == ST_OK) {
        memcpy(b.text, b.parts[BUNDLE_text].at, n);
        b.text[n] = '\0';
        *out = b;
        return ST_OK;
    }
    bundle_close(&b);
    return status;
}

Status bundle_adopt(char *content, size_t bytes, const char *path, const char *kind, bool *other, Bundle *out) {
    bool unused;
    return open_parts((Bundle){.content = content}, content, bytes, path, kind, other ? other : &unused, out);
}

Status bundle_open(const char *path, const char *kind, Bundle *out) {
    bool unused;
    FileMap *map;
    TRY(file_map(path, &map));
    return open_parts((Bundle){.map = map}, map->at, map->bytes, path, kind, &unused, out);
}

Status bundle_view(const void *content, size_t bytes, const char *name, const char *kind, Bundle *out) {
    bool unused;
    return open_parts((Bundle){0}, content, bytes, name, kind, &unused, out);
}

void bundle_close(Bundle *b) {
    mem_free(b->content);
    file_map_release(b->map);
    mem_free(b->text);
    *b = (Bundle){0};
}
