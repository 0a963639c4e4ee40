/* run.c: runs a program through the public API and writes down everything a user could see: results
 * and their metadata, which memory they share, inputs afterwards, gradients, items at breaks,
 * errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/autograd/tape.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"
#include "tests/fuzz/run.h"
#include "tests/ref/nan.h"

sn_device fz_device = SN_CPU;

static sn_tensor *placed(sn_tensor *t) { return fz_device == SN_CPU ? t : sn_to_device(t, fz_device); }

/* Random inputs ------------------------------------------------------------------------------- */

uint64_t fz_next(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *s ^ (*s >> 29);
    return x * 0xBF58476D1CE4E5B9u ^ (x >> 32);
}

static double uniform(uint64_t *s) { return (double)(fz_next(s) >> 11) * 0x1p-53; }

/* Mostly tame numbers, now and then a special one. */
static double float_value(uint64_t *s) {
    static const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 1e-40, 3e38, 0.5};
    if (fz_next(s) % 64 == 0) return special[fz_next(s) % (sizeof special / sizeof *special)];
    return uniform(s) * 4 - 2;
}

/* Memory from outside: any byte but 0 is true. Which one follows from the place, so that a program's other numbers stay
 * what they were. */
static sn_tensor *bools_from_outside(const double *data, int64_t n, sn_ints sizes) {
    static const unsigned char bytes[] = {1, 255, 2, 1, 128};
    unsigned char *const masks = malloc((size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) masks[i] = data[i] != 0 ? bytes[i % (int64_t)sizeof bytes] : 0;
    sn_tensor *const t = sn_from_data(masks, sizes, SN_BOOL);
    free(masks);
    return t;
}

static sn_tensor *fresh(const FzInput *in, const int64_t *sizes, int rank, uint64_t *s) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    const bool is_float = dtype_is_float((DType)in->dtype);
    double *data = malloc((size_t)(n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] =
            is_float ? float_value(s) : (double)(in->low + (int64_t)(fz_next(s) % (uint64_t)(in->high - in->low + 1)));
    const bool is_bool = in->dtype == SN_BOOL;
    sn_tensor *const t = is_bool ? bools_from_outside(data, n, (sn_ints){sizes, rank})
                                 : sn_from_data(data, (sn_ints){sizes, rank}, SN_F64);
    free(data);
    return placed(is_bool ? t : sn_to(t, in->dtype));
}

/* A tensor of the wanted sizes in the wanted layout, made by views of a larger or permuted one. */
static sn_tensor *make_layout(const FzInput *in, int64_t *sizes, uint64_t *s) {
    const int last = in->rank - 1;
    if (in->layout == FZ_transposed && in->rank >= 2) {
        const int64_t swap = sizes[last];
        sizes[last] = sizes[last - 1], sizes[last - 1] = swap;
        return sn_transpose(fresh(in, sizes, in->rank, s), last, last - 1);
    }
    if (in->layout == FZ_sliced && in->rank >= 1) {
        const int64_t want = sizes[last];
        sizes[last] += 3;
        return sn_narrow(fresh(in, sizes, in->rank, s), last, 2, want);
    }
    if (in->layout == FZ_expanded && in->rank >= 1) {
        int64_t one[FZ_DIMS];
        memcpy(one, sizes, sizeof one);
        one[0] = 1;
        return sn_expand(fresh(in, one, in->rank, s), (sn_ints){sizes, in->rank});
    }
    if (in->layout == FZ_channels_last && in->rank == 4) {
        int64_t last_channels[] = {sizes[0], sizes[2], sizes[3], sizes[1]};
        return sn_permute(fresh(in, last_channels, 4, s), SN_INTS(0, 3, 1, 2));
    }
    if (in->layout == FZ_channels_last && in->rank == 5) {
        int64_t last_channels[] = {sizes[0], sizes[2], sizes[3], sizes[4], sizes[1]};
        return sn_permute(fresh(in, last_channels, 5, s), SN_INTS(0, 4, 1, 2, 3));
    }
    return fresh(in, sizes, in->rank, s);
}

/* Every second dim within bounds that some of the sizes miss. */
static void mark_sizes(sn_tensor *t) {
    for (int d = 0; d < sn_rank(t); d++) sn_mark_dynamic(t, d, d % 2 ? 3 : 0, d % 2 ? 12 : 0);
}

static bool is_shared(const FzProgram *p, int i) {
    for (int k = i + 1; k < p->n_inputs; k++)
        if (p->inputs[k].alias == i && p->inputs[k].shifted) return true;
    return false;
}

enum { SMALL_ARRAY = 192 }; /* elements of a block before and behind the part that its first input is */

/* A row-major part of a block. */
static sn_tensor *part_of(sn_tensor *block, int64_t at, sn_ints sizes) {
    int64_t n = 1;
    for (int64_t d = 0; d < sizes.n; d++) n *= sizes.data[d];
    return sn_view(sn_narrow(block, 0, at, n), sizes);
}

static sn_tensor *make_shared(FzRun *run, int i, const int64_t *sizes, uint64_t *s) {
    const FzInput *const in = &run->p->inputs[i];
    int64_t n = 2 * SMALL_ARRAY, all = 1;
    for (int d = 0; d < in->rank; d++) all *= sizes[d];
    n += all;
    run->blocks[i] = fresh(in, &n, 1, s);
    return part_of(run->blocks[i], SMALL_ARRAY, (sn_ints){sizes, in->rank});
}

/* Offsets that some guard, alignment or vector may take for one another. */
static sn_tensor *shifted(const FzRun *run, const FzInput *in, uint64_t *s) {
    static const int16_t by[] = {0, 64, 1, 0, -64, 128, 65, 2, -1, 16, 192, -192};
    const sn_ints sizes = sn_sizes(run->inputs[in->alias]);
    return part_of(run->blocks[in->alias], SMALL_ARRAY + by[fz_next(s) % (sizeof by / sizeof *by)], sizes);
}

sn_tensor *fz_make_input(FzRun *run, int i, uint64_t *s) {
    const FzInput *in = &run->p->inputs[i];
    if (in->alias >= 0 && in->shifted && run->blocks[in->alias]) return shifted(run, in, s);
    if (in->alias >= 0) return sn_alias(run->inputs[in->alias]);
    int64_t sizes[5] = {0};
    for (int d = 0; d < in->rank; d++) sizes[d] = fz_int(run->p, in->sizes[d], run->setting);
    run->blocks[i] = NULL;
    sn_tensor *t = is_shared(run->p, i) ? make_shared(run, i, sizes, s) : make_layout(in, sizes, s);
    if (in->grad && t && !run->no_leaves) sn_requires_grad_(t, true);
    if (t && run->p->marked) mark_sizes(t);
    return t;
}

/* Writing down -------------------------------------------------------------------------------- */

enum { SHOWN = 32 }; /* elements in a story that is not whole */

/* A NaN is a NaN, and of a bool only its truth counts: memory from outside that eager writes in part keeps its other
 * bytes, where a compiled write-back writes 0 and 1. */
static void make_comparable(DType dtype, unsigned char *item, size_t bytes) {
    if (is_nan_at(dtype, item)) memset(item, 0xff, bytes);
    if (dtype == DT_bool) *item = *item != 0;
}

static void write_data(FzRun *run, sn_tensor *t) {
    FzSeen *const seen = run->seen;
    const size_t item = (size_t)dtype_bytes((DType)sn_dtype_of(t)), bytes = (size_t)sn_numel(t) * item;
    unsigned char *data = calloc(bytes + 1, 1);
    if (sn_read(t, data, bytes) == SN_OK) {
        for (size_t i = 0; i < bytes; i += item) make_comparable((DType)sn_dtype_of(t), data + i, item);
        text_put(&seen->bytes, (const char *)data, bytes);
        text_puts(&seen->story, " =");
        for (size_t i = 0; i < bytes && (run->whole || i < SHOWN * item); i += item) {
            text_puts(&seen->story, " ");
            for (size_t k = item; k-- > 0;) text_printf(&seen->story, "%02x", data[i + k]);
        }
    }
    free(data);
}

static struct Span span_in_memory(sn_tensor *t) {
    const int64_t item = dtype_bytes((DType)sn_dtype_of(t));
    const char *const at = tensor_data(t);
    int64_t last = 0;
    for (int d = 0; d < sn_rank(t); d++) last += (sn_size(t, d) - 1) * sn_strides(t).data[d];
    return (struct Span){at, at + (last + 1) * item};
}

/* The number of the first tensor written down whose memory meets this one's, and how far from its
 * beginning this one begins; inputs count first. */
static int shared_with(FzRun *run, sn_tensor *t, int64_t *offset) {
    *offset = 0;
    if (!sn_numel(t)) return -1;
    const struct Span here = span_in_memory(t);
    int i = 0;
    while (i < run->n_places && (here.from >= run->places[i].to || run->places[i].from >= here.to)) i++;
    if (i == run->n_places && i < FZ_VALUES) run->places[run->n_places++] = here;
    *offset = here.from - run->places[i].from;
    return i;
}

static void print_list(Text *to, const char *ends, sn_ints list) {
    text_printf(to, "%c", ends[0]);
    for (int64_t d = 0; d < list.n; d++) text_printf(to, "%s%lld", d ? "," : "", (long long)list.data[d]);
    text_printf(to, "%c", ends[1]);
}

/* f32[2,3]{3,1} memory 1+0 grad made: strides as they are, also where no element tells; whose memory; whether it
 * requires gradients, and is no leaf. Not sn_storage_offset: a view of a value that nobody can reach any more has
 * memory of its own, of the view's elements alone, in compiled code, and begins there; eager keeps the whole value. */
static void print_head(FzRun *run, Text *to, sn_tensor *t) {
    int64_t distance;
    const int place = shared_with(run, t, &distance);
    text_puts(to, dtype_name((DType)sn_dtype_of(t)));
    print_list(to, "[]", sn_sizes(t));
    print_list(to, "{}", sn_strides(t));
    text_printf(to, " memory %d+%lld%s%s", place, (long long)distance, sn_requires_grad(t) ? " grad" : "",
                tape_is_leaf(t) ? "" : " made");
}

static void see(FzRun *run, const char *what, int index, sn_tensor *t) {
    FzSeen *seen = run->seen;
    Text head = {0};
    text_printf(&head, "%s %d: ", what, index);
    if (t)
        print_head(run, &head, t);
    else
        text_puts(&head, "none");
    text_puts(&seen->bytes, text_str(&head));
    text_puts(&seen->story, text_str(&head));
    text_free(&head);
    if (t) write_data(run, t);
    text_puts(&seen->bytes, "\n");
    text_puts(&seen->story, "\n");
}

/* An input before the call, with all of its memory, so that it can be made again elsewhere. */
static void see_given(FzRun *run, int i) {
    sn_tensor *const t = run->inputs[i];
    Text *const story = &run->seen->story;
    text_printf(story, "given %d: %s", i, dtype_name((DType)sn_dtype_of(t)));
    print_list(story, "[]", sn_sizes(t));
    print_list(story, "{}", sn_strides(t));
    text_printf(story, "+%lld = ", (long long)t->offset);
    for (size_t k = 0; fz_device == SN_CPU && k < t->storage->bytes; k++)
        text_printf(story, "%02x", ((const uint8_t *)t->storage->data)[k]);
    text_puts(story, "\n");
}

static void see_error(FzRun *run, const char *where) {
    const sn_error *e = sn_error_take();
    run->seen->failed = true;
    text_printf(&run->seen->bytes, "%s: error %d %s %s\n", where, (int)e->status, e->op, e->message);
    text_printf(&run->seen->story, "%s: error %d %s %s\n", where, (int)e->status, e->op, e->message);
}

/* Steps --------------------------------------------------------------------------------------- */

static sn_value value_of(const FzRun *run, const FzArg *a, int64_t *ints, sn_tensor **tensors) {
    sn_value v = {.kind = SN_KIND_NONE};
    switch (a->kind) {
    case FZ_value:
        return sn_val(run->values[a->value]);
    case FZ_int:
        return sn_int(fz_int(run->p, a->i, run->setting));
    case FZ_float:
        return sn_float(a->i.var < 0 ? a->f : a->f * (double)fz_int(run->p, a->i, run->setting));
    case FZ_bool:
        return sn_bool(a->i.value != 0);
    case FZ_string:
        v.kind = SN_KIND_STRING, v.string = a->s;
        return v;
    case FZ_ints:
        for (int i = 0; i < a->n; i++) ints[i] = fz_int(run->p, a->ints[i], run->setting);
        v.kind = SN_KIND_INTS, v.n = a->n, v.ints = ints;
        return v;
    case FZ_values:
        for (int i = 0; i < a->n; i++) tensors[i] = run->values[a->values[i]];
        v.kind = SN_KIND_TENSORS, v.n = a->n, v.tensors = tensors;
        return v;
    default:
        return v;
    }
}

static int64_t span_of(sn_tensor *t) {
    const sn_ints sizes = sn_sizes(t), strides = sn_strides(t);
    int64_t span = 1;
    for (int64_t d = 0; d < sizes.n; d++) span += (sizes.data[d] - 1) * strides.data[d];
    return span;
}

/* What an op leaves unset is anything, also between the elements of memory that empty_strided makes,
 * where as_strided may look. (Elsewhere sizes are not asked for: they may be symbols.) */
static void zero_unset(sn_tensor *t, const char *op) {
    const bool apart = strstr(op, "empty_strided") && !strstr(op, ".out");
    const int64_t span = apart && sn_numel(t) > 0 ? span_of(t) : 0;
    sn_zero_(span && span > sn_numel(t) ? sn_as_strided(t, SN_INTS(span), SN_INTS(1), 0) : t);
}

/* What says where a result is, where nothing does. */
static int place_op(const char *op, sn_value *in, int n) {
    OpForm form;
    const OpRow *const row = op_find(op, strlen(op), &form);
    if (fz_device == SN_CPU || !row || form != FORM_functional || row->device < 0 || row->device >= FZ_ARGS) return n;
    for (; n <= row->device; n++) in[n] = (sn_value){.kind = SN_KIND_DEFAULT};
    in[row->device] = sn_int(fz_device);
    return n;
}

/* What the body was given for it; a backward that runs steps again reads the call's own. */
static bool take_given(const FzRun *run, const FzStep *step, int arg, sn_value *out) {
    const int at = (int)(step - run->p->steps);
    for (int i = 0; run->frame && !run->n_again && i < run->n_given; i++)
        if (run->given[i].step == at && run->given[i].arg == arg) return *out = run->numbers[i], true;
    return false;
}

static void run_op(FzRun *run, const FzStep *step) {
    sn_value in[FZ_ARGS], out[8] = {{0}};
    int64_t ints[FZ_ARGS][FZ_LIST];
    sn_tensor *tensors[FZ_ARGS][FZ_LIST];
    for (int i = 0; i < step->n_args; i++)
        if (!take_given(run, step, i, &in[i])) in[i] = value_of(run, &step->args[i], ints[i], tensors[i]);
    const sn_op *op = sn_op_find(step->op);
    const int n_in = place_op(step->op, in, step->n_args);
    int n = 8;
    if (step->how == FZ_asking) in[1] = sn_float(step->args[1].f + fz_ask(step->query, run->values[step->value]));
    if (step->how == FZ_guarded) in[1] = sn_float(step->args[1].f + fz_guarded(run));
    if (step->how == FZ_of_grad && in[0].tensor && sn_grad(in[0].tensor)) in[0] = sn_val(sn_grad(in[0].tensor));
    if (step->how == FZ_in_eager) {
        run->values[step->out] = in[0].tensor ? fz_call_eager(run, step) : NULL;
        return;
    }
    if (step->how >= FZ_in_cond) {
        sn_tensor *(*const body)(FzHow, sn_tensor *, double) = step->how >= FZ_in_vmap ? fz_func : fz_flow;
        run->values[step->out] = in[0].tensor ? body(step->how, in[0].tensor, step->args[1].f) : NULL;
        return;
    }
    const bool watched = run->watch && !run->n_again;
    if (watched) fz_watch_before(run->watch, op, in, n_in);
    sn_op_call(op, in, n_in, out, &n);
    if (watched) fz_watch_after(run->watch, step, in, n_in, out, n);
    for (int i = 0; i < step->n_out; i++) {
        if (out[i].kind == SN_KIND_INT) out[i] = sn_val(sn_full((sn_ints){0}, out[i], SN_I64)); /* of a user's op */
        run->values[step->out + i] = !sn_check() && i < n && out[i].kind == SN_KIND_TENSOR ? out[i].tensor : NULL;
    }
    if (strstr(step->op, "empty") && run->values[step->out]) zero_unset(run->values[step->out], step->op);
}

/* An item that a failed op leaves without a value is not seen: eager ended at the op; others may be, since code after
 * the op has run [semantics C8]. */
static void see_item(FzRun *run, int value) {
    sn_tensor *t = run->values[value];
    if (!t || sn_numel(t) != 1) return;
    double item = sn_item(t);
    if (sn_check() || run->n_again) return;
    if (isnan(item)) item = 0.125;
    text_printf(&run->seen->items, "item %a\n", item);
    text_printf(&run->seen->story, "item %a\n", item);
}

/* Where to differs from call to call, where it comes from outside. */
static void change_generator(FzRun *run, FzRng change) {
    if (change == FZ_rng_save) run->rng = sn_rng_get();
    if (change == FZ_rng_back) sn_rng_set(run->rng);
    if (change == FZ_rng_jump) sn_rng_set((sn_rng){.seed = run->rng.seed + 1, .sequence = 7});
    if (change == FZ_rng_fork) sn_rng_fork_begin(); /* ends with the body's scope */
}

/* hooks and prints ---------------------------------------------------------------------------- */

static Text printed; /* by the call that runs */
static void take_print(void *context, int level, const char *topic, const char *line) {
    (void)context;
    if (!strcmp(topic, "print")) text_printf(&printed, "print %s\n", line);
}

static void see_printed(FzRun *run) {
    text_puts(&run->seen->bytes, text_str(&printed));
    text_puts(&run->seen->story, text_str(&printed));
    text_free(&printed);
}

static void print_value(const FzRun *run, int value) {
    char label[16];
    snprintf(label, sizeof label, "v%d", value);
    if (run->values[value]) sn_debug_print(label, run->values[value]);
}

static sn_status copies(sn_frame *f) {
    ((FzRun *)sn_closure(f))->n_packed++;
    return sn_out(f, 0, sn_clone(sn_in(f, 0)));
}
static sn_status gives(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }

static sn_status halves(sn_frame *f) {
    ((FzRun *)sn_closure(f))->n_hooked++;
    sn_mul_scalar_(sn_grad(sn_in(f, 0)), sn_float(0.5));
    return SN_OK;
}

static void add_hooks(FzRun *run) {
    run->n_packed = run->n_hooked = 0;
    for (int i = 0; run->p->hooked && i < run->p->n_inputs; i++) {
        sn_tensor *const t = run->p->inputs[i].held ? NULL : run->inputs[i];
        if (!t || !sn_requires_grad(t)) continue;
        sn_grad_node *const made_by = sn_grad_fn(t);
        if (!made_by) sn_post_accumulate_hook_add(t, halves, run);
        sn_grad_node_free(made_by);
    }
    if (run->p->packs) sn_saved_hooks_set(copies, gives, run); /* until the call's scope ends */
}

static void run_step(FzRun *run, const FzStep *step) {
    switch (step->kind) {
    case FZ_op:
        run_op(run, step);
        break;
    case FZ_item:
        see_item(run, step->value);
        break;
    case FZ_break:
        sn_graph_break("fuzz");
        break;
    case FZ_backward:
        if (run->values[step->value] && sn_requires_grad(run->values[step->value]))
            sn_backward(run->values[step->value]);
        break;
    case FZ_grad_mode:
        sn_grad_mode_set((sn_grad_mode)step->times);
        break;
    case FZ_autocast:
        sn_autocast_set(fz_device, fz_autocast(step->times));
        break;
    case FZ_keep:
        if (run->values[step->value] && run->n_kept < FZ_STEPS)
            run->kept[run->n_kept++] = sn_keep(run->values[step->value]);
        break;
    case FZ_print:
        print_value(run, step->value);
        break;
    case FZ_optim_step:
        if (run->optim && !run->scaler) sn_optim_step(run->optim);
        if (run->optim && run->scaler) sn_scaler_step(run->scaler, run->optim), sn_scaler_update(run->scaler);
        break;
    case FZ_rng:
        change_generator(run, (FzRng)step->times);
        break;
    case FZ_checkpoint:
        fz_run_region(run, (int)(step - run->p->steps));
        break;
    case FZ_loop:
        break;
    }
}

void fz_run_steps(FzRun *run, int first, int end) {
    int rounds[FZ_STEPS] = {0};
    for (int i = first; i < end && !sn_check(); i++) {
        const FzStep *const step = &run->p->steps[i];
        run_step(run, step);
        if (step->kind == FZ_loop && ++rounds[i] < step->times) i = step->from - 1;
        if (step->kind == FZ_checkpoint) i += step->times;
    }
}

static sn_status body(sn_frame *f) {
    FzRun *run = sn_closure(f);
    const FzProgram *p = run->p;
    run->n_bodies++;
    run->frame = f;
    memset(run->values, 0, sizeof run->values);
    int n = 0;
    for (int i = 0; i < p->n_inputs; i++) run->values[i] = p->inputs[i].closed ? run->inputs[i] : sn_in(f, n++);
    for (int i = 0; i < run->n_given; i++) run->numbers[i] = sn_in_value(f, n++);
    fz_run_steps(run, 0, p->n_steps);
    for (int i = 0; i < p->n_returns && !sn_check(); i++) {
        sn_tensor *t = run->values[p->returns[i]];
        if (t) sn_out(f, i, t);
    }
    if (p->crowd && !sn_check()) sn_out(f, p->n_returns, fz_crowd_sum(f, n, p->crowd));
    run->frame = NULL;
    return sn_check();
}

/* One call ------------------------------------------------------------------------------------ */

static bool is_repeated(sn_tensor **out, int i) {
    for (int k = 0; k < i; k++)
        if (out[k] == out[i]) return true;
    return false;
}

/* Through a result, what it views is written too; `factor` is a leaf while metadata of held tensors may change. */
static void outer_write(FzRun *run, sn_tensor **out, sn_tensor *factor) {
    for (int i = 0; i < run->p->n_returns && !sn_check(); i++)
        if (out[i] && dtype_is_float((DType)sn_dtype_of(out[i])) && !is_repeated(out, i)) sn_mul_(out[i], factor);
    if (sn_check()) see_error(run, "write");
    for (int i = 0; i < run->p->n_returns; i++) see(run, "written", i, out[i]);
}

static void outer_backward(FzRun *run, sn_tensor **out) {
    for (int i = 0; i < run->p->n_returns && !sn_check(); i++) {
        if (!out[i] || !sn_requires_grad(out[i]) || is_repeated(out, i)) continue;
        sn_tensor *grad = sn_full_like(out[i], sn_float(0.75));
        sn_backward_ex((sn_tensors){&out[i], 1}, (sn_tensors){&grad, 1}, SN_RETAIN_GRAPH);
    }
    if (sn_check()) see_error(run, "backward");
}

static void go_on_outside(FzRun *run, sn_tensor **out) {
    sn_tensor *const factor =
        sn_requires_grad_(sn_full((sn_ints){NULL, 0}, sn_float(1.5), SN_F32), !fz_state_frozen(run));
    if (run->p->outer_write) outer_write(run, out, factor);
    if (run->p->outer_backward) outer_backward(run, out);
    if (run->p->outer_write) see(run, "grad of the factor", 0, sn_grad(factor));
}

/* Apart from the rest, which is the same where no body has kept anything. */
static void see_kept(FzRun *run) {
    const int places = run->n_places;
    const Text bytes = run->seen->bytes;
    run->seen->bytes = (Text){0};
    for (int i = 0; i < run->n_kept; i++) see(run, "kept", i, run->kept[i]);
    run->seen->kept = run->seen->bytes;
    run->seen->bytes = bytes;
    run->n_places = places;
}

/* The plan has a tensor of its own in its place, which its results may be views of. */
static bool stays_apart(const FzRun *run, int i) { return run->apart && run->p->inputs[i].held; }

static void see_all(FzRun *run, sn_tensor **out, bool ok) {
    for (int i = 0; ok && i < run->p->n_returns; i++) see(run, "out", i, out[i]);
    if (ok) see_kept(run);
    if (ok) go_on_outside(run, out);
    for (int i = 0; i < run->p->n_inputs; i++) {
        if (stays_apart(run, i)) continue;
        see(run, "input", i, run->inputs[i]);
        if (run->inputs[i] && run->p->inputs[i].grad) see(run, "grad", i, sn_grad(run->inputs[i]));
    }
    if (fz_device != SN_CPU) sn_device_synchronize(fz_device);
    if (sn_check()) see_error(run, "afterwards");
}

static void see_crowd(FzRun *run, sn_tensor *sum) {
    const unsigned long long hash = fz_crowd_hash(run);
    text_printf(&run->seen->bytes, "crowd %016llx\n", hash);
    text_printf(&run->seen->story, "crowd %016llx\n", hash);
    see(run, "sum of the crowd", 0, sum);
}

static void see_generator(FzSeen *seen) {
    const sn_state *const state = state_get();
    text_printf(&seen->bytes, "generator %llu %llu\n", (unsigned long long)state->seed,
                (unsigned long long)state->sequence);
    text_printf(&seen->story, "generator %llu %llu\n", (unsigned long long)state->seed,
                (unsigned long long)state->sequence);
}

static sn_status passes_on(sn_frame *f) {
    ((FzRun *)sn_closure(f))->n_passed_on++;
    return sn_redispatch(f);
}

/* Tensors, then the numbers that are given: as they are in this call. */
static int arguments_of_call(FzRun *run, sn_value *in) {
    int n = 0;
    for (int i = 0; i < run->p->n_inputs; i++)
        if (!run->p->inputs[i].closed) in[n++] = sn_val(run->inputs[i]);
    run->n_given = fz_given(run->p, run->given);
    for (int i = 0; i < run->n_given; i++) in[n++] = value_of(run, &run->given[i].to, NULL, NULL);
    for (int i = 0; i < run->p->crowd; i++) in[n++] = sn_val(run->crowd[i]);
    return n;
}

static void run_call(FzRun *run, int setting, uint64_t seed, FzSeen *seen) {
    *seen = (FzSeen){.failed = false};
    run->seen = seen;
    run->setting = setting;
    sn_scope scope = sn_scope_begin();
    uint64_t s = seed;
    fz_state_begin(run, seed);
    for (int i = 0; i < run->p->n_inputs; i++)
        if (!run->p->inputs[i].held) run->inputs[i] = fz_make_input(run, i, &s);
    if (sn_check()) see_error(run, "inputs");
    for (int i = 0; run->whole && i < run->p->n_inputs && run->inputs[i]; i++) see_given(run, i);
    sn_seed(seed);
    const uint64_t sequence = state_get()->sequence;
    run->rng = sn_rng_get();
    fz_crowd_make(run, &s);
    sn_value in[FZ_INPUTS + FZ_VARIES + FZ_CROWD];
    sn_tensor *out[FZ_RETURNS + 1] = {NULL};
    const int n = arguments_of_call(run, in);
    sn_logging_set(take_print, NULL, NULL);
    run->n_passed_on = 0;
    add_hooks(run);
    if (run->p->no_grad) sn_grad_mode_set(SN_GRAD_OFF);
    if (run->p->region) sn_autocast_set(fz_device, fz_autocast(run->p->region));
    if (run->p->functional) sn_functional_mode_set(true);
    const bool api_mode = run->p->api_mode && seed % 2 && sn_api_mode_push(passes_on, run) == SN_OK;
    const bool ok = (run->arrays ? fz_call_arrays(run, seed, in, n, out)
                                 : sn_call_values(run->fn, in, n, out, fz_result_count(run->p))) == SN_OK;
    if (api_mode) sn_api_mode_pop();
    if (run->p->functional) sn_functional_mode_set(false);
    if (run->p->region) sn_autocast_set(fz_device, SN_F32);
    if (run->p->no_grad) sn_grad_mode_set(SN_GRAD_ON);
    run->n_places = 0;
    for (int i = 0; i < run->p->n_inputs; i++)
        if (run->inputs[i] && sn_numel(run->inputs[i]) && !stays_apart(run, i))
            run->places[run->n_places++] = span_in_memory(run->inputs[i]);
    seen->call_failed = !ok;
    seen->random = state_get()->sequence != sequence;
    if (sn_check()) see_error(run, "call");
    if (ok && run->p->crowd) see_crowd(run, out[run->p->n_returns]);
    see_all(run, out, ok);
    see_generator(seen);
    see_printed(run);
    text_printf(&seen->bytes, "hooks %d %d\n", run->n_packed, run->n_hooked);
    text_printf(&seen->story, "%d saved tensors packed, %d hooks of gradients run\n", run->n_packed, run->n_hooked);
    if (ok && !run->frozen) { /* a plan has no body whose ops a mode could see */
        text_printf(&seen->bytes, "ops that an API mode saw: %d\n", run->n_passed_on);
        text_printf(&seen->story, "ops that an API mode saw: %d\n", run->n_passed_on);
    }
    for (int i = 0; i < run->n_kept; i++) sn_release(run->kept[i]);
    run->n_kept = 0;
    sn_scope_end(scope);
    if (sn_check()) sn_error_take();
    if (seen->call_failed || (seen->failed && fz_device != SN_CPU)) fz_state_forget(run);
}

void fz_run_call(FzRun *run, int setting, uint64_t seed, FzSeen *seen) {
    const FzProgram *const p = run->p;
    if (p->n_varies) {
        fz_vary(p, seed, &run->varied);
        run->p = &run->varied;
    }
    run_call(run, setting, seed, seen);
    run->p = p;
}

FzRun *fz_run_new(const FzProgram *p, const sn_compile_options *options) {
    FzRun *run = calloc(1, sizeof *run);
    run->p = p;
    run->fn = sn_compile(body, run, options);
    return run;
}

void fz_run_whole(FzRun *run) { run->whole = true; }

void fz_run_watch(FzRun *run, FzWatch *watch) { run->watch = watch; }

void fz_run_arrays(FzRun *run, FzArrays how) {
    run->arrays = how;
    run->no_leaves = true;
}

void fz_run_program(FzRun *run, const FzProgram *p) { run->p = p; }

void fz_run_wait(FzRun *run) { sn_function_wait(run->fn); }

int fz_run_bodies(const FzRun *run) { return run->n_bodies; }

/* What a compile was refused for is said of the segment. */
bool fz_run_refused(const FzRun *run) {
    const char *const text = sn_explain(run->fn);
    return text && strstr(text, "the verifier refused");
}

void fz_run_share(FzRun *run, int64_t *generated, int64_t *all) {
    sn_stats s = {.size = sizeof s};
    sn_function_stats(run->fn, &s);
    *generated = s.ops_generated;
    *all = s.ops_generated + s.ops_interpreted + s.ops_eager;
}

void fz_run_free(FzRun *run) {
    sn_function_free(run->fn);
    fz_state_free(run);
    free(run);
}

void fz_seen_free(FzSeen *seen) {
    text_free(&seen->bytes);
    text_free(&seen->kept);
    text_free(&seen->items);
    text_free(&seen->story);
}
