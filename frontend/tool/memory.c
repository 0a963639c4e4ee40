/* memory.c: `sinter memory`: what a snapshot of a device's memory says (frontend/memory_report.h). */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/memory_report.h"
#include "frontend/tool/tool.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

static int report_snapshot(const char *path, int64_t asked) {
    char *json;
    size_t n;
    Text text = {0};
    if (input_read(path, &json, &n) != ST_OK) return report_error(EXIT_environment);
    const Status status = memory_report(json, n, asked, &text);
    if (status == ST_OK) fputs(text_str(&text), stdout);
    if (status == ST_PARSE) error_add_path(path);
    text_free(&text);
    mem_free(json);
    return status == ST_OK ? EXIT_done : report_error(status == ST_PARSE ? EXIT_wrong : EXIT_environment);
}

static bool read_asked(const char *text, int64_t *out) {
    char *end;
    *out = strtoll(text, &end, 10);
    return text[0] >= '1' && text[0] <= '9' && !*end && *out < INT64_MAX;
}

int command_memory(const Command *self, int argc, char **argv) {
    const char *path = NULL;
    int64_t asked = 0;
    for (int i = 0; i < argc; i++) {
        const char *const value = option_value(argv[i], "--asked");
        if (value && !read_asked(value, &asked)) return usage_error(self, "not a number of bytes:", value);
        if (!value && (path || (argv[i][0] == '-' && argv[i][1]))) return usage_error(self, "unexpected", argv[i]);
        if (!value) path = argv[i];
    }
    if (!path) return usage_error(self, "a file is missing after", self->name);
    return report_snapshot(path, asked);
}
