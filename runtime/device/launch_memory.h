/* launch_memory.h: the memory of a call (launch.h): its results and intermediates. execute.c calls it. */
#ifndef SINTER_RUNTIME_LAUNCH_MEMORY_H
#define SINTER_RUNTIME_LAUNCH_MEMORY_H
#include "runtime/device/launch.h"

/* Items (of one kind) whose turn a step is, by numbers and 1; 0: the end. */
typedef struct StepLists {
    int *first; /* by step */
    int *next;  /* by item */
} StepLists;

/* When memory comes and goes. */
struct StepLifetimes {
    /* That a call owns: at 0 those that no step reads, behind step i at i + 1; those that are written, or shown by
     * results, have no turn. */
    StepLists inputs_end;
    StepLists outputs_start;          /* new ones and views of them; others are made at the start */
    StepLists slots_start, slots_end; /* of arenas */
    int *out_slot;                    /* by output: of a new one */
};
Status lifetimes_new(const Plan *plan, StepLifetimes **out); /* one block, for mem_free */

/* At the start. `blocks`: room by slot, for calls whose memory comes by step. */
Status memory_begin(Launch *launch, Storage **blocks);
/* The same where arenas are there: results and places. */
Status memory_of_call(Launch *launch);
Status memory_before(Launch *launch, int step);
void memory_after(const Launch *launch, int step);
void memory_end(const Launch *launch);
/* The layout of an output of this call, for its symbols; borrowed, NULL raises. */
const Meta *launch_output_meta(const Launch *launch, int output);

#endif
