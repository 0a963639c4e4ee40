/* crash.h: what a command was doing when a signal that ends the process came, such as a segmentation fault in the code
 * of a target: a line on stderr. The signal then does as before: sanitizers and core dumps stay what they are. */
#ifndef SINTER_TOOL_CRASH_H
#define SINTER_TOOL_CRASH_H

/* "in call 2 of the way 'fused'"; cut at 255 bytes. NULL: nothing is to be said any more. */
void crash_record(const char *command, const char *doing);

#endif
