/* specialized_text.h: a specialized call as text: how a call's arguments become what the cases of its segment are
 * given. Saved plans (runtime/capture/function/saved.h) are made of these and of cases.
 *
 *     program of segment 0, grad mode on, keys 0 0
 *     arguments 2
 *     s0 = 8 >= 2: size 0 of argument 0
 *     argument 0: f32[s0,64]
 *     argument 1: float any                  or a number; "unread": the body did not look
 *     closed over 0                          the slots behind the arguments
 *     asked requires_grad of slot 2 at 0: 0  answers of queries (replay_guards.h)
 *     guard s0*64 == 512
 *     twins 0, 1, 2                          by slot: the first one with the same tensor
 *     inputs 0, 2                            by input of the trace: its slot
 *     numbers s0*2, argument 1, 0.5          by number of the trace
 *     results 3, none                        by output of the call: the value of the trace */
#ifndef SINTER_RUNTIME_SPECIALIZED_TEXT_H
#define SINTER_RUNTIME_SPECIALIZED_TEXT_H
#include "runtime/base/text_reader.h"
#include "runtime/capture/replay/specialized_call.h"
#include "runtime/capture/variant/case_text.h"

typedef struct ClosedOver { /* what all specialized calls of a function close over; each a number */
    sn_tensor *const *tensors;
    int n;
} ClosedOver;

/* Says why one has no text; false: it has one. */
bool specialized_refusal(const SpecializedCall *specialized, Text *why);
int specialized_closed_over(const SpecializedCall *specialized); /* how many tensors it closes over */
sn_tensor *specialized_closed_at(const SpecializedCall *specialized, int i);
int specialized_result_count(const SpecializedCall *specialized);
TrieNode *specialized_end(const SpecializedCall *specialized);
CaseShape specialized_shape(const SpecializedCall *specialized);
/* What it calls the inputs of its segment; room for shape.n_inputs. */
void specialized_input_names(const SpecializedCall *specialized, ClosedOver closed, InputName *names);
void specialized_print(const SpecializedCall *specialized, int segment, ClosedOver closed, Text *text);

typedef struct SavedSegment {
    TrieNode *end; /* with its cases */
    CaseShape shape;
} SavedSegment;
/* Bound to `closed`, whose tensors it retains. Raises ST_PARSE. */
Status specialized_parse(TextReader *in, const SavedSegment *segments, int n_segments, ClosedOver closed,
                         SpecializedCall **out);

#endif
