/* unset.c: see unset.h. Kernels in the place of the rows' own fill what those give, between the elements of strided
 * memory too, where as_strided may look. */
#include "frontend/tool/unset.h"

#include <sinter/sinter.h>

#include "runtime/core/context_enter.h"
#include "runtime/core/tensor.h"

const unsigned char unset_bytes[UNSET_FILLS] = {0x00, 0x5b, 0xdb, 0xff};

/* All of its memory, in a row. */
static sn_tensor *whole_memory(sn_tensor *t) {
    const int64_t n = (int64_t)t->storage->bytes / dtype_bytes(t->base.meta->dtype);
    return sn_as_strided(t, SN_INTS(n), SN_INTS(1), 0);
}

static void fill_elements(sn_tensor *t, unsigned char byte) {
    const sn_dtype dtype = sn_dtype_of(t);
    const int64_t n = sn_numel(t) * dtype_bytes((DType)dtype);
    sn_tensor *const bytes = sn_view_dtype(sn_full(SN_INTS(n), sn_int(byte), SN_U8), dtype);
    sn_copy_(t, sn_to_device(sn_reshape(bytes, sn_sizes(t)), sn_device_of(t)));
}

static UnsetFill *filling;

static OpKernel *kernel_before(const OpCall *call) {
    for (int i = 0; i < filling->n; i++)
        if (filling->kernels[i].row == call->row && filling->kernels[i].key == call->key)
            return filling->kernels[i].before;
    return NULL;
}

static Status fill_result(OpCall *call) {
    TRY(kernel_before(call)(call));
    sn_tensor *const t = call->outs[0];
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved =
        context_enter(state_get(), CONTEXT_kernel);
    if (sn_numel(t)) fill_elements(call->form == FORM_functional ? whole_memory(t) : t, filling->byte);
    filling->made++;
    return error_pending();
}

static void wrap_kernel(UnsetFill *fill, const OpRow *row, Key key) {
    OpKernel *const before = dispatch_entry(row, key);
    if (!before || fill->n == UNSET_KERNELS) return;
    fill->kernels[fill->n++] = (UnsetKernel){row, key, before};
    dispatch_register(row, key, fill_result);
}

void unset_fill_begin(UnsetFill *fill, unsigned char byte) {
    *fill = (UnsetFill){.byte = byte};
    filling = fill;
    for (int op = 0; op < op_row_count(); op++) {
        const OpRow *const row = op_row_at(op);
        if (!(row->flags & OPF_unset) || row->alias_of) continue;
        wrap_kernel(fill, row, KEY_cpu);
        wrap_kernel(fill, row, KEY_cuda);
    }
}

void unset_fill_end(UnsetFill *fill) {
    for (int i = 0; i < fill->n; i++)
        dispatch_register(fill->kernels[i].row, fill->kernels[i].key, fill->kernels[i].before);
    fill->n = 0;
    filling = NULL;
}
