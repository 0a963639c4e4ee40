/* test_import_damaged.c: .pt2 files that are damaged, or of another kind: an error each, and no more. Bytes of the
 * directory, of names and of the program's text are changed at random in recorded files; a few changes by hand make
 * files of the kinds that are refused by name. */
#define _GNU_SOURCE /* memmem */
#include <sinter/import.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/contract.h"
#include "tests/unit/mutated_text.h"

enum { ROUNDS = 10000, MOST_BYTES = 1 << 20 };
static const char *const damaged[] = {"cond",    "half",    "state_rows", "tied",    "joint",   "tied_wide",
                                      "numbers", "checked", "counts",     "running", "rounded", "scalars"};
enum { DAMAGED = sizeof damaged / sizeof *damaged };

typedef struct Copy {
    unsigned char at[MOST_BYTES];
    size_t n;
} Copy;
static Copy original, copy;
static size_t central, ending, program; /* where the directory and its end record begin, and the program's text */
static unsigned char *find(const char *bytes, size_t n, int nth);

static size_t number_at(size_t at, int bytes) {
    size_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | copy.at[at + (size_t)i];
    return value;
}

static void load(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/pt2/%s.pt2", SINTER_ORACLE, name);
    FILE *const file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    original.n = fread(original.at, 1, MOST_BYTES, file);
    fclose(file);
    ck_assert(original.n && original.n < MOST_BYTES);
    memcpy(&copy, &original, sizeof copy);
    for (ending = copy.n - 22; memcmp(copy.at + ending, "PK\5\6", 4);) ending--;
    central = number_at(ending + 16, 4); /* sample inputs are a zip file inside, with a directory of its own */
    if (central == UINT32_MAX) central = number_at(number_at(ending - 12, 8) + 48, 8);
    program = (size_t)(find("{\"graph_module\"", 15, 0) - copy.at);
}

static char damaged_path[64];

static sn_program *import_copy(void) {
    snprintf(damaged_path, sizeof damaged_path, "/tmp/sinter_damaged_%ld.pt2", (long)getpid());
    FILE *const file = fopen(damaged_path, "wb");
    ck_assert(file && fwrite(copy.at, 1, copy.n, file) == copy.n && !fclose(file));
    sn_program *const p = sn_import(damaged_path, NULL);
    unlink(damaged_path);
    return p;
}

/* The n-th place of these bytes; NULL: there are fewer. */
static unsigned char *find(const char *bytes, size_t n, int nth) {
    for (size_t i = 0; i + n <= copy.n; i++)
        if (!memcmp(copy.at + i, bytes, n) && !nth--) return copy.at + i;
    return NULL;
}

/* Most changes hit the directory (behind the last entry), or the program's text: the rest are values of weights. */
static size_t some_place(void) {
    const uint32_t kind = next_random(8);
    if (kind < 3) return central + next_random((uint32_t)(original.n - central));
    if (kind < 7) return program + next_random((uint32_t)(central - program > 30000 ? 30000 : central - program));
    return next_random((uint32_t)original.n);
}

static void damage(void) {
    static const char letters[] = "0123456789{}[]\":,_-aeinstux\\";
    for (uint32_t n = 1 + next_random(3); n; n--) {
        const size_t at = some_place();
        switch (next_random(5)) {
        case 0:
            copy.at[at] = (unsigned char)next_random(256);
            break;
        case 1:
            copy.at[at] ^= (unsigned char)(1 << next_random(8));
            break;
        case 2: /* a part becomes another one */
            for (size_t k = 0, from = some_place(); k < 8 && at + k < copy.n && from + k < copy.n; k++)
                copy.at[at + k] = original.at[from + k];
            break;
        default:
            copy.at[at] = (unsigned char)letters[next_random(sizeof letters - 1)];
            break;
        }
    }
    if (!next_random(16)) copy.n = next_random((uint32_t)copy.n);
}

/* What still loads is called by nobody: its ops are as wrong as its text. */
START_TEST(damaged_files_are_errors) {
    const char *const asked = getenv("DAMAGED_FILES");
    const int rounds = (asked ? atoi(asked) : ROUNDS) / DAMAGED;
    int loaded = 0, refused = 0;
    random_state = (uint64_t)_i + 1;
    load(damaged[_i]);
    for (int round = 0; round < rounds; round++) {
        memcpy(copy.at, original.at, original.n);
        copy.n = original.n;
        damage();
        sn_program *const p = import_copy();
        ck_assert(!p == (sn_check() != SN_OK));
        const sn_error *const e = sn_error_take();
        if (!p) ck_assert_msg(e->status != SN_ERR_INTERNAL && *e->message, "round %d: %s", round, e->message);
        p ? loaded++ : refused++;
        sn_program_free(p);
    }
    ck_assert_msg(refused > rounds / 4 && loaded, "%d loaded, %d refused", loaded, refused);
}
END_TEST

/* The first place of these from there on. */
static unsigned char *find_from(const unsigned char *from, const char *bytes) {
    return memmem(from, copy.n - (size_t)(from - copy.at), bytes, strlen(bytes));
}

static void refused_as(sn_status status, const char *says) {
    ck_assert_msg(import_copy() == NULL, "not refused: %s", says);
    expect_error(status, says);
}

static void put(unsigned char *at, const char *bytes) {
    ck_assert_ptr_nonnull(at);
    memcpy(at, bytes, strlen(bytes));
}

START_TEST(other_kinds_are_refused_by_name) {
    load("half");
    ck_assert_ptr_nonnull(find("\"major\": 8", 10, 0));
    put(find("\"major\": 8", 10, 0), "\"major\": 9");
    refused_as(SN_ERR_UNSUPPORTED, "the schema of the file has the major version 9, known is 8");
    load("half");
    put(find("\"minor\": ", 9, 0), "\"minor\":9"); /* a later minor one is compatible */
    sn_program *const p = import_copy();
    ck_assert_msg(p != NULL, "%s", sn_error_take()->message);
    sn_program_free(p);

    load("checked"); /* of the cast's operand, what it was in the export */
    unsigned char *const asserted = find("_assert_tensor_metadata", 23, 0);
    ck_assert_ptr_nonnull(asserted);
    put(find_from(asserted, "\"as_scalar_type\": 7"), "\"as_scalar_type\": 6");
    refused_as(SN_ERR_UNSUPPORTED, "dtype of a must be f16, not f32 (torch_export.py:");

    load("tied");
    put(find("\"use_pickle\": false", 19, 0), "\"use_pickle\": true ");
    refused_as(SN_ERR_UNSUPPORTED, "is pickled: a custom object, or a subclass of Tensor");
    load("tied");
    put(find("\"buffer\": {\"arg\"", 15, 0), "\"token\" : {\"arg\"");
    refused_as(SN_ERR_UNSUPPORTED, "an input of the kind 'token'");
    load("half");
    copy.at[central + 10] = 8;
    refused_as(SN_ERR_UNSUPPORTED, "is compressed (method 8)");
    load("half");
    copy.at[central + 8] |= 1;
    refused_as(SN_ERR_UNSUPPORTED, "is encrypted");
    load("half");
    put(find("models/model.json", 17, 1), "data/aotinductor/");
    refused_as(SN_ERR_UNSUPPORTED, "a package of AOTInductor");
    load("half");
    while (find("little", 6, 0)) put(find("little", 6, 0), "bigger"); /* once more in the sample inputs */
    refused_as(SN_ERR_UNSUPPORTED, "numbers are big-endian");
    load("half");
    copy.n /= 2;
    refused_as(SN_ERR_PARSE, "it has no end record");
    copy.n = 0;
    refused_as(SN_ERR_PARSE, "it is empty");
}
END_TEST

/* What a guard says that a size is comes before what it was in the export. */
START_TEST(equal_sizes_are_known_from_guards) {
    static const char asked[] = "L['x'].size()[0] != 5";
    load("guarded");
    unsigned char *const guard = find(asked, sizeof asked - 1, 0);
    ck_assert_ptr_nonnull(guard);
    put(guard, "L['x'].size()[0] == 7");
    sn_program_input in = {.size = sizeof in};
    sn_program *const p = import_copy();
    ck_assert_msg(p != NULL, "%s", sn_error_take()->message);
    ck_assert(sn_program_in(p, 0, &in) == SN_OK);
    ck_assert_int_eq(in.hints[0], 7);
    sn_program_free(p);
}
END_TEST

/* Its one entry is named as the whole program was before PyTorch 2.8. */
START_TEST(files_before_2_8_are_refused) {
    static const char name[] = "m/serialized_exported_program.json";
    load("half");
    unsigned char *const entry = copy.at + central, *const end = copy.at + ending;
    const size_t n = sizeof name - 1;
    end[8] = end[10] = 1, end[9] = end[11] = 0;
    entry[28] = (unsigned char)n, entry[29] = entry[30] = entry[31] = entry[32] = entry[33] = 0;
    memcpy(entry + 46, name, n);
    refused_as(SN_ERR_UNSUPPORTED, "the format before PyTorch 2.8");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("import_damaged");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, damaged_files_are_errors, 0, DAMAGED);
    tcase_add_test(tests, other_kinds_are_refused_by_name);
    tcase_add_test(tests, equal_sizes_are_known_from_guards);
    tcase_add_test(tests, files_before_2_8_are_refused);
    return suite_run("import_damaged", tests);
}
