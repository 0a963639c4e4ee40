/* capture.h: what happens between sn_call's entry and return: ops are recorded or matched, segments
 * run.
 *
 *   user code        capture                          at a break or the return
 *   sn_mm(x, w)  ->  trie: follow or add an edge   -> a variant whose guards hold: launch it,
 *   sn_relu(h)   ->  a placeholder with metadata      else run the pending ops eagerly, in order,
 *   sn_item(s)   ->  break                            and compile this segment after the return
 *
 * Nothing runs while ops are pending, so a mismatch costs nothing [semantics C1]. A placeholder is
 * an ordinary tensor without storage; when its segment has run it is given storage in place
 * ("bound") and is an ordinary tensor. */
#ifndef SINTER_RUNTIME_CAPTURE_H
#define SINTER_RUNTIME_CAPTURE_H
#include "runtime/autograd/tape.h"
#include "runtime/capture/function/function.h"

typedef struct Trace Trace;
/* Of a value at the end of its segment. */
enum {
    VALUE_needed = 1, /* held, asked for, or used by later segments */
    VALUE_viewed = 2, /* the memory of a needed view, seen in another way too */
    VALUE_output = VALUE_needed | VALUE_viewed,
    VALUE_alive = 4, /* somebody has a handle */
    VALUE_waits = 8  /* and may still ask: more of the call follows */
};
typedef struct Symbols Symbols; /* runtime/capture/variant/symbols.h */

/* Hangs on a tensor whose data is not computed yet. */
struct Placeholder {
    struct Capture *capture;
    Trace *trace;
    int value;
    bool tracks; /* would require gradients, had it been computed */
    /* in replay functions: sizes as expressions of the inputs'; NULL: plain */
    const Meta *symbolic;
};

typedef struct TraceInput {
    sn_tensor *tensor; /* retained until the call ends */
    const Meta *meta;  /* as it was when first touched, like all below */
    Storage *storage;
    int storage_number; /* by first touch within the segment */
    int same_storage;   /* the input before this one of the same storage, or -1 */
    int64_t offset;
    bool requires_grad, is_leaf, inference;
    Trace *maker; /* the earlier segment of this call that made it, or NULL */
    int maker_value;
} TraceInput;

typedef struct StorageSlot {
    const Storage *storage;
    int32_t number, newest_input;
    uint32_t stamp; /* of the trace that touched it; another one: the slot is free */
} StorageSlot;

typedef enum TraceState { TRACE_pending, TRACE_compiled, TRACE_interpreted, TRACE_eager, TRACE_failed } TraceState;

typedef struct TraceStep {
    const TraceOp *op; /* of a trie node */
    const void *site;  /* return address of the user's call */
} TraceStep;

typedef struct TraceEvent { /* done at once, see runtime/capture/record/capture_events.c */
    enum { EVENT_grad, EVENT_hook, EVENT_seed } kind;
    int after;         /* so many ops of the segment */
    sn_tensor *tensor; /* retained, or NULL */
    sn_tensor *before; /* its gradient; retained unless `borrowed` */
    bool borrowed;     /* `before` is a value of the segment */
    int64_t id;        /* of the hook */
    uint64_t seed, sequence;
} TraceEvent;

struct Trace { /* one segment of one call */
    Capture *capture;
    TraceState state;
    TrieNode *end;
    VEC(TraceStep) ops;
    VEC(TraceInput) inputs;
    VEC(int64_t) numbers;
    VEC(struct NumberSource) sources; /* in replay functions: where each number comes from */
    VEC(sn_tensor *) values;          /* fresh results in order, each retained */
    uint8_t *marks;                   /* by value: VALUE_; made at the segment's end */
    int n_storages;
    uint64_t seed, sequence; /* the generator's before the first random op */
    int n_random, n_drawn;   /* drawn: by a run op by op, which may end early */
    int n_done;              /* ops that had run when a run op by op ended */
    VEC(TraceEvent) events;
    struct Sight *sights;         /* by value, of trace_views.c; NULL: not asked for */
    bool views;                   /* a view is among the ops */
    bool writes;                  /* an in-place or out form is among the ops */
    bool relaid;                  /* the in-place form of a view is */
    bool tracked_writes;          /* one whose operands require gradients: aliases may track now */
    bool gradients;               /* sn::gradients is */
    bool fallible;                /* an op that may fail for its values is, or a user's */
    bool ordered;                 /* one with an effect is; then none of the others but pure ones */
    bool compile;                 /* ran eagerly; wants a variant after the return */
    Variant *variant;             /* that ran it */
    struct TapeNode *node;        /* of a trained launch; retained while a value is unmade */
    uint64_t tape_sequence;       /* before the launch: where eager's nodes would stand */
    int64_t started_ns, ended_ns; /* of recording; 0: no op was new */
    /* why it ran eagerly or interpreted; text that outlives the call, or NULL */
    const char *reason;
};

typedef struct OutsideOps { /* that ran at once, beside the segments */
    const char *reason;
    int n;
} OutsideOps;

struct Capture {
    sn_function *fn;
    pthread_mutex_t lock; /* of all below, see runtime/capture/record/capture_thread.c */
    bool lock_taken;      /* else the process had one thread when it was entered */
    bool running;         /* a segment: its user code may not wait for another one's values */
    bool relays;          /* what is recorded has TraceOp.relaid */
    const sn_state *owner;
    Capture *paused;             /* the one around it that waited already when this one was paused */
    ErrorSlot *failed_elsewhere; /* raised while another thread ran a segment, or NULL */
    const void *frame;           /* of the sn_call that owns it; NULL: not to be judged */
    volatile uint64_t *cookie;   /* in that frame: a number that later frames overwrite */
    uint64_t cookie_value;
    const void *cfa;     /* where that frame ends, as the unwinder sees it */
    uint32_t n_scopes;   /* open when it began */
    Arena *arena;        /* of this call: traces, arguments */
    VEC(Trace *) traces; /* in order; the last one is current */
    Trace *trace;
    TrieNode *cursor;
    StorageSlot *map; /* by hash: the storages that the current trace has touched */
    uint32_t map_room, stamp;
    Symbols *symbols;  /* of a replay function's call; else NULL: numbers are as they are */
    sn_tensor *wanted; /* the placeholder whose value a break asks for */
    /* The first thing that the call did beside its segments (an op, a value read), or NULL; without the lock. */
    const char *_Atomic outside;
    VEC(OutsideOps) outside_ops;
    bool outs_open;      /* the body may set any number of outputs: the caller wants its graph */
    bool eager_checks;   /* of the running function, or of a callee that is being inlined */
    bool settles;        /* host code may look at all that is made by the segment that ends */
    bool final;          /* the body has returned and its scope has ended */
    sn_tensor **results; /* what the body returned; NULL entries: absent */
    int n_results;
};

/* Ends the current segment: runs it. `reason` (static text) NULL: the return. */
Status capture_flush(Capture *capture, const char *reason, const void *site);
/* The same of this thread's capture, if there is one. */
Status capture_end_segment(const char *why);
/* Makes a tensor's data exist and current. */
Status capture_flush_tensor(sn_tensor *tensor);
/* The same for something else than a value that is read; reason: static text of the break. */
Status capture_make(sn_tensor *tensor, const char *reason);
/* The same where it is a value of another segment than the current one, which that may end. */
Status capture_make_earlier(Capture *capture, sn_tensor *tensor);
/* The call has done something that no segment repeats. What it does about it next is no other thing. */
static inline void capture_note_outside(Capture *capture, const char *reason) {
    const char *none = NULL;
    atomic_compare_exchange_strong(&capture->outside, &none, reason);
}
/* The same of the calling thread's call, if it is one: it changes what belongs to the program. */
void capture_note_event(const char *what);
/* The call is about to do something that no segment repeats: a break in any case, also where nothing is pending and the
 * flush that follows notes none. */
void capture_note_break(Capture *capture, const char *reason);
/* The generator is about to start anew: random ops that are pending keep the old one. */
Status capture_seed(void);
/* capture_events.c: about to change leaf's .grad or the generator; hook `id` is now on t. Undone if an op before
 * fails. */
Status capture_note_grad(sn_tensor *leaf);
Status capture_note_hook(sn_tensor *t, int64_t id);
Status capture_note_seed(void);
/* About to do what only ops behind it may see, and what is not undone: the pending ones run first. */
Status capture_before_event(const char *what);
void capture_undo_events(const Trace *trace); /* behind its n_done ops */
void capture_forget_events(Trace *trace);
/* Runs all that is pending and makes every value still held: host code writes memory next. */
Status capture_settle(const char *why);
/* With capture suspended: values of ended segments that are unmade but may be asked for are made, before something
 * writes memory (NULL: any) that they may depend on. */
Status capture_before_write(Capture *capture, const Storage *storage);
/* This thread's capture, or NULL. A call that a longjmp or an exception left behind is noticed here: what it had
 * pending runs, it is reported, and the thread captures no more [semantics C13]. */
Capture *capture_current(void);
/* Cheap signs of that, for every op. The stack grows down: a frame below this one belongs to a call that was left; one
 * above it too, where its number has been overwritten. A deep call that leaves the number alone is taken for one of the
 * body: its ops are recorded, their values are right, and the next shallow call, or one that asks exactly, notices. */
__attribute__((no_sanitize_address)) static inline bool capture_was_left(const Capture *c) {
    if (!c->frame) return false;
    if ((const char *)__builtin_frame_address(0) > (const char *)c->frame) return true;
    return *c->cookie != c->cookie_value;
}
/* capture_thread.c: the lock, for which the owner enters (true: now, so it leaves), and which is not
 * held while user code runs. */
bool capture_enter(Capture *capture);
void capture_leave(Capture *capture, bool entered);
/* Around a callback: what is to be entered again, or NULL. */
Capture *capture_leave_for_callback(sn_state *state);
void capture_enter_after_callback(Capture *capture);
/* Around the end of a call, whose placeholders go. */
void capture_retire_begin(const sn_state *state);
void capture_retire_end(const sn_state *state);
/* The owner's: what went wrong while another thread ran one of its segments. */
Status capture_take_over_error(Capture *capture);
/* Makes the data of another thread's placeholder. */
Status capture_flush_foreign(sn_tensor *tensor);
/* The same if it is one that this thread's call does not compute: keys and history come with it. */
Status capture_make_foreign(sn_tensor *tensor);
/* The same, by walking the stack where the cheap signs say nothing: for calls that would be errors
 * inside of a body. A microsecond. */
Capture *capture_current_exactly(void);
const void *capture_call_site(void); /* the function whose frame a capture belongs to */
/* Ends a call whose body will not return (function.c). */
void capture_abandon(Capture *capture);
/* A new, empty segment; NULL when memory is out. */
Trace *capture_begin_trace(Capture *capture);
/* Suspends capture on this thread, so that ops run; returns what capture_resume takes. */
Capture *capture_suspend(void);
void capture_resume(Capture *capture);
/* The same around user code that runs at once and may not return; NULL: there is no capture. */
Capture *capture_pause(void);
void capture_unpause(Capture *capture);
/* sn_requires_grad: of a pending value too. */
bool capture_requires_grad(sn_tensor *tensor);
/* The kernel of KEY_capture: records or matches one op. */
Status capture_op(OpCall *call);
/* A call in a body, before the walk through its keys. True: it is the one that the trie expects, the walk would have
 * ended in capture_op, and the step is taken; *status is its outcome. False: nothing has happened. */
bool capture_follow(sn_state *state, OpCall *call, Status *status);
/* Records sn::gradients(roots, grads, leaves); outs: n placeholders laid out as the
 * tape lays out .grad. */
Status capture_gradients(Capture *capture, const Arg *args, sn_tensor **outs, int n);

/* Runs the ops of a trace eagerly, in order, binding all of its values. */
Status trace_run_eager(Trace *trace);
/* The same for values that a compiled run left unmade; `asked`: the one that is wanted, NULL: whoever may be asked
 * for. A variant that has them as results is launched in the first one's place, made now if there is none. */
Status trace_run_late(Trace *trace, const sn_tensor *asked);
void trace_drop_node(Trace *trace);
void trace_mark_asked(Trace *trace, const sn_tensor *t); /* if it is a value of the ended trace: it is needed */
/* Gives a placeholder the storage, autograd metadata and keys of a computed tensor. */
void tensor_bind(sn_tensor *placeholder, sn_tensor *computed);

/* capture_reach.c: the histories that a backward from roots walks, through the first n_ops ops, as on eager's tape. */
typedef struct Reach Reach;
Reach *reach_new(const Trace *trace, int n_ops); /* NULL: out of memory */
bool reach_root(Reach *reach, Operand root);     /* false: it has no history */
/* From the roots back. False: an op on the way is not differentiable by rule. */
bool reach_back(Reach *reach, int n_ops);
bool reach_has(const Reach *reach, Operand operand);

/* capture_backward.c: sn::gradients(roots, grad_roots, leaves) on computed tensors. */
Status gradients_run(const Arg *args, sn_tensor **outs);
/* A segment that runs again does not repeat its captured backward (op number `gradients`): what the
 * backward used up of the history is used up in the new one. */
Status capture_use_up(const Trace *trace, int gradients);
/* Takes a backward over while this thread captures (true); what it cannot record runs as a break. */
bool capture_run(const TapeRun *run, Status *status);
void capture_start(void); /* registers the key's kernels */

/* variant.c: does a variant fit this trace? If not and `why` is given, the guard that failed with
 * both values. */
bool variant_fits(const Variant *variant, const Trace *trace, Text *why);
/* Free symbols' values for a launch; room for sym_free_count of the env. */
void variant_bind(const Variant *variant, const Trace *trace, int64_t *symbols);
/* Room for n_runtime_floats. */
void variant_bind_floats(const Variant *variant, const Trace *trace, double *floats);
/* Its first result may share its first operand's memory. */
bool trace_op_is_view(const TraceOp *op);
/* A launch alone: results are what the modes of their ops make them, with the history that a captured backward left
 * them. */
Status variant_execute(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                       sn_tensor **outs);
/* Launches it, binding the trace's needed values. ST_OK, or a pending error with nothing committed. */
Status variant_run(Variant *variant, Trace *trace);
int variant_output_of(const Variant *variant, int value); /* which output a trace value is, or -1 */
/* Where trace->variant has run: binds what `variant` gives beyond that, and takes its place on the tape. */
Status variant_run_again(Variant *variant, Trace *trace);
/* Compiles a variant for a trace that ran eagerly and publishes it; failures are noted on the
 * function. */
void variant_compile(sn_function *fn, Trace *trace);
void variant_free(Variant *variant); /* drops one reference */
void variant_retain(Variant *variant);

/* trace_views.c: views, as memory and as the tape knows them. Marks the values that needed ones are
 * views of, where there is another way to see their memory. */
Status trace_mark_viewed(Trace *trace);
/* The variant gives what the value views but not the value, which may still be asked for. */
bool trace_lacks_view(const Trace *trace, const Variant *variant, int value);
/* A view that the variant makes and nobody has asked for, of memory that it does not provide: what
 * else sees that memory would be made apart from it. */
bool trace_stays_unmade(const Trace *trace, const Variant *variant, int value);
/* May a recorded op write into it, as far as the tape is concerned (tape_check_inplace)? */
Status trace_check_inplace(const Trace *trace, Operand operand);
/* Is it of inference mode? A view is what its base is. */
bool trace_is_inference(const Trace *trace, Operand operand);
/* Which outputs of the variant are views, and of what. */
Status variant_plan_views(Variant *variant, const Trace *trace);
/* Gives the views among the results the history of views: after a launch for the trace, whose
 * values are bound; or for results alone (inputs by trace input, none of them a base of others). */
Status trace_note_views(const Trace *trace, const Variant *variant);
Status variant_note_views(const Variant *variant, const int64_t *numbers, sn_tensor *const *inputs,
                          sn_tensor *const *outs);

/* An output that is a view, written through its base since, has no history of its own: it is made from that of the
 * base, if that is an output too, when it is first asked for, as in eager. */
void variant_note_stale(Variant *variant, int output);
bool variant_view_is_stale(const Variant *variant, int output);

/* A launch counts a memory that it writes once; eager counts every write. */
Status variant_plan_writes(Variant *variant, const Trace *trace);
void variant_count_writes(const Variant *variant, sn_tensor *const *inputs, sn_tensor *const *outs);

/* trace_graph.c: the capture graph of a trace. */
const TraceOp *trace_maker(const Trace *trace, Operand value); /* NULL: an input */
/* The call that op was in this trace; args has room for MAX_ARGS, out_args (out forms) for MAX_OUTS; lists live
 * in the call's arena. */
void trace_numbers(const TraceOp *op, const int64_t *numbers, Arg *args); /* all but tensors */
Status trace_args(const Trace *trace, const TraceOp *op, Arg *args, sn_tensor **out_args);
typedef struct SymPlan { /* how the trace's metadata and numbers enter the graph; static: as they
                            are */
    SymEnv *env;
    const Meta **metas;    /* by trace input; sizes and strides may be symbolic */
    int64_t *numbers;      /* by number: plain, symbolic, or a runtime float's index */
    uint8_t *number_rules; /* NumberRule */
    bool *number_guarded;  /* a rule branches on it: a runtime value must not be a special one */
    bool dynamic;
    int n_runtime_floats;
    VEC(SymBinding) bindings; /* by free symbol */
} SymPlan;
typedef struct TraceGraph {
    Graph *graph;
    GraphInput *inputs; /* by graph input */
    int *outputs;       /* trace value of each graph output */
    int n_inputs, n_outputs;
    GVal **values; /* by trace value */
    Node **nodes;  /* by op of the trace */
} TraceGraph;
/* Is argument i one of the numbers (not a dtype, device, bool...)? Lists count by their own length. */
static inline bool trace_arg_is_number(const OpRow *row, int i, const Arg *a) {
    const uint32_t structural = 1u << PT_bool | 1u << PT_bool_opt | 1u << PT_dtype | 1u << PT_dtype_opt |
                                1u << PT_device_opt | 1u << PT_layout_opt | 1u << PT_memory_format_opt;
    return (a->kind == ARG_int || a->kind == ARG_float) && !(structural >> row->params[i].type & 1);
}
/* What number `number` of the trace is in this op, which has it. */
typedef struct NumberPlace {
    const Param *param;
    int item; /* of a list; -1: of none */
    bool is_float;
} NumberPlace;
NumberPlace trace_number_place(const TraceOp *op, int number);
/* Raises where the trace has no graph (aliases of different dtypes that are written...). */
Status trace_graph(const Trace *trace, Arena *arena, SymPlan *plan, TraceGraph *out);

/* capture_strided.c: why an as_strided call can't be recorded, NULL: it can; the storage offset that
 * its operand's root starts at; whether a trace has one whose offset depends on where inputs start. */
const char *strided_refusal(const Trace *trace, const OpCall *call);
int64_t strided_origin(const Trace *trace, Operand self);
bool strided_counts_from_an_input(const Trace *trace);
/* The input, or the value, whose memory an operand is a view of, by views alone. */
Operand trace_root(const Trace *trace, Operand at);

/* capture_relayout.c: self is about to change its layout in place. *recorded: it is a result of the current segment and
 * the view that it becomes is to be recorded; else self is made, and the view is not to be captured. */
/* relayout.c: the in-place form of a view row: the handle changes. */
Status relayout(const OpRow *row, const Arg *args, sn_tensor **outs);
Status capture_relayout(sn_tensor *self, bool *recorded);
/* Around the recording of that view: whether it counts as a write (that of detach_ doesn't). */
void capture_relays(bool on);
/* self and old have exchanged what they stand for. */
void capture_exchanged(sn_tensor *self, sn_tensor *old);
/* self is now such a view: the version of the input that it shows goes up at the call [semantics C3]. */
void capture_relaid(sn_tensor *self);

/* dynamic.c. Static for the first trace of an end (or symbolic sizes throughout with SN_DYNAMIC_ALWAYS), else what
 * differs from `older` becomes symbols and runtime numbers. */
Status sym_plan_make(const sn_function *fn, const Trace *trace, const Variant *older, Arena *arena, SymPlan *out);

#endif
