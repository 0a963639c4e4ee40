/* cache.c: `sinter cache`: what lies in the folder of generated code (runtime/core/disk_cache.h). All that it shows is
 * read from the files; looking uses no entry, so that the order in which they go stays.
 *
 *     0123456789abcdef.code  24606 bytes  2026-01-31 12:00:00  cpu v3, 16 nests
 *
 * verify: exit code 1 where an entry is damaged (it would be a miss, and be made anew). */
#include <stdio.h>

#include "frontend/tool/arguments.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/core/disk_cache.h"

typedef struct CacheView {
    DiskFolder folder;
    DiskFile *files;
    int n;
    bool json;
    Text text;
    int states[DISK_broken + 1]; /* entries by state */
    int64_t bytes;
} CacheView;

static const char *const state_names[] = {"whole", "stale", "damaged"};

static void look_at_all(CacheView *v, void (*show)(CacheView *v, const DiskFile *file, const DiskLook *look)) {
    for (int i = 0; i < v->n; i++) {
        DiskLook look;
        if (!disk_look(&v->folder, v->files[i].name, &look)) continue; /* another process has removed it */
        v->states[look.state]++;
        v->bytes += v->files[i].bytes;
        if (show) show(v, &v->files[i], &look);
    }
}

static void print_string(Text *text, const char *key, const char *value) {
    text_printf(text, ", \"%s\": ", key);
    text_json_string(text, value);
}

static void show_entry(CacheView *v, const DiskFile *file, const DiskLook *look) {
    char used[32];
    struct tm at;
    localtime_r(&file->used.tv_sec, &at);
    strftime(used, sizeof used, "%Y-%m-%d %H:%M:%S", &at);
    const char *const what = look->state == DISK_whole ? look->of : look->why;
    if (!v->json) {
        text_printf(&v->text, "%s  %lld bytes  %s  %s%s%s\n", file->name, (long long)file->bytes, used,
                    look->state == DISK_whole ? "" : state_names[look->state], look->state == DISK_whole ? "" : ": ",
                    what);
        return;
    }
    text_puts(&v->text, v->text.n > 1 ? ",\n {\"name\": " : "{\"name\": ");
    text_json_string(&v->text, file->name);
    text_printf(&v->text, ", \"bytes\": %lld, \"used\": %lld", (long long)file->bytes, (long long)file->used.tv_sec);
    print_string(&v->text, "state", state_names[look->state]);
    print_string(&v->text, look->state == DISK_whole ? "of" : "why", what);
    text_puts(&v->text, "}");
}

static void show_damage(CacheView *v, const DiskFile *file, const DiskLook *look) {
    (void)v;
    if (look->state == DISK_broken) fprintf(stderr, "sinter: %s: %s\n", file->name, look->why);
}

static int cache_list(CacheView *v) {
    if (v->json) text_puts(&v->text, "[");
    look_at_all(v, show_entry);
    if (v->json) text_puts(&v->text, "]\n");
    return EXIT_done;
}

static void print_sums(CacheView *v) {
    const long long most = (long long)disk_bytes_most();
    if (!v->json) {
        text_printf(&v->text, "folder: %s\nentries: %d\nbytes: %lld of %lld\n", v->folder.path, v->n,
                    (long long)v->bytes, most);
        for (int i = 0; i < COUNT_OF(state_names); i++) text_printf(&v->text, "%s: %d\n", state_names[i], v->states[i]);
        return;
    }
    text_puts(&v->text, "{\"folder\": ");
    text_json_string(&v->text, v->folder.path);
    text_printf(&v->text, ", \"entries\": %d, \"bytes\": %lld, \"most_bytes\": %lld", v->n, (long long)v->bytes, most);
    for (int i = 0; i < COUNT_OF(state_names); i++) text_printf(&v->text, ", \"%s\": %d", state_names[i], v->states[i]);
    text_puts(&v->text, "}\n");
}

static int cache_stats(CacheView *v) {
    look_at_all(v, NULL);
    print_sums(v);
    return EXIT_done;
}

static int cache_verify(CacheView *v) {
    look_at_all(v, show_damage);
    print_sums(v);
    return v->states[DISK_broken] ? EXIT_wrong : EXIT_done;
}

static int cache_clear(CacheView *v) {
    for (int i = 0; i < v->n; i++) disk_file_remove(&v->folder, v->files[i].name);
    if (v->json)
        text_printf(&v->text, "{\"removed\": %d}\n", v->n);
    else
        text_printf(&v->text, "%d %s removed\n", v->n, v->n == 1 ? "entry" : "entries");
    return EXIT_done;
}

static const struct {
    const char *name;
    int (*run)(CacheView *view);
} actions[] = {{"list", cache_list}, {"stats", cache_stats}, {"verify", cache_verify}, {"clear", cache_clear}};

/* A folder that is not there yet is an empty one. */
static int open_view(CacheView *v) {
    if (disk_folder_open(false, &v->folder))
        return disk_folder_list(&v->folder, &v->files, &v->n)
                   ? EXIT_done
                   : (fprintf(stderr, "sinter: '%s' cannot be listed\n", v->folder.path), EXIT_environment);
    if (v->folder.absent) return EXIT_done;
    fprintf(stderr, "sinter: there is no code on disk: %s\n", v->folder.why);
    return EXIT_environment;
}

static int run_action(int action, bool json) {
    CacheView v = {.json = json};
    int code = open_view(&v);
    if (code == EXIT_done) code = actions[action].run(&v);
    fputs(text_str(&v.text), stdout);
    if (v.folder.fd >= 0) disk_folder_close(&v.folder);
    mem_free(v.files);
    text_free(&v.text);
    return error_pending() ? report_error(EXIT_environment) : code;
}

int command_cache(const Command *self, int argc, char **argv) {
    const char *name = NULL;
    bool json = false;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_flag(&a, "json", &json) || argument_name(&a, &name))) arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!name) return usage_error(self, "one of list, stats, verify and clear is missing after", self->name);
    int action = COUNT_OF(actions) - 1;
    while (action >= 0 && strcmp(name, actions[action].name)) action--;
    return action < 0 ? usage_error(self, "unexpected", name) : run_action(action, json);
}
