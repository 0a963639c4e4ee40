/* saves.h: what a row of the op table says that its derivative needs (the column `saves`), parsed.
 *
 *   "self, result, mat2/self"     argument self, result 0, and mat2 where self's gradient is wanted */
#ifndef SINTER_IR_SAVES_H
#define SINTER_IR_SAVES_H
#include "ir/op.h"

enum { MAX_SAVES = 12 };
typedef struct SaveItem {
    int16_t arg, result; /* one of them, the other -1 */
    uint32_t when;       /* bits of arguments: saved if any of their gradients is wanted; 0: always */
} SaveItem;
typedef struct SaveSpec {
    int n;
    SaveItem items[MAX_SAVES];
} SaveSpec;

void saves_parse(const OpRow *row, SaveSpec *plan); /* into one without items; skips what saves_check refuses */
Status saves_check(const OpRow *row);               /* of a user's op: raises ST_ARGUMENT where it is no such list */

/* Is there a gradient of a result like this? A number's is none: it is a constant to what it is used in. */
static inline bool result_has_gradient(const Meta *meta) { return dtype_is_float(meta->dtype) && !meta->wrapped; }

#endif
