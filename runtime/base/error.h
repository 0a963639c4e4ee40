/* error.h: the thread's pending error.
 *
 * The first error stays pending until sn_error_take(): later raises are dropped, so the root cause survives. The slot
 * is reached through one thread-local pointer, which the runtime repoints when a thread changes its sn_state.
 * `op` and `where` are filled by whoever knows them (the dispatcher knows the op, capture the call site). A call site
 * is kept as an address and named when the error is taken: most errors are handled without being read. */
#ifndef SINTER_RUNTIME_BASE_ERROR_H
#define SINTER_RUNTIME_BASE_ERROR_H
#include "runtime/base/base.h"

/* Of a text that was read, from 1; 0: it is no error of a text. */
typedef struct TextPosition {
    int line, column;
} TextPosition;

typedef struct ErrorSlot {
    Status status;            /* ST_OK: nothing pending */
    int code;                 /* stable number, see error.def */
    char message[1024];       /* one line, no trailing newline, but where a callback or a compiler gave its words */
    char op[96];              /* "aten::add.Tensor" or "" */
    char where[256];          /* "model.c:57" or "" */
    const void *site;         /* what `where` will name, or NULL */
    const void *caller;       /* the same where there is no site of the program's (caller.h), or NULL */
    const void *cause;        /* a call whose place ends the message, or NULL */
    const void *made, *ended; /* calls in which the handle was made that it is about, and in which it ended; or NULL */
    TextPosition place;
    int lead; /* so many letters of the message say the place */
} ErrorSlot;

/* Raises an error unless one is pending; always returns `status` so that `return error_raise(...)` reads well. Control
 * characters and bytes that are no UTF-8, which names of others may have, are escaped. */
Status error_raise(Status status, const char *format, ...) PRINTF_LIKE(2, 3);
/* The words of a callback or a compiler behind ours; their lines stay. */
Status error_raise_lines(Status status, const char *lead, const char *lines);
/* ST_PARSE; the format is that of the words before `message`, which say the place. */
Status error_raise_at(TextPosition place, const char *message, const char *format, ...) PRINTF_LIKE(3, 4);
ErrorSlot *error_slot(void);                           /* the thread's slot, made on first need, never NULL */
extern HOT_THREAD_LOCAL ErrorSlot *error_slot_current; /* NULL: none was needed yet */
/* ST_OK or the pending error's status. */
static inline Status error_pending(void) {
    const ErrorSlot *const slot = error_slot_current;
    return LIKELY(slot != NULL) ? slot->status : ST_OK;
}
void error_clear(void);
/* These: if an error is pending that has none yet. A message that names nobody begins with the op then. */
void error_set_op(const char *op);
void error_set_op_named(const char *otherwise); /* the op that the message names ("aten::gather: ..."), if it does */
void error_set_where(const char *where);
void error_append(ErrorSlot *slot, const char *format, ...) PRINTF_LIKE(2, 3); /* to its message */
void error_add_path(const char *path); /* the message says of which file: " in 'path'" */
void error_set_site(const void *site);
/* The message ends in ", in TEXT" and, once the error is taken, " of the call at PLACE". */
void error_add_cause(const char *text, const void *site);
/* The message ends in the places of these calls, once the error is taken. */
void error_set_life(const void *made, const void *ended);
/* " [op]" where the message does not say it, else "". */
const char *error_op_suffix(const char *message, const char *op, char *buffer, size_t size);
/* Makes `slot` the thread's (NULL: the thread's own); returns the previous one. */
ErrorSlot *error_slot_use(ErrorSlot *slot);
/* The status' public name: "argument", "shape"... */
const char *status_name(Status status);

#endif
