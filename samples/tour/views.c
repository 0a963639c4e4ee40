/* Views share storage: transpose makes no copy, only other strides, and a write through one is seen by the other.
 * contiguous() is the copy that gives the elements the order of the sizes. */
#include <stdio.h>

#include "tour.h"

static const void *storage_id(sn_tensor *t) {
    sn_storage storage = {.size = sizeof storage};
    sn_storage_of(t, &storage);
    return storage.id;
}

void tour_views(void) {
    sn_tensor *const t = sn_zeros(SN_INTS(3, 4), SN_F32), *const view = sn_transpose(t, 0, 1);
    tour_print_layout("t", t);
    tour_print_layout("transpose(t, 0, 1)", view);
    printf("  one storage: %s\n", storage_id(t) == storage_id(view) ? "yes" : "no");
    sn_add_scalar_(view, sn_float(7));
    printf("  after view += 7, t[0,0] is %g\n", sn_item(sn_select(sn_select(t, 0, 0), 0, 0)));

    sn_tensor *const copy = sn_contiguous(view);
    tour_print_layout("contiguous()", copy);
    printf("  one storage: %s\n", storage_id(copy) == storage_id(view) ? "yes" : "no");
}
