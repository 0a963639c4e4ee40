/* options.h: structs of options that begin with their size [semantics O2]: those of an older program are shorter, those
 * of a newer one longer. */
#ifndef SINTER_FRONTEND_OPTIONS_H
#define SINTER_FRONTEND_OPTIONS_H
#include "runtime/base/base.h"

/* Copies given (NULL: nothing), whose first member is its size, over the `capacity` bytes of known, zeroed. An error,
 * which names `what`, where the size is none (no initialiser macro was used) or something is set that this library does
 * not know. */
Status options_copy_in(void *known, size_t capacity, const void *given, const char *what);
/* The other way: known, of `capacity` bytes, as far as *out has room by its size, which stays. */
void options_copy_out(const void *known, size_t capacity, void *out);

#endif
