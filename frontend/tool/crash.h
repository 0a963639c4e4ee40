/* crash.h: what a command was doing when a signal that ends the process came, such as a segmentation fault in the code
 * of a target: a line on stderr. The signal then does as before: sanitizers and core dumps stay what they are. */
#ifndef SINTER_TOOL_CRASH_H
#define SINTER_TOOL_CRASH_H

/* "in call 2 of the way 'fused'"; cut at 255 bytes. NULL: nothing is to be said any more. */
/* A library's function called without a closure, which its library asks for: where the address 0 and near to it is then
 * read or written, that is said, and the process ends with EXIT_wrong. */
void crash_no_closure(const char *target, const char *function);

void crash_record(const char *command, const char *doing);

#endif
