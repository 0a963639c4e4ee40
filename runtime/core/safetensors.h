/* safetensors.h: a strict reader and a writer of safetensors files (the format's own README): an 8-byte little-endian
 * header length, a JSON header, then the tensors' bytes without holes. Used by sn_dict_load/save and the case
 * replayer. */
#ifndef SINTER_RUNTIME_SAFETENSORS_H
#define SINTER_RUNTIME_SAFETENSORS_H
#include "ir/dtype.h"
#include "runtime/base/json.h"
#include "runtime/base/name_index.h"
#include "runtime/base/text.h"

#define SAFE_METADATA "__metadata__" /* no tensor may be called so */

typedef struct SafeTensor {
    const char *name;
    DType dtype;            /* DT_default: one that we do not have (F8_E4M3...); its bytes can still be carried along */
    const char *dtype_name; /* what the file calls it; written where dtype is DT_default */
    int rank;
    const int64_t *sizes;
    const void *data; /* row-major, unaligned */
    size_t bytes;
} SafeTensor;

typedef struct SafeFile {
    Arena *arena;
    const char *content;
    char *owned; /* the same, or NULL */
    size_t bytes;
    const Json *metadata; /* the "__metadata__" object, of strings alone, or NULL */
    int n;
    SafeTensor *tensors; /* in the order of the header */
    NameIndex names;
} SafeFile;

/* Reads the whole file. Raises ST_IO, or ST_PARSE for anything that the format does not allow. What bits an unknown
 * dtype has is nobody's to say, so its shape is not held against its bytes. */
Status safetensors_open(const char *path, SafeFile **out);
/* The same of memory of the caller's, which stays until it is closed. */
Status safetensors_view(const void *content, size_t bytes, SafeFile **out);
/* The same of what is in memory already: takes over the malloc'd content, also where it fails. */
Status safetensors_adopt(char *content, size_t bytes, SafeFile **out);
void safetensors_close(SafeFile *file); /* NULL is allowed */
const SafeTensor *safetensors_find(const SafeFile *file, const char *name);

/* The length and the header alone; the tensors' bytes follow, in order. metadata: pairs key, value. */
void safetensors_print(Text *text, const SafeTensor *tensors, int n, const char *const (*metadata)[2], int n_metadata);
/* Writes next to `path` and renames, so that a reader never sees half a file. */
Status safetensors_save(const char *path, const SafeTensor *tensors, int n, const char *const (*metadata)[2],
                        int n_metadata);

#endif
