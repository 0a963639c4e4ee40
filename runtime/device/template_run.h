/* template_run.h: a use of a template whose ints are known now. */
#ifndef SINTER_RUNTIME_TEMPLATE_RUN_H
#define SINTER_RUNTIME_TEMPLATE_RUN_H
#include "runtime/device/launch_bind.h"

/* A finished rectangle of the hole's sizes: lo..hi of each. */
typedef struct TemplateTile {
    const void *at; /* of the compute type: the first element */
    int64_t ld;     /* elements per row of the tile */
    int64_t lo[TEMPLATE_RANK], hi[TEMPLATE_RANK];
} TemplateTile;

typedef struct TemplateRun {
    DType dtype;
    int64_t size[TEMPLATE_SIZES];
    struct {
        void *at; /* NULL: a result that is not stored */
        int64_t stride[TEMPLATE_RANK];
    } operand[TEMPLATE_OPERANDS];
    void (*tile)(void *context, const TemplateTile *tile); /* NULL: it stores by itself */
    void *context;
} TemplateRun;

void template_bind(const TemplateUse *use, const Bound *bound, TemplateRun *run);

#endif
