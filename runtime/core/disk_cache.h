/* disk_cache.h: generated code that outlives the process: one file per entry, found by what the code is of.
 *
 *   DiskSignature key = {.text = "...what it is of, by words...", .words = its structure};
 *   disk_signature_done(&key);
 *   if (disk_load(&key, &code)) ... load it; if that fails: disk_unloadable(&key, why) ...
 *   else ... make code; disk_store(&key, &code);
 *   disk_signature_free(&key);
 *
 * An entry is a bundle of kind "code": its text is the key's, of which the first line says what it is for people; its
 * objects part is the key's words and behind them the code. The hash of a key names the file, and the whole key is
 * compared: any doubt is a miss. Nothing here raises an error, waits for the disk or makes a compile fail; counts and
 * the log (topic compile) say what happened. Thread-safe, and safe beside other processes. */
#ifndef SINTER_RUNTIME_DISK_CACHE_H
#define SINTER_RUNTIME_DISK_CACHE_H
#include "runtime/base/text.h"
#include "runtime/core/bundle.h"
#include "runtime/core/disk_folder.h"

typedef struct DiskSignature {
    Text text;
    FileSpan words; /* borrowed */
    uint64_t hash;
} DiskSignature;
typedef struct DiskCode {
    char *at;
    size_t bytes;
} DiskCode;
/* After text and words are set. False: memory is out, nothing is to be looked for. */
bool disk_signature_done(DiskSignature *key);
void disk_signature_free(DiskSignature *key);

/* out->at: mem_free. False: a miss. */
bool disk_load(const DiskSignature *key, DiskCode *out);
void disk_unloadable(const DiskSignature *key, const char *why); /* what was taken is of no use: it goes */
void disk_store(const DiskSignature *key, const FileSpan *code);

typedef enum DiskCount {
#define DISK(name, text) DISK_##name,
#include "runtime/core/disk_cache.def"
#undef DISK
    DISK_COUNTS
} DiskCount;
int64_t disk_count(DiskCount which); /* of the process */

/* For the tool: an entry as it lies there. */
typedef enum DiskState {
    DISK_whole,
    DISK_stale, /* by another version of Sinter */
    DISK_broken /* not as it was written, not under its own name, or not to be trusted */
} DiskState;
typedef struct DiskLook {
    DiskState state;
    char of[160];          /* what it is of, for people */
    char why[DISK_REASON]; /* of what is not whole */
} DiskLook;
bool disk_look(const DiskFolder *folder, const char *name, DiskLook *out); /* false: it is gone */

#endif
