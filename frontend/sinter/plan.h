/* plan.h: compiled functions as files: a second program runs one without its body, and without LLVM. */
#ifndef SINTER_PLAN_H
#define SINTER_PLAN_H
#include <sinter/compile.h>
#include <sinter/nn.h>
SN_BEGIN
typedef struct sn_plan_options {
    size_t size;
    /* Saving: what the function closes over is stored in the file. */
    bool embed;
    /* Saving: names of what the function closes over; the rest is closed0, closed1... Loading: what it closes over, by
       these names; takes the place of what is embedded. NULL: none. */
    sn_dict *tensors;
    /* Saving: only what calls have compiled; see sn_plan_save. */
    bool as_called;
} sn_plan_options;
#define SN_PLAN_OPTIONS(...) SN_STRUCT(sn_plan_options, __VA_ARGS__)
/* Writes every case that fn has compiled, and a call has run, to a file, next to path, then renamed; waits for code
   that is being made in the background. Where a size is free, 1 and 0 are cases of their own: fn is called with zeros
   of these sizes, one after the other, unless it writes what it closes over or has ordered effects; what goes wrong in
   such a call is no error, and no case (options.as_called, or a stance: none is made).
   Each case has the text of its graph beside its code, which sinter verify compares.
   fn is of mode REPLAY, and each of its calls was one graph that the mode could take; each tensor argument has been
   seen to be another one than what the body closes over, by two calls with different tensors, or came as an array
   (array.h). Of a function whose results carry gradients the forward is saved.
   SN_ERR_UNSUPPORTED names the reason why a function cannot be saved: it breaks, calls ops or devices of the program's
   own, reads .grad, calls sn_backward, has arguments that share written memory or are lists or strings, asks what
   requires gradients where its results do. Results may be arguments themselves, what it closes over (of a plan another
   handle of it, without history), and views of these and of each other. options NULL: defaults. Tensors are read as
   they are now. [refused] */
sn_status sn_plan_save(sn_function *fn, const char *path, const sn_plan_options *options);
/* A function of the arguments and results of the one that was saved, with its bits; call it as any other, free it with
   sn_function_free. It has no body: a call that no case was compiled for is SN_ERR_ARGUMENT, which names the guard of
   each and says what to do. Seed and sequence are those of the calling state, and so are settings that the body has
   asked for, which must be as they were. It serves any grad mode, those first that were learnt in the caller's, and
   records no gradients: in SN_GRAD_ON a tensor that requires them is an error. Results that are views share memory and
   history as the function's do. What it closes over is retained until it is freed; one of tensors that is missing, or
   of another dtype, size or stride, is SN_ERR_ARGUMENT. The file is mapped: what is embedded is read where it lies,
   when it is used, and what the plan writes of it stays with the plan; until it is freed nobody may shorten the file in
   place (another one renamed over it is fine). A file that another version wrote, or that is damaged, is SN_ERR_PARSE.
   Inside another compiled function it ends the segment and runs as it is. options NULL: defaults. [refused] */
sn_function *sn_plan_load(const char *path, const sn_plan_options *options);
/* The same of the file's n bytes, of which what is embedded is copied. [refused] */
sn_function *sn_plan_load_memory(const void *bytes, size_t n, const sn_plan_options *options);
SN_END
#endif
