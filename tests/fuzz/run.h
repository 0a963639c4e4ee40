/* run.h: one program and its compiled function, between run.c (the body, what is seen of a call) and state.c (what
 * outlives a call). */
#ifndef SINTER_TESTS_FUZZ_RUN_H
#define SINTER_TESTS_FUZZ_RUN_H
#include "tests/fuzz/program.h"

typedef struct FzRegion { /* one run of a checkpoint step (region.c) */
    struct FzRun *run;
    int first, end, n_in, n_out, n_runs;
    int in[FZ_VALUES], out[FZ_VALUES]; /* values */
    bool lacks[FZ_VALUES];             /* of a result */
} FzRegion;

struct FzRun {
    const FzProgram *p;
    sn_function *fn;
    int setting;
    sn_tensor *inputs[FZ_INPUTS];
    sn_tensor *blocks[FZ_INPUTS]; /* that an input and its shifted aliases are parts of */
    FzProgram varied;             /* of this call, where some arguments differ */
    FzVary given[FZ_VARIES];      /* its arguments that are the call's */
    sn_value numbers[FZ_VARIES];  /* what the body was given for them */
    int n_given;
    sn_tensor *crowd[FZ_CROWD];
    sn_tensor *values[FZ_VALUES];
    sn_tensor *kept[FZ_STEPS];
    int n_kept;
    FzRegion regions[FZ_STEPS]; /* by step: the last one; a backward may run it */
    int n_again;                /* bodies of checkpoints that run again */
    sn_rng rng;                 /* that the body saved last; until then where its call began */
    struct Span {
        const char *from, *to;
    } places[FZ_VALUES]; /* memory of what was written down */
    int n_places;
    bool whole; /* stories leave nothing out */
    FzSeen *seen;
    int n_packed, n_hooked; /* what hooks were called for, in this call */
    int n_passed_on;        /* by an API mode, in this call */
    int n_bodies;           /* calls that ran the body */
    int n_calls;
    sn_function *callee; /* in mode EAGER */
    const FzStep *called_for;
    int n_callee_calls;
    sn_frame *frame; /* the body's, while it runs */
    sn_dict *params; /* held leaves */
    sn_optim *optim;
    sn_scaler *scaler; /* NULL: steps are plain */
    FzArrays arrays;   /* how calls are made */
    FzWatch *watch;    /* NULL: nobody looks at its ops */
    /* A plan takes the calls from now on (plan.c). */
    bool frozen;    /* no metadata of held tensors changes any more, nor a setting */
    bool no_leaves; /* inputs require no gradients */
    bool apart;     /* the plan has held tensors of its own: these stay as they are, and are not looked at */
};

/* run.c */
uint64_t fz_next(uint64_t *s);
sn_tensor *fz_make_input(FzRun *run, int i, uint64_t *s);

void fz_run_steps(FzRun *run, int first, int end);

/* arrays.c: sn_call_values, by arrays. */
sn_status fz_call_arrays(FzRun *run, uint64_t seed, const sn_value *in, int n, sn_tensor **out);

/* watch.c: around the call of an op. */
void fz_watch_before(FzWatch *watch, const sn_op *op, const sn_value *in, int n_in);
void fz_watch_after(FzWatch *watch, const FzStep *step, const sn_value *in, int n_in, const sn_value *out, int n_out);

/* crowd.c */
void fz_crowd_make(FzRun *run, uint64_t *s);
sn_tensor *fz_crowd_sum(sn_frame *f, int first, int n);
uint64_t fz_crowd_hash(const FzRun *run);
static inline int fz_result_count(const FzProgram *p) { return p->n_returns + (p->crowd > 0); }

/* region.c: the checkpoint of a step */
void fz_run_region(FzRun *run, int at);

/* state.c. Held tensors, those of calls before: into run->inputs, changed from outside; a fresh one at first. */
void fz_state_begin(FzRun *run, uint64_t seed);
bool fz_state_frozen(const FzRun *run); /* whether metadata of held tensors stays: a plan is made of these calls */
/* After a call that failed nobody knows how far it came: the next one has tensors of its own. */
void fz_state_forget(FzRun *run);
void fz_state_free(FzRun *run);
bool fz_query_of_gradients(int query); /* its answer depends on them */
double fz_ask(int query, sn_tensor *t);
/* What the host says in this call, with a guard of it. */
double fz_guarded(FzRun *run);
/* flow.c: t times a number, and more, in control flow. */
sn_tensor *fz_flow(FzHow how, sn_tensor *t, double by);
sn_tensor *fz_func(FzHow how, sn_tensor *t, double by); /* func.c, likewise */
/* The step's product, by the callee. */
sn_tensor *fz_call_eager(FzRun *run, const FzStep *step);

#endif
