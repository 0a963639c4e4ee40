/* mapping_verify.c: what spelling relies on. A mapping may have been read from an edited text: whatever passes here
 * gives the right bits, if not the best speed; whatever does not is refused by the part that does not fit. */
#include "codegen/cuda/mapping.h"
#include "runtime/base/error.h"

typedef struct MappingCheck {
    const CudaMapping *mapping;
    const Kernel *kernel;
    const Machine *machine;
} MappingCheck;

static Status refuse_nest(const Nest *nest, const char *part, const char *why) {
    return error_raise(ST_INTERNAL, "shape of %s: %s: %s", nest->name ? nest->name : "?", part, why);
}

/* a nest ------------------------------------------------------------------------------------------ */

/* The maps over the outer dims that follow a phase. */
static int maps_after(const Nest *nest, int phase) {
    int n = 0;
    while (phase + 1 + n < nest->n_phases && nest->phases[phase + 1 + n].over_outer) n++;
    return n;
}

static Status check_task(const Nest *nest, const CudaPart *part, CudaTask task, int phase) {
    if (part->task != task || part->phase != phase)
        return refuse_nest(nest, "tasks",
                           "not those of each phase in turn: a reduction's chunks and what joins them, "
                           "once over outer dims, elements else");
    if (part->n_after < 0 || part->n_after > (cuda_part_has_results(part, nest) ? maps_after(nest, phase) : 0))
        return refuse_nest(nest, "after", "maps over outer dims alone follow what has results");
    return ST_OK;
}

/* The tasks that phase `phase` needs; returns how many. */
static int needed_tasks(const Nest *nest, int phase, CudaTask out[3]) {
    int n = 0;
    if (nest->phases[phase].kind != PHASE_reduce) {
        out[0] = nest->phases[phase].over_outer ? CUDA_once : CUDA_elements;
        return 1;
    }
    out[n++] = CUDA_chunks;
    if (cuda_mode_of(nest) == CUDA_rows) out[n++] = CUDA_join_l;
    if (nest->n_s) out[n++] = CUDA_join_s;
    return n;
}

static Status check_tasks(const Nest *nest, const CudaPart *parts, int n) {
    int k = 0;
    for (int p = 0; p < nest->n_phases; p++) {
        CudaTask task[3];
        const int needed = needed_tasks(nest, p, task);
        for (int t = 0; t < needed; t++, k++) {
            if (k == n) return refuse_nest(nest, "tasks", "some are missing");
            TRY(check_task(nest, &parts[k], task[t], p));
        }
        p += parts[k - 1].n_after;
    }
    return k == n ? ST_OK : refuse_nest(nest, "tasks", "more than there are phases for");
}

static Status check_unroll(const Nest *nest, const CudaPart *part) {
    if (part->unroll >= 1 && part->unroll <= (cuda_part_loops(part) ? CUDA_MOST_UNROLL : 1)) return ST_OK;
    return refuse_nest(nest, "unroll", "from 1 to 32 elements, 1 where a task has no loop");
}

static Status check_parts(const Nest *nest, const CudaPart *parts, int n) {
    for (int k = 0; k < n; k++) TRY(check_unroll(nest, &parts[k]));
    if (parts->task == CUDA_whole)
        return n == 1 && !parts->n_after ? ST_OK : refuse_nest(nest, "whole", "another task beside it");
    if (!cuda_may_split(nest)) return refuse_nest(nest, "tasks", "a nest without reductions is whole");
    for (int k = 1; k < n; k++)
        if (parts[k].level <= parts[k - 1].level)
            return refuse_nest(nest, "level", "each task of a nest waits for the one before it");
    return check_tasks(nest, parts, n);
}

static Status check_nest(const MappingCheck *c, const CudaPart *parts, int n) {
    const Nest *const nest = &c->kernel->nests[parts->nest];
    const CudaNestMapping *const m = &parts->mapping;
    const DimGroups dims = {m->n_groups, m->n_outer_groups, m->n_s_groups, m->group};
    if (m->mode != cuda_mode_of(nest))
        return refuse_nest(nest, "mode", "L dims run as rows, other inner dims as columns, none as a map");
    if (m->threads <= 0 || m->threads > CUDA_MOST_THREADS || m->threads % CUDA_WARP)
        return refuse_nest(nest, "threads", "not whole warps of 32, 1024 threads at most");
    TRY(dims_verify(&dims, nest, 0));
    return check_parts(nest, parts, n);
}

/* launches ---------------------------------------------------------------------------------------- */

/* What a nest must wait for is done when its launch begins, or has a lower level in it. */
static Status check_order(const MappingCheck *c, const CudaPart *parts, const CudaPart *before) {
    const Nest *const nest = &c->kernel->nests[parts->nest];
    const int launch = parts->mapping.launch;
    if (!before) return launch == 0 ? ST_OK : refuse_nest(nest, "launch", "the first one is 0");
    const int last = before->mapping.launch;
    if (launch != last && launch != last + 1) return refuse_nest(nest, "launch", "not the last one or the next");
    if (launch != last) return ST_OK;
    if (parts->mapping.threads != before->mapping.threads)
        return refuse_nest(nest, "threads", "another number than the launch has");
    if (!c->kernel->independent && parts->level <= before->level)
        return refuse_nest(nest, "level", "it may see what the nest before it stores");
    return ST_OK;
}

static Status check_launch(const MappingCheck *c, int first, int n) {
    const CudaPart *const parts = &c->mapping->parts[first];
    const Nest *const nest = &c->kernel->nests[parts->nest];
    int args = 0;
    for (int k = 0; k < n; k++) {
        args += cuda_mapping_args(c->kernel, &c->kernel->nests[parts[k].nest], parts[k].task);
        if (parts[k].level < 0 || parts[k].level >= n)
            return refuse_nest(&c->kernel->nests[parts[k].nest], "level", "not below the launch's number of tasks");
    }
    return args <= c->machine->words ? ST_OK : refuse_nest(nest, "launch", "more words than the machine takes");
}

static bool same_groups(const CudaNestMapping *a, const CudaNestMapping *b) {
    for (int g = 0; g < a->n_groups; g++)
        if (a->group[g].first != b->group[g].first || a->group[g].n != b->group[g].n) return false;
    return a->n_groups == b->n_groups && a->n_outer_groups == b->n_outer_groups && a->n_s_groups == b->n_s_groups;
}

static bool same_mapping(const CudaNestMapping *a, const CudaNestMapping *b) {
    return a->mode == b->mode && a->launch == b->launch && a->threads == b->threads && same_groups(a, b);
}

Status cuda_mapping_verify(const CudaMapping *mapping, const Kernel *kernel, const Machine *machine) {
    const MappingCheck check = {mapping, kernel, machine}, *const c = &check;
    int p = 0;
    for (int k = 0; k < kernel->n_nests; k++) {
        const CudaPart *const parts = &mapping->parts[p];
        int n = 0;
        for (; p < mapping->n && mapping->parts[p].nest == k; p++, n++)
            if (!same_mapping(&mapping->parts[p].mapping, &parts->mapping))
                return refuse_nest(&kernel->nests[k], "mapping", "its tasks have several");
        if (!n) return refuse_nest(&kernel->nests[k], "tasks", "none");
        TRY(check_nest(c, parts, n));
        TRY(check_order(c, parts, k ? parts - 1 : NULL));
    }
    if (p != mapping->n) return error_raise(ST_INTERNAL, "shapes of %s: tasks of no nest", kernel->name);
    for (int first = 0, n; first < mapping->n; first += n) {
        n = cuda_mapping_launch_parts(mapping, first);
        TRY(check_launch(c, first, n));
    }
    return ST_OK;
}
