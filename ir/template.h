/* template.h: rows of templates.def, and what a kernel says of the one that it has.
 *
 * A template computes its result tile by tile. Either it stores them, or the kernel's nest runs over each finished tile
 * (the hole): its outer dims are the hole's sizes, of which the first may be left out where it is 1, and it reads the
 * tile, a buffer of role BUF_tile, by the last two. As text:
 *
 *   gemm f32 [1, p0, 768, 64] a=b0[0; 0, 64, 1] b=b1[8; 0, 1, 64] tile=b3 ld=p1
 *
 * name, dtype of the operands, sizes, operands with offset and strides by their dims; a result only where it stores.
 * `fast` behind the dtype: the device may round otherwise than eager (sn_numerics). */
#ifndef SINTER_IR_TEMPLATE_H
#define SINTER_IR_TEMPLATE_H
#include "ir/dtype.h"

enum { TEMPLATE_SIZES = 16, TEMPLATE_OPERANDS = 6, TEMPLATE_RANK = 4 };

typedef struct Template {
    const char *name, *sizes; /* a letter each, in the order of the text */
    struct {
        const char *name, *dims;
        bool result;
    } operands[TEMPLATE_OPERANDS]; /* until the name is NULL; results come last */
    const char *hole;              /* the dims of the nest over a finished tile; the last two are a tile's */
    DType fast;                    /* of operands for which a device has a faster way that rounds otherwise; 0: none */
} Template;

typedef enum TemplateId {
#define TEMPLATE(name, ...) TEMPLATE_##name,
#include "ir/templates.def"
#undef TEMPLATE
    TEMPLATE_COUNT
} TemplateId;
extern const Template templates[TEMPLATE_COUNT];

typedef struct TemplateOperand {
    int buf; /* -1: none */
    int64_t offset, stride[TEMPLATE_RANK];
} TemplateOperand;

/* Ints are plain or parameters of the kernel. */
typedef struct TemplateUse {
    const Template *row;
    DType dtype; /* of the operands; computed in dtype_compute(dtype) */
    int64_t size[TEMPLATE_SIZES];
    TemplateOperand operand[TEMPLATE_OPERANDS];
    bool fast;
    int tile;    /* buffer of role BUF_tile, -1: no hole */
    int tile_ld; /* parameter whose value is the tile's row stride, set by the executor; -1: none */
} TemplateUse;

/* One of no operands, without a hole. */
TemplateUse template_use(const Template *row);
const Template *template_find(const char *name, size_t n); /* NULL: none of that name */
static inline TemplateId template_id(const Template *row) { return (TemplateId)(row - templates); }
static inline int template_size(const Template *row, char letter) {
    return (int)(strchr(row->sizes, letter) - row->sizes);
}
/* Does it read this buffer? The hole may read more. */
bool template_reads(const TemplateUse *use, int buf);

#endif
