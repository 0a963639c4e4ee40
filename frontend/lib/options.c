/* options.c: see options.h. */
#include "frontend/lib/options.h"

#include "runtime/base/error.h"

Status options_copy_in(void *known, size_t capacity, const void *given, const char *what) {
    if (!given) return ST_OK;
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return error_raise(ST_ARGUMENT, "%s: options of size %zu; SN_..._OPTIONS(...) sets it", what, size);
    const unsigned char *const bytes = given;
    for (size_t i = capacity; i < size; i++)
        if (bytes[i])
            return error_raise(ST_UNSUPPORTED, "%s: options of %zu bytes, byte %zu set; this library knows %zu", what,
                               size, i, capacity);
    memcpy(known, given, size < capacity ? size : capacity);
    return ST_OK;
}

void options_copy_out(const void *known, size_t capacity, void *out) {
    size_t size;
    memcpy(&size, out, sizeof size);
    memcpy(out, known, size < capacity ? size : capacity);
    memcpy(out, &size, sizeof size);
}
