/* cuda_template.c: templates on a CUDA device: a row's core is code of its own, its nest (the hole) a kernel of the
 * plan's program like any other (codegen/cuda/epilogue.c). */
#include "runtime/cuda/cuda_code.h"

#define TEMPLATE(name, ...) extern const CudaTemplate cuda_template_##name;
#include "ir/templates.def"
#undef TEMPLATE

const CudaTemplate *cuda_template_of(const Kernel *kernel) {
    static const CudaTemplate *const rows[] = {
#define TEMPLATE(name, ...) [TEMPLATE_##name] = &cuda_template_##name,
#include "ir/templates.def"
#undef TEMPLATE
    };
    return rows[template_id(kernel->template->row)];
}

bool cuda_remark(const Kernel *kernel, Text *text) {
    const CudaTemplate *const of = kernel->template ? cuda_template_of(kernel) : NULL;
    return of && of->remark && of->remark(kernel, text);
}
