/* crowd.c: many small tensors among the arguments of a call, more than any list of a fixed size would hold: they are
 * summed, as one more result, and every hundredth is written. */
#include "runtime/base/hash.h"
#include "tests/fuzz/run.h"

enum { CHUNK = 200, WRITTEN_EVERY = 100 };

void fz_crowd_make(FzRun *run, uint64_t *s) {
    for (int i = 0; i < run->p->crowd; i++) {
        const float data[3] = {(float)(fz_next(s) % 64) / 8, (float)i, -0.5f};
        sn_tensor *const t = sn_from_data(data, SN_INTS(3), SN_F32);
        run->crowd[i] = fz_device == SN_CPU ? t : sn_to_device(t, fz_device);
    }
}

/* Those of the frame from input `first` on. */
sn_tensor *fz_crowd_sum(sn_frame *f, int first, int n) {
    sn_tensor *sum = NULL, *chunk[CHUNK];
    for (int i = 0; i < n && !sn_check(); i += CHUNK) {
        const int count = n - i < CHUNK ? n - i : CHUNK;
        for (int k = 0; k < count; k++) {
            chunk[k] = sn_in(f, first + i + k);
            if ((i + k) % WRITTEN_EVERY == 7) sn_mul_scalar_(chunk[k], sn_float(1.25));
        }
        sn_tensor *const part = sn_sum_dim(sn_stack((sn_tensors){chunk, count}, 0), SN_INTS(0), false);
        sum = sum ? sn_add(sum, part) : part;
    }
    return sum;
}

/* What they hold after a call, in one number. */
uint64_t fz_crowd_hash(const FzRun *run) {
    uint64_t hash = 3;
    for (int i = 0; i < run->p->crowd; i++) {
        float data[3] = {0};
        if (run->crowd[i]) sn_read(run->crowd[i], data, sizeof data);
        hash = hash_bytes(hash, data, sizeof data);
    }
    return hash;
}
