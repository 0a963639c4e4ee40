/* A tensor is storage, sizes, strides, offset, dtype and device: the element at (i, j) is the storage's one of number
 * offset + i * strides[0] + j * strides[1]. */
#include <stdio.h>

#include "tour.h"

void tour_tensor(void) {
    const float numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    sn_tensor *const t = sn_from_data(numbers, SN_INTS(3, 4), SN_F32);
    tour_print_layout("t", t);
    sn_storage storage = {.size = sizeof storage};
    sn_storage_of(t, &storage);
    printf("  its storage: %lld bytes of 12 floats, on %s\n", (long long)storage.bytes, sn_device_name(storage.device));

    sn_tensor *const row = sn_select(t, 0, 2); /* the same storage from element 8 on */
    tour_print_layout("row 2", row);
    const sn_ints strides = sn_strides(t);
    const int64_t place = sn_storage_offset(t) + 2 * strides.data[0] + 3 * strides.data[1];
    printf("  t[2,3] lies at %lld of the storage: %g\n", (long long)place, sn_item(sn_select(row, 0, 3)));
}
