/* reason.h: why ops of a compiled function do not run as compiled code, as it is passed on: the text of a row of
 * breaks.def (BREAK_REASON, breaks.h), one made of a row's, or one that the program or a backend gave. It lives as long
 * as who keeps it says. */
#ifndef SINTER_RUNTIME_REASON_H
#define SINTER_RUNTIME_REASON_H

/* A type of its own, so that the compiler takes no literal for one. NULL: there is no reason. */
typedef const struct ReasonText *Reason;
static inline const char *reason_text(Reason reason) { return (const char *)(const void *)reason; }
static inline Reason reason_from(const char *text) { return (Reason)(const void *)text; }
/* A public function that the program calls: row `called`. */
static inline Reason reason_called(const char *function) { return reason_from(function); }
#define REASON_CALLED(function) reason_called(#function)

#endif
