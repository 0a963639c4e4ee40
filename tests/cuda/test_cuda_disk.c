/* test_cuda_disk.c: CUDA programs on disk [5.24]: a second process runs them without NVRTC, eagerly and compiled, with
 * the same bits. */
#include "runtime/cuda/cuda_code.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/unit/process.h"

enum { GPU = SN_CUDA(0) };

static sn_status normalised(sn_frame *f) {
    sn_tensor *const h = sn_gelu(sn_mm(sn_in(f, 0), sn_in(f, 1)));
    return sn_out(f, 0, sn_softmax(h, -1));
}

/* generated, loaded: programs. */
static void runs_on_device(Seen *seen, const void *nvrtc) {
    if (nvrtc) setenv("SINTER_CUDA_NVRTC", nvrtc, 1);
    sn_tensor *const x = F32(1, 6, 40), *const w = F32(2, 40, 33);
    const Twin twin = twin_new(normalised, NULL, NULL, NULL);
    sn_tensor *const want = sn_call1(twin.eager, SN_TENSORS(x, w));
    sn_tensor *const there[] = {sn_to_device(x, GPU), sn_to_device(w, GPU)};
    seen->right = true;
    for (int i = 0; i < 2; i++) { /* eager; compiled */
        sn_function *const fn = i ? twin.fast : twin.eager;
        seen->right &= same_bits(sn_to_device(sn_call1(fn, SN_TENSORS(there[0], there[1])), SN_CPU), want);
    }
    seen->right &= stats_of(twin.fast).graphs == 1 && want;
    seen->generated = cuda_code_counts().compiled;
    seen->loaded = cuda_code_counts().loaded;
    seen->interpreted = nvrtc_opened() != NULL;
    twin_free(twin);
}

START_TEST(a5_24_a_second_process_opens_no_nvrtc) {
    folder_begin();
    const Seen first = run_process(runs_on_device, NULL);
    ck_assert(first.right && first.interpreted);
    ck_assert_int_ge(first.generated, 3);
    ck_assert_int_eq(first.loaded, 0);
    ck_assert_int_eq(first.counts[DISK_stored], first.generated);
    const Seen second = run_process(runs_on_device, "none");
    ck_assert(second.right && !second.interpreted);
    ck_assert_int_eq(second.generated, 0);
    ck_assert_int_eq(second.loaded, first.generated);
    ck_assert_int_eq(second.counts[DISK_hits], first.generated);
    folder_end();
}
END_TEST

/* Changes where NVRTC's version stands, and the digest with it. */
static void change_makers(void) {
    char command[256];
    snprintf(command, sizeof command, "ls %s/*.code", process_folder);
    FILE *const list = popen(command, "r");
    for (char path[256]; fgets(path, sizeof path, list);) {
        char line[BUNDLE_LINE];
        Bundle b;
        path[strcspn(path, "\n")] = '\0';
        ck_assert_int_eq(bundle_open(path, "code", &b), ST_OK);
        memcpy((char *)b.parts[BUNDLE_objects].at, "NVRTC 12.3", 10);
        const FileSpan all[] = {
            {line, bundle_line("code", b.parts, line)}, b.parts[BUNDLE_text], b.parts[BUNDLE_objects]};
        ck_assert_int_eq(file_replace(path, all, 3), ST_OK);
        bundle_close(&b);
    }
    pclose(list);
}

static void runs_beside_nvrtc(Seen *seen, const void *unused) {
    const char *why;
    if (nvrtc_find(&why)) runs_on_device(seen, NULL);
}

START_TEST(a5_24_code_of_another_nvrtc_is_made_anew_where_one_is_open) {
    folder_begin();
    const Seen first = run_process(runs_on_device, NULL);
    change_makers();
    const Seen warm = run_process(runs_on_device, "none");
    ck_assert(warm.right);
    ck_assert_int_eq(warm.loaded, first.generated);
    const Seen other = run_process(runs_beside_nvrtc, NULL);
    ck_assert(other.right);
    ck_assert_int_eq(other.loaded, 0);
    ck_assert_int_eq(other.counts[DISK_unloadable], first.generated);
    ck_assert_int_eq(other.counts[DISK_stored], first.generated);
    folder_end();
}
END_TEST

static void runs_without_both(Seen *seen, const void *unused) {
    setenv("SINTER_CUDA_NVRTC", "none", 1);
    ck_assert_ptr_null(sn_neg(sn_to_device(F32(1, 4), GPU)));
    seen->right = strstr(sn_error_take()->message, "NVRTC") != NULL;
}

START_TEST(without_nvrtc_and_code_the_error_says_what_is_missing) {
    folder_begin();
    const Seen seen = run_process(runs_without_both, NULL);
    ck_assert(seen.right);
    folder_end();
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a5_24_a_second_process_opens_no_nvrtc,
                                  a5_24_code_of_another_nvrtc_is_made_anew_where_one_is_open,
                                  without_nvrtc_and_code_the_error_says_what_is_missing};
    const char *const nvrtc = getenv("SINTER_CUDA_NVRTC");
    if (nvrtc && !strcmp(nvrtc, "none")) return 77;
    return contract_main("test_cuda_disk", tests, COUNT_OF(tests));
}
