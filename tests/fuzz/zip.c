/* zip.c: zip files as torch.export.save writes them: stored entries, aligned to 64 bytes by an extra field (APPNOTE
 * 4.3.7, 4.3.12, 4.3.16). */
#include <stdio.h>

#include "tests/fuzz/export.h"

enum { ALIGNMENT = 64, LOCAL_HEAD = 30, FIELD_HEAD = 4 };
static const char folder[] = "fuzzed/", padding[ALIGNMENT + FIELD_HEAD];

static void put_number(Text *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) text_put(to, (const char[]){(char)(value >> 8 * i & 255)}, 1);
}

static uint32_t checksum(const unsigned char *data, size_t n) {
    uint32_t sum = ~0u;
    for (size_t i = 0; i < n; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
    }
    return ~sum;
}

/* What the head before an entry and its line of the directory have in common. */
static void put_common(Text *to, uint32_t sum, size_t n, size_t name, size_t extra) {
    put_number(to, 0, 2); /* needs no version, no flags, is stored, at no time */
    put_number(to, 0, 2);
    put_number(to, 0, 2);
    put_number(to, 0, 4);
    put_number(to, sum, 4);
    put_number(to, n, 4);
    put_number(to, n, 4);
    put_number(to, name, 2);
    put_number(to, extra, 2);
}

void fz_zip_add(FzZip *zip, const char *name, const void *data, size_t n) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", folder, name);
    const size_t from = zip->bytes.n, head = from + LOCAL_HEAD + strlen(path) + FIELD_HEAD;
    const size_t pad = (ALIGNMENT - head % ALIGNMENT) % ALIGNMENT;
    const uint32_t sum = checksum(data, n);
    put_number(&zip->bytes, 0x04034b50, 4);
    put_common(&zip->bytes, sum, n, strlen(path), FIELD_HEAD + pad);
    text_puts(&zip->bytes, path);
    put_number(&zip->bytes, 0x4246, 2); /* "FB" */
    put_number(&zip->bytes, pad, 2);
    text_put(&zip->bytes, padding, pad);
    text_put(&zip->bytes, data, n);
    put_number(&zip->directory, 0x02014b50, 4);
    put_number(&zip->directory, 0, 2);
    put_common(&zip->directory, sum, n, strlen(path), 0);
    put_number(&zip->directory, 0, 6); /* no comment, disk 0, no inner attributes */
    put_number(&zip->directory, 0, 4); /* no outer ones */
    put_number(&zip->directory, from, 4);
    text_puts(&zip->directory, path);
    zip->n++;
}

bool fz_zip_save(FzZip *zip, const char *path) {
    const size_t from = zip->bytes.n, n = zip->directory.n;
    text_put(&zip->bytes, zip->directory.at, n);
    put_number(&zip->bytes, 0x06054b50, 4);
    put_number(&zip->bytes, 0, 4);
    put_number(&zip->bytes, (uint64_t)zip->n, 2);
    put_number(&zip->bytes, (uint64_t)zip->n, 2);
    put_number(&zip->bytes, n, 4);
    put_number(&zip->bytes, from, 4);
    put_number(&zip->bytes, 0, 2);
    FILE *const file = fopen(path, "wb");
    const bool wrote = file && fwrite(zip->bytes.at, 1, zip->bytes.n, file) == zip->bytes.n;
    const bool closed = file && fclose(file) == 0;
    text_free(&zip->bytes);
    text_free(&zip->directory);
    return wrote && closed;
}
