/* captured_region.c: see captured_region.h. What a region may write is what it made: a value of the call that was
 * recorded since it began, or a tensor that was made at once meanwhile. */
#include "runtime/capture/record/captured_region.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/error.h"
#include "runtime/capture/record/trace_views.h"

CaptureRegion *captured_region_current(Capture *c) {
    const uint32_t n_scopes = state_get()->n_scopes;
    while (c->region && n_scopes <= c->region->n_scopes) c->region = c->region->outer; /* left by a jump */
    return c->region;
}

static Status begin_region(Capture *c, const RegionPolicy *policy) {
    CaptureRegion *const outer = captured_region_current(c), *const region = ARENA_NEW(c->arena, CaptureRegion);
    if (!region) return ST_MEMORY;
    *region = (CaptureRegion){.outer = outer,
                              .n_scopes = state_get()->n_scopes,
                              .policy = *policy,
                              .first_trace = c->traces.n - 1,
                              .first_op = c->trace->ops.n};
    c->region = region;
    return ST_OK;
}

static int number_of(Capture *c, CaptureRegion *region) {
    if (!region) return 0;
    if (region->numbered == c->trace) return region->number;
    const int outer = number_of(c, region->outer);
    VEC_PUSH(c->arena, &c->trace->regions, outer);
    region->numbered = c->trace;
    return region->number = c->trace->regions.n;
}

/* One that lies further out has a say, too. */
static bool is_saved(const CaptureRegion *region, const OpCall *call) {
    while (region && !region_policy_saves(&region->policy, call)) region = region->outer;
    return region != NULL;
}

/* writes ----------------------------------------------------------------------------------------------------------- */

typedef struct MadeAt { /* a value of the call: what a tensor shows */
    const Trace *trace;
    int segment, value;
    const RegionBeside *beside; /* or what was made at once */
} MadeAt;

static bool made_as(const Capture *c, const sn_tensor *t, int before, MadeAt *out);

/* Where a value's memory was made; false: it is an input's that the call did not make. */
static bool made_at(const Capture *c, int segment, int value, MadeAt *out) {
    const Trace *const trace = c->traces.at[segment];
    const Operand root = trace_root(trace, value);
    *out = (MadeAt){.trace = trace, .segment = segment, .value = root};
    if (root >= 0) return true;
    const sn_tensor *const input = trace->inputs.at[operand_input(root)].tensor;
    return input && made_as(c, input, segment, out);
}

/* A value that has its data shares storage with what else shows that. */
static bool shows(const sn_tensor *value, const sn_tensor *t) {
    return value && (value == t || (!value->placeholder && !t->placeholder && value->storage == t->storage));
}

/* In the segments before one: an input comes from an earlier one, whatever views of it there are later. */
static bool made_as(const Capture *c, const sn_tensor *t, int before, MadeAt *out) {
    for (int s = before - 1; s >= 0; s--) {
        const Trace *const trace = c->traces.at[s];
        if (t->placeholder && t->placeholder->trace == trace) return made_at(c, s, t->placeholder->value, out);
        for (int v = 0; !t->placeholder && v < trace->values.n; v++)
            if (shows(trace->values.at[v], t)) return made_at(c, s, v, out);
    }
    return false;
}

/* The newest: memory of one that is gone may be another's. */
static const RegionBeside *made_beside(const CaptureRegion *region, const sn_tensor *t) {
    for (int i = region->beside.n - 1; i >= 0; i--)
        if (region->beside.at[i].storage == t->storage) return &region->beside.at[i];
    return NULL;
}

static int maker_of(const MadeAt *made) { return made->trace->places.at[made->value].op; }

static bool is_made_in(const CaptureRegion *region, const MadeAt *made) {
    return made->segment > region->first_trace ||
           (made->segment == region->first_trace && maker_of(made) >= region->first_op);
}

/* By the policy of a region that is still open; of one that has ended a backward sees the write. */
static bool is_saved_in(const CaptureRegion *region, const MadeAt *made) {
    const TraceOp *const by = made->trace->ops.at[maker_of(made)].op;
    for (; region && by->modes & NODE_saved; region = region->outer) {
        const RegionPolicy *const policy = &region->policy;
        if (policy->saves && is_made_in(region, made) && policy->saves(policy->context, by->row->name)) return true;
    }
    return false;
}

static bool is_made(const Capture *c, const CaptureRegion *region, const sn_tensor *t, MadeAt *made) {
    *made = (MadeAt){.beside = t->placeholder ? NULL : made_beside(region, t)};
    return made->beside || (made_as(c, t, c->traces.n, made) && is_made_in(region, made));
}

static RegionOrigin origin_of(const void *capture, const sn_tensor *t) {
    MadeAt made;
    const Capture *const c = capture;
    if (!is_made(c, c->region, t, &made)) return ORIGIN_outside;
    const bool saved = made.beside ? made.beside->saved : is_saved_in(c->region, &made);
    return saved ? ORIGIN_saved : ORIGIN_made;
}

/* reads ------------------------------------------------------------------------------------------------------------ */

static bool is_inference(const sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    return p ? trace_is_inference(p->trace, p->value) : t->flags & TF_inference;
}

static Status check_read(void *capture, const OpCall *call, sn_tensor *t) {
    MadeAt made;
    const Capture *const c = capture;
    (void)call;
    return is_inference(t) && !is_made(c, c->region, t, &made) ? tape_save_error() : ST_OK;
}

Status captured_region_check(Capture *c, const OpCall *call) {
    if (!captured_region_current(c)) return ST_OK;
    TRY(region_each_read(call, check_read, c));
    return region_check_writes(call, origin_of, c);
}

/* the rest of one -------------------------------------------------------------------------------------------------- */

typedef struct RestSearch {
    Capture *capture;
    const CaptureRegion *outermost;
    bool found;
} RestSearch;

static Status find_rest(void *search, const OpCall *call, sn_tensor *t) {
    RestSearch *const r = search;
    Trace *const trace = r->capture->trace;
    MadeAt made;
    (void)call;
    if ((t->placeholder && t->placeholder->trace == trace) || !is_made(r->capture, r->outermost, t, &made))
        return ST_OK;
    r->found = true;
    VEC_PUSH(r->capture->arena, &trace->rest, t);
    return ST_OK;
}

/* Does the call read what its region made before this segment? */
static bool reads_rest(Capture *c, const OpCall *call) {
    RestSearch search = {.capture = c, .outermost = c->region};
    while (search.outermost->outer) search.outermost = search.outermost->outer;
    if (LIKELY(search.outermost->first_trace == c->traces.n - 1 && !search.outermost->beside.n)) return false;
    region_each_read(call, find_rest, &search);
    return search.found;
}

OpRegion captured_region_place(Capture *c, const OpCall *call) {
    CaptureRegion *const region = LIKELY(!c->region) ? NULL : captured_region_current(c);
    if (LIKELY(!region)) return (OpRegion){0};
    const uint8_t saved = is_saved(region, call) ? NODE_saved : 0, rest = reads_rest(c, call) ? NODE_rest : 0;
    return (OpRegion){number_of(c, region), saved | rest};
}

void captured_region_made(Capture *c, const sn_tensor *t, const OpCall *call) {
    CaptureRegion *region = t && t->storage ? captured_region_current(c) : NULL;
    for (; region; region = region->outer)
        VEC_PUSH(c->arena, &region->beside, ((RegionBeside){t->storage, call && is_saved(region, call)}));
}

/* calls ------------------------------------------------------------------------------------------------------------ */

/* What is handed to the body. */
static Status check_inputs(const RegionCall *call) {
    for (int i = 0; i < call->n_in; i++) {
        const Arg *const a = &call->in[i];
        if (a->kind == ARG_tensor && a->val && is_inference(tensor_of(a->val))) return tape_save_error();
    }
    return ST_OK;
}

Status captured_region_call(Capture *c, const RegionCall *call) {
    CaptureRegion *const outer = captured_region_current(c);
    const bool region = state_get()->grad_mode == SN_GRAD_ON;
    Status status = region ? check_inputs(call) : ST_OK;
    if (region && status == ST_OK) status = begin_region(c, &call->policy);
    if (status == ST_OK) status = region_run_body(call, call->in, call->out);
    c->region = outer;
    return status;
}
