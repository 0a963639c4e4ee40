/* planted.c: see planted.h. */
#define _GNU_SOURCE
#include "tests/emulator/planted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *from, *to; /* from NULL: no text */
} rows[] = {
#define TEXT(name, test, what, from, to) {#name, from, to},
#define FAULT(name, ...)                 {#name, NULL, NULL},
#include "tests/emulator/planted.def"
};

static void say(PlantedId id) {
    static bool said;
    if (!said) fprintf(stderr, "planted: %s\n", rows[id].name);
    said = true;
}

static bool is_wanted(PlantedId id) {
    const char *const wanted = getenv("EMULATED_PLANTED");
    return wanted && !strcmp(wanted, rows[id].name);
}

bool planted(PlantedId id) {
    if (!is_wanted(id)) return false;
    say(id);
    return true;
}

static char *replace_all(const char *text, const char *from, const char *to) {
    char *out;
    size_t n;
    FILE *const file = open_memstream(&out, &n);
    for (const char *at; (at = strstr(text, from)); text = at + strlen(from))
        fprintf(file, "%.*s%s", (int)(at - text), text, to);
    fputs(text, file);
    fclose(file);
    return out;
}

char *planted_text(const char *text) {
    for (int id = 0; id < PLANTED_COUNT; id++) {
        if (!rows[id].from || !is_wanted((PlantedId)id) || !strstr(text, rows[id].from)) continue;
        say((PlantedId)id);
        return replace_all(text, rows[id].from, rows[id].to);
    }
    return NULL;
}
