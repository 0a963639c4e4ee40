/* tour.h: a sentence of the mental model each, with the evidence that it prints. */
#ifndef SINTER_SAMPLES_TOUR_H
#define SINTER_SAMPLES_TOUR_H
#include <sinter/inspect.h>
#include <sinter/sinter.h>

void tour_tensor(void);
void tour_views(void);
void tour_dispatch(void);
void tour_autograd(void);
void tour_inference(void);
void tour_autocast(void);
void tour_compile(void);

/* From here to tour_trace_end each key that an op enters is a line of the output. */
void tour_trace_begin(void);
void tour_trace_end(void);
/* "sizes [3,4] strides [4,1]" */
void tour_print_layout(const char *name, sn_tensor *t);

#endif
