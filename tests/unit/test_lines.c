/* test_lines.c: what native kernels do line by line, against the rule written out: scans of the last dim [B2.5], the
 * first few of a sort [B2.6], elements that are moved or added at positions [B2.7]. Lines of one chunk and of several,
 * as many as go together and one more, strided and narrow ones. */
#include <stdint.h>

#include "tests/unit/contract.h"

enum { CHUNK = 1024, MOST = 3000 };

static float host[64 * MOST], got[64 * MOST];

static float *values_of(sn_tensor *t, int64_t n) {
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(sn_read(t, got, (size_t)n * sizeof *got), SN_OK);
    return got;
}

static void expect_same(const float *want, sn_tensor *t, int64_t n) {
    ck_assert(!memcmp(values_of(t, n), want, (size_t)n * sizeof *want));
}

/* Scans ---------------------------------------------------------------------------------------- */

static void scan_line(const float *from, int64_t n, bool multiplies, float *to) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t in_chunk = i % CHUNK;
        static float run;
        run = !in_chunk ? from[i] : multiplies ? run * from[i] : run + from[i];
        const float before = i >= CHUNK ? to[i - in_chunk - 1] : 0;
        to[i] = i < CHUNK ? run : multiplies ? before * run : before + run;
    }
}

START_TEST(scans_of_the_last_dim) {
    static const int64_t lines[] = {1, 7, 8, 9, 17}, lengths[] = {1, 5, 1024, 1025, 2500};
    static float want[64 * MOST];
    for (int i = 0; i < 25; i++) {
        const int64_t m = lines[i / 5], n = lengths[i % 5];
        sn_tensor *const x = F32((uint64_t)i, m, n);
        for (int how = 0; how < 2; how++) {
            sn_read(x, host, (size_t)(m * n) * sizeof *host);
            for (int64_t r = 0; r < m; r++) scan_line(host + r * n, n, how, want + r * n);
            expect_same(want, how ? sn_cumprod(x, 1, SN_F32) : sn_cumsum(x, 1, SN_F32), m * n);
        }
    }
}
END_TEST

/* Sorts ---------------------------------------------------------------------------------------- */

/* Few different numbers, so that most are equal; zeros of both signs, NaNs, infinities. */
static sn_tensor *with_equals(uint64_t seed, int64_t m, int64_t n, sn_dtype dtype) {
    static const float special[] = {0, -0.f, NAN, INFINITY, -INFINITY, 1e-40f, -1e-40f};
    fill_floats(host, m * n, seed);
    for (int64_t i = 0; i < m * n; i++) {
        const int kind = (int)(fabsf(host[i]) * 1e6f) % 40;
        host[i] = kind < 7 ? special[kind] : floorf(host[i] * 8);
        if (dtype == SN_I64 && !isfinite(host[i])) host[i] = 3;
    }
    return sn_to(sn_from_data(host, SN_INTS(m, n), SN_F32), dtype);
}

START_TEST(the_first_few_are_those_of_a_sort) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_BF16, SN_I64};
    static const int64_t counts[] = {1, 5, 64, 65, 200};
    for (int i = 0; i < 40; i++) {
        const bool largest = i % 2;
        const int64_t k = counts[i / 2 % 5];
        for (int d = 0; d < 4; d++) {
            sn_tensor *x = with_equals((uint64_t)(i * 4 + d), 5, 300, dtypes[d]), *at, *all_at;
            if (i >= 20) x = sn_t(sn_contiguous(sn_t(x)));
            sn_tensor *const few = sn_topk(x, k, 1, largest, true, &at);
            sn_tensor *const all = sn_sort_stable(x, sn_bool(true), 1, largest, &all_at);
            ck_assert_ptr_nonnull(few);
            ck_assert(same_bits(at, sn_narrow(all_at, 1, 0, k)));
            ck_assert(same_bits(sn_contiguous(few), sn_contiguous(sn_narrow(all, 1, 0, k))));
        }
    }
}
END_TEST

static bool comes_before(double a, double b) { return a < b || (a == a && b != b); }

/* A permutation in which nothing stands before what comes before it, and equal ones ascend. */
static void expect_sorted(const double *x, const int64_t *at, int64_t n, bool descending) {
    static bool seen[MOST];
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < n; i++) {
        ck_assert(at[i] >= 0 && at[i] < n && !seen[at[i]]);
        seen[at[i]] = true;
        if (!i) continue;
        const double left = x[at[i - 1]], right = x[at[i]];
        ck_assert(!(descending ? comes_before(left, right) : comes_before(right, left)));
        ck_assert(comes_before(left, right) || comes_before(right, left) || at[i - 1] < at[i]);
    }
}

/* Lines on both sides of the length from which on they are sorted by bytes. */
START_TEST(sorts_of_short_and_long_lines) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_BF16, SN_I64, SN_U8, SN_BOOL};
    static const int64_t lengths[] = {1, 255, 256, 257, 2900};
    static double x[MOST];
    static int64_t at[MOST];
    for (int i = 0; i < 60; i++) {
        const int64_t n = lengths[i % 5];
        const bool descending = i / 5 % 2;
        sn_tensor *const t = with_equals((uint64_t)i + 7, 1, n, dtypes[i / 10]), *places;
        sn_tensor *const sorted = sn_sort_stable(t, sn_bool(true), 1, descending, &places);
        sn_read(sn_to(t, SN_F64), x, (size_t)n * sizeof *x);
        sn_read(places, at, (size_t)n * sizeof *at);
        expect_sorted(x, at, n, descending);
        ck_assert(same_bits(sorted, sn_gather(t, 1, places)));
    }
}
END_TEST

/* All 64 bits of a key count, the least and the largest among them. */
START_TEST(sorts_of_the_ends_of_i64) {
    static int64_t x[MOST], sorted[MOST];
    for (int64_t i = 0; i < MOST; i++) x[i] = i % 7 ? (int64_t)((uint64_t)i * 0x9e3779b97f4a7c15) : INT64_MAX;
    x[11] = x[2000] = INT64_MIN;
    sn_tensor *const t = sn_from_data(x, SN_INTS(MOST), SN_I64);
    for (int descending = 0; descending < 2; descending++) {
        sn_tensor *places, *const values = sn_sort_stable(t, sn_bool(true), 0, descending, &places);
        sn_read(values, sorted, sizeof sorted);
        for (int i = 1; i < MOST; i++) ck_assert(descending ? sorted[i - 1] >= sorted[i] : sorted[i - 1] <= sorted[i]);
        ck_assert(same_bits(values, sn_gather(t, 0, places)));
    }
}
END_TEST

/* Positions ------------------------------------------------------------------------------------ */

static int64_t where[64 * MOST];

static sn_tensor *positions(uint64_t seed, int64_t m, int64_t n, int64_t size) {
    fill_floats(host, m * n, seed + 99);
    for (int64_t i = 0; i < m * n; i++) where[i] = (int64_t)(fabsf(host[i]) * 1e6f) % size;
    return sn_from_data(where, SN_INTS(m, n), SN_I64);
}

/* Along dim 0 or 1, `adds` or moves; of strided tensors too. */
static void scatters(uint64_t seed, int64_t m, int64_t n, int dim, bool adds, bool strided) {
    static float want[64 * MOST], from[64 * MOST];
    sn_tensor *x = F32(seed, m, n), *y = F32(seed + 1, m, n);
    sn_tensor *at = positions(seed, m, n, dim ? n : m);
    sn_read(x, want, (size_t)(m * n) * sizeof *want);
    sn_read(y, from, (size_t)(m * n) * sizeof *from);
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < n; k++) {
            float *const to = &want[dim ? i * n + where[i * n + k] : where[i * n + k] * n + k];
            *to = adds ? *to + from[i * n + k] : from[i * n + k];
        }
    if (strided) y = sn_t(sn_contiguous(sn_t(y))), at = sn_t(sn_contiguous(sn_t(at)));
    expect_same(want, adds ? sn_scatter_add(x, dim, at, y) : sn_scatter(x, dim, at, y), m * n);
}

START_TEST(elements_at_positions) {
    for (uint64_t i = 0; i < 16; i++) scatters(7 * i, 1 + (int64_t)i * 4, 23, i % 2, i & 2, i & 4);
}
END_TEST

/* Lines of one element each: index_add along the last dim, by 1 and 2 threads. */
START_TEST(rows_of_one_element) {
    static float want[64 * MOST], from[64 * MOST];
    for (int threads = 1; threads < 3; threads++) {
        sn_setting_set("threads", threads == 1 ? "1" : "2");
        for (int64_t n = 5; n < 3000; n += 1491) {
            sn_tensor *const x = F32((uint64_t)n, 61, 40), *const y = F32((uint64_t)n + 1, 61, n);
            sn_tensor *const at = sn_view(positions((uint64_t)n, 1, n, 40), SN_INTS(n));
            sn_read(x, want, 61 * 40 * sizeof *want);
            sn_read(y, from, (size_t)(61 * n) * sizeof *from);
            for (int64_t r = 0; r < 61; r++)
                for (int64_t k = 0; k < n; k++) want[r * 40 + where[k]] += from[r * n + k];
            expect_same(want, sn_index_add(x, 1, at, y), 61 * 40);
        }
    }
    sn_setting_set("threads", "1");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        scans_of_the_last_dim,         the_first_few_are_those_of_a_sort,
        sorts_of_short_and_long_lines, sorts_of_the_ends_of_i64,
        elements_at_positions,         rows_of_one_element,
    };
    return contract_main("test_lines", tests, (int)(sizeof tests / sizeof *tests));
}
