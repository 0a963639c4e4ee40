/* Dictionaries of tensors and their files (sinter/nn.h): order, many names, what is carried along. */
#include <stdio.h>
#include <unistd.h>

#include "frontend/api/dict.h"
#include "runtime/base/file.h"
#include "tests/unit/contract.h"

static char path[64];

static void use_file(void) {
    snprintf(path, sizeof path, "/tmp/sinter-dict-%ld", (long)getpid());
    unlink(path);
}

static sn_tensor *number(double value) { return sn_full(SN_INTS(1), sn_float(value), SN_F32); }

static void expect_names(sn_dict *d, const char *names) {
    char all[256] = "";
    for (int i = 0; i < sn_dict_count(d); i++) {
        strcat(all, i ? " " : "");
        strcat(all, sn_dict_name(d, i));
    }
    ck_assert_str_eq(all, names);
}

/* Empty tensors have no place in the data that could tell it. */
START_TEST(the_order_is_that_of_the_first_set) {
    use_file();
    sn_dict *const d = sn_dict_new();
    static const char *const names[] = {"z", "b", "a", "m"};
    for (int i = 0; i < COUNT_OF(names); i++)
        sn_dict_set(d, names[i], i % 2 ? number(i) : sn_zeros(SN_INTS(0), SN_F32));
    sn_dict_set(d, "b", number(9));
    expect_names(d, "z b a m");
    ck_assert_int_eq(sn_dict_save(d, path), SN_OK);
    sn_dict *const loaded = sn_dict_load(path);
    expect_names(loaded, "z b a m");
    ck_assert(sn_equal(sn_dict_get(loaded, "b"), number(9)));
    sn_dict_free(loaded);
    sn_dict_free(d);
    unlink(path);
}
END_TEST

/* As fast with 100,000 names as with 10: a look at each of them for each would take minutes. */
START_TEST(many_names_take_no_longer_each) {
    enum { NAMES = 100000 };
    use_file();
    sn_dict *const d = sn_dict_new();
    sn_tensor *const one = number(1);
    char name[32];
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "layer.%d.weight", i);
        ck_assert_int_eq(sn_dict_set(d, name, one), SN_OK);
    }
    ck_assert_int_eq(sn_dict_save(d, path), SN_OK);
    sn_dict *const loaded = sn_dict_load(path);
    ck_assert_int_eq(sn_dict_count(loaded), NAMES);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "layer.%d.weight", i);
        ck_assert_ptr_eq(sn_dict_get(loaded, name), sn_dict_at(loaded, i));
    }
    ck_assert_int_eq(sn_dict_copy(d, loaded), SN_OK);
    sn_dict_free(loaded);
    sn_dict_free(d);
    unlink(path);
}
END_TEST

static void write_header(const char *header, const char *data, size_t n) {
    char length[8] = {0};
    for (int i = 0; i < 8; i++) length[i] = (char)(strlen(header) >> 8 * i);
    ck_assert_int_eq(file_replace(path, (FileSpan[]){{length, 8}, {header, strlen(header)}, {data, n}}, 3), ST_OK);
}

static const char mixed[] = "{\"__metadata__\":{\"format\":\"pt\",\"author\":\"somebody\"},"
                            "\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[4,7]},"
                            "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                            "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[7,15]}}";

START_TEST(metadata_and_unknown_dtypes_are_carried_along) {
    use_file();
    write_header(mixed, "\0\0\x80?123abcdefgh", 15);
    sn_dict *d = sn_dict_load(path);
    expect_names(d, "w");
    ck_assert_str_eq(sn_dict_opaque(d, 0), "q");
    ck_assert_str_eq(sn_dict_opaque(d, 1), "c");
    ck_assert_ptr_null(sn_dict_opaque(d, 2));
    ck_assert_str_eq(sn_dict_metadata(d, "author"), "somebody");
    ck_assert_ptr_null(sn_dict_get(d, "q"));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "'q' has the dtype F8_E4M3"));
    ck_assert_int_eq(sn_dict_set_metadata(d, "author", NULL), SN_OK);
    ck_assert_int_eq(sn_dict_set_metadata(d, "step", "7"), SN_OK);
    sn_dict_set(d, "c", number(2)); /* a tensor takes its place */
    ck_assert_int_eq(sn_dict_save(d, path), SN_OK);
    sn_dict_free(d);

    SafeFile *file;
    ck_assert_int_eq(safetensors_open(path, &file), ST_OK);
    ck_assert_int_eq(file->n, 3);
    ck_assert_str_eq(file->tensors[0].name, "q");
    ck_assert_str_eq(file->tensors[0].dtype_name, "F8_E4M3");
    ck_assert_mem_eq(file->tensors[0].data, "123", 3);
    ck_assert_str_eq(file->tensors[2].dtype_name, "F32");
    safetensors_close(file);
    d = sn_dict_load(path);
    ck_assert_str_eq(sn_dict_metadata_key(d, 0), "format");
    ck_assert_str_eq(sn_dict_metadata_key(d, 1), "step");
    ck_assert_ptr_null(sn_dict_metadata_key(d, 2));
    sn_dict_free(d);
    unlink(path);
}
END_TEST

static void expect_refused(const char *header, const char *why) {
    write_header(header, "abcd", 4);
    ck_assert_ptr_null(sn_dict_load(path));
    const char *const message = sn_error_take()->message;
    ck_assert_msg(strstr(message, why) != NULL, "'%s' does not say '%s'", message, why);
}

START_TEST(what_the_format_does_not_allow_is_refused) {
    use_file();
#define ENTRY(name, dtype) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[1],\"data_offsets\":[0,4]}"
    expect_refused("{" ENTRY("a", "F32") "," ENTRY("a", "F32") "}", "a second entry of tensor a");
    expect_refused("{\"__metadata__\":{\"a\":1}," ENTRY("a", "F32") "}", "is no string");
    expect_refused("{\"__metadata__\":[]," ENTRY("a", "F32") "}", "is no object");
    expect_refused("{" ENTRY("a", "F\\u001b") "}", "bad dtype of tensor a");
    expect_refused("{" ENTRY("\xFF", "F32") "}", "no UTF-8");
    expect_refused("{" ENTRY("a", "X9") "," ENTRY("b", "F32") "}", "a hole or an overlap");
    unlink(path);
}
END_TEST

START_TEST(a_name_that_no_file_can_have_is_an_error) {
    use_file();
    sn_dict *const d = sn_dict_new();
    sn_dict_set(d, "w\xFF\x1B", number(1));
    ck_assert_int_eq(sn_dict_save(d, path), SN_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "'w\\xff\\x1b' is no UTF-8"));
    ck_assert_int_eq(access(path, F_OK), -1);
    sn_dict *const other = sn_dict_new();
    sn_dict_set(other, "__metadata__", number(1));
    ck_assert_int_eq(sn_dict_save(other, path), SN_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "'__metadata__' is the format's own"));
    ck_assert_int_eq(access(path, F_OK), -1);
    sn_dict_free(other);
    ck_assert_int_eq(sn_dict_set_metadata(d, "a", "\xC0"), SN_ERR_ARGUMENT);
    sn_error_take();
    sn_dict_free(d);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_order_is_that_of_the_first_set, many_names_take_no_longer_each,
                                  metadata_and_unknown_dtypes_are_carried_along,
                                  what_the_format_does_not_allow_is_refused, a_name_that_no_file_can_have_is_an_error};
    return contract_main("dict", tests, COUNT_OF(tests));
}
