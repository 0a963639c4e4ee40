/* stage.h: the names in stages.def: stages that a graph goes through, and the texts of them. */
#ifndef SINTER_IR_STAGE_H
#define SINTER_IR_STAGE_H
#include "runtime/base/base.h"

typedef enum Stage {
#define STAGE(name, ...) STAGE_##name,
#include "ir/stages.def"
    STAGE_COUNT
} Stage;

typedef enum DumpId {
#define DUMP(name, stage, traits, doc) DUMP_##name,
#include "ir/stages.def"
    DUMP_COUNT
} DumpId;

enum {
    DUMP_plan = 1,    /* of a plan, not of a graph */
    DUMP_machine = 2, /* differs between CPUs: "shapes@v3" */
    DUMP_code = 4,    /* generated from what parses back; does not parse itself */
    DUMP_gpu = 8      /* differs between GPUs: "shapes@sm_90" */
};

typedef struct DumpRow {
    const char *name, *doc;
    Stage stage;
    unsigned traits;
} DumpRow;

const char *stage_name(Stage stage);
const DumpRow *dump_row(int id); /* NULL past the last */
/* DUMP_COUNT: none is called so. */
DumpId dump_find(const char *name, size_t n);
/* Raises ST_ARGUMENT with the list of names. */
Status dump_unknown(const char *name);

#endif
