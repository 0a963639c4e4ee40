/* plan_reach.c: every element that a plan reads or writes lies in its slot, under the values that its symbols have.
 * What lowering makes is right by construction; a plan of a text is asked before it runs: at once where it has no
 * symbols, else at each call with other values.
 *
 * A place is affine in the nest's variables, so that its least and greatest values are sums of those of its terms; a
 * gather adds what a checked index can. */
#include "ir/plan.h"

#include "runtime/base/error.h"

/* Sizes, strides and offsets beyond this are refused: sums of products of two stay far below 2^127. */
#define REACH_MOST (INT64_C(1) << 46)
typedef __int128 Wide;

typedef struct SlotReach {
    const Plan *plan;
    const int64_t *symbols;
    Arena *arena;
    int64_t *slot_bytes; /* by slot: bytes */
    int *new_output;     /* by output that is new: its slot */
    int step;
    const Kernel *kernel;
    int64_t extent[MAX_LOOP_DIMS]; /* of the nest looked at */
} SlotReach;

static Status refuse_reach(const SlotReach *r, const char *what) {
    return error_raise(ST_INTERNAL, "plan, step %d: %s", r->step, what);
}

static int64_t value_now(const SlotReach *r, int64_t v) {
    return sym_is(v) ? sym_eval(r->plan->env, v, r->symbols) : v;
}

static bool is_size(int64_t v) { return v >= 0 && v <= REACH_MOST; }
static bool is_moderate(int64_t v) { return v >= -REACH_MOST && v <= REACH_MOST; }

/* metadata ------------------------------------------------------------------------------------ */

/* Bytes from its first element to past its last; false: not what memory holds. */
static bool bytes_of_layout(const SlotReach *r, const Meta *meta, int64_t offset, Wide *bytes) {
    Wide last = offset, numel = 1;
    if (!is_size(offset)) return false;
    for (int d = 0; d < meta->rank; d++) {
        const int64_t size = value_now(r, meta->sizes[d]), stride = value_now(r, meta->strides[d]);
        if (!is_size(size) || !is_size(stride)) return false;
        last += (Wide)(size - 1) * stride;
        numel *= size;
        if (numel > REACH_MOST || last > REACH_MOST) return false;
    }
    *bytes = numel ? (last + 1) * dtype_bytes(meta->dtype) : 0;
    return true;
}

static Status find_slot_bytes(SlotReach *r, int i) {
    const Slot *const slot = &r->plan->slots.at[i];
    const bool arena = slot->kind == SLOT_arena;
    const Meta *const meta = slot->kind == SLOT_output ? r->plan->outputs.at[slot->index].meta : slot->meta;
    Wide bytes;
    if (!arena && !bytes_of_layout(r, meta, 0, &bytes))
        return error_raise(ST_INTERNAL, "plan, slot %d: no layout of a tensor", i);
    r->slot_bytes[i] = arena ? value_now(r, slot->bytes) : (int64_t)bytes;
    if (!arena || slot->first < 0) return ST_OK;
    const int64_t offset = value_now(r, slot->offset);
    for (int k = 0; k < r->plan->arenas.n; k++) {
        if (r->plan->arenas.at[k].device != slot->meta->device) continue;
        const int64_t whole = value_now(r, r->plan->arenas.at[k].bytes);
        if (is_size(offset) && offset % 64 == 0 && is_size(r->slot_bytes[i]) && is_size(whole) &&
            offset + r->slot_bytes[i] <= whole)
            return ST_OK;
    }
    return error_raise(ST_INTERNAL, "plan, slot %d: not in its arena", i);
}

/* Where the memory of an output is, whose kind is not OUT_none. */
static int base_slot(const SlotReach *r, int output) {
    const PlanOutput *const out = &r->plan->outputs.at[output];
    if (out->kind == OUT_input || out->kind == OUT_view_of_input) return out->base;
    return out->kind == OUT_new ? r->new_output[output] : base_slot(r, out->base);
}

static Status check_view(const SlotReach *r, int i) {
    const PlanOutput *const out = &r->plan->outputs.at[i];
    if (out->kind != OUT_view_of_input && out->kind != OUT_view_of_output) return ST_OK;
    const int slot = base_slot(r, i);
    const Meta *const base = r->plan->slots.at[slot].meta;
    Wide bytes;
    if (base->dtype == out->meta->dtype && base->device == out->meta->device &&
        bytes_of_layout(r, out->meta, value_now(r, out->offset), &bytes) && bytes <= r->slot_bytes[slot])
        return ST_OK;
    return error_raise(ST_INTERNAL, "plan, output %d: a view of more than there is", i);
}

static Status check_place_of(const SlotReach *r, const Val *val) {
    Wide bytes;
    if (!val) return ST_OK;
    const PlanValue *const value = plan_value(val);
    if (bytes_of_layout(r, val->meta, value_now(r, value->offset), &bytes) && bytes <= r->slot_bytes[value->slot])
        return ST_OK;
    return refuse_reach(r, "a value that leaves its slot");
}

static Status check_values(const SlotReach *r, const Step *step) {
    for (int a = 0; a < step_args(step); a++) {
        const Arg *const arg = &step->args[a];
        if (arg->kind == ARG_tensor) TRY(check_place_of(r, arg->val));
        for (int i = 0; arg->kind == ARG_tensors && i < arg->n; i++) TRY(check_place_of(r, arg->vals[i]));
    }
    for (int i = 0; i < step_outs(step); i++) TRY(check_place_of(r, &step->outs[i]->base));
    return ST_OK;
}

/* kernels ------------------------------------------------------------------------------------- */

static int64_t kernel_now(const SlotReach *r, int64_t v) {
    return sym_is(v) ? value_now(r, r->kernel->params[sym_id(v)]) : v;
}

static bool within_slot(const SlotReach *r, int buf, Wide low, Wide high) {
    const int slot = r->plan->steps.at[r->step].bufs[buf];
    return low >= 0 && (high + 1) * dtype_bytes(r->kernel->bufs[buf].dtype) <= r->slot_bytes[slot];
}

static bool add_term(Wide *low, Wide *high, int64_t factor, int64_t count) {
    if (!is_moderate(factor)) return false;
    *(factor > 0 ? high : low) += (Wide)factor * (count - 1);
    return true;
}

/* The tile is a buffer whose rows are `ld` apart: its last two dims are read as they are. */
static bool reads_tile(const SlotReach *r, const Nest *nest, const Inst *inst) {
    const TemplateUse *const use = r->kernel->template;
    if (!use || inst->op != LI_load || use->tile_ld < 0 || inst->at->offset || nest->n_outer < 2) return false;
    for (int d = 0; d < MAX_LOOP_DIMS; d++) {
        const int64_t want = d == nest->n_outer - 2 ? sym_make(use->tile_ld) : d == nest->n_outer - 1;
        if (inst->at->coef[d] != want) return false;
    }
    return true;
}

static bool stays_inside(const SlotReach *r, const Nest *nest, const Inst *inst) {
    if (r->kernel->bufs[inst->buf].role == BUF_tile) return reads_tile(r, nest, inst);
    Wide low = kernel_now(r, inst->at->offset), high = low;
    if (!is_moderate((int64_t)low)) return false;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (inst->at->coef[d] && !add_term(&low, &high, kernel_now(r, inst->at->coef[d]), r->extent[d])) return false;
    if (inst->op == LI_gather) {
        const int64_t bound = kernel_now(r, inst->bound);
        if (bound == 0) return true; /* no index is in range */
        if (!is_size(bound) || !add_term(&low, &high, kernel_now(r, inst->scale), bound)) return false;
    }
    return within_slot(r, inst->buf, low, high);
}

static bool runs(const SlotReach *r, const Nest *nest, const Inst *inst) {
    for (int d = nest->n_outer; inst->inner && d < nest->n_outer + nest->n_inner; d++)
        if (!r->extent[d]) return false;
    return inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store;
}

static Status check_nest(SlotReach *r, const Nest *nest) {
    bool empty = false;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) {
        r->extent[d] = kernel_now(r, nest->extent[d]);
        if (!is_size(r->extent[d])) return refuse_reach(r, "an extent that is no size");
        empty |= d < nest->n_outer && !r->extent[d];
    }
    for (int i = 0; !empty && i < nest->n_insts; i++)
        if (runs(r, nest, &nest->insts[i]) && !stays_inside(r, nest, &nest->insts[i]))
            return refuse_reach(r, "an element that is not in its slot");
    return ST_OK;
}

static Status check_operand(const SlotReach *r, const TemplateUse *use, int number) {
    const TemplateOperand *const operand = &use->operand[number];
    const char *const dims = use->row->operands[number].dims;
    if (operand->buf < 0) return ST_OK;
    Wide low = kernel_now(r, operand->offset), high = low;
    if (!is_size((int64_t)low)) return refuse_reach(r, "an operand that begins before its slot");
    for (int d = 0; dims[d]; d++) {
        const int64_t size = kernel_now(r, use->size[template_size(use->row, dims[d])]);
        if (!size) return ST_OK;
        if (!add_term(&low, &high, kernel_now(r, operand->stride[d]), size))
            return refuse_reach(r, "an operand's stride");
    }
    return within_slot(r, operand->buf, low, high) ? ST_OK : refuse_reach(r, "an operand that leaves its slot");
}

static Status check_kernel_reach(SlotReach *r, const Step *step) {
    const TemplateUse *const use = step->kernel->template;
    r->kernel = step->kernel;
    for (int i = 0; use && use->row->sizes[i]; i++)
        if (!is_size(kernel_now(r, use->size[i]))) return refuse_reach(r, "a size that is none");
    for (int i = 0; use && i < TEMPLATE_OPERANDS && use->row->operands[i].name; i++) TRY(check_operand(r, use, i));
    for (int k = 0; k < step->kernel->n_nests; k++) TRY(check_nest(r, &step->kernel->nests[k]));
    return ST_OK;
}

/* all ----------------------------------------------------------------------------------------- */

static Status check_all(SlotReach *r) {
    for (int i = 0; i < r->plan->slots.n; i++) {
        const Slot *const slot = &r->plan->slots.at[i];
        if (slot->kind == SLOT_output) r->new_output[slot->index] = i;
        TRY(find_slot_bytes(r, i));
    }
    for (int i = 0; i < r->plan->outputs.n; i++) TRY(check_view(r, i));
    for (r->step = 0; r->step < r->plan->steps.n; r->step++) {
        const Step *const step = &r->plan->steps.at[r->step];
        TRY(step->kind == STEP_kernel ? check_kernel_reach(r, step) : check_values(r, step));
    }
    return ST_OK;
}

Status plan_check_reach(const Plan *plan, const int64_t *symbols) {
    SlotReach r = {.plan = plan, .symbols = symbols, .arena = arena_new()};
    r.slot_bytes = r.arena ? ARENA_ARRAY(r.arena, int64_t, plan->slots.n + 1) : NULL;
    r.new_output = r.slot_bytes ? ARENA_ARRAY(r.arena, int, plan->outputs.n + 1) : NULL;
    const Status status = r.new_output ? check_all(&r) : ST_MEMORY;
    arena_free(r.arena);
    return status;
}
