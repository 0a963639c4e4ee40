/* stage.c: see stage.h. */
#include "ir/stage.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

static const char *const names[] = {
#define STAGE(name, ...) #name,
#include "ir/stages.def"
};

static const DumpRow dumps[] = {
#define DUMP(name, stage, traits, doc) {#name, doc, STAGE_##stage, traits},
#include "ir/stages.def"
};

const char *stage_name(Stage stage) { return names[stage]; }

const DumpRow *dump_row(int id) { return id >= 0 && id < DUMP_COUNT ? &dumps[id] : NULL; }

DumpId dump_find(const char *name, size_t n) {
    int id = 0;
    while (id < DUMP_COUNT && (strlen(dumps[id].name) != n || memcmp(dumps[id].name, name, n))) id++;
    return (DumpId)id;
}

Status dump_unknown(const char *name) {
    Text list = {0};
    for (int i = 0; i < DUMP_COUNT; i++) text_printf(&list, "%s%s", i ? ", " : "", dumps[i].name);
    const Status status = error_raise(ST_ARGUMENT, "stage '%s' is unknown; stages: %s", name, text_str(&list));
    text_free(&list);
    return status;
}
