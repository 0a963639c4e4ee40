/* bundle.h: the file of compiled work, for plans (sn_plan_save) and caches: one line, then three parts.
 *
 *     sinter plan, format 4, version 0x000100, digest 0123456789abcdef, text 5120, tensors 33312, objects 0
 *     ...the parts, one after the other
 *
 * text: plans, guards, what they are of; tensors: safetensors; objects: object bytes of some machine, which a reader
 * that has no use for them passes over (disk_cache.h says what the cache's files have there). The digest is of the kind
 * and all parts. A file of another format or version of Sinter, and one that is not as it was written, is refused. */
#ifndef SINTER_RUNTIME_BUNDLE_H
#define SINTER_RUNTIME_BUNDLE_H
#include "runtime/base/file.h"
#include "runtime/base/file_map.h"

typedef enum BundleSection { BUNDLE_text, BUNDLE_tensors, BUNDLE_objects, BUNDLE_SECTIONS } BundleSection;

typedef struct Bundle {
    char *content;                   /* that it owns, or NULL */
    FileMap *map;                    /* the same */
    char head[256];                  /* the first line, and what follows */
    FileSpan parts[BUNDLE_SECTIONS]; /* within content */
    char *text;                      /* that part with a NUL behind it */
} Bundle;

enum { BUNDLE_LINE = 256 };
/* The first line of a file of these parts: how many bytes of `line` it is. kind: a word. */
size_t bundle_line(const char *kind, const FileSpan parts[BUNDLE_SECTIONS], char line[BUNDLE_LINE]);
/* How many bytes that will be; the contents do not count. */
size_t bundle_line_bytes(const char *kind, const FileSpan parts[BUNDLE_SECTIONS]);
/* The part of tensors is written from n pieces, one behind the other, as long together as it says; `at` is not read. */
Status bundle_save(const char *path, const char *kind, const FileSpan parts[BUNDLE_SECTIONS], const FileSpan *tensors,
                   int n);
/* A file that is mapped: its parts may be written, and stay while the map is retained. Raises ST_IO, or ST_PARSE naming
 * the file. */
Status bundle_open(const char *path, const char *kind, Bundle *out);
/* Memory of the caller's, which stays until bundle_close. */
Status bundle_view(const void *content, size_t bytes, const char *name, const char *kind, Bundle *out);
/* The same of a content that file_read or the like gave, and takes it. *other, which may be NULL: it is refused for its
 * format or version alone. */
Status bundle_adopt(char *content, size_t bytes, const char *path, const char *kind, bool *other, Bundle *out);
void bundle_close(Bundle *bundle);

#endif
