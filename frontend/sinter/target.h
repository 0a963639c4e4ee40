/* target.h: what a library gives the tool `sinter` to look at by name: a function with its closure and real inputs, so
   that run, explain, dump, report, verify, bench, profile and plan take LIBRARY.so:NAME as they take a sample or a text
   graph. It is a header alone, which sinter.h leaves out.

       #include <sinter/sinter.h>
       #include <sinter/target.h>

       SN_TARGET(forward, target) {
           static Model model; // what the closure points to lives on
           model_read(&model, "weights.safetensors");
           sn_target_input(target, sn_val(sn_randn(SN_INTS(32, 64), SN_F32)));
           target->body = forward;
           target->closure = &model;
       }

       $ cc -shared -fPIC model.c -o model.so $(pkg-config --cflags sinter)
       $ sinter report ./model.so:forward -o forward.html

   Make the body static: one that the library exports can be bound to another library's function of its name (libc has
   a `step`), which the tool refuses. Links with the library or not: the tool has all its functions. A library's
   function without a target is called with the inputs of --input and without a closure. */
#ifndef SINTER_TARGET_H
#define SINTER_TARGET_H
#include <sinter/compile.h>
#include <sinter/graph.h>
#include <sinter/plugin.h>
SN_BEGIN
enum { SN_TARGET_INPUTS = 256 };
typedef enum sn_target_kind {
    SN_TARGET_FORWARD,  /* the function alone; bench times it with gradients off */
    SN_TARGET_BACKWARD, /* bench and verify also ask for the gradients of its inputs */
    SN_TARGET_STEP      /* a whole training step, which calls sn_backward and the optimizer itself */
} sn_target_kind;
typedef struct sn_target {
    size_t size; /* what follows is zero, but outputs, which is 1 */
    sn_target_kind kind;
    int outputs;
    sn_body body;    /* or */
    sn_graph *graph; /* which the tool frees */
    void *closure;
    int inputs;
    sn_value input[SN_TARGET_INPUTS]; /* tensors and numbers in the order of the call */
} sn_target;
/* Adds an input; more than there is room for is SN_ERR_UNSUPPORTED. */
static inline void sn_target_input(sn_target *target, sn_value value) {
    if (target->inputs == SN_TARGET_INPUTS)
        sn_fail(SN_ERR_UNSUPPORTED, "a target has at most 256 inputs");
    else
        target->input[target->inputs++] = value;
}
/* Followed by a body that fills `target`, and is run anew for each time that the tool opens it: `verify` calls a step
   several times, each from the beginning. Random numbers have the tool's seed. What it makes is the scope's, which ends
   behind the last call; errors are left pending. */
#define SN_TARGET(name, target)                                                                                        \
    SN_PLUGIN_EXPORT void sn_target_##name(sn_target *target);                                                         \
    void sn_target_##name(sn_target *target)
SN_END
#endif
