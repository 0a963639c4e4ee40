/* error.c: see error.h. The slot is thread-local with a redirect, so that fibers and sessions can carry their own. */
#include "runtime/base/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local ErrorSlot own_slot __attribute__((tls_model("initial-exec")));
_Thread_local ErrorSlot *error_slot_current __attribute__((tls_model("initial-exec")));

ErrorSlot *error_slot(void) { return error_slot_current ? error_slot_current : &own_slot; }

ErrorSlot *error_slot_use(ErrorSlot *slot) {
    ErrorSlot *const previous = error_slot_current;
    error_slot_current = slot;
    return previous;
}

Status error_raise(Status status, const char *format, ...) {
    ErrorSlot *const slot = error_slot();
    if (slot->status != ST_OK) return status;
    slot->status = status;
    slot->code = 1000 + (int)status;
    slot->op[0] = slot->where[0] = '\0';
    slot->site = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(slot->message, sizeof slot->message, format, args);
    va_end(args);
    return status;
}

void error_clear(void) { error_slot()->status = ST_OK; }

static void fill(char *field, size_t size, const char *text) {
    if (error_pending() != ST_OK && !field[0]) snprintf(field, size, "%s", text);
}

/* "aten::mm: ...", "sn_item: ...": the first word ends in a colon. */
static bool names_someone(const char *message) {
    const char *const space = strchr(message, ' ');
    return space && space > message && space[-1] == ':';
}

void error_set_op(const char *op) {
    ErrorSlot *const slot = error_slot();
    if (slot->status == ST_OK || slot->op[0]) return;
    fill(slot->op, sizeof slot->op, op);
    if (names_someone(slot->message)) return;
    char said[sizeof slot->message];
    memcpy(said, slot->message, sizeof said);
    snprintf(slot->message, sizeof slot->message, "%s: %.*s", op, (int)sizeof said - 100, said);
}

void error_set_where(const char *where) {
    fill(error_slot()->where, sizeof error_slot()->where, where);
}

void error_set_site(const void *site) {
    ErrorSlot *const slot = error_slot();
    if (slot->status != ST_OK && !slot->where[0] && !slot->site) slot->site = site;
}

void error_add_path(const char *path) {
    ErrorSlot *const slot = error_slot();
    const size_t used = strlen(slot->message);
    snprintf(slot->message + used, sizeof slot->message - used, " in '%s'", path);
}

const char *error_op_suffix(const char *message, const char *op, char *room, size_t size) {
    if (!op[0] || strstr(message, op)) return "";
    snprintf(room, size, " [%s]", op);
    return room;
}

const char *status_name(Status status) {
    static const char *const names[] = {"ok",    "argument", "shape",       "dtype",   "device",
                                        "value", "memory",   "unsupported", "state",   "parse",
                                        "io",    "strict",   "callback",    "internal"};
    return (unsigned)status < (unsigned)COUNT_OF(names) ? names[status] : "unknown";
}
