/* cuda_disk.c: see cuda_disk.h. The text of a program says all that its code depends on, but the architecture, the
 * options and the prelude, which is always the same and stands in the key as a digest. Which NVRTC made code is known
 * where one is open; opening it to ask would cost more than loading the code, so the version stands before the code,
 * and a process that runs on kept code alone takes that of any. */
#include "runtime/cuda/cuda_disk.h"

#include <inttypes.h>
#include <sinter/base.h>
#include <stdio.h>

#include "kernels/cuda/prelude.h"
#include "runtime/base/alloc.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/core/settings.h"

enum { MAKER_BYTES = 32 };

/* Of another driver than the machine's (an emulated one) code is of another kind. */
static void print_driver(Text *text) {
    const char *const driver = environment("SINTER_CUDA_DRIVER");
    if (driver && driver[0]) text_printf(text, "driver %s\n", driver);
}

bool cuda_disk_signature(int arch, const char *name, const Text *source, DiskSignature *key) {
    *key = (DiskSignature){0};
    text_printf(&key->text, "cuda sm_%d, %s\nversion 0x%06x, prelude %016" PRIx64 ", ", arch, name, SN_VERSION,
                hash_bytes(0, cuda_prelude, strlen(cuda_prelude)));
    nvrtc_options_print(&key->text);
    text_puts(&key->text, "\n");
    print_driver(&key->text);
    text_put(&key->text, source->at, source->n);
    return disk_signature_done(key);
}

static void print_maker(const Nvrtc *nvrtc, char maker[MAKER_BYTES]) {
    memset(maker, 0, MAKER_BYTES);
    snprintf(maker, MAKER_BYTES, "NVRTC %d.%d", nvrtc->major, nvrtc->minor);
}

static const char *made_by_another(const DiskCode *cached) {
    char maker[MAKER_BYTES];
    if (cached->bytes <= MAKER_BYTES) return "it is too short";
    if (!nvrtc_opened()) return NULL;
    print_maker(nvrtc_opened(), maker);
    return memcmp(cached->at, maker, MAKER_BYTES) ? "another NVRTC made it" : NULL;
}

bool cuda_disk_load(const DiskSignature *key, CudaCode *out) {
    DiskCode cached;
    if (!disk_load(key, &cached)) return false;
    const char *const why = made_by_another(&cached);
    if (why) {
        disk_unloadable(key, why);
        mem_free(cached.at);
        return false;
    }
    memmove(cached.at, cached.at + MAKER_BYTES, cached.bytes - MAKER_BYTES);
    *out = (CudaCode){.bytes = cached.at, .n = cached.bytes - MAKER_BYTES};
    return true;
}

void cuda_disk_store(const DiskSignature *key, const CudaCode *code) {
    char maker[MAKER_BYTES];
    Text text = {0};
    print_maker(nvrtc_opened(), maker);
    text_put(&text, maker, sizeof maker);
    text_put(&text, code->bytes, code->n);
    const FileSpan whole = {text.at, text.n};
    if (text.n == MAKER_BYTES + code->n) disk_store(key, &whole);
    text_free(&text);
    if (error_pending() == ST_MEMORY) error_clear();
}
