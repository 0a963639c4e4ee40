/* guards_text.h: the guards of a variant as text that parses back to the same bytes.
 *
 *   guards {
 *     dispatch table 3
 *     s0 >= 2: size 0 of argument 0
 *     s1 >= 0: seed
 *     argument 0: f32[s0,768] requires_grad leaf storage 0
 *     closed over 0: f32[768] leaf storage 1 offset 16
 *     aten::view %0 size[1] == s0*2
 *     aten::mul.Tensor %1 other == 0.5
 *     aten::slice.Tensor %2 start: any int but special ones
 *     aten::clamp %3 min: any float from -65504.0 to 65504.0 or inf or nan
 *     s0 <= 17
 *     outputs %0, %2
 *   }
 *
 * Numbers are the int and float attributes of the captured calls, in order, with the op, its first
 * result in the text of the stage "capture", and the argument; `outputs` lists the values that may
 * be asked for afterwards. A segment that writes memory says so first, and then the
 * offsets between tensors of one storage count. */
#ifndef SINTER_RUNTIME_GUARDS_TEXT_H
#define SINTER_RUNTIME_GUARDS_TEXT_H
#include "runtime/base/text_reader.h"
#include "runtime/capture/variant/variant.h"

void guards_print(const Variant *variant, Text *text);
/* As a saved plan has them, which records no gradients: whether a tensor requires them, or is a leaf, is not looked at,
 * nor which values are asked for. names: of the inputs. */
void guards_print_saved(const Variant *variant, const InputName *names, Text *text);
/* Reads that into a variant whose free symbols are known (variant->env): its inputs, numbers, bindings and guards, in
 * its arena. */
Status guards_read(TextReader *in, Variant *variant);
/* A number of a guard: an expression of env, an int, or a float's bits; it ends at a blank, a comma, or the line. */
Status guard_number_read(TextReader *in, SymEnv *env, int64_t *value);
/* A number of a trace: an int, or a float by its bits, with a point or an exponent. */
void guard_number_print(Text *text, int64_t bits);
/* " from -65504.0 to 65504.0 or inf or nan"; inf: of both signs. */
void guard_limit_print(Text *text, const FloatLimit *limit);
/* "s0*4 == s1", without a line's end. */
void guard_relation_print(SymEnv *env, Text *text, const SymGuard *relation);
Status guard_relation_read(TextReader *in, SymEnv *env, SymGuard *out);
/* Reads one guards text and prints it again, into `out`; raises ST_PARSE naming the line. */
Status guards_reprint(const char *text, const char **end, Text *out);

#endif
