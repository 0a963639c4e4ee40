/* random_mapping.c: see random_mapping.h. A mapping is put together of nests that are whole or split, which no verifier
 * refuses but for the words of a launch; then changes are tried one by one, as those of random_shape.c. */
#include "tests/ref/random_mapping.h"

#include "runtime/base/error.h"

typedef struct MappingDice {
    uint64_t state;
} MappingDice;

static int roll(MappingDice *dice, int n) {
    dice->state = dice->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n > 0 ? (int)((dice->state >> 33) % (uint64_t)n) : 0;
}

static int some_threads(MappingDice *dice) { return CUDA_WARP * (1 + roll(dice, CUDA_MOST_THREADS / CUDA_WARP)); }

/* putting together -------------------------------------------------------------------------------- */

static int nest_parts(const CudaMapping *from, int nest, const CudaPart **first) {
    int begin = 0, n = 0;
    while (from->parts[begin].nest != nest) begin++;
    while (begin + n < from->n && from->parts[begin + n].nest == nest) n++;
    *first = &from->parts[begin];
    return n;
}

/* Levels from `level` on. */
static int add_nest(const CudaMapping *from, int nest, int launch, int threads, int level, CudaMapping *to) {
    const CudaPart *first;
    const int n = nest_parts(from, nest, &first);
    for (int k = 0; k < n; k++) {
        CudaPart *const part = &to->parts[to->n++];
        *part = first[k];
        part->level = level + k, part->mapping.launch = launch, part->mapping.threads = threads;
    }
    return n;
}

static CudaMapping *put_together(Arena *arena, const CudaKernel *of, const Machine *machine, MappingDice *dice) {
    CudaKernel other = *of;
    CudaMapping *const out = cuda_mapping_new(arena, of->kernel);
    other.split = CUDA_split_none;
    const CudaMapping *const whole = cuda_mapping_decide(arena, &other, machine);
    other.split = CUDA_split_all;
    const CudaMapping *const split = cuda_mapping_decide(arena, &other, machine);
    if (!out || !whole || !split) return NULL;
    int threads = some_threads(dice);
    for (int k = 0, launch = 0, level = 0; k < of->kernel->n_nests; k++) {
        if (k && !roll(dice, 3)) launch++, level = 0, threads = some_threads(dice);
        level += add_nest(roll(dice, 2) ? split : whole, k, launch, threads, level, out);
    }
    return out;
}

/* changes ----------------------------------------------------------------------------------------- */

static CudaPart *some_part(CudaMapping *mapping, MappingDice *dice) { return &mapping->parts[roll(dice, mapping->n)]; }

static void change_level(CudaMapping *mapping, MappingDice *dice) {
    some_part(mapping, dice)->level = roll(dice, mapping->n + 1);
}

/* Of a nest, all at once. */
static void change_levels(CudaMapping *mapping, MappingDice *dice) {
    const int nest = some_part(mapping, dice)->nest, by = roll(dice, 5) - 2;
    for (int p = 0; p < mapping->n; p++)
        if (mapping->parts[p].nest == nest) mapping->parts[p].level += by;
}

static void change_launch(CudaMapping *mapping, MappingDice *dice) {
    const int nest = some_part(mapping, dice)->nest, by = roll(dice, 3) - 1;
    for (int p = 0; p < mapping->n; p++)
        if (mapping->parts[p].nest >= nest) mapping->parts[p].mapping.launch += by;
}

static void change_threads(CudaMapping *mapping, MappingDice *dice) {
    const int launch = some_part(mapping, dice)->mapping.launch, threads = some_threads(dice) + 16 * !roll(dice, 8);
    for (int p = 0; p < mapping->n; p++)
        if (mapping->parts[p].mapping.launch == launch) mapping->parts[p].mapping.threads = threads;
}

static void change_task(CudaMapping *mapping, MappingDice *dice) {
    some_part(mapping, dice)->task = (CudaTask)roll(dice, CUDA_TASKS);
}

/* A map over outer dims leaves the task that has done it, and becomes one by itself. */
static void leave_task(CudaMapping *mapping, MappingDice *dice) {
    const int p = roll(dice, mapping->n);
    CudaPart *const part = &mapping->parts[p];
    if (!part->n_after) return;
    memmove(part + 2, part + 1, (size_t)(mapping->n - p - 1) * sizeof *part);
    part[1] = part[0];
    part[1].task = CUDA_once, part[1].phase = part->phase + part->n_after, part[1].n_after = 0;
    part[1].unroll = 1;
    part->n_after--, mapping->n++;
    for (int k = p + 1; k < mapping->n; k++)
        if (mapping->parts[k].mapping.launch == part->mapping.launch) mapping->parts[k].level++;
}

static void change_unroll(CudaMapping *mapping, MappingDice *dice) {
    some_part(mapping, dice)->unroll = roll(dice, CUDA_MOST_UNROLL + 2);
}

/* The extents of both are filled in by printing and parsing. */
static void split_groups(CudaMapping *mapping, MappingDice *dice) {
    const int nest = some_part(mapping, dice)->nest, number = roll(dice, MAX_LOOP_DIMS);
    for (int p = 0; p < mapping->n; p++) {
        CudaNestMapping *const m = &mapping->parts[p].mapping;
        if (mapping->parts[p].nest != nest || !m->n_groups) continue;
        const int g = number % m->n_groups;
        if (m->group[g].n < 2) return;
        memmove(&m->group[g + 1], &m->group[g], sizeof *m->group * (size_t)(m->n_groups - g));
        m->group[g].n = 1;
        m->group[g + 1].first++, m->group[g + 1].n--;
        m->n_groups++;
        if (g < m->n_outer_groups)
            m->n_outer_groups++;
        else if (g < m->n_outer_groups + m->n_s_groups)
            m->n_s_groups++;
    }
}

typedef void MappingChange(CudaMapping *mapping, MappingDice *dice);
static MappingChange *const changes[] = {change_level, change_levels, change_launch, change_threads, change_task,
                                         leave_task,   split_groups,  leave_task,    change_unroll};

static CudaMapping *copy_mapping(Arena *arena, const Kernel *kernel, const CudaMapping *mapping) {
    Text text = {0};
    cuda_mapping_print(mapping, kernel, &text);
    TextReader in = {.what = "mapping", .between = BETWEEN_comments, .start = text_str(&text), .at = text_str(&text)};
    CudaMapping *made = NULL;
    if (cuda_mapping_parse(arena, &in, kernel, &made) != ST_OK) made = NULL;
    text_free(&text);
    return made;
}

CudaMapping *random_mapping(Arena *arena, const CudaKernel *of, const Machine *machine, uint64_t seed) {
    MappingDice dice = {seed};
    CudaMapping *mapping = put_together(arena, of, machine, &dice);
    if (!mapping) return NULL;
    if (cuda_mapping_verify(mapping, of->kernel, machine) != ST_OK) {
        error_clear();
        mapping = cuda_mapping_decide(arena, of, machine);
    }
    for (int k = 0; mapping && k < 40; k++) {
        CudaMapping *const other = copy_mapping(arena, of->kernel, mapping);
        if (!other) return NULL;
        changes[roll(&dice, COUNT_OF(changes))](other, &dice);
        CudaMapping *const whole = copy_mapping(arena, of->kernel, other);
        if (whole && cuda_mapping_verify(whole, of->kernel, machine) == ST_OK) mapping = whole;
        error_clear();
    }
    return mapping;
}
