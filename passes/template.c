/* template.c: a node as a use of the template that computes it: sizes and operands by the columns of its row. */
#include "passes/template.h"

static const TemplateRule *const rules[TEMPLATE_COUNT] = {
#define TEMPLATE(name, ...) [TEMPLATE_##name] = &lower_##name,
#include "ir/templates.def"
#undef TEMPLATE
};

const Template *template_row(const Node *node) {
    for (int i = 0; i < TEMPLATE_COUNT; i++)
        if (rules[i]->takes(node)) return &templates[i];
    return NULL;
}

const TemplateRule *template_rule(const Node *node) {
    const Template *const row = template_row(node);
    return row ? rules[template_id(row)] : NULL;
}

/* A size is that of the first operand that has the dim. */
static void bind_sizes(Draft *draft, TemplateUse *use, const char *dims, const Meta *meta, bool *known) {
    const int skip = (int)strlen(dims) - meta->rank;
    for (int d = 0; dims[d]; d++) {
        const int size = template_size(use->row, dims[d]);
        if (known[size]) continue;
        known[size] = true;
        use->size[size] = d < skip ? 1 : draft_int(draft, meta->sizes[d - skip]);
    }
}

static void bind_operand(Draft *draft, TemplateUse *use, int number, const GVal *v) {
    const ValInfo *const info = val_info(draft->l, v);
    const char *const dims = use->row->operands[number].dims;
    const int skip = (int)strlen(dims) - v->base.meta->rank;
    TemplateOperand *const operand = &use->operand[number];
    for (int d = 0; dims[d]; d++) operand->stride[d] = d < skip ? 0 : draft_int(draft, info->strides[d - skip]);
    operand->offset = draft_int(draft, info->offset);
    operand->buf = draft_buf(draft, info->base, use->row->operands[number].result);
}

static DType tile_dtype(DType dtype) { return dtype == DT_f16 || dtype == DT_bf16 ? DT_f32 : dtype; }

static void add_tile(Draft *draft, TemplateUse *use) {
    use->tile = draft->tile = draft->bufs.n;
    VEC_PUSH(draft->arena, &draft->homes, NULL);
    VEC_PUSH(draft->arena, &draft->slots, -1);
    VEC_PUSH(draft->arena, &draft->bufs, ((Buf){tile_dtype(use->dtype), BUF_tile}));
    use->tile_ld = draft->tile_param = draft->params.n;
    VEC_PUSH(draft->arena, &draft->params, 0);
    VEC_PUSH(draft->arena, &draft->is_float, false);
}

void template_begin(Draft *draft, const Node *node, bool hole, TemplateUse *use) {
    const Template *const row = template_row(node);
    const TemplateRule *const rule = rules[template_id(row)];
    bool known[TEMPLATE_SIZES] = {false};
    *use = template_use(row);
    use->dtype = rule->operand(node, 0)->base.meta->dtype;
    /* The host's code is exact in any case. */
    use->fast = draft->l->fast && row->fast == use->dtype && !device_is_host(node->outs[0].base.meta->device);
    for (int i = 0; i < TEMPLATE_OPERANDS && row->operands[i].name; i++)
        bind_sizes(draft, use, row->operands[i].dims, rule->operand(node, i)->base.meta, known);
    for (int i = 0; row->sizes[i]; i++)
        if (!known[i]) use->size[i] = draft_int(draft, rule->size(node, row->sizes[i]));
    for (int i = 0; i < TEMPLATE_OPERANDS && row->operands[i].name; i++)
        if (!row->operands[i].result || !hole) bind_operand(draft, use, i, rule->operand(node, i));
    if (hole) add_tile(draft, use);
}
