/* cuda_gemm_library.c: see cuda_gemm_library.h. The library counts columns first: its product is C' = B' A', its rows
 * are n, its columns m.
 *
 * What it is given always lies by 16 bytes, with n and k multiples of 8: an operand that does not is copied to where it
 * does, with zeros around. Where it refuses the pinned algorithm for an m, rows of zeros are added; never is another
 * algorithm taken. It knows nothing of checks: what others see is written by a kernel of ours, from workspace. */
#include "runtime/cuda/cuda_gemm_library.h"

#include "kernels/cuda/planes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/cuda/blaslt.h"
#include "runtime/cuda/cuda_graph.h"
#include "runtime/cuda/cuda_native.h"

enum {
    CANONICAL_ROWS = 2048, /* m for which the heuristics are asked */
    SOME_ROWS = 64,        /* that an algorithm is likely to take a multiple of */
    MULTIPLE = 8,          /* of n and k */
    ALIGNED = 16,
    APART = 256,               /* parts of the workspace */
    MOST_WORKSPACE = 32 << 20, /* of an algorithm */
    MOST_CACHED = 4096
};

bool cuda_library_serves(DType dtype, bool fast) {
    return dtype == DT_f16 || dtype == DT_bf16 || (dtype == DT_f32 && fast);
}

bool cuda_library_takes(const CudaProduct *p) {
    const char *why;
    return cuda_library_serves(p->dtype, p->fast) && blaslt_find(&why) != NULL;
}

/* what the library is told ---------------------------------------------------------------------- */

typedef struct LtSignature { /* of one call of the library; no padding: it is compared by its bytes */
    int64_t m, n, k, batches;
    int64_t a_ld, b_ld, d_ld, a_batch, b_batch, d_batch;
    int32_t device, dtype;
    int32_t wide;                 /* the result is f32, the operands are not */
    int32_t a_along_x, b_along_x; /* an operand's elements side by side are of one k */
    int32_t unused;
} LtSignature;

typedef struct LtPin {
    LtSignature key; /* with CANONICAL_ROWS */
    struct LtPin *next;
    bool has; /* false: the library has no algorithm */
    BlasltAlgo algo;
    uint32_t id, tile;
} LtPin;

typedef struct LtUse {
    LtSignature key;
    struct LtUse *next;
    bool cached;
    const LtPin *pin;
    BlasltDesc desc;
    BlasltLayout a, b, d; /* a: the library's first operand, which is B */
    size_t workspace;
    bool taken; /* the algorithm takes these sizes */
} LtUse;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all below */
static Map pins, uses;
static int n_cached;
static BlasltHandle handles[CUDA_MOST_DEVICES];

static const Blaslt *library(void) {
    const char *why;
    return blaslt_find(&why);
}

static Status library_refused(const LtSignature *key, const char *what, BlasltStatus status) {
    const char *const dtype = dtype_name((DType)key->dtype), *const says = library()->GetStatusString(status);
    return error_raise(status == LT_no_memory ? ST_MEMORY : ST_INTERNAL,
                       "cuBLASLt: %s of a product of %s, M=%lld N=%lld K=%lld: %s (%d)", what, dtype, (long long)key->m,
                       (long long)key->n, (long long)key->k, says, status);
}

static void free_use(LtUse *use) {
    const Blaslt *const lt = library();
    if (use->desc) lt->MatmulDescDestroy(use->desc);
    if (use->a) lt->MatrixLayoutDestroy(use->a);
    if (use->b) lt->MatrixLayoutDestroy(use->b);
    if (use->d) lt->MatrixLayoutDestroy(use->d);
    mem_free(use);
}

typedef struct LtSizes {
    BlasltType type;
    int64_t rows, columns, ld, batches, batch;
} LtSizes;

static BlasltStatus make_layout(BlasltLayout *layout, const LtSizes *sizes) {
    const Blaslt *const lt = library();
    const int32_t batches = (int32_t)sizes->batches;
    BlasltStatus status =
        lt->MatrixLayoutCreate(layout, sizes->type, (uint64_t)sizes->rows, (uint64_t)sizes->columns, sizes->ld);
    if (status != LT_success || batches == 1) return status;
    status = lt->MatrixLayoutSetAttribute(*layout, LT_layout_batches, &batches, sizeof batches);
    if (status != LT_success) return status;
    return lt->MatrixLayoutSetAttribute(*layout, LT_layout_batch, &sizes->batch, sizeof sizes->batch);
}

static BlasltType type_of(const LtSignature *key) {
    return key->dtype == DT_f32 ? LT_f32 : key->dtype == DT_bf16 ? LT_bf16 : LT_f16;
}

/* An operand of `x` results: columns of k elements each, or the other way round. */
static LtSizes operand_sizes(const LtSignature *key, bool along_x, int64_t x, int64_t ld, int64_t batch) {
    return (LtSizes){type_of(key), along_x ? x : key->k, along_x ? key->k : x, ld, key->batches, batch};
}

static BlasltStatus describe(LtUse *use) {
    const Blaslt *const lt = library();
    const LtSignature *const key = &use->key;
    const int32_t turned_a = !key->b_along_x, turned_b = key->a_along_x;
    const LtSizes a = operand_sizes(key, key->b_along_x, key->n, key->b_ld, key->b_batch),
                  b = operand_sizes(key, key->a_along_x, key->m, key->a_ld, key->a_batch),
                  d = {key->wide ? LT_f32 : a.type, key->n, key->m, key->d_ld, key->batches, key->d_batch};
    const BlasltCompute compute = key->dtype == DT_f32 ? LT_compute_tf32 : LT_compute_f32;
    BlasltStatus status = lt->MatmulDescCreate(&use->desc, compute, LT_f32);
    if (status == LT_success) status = lt->MatmulDescSetAttribute(use->desc, LT_desc_a, &turned_a, sizeof turned_a);
    if (status == LT_success) status = lt->MatmulDescSetAttribute(use->desc, LT_desc_b, &turned_b, sizeof turned_b);
    if (status == LT_success) status = make_layout(&use->a, &a);
    if (status == LT_success) status = make_layout(&use->b, &b);
    return status == LT_success ? make_layout(&use->d, &d) : status;
}

static Status make_use(const LtSignature *key, LtUse **out) {
    LtUse *const use = *out = mem_zero(sizeof *use);
    if (!use) return ST_MEMORY;
    use->key = *key;
    const BlasltStatus status = describe(use);
    if (status == LT_success) return ST_OK;
    free_use(use);
    return library_refused(key, "the description", status);
}

/* pins ------------------------------------------------------------------------------------------ */

/* Of one batch, as tight as it can lie. */
static LtSignature canonical(const LtSignature *key) {
    LtSignature of = *key;
    of.m = CANONICAL_ROWS, of.batches = 1;
    of.a_ld = key->a_along_x ? of.m : key->k, of.b_ld = key->b_along_x ? key->n : key->k, of.d_ld = key->n;
    of.a_batch = of.b_batch = of.d_batch = 0;
    return of;
}

static uint32_t config(const BlasltAlgo *algo, BlasltConfigAttribute attribute) {
    uint32_t value = 0;
    size_t written;
    library()->MatmulAlgoConfigGetAttribute(algo, attribute, &value, sizeof value, &written);
    return value;
}

/* The first one that adds up each result in one go. */
static void choose_algorithm(LtPin *pin, const BlasltHeuristic *found, int n) {
    for (int i = 0; i < n && !pin->has; i++) {
        const BlasltAlgo *const algo = &found[i].algo;
        if (found[i].state != LT_success || config(algo, LT_algo_splits) > 1 ||
            config(algo, LT_algo_reduction) != LT_no_reduction)
            continue;
        pin->algo = *algo, pin->has = true;
        pin->id = config(algo, LT_algo_id), pin->tile = config(algo, LT_algo_tile);
    }
}

/* Without a word it takes all addresses for multiples of 256. */
static BlasltStatus prefer(BlasltPreference preference) {
    const Blaslt *const lt = library();
    const uint64_t workspace = MOST_WORKSPACE;
    const uint32_t reductions = LT_no_reduction, aligned = ALIGNED;
    BlasltStatus status =
        lt->MatmulPreferenceSetAttribute(preference, LT_prefer_workspace, &workspace, sizeof workspace);
    if (status == LT_success)
        status = lt->MatmulPreferenceSetAttribute(preference, LT_prefer_reductions, &reductions, sizeof reductions);
    for (int each = LT_prefer_a; each <= LT_prefer_d && status == LT_success; each++)
        status = lt->MatmulPreferenceSetAttribute(preference, each, &aligned, sizeof aligned);
    return status;
}

static BlasltStatus ask(const LtUse *use, LtPin *pin) {
    enum { MANY = 8 };
    const Blaslt *const lt = library();
    BlasltHeuristic found[MANY];
    BlasltPreference preference;
    int n = 0;
    BlasltStatus status = lt->MatmulPreferenceCreate(&preference);
    if (status != LT_success) return status;
    if ((status = prefer(preference)) == LT_success)
        status = lt->MatmulAlgoGetHeuristic(handles[use->key.device], use->desc, use->a, use->b, use->d, use->d,
                                            preference, MANY, found, &n);
    lt->MatmulPreferenceDestroy(preference);
    if (status == LT_success) choose_algorithm(pin, found, n);
    return status == LT_not_supported ? LT_success : status;
}

static Status make_pin(const LtSignature *key, LtPin *pin) {
    LtUse *use;
    pin->key = *key;
    TRY(make_use(key, &use));
    const BlasltStatus status = ask(use, pin);
    free_use(use);
    return status == LT_success ? ST_OK : library_refused(key, "an algorithm", status);
}

static uint64_t hash_of(const LtSignature *key) { return hash_bytes(0, key, sizeof *key); }
static bool same_key(const LtSignature *a, const LtSignature *b) { return !memcmp(a, b, sizeof *a); }

static Status find_pin(const LtSignature *of, const LtPin **out) {
    const LtSignature key = canonical(of);
    const uint64_t hash = hash_of(&key);
    LtPin *const first = map_get(&pins, hash), *pin = first;
    while (pin && !same_key(&pin->key, &key)) pin = pin->next;
    if ((*out = pin)) return ST_OK;
    if (!(pin = mem_zero(sizeof *pin))) return ST_MEMORY;
    Status status = make_pin(&key, pin);
    pin->next = first;
    if (status == ST_OK && !map_set(&pins, hash, pin)) status = ST_MEMORY;
    if (status == ST_OK)
        *out = pin;
    else
        mem_free(pin);
    return status;
}

/* uses ------------------------------------------------------------------------------------------ */

static Status check_use(LtUse *use) {
    BlasltHeuristic result = {.workspaceSize = 0};
    const BlasltStatus status = library()->MatmulAlgoCheck(handles[use->key.device], use->desc, use->a, use->b, use->d,
                                                           use->d, &use->pin->algo, &result);
    use->taken = status == LT_success && result.workspaceSize <= MOST_WORKSPACE;
    use->workspace = result.workspaceSize;
    return status == LT_no_memory ? library_refused(&use->key, "a check", status) : ST_OK;
}

static void cache_use(LtUse *use) {
    const uint64_t hash = hash_of(&use->key);
    if (n_cached == MOST_CACHED) return;
    use->next = map_get(&uses, hash);
    use->cached = map_set(&uses, hash, use);
    n_cached += use->cached;
}

static Status find_use(const LtSignature *key, LtUse **out) {
    const LtPin *pin;
    LtUse *use = map_get(&uses, hash_of(key));
    while (use && !same_key(&use->key, key)) use = use->next;
    if ((*out = use)) return ST_OK;
    TRY(find_pin(key, &pin));
    TRY(make_use(key, &use));
    use->pin = pin;
    const Status status = pin->has ? check_use(use) : ST_OK;
    if (status != ST_OK) return free_use(use), status;
    cache_use(use);
    *out = use;
    return ST_OK;
}

/* Frees a use that is not in the cache. */
static void release_use(LtUse *use) {
    if (use && !use->cached) free_use(use);
}

static Status open_handle(int device) {
    if (handles[device]) return ST_OK;
    const BlasltStatus status = library()->Create(&handles[device]);
    if (status == LT_success) return ST_OK;
    return error_raise(status == LT_no_memory ? ST_MEMORY : ST_INTERNAL, "cuBLASLt cannot be used: %s (%d)",
                       library()->GetStatusString(status), status);
}

/* a call ---------------------------------------------------------------------------------------- */

/* A, of x = m rows, or B, of x = n columns. */
typedef struct Side {
    const void *at;
    int64_t x, k, batch, x_step, k_step;
    bool along_x, packed;
    int64_t x_extent, ld; /* as the library sees it */
} Side;

typedef struct LtCall {
    CudaDevice *device;
    const CudaProduct *product;
    Side a, b;
    int64_t n, k;  /* multiples */
    bool direct;   /* the library writes the result where it belongs */
    int64_t steps; /* calls of the library, each with `key.batches` */
    LtSignature key;
} LtCall;

static bool by_16(int64_t elements, int bytes) { return elements * bytes % ALIGNED == 0; }

/* Can the library read it where it lies? */
static bool lies_well(const Side *side, int64_t batches, int bytes) {
    const int64_t ld = side->along_x ? side->k_step : side->x_step, row = side->along_x ? side->x : side->k;
    return (side->along_x ? side->x_step : side->k_step) == 1 && ld >= row && by_16(ld, bytes) &&
           side->k % MULTIPLE == 0 && (uintptr_t)side->at % ALIGNED == 0 &&
           (batches == 1 || (side->batch >= 0 && by_16(side->batch, bytes)));
}

static void place_side(Side *side, int64_t k, int64_t x_extent) {
    side->x_extent = x_extent;
    side->ld = side->packed ? (side->along_x ? x_extent : k) : side->along_x ? side->k_step : side->x_step;
}

static int64_t packed_elements(const Side *side, int64_t k) { return side->x_extent * k; }

static int result_bytes(const CudaProduct *p) { return p->wide ? 4 : dtype_bytes(p->dtype); }

static bool stays(const CudaProduct *p, int64_t n) {
    const int bytes = result_bytes(p);
    return !p->visible && p->g.n == n && p->g.c_col == 1 && p->g.c_row >= n && by_16(p->g.c_row, bytes) &&
           (uintptr_t)p->c % ALIGNED == 0 && (p->batches == 1 || (p->g.c_batch >= 0 && by_16(p->g.c_batch, bytes)));
}

/* From what costs least to what the library's algorithm is made for. */
typedef enum Attempt { AS_IT_IS, SOME_MORE_ROWS, CANONICAL, EACH_BATCH, ATTEMPTS } Attempt;

static int64_t rows_of(const LtCall *call, Attempt attempt) {
    const int64_t m = call->a.x;
    return attempt == AS_IT_IS ? m : round_up(m, attempt == SOME_MORE_ROWS ? SOME_ROWS : CANONICAL_ROWS);
}

static void plan_call(LtCall *call, Attempt attempt) {
    const CudaProduct *const p = call->product;
    const int64_t m = rows_of(call, attempt), apart = p->batches > 1;
    const int bytes = dtype_bytes(p->dtype);
    call->a.packed = attempt != AS_IT_IS || !lies_well(&call->a, p->batches, bytes);
    call->b.packed = attempt >= CANONICAL || call->n != p->g.n || !lies_well(&call->b, p->batches, bytes);
    if (call->a.packed && call->a.along_x && attempt == AS_IT_IS)
        place_side(&call->a, call->k, round_up(m, MULTIPLE)); /* its rows are of m elements */
    else
        place_side(&call->a, call->k, m);
    place_side(&call->b, call->k, call->n);
    call->direct = attempt == AS_IT_IS && stays(p, call->n);
    call->steps = attempt == EACH_BATCH ? p->batches : 1;
    call->key = (LtSignature){.m = m,
                              .n = call->n,
                              .k = call->k,
                              .batches = p->batches / call->steps,
                              .a_ld = call->a.ld,
                              .b_ld = call->b.ld,
                              .d_ld = call->direct ? p->g.c_row : call->n,
                              .a_batch = apart * (call->a.packed ? packed_elements(&call->a, call->k) : call->a.batch),
                              .b_batch = apart * (call->b.packed ? packed_elements(&call->b, call->k) : call->b.batch),
                              .d_batch = apart * (call->direct ? p->g.c_batch : m * call->n),
                              .device = call->device->row.memory.device - DEV_cuda,
                              .dtype = p->dtype,
                              .wide = p->wide && p->dtype != DT_f32,
                              .a_along_x = call->a.along_x,
                              .b_along_x = call->b.along_x};
}

/* NULL: the library has no algorithm. */
static Status choose(LtCall *call, LtUse **out) {
    LtUse *use = *out = NULL;
    TRY(open_handle(call->device->row.memory.device - DEV_cuda));
    for (Attempt attempt = AS_IT_IS; attempt < ATTEMPTS; attempt++) {
        plan_call(call, attempt);
        TRY(find_use(&call->key, &use));
        if (use->taken) return *out = use, ST_OK;
        const bool has = use->pin->has;
        release_use(use);
        if (!has) return ST_OK;
    }
    return library_refused(&call->key, "its own algorithm", LT_not_supported);
}

typedef struct LtWorkspace {   /* in one block of workspace */
    int64_t b, d, rest, bytes; /* a is at 0 */
} LtWorkspace;

static LtWorkspace workspace_of(const LtCall *call, const LtUse *use) {
    const CudaProduct *const p = call->product;
    const int bytes = dtype_bytes(p->dtype);
    const int64_t a = call->a.packed ? p->batches * packed_elements(&call->a, call->k) * bytes : 0,
                  b = call->b.packed ? p->batches * packed_elements(&call->b, call->k) * bytes : 0,
                  d = call->direct ? 0 : p->batches * call->key.m * call->n * result_bytes(p);
    LtWorkspace at = {.b = round_up(a, APART)};
    at.d = at.b + round_up(b, APART);
    at.rest = at.d + round_up(d, APART);
    at.bytes = at.rest + (int64_t)use->workspace;
    return at;
}

static Status move(const LtCall *call, DType dtype, const void *from, void *to, CudaMove m, int visible) {
    CudaHandLaunch launch = {.kernel = HAND_move_product,
                             .dtype = dtype,
                             .threads = m.batches * m.rows * m.columns,
                             HAND_VALUES(&from, &to, &m, &visible)};
    return cuda_hand_launch(call->device, &launch);
}

static Status pack_side(const LtCall *call, const Side *side, void *to) {
    CudaMove m = {.batches = call->product->batches,
                  .rows = side->x_extent,
                  .columns = call->k,
                  .from_rows = side->x,
                  .from_columns = side->k,
                  .from_batch = side->batch,
                  .from_row = side->x_step,
                  .from_column = side->k_step,
                  .to_batch = packed_elements(side, call->k),
                  .to_row = call->k,
                  .to_column = 1};
    if (side->along_x) {
        m.rows = call->k, m.columns = side->x_extent, m.from_rows = side->k, m.from_columns = side->x;
        m.from_row = side->k_step, m.from_column = side->x_step, m.to_row = side->x_extent;
    }
    return move(call, call->product->dtype, side->at, to, m, false);
}

/* Where it belongs, unless a check has failed and others see it. */
static Status deliver(const LtCall *call, const void *from) {
    const CudaProduct *const p = call->product;
    const CudaMove m = {.batches = p->batches,
                        .rows = p->g.m,
                        .columns = p->g.n,
                        .from_rows = p->g.m,
                        .from_columns = p->g.n,
                        .from_batch = call->key.m * call->n,
                        .from_row = call->n,
                        .from_column = 1,
                        .to_batch = p->g.c_batch,
                        .to_row = p->g.c_row,
                        .to_column = p->g.c_col};
    return move(call, p->wide ? DT_f32 : p->dtype, from, p->c, m, p->visible);
}

/* A lost device is the driver's to tell; of a stream that is captured it must not be asked. */
static Status launch_failed(const LtCall *call, const LtSignature *key, BlasltStatus status) {
    CudaDevice *const device = call->device;
    const CuResult state = cuda_recording ? CU_success : device->driver->StreamQuery(cuda_stream(device)->handle);
    if (state != CU_success && state != CU_not_ready) return cuda_answer(device, "a product", state);
    return library_refused(key, "the launch", status);
}

static Status multiply(const LtCall *call, const LtUse *use, const LtWorkspace *at, char *workspace) {
    static const float one = 1, zero = 0;
    const CudaProduct *const p = call->product;
    const LtSignature *const key = &use->key;
    const char *const a = call->a.packed ? workspace : call->a.at, *const b =
                                                                       call->b.packed ? workspace + at->b : call->b.at;
    char *const d = call->direct ? p->c : workspace + at->d, *const rest = use->workspace ? workspace + at->rest : NULL;
    /* Several only into workspace, of packed operands. */
    const int64_t a_step = packed_elements(&call->a, key->k) * dtype_bytes(p->dtype),
                  b_step = packed_elements(&call->b, key->k) * dtype_bytes(p->dtype),
                  d_step = key->m * key->n * result_bytes(p);
    CudaStream *const stream = cuda_stream(call->device);
    if (!cuda_recorded_foreign(call->device)) return ST_OK;
    for (int64_t i = 0; i < call->steps; i++) {
        const BlasltStatus status = library()->Matmul(
            handles[key->device], use->desc, &one, b + i * b_step, use->a, a + i * a_step, use->b, &zero,
            d + i * d_step, use->d, d + i * d_step, use->d, &use->pin->algo, rest, use->workspace, stream->handle);
        if (status != LT_success) return launch_failed(call, key, status);
    }
    return cuda_launched(stream);
}

static Status run_in(const LtCall *call, const LtUse *use, const LtWorkspace *at, char *workspace) {
    if (call->a.packed) TRY(pack_side(call, &call->a, workspace));
    if (call->b.packed) TRY(pack_side(call, &call->b, workspace + at->b));
    TRY(multiply(call, use, at, workspace));
    return call->direct ? ST_OK : deliver(call, workspace + at->d);
}

static void trace(const LtCall *call, const LtUse *use) {
    const CudaProduct *const p = call->product;
    LOG(dispatch, INFO, "product %s: cuBLASLt algorithm %u tile %u%s: M=%lld N=%lld K=%lld batches=%lld",
        p->dtype == DT_f32 ? "f32 as tf32" : dtype_name(p->dtype), use->pin->id, use->pin->tile,
        call->a.packed || call->b.packed ? " of aligned copies" : "", (long long)p->g.m, (long long)p->g.n,
        (long long)p->g.k, (long long)p->batches);
}

static Status run(const LtCall *call, const LtUse *use) {
    const Memory *const memory = &call->device->row.memory;
    const LtWorkspace at = workspace_of(call, use);
    char *const workspace = at.bytes ? memory->allocate(memory, (size_t)at.bytes) : NULL;
    if (at.bytes && !workspace) return error_pending();
    trace(call, use);
    const Status status = run_in(call, use, &at, workspace);
    if (workspace) memory->free(memory, workspace, (size_t)at.bytes);
    return status;
}

static LtCall call_of(CudaDevice *device, const CudaProduct *p) {
    const CudaGemm *const g = &p->g;
    LtCall call = {.device = device,
                   .product = p,
                   .a = {.at = p->a, .x = g->m, .k = g->k, .batch = g->a_batch, .x_step = g->a_row, .k_step = g->a_col},
                   .b = {.at = p->b, .x = g->n, .k = g->k, .batch = g->b_batch, .x_step = g->b_col, .k_step = g->b_row},
                   .n = round_up(g->n, MULTIPLE),
                   .k = round_up(g->k, MULTIPLE)};
    call.a.along_x = call.a.k_step != 1 && call.a.x_step == 1;
    call.b.along_x = call.b.k_step != 1 && call.b.x_step == 1;
    return call;
}

/* Results without a sum are zeros, which no library need write. */
Status cuda_library_launch(CudaDevice *device, const CudaProduct *product, bool *done) {
    LtUse *use;
    *done = false;
    if (!product->g.m || !product->g.n || !product->g.k || !product->batches) return ST_OK;
    LtCall call = call_of(device, product);
    pthread_mutex_lock(&lock);
    Status status = choose(&call, &use);
    pthread_mutex_unlock(&lock);
    if (status != ST_OK || !use) return status;
    *done = true;
    status = run(&call, use);
    release_use(use);
    return status;
}
