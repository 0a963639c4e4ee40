/* sorts.cuh: lines sorted stably [B2.6], as merges of runs. An element's key is an int in its order: -0 as 0, NaN above
 * all numbers, complemented to descend; of equal keys the smaller place is first.
 *
 *   sort_tiles   a block sorts 1,024 slots in shared memory, bitonically by (key, place): parts of lines, or several
 *                short lines. What fits one part is stored at once
 *   sort_merge   two runs become one: an element's rank is its own place in its run and, by bisection, how many of the
 *                other run come before it. Runs are cut to as many elements as come out in the end
 *   sort_store   elements and places in the order of the last run */
enum { SORT_TILE = 1024 };
typedef int32_t key_f32, key_i32, key_b;
typedef int64_t key_f64, key_i64;
typedef WORDS(key_, TYPE) Key;
#define NO_PLACE INT32_MAX

INLINE int32_t order_f32(float x) {
    const int32_t bits = __float_as_int(x);
    return x != x ? INT32_MAX : x == 0 ? 0 : bits < 0 ? INT32_MIN - bits : bits;
}
INLINE int64_t order_f64(double x) {
    const int64_t bits = __double_as_longlong(x);
    return x != x ? INT64_MAX : x == 0 ? 0 : bits < 0 ? INT64_MIN - bits : bits;
}
INLINE int32_t order_i32(int32_t x) { return x; }
INLINE int64_t order_i64(int64_t x) { return x; }
INLINE int32_t order_b(v_b x) { return x; }
INLINE Key key_of(const CudaSort &s, Number x) {
    const Key key = WORDS(order_, TYPE)(x);
    return s.descending ? ~key : key;
}

/* Slot `slot` of this block: element i of a line; n where there is none. */
struct Slot {
    int64_t line, part, i;
};
INLINE Slot slot_of(const CudaSort &s, int slot) {
    Slot at;
    at.line = ((int64_t)blockIdx.x * SORT_TILE + slot) / s.slots;
    at.part = remainder_of(&at.line, s.parts);
    at.i = at.part * s.slots + slot % s.slots;
    if (at.line >= s.lines || at.i > s.n) at.i = s.n;
    return at;
}

/* The two slots of a pair in their order, the larger one first where the pair's half of a bitonic run descends. */
INLINE void order_pair(Key *keys, int32_t *places, int low, int high, bool ascends) {
    const Key a = keys[low], b = keys[high];
    const int32_t p = places[low], q = places[high];
    if ((a < b || (a == b && p < q)) == ascends) return;
    keys[low] = b, keys[high] = a;
    places[low] = q, places[high] = p;
}

KERNEL __launch_bounds__(256) sort_tiles(const Element *from, Element *values, int64_t *indices, Key *to_keys,
                                         int32_t *to_places, CudaSort s, const Failed *failed) {
    __shared__ Key keys[SORT_TILE];
    __shared__ int32_t places[SORT_TILE];
    if (__syncthreads_or(failed->launch >= 0)) return;
#pragma unroll 1
    for (int slot = threadIdx.x; slot < SORT_TILE; slot += blockDim.x) {
        const Slot at = slot_of(s, slot);
        int64_t first[1];
        places[slot] = NO_PLACE, keys[slot] = sizeof(Key) == 4 ? (Key)INT32_MAX : (Key)INT64_MAX;
        if (at.i == s.n) continue;
        place_in<1>(s.dims, at.line, first);
        places[slot] = (int32_t)at.i, keys[slot] = key_of(s, read_element(from, first[0] + at.i * s.from));
    }
#pragma unroll 1
    for (int size = 2; size <= s.slots; size *= 2)
#pragma unroll 1
        for (int apart = size / 2; apart; apart /= 2) {
            __syncthreads();
#pragma unroll 1
            for (int t = threadIdx.x; t < SORT_TILE / 2; t += blockDim.x) {
                const int low = 2 * t - (t & (apart - 1));
                order_pair(keys, places, low, low + apart, !(low % (int)s.slots & size));
            }
        }
    __syncthreads();
#pragma unroll 1
    for (int slot = threadIdx.x; slot < SORT_TILE; slot += blockDim.x) {
        const Slot at = slot_of(s, slot);
        const int64_t rank = slot % s.slots;
        int64_t first[3];
        if (at.i == s.n || rank >= s.kept) continue;
        if (to_keys) {
            const int64_t to = at.line * s.capacity + at.part * least_of(s.slots, s.kept) + rank;
            to_keys[to] = keys[slot], to_places[to] = places[slot];
            continue;
        }
        place_in<3>(s.dims, at.line, first);
        values[first[1] + rank * s.values] = moved_element(from[first[0] + places[slot] * s.from]);
        indices[first[2] + rank * s.indices] = places[slot];
    }
}

/* How many of a run's n keys come before `key`: those below it, and with `equal` those that are the same. */
INLINE int64_t keys_before(const Key *keys, int64_t n, Key key, bool equal) {
    int64_t low = 0;
#pragma unroll 1
    while (n > 0) {
        const int64_t half = n / 2;
        const bool before = keys[low + half] < key || (equal && keys[low + half] == key);
        low = before ? low + half + 1 : low;
        n = before ? n - half - 1 : half;
    }
    return low;
}

KERNEL sort_merge(const Key *keys, const int32_t *places, Key *to_keys, int32_t *to_places, CudaSort s, int64_t run,
                  int64_t width, const Failed *failed) {
    int64_t line = thread_number();
    int64_t own = remainder_of(&line, width);
    if (line >= s.lines || failed->launch >= 0) return;
    const int64_t stored = least_of(run, s.kept), begin = line * s.capacity, merged = least_of(2 * run, s.kept);
    int64_t number = own;
    own = remainder_of(&number, stored);
    const int64_t at = begin + number * stored + own, other = number ^ 1;
    const Key key = keys[at];
    const int64_t n = least_of(stored, least_of(run, s.n - other * run)); /* negative: it is not there */
    const int64_t rank = own + keys_before(keys + begin + other * stored, n, key, number & 1);
    if (rank >= merged) return;
    const int64_t to = begin + number / 2 * merged + rank;
    to_keys[to] = key, to_places[to] = places[at];
}

KERNEL sort_store(const Element *from, Element *values, int64_t *indices, const int32_t *places, CudaSort s,
                  const Failed *failed) {
    int64_t line = thread_number(), first[3];
    const int64_t rank = remainder_of(&line, s.kept);
    if (line >= s.lines || failed->launch >= 0) return;
    const int64_t place = places[line * s.capacity + rank];
    place_in<3>(s.dims, line, first);
    values[first[1] + rank * s.values] = moved_element(from[first[0] + place * s.from]);
    indices[first[2] + rank * s.indices] = place;
}
