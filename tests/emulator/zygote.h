/* zygote.h: what compiler.c and its zygote agree on. A request is a message of one byte with three files (text, object,
 * log); the answer is an int, the status of the child as waitpid has it. */
#ifndef SINTER_TESTS_ZYGOTE_H
#define SINTER_TESTS_ZYGOTE_H

#define ZYGOTE_PROGRAM "/emulated_program" /* the file that the beginning includes */
enum { ZYGOTE_SOCKET = 3 };

#endif
