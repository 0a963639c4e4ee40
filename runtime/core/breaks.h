/* breaks.h: why ops of a compiled function do not run as compiled code: rows of breaks.def, each with a stable code, a
 * text and what to do about it. A reason is passed on as the text of its row, or as text made of it (reason.h):
 *
 *   if (row->role == ROLE_resizes) return BREAK_REASON(resized);
 *   return reason_from(arena_printf(arena, BREAK_TEXT(flow_eager), why)); */
#ifndef SINTER_RUNTIME_BREAKS_H
#define SINTER_RUNTIME_BREAKS_H
#include "runtime/core/reason.h"

typedef enum BreakId {
    BREAK_none,
#define BREAK(code, kind, name, text, about) BREAK_##name,
#include "runtime/core/breaks.def"
#undef BREAK
    BREAK_COUNT
} BreakId;

typedef struct BreakReason {
    int code;
    const char *kind, *name, *text, *about;
} BreakReason;

extern const BreakReason break_reasons[BREAK_COUNT];
#define BREAK_TEXT(name) (break_reasons[BREAK_##name].text) /* to print; of those with a %s a format */

#define BREAK_REASON(name) reason_from(BREAK_TEXT(name))

/* The row whose text, or text made of it, this is; row `called` for a public function's name. BREAK_none: a text that
 * the program or a backend gave. */
BreakId break_find(const char *text);

typedef struct BreakCode {
    char text[16];
} BreakCode;
BreakCode break_code(BreakId id); /* "SB101"; "": none */

#endif
