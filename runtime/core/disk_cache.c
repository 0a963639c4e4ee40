/* disk_cache.c: see disk_cache.h. The folder is opened, and so checked, for each look: that costs microseconds, where
 * what is saved costs milliseconds, and a folder that comes, goes or changes its owner is seen. How large it is, is
 * looked at when a process has added a sixteenth of what it may hold, and at its first store. */
#include "runtime/core/disk_cache.h"

#include <stdatomic.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"

static _Atomic int64_t counts[DISK_COUNTS];
static _Atomic int64_t unlooked = -1; /* bytes stored since the folder's size was looked at; -1: it never was */

int64_t disk_count(DiskCount which) { return atomic_load(&counts[which]); }

static const char *const count_texts[DISK_COUNTS] = {
#define DISK(name, text) text,
#include "runtime/core/disk_cache.def"
#undef DISK
};

static void count_event(DiskCount which, const DiskSignature *key, const char *why) {
    atomic_fetch_add(&counts[which], 1);
    LOG(compile, INFO, "code on disk: %s%s%s: %.*s", count_texts[which], why && why[0] ? ": " : "", why ? why : "",
        (int)strcspn(text_str(&key->text), "\n"), text_str(&key->text));
}

/* Said once, and of the default, which nobody asked for, only to those who look. */
static void warn_of_folder(const DiskFolder *folder, const char *why) {
    static atomic_bool said;
    if (!folder->is_default && !atomic_exchange(&said, true))
        LOG(compile, WARNING, "no code is kept on disk: %s%s%s", why ? folder->path : folder->why, why ? ": " : "",
            why ? why : "");
}

/* keys ---------------------------------------------------------------------------------------- */

static uint64_t hash_parts(const char *text, size_t n, const void *words, size_t bytes) {
    return hash_bytes(hash_bytes(0, text, n), words, bytes);
}

/* The last line: what of the objects part is the key's. */
static size_t words_of(const char *text) {
    const char *last = strstr(text, "\nwords ");
    for (const char *next; last && (next = strstr(last + 1, "\nwords "));) last = next;
    size_t words = 0;
    return last && sscanf(last, "\nwords %18zu", &words) == 1 ? words : 0;
}

bool disk_signature_done(DiskSignature *key) {
    text_printf(&key->text, "words %zu\n", key->words.bytes);
    key->hash = failpoint("one_hash") ? 1 : hash_parts(key->text.at, key->text.n, key->words.at, key->words.bytes);
    if (error_pending() != ST_MEMORY) return true;
    error_clear();
    return false;
}

void disk_signature_free(DiskSignature *key) { text_free(&key->text); }

static bool same_part(const FileSpan *part, const void *at, size_t bytes) {
    return part->bytes >= bytes && (!bytes || !memcmp(part->at, at, bytes));
}

static bool is_of(const Bundle *b, const DiskSignature *key) {
    return b->parts[BUNDLE_text].bytes == key->text.n && same_part(&b->parts[BUNDLE_text], key->text.at, key->text.n) &&
           same_part(&b->parts[BUNDLE_objects], key->words.at, key->words.bytes);
}

/* entries ------------------------------------------------------------------------------------- */

/* A copy, as loaders want it aligned. */
static bool copy_code(const FileSpan *objects, const DiskSignature *key, DiskCode *out) {
    out->bytes = objects->bytes - key->words.bytes;
    out->at = mem_alloc(out->bytes);
    if (out->at) memcpy(out->at, (const char *)objects->at + key->words.bytes, out->bytes);
    return out->at;
}

static bool load_from(const DiskFolder *folder, const DiskSignature *key, DiskCode *out) {
    char name[DISK_NAME], *content;
    size_t bytes;
    const char *why;
    disk_file_name(key->hash, name);
    if (!disk_file_read(folder, name, &content, &bytes, &why)) {
        count_event(why ? DISK_refused : DISK_absent, key, why);
        return false;
    }
    bool other = false;
    Bundle bundle;
    if (bundle_adopt(content, bytes, name, "code", &other, &bundle) != ST_OK) {
        count_event(other ? DISK_other : DISK_damaged, key, error_slot()->message);
        return false;
    }
    const bool same = is_of(&bundle, key), taken = same && copy_code(&bundle.parts[BUNDLE_objects], key, out);
    bundle_close(&bundle);
    if (taken) disk_file_used(folder, name);
    if (taken || !same) count_event(taken ? DISK_hits : DISK_other, key, NULL);
    return taken;
}

/* Whatever failed here, the compile goes on. */
static void restore_error(Status before) {
    if (before == ST_OK) error_clear();
}

bool disk_load(const DiskSignature *key, DiskCode *out) {
    DiskFolder folder;
    const Status before = error_pending();
    if (!disk_folder_open(false, &folder)) {
        if (!folder.off) count_event(folder.absent ? DISK_absent : DISK_refused, key, folder.why);
        return false;
    }
    const bool taken = load_from(&folder, key, out);
    disk_folder_close(&folder);
    restore_error(before);
    return taken;
}

void disk_unloadable(const DiskSignature *key, const char *why) {
    DiskFolder folder;
    char name[DISK_NAME];
    count_event(DISK_unloadable, key, why);
    if (!disk_folder_open(false, &folder)) return;
    disk_file_name(key->hash, name);
    disk_file_remove(&folder, name);
    disk_folder_close(&folder);
}

/* A quarter is made free, so that not each store has to look. */
static void bound_folder(const DiskFolder *folder, int64_t bytes, int64_t most) {
    const int64_t since = atomic_load(&unlooked);
    if (since >= 0 && atomic_fetch_add(&unlooked, bytes) + bytes <= most / 16) return;
    atomic_store(&unlooked, 0);
    const int n = disk_folder_shrink(folder, most, most / 4 * 3);
    atomic_fetch_add(&counts[DISK_evicted], n);
    if (n) LOG(compile, INFO, "code on disk: %d entries removed, the longest unused", n);
}

static bool store_in(const DiskFolder *folder, const DiskSignature *key, const FileSpan *code, int64_t most,
                     const char **why) {
    char line[BUNDLE_LINE], name[DISK_NAME];
    Text objects = {0};
    text_put(&objects, key->words.at, key->words.bytes);
    text_put(&objects, code->at, code->bytes);
    const FileSpan parts[BUNDLE_SECTIONS] = {
        [BUNDLE_text] = {key->text.at, key->text.n}, [BUNDLE_objects] = {objects.at, objects.n}};
    const FileSpan all[] = {{line, bundle_line("code", parts, line)}, parts[BUNDLE_text], parts[BUNDLE_objects]};
    const int64_t bytes = (int64_t)(all[0].bytes + all[1].bytes + all[2].bytes);
    disk_file_name(key->hash, name);
    *why = objects.n != key->words.bytes + code->bytes ? "out of memory" : bytes > most ? "it is too large" : NULL;
    const bool stored = !*why && disk_file_write(folder, name, all, COUNT_OF(all), why);
    text_free(&objects);
    if (stored) bound_folder(folder, bytes, most);
    return stored;
}

void disk_store(const DiskSignature *key, const FileSpan *code) {
    DiskFolder folder;
    const Status before = error_pending();
    const int64_t most = disk_bytes_most();
    const char *why;
    if (!disk_folder_open(true, &folder)) {
        if (folder.off) return;
        warn_of_folder(&folder, NULL);
        count_event(DISK_not_stored, key, folder.why);
        return;
    }
    const bool stored = store_in(&folder, key, code, most, &why);
    count_event(stored ? DISK_stored : DISK_not_stored, key, stored ? NULL : why);
    if (!stored) warn_of_folder(&folder, why);
    disk_folder_close(&folder);
    restore_error(before);
}

/* for the tool -------------------------------------------------------------------------------- */

static bool name_fits(const Bundle *b, const char *name) {
    char expected[DISK_NAME];
    const FileSpan *const text = &b->parts[BUNDLE_text], *const objects = &b->parts[BUNDLE_objects];
    const size_t words = words_of(b->text);
    if (words > objects->bytes) return false;
    disk_file_name(hash_parts(text->at, text->bytes, objects->at, words), expected);
    return !strcmp(expected, name);
}

static void look_into(const Bundle *b, const char *name, DiskLook *look) {
    snprintf(look->of, sizeof look->of, "%.*s", (int)min_i64((int64_t)strcspn(b->text, "\n"), 150), b->text);
    if (name_fits(b, name)) return;
    look->state = DISK_broken;
    snprintf(look->why, sizeof look->why, "its name is not that of what is in it");
}

bool disk_look(const DiskFolder *folder, const char *name, DiskLook *out) {
    char *content;
    size_t bytes;
    const char *refused;
    bool other = false;
    Bundle bundle;
    *out = (DiskLook){.state = DISK_whole};
    if (!disk_file_read(folder, name, &content, &bytes, &refused)) {
        out->state = DISK_broken;
        snprintf(out->why, sizeof out->why, "%s", refused ? refused : "");
        return refused;
    }
    if (bundle_adopt(content, bytes, name, "code", &other, &bundle) == ST_OK) {
        look_into(&bundle, name, out);
        bundle_close(&bundle);
        return true;
    }
    out->state = other ? DISK_stale : DISK_broken;
    snprintf(out->why, sizeof out->why, "%.*s", DISK_REASON - 1, error_slot()->message);
    error_clear();
    return true;
}
