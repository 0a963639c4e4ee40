/* template.h: the templates of ir/templates.def on the CPU: template_run_<name> computes a use whose ints are known
 * now, on the pool's threads. */
#ifndef SINTER_RUNTIME_CPU_TEMPLATE_H
#define SINTER_RUNTIME_CPU_TEMPLATE_H
#include "runtime/device/template_run.h"

typedef Status TemplateFn(const TemplateRun *run);
#define TEMPLATE(name, ...) TemplateFn template_run_##name;
#include "ir/templates.def"
#undef TEMPLATE

#endif
