/* template.h: the templates of ir/templates.def on the CPU: template_run_<name> computes a use whose ints are known
 * now, on the pool's threads. */
#ifndef SINTER_RUNTIME_CPU_TEMPLATE_H
#define SINTER_RUNTIME_CPU_TEMPLATE_H
#include "ir/template.h"
#include "runtime/base/error.h"

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

typedef Status TemplateFn(const TemplateRun *run);
#define TEMPLATE(name, ...) TemplateFn template_run_##name;
#include "ir/templates.def"
#undef TEMPLATE

#endif
