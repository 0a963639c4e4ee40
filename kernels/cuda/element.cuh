/* element.cuh: before kernels written by hand, once for each dtype: a program defines DTYPE (f16) and TYPE, the dtype's
 * compute type (f32), and has: Element in memory, Number to compute with, read and write between them, and primitives
 * of TYPE. */
#define JOIN_WORDS(a, b) a##b
#define WORDS(a, b)      JOIN_WORDS(a, b)
typedef WORDS(memory_, DTYPE) Element;
typedef WORDS(v_, TYPE) Number;
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
