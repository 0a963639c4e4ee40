/* code_disk.c: see code_disk.h. Shapes that are decided are not in the key: they follow from nest and machine by code
 * that the version names; those that were measured are in known_by. A version of Sinter's is in every bundle. */
#include "runtime/compile/code_disk.h"

#include "code_version.h"
#include "codegen/shape/machine.h"
#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/error.h"

/* By nest: how many words, and these. */
static int64_t *words_of_all(const CodegenRequest *request, size_t *n) {
    *n = 0;
    for (int i = 0; i < request->n_nests; i++)
        *n += 1 + (size_t)nest_words(request->nests[i], request->bufs[i], NULL, NULL);
    int64_t *const words = mem_alloc(*n * sizeof *words), *at = words;
    for (int i = 0; words && i < request->n_nests; i++) {
        const int count = nest_words(request->nests[i], request->bufs[i], at + 1, NULL);
        *at = count;
        at += 1 + count;
    }
    return words;
}

bool code_disk_signature(const CodegenRequest *request, const char *known_by, DiskSignature *key) {
    size_t n;
    *key = (DiskSignature){0};
    int64_t *const words = words_of_all(request, &n);
    if (!words) {
        error_clear();
        return false;
    }
    key->words = (FileSpan){words, n * sizeof *words};
    text_printf(&key->text, "cpu %s, %d nest%s\n", request->machine->name, request->n_nests,
                request->n_nests == 1 ? "" : "s");
    text_printf(&key->text, "%s%s\n", SINTER_CODE_VERSION, failpoint("code_version") ? " of another build" : "");
    machine_print(request->machine, &key->text);
    text_puts(&key->text, known_by);
    return disk_signature_done(key);
}

void code_disk_signature_free(DiskSignature *key) {
    mem_free((void *)key->words.at);
    disk_signature_free(key);
}
