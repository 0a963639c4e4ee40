/* memory.c: `sinter memory`: what a snapshot of a device's memory says (frontend/api/memory_report.h). */
#include <stdio.h>

#include "frontend/api/memory_report.h"
#include "frontend/tool/arguments.h"
#include "frontend/api/memory_picture.h"
#include "frontend/api/svg.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

/* A snapshot that was read as a whole before. */
static Status draw_snapshot(const char *json, size_t n, const char *to) {
    Arena *const arena = arena_new();
    const Json *root;
    Text svg = {0};
    Status status = arena ? json_parse(arena, json, n, &root) : ST_MEMORY;
    if (status == ST_OK) {
        memory_picture(root, &svg);
        status = svg_write(to, &svg);
    }
    arena_free(arena);
    return status;
}

static int report_snapshot(const char *path, int64_t asked, const char *svg, bool as_json) {
    char *json;
    size_t n;
    Text text = {0};
    if (input_read(path, &json, &n) != ST_OK) return report_error(EXIT_environment);
    Status status = (as_json ? memory_report_json : memory_report)(json, n, asked, &text);
    if (status == ST_OK && svg) status = draw_snapshot(json, n, svg);
    if (status == ST_OK) fputs(text_str(&text), stdout);
    if (status == ST_PARSE) error_add_path(path);
    text_free(&text);
    mem_free(json);
    return status == ST_OK ? EXIT_done : report_error(status == ST_PARSE ? EXIT_wrong : EXIT_environment);
}

int command_memory(const Command *self, int argc, char **argv) {
    const char *path = NULL, *svg = NULL;
    double asked = 0;
    bool json = false;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_float(&a, "asked", 1, 1e18, &asked) || argument_text(&a, "svg", &svg) ||
              argument_flag(&a, "json", &json) || argument_name(&a, &path)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!path) return usage_error(self, "a file is missing after", self->name);
    return report_snapshot(path, (int64_t)asked, svg, json);
}
