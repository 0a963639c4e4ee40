/* bags.cuh: rows of a table joined by bag [B2.13]: a thread has one element of a bag, a chain over the bag's indices,
 * ascending. Whatever is wrong with indices and offsets is found by a launch of its own, before anything is written. */
enum { BAG_SUM, BAG_MEAN, BAG_MAX };
/* instructions of a failed check: 0 the index, the others offsets[index] is bound */
enum { OFFSET_NOT_0 = 1, OFFSET_DESCENDS, OFFSET_BEYOND };

INLINE void put_index(void *list, int64_t i, int64_t value, bool is_wide) {
    if (is_wide)
        ((int64_t *)list)[i] = value;
    else
        ((int32_t *)list)[i] = (int32_t)value;
}

KERNEL check_bags(const void *indices, const void *offsets, CudaBags b, int launch, Failed *failed) {
    const int64_t t = thread_number();
    if (t < b.n) checked(read_index(indices, t * b.index, b.wide_indices), b.rows, false, true, launch, 0, failed);
    if (t >= b.n_offsets) return;
    const int64_t at = read_index(offsets, t * b.offset, b.wide_offsets);
    const int64_t before = t ? read_index(offsets, (t - 1) * b.offset, b.wide_offsets) : 0;
    const int wrong = t == 0 && at != 0 ? OFFSET_NOT_0 : at < before ? OFFSET_DESCENDS : at > b.n ? OFFSET_BEYOND : 0;
    if (wrong && atomicCAS(&failed->launch, -1, launch) == -1)
        failed->inst = wrong, failed->index = t, failed->bound = at;
}

INLINE int64_t bag_begin(const void *offsets, const CudaBags &b, int64_t bag) {
    return bag < b.count ? read_index(offsets, bag * b.offset, b.wide_offsets) : b.n;
}

/* The first of equal elements stays; what is no number stays where it came first, and else never comes in. */
INLINE Number join_bag(const Element *weight, const void *indices, const Element *by, const CudaBags &b, int64_t first,
                       int64_t last, int64_t column, int64_t *size, int64_t *from) {
    Number out = 0;
    *size = *from = 0;
#pragma unroll 1
    for (int64_t i = first; i < last; i++) {
        const int64_t row = read_index(indices, i * b.index, b.wide_indices);
        if (row == b.padding) continue;
        Number x = 0;
        if (column < b.length) x = read_element(weight, row * b.weight_row + column * b.weight_column);
        if (b.mode != BAG_MAX)
            out = add_numbers(out, by ? mul_numbers(x, read_element(by, i * b.by)) : x);
        else if (!*size || x > out)
            out = x, *from = row;
        ++*size;
    }
    return b.mode == BAG_MEAN && *size ? out / (Number)*size : out;
}

/* sizes and bag_of are written by the threads of column 0. */
KERNEL join_bags(const Element *weight, const void *indices, const void *offsets, const Element *by, Element *out,
                 void *bag_of, void *sizes, void *from, CudaBags b, const Failed *failed) {
    int64_t bag = thread_number();
    if (failed->launch >= 0) return;
    if (bag < b.n_bag_of && !b.count) put_index(bag_of, bag * b.bag_of, 0, b.wide_results);
    if (bag < b.n_sizes - b.count) {
        put_index(sizes, (b.count + bag) * b.sizes, 0, b.wide_results);
        if (b.mode != BAG_MAX) put_index(from, (b.count + bag) * b.from_row, 0, b.wide_results);
    }
    const int64_t column = remainder_of(&bag, b.length ? b.length : 1);
    if (bag >= b.count) return;
    const int64_t first = bag_begin(offsets, b, bag), last = bag_begin(offsets, b, bag + 1);
    int64_t size, row;
    const Number joined = join_bag(weight, indices, by, b, first, last, column, &size, &row);
    if (column < b.length) write_element(out, bag * b.out_row + column * b.out_column, joined);
    if (column < b.length && b.mode == BAG_MAX)
        put_index(from, bag * b.from_row + column * b.from_column, row, b.wide_results);
    if (column) return;
    if (b.mode == BAG_SUM) size = 0;
    put_index(sizes, bag * b.sizes, size, b.wide_results);
    if (b.mode != BAG_MAX) put_index(from, bag * b.from_row, size, b.wide_results);
#pragma unroll 1
    for (int64_t i = first; i < last && b.n_bag_of; i++) put_index(bag_of, i * b.bag_of, bag, b.wide_results);
}
