/* element.cuh: before kernels written by hand, once for each dtype: a program defines DTYPE (f16) and TYPE, the dtype's
 * compute type (f32), and has: Element in memory, Number to compute with, read and write between them, and primitives
 * of TYPE. */
#define JOIN_WORDS(a, b) a##b
#define WORDS(a, b)      JOIN_WORDS(a, b)
typedef WORDS(memory_, DTYPE) Element;
typedef WORDS(v_, TYPE) Number;
/* Bools add as or and multiply as and [B2.7]. */
INLINE v_b vec_add_b(v_b a, v_b b) { return a | b; }
INLINE v_b vec_mul_b(v_b a, v_b b) { return a & b; }
INLINE v_b vec_max_b(v_b a, v_b b) { return a | b; }
INLINE v_b vec_min_b(v_b a, v_b b) { return a & b; }
INLINE v_b chain_b(v_b x, v_b y, v_b sum) { return (x & y) | sum; }
INLINE Number read_element(const Element *p, int64_t i) { return WORDS(get_, DTYPE)(p, i); }
INLINE void write_element(Element *p, int64_t i, Number x) { WORDS(put_, DTYPE)(p, i, x); }
INLINE Number rounded_number(Number x) { return WORDS(of_, DTYPE)(WORDS(to_, DTYPE)(x)); }
INLINE Number add_numbers(Number a, Number b) { return WORDS(vec_add_, TYPE)(a, b); }
INLINE Number mul_numbers(Number a, Number b) { return WORDS(vec_mul_, TYPE)(a, b); }
INLINE Number chain_numbers(Number a, Number b, Number sum) { return WORDS(chain_, TYPE)(a, b, sum); }
INLINE bool is_nan(Number a) { return a != a; }
/* The index that follows, of a list of i64 or i32. */
INLINE int64_t read_index(const void *list, int64_t i, bool is_wide) {
    return is_wide ? ((const int64_t *)list)[i] : ((const int32_t *)list)[i];
}
/* An element as it lies in memory: NaNs keep their bits, a bool becomes 0 or 1. */
INLINE Element moved_element(Element x) {
    const Number v = WORDS(of_, DTYPE)(x);
    return v != v ? x : WORDS(to_, DTYPE)(v);
}
