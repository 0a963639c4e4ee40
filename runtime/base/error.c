/* error.c: see error.h. A thread's own slot is made when it is first needed and freed with the thread; a redirect lets
 * fibers and sessions carry theirs. The slots are no thread-locals themselves: see HOT_THREAD_LOCAL. */
#include "runtime/base/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/caller.h"
#include "runtime/base/escape.h"

HOT_THREAD_LOCAL ErrorSlot *error_slot_current;
static HOT_THREAD_LOCAL ErrorSlot *own_slot; /* NULL: not made yet */
static pthread_key_t own_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static ErrorSlot emergency; /* where no slot can be made */

static void free_own(void *slot) {
    if (error_slot_current == slot) error_slot_current = NULL;
    own_slot = NULL;
    free(slot);
}

static void make_key(void) { pthread_key_create(&own_key, free_own); }

/* Not by mem_alloc, whose failing needs a slot. */
static ErrorSlot *make_own(void) {
    pthread_once(&key_once, make_key);
    own_slot = calloc(1, sizeof *own_slot);
    if (!own_slot) return &emergency;
    pthread_setspecific(own_key, own_slot);
    return own_slot;
}

ErrorSlot *error_slot(void) {
    if (!error_slot_current) error_slot_current = own_slot ? own_slot : make_own();
    return error_slot_current;
}

ErrorSlot *error_slot_use(ErrorSlot *slot) {
    ErrorSlot *const previous = error_slot_current;
    error_slot_current = slot ? slot : own_slot;
    return previous;
}

/* The slot of an error that is the first, or NULL. */
static ErrorSlot *begin_error(Status status) {
    ErrorSlot *const slot = error_slot();
    if (slot->status != ST_OK) return NULL;
    slot->status = status;
    slot->code = 1000 + (int)status;
    slot->op[0] = slot->where[0] = '\0';
    slot->site = slot->cause = slot->made = slot->ended = NULL;
    slot->caller = caller_outside();
    slot->place = (TextPosition){0};
    return slot;
}

Status error_raise(Status status, const char *format, ...) {
    ErrorSlot *const slot = begin_error(status);
    if (!slot) return status;
    char said[sizeof slot->message];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    escape_text(slot->message, sizeof slot->message, said, "");
    return status;
}

Status error_raise_lines(Status status, const char *lead, const char *lines) {
    ErrorSlot *const slot = begin_error(status);
    if (!slot) return status;
    char said[sizeof slot->message];
    snprintf(said, sizeof said, "%s%s", lead, lines);
    escape_text(slot->message, sizeof slot->message, said, "\n\t");
    return status;
}

Status error_raise_at(TextPosition place, const char *message, const char *format, ...) {
    char lead[128];
    va_list args;
    va_start(args, format);
    vsnprintf(lead, sizeof lead, format, args);
    va_end(args);
    const bool first = error_pending() == ST_OK;
    error_raise(ST_PARSE, "%s%s", lead, message);
    if (first) {
        error_slot()->place = place;
        error_slot()->lead = (int)strlen(lead);
    }
    return ST_PARSE;
}

void error_clear(void) {
    if (error_pending() != ST_OK) error_slot()->status = ST_OK;
}

static void fill_field(char *field, size_t size, const char *text) {
    if (error_pending() != ST_OK && !field[0]) snprintf(field, size, "%s", text);
}

/* "aten::mm: ...", "sn_item: ...": the first word ends in a colon. */
static bool names_someone(const char *message) {
    const char *const space = strchr(message, ' ');
    return space && space > message && space[-1] == ':';
}

void error_set_op(const char *op) {
    if (error_pending() == ST_OK) return;
    ErrorSlot *const slot = error_slot();
    if (slot->op[0]) return;
    fill_field(slot->op, sizeof slot->op, op);
    if (names_someone(slot->message)) return;
    char said[sizeof slot->message];
    memcpy(said, slot->message, sizeof said);
    snprintf(slot->message, sizeof slot->message, "%s: %.*s", op, (int)sizeof said - 100, said);
}

void error_set_op_named(const char *otherwise) {
    if (error_pending() == ST_OK) return;
    const char *const message = error_slot()->message;
    char op[sizeof error_slot()->op] = "";
    if (names_someone(message)) snprintf(op, sizeof op, "%.*s", (int)strcspn(message, " ") - 1, message);
    error_set_op(strstr(op, "::") ? op : otherwise);
}

void error_set_where(const char *where) {
    if (error_pending() != ST_OK) fill_field(error_slot()->where, sizeof error_slot()->where, where);
}

void error_add_cause(const char *text, const void *site) {
    ErrorSlot *const slot = error_slot();
    if (error_pending() == ST_OK || slot->cause) return;
    error_append(slot, ", in %s", text);
    slot->cause = site;
}

void error_set_life(const void *made, const void *ended) {
    ErrorSlot *const slot = error_slot();
    slot->made = made;
    slot->ended = ended;
}

void error_set_site(const void *site) {
    if (error_pending() == ST_OK) return;
    ErrorSlot *const slot = error_slot();
    if (!slot->where[0] && !slot->site) slot->site = site;
}

void error_append(ErrorSlot *slot, const char *format, ...) {
    const size_t used = strlen(slot->message);
    char said[sizeof slot->message];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    escape_text(slot->message + used, sizeof slot->message - used, said, "");
}

void error_add_path(const char *path) { error_append(error_slot(), " in '%s'", path); }

const char *error_op_suffix(const char *message, const char *op, char *buffer, size_t size) {
    if (!op[0] || strstr(message, op)) return "";
    snprintf(buffer, size, " [%s]", op);
    return buffer;
}

const char *status_name(Status status) {
    static const char *const names[] = {"ok",          "argument", "shape", "dtype", "device", "value",    "memory",
                                        "unsupported", "state",    "parse", "io",    "strict", "callback", "internal"};
    return (unsigned)status < (unsigned)COUNT_OF(names) ? names[status] : "unknown";
}
