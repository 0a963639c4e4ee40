/* stage_files.c: see stage_files.h. Texts are those of sn_dump. All are written before a call can meet the variant,
 * on the thread that compiles it, also where its code is made in the background: so numbers follow the order of
 * compiling, and nothing here needs a lock but the choice of a number. */
#include "runtime/capture/function/stage_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/capture/function/explain.h"
#include "runtime/core/site.h"
#include "runtime/capture/training/training.h"
#include "runtime/core/settings.h"
#include "runtime/core/state.h"

/* Warnings ------------------------------------------------------------------------------------ */

static pthread_mutex_t choosing = PTHREAD_MUTEX_INITIALIZER; /* of what is static here */
static char *warned;                                         /* the folder of the last warning */
static char *numbered;                                       /* the folder that last_number is of */
static long last_number;

static bool swap_text(char **at, const char *text) {
    if (*at && !strcmp(*at, text)) return false;
    char *const copy = mem_strdup(text);
    if (!copy) error_clear();
    mem_free(*at);
    *at = copy;
    return true;
}

/* Takes the pending error. */
static void warn(const char *root) {
    pthread_mutex_lock(&choosing);
    char said[sizeof error_slot()->message];
    memcpy(said, error_slot()->message, sizeof said);
    error_clear();
    const bool first = swap_text(&warned, root);
    pthread_mutex_unlock(&choosing);
    if (first)
        LOG(general, WARNING, "setting trace: %s; what else cannot be written to '%s' is not said again", said, root);
}

/* Folders ------------------------------------------------------------------------------------- */

/* The largest number that something in the folder begins with; 0: nothing does. */
static long largest_number(const char *root) {
    DIR *const folder = opendir(root);
    long largest = 0;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char *end;
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        const long number = strtol(entry->d_name, &end, 10);
        if (*end == '-' && number > largest && number < INT32_MAX) largest = number;
    }
    if (folder) closedir(folder);
    return largest;
}

enum { NAME_LETTERS = 64 };

/* A function's name is any text: letters that a path may give another meaning become '_'. */
static void print_safe_name(Text *path, const char *name) {
    for (int i = 0; name[i] && i < NAME_LETTERS; i++) {
        const char c = name[i];
        const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          (c && strchr("._-+", c) != NULL);
        text_put(path, safe ? &c : "_", 1);
    }
}

/* path: a folder that was not there before. */
static Status make_numbered(const char *root, const char *name, Text *path) {
    if (swap_text(&numbered, root)) last_number = largest_number(root);
    do {
        path->n = 0;
        text_printf(path, "%s/%04ld-", root, ++last_number);
        print_safe_name(path, name);
        TRY(error_pending());
        if (!mkdir(text_str(path), 0777)) return ST_OK;
    } while (errno == EEXIST);
    return error_raise(ST_IO, "cannot make the folder '%s': %s", text_str(path), strerror(errno));
}

static Status make_folder(const sn_function *fn, Variant *v, const char *root) {
    Text path = {0};
    TRY(file_make_folder(root));
    pthread_mutex_lock(&choosing);
    Status status = make_numbered(root, fn->name, &path);
    pthread_mutex_unlock(&choosing);
    if (status == ST_OK && !(v->origin.stage_folder = arena_strdup(v->arena, text_str(&path)))) status = ST_MEMORY;
    text_free(&path);
    return status;
}

/* Files --------------------------------------------------------------------------------------- */

static const char *suffix_of(DumpId id) {
    static const char *const suffixes[DUMP_COUNT] = {[DUMP_llvm] = ".ll", [DUMP_asm] = ".s", [DUMP_cuda] = ".cu"};
    const bool graph = !(dump_row(id)->traits & DUMP_plan) && id != DUMP_guards;
    return suffixes[id] ? suffixes[id] : graph ? ".sn" : ".txt";
}

/* part: "-1", of what has several; "". */
static Status write_stage(const Variant *v, DumpId id, const char *part, const Text *text) {
    Text path = {0};
    text_printf(&path, "%s/%02d-%s%s%s", v->origin.stage_folder, id, dump_row(id)->name, part, suffix_of(id));
    Status status = error_pending();
    if (status == ST_OK) status = file_write(text_str(&path), text_str(text), text->n);
    text_free(&path);
    return status;
}

static Status write_about(const sn_function *fn, const Variant *v, const char *why, const char *failure) {
    Text text = {0}, path = {0};
    text_puts(&text, "function: ");
    text_json_string(&text, fn->name);
    text_printf(&text, "\ngraph: %d\nops: %d\ncompiled: %s\n", fn->variants.n, v->segment.n_ops,
                *why ? why : "the first call of this path");
    if (failure) text_printf(&text, "failed: %s\n", failure);
    if (v->request.backend) text_printf(&text, "backend: %s\n", v->request.backend->name);
    text_printf(&path, "%s/about.txt", v->origin.stage_folder);
    Status status = error_pending();
    if (status == ST_OK) status = file_write(text_str(&path), text_str(&text), text.n);
    text_free(&text);
    text_free(&path);
    return status;
}

/* Stages -------------------------------------------------------------------------------------- */

static bool runs_on(const Plan *plan, bool host) {
    for (int i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i].kernel && device_is_host(plan->steps.at[i].device) == host) return true;
    return false;
}

/* Code for a device that no kernel runs on would only be in the way. */
static bool has_text(const Plan *plan, DumpId id) {
    if (id == DUMP_cuda) return runs_on(plan, false);
    return id == DUMP_loops || id == DUMP_memory || runs_on(plan, true);
}

static bool is_of_plan(DumpId id) { return dump_row(id)->traits & DUMP_plan; }
static bool is_of_training(DumpId id) { return id == DUMP_forward || id == DUMP_backward; }

/* That it runs by; of what failed, or whose backend is eager, none. */
static int plans_of(const Variant *v, Plan *plans[MAX_PLANS]) {
    if (v->training) return training_plans(v, plans);
    plans[0] = v->info.graph ? v->info.graph->plan : NULL;
    return plans[0] != NULL;
}

/* Of what failed those that the passes reach. */
static bool exists_of(const Variant *v, DumpId id, bool failed) {
    Plan *plans[MAX_PLANS];
    if (failed) return !is_of_plan(id) && !is_of_training(id) && id != DUMP_guards;
    if (is_of_training(id)) return v->training != NULL;
    if (id == DUMP_fused) return !v->training && v->info.graph;
    bool any = !is_of_plan(id);
    for (int i = plans_of(v, plans); !any && i-- > 0;) any = has_text(plans[i], id);
    return any;
}

/* Texts that begin with a remark are of a stage that was not reached. */
static Status write_stages(const Variant *v, bool failed) {
    for (int id = 0; id < DUMP_COUNT; id++) {
        const Dump dump = dump_of((DumpId)id);
        Text text = {0};
        if (!exists_of(v, dump.id, failed)) continue;
        Status status = explain_variant(v, &dump, &text);
        const bool reached = !failed || text_str(&text)[0] != '#';
        if (status == ST_OK && reached) status = write_stage(v, dump.id, "", &text);
        text_free(&text);
        TRY(status);
    }
    return ST_OK;
}

static const char *root_now(void) { return setting_text(state_get(), SET_trace); }

static void write_files(const sn_function *fn, Variant *v, const char *root, const char *why, const char *failure) {
    Status status = make_folder(fn, v, root);
    if (status == ST_OK) status = write_about(fn, v, why, failure);
    if (status == ST_OK) status = write_stages(v, failure != NULL);
    if (status != ST_OK) warn(root);
}

static void write_made(const sn_function *fn, Variant *v, const Trace *trace, bool again, const char *failure) {
    const char *const root = root_now();
    if (!*root) return;
    Text why = {0};
    if (again) variant_print_news(trace, &why);
    if (v->text && error_pending() == ST_OK) write_files(fn, v, root, text_str(&why), failure);
    text_free(&why);
}

static Status write_backward(const Variant *v, const char *part, Graph *backward) {
    Plan *const plan = backward->plan;
    for (int id = DUMP_backward; id < DUMP_COUNT; id++) {
        const Dump dump = dump_of((DumpId)id);
        Text text = {0};
        if (id == DUMP_backward)
            graph_print(backward, &text);
        else if (is_of_plan(dump.id) && has_text(plan, dump.id))
            compile_dump_plan(plan, &dump, &text);
        else
            continue;
        const Status status = write_stage(v, dump.id, part, &text);
        text_free(&text);
        TRY(status);
    }
    return ST_OK;
}

static void write_made_backward(const Variant *v, int number, Graph *backward) {
    char part[32];
    if (!v->origin.stage_folder || error_pending() != ST_OK) return;
    snprintf(part, sizeof part, "-%d", number);
    if (write_backward(v, part, backward) != ST_OK) warn(root_now());
}

const VariantWatcher stage_files_watcher = {.made = write_made, .backward = write_made_backward};
