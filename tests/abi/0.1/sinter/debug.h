/* debug.h: modes that show what a program does. Each belongs to the thread's state; the end of a scope restores the one
   it began with. While one is on, compiled functions of this thread run their bodies eagerly, with the same bits, and
   sn_last_call says so. */
#ifndef SINTER_DEBUG_H
#define SINTER_DEBUG_H
#include <sinter/autograd.h>
SN_BEGIN
/* What ops save for their backward is given to pack (input 0) when it is saved, and what that gives (output 0) is kept
   in its place; when the backward needs the value, unpack turns the one into the other again, of the same sizes, dtype
   and device: on another device meanwhile, in a narrower dtype, or only counted. Until the innermost open scope ends;
   the newest hooks are asked. Both run with gradients off, and not for leaves that require gradients, which are there
   anyway. Without an open scope: SN_ERR_STATE. The closure lives until the last backward. [event] */
sn_status sn_saved_hooks_set(sn_body pack, sn_body unpack, void *closure);
/* Looks at each result, forward and backward: the first op that gives a NaN although none of its inputs has one is
   an error (SN_ERR_VALUE) that names it and its line; of a backward, what it was the backward of and the line of
   that call, if the mode was on then. Every op is waited for: slow. Returns what it was. [event] */
bool sn_anomaly_set(bool on);
/* Prints "label: tensor([1., 2.])", as sn_repr has it but for gradients, by the log handler (sn_logging_set) under the
   topic print, at level info: on stderr unless "-print" is set. label may be NULL. In a compiled function it breaks no
   graph: lines are printed when their segment has run and its checks have passed, in the order of the calls and before
   later segments' ops, each once, with the values of the time of the call; an ordered user's op behind a print ends
   the segment. Replay prints as the body does, with the labels of the call that was captured. Not printed: in the
   second run of a checkpoint. A body of control flow (transform.h) that prints runs eagerly; inside of sn_vmap,
   sn_func_grad and their like a tensor stands for another, which is an error, as for sn_repr. A function that prints
   is not saved as a plan. [event] */
sn_status sn_debug_print(const char *label, sn_tensor *t);
SN_END
#endif
