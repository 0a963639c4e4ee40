/* template.c: the rows, and questions about them. */
#include "ir/template.h"

const Template templates[TEMPLATE_COUNT] = {
#define TEMPLATE(row, ...) [TEMPLATE_##row] = {.name = #row, __VA_ARGS__},
#include "ir/templates.def"
#undef TEMPLATE
};

TemplateUse template_use(const Template *row) {
    TemplateUse use = {.row = row, .tile = -1, .tile_ld = -1};
    for (int i = 0; i < TEMPLATE_OPERANDS; i++) use.operand[i].buf = -1;
    return use;
}

const Template *template_find(const char *name, size_t n) {
    for (int i = 0; i < TEMPLATE_COUNT; i++)
        if (strlen(templates[i].name) == n && !memcmp(templates[i].name, name, n)) return &templates[i];
    return NULL;
}

bool template_reads(const TemplateUse *use, int buf) {
    for (int i = 0; i < TEMPLATE_OPERANDS && use->row->operands[i].name; i++)
        if (!use->row->operands[i].result && use->operand[i].buf == buf) return true;
    return false;
}
