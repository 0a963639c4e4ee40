/* test_kernels.c: block kernels at every instruction set against scalar references written from ir/scalar.def: edges,
 * tails, casts, loads and stores of every dtype, the canonical reductions, Philox; and digests of every primitive over
 * 64k inputs, which other machines and other days must reproduce [semantics B3, B4, B8]. KERNEL_DIGESTS=1 prints the
 * table of kernel_digests.h. */
#include "tests/unit/kernel_inputs.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

/* ck_assert costs a system call each time it holds; per-element checks pay only when they fail. */
#define EXPECT(condition)          ((condition) ? (void)0 : ck_abort_msg(#condition))
#define EXPECT_MSG(condition, ...) ((condition) ? (void)0 : ck_abort_msg(__VA_ARGS__))

typedef union Value {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    uint8_t b;
} Value;

static Value value_at(SType type, const void *array, int64_t i) {
    Value value = {.i64 = 0};
    memcpy(&value, (const char *)array + i * stype_bytes(type), (size_t)stype_bytes(type));
    return value;
}
static double as_double(SType type, Value v) { return type == S_f32 ? (double)v.f32 : v.f64; }
static int64_t as_int(SType type, Value v) { return type == S_i32 ? v.i32 : type == S_i64 ? v.i64 : v.b; }
static Value of_double(SType type, double x) { return type == S_f32 ? (Value){.f32 = (float)x} : (Value){.f64 = x}; }
static Value of_int(SType type, int64_t x) {
    return type == S_i32 ? (Value){.i32 = (int32_t)x} : type == S_i64 ? (Value){.i64 = x} : (Value){.b = (uint8_t)x};
}

/* NaN if either; equal operands are told apart by sign. */
static double larger(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

static double round_half_even(double x) {
    const double down = floor(x), rest = x - down;
    if (fabs(x) >= 0x1p52 || !isfinite(x)) return x;
    const double result = rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0) ? down + 1 : down;
    return copysign(result, x);
}

/* x rounded to a float of `digits` bits with least positive value 2^least, largest power 2^most, in double steps. */
static double round_to_format(double x, int digits, int least, int most) {
    if (!isfinite(x) || x == 0) return x;
    int exponent;
    frexp(x, &exponent);
    const int place = exponent - digits > least ? exponent - digits : least;
    const double rounded = ldexp(round_half_even(ldexp(x, -place)), place);
    return fabs(rounded) >= ldexp(1, most + 1) ? copysign(INFINITY, x) : copysign(rounded, x);
}

/* One float primitive; f32 results of double steps are right because every operation here is exact or innocuous when
 * rounded twice. False: not covered here (transcendentals: test_kernels_math.c). */
static bool float_reference(Prim prim, SType type, const Value *v, Value *out) {
    const double a = as_double(type, v[0]), b = as_double(type, v[1]), c = as_double(type, v[2]);
    double r;
    switch (prim) {
    case PRIM_add:
        r = a + b;
        break;
    case PRIM_sub:
        r = a - b;
        break;
    case PRIM_mul:
        r = a * b;
        break;
    case PRIM_div:
        r = a / b;
        break;
    case PRIM_fma:
        *out = type == S_f32 ? (Value){.f32 = fmaf(v[0].f32, v[1].f32, v[2].f32)} : (Value){.f64 = fma(a, b, c)};
        return true;
    case PRIM_neg:
        r = -a;
        break;
    case PRIM_abs:
        r = fabs(a);
        break;
    case PRIM_sqrt:
        r = sqrt(a);
        break;
    case PRIM_max:
        r = larger(a, b);
        break;
    case PRIM_min:
        r = -larger(-a, -b);
        break;
    case PRIM_floor:
        r = floor(a);
        break;
    case PRIM_ceil:
        r = ceil(a);
        break;
    case PRIM_trunc:
        r = trunc(a);
        break;
    case PRIM_rint:
        r = round_half_even(a);
        break;
    case PRIM_round_f16:
        r = round_to_format(a, 11, -24, 15);
        break;
    case PRIM_round_bf16:
        r = round_to_format(a, 8, -133, 127);
        break;
    default:
        return false;
    }
    *out = of_double(type, r);
    return true;
}

static int64_t power(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)a;
    for (uint64_t left = (uint64_t)b; left; left >>= 1, base *= base)
        if (left & 1) result *= base;
    return (int64_t)result;
}

static int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }

/* Salmon et al. 2011, one word at a time. */
static int64_t philox_reference(uint64_t seed, uint64_t sequence, uint64_t element) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t x[4] = {(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)sequence, (uint32_t)(sequence >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53 * x[0], p1 = (uint64_t)0xCD9E8D57 * x[2];
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ x[1] ^ key[0], (uint32_t)p1,
                                  (uint32_t)(p0 >> 32) ^ x[3] ^ key[1], (uint32_t)p0};
        memcpy(x, next, sizeof x);
        key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
    }
    return (int64_t)(x[0] | (uint64_t)x[1] << 32);
}

static bool int_reference(Prim prim, SType type, const Value *v, Value *out) {
    const int64_t a = as_int(type, v[0]), b = as_int(type, v[1]), width = type == S_i32 ? 32 : 64;
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    int64_t r;
    switch (prim) {
    case PRIM_add:
        r = (int64_t)(x + y);
        break;
    case PRIM_sub:
        r = (int64_t)(x - y);
        break;
    case PRIM_mul:
        r = (int64_t)(x * y);
        break;
    case PRIM_idiv:
        r = quotient(a, b);
        break;
    case PRIM_imod:
        r = b == 0 || b == -1 ? 0 : a % b;
        break;
    case PRIM_neg:
        r = (int64_t)(0 - x);
        break;
    case PRIM_abs:
        r = a < 0 ? (int64_t)(0 - x) : a;
        break;
    case PRIM_max:
        r = max_i64(a, b);
        break;
    case PRIM_min:
        r = min_i64(a, b);
        break;
    case PRIM_ipow:
        r = power(a, b);
        break;
    case PRIM_and:
        r = a & b;
        break;
    case PRIM_or:
        r = a | b;
        break;
    case PRIM_xor:
        r = a ^ b;
        break;
    case PRIM_not:
        r = type == S_b ? !a : ~a;
        break;
    case PRIM_shl:
        r = b < 0 || b >= width ? 0 : (int64_t)(x << b);
        break;
    case PRIM_shr:
        r = a >> (b < 0 || b >= width ? width - 1 : b);
        break;
    case PRIM_philox:
        r = philox_reference(x, y, (uint64_t)v[2].i64);
        break;
    case PRIM_wrap_i16:
        r = (int16_t)a;
        break;
    case PRIM_wrap_i8:
        r = (int8_t)a;
        break;
    case PRIM_wrap_u8:
        r = (uint8_t)a;
        break;
    default:
        return false;
    }
    *out = of_int(type, r);
    return true;
}

static bool compare_reference(Prim prim, SType type, const Value *v, Value *out) {
    const bool real = type <= S_f64;
    const double a = as_double(type, v[0]), b = as_double(type, v[1]);
    const int64_t x = as_int(type, v[0]), y = as_int(type, v[1]);
    const bool less = real ? a < b : x < y, equal = real ? a == b : x == y, more = real ? a > b : x > y;
    const bool results[] = {less, less || equal, more, more || equal, equal, !equal};
    if (prim < PRIM_lt || prim > PRIM_ne) return false;
    *out = (Value){.b = results[prim - PRIM_lt]};
    return true;
}

static bool reference(Prim prim, SType type, const Value *v, Value *out) {
    if (prim == PRIM_select) {
        *out = v[0].b ? v[1] : v[2];
        return true;
    }
    if (compare_reference(prim, type, v, out)) return true;
    return type <= S_f64 ? float_reference(prim, type, v, out) : int_reference(prim, type, v, out);
}

static SType operand_type(Prim prim, SType type, int operand) {
    return prim == PRIM_select && operand == 0 ? S_b : type;
}

/* The row's `types` word and its one-type exceptions, said again. */
static bool expected_to_exist(Prim prim, SType type) {
    static const char *const words[] = {
#define SCALAR(name, arity, types, result, llvm, bound, doc) #types,
#include "ir/scalar.def"
#undef SCALAR
    };
    const char *const word = words[prim];
    if (prim == PRIM_philox) return type == S_i64;
    if (prim == PRIM_round_f16 || prim == PRIM_round_bf16) return type == S_f32;
    if (prim == PRIM_wrap_i16 || prim == PRIM_wrap_i8 || prim == PRIM_wrap_u8) return type == S_i32;
    return strchr(word, type <= S_f64 ? 'F' : type <= S_i64 ? 'I' : 'B') != NULL;
}
static const char *const prim_names[] = {
#define SCALAR(name, arity, types, result, llvm, bound, doc) #name,
#include "ir/scalar.def"
#undef SCALAR
};
static bool gives_bool(Prim prim) { return prim >= PRIM_lt && prim <= PRIM_ne; }

enum { ROUNDS = 64 };

static void fill_operands(Prim prim, SType type, int round, char operands[3][BLOCK * 8]) {
    for (int k = 0; k < 3; k++) {
        const uint64_t seed = (uint64_t)(round * 3 + k);
        fill_input(operand_type(prim, type, k), round ? seed + 1000 : (uint64_t)(k == 0), operands[k], BLOCK);
    }
}

START_TEST(primitives_agree_with_the_scalar_reference) {
    const Prim prim = (Prim)_i;
    static _Alignas(64) char operands[3][BLOCK * 8], out[BLOCK * 8];
    for (int type = 0; type < S_COUNT; type++) {
        for (int level = 0; level < levels(); level++) {
            isa_force(level);
            BlockFn *const fn = kernel_table()->prim(prim, (SType)type);
            ck_assert_msg((fn != NULL) == expected_to_exist(prim, (SType)type), "%s.%s", prim_names[prim],
                          stype_name((SType)type));
            for (int round = 0; fn && round < 4; round++) {
                fill_operands(prim, (SType)type, round, operands);
                fn(out, operands[0], operands[1], operands[2], BLOCK);
                for (int i = 0; i < BLOCK; i++) {
                    Value v[3], want, got = value_at(gives_bool(prim) ? S_b : (SType)type, out, i);
                    for (int k = 0; k < 3; k++) v[k] = value_at(operand_type(prim, (SType)type, k), operands[k], i);
                    if (!reference(prim, (SType)type, v, &want)) continue;
                    EXPECT_MSG(same_value(gives_bool(prim) ? S_b : (SType)type, &got, &want),
                               "%s.%s(%lx, %lx, %lx) = %lx, not %lx, at %s", prim_names[prim], stype_name((SType)type),
                               (long)v[0].i64, (long)v[1].i64, (long)v[2].i64, (long)got.i64, (long)want.i64,
                               isa_name((Isa)level));
                }
            }
        }
    }
    isa_force(-1);
}
END_TEST

/* Every length gives the first results of the whole block and leaves what follows alone, in place too. */
START_TEST(tails_touch_nothing_beyond_n) {
    const Prim prim = (Prim)_i;
    static char operands[3][BLOCK * 8], whole[BLOCK * 8], out[BLOCK * 8], blank[BLOCK * 8];
    memset(blank, 0x5a, sizeof blank);
    for (int level = 0; level < levels(); level++) {
        isa_force(level);
        for (int type = 0; type < S_COUNT; type++) {
            BlockFn *const fn = kernel_table()->prim(prim, (SType)type);
            if (!fn) continue;
            const size_t bytes = (size_t)stype_bytes(gives_bool(prim) ? S_b : (SType)type);
            fill_operands(prim, (SType)type, 1, operands);
            fn(whole, operands[0], operands[1], operands[2], BLOCK);
            for (int n = 0; n < 40; n++) {
                memset(out, 0x5a, sizeof out);
                fn(out, operands[0], operands[1], operands[2], n);
                bool same = !memcmp(out + (size_t)n * bytes, blank, sizeof out - (size_t)n * bytes);
                for (size_t i = 0; i < (size_t)n; i++)
                    same &= same_value(bytes == 1 ? S_b : (SType)type, out + i * bytes, whole + i * bytes);
                EXPECT_MSG(same, "%s.%s of %d at %s", prim_names[prim], stype_name((SType)type), n,
                           isa_name((Isa)level));
            }
            memcpy(out, operands[0], sizeof out);
            if (operand_type(prim, (SType)type, 0) == (SType)type && !gives_bool(prim)) {
                fn(out, out, operands[1], operands[2], 1000);
                ck_assert(!memcmp(out, whole, bytes * 1000) || type <= S_f64);
            }
        }
    }
    isa_force(-1);
}
END_TEST

/* Few-bit factors around every magnitude: products and sums fall on ties, cancel, underflow. */
static double awkward(SType type, uint64_t bits, int center) {
    const int digits = (int)(bits % (type == S_f32 ? 24 : 53)) + 1, exponent = (int)(bits >> 8 & 63) - 32 + center;
    const uint64_t mantissa = (bits >> 11 | 1) & ((1ull << digits) - 1);
    return ldexp(bits >> 7 & 1 ? (double)mantissa : -(double)mantissa, exponent);
}

START_TEST(fma_rounds_once_on_ties_and_underflow) {
    static const int centers[2][4] = {{0, -40, -70, 50}, {0, -400, -530, 450}};
    static char operands[3][BLOCK * 8], out[BLOCK * 8];
    const SType type = _i & 1 ? S_f64 : S_f32;
    for (int round = 0; round < 400; round++) {
        const int center = centers[type == S_f64][round % 4];
        for (int i = 0; i < BLOCK; i++)
            for (int k = 0; k < 3; k++) {
                const uint64_t bits = random_bits((uint64_t)((round * BLOCK + i) * 3 + k));
                const Value v = of_double(type, awkward(type, bits, k == 2 ? 2 * center + (int)(bits >> 60) : center));
                memcpy(operands[k] + i * stype_bytes(type), &v, (size_t)stype_bytes(type));
            }
        for (int level = 0; level < levels(); level++) {
            isa_force(level);
            kernel_table()->prim(PRIM_fma, type)(out, operands[0], operands[1], operands[2], BLOCK);
            for (int i = 0; i < BLOCK; i++) {
                Value v[3], want = {.i64 = 0}, got = value_at(type, out, i);
                for (int k = 0; k < 3; k++) v[k] = value_at(type, operands[k], i);
                float_reference(PRIM_fma, type, v, &want);
                EXPECT_MSG(same_value(type, &got, &want), "fma(%a, %a, %a) = %a, not %a, at %s", as_double(type, v[0]),
                           as_double(type, v[1]), as_double(type, v[2]), as_double(type, got), as_double(type, want),
                           isa_name((Isa)level));
            }
        }
    }
    isa_force(-1);
}
END_TEST

typedef struct Digest {
    Prim prim;
    SType type;
    uint64_t value;
} Digest;
static const Digest digests[] = {
#define DIGEST(name, type, value) {PRIM_##name, S_##type, value},
#include "tests/unit/kernel_digests.h"
#undef DIGEST
};

static uint64_t digest_of(Prim prim, SType type) {
    static _Alignas(64) char operands[3][BLOCK * 8], out[BLOCK * 8];
    const SType result = gives_bool(prim) ? S_b : type;
    BlockFn *const fn = kernel_table()->prim(prim, type);
    uint64_t digest = 0;
    for (int round = 0; round < ROUNDS; round++) {
        fill_operands(prim, type, round, operands);
        fn(out, operands[0], operands[1], operands[2], BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            Value v = value_at(result, out, i);
            if (result == S_f32 && isnan(v.f32)) v = (Value){.i64 = 0x7fc00000};
            if (result == S_f64 && isnan(v.f64)) v = (Value){.i64 = 0x7ff8000000000000};
            digest = (digest ^ (uint64_t)v.i64) * 0x9E3779B97F4A7C15u;
            digest ^= digest >> 29;
        }
    }
    return digest;
}

START_TEST(digests_are_the_same_everywhere) {
    const Digest *const digest = &digests[_i];
    for (int level = 0; level < levels(); level++) {
        isa_force(level);
        const uint64_t got = digest_of(digest->prim, digest->type);
        ck_assert_msg(got == digest->value, "%s.%s at %s: 0x%016lx", prim_names[digest->prim], stype_name(digest->type),
                      isa_name((Isa)level), (unsigned long)got);
    }
    isa_force(-1);
}
END_TEST

START_TEST(every_primitive_has_a_digest) {
    int n = 0;
    for (int prim = 0; prim < PRIM_COUNT; prim++)
        for (int type = 0; type < S_COUNT; type++) n += expected_to_exist((Prim)prim, (SType)type);
    ck_assert_int_eq(n, COUNT_OF(digests));
}
END_TEST

static void print_digests(void) {
    printf("/* kernel_digests.h: DIGEST(primitive, type, digest over 64k inputs); printed by "
           "KERNEL_DIGESTS=1. */\n");
    for (int prim = 0; prim < PRIM_COUNT; prim++)
        for (int type = 0; type < S_COUNT; type++)
            if (expected_to_exist((Prim)prim, (SType)type))
                printf("DIGEST(%s, %s, 0x%016lx)\n", prim_names[prim], stype_name((SType)type),
                       (unsigned long)digest_of((Prim)prim, (SType)type));
}

static Value cast_reference(SType from, SType to, Value v) {
    const bool real = from <= S_f64;
    const double x = as_double(from, v);
    const int64_t i = as_int(from, v);
    if (to == S_b) return (Value){.b = real ? x != 0 : i != 0};
    if (to == S_f32 && from == S_i64) return (Value){.f32 = (float)i};
    if (to <= S_f64) return of_double(to, real ? x : (double)i);
    if (!real) return of_int(to, i);
    const double limit = to == S_i32 ? 0x1p31 : 0x1p63;
    const int64_t high = to == S_i32 ? INT32_MAX : INT64_MAX;
    return of_int(to, isnan(x) ? 0 : x >= limit ? high : x < -limit ? -high - 1 : (int64_t)x);
}

START_TEST(casts_saturate_wrap_and_round) {
    static char in[BLOCK * 8], out[BLOCK * 8];
    for (int level = 0; level < levels(); level++)
        for (int from = 0; from < S_COUNT; from++)
            for (int to = 0; to < S_COUNT; to++) {
                if (from == to) continue;
                isa_force(level);
                for (int round = 0; round < 8; round++) {
                    fill_input((SType)from, (uint64_t)round * 2 + 1, in, BLOCK);
                    kernel_table()->cast((SType)from, (SType)to)(out, in, NULL, NULL, BLOCK - round);
                    for (int i = 0; i < BLOCK - round; i++) {
                        const Value v = value_at((SType)from, in, i), want = cast_reference((SType)from, (SType)to, v);
                        const Value got = value_at((SType)to, out, i);
                        EXPECT_MSG(same_value((SType)to, &got, &want), "%s(%lx) to %s: %lx, not %lx",
                                   stype_name((SType)from), (long)v.i64, stype_name((SType)to), (long)got.i64,
                                   (long)want.i64);
                    }
                }
            }
    isa_force(-1);
}
END_TEST

/* All 65,536 patterns of both 16-bit formats widen exactly and come back. */
START_TEST(half_formats_round_trip) {
    for (int level = 0; level < levels(); level++) {
        isa_force(level);
        for (int format = 0; format < 2; format++) {
            const DType dtype = format ? DT_bf16 : DT_f16;
            for (int base = 0; base < 65536; base += BLOCK) {
                uint16_t in[BLOCK], back[BLOCK];
                float wide[BLOCK];
                for (int i = 0; i < BLOCK; i++) in[i] = (uint16_t)(base + i);
                kernel_table()->load(dtype)(wide, in, 1, BLOCK);
                kernel_table()->store(dtype)(back, 1, wide, BLOCK);
                for (int i = 0; i < BLOCK; i++) {
                    const int digits = format ? 7 : 10, bias = format ? 127 : 15;
                    const int exponent = in[i] >> digits & (format ? 255 : 31), fraction = in[i] & ((1 << digits) - 1);
                    const bool special = exponent == (format ? 255 : 31);
                    const double size = special ? (fraction ? NAN : INFINITY)
                                                : ldexp(fraction + (exponent ? 1 << digits : 0),
                                                        (exponent ? exponent : 1) - bias - digits);
                    const float want = (float)(in[i] & 0x8000 ? -size : size);
                    EXPECT_MSG(same_value(S_f32, &wide[i], &want), "%s %04x", dtype_name(dtype), in[i]);
                    EXPECT(isnan(want) ? isnan(wide[i]) && (back[i] & 0x7fff) > (format ? 0x7f80 : 0x7c00)
                                       : back[i] == in[i]);
                }
            }
        }
    }
    isa_force(-1);
}
END_TEST

START_TEST(loads_and_stores_follow_strides) {
    static const int64_t strides[] = {1, 0, 2, 3, -1, -5};
    for (int level = 0; level < levels(); level++)
        for (int dtype = DT_default + 1; dtype < DT_COUNT; dtype++)
            for (int s = 0; s < COUNT_OF(strides); s++) {
                isa_force(level);
                const int64_t stride = strides[s], n = 100, base = stride < 0 ? -stride * n : 0;
                const int bytes = dtype_bytes((DType)dtype), size = stype_bytes(dtype_compute((DType)dtype));
                uint8_t memory[800 * 8], copy[800 * 8];
                for (size_t i = 0; i < sizeof memory; i++)
                    memory[i] = (uint8_t)(random_bits(i) % (dtype == DT_bool ? 2 : 120));
                char one[BLOCK * 8], values[BLOCK * 8];
                kernel_table()->load((DType)dtype)(values, memory + base * bytes, stride, n);
                for (int64_t i = 0; i < n; i++) {
                    kernel_table()->load((DType)dtype)(one, memory + (base + i * stride) * bytes, 1, 1);
                    EXPECT(!memcmp(one, values + i * size, (size_t)size));
                }
                if (stride == 0) continue;
                memset(copy, 0xee, sizeof copy);
                kernel_table()->store((DType)dtype)(copy + base * bytes, stride, values, n);
                for (int64_t i = 0; i < 800; i++) {
                    const bool touched =
                        (i - base) % stride == 0 && (i - base) / stride >= 0 && (i - base) / stride < n;
                    for (int k = 0; k < bytes; k++)
                        EXPECT(copy[i * bytes + k] == (touched ? memory[i * bytes + k] : 0xee));
                }
            }
    isa_force(-1);
}
END_TEST

/* Order L by its definition: 64 lanes, adjacent pairs. */
static Value join(RedKind red, SType type, Value a, Value b) {
    static const Prim prims[] = {
        [RED_sum] = PRIM_add, [RED_dot] = PRIM_add, [RED_prod] = PRIM_mul, [RED_max] = PRIM_max,
        [RED_min] = PRIM_min, [RED_any] = PRIM_or,  [RED_all] = PRIM_and};
    Value out = {.i64 = 0};
    EXPECT(reference(prims[red], type, (const Value[]){a, b, b}, &out));
    return out;
}

static Value reduce_reference(RedKind red, SType type, const void *a, const void *b, int n) {
    Value lanes[64];
    const bool real = type <= S_f64;
    const double low = real ? -INFINITY : 0;
    const int64_t least = type == S_i32 ? INT32_MIN : INT64_MIN;
    for (int i = 0; i < 64; i++) {
        const double start = red == RED_prod ? 1 : red == RED_max ? low : red == RED_min ? -low : 0;
        const int64_t whole = red == RED_prod || red == RED_all ? 1
                              : red == RED_max                  ? least
                              : red == RED_min                  ? -(least + 1)
                                                                : 0;
        lanes[i] = real ? of_double(type, start) : of_int(type, whole);
    }
    for (int i = 0; i < n; i++) {
        Value *const lane = &lanes[i & 63], x = value_at(type, a, i);
        if (red == RED_dot && real)
            EXPECT(reference(PRIM_fma, type, (const Value[]){x, value_at(type, b, i), *lane}, lane));
        else if (red == RED_dot) {
            Value product = {.i64 = 0};
            EXPECT(reference(PRIM_mul, type, (const Value[]){x, value_at(type, b, i), x}, &product));
            *lane = join(red, type, *lane, product);
        } else
            *lane = join(red, type, *lane, x);
    }
    for (int step = 1; step < 64; step *= 2)
        for (int i = 0; i < 64; i += 2 * step) lanes[i] = join(red, type, lanes[i], lanes[i + step]);
    return lanes[0];
}

static void fill_summands(SType type, uint64_t seed, void *out) {
    for (int i = 0; i < BLOCK; i++) {
        const uint64_t bits = random_bits(seed * 77 + (uint64_t)i);
        const double x = bits % 7 == 0 ? -0.0 : random_between(bits, -2, 2) * (bits % 31 ? 1 : 1e-30);
        const Value v = type <= S_f64 ? of_double(type, x)
                        : type == S_b ? (Value){.b = bits % 200 != 0}
                                      : of_int(type, (int64_t)bits);
        memcpy((char *)out + i * stype_bytes(type), &v, (size_t)stype_bytes(type));
    }
}

START_TEST(order_L_is_its_definition) {
    const RedKind red = (RedKind)_i;
    static char a[BLOCK * 8], b[BLOCK * 8];
    for (int type = 0; type < S_COUNT; type++) {
        const bool exists = (red == RED_any || red == RED_all) == (type == S_b);
        fill_summands((SType)type, 1, a), fill_summands((SType)type, 2, b);
        for (int n = 0; n <= BLOCK; n += n < 140 ? 1 : 17) {
            if (!exists) continue;
            const Value want = reduce_reference(red, (SType)type, a, b, n);
            for (int level = 0; level < levels(); level++) {
                isa_force(level);
                Value got = {.i64 = 0};
                kernel_table()->reduce_L(red, (SType)type)(&got, a, b, n);
                EXPECT_MSG(same_value((SType)type, &got, &want), "%d.%s of %d at %s: %lx, not %lx", red,
                           stype_name((SType)type), n, isa_name((Isa)level), (long)got.i64, (long)want.i64);
            }
        }
        for (int level = 0; level < levels(); level++) {
            isa_force(level);
            ck_assert_int_eq(kernel_table()->reduce_L(red, (SType)type) != NULL, exists);
            ck_assert_int_eq(kernel_table()->accumulate(red, (SType)type) != NULL, exists);
        }
    }
    isa_force(-1);
}
END_TEST

/* -0 in a lane survives a masked fma chain; NaN and the signs of zero in max and min. */
START_TEST(reductions_keep_signs_and_nan) {
    for (int level = 0; level < levels(); level++) {
        isa_force(level);
        float a[65], b[65], out;
        for (int i = 0; i < 65; i++) a[i] = 1, b[i] = -0.0f;
        a[0] = -0x1p-100f, b[0] = 0x1p-100f; /* underflows to -0 */
        for (int i = 1; i < 65; i++) a[i] = -0x1p-100f, b[i] = 0x1p-100f;
        kernel_table()->reduce_L(RED_dot, S_f32)(&out, a, b, 64);
        ck_assert(out == 0 && signbit(out));
        kernel_table()->reduce_L(RED_dot, S_f32)(&out, a, b, 63); /* lane 63 is +0 */
        ck_assert(out == 0 && !signbit(out));
        for (int i = 0; i < 65; i++) a[i] = i == 40 ? 0.0f : -0.0f;
        kernel_table()->reduce_L(RED_max, S_f32)(&out, a, NULL, 65);
        ck_assert(out == 0 && !signbit(out));
        kernel_table()->reduce_L(RED_min, S_f32)(&out, a, NULL, 65);
        ck_assert(out == 0 && signbit(out));
        a[64] = NAN;
        kernel_table()->reduce_L(RED_max, S_f32)(&out, a, NULL, 65);
        ck_assert(isnan(out));
        kernel_table()->reduce_L(RED_min, S_f32)(&out, a, NULL, 65);
        ck_assert(isnan(out));
    }
    isa_force(-1);
}
END_TEST

START_TEST(accumulate_is_elementwise) {
    static char acc[BLOCK * 8], a[BLOCK * 8], b[BLOCK * 8], old[BLOCK * 8];
    for (int level = 0; level < levels(); level++)
        for (int red = RED_sum; red <= RED_all; red++)
            for (int type = 0; type < S_COUNT; type++) {
                isa_force(level);
                BlockFn *const fn = kernel_table()->accumulate(red, (SType)type);
                if (!fn) continue;
                fill_summands((SType)type, 3, old), fill_summands((SType)type, 4, a), fill_summands((SType)type, 5, b);
                memcpy(acc, old, sizeof acc);
                fn(acc, acc, a, b, 1001);
                for (int i = 0; i < BLOCK; i++) {
                    const Value x = value_at((SType)type, a, i), y = value_at((SType)type, b, i),
                                start = value_at((SType)type, old, i);
                    Value want = start, got = value_at((SType)type, acc, i);
                    if (i < 1001 && red == RED_dot && type <= S_f64)
                        EXPECT(reference(PRIM_fma, (SType)type, (const Value[]){x, y, start}, &want));
                    else if (i < 1001 && red == RED_dot)
                        want = of_int((SType)type,
                                      (int64_t)((uint64_t)as_int((SType)type, start) +
                                                (uint64_t)as_int((SType)type, x) * (uint64_t)as_int((SType)type, y)));
                    else if (i < 1001)
                        want = join((RedKind)red, (SType)type, start, x);
                    EXPECT(same_value((SType)type, &got, &want));
                }
            }
    isa_force(-1);
}
END_TEST

/* Random123's kat_vectors, philox4x32 10. */
START_TEST(philox_gives_the_published_vectors) {
    static const int64_t rows[][4] = {
        {0, 0, 0, (int64_t)0xe169c58d6627e8d5},
        {-1, -1, -1, (int64_t)0x41c83b0e408f276d},
        {0x299f31d0a4093822, 0x0370734413198a2e, (int64_t)0x85a308d3243f6a88, (int64_t)0x94fdccebd16cfe09}};
    for (int level = 0; level < levels(); level++)
        for (int i = 0; i < COUNT_OF(rows); i++) {
            isa_force(level);
            int64_t out;
            kernel_table()->prim(PRIM_philox, S_i64)(&out, &rows[i][0], &rows[i][1], &rows[i][2], 1);
            ck_assert_int_eq(out, rows[i][3]);
        }
    isa_force(-1);
}
END_TEST

START_TEST(levels_are_named_and_chosen) {
    ck_assert_str_eq(isa_name(ISA_v3), "v3");
    ck_assert_int_eq(isa_lanes(ISA_v2), 4);
    ck_assert_int_eq(isa_lanes(ISA_v4), 16);
    ck_assert_int_le(isa_used(), isa_host());
    isa_force(ISA_v2);
    ck_assert_int_eq(kernel_table()->isa, ISA_v2);
    isa_force(-1);
}
END_TEST

int main(void) {
    if (getenv("KERNEL_DIGESTS")) return print_digests(), 0;
    TCase *const tests = tcase_create("kernels");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, primitives_agree_with_the_scalar_reference, 0, PRIM_COUNT);
    tcase_add_loop_test(tests, tails_touch_nothing_beyond_n, 0, PRIM_COUNT);
    tcase_add_loop_test(tests, digests_are_the_same_everywhere, 0, COUNT_OF(digests));
    tcase_add_loop_test(tests, fma_rounds_once_on_ties_and_underflow, 0, 2);
    tcase_add_test(tests, every_primitive_has_a_digest);
    tcase_add_test(tests, casts_saturate_wrap_and_round);
    tcase_add_test(tests, half_formats_round_trip);
    tcase_add_test(tests, loads_and_stores_follow_strides);
    tcase_add_loop_test(tests, order_L_is_its_definition, RED_sum, RED_all + 1);
    tcase_add_test(tests, reductions_keep_signs_and_nan);
    tcase_add_test(tests, accumulate_is_elementwise);
    tcase_add_test(tests, philox_gives_the_published_vectors);
    tcase_add_test(tests, levels_are_named_and_chosen);
    return suite_run("kernels", tests);
}
