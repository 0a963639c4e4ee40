/* moves.cuh: elements moved from one layout to another. */
KERNEL move_elements(Element *to, const Element *from, CudaDims dims, int64_t n, const Failed *failed) {
    int64_t i = thread_number(), at[2];
    if (i >= n || failed->launch >= 0) return;
    place_in<2>(dims, i, at);
    to[at[0]] = moved_element(from[at[1]]);
}

/* One by one, where elements of `to` lie in one place: the last one stands. */
KERNEL move_in_order(Element *to, const Element *from, CudaDims dims, int64_t n, const Failed *failed) {
    int64_t at[2];
    if (thread_number() || failed->launch >= 0) return;
#pragma unroll 1
    for (int64_t i = 0; i < n; i++) {
        place_in<2>(dims, i, at);
        to[at[0]] = moved_element(from[at[1]]);
    }
}
