/* capture_refusal.c: reasons are asked for in the order in which they would matter: of the row, of the state of the
 * thread, of the tensors, of the form. */
#include "runtime/capture/record/capture_refusal.h"

#include "runtime/core/breaks.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/override.h"
#include "runtime/device/device.h"
#include "runtime/eager/eager.h"
#include "runtime/capture/record/capture_facts.h"
#include "runtime/capture/record/capture_split.h"
#include "runtime/capture/record/capture_written.h"

/* A user's op needs a meta rule and must be declared pure or ordered [semantics C12]. */
static bool is_capturable(const OpRow *row) {
    const DynamicOp *const custom = op_dynamic(row);
    return custom ? (custom->meta || custom->functional_of || row->expression) &&
                        custom->flags & (SN_OP_PURE | SN_OP_ORDERED)
                  : row->meta != NULL;
}

Reason capture_row_refusal(const OpRow *row) {
    if (row->role == ROLE_resizes) return BREAK_REASON(resized);
    if (row->flags & OPF_host) return BREAK_REASON(host_value);
    if (row->role == ROLE_bits) return BREAK_REASON(other_dtype_view);
    const DynamicOp *const custom = op_dynamic(row);
    if (row->returns_list && !(row->flags & OPF_flow) && !custom) return BREAK_REASON(tensor_list);
    if (!is_capturable(row) && !(custom && custom->functional)) return BREAK_REASON(no_meta_rule);
    if (custom && custom->n_written) return BREAK_REASON(writes_argument);
    if (!row->n_out) return BREAK_REASON(no_results); /* no graph holds one */
    return NULL;
}

/* A row with a device argument runs on that device; its tensors may be on another. */
static bool is_elsewhere(const OpCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val && key_of_device(a->val->meta->device) & ~device_compiled()) return true;
    }
    return false;
}

/* Which device it is that no segment has ops of. */
static Reason elsewhere_refusal(const OpCall *call) {
    uint64_t keys = call->keys;
    for (int i = 0; i < call->row->n_params; i++)
        if (call->args[i].kind == ARG_tensor && call->args[i].val) keys |= tensor_of(call->args[i].val)->keys;
    keys &= KEYS_BACKEND & ~device_compiled();
    const DeviceRow *const device = keys ? device_of_key((Key)(63 - __builtin_clzll(keys))) : NULL;
    return device && device->uncompiled ? reason_from(device->uncompiled) : BREAK_REASON(device_without_code);
}

/* A device tells a wrong value later: its line is that of the op while that runs by itself. */
static inline bool breaks_for_checks(const Capture *c, const OpCall *call) {
    if (!(call->row->flags & OPF_check)) return false;
    return c->eager_checks || (c->device_asserts && call->keys & KEYS_BACKEND & ~KEY_BIT(cpu));
}

/* What cannot be captured runs at once, after what is pending; NULL: it can. A row that the trie has an
 * edge of was asked about before. */
static inline Reason refusal_as_it_is(const Capture *c, const OpCall *call, const sn_state *state) {
    const TrieNode *const likely = trie_newest(c->cursor);
    const Reason never = likely && likely->op.row == call->row ? NULL : capture_row_refusal(call->row);
    if (UNLIKELY(never != NULL)) return never;
    if (UNLIKELY(state->modes != NULL)) return BREAK_REASON(user_mode);
    if (UNLIKELY(capture_is_watched(state))) return BREAK_REASON(watched);
    if (UNLIKELY(breaks_for_checks(c, call))) return BREAK_REASON(value_check);
    if (override_covers(call->row)) return BREAK_REASON(overridden);
    if (UNLIKELY(call->keys & KEYS_UNCAPTURED)) return BREAK_REASON(own_key);
    if (UNLIKELY(call->keys & KEYS_BACKEND & ~device_compiled()) ||
        UNLIKELY(call->row->device >= 0 && is_elsewhere(call)))
        return elsewhere_refusal(call);
    return NULL;
}

/* Out tensors of other sizes than the result's are resized, which a segment cannot do. */
static bool resizes(const OpCall *call) {
    MetaOut metas[MAX_OUTS];
    int n = call->row->n_out;
    if (call_metas(call, 0, metas, &n) != ST_OK) return false;
    for (int i = 0; i < n; i++) {
        const Meta *const now = call->out_args[i]->base.meta;
        if (now->rank != metas[i].rank || memcmp(now->sizes, metas[i].sizes, sizeof(int64_t) * (size_t)now->rank) != 0)
            return true;
    }
    return false;
}

/* A plan's number is on the host, and a step has one device. */
static bool gives_number_elsewhere(const OpCall *call) {
    const DynamicOp *const custom = op_dynamic(call->row);
    return custom && custom->numbers && call->keys & KEYS_BACKEND & ~KEY_BIT(cpu);
}

/* Gradients of control flow, by name. */
static int last_gradient(const OpCall *call) {
    const int of = call->row->flags & OPF_flow ? op_param_find(call->row, "of") : -1;
    int last = -1;
    for (int i = 0; of >= 0 && i < call->args[of].n; i++)
        if (call->args[of].ints[i] > last) last = (int)call->args[of].ints[i];
    return last;
}

/* More results than a step of a plan may have, or none, which no graph holds: of control flow, and lists of user's
 * ops. */
static Reason list_refusal(const OpCall *call) {
    if (LIKELY(!call->row->returns_list) || !op_dynamic(call->row))
        return UNLIKELY(last_gradient(call) >= MAX_OUTS) ? BREAK_REASON(many_results) : NULL;
    const int n = capture_list_length(call);
    return n > MAX_OUTS ? BREAK_REASON(many_results) : n ? NULL : BREAK_REASON(no_results);
}

/* More exactly, where that is known. */
static Reason written_reason(Capture *c, const OpCall *call, Reason reason) {
    const bool plain = !state_get()->modes && !override_covers(call->row);
    const Reason why = plain ? capture_written_refusal(c, call) : NULL;
    return why ? why : reason;
}

Reason capture_refusal(Capture *c, const OpCall *call) {
    const sn_state *const state = state_get();
    const Reason reason = refusal_as_it_is(c, call, state);
    if (UNLIKELY(reason != NULL)) return written_reason(c, call, reason);
    if (UNLIKELY(call->form == FORM_out && capture_out_tracks(c, call, state))) return BREAK_REASON(out_grad);
    if (UNLIKELY(call->form == FORM_out) && resizes(call)) return BREAK_REASON(out_resized);
    if (UNLIKELY(gives_number_elsewhere(call))) return BREAK_REASON(number_elsewhere);
    return list_refusal(call);
}
