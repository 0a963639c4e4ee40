/* caller.h: where the program called the library: the first return address of the stack that lies outside of it. So an
 * error has a place whatever function raised it, also where public functions call one another.
 *
 *   program   main          <- this one
 *   library   sn_dict_load
 *   library   safetensors_open
 *   library   error_raise   caller_outside()
 *
 * Known where the library is one of its own; in a program that has it inside (libsinter.a) nothing tells where it
 * ends, and only the places count that functions take themselves. */
#ifndef SINTER_RUNTIME_BASE_CALLER_H
#define SINTER_RUNTIME_BASE_CALLER_H
#include "runtime/base/base.h"

/* NULL: not known, also where code without unwinding records (generated code) lies between. Takes some microseconds. */
const void *caller_outside(void);
/* Code of the library itself: no place of the program's. */
bool caller_is_library(const void *address);

#endif
