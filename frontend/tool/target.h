/* target.h: what a subcommand works on: a text graph (FILE.sn, or - for stdin), a function of a library
 * (library.so:symbol) or a saved plan (a file that begins as one) with inputs given as --input f32[8,16]; made into a
 * compiled function with random inputs. Samples are programs of their own (sample.h); what they compile and with what
 * inputs is a target too (samples/work.h). */
#ifndef SINTER_TOOL_TARGET_H
#define SINTER_TOOL_TARGET_H
#include <sinter/sinter.h>

#include "frontend/tool/arguments.h"
#include "ir/device.h"

enum {
    TARGET_INPUTS = 1024,
    TARGET_OUTPUTS = 1024,
    TARGET_NUMBERS = 64,
    DEFAULT_SIZE = 8 /* of what is symbolic */
};

/* Numbers among the arguments of a call. */
typedef struct CallNumbers {
    int n;
    struct {
        sn_value value;
        int before; /* how many tensors come before it */
    } at[TARGET_NUMBERS];
} CallNumbers;

typedef struct Target {
    sn_graph *graph;              /* text graphs */
    sn_body body;                 /* library functions, samples */
    void *closure;                /* samples, and what a library describes (sinter/target.h) */
    const char *plan;             /* the file of a saved one */
    sn_program *program;          /* of a .pt2 file */
    bool backward, step;          /* samples: gradients are part of the work; or the body does all of it */
    char *values;                 /* a text that may begin with "# values FILE" (values.h); mem_free */
    bool has_inputs;              /* of its own, as the library describes them: none are made but by --input */
    bool asks_gradients;          /* graphs: their ops ask for some of the inputs */
    sn_tensor *in[TARGET_INPUTS]; /* kept */
    int n_in, n_out;
    CallNumbers numbers;
    int64_t symbol; /* what symbolic sizes are now */
    int exit_code;  /* of the error that is pending after target_open */
} Target;

typedef struct TargetOptions {
    const char *name;
    const char *given;                   /* the last option; NULL: none */
    const char *inputs[TARGET_INPUTS];   /* "f32[8,16]"; of a library's function also "3" or "0.5" */
    const char *numbers[TARGET_NUMBERS]; /* "s0=16" */
    int n_inputs, n_numbers, n_out;
    const char *inputs_file; /* safetensors, by name; NULL: they are random */
    bool outs_given;         /* n_out is --outputs */
    const char *library;     /* opened first: it registers ops, passes, backends; NULL: none */
    bool grad;               /* float inputs require gradients */
    bool no_grad;            /* calls are made in grad mode off, as those of an inference plan */
    bool vary;               /* symbolic sizes differ from call to call: 8, 16, 24 */
    bool device_given;
    Device device; /* of all inputs; else each is where its type says */
    sn_compile_options compile;
} TargetOptions;

/* Takes one argument: TARGET, or an option of the group `target`. False: none of them. */
bool target_argument(CommandLine *a, TargetOptions *o);
bool target_is_plan(const char *name);
bool target_is_file(const char *name); /* a text graph, a library's function or a saved plan */
/* Opens a library for the life of the process; a plug-in is started. NULL raises. */
void *target_library(const char *path);
/* Opens what registers ops, passes or backends: a library, whose constructors do, a plug-in, or a sample, whose work
 * does. */
Status target_extend(const char *path);
/* True: the name is a file or library; errors are pending where it cannot be opened. */
bool target_open(const TargetOptions *o, Target *out);
void target_close(Target *target);
/* Makes the inputs anew, with this for symbolic sizes. */
void target_inputs(const TargetOptions *o, Target *target, int64_t symbol);
const char *target_mode_name(sn_compile_mode mode);
sn_function *target_compile(const Target *target, const TargetOptions *o, sn_compile_mode mode);
/* One call; results are the scope's. */
sn_status target_call(const Target *target, sn_function *fn, sn_tensor **out);
/* All arguments in order, tensors with the numbers among them; how many there are. Room TARGET_INPUTS +
 * TARGET_NUMBERS. */
int call_values(sn_tensor *const *in, int n_in, const CallNumbers *numbers, sn_value *values);
sn_status call_with_numbers(sn_function *fn, sn_tensor *const *in, int n_in, const CallNumbers *numbers,
                            sn_tensor **out, int n_out);

/* The function and the inputs of a sample. False: none has this name. */
bool target_open_sample(const char *name, Target *out);
/* Stdin can be read again after rewind_stdin, by this process or one that it starts. */
Status keep_stdin(void);
void rewind_stdin(void);

#endif
