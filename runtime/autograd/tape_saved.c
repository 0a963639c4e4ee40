/* tape_saved.c: what nodes keep for a backward, by the op that they are of: a table as text. A node's memory counts in
 * the row of the first node that has it, newest first, so that rows add up; in later ones it is shared. */
#include <stdlib.h>

#include "runtime/autograd/tape.h"
#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"

typedef struct SavedRow {
    const char *name;
    int64_t bytes, shared, values, nodes;
} SavedRow;

typedef struct SavedTable {
    Arena *arena;
    Map seen; /* storages */
    VEC(SavedRow *) rows;
    SavedRow total;
    int64_t of_leaves;
    bool failed;
} SavedTable;

static SavedRow *row_named(SavedTable *table, const char *name) {
    for (int i = 0; i < table->rows.n; i++)
        if (!strcmp(table->rows.at[i]->name, name)) return table->rows.at[i];
    SavedRow *const row = ARENA_NEW(table->arena, SavedRow);
    if (!row || !(row->name = arena_strdup(table->arena, name))) return NULL;
    VEC_PUSH(table->arena, &table->rows, row);
    return row;
}

static SavedRow *row_of_node(SavedTable *table, const TapeNode *node) {
    Text name = {0};
    node->class->name(node, &name);
    SavedRow *const row = row_named(table, text_str(&name));
    text_free(&name);
    return row;
}

static void add_value(SavedTable *table, SavedRow *row, const sn_tensor *kept) {
    const Storage *const storage = kept->storage;
    const uint64_t key = (uint64_t)(uintptr_t)storage;
    row->values++, table->total.values++;
    if (map_get(&table->seen, key)) {
        row->shared += (int64_t)storage->bytes;
        return;
    }
    table->failed |= !map_set(&table->seen, key, row);
    row->bytes += (int64_t)storage->bytes, table->total.bytes += (int64_t)storage->bytes;
    if (tape_is_wanted_leaf(kept)) table->of_leaves += (int64_t)storage->bytes;
}

static void add_saved_node(void *context, const TapeNode *node) {
    SavedTable *const table = context;
    int n, kept = 0;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    for (int i = 0; i < n; i++) kept += tape_saved_kept(&saved[i]) && tape_saved_kept(&saved[i])->storage;
    SavedRow *const row = kept ? row_of_node(table, node) : NULL;
    table->failed |= kept && !row;
    if (!row) return;
    row->nodes++, table->total.nodes++;
    for (int i = 0; i < n; i++) {
        const sn_tensor *const t = tape_saved_kept(&saved[i]);
        if (t && t->storage) add_value(table, row, t);
    }
}

static int by_bytes(const void *a, const void *b) {
    const SavedRow *const x = *(SavedRow *const *)a, *const y = *(SavedRow *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void print_saved(const SavedTable *table, Text *out) {
    const SavedRow *const total = &table->total;
    if (table->rows.n) {
        qsort(table->rows.at, (size_t)table->rows.n, sizeof *table->rows.at, by_bytes);
        text_puts(out, "       bytes      shared  values  nodes  op\n");
    }
    for (int i = 0; i < table->rows.n; i++) {
        const SavedRow *const row = table->rows.at[i];
        text_printf(out, "%12lld%12lld%8lld%7lld  %s\n", (long long)row->bytes, (long long)row->shared,
                    (long long)row->values, (long long)row->nodes, row->name);
    }
    text_printf(out, "%lld bytes in %lld node%s, %lld of them of leaves\n", (long long)total->bytes,
                (long long)total->nodes, total->nodes == 1 ? "" : "s", (long long)table->of_leaves);
}

Status tape_print_saved(Text *text, sn_tensor *t) {
    SavedTable table = {.arena = arena_new()};
    if (!table.arena) return ST_MEMORY;
    if (t)
        tape_each(t, add_saved_node, &table);
    else
        tape_live_each(add_saved_node, &table);
    if (!table.failed) print_saved(&table, text);
    map_free(&table.seen);
    arena_free(table.arena);
    return table.failed ? error_pending() : ST_OK;
}
