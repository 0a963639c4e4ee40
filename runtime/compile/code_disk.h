/* code_disk.h: the code of nests on disk (runtime/core/disk_cache.h): an entry is what one request to LLVM gave, whole.
 * One nest an entry would cost more than it saves: 25 nests of a transformer block take 250 ms as one module and 430 as
 * 25, and 0.3 against 1.9 ms to load. */
#ifndef SINTER_RUNTIME_CODE_DISK_H
#define SINTER_RUNTIME_CODE_DISK_H
#include "codegen/codegen.h"
#include "runtime/core/disk_cache.h"

/* What the code of a request is of: each nest's words (nest_words) in order, the machine, the versions, and
 * known_by, what else it is known by: lines. The names of its functions go by their order. False: memory is out. */
bool code_disk_signature(const CodegenRequest *request, const char *known_by, DiskSignature *key);
void code_disk_signature_free(DiskSignature *key);

#endif
