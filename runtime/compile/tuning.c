/* tuning.c: see tuning.h. What is known is one table for the process, read from the file when it is first asked for. */
#include "runtime/compile/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "code_version.h"
#include "codegen/shape/plan_shapes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/small_array.h"
#include "runtime/compile/code_cache.h"
#include "runtime/core/disk_folder.h"
#include "runtime/core/state.h"

static const char first_line[] = "sinter tuning 1\n";

typedef struct TunedNest {
    uint64_t hash;
    int n_words;
    char *shape; /* without the nest's name */
} TunedNest;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TunedNest *nests;
static int n_nests, nests_capacity;
static char file[DISK_PATH];
static bool was_read;

/* The table, under the lock -------------------------------------------------------------------- */

static TunedNest *find_nest(uint64_t hash, int n_words) {
    for (int i = 0; i < n_nests; i++)
        if (nests[i].hash == hash && nests[i].n_words == n_words) return &nests[i];
    return NULL;
}

static void forget_nests(void) {
    for (int i = 0; i < n_nests; i++) mem_free(nests[i].shape);
    mem_free(nests);
    nests = NULL;
    n_nests = nests_capacity = 0;
}

static Status put_nest(uint64_t hash, int n_words, const char *shape, size_t n) {
    char *const own = mem_alloc(n + 1);
    if (!own) return ST_MEMORY;
    memcpy(own, shape, n);
    own[n] = '\0';
    TunedNest *const known = find_nest(hash, n_words);
    if (known) {
        mem_free(known->shape);
        known->shape = own;
        return ST_OK;
    }
    if (n_nests == nests_capacity) {
        const int more = nests_capacity ? 2 * nests_capacity : 64;
        TunedNest *const larger = mem_resize(nests, (size_t)more * sizeof *nests);
        if (!larger) return mem_free(own), ST_MEMORY;
        nests = larger, nests_capacity = more;
    }
    nests[n_nests++] = (TunedNest){hash, n_words, own};
    return ST_OK;
}

/* Text ---------------------------------------------------------------------------------------- */

static void print_head(Text *text) {
    text_puts(text, first_line);
    text_printf(text, "%s\n", SINTER_CODE_VERSION);
    machine_print(code_machine(), text);
}

static void print_table(Text *text) {
    print_head(text);
    for (int i = 0; i < n_nests; i++)
        text_printf(text, "nest %016" PRIx64 " words %d\n%s", nests[i].hash, nests[i].n_words, nests[i].shape);
    text_printf(text, "sum %016" PRIx64 "\n", hash_bytes(17, text_str(text), text->n));
}

void tuning_print(Text *text) {
    pthread_mutex_lock(&lock);
    print_table(text);
    pthread_mutex_unlock(&lock);
}

static Status read_hash(TextReader *in, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < 16; i++, in->at++) {
        const char c = *in->at;
        const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
        if (!digit && !letter) return reader_expected(in, "16 digits of a hash");
        *out = *out << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    return ST_OK;
}

/* Up to the line that ends it; what is in it is read beside its nest. */
static Status read_shape(TextReader *in, const char **shape, size_t *n) {
    *shape = in->at;
    const char *const end = strncmp(in->at, "shape {\n", 8) ? NULL : strstr(in->at, "\n}\n");
    if (!end) return reader_expected(in, "a shape");
    *n = (size_t)(end + 3 - in->at);
    in->at = end + 3;
    return ST_OK;
}

static Status read_nest(TextReader *in) {
    uint64_t hash;
    int n_words;
    const char *shape;
    size_t n = 0;
    TRY(read_hash(in, &hash));
    EAT(in, " words ");
    TRY(reader_count(in, &n_words));
    EAT(in, "\n");
    TRY(read_shape(in, &shape, &n));
    return put_nest(hash, n_words, shape, n);
}

static Status read_nests(TextReader *in) {
    uint64_t sum;
    while (reader_eat(in, "nest ")) TRY(read_nest(in));
    const uint64_t own = hash_bytes(17, in->start, (size_t)(in->at - in->start));
    EAT(in, "sum ");
    TRY(read_hash(in, &sum));
    EAT(in, "\n");
    if (sum != own) return error_raise(ST_PARSE, "its sum is another one: it is damaged");
    return *in->at ? reader_expected(in, "the end") : ST_OK;
}

static Status read_text(const char *text, size_t n) {
    TextReader in = {.what = "tuning text", .between = BETWEEN_nothing, .start = text, .at = text};
    Text head = {0};
    print_head(&head);
    Status status = ST_OK;
    if (strlen(text) != n || strncmp(text, first_line, strlen(first_line)) != 0)
        status = error_raise(ST_PARSE, "it is no tuning file");
    else if (!head.at || strncmp(text, head.at, head.n) != 0)
        status = error_raise(ST_PARSE, "another version of Sinter or another machine made it");
    in.at += head.n;
    text_free(&head);
    return status == ST_OK ? read_nests(&in) : status;
}

static Status read_locked(const char *text, size_t n) {
    forget_nests();
    const Status status = read_text(text, n);
    if (status != ST_OK) forget_nests();
    return status;
}

int tuning_count(void) {
    pthread_mutex_lock(&lock);
    const int n = n_nests;
    pthread_mutex_unlock(&lock);
    return n;
}

/* The file ------------------------------------------------------------------------------------ */

/* Where it is, or is to be; false: nowhere. */
static bool name_file(bool create, char *name, size_t capacity) {
    const char *const wanted = setting_text(state_get(), SET_tuning_file);
    DiskFolder folder;
    int n = snprintf(name, capacity, "%s", wanted);
    if (!*wanted && !disk_folder_open(create, &folder)) return false;
    if (!*wanted) {
        n = snprintf(name, capacity, "%s/tuning", folder.path);
        disk_folder_close(&folder);
    }
    return n >= 0 && (size_t)n < capacity;
}

static void read_file(void) {
    char *text;
    size_t n = 0;
    if (access(file, R_OK)) return;
    Status status = file_read(file, &text, &n);
    if (status == ST_OK) {
        status = read_locked(text, n);
        mem_free(text);
    }
    if (status != ST_OK) LOG(compile, WARNING, "tuning file %s is ignored: %s", file, error_slot()->message);
    error_clear();
}

/* What is known is that of the file that the settings name now. */
static bool use_file(bool create) {
    char name[DISK_PATH];
    if (!name_file(create, name, sizeof name)) *name = '\0';
    if (!was_read || strcmp(name, file) != 0) {
        forget_nests();
        memcpy(file, name, sizeof name);
        was_read = true;
        if (*file) read_file();
    }
    return *file;
}

Status tuning_read(const char *text, size_t n) {
    pthread_mutex_lock(&lock);
    use_file(false); /* which this stands for, until another one is named */
    const Status status = read_locked(text, n);
    pthread_mutex_unlock(&lock);
    return status;
}

static Status save_locked(const char **path) {
    if (!use_file(true))
        return error_raise(ST_STATE, "sn_tune: there is no file for what it measures: set tuning_file or cache_dir");
    *path = file;
    Text text = {0};
    print_table(&text);
    const FileSpan part = {text_str(&text), text.n};
    const Status status = text.at ? file_replace(file, &part, 1) : ST_MEMORY;
    text_free(&text);
    return status;
}

Status tuning_save(const char **path) {
    pthread_mutex_lock(&lock);
    const Status status = save_locked(path);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Taken --------------------------------------------------------------------------------------- */

static void print_anonymous(const NestMapping *shape, const Nest *nest, Text *text) {
    Nest anonymous = *nest;
    anonymous.name = NULL;
    shape_print(shape, &anonymous, text);
}

static uint64_t shape_hash(const char *text) { return hash_bytes(23, text, strlen(text)) | 1; }

/* In the plan's arena; NULL: none is known, or it does not fit. */
static const NestMapping *known_shape(Plan *plan, const Nest *nest, const Buf *bufs, uint64_t *id) {
    uint64_t hash;
    const int n_words = nest_words(nest, bufs, NULL, &hash);
    const TunedNest *const known = find_nest(hash, n_words);
    if (!known) return NULL;
    Nest anonymous = *nest;
    anonymous.name = NULL;
    TextReader in = {.what = "shape", .between = BETWEEN_blanks, .start = known->shape, .at = known->shape};
    NestMapping *shape;
    Status status = shape_parse(plan->arena, &in, &anonymous, &shape);
    if (status == ST_OK) status = shape_verify(shape, nest, bufs, code_machine());
    if (status == ST_OK) {
        *id = shape_hash(known->shape);
        return shape;
    }
    LOG(compile, INFO, "a tuned shape of %s is ignored: %s", nest->name ? nest->name : "a nest", error_slot()->message);
    error_clear();
    return NULL;
}

static void apply_step(Plan *plan, Step *step, CompileReport *info) {
    const Kernel *const kernel = step->kernel;
    uint64_t *const tuned = ARENA_ARRAY(plan->arena, uint64_t, kernel->n_nests + 1);
    const NestMapping **const shapes = ARENA_ARRAY(plan->arena, const NestMapping *, kernel->n_nests + 1);
    if (!tuned || !shapes) return;
    for (int k = 0; k < kernel->n_nests; k++) {
        const NestMapping *const shape = known_shape(plan, &kernel->nests[k], kernel->bufs, &tuned[k]);
        shapes[k] = shape ? shape : step->shapes[k];
        info->tuned += shape != NULL;
    }
    step->shapes = shapes;
    step->tuned = tuned;
}

static bool has_loops_of_host(const Step *step) {
    return step->kind == STEP_kernel && step->kernel->n_nests && device_is_host(step->device);
}

void tuning_apply(Plan *plan, CompileReport *info) {
    pthread_mutex_lock(&lock);
    use_file(false);
    bool any = false;
    for (int s = 0; s < plan->steps.n; s++) {
        Step *const step = &plan->steps.at[s];
        if (!has_loops_of_host(step)) continue;
        any = true;
        if (step->shapes && !step->tuned) apply_step(plan, step, info);
    }
    info->untuned = n_nests  ? ""
                    : !any   ? TUNING_NO_LOOPS
                    : !*file ? "there is no file"
                             : "nothing is measured: sn_tune does";
    pthread_mutex_unlock(&lock);
}

Status tuning_record(const Nest *nest, const Buf *bufs, const NestMapping *shape) {
    uint64_t hash;
    Text text = {0};
    const int n_words = nest_words(nest, bufs, NULL, &hash);
    print_anonymous(shape, nest, &text);
    pthread_mutex_lock(&lock);
    use_file(true);
    const Status status = text.at ? put_nest(hash, n_words, text.at, text.n) : ST_MEMORY;
    pthread_mutex_unlock(&lock);
    text_free(&text);
    return status;
}

uint64_t tuning_id(const Nest *nest, const NestMapping *shape) {
    Text text = {0};
    print_anonymous(shape, nest, &text);
    const uint64_t id = shape_hash(text_str(&text));
    text_free(&text);
    return id;
}
