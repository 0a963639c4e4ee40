/* tuning.h: shapes of nests that were measured, for functions with the preset max-autotune: found by the nest's words,
 * kept in a file.
 *
 *     sinter tuning 1
 *     code 3f4d342855173e0f, LLVM 19.1.7          the makers of the code that was measured
 *     machine v4: lanes 16, ...                   the machine
 *     nest 0123456789abcdef words 123             what a nest is known by, and its shape (codegen/shape)
 *     shape {
 *       ...
 *     }
 *     sum 0123456789abcdef                        of all that stands before
 *
 * All shapes that fit their nest give the same bits, so a file can make code slow, never wrong. A damaged file, or one
 * of another version or machine, is said and left alone. */
#ifndef SINTER_RUNTIME_TUNING_H
#define SINTER_RUNTIME_TUNING_H
#include "runtime/compile/compile.h"

/* Why nothing is known and nothing is to be measured: so sn_tune and sn_explain say. */
#define TUNING_NO_LOOPS "no loop of it runs on the CPU, and others have one shape"

/* Puts the shapes that are known into a plan whose shapes are decided: step->tuned says which. Notes in info how many
 * there are, or why none. */
void tuning_apply(Plan *plan, CompileReport *info);
/* Measures the nests of a plan, whose executables are untouched, and notes what is faster than what is decided: *tried
 * and *faster count up by nests. Raises. */
Status tuning_measure(Plan *plan, int *tried, int *faster);
/* Writes what is known to the file. *path: its name, for messages. Raises ST_STATE where there is no file to be. */
Status tuning_save(const char **path);

/* Reads the text of a file in the place of what is known. Raises ST_PARSE. For tests. */
Status tuning_read(const char *text, size_t n);
void tuning_print(Text *text);
int tuning_count(void);

#endif
