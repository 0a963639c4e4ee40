/* quant_observe.c: quant::observe, the op by which a graph shows values to an observer. Graphs are text, so it names
 * the observer by a number; the table of numbers is the process'. */
#include <pthread.h>
#include <sinter/dispatch.h>

#include "frontend/lib/quantizer.h"
#include "runtime/base/alloc.h"

typedef struct Numbered {
    struct Numbered *next;
    sn_observer *observer;
    int64_t number;
} Numbered;

static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static Numbered *numbered;
static int64_t newest;

int64_t quant_observe_number(sn_observer *o) {
    Numbered *const made = mem_alloc(sizeof *made);
    if (!made) return 0;
    pthread_mutex_lock(&numbers_lock);
    *made = (Numbered){numbered, o, ++newest};
    numbered = made;
    pthread_mutex_unlock(&numbers_lock);
    return made->number;
}

void quant_observe_end(int64_t number) {
    pthread_mutex_lock(&numbers_lock);
    Numbered **at = &numbered, *gone = NULL;
    while (*at && (*at)->number != number) at = &(*at)->next;
    if ((gone = *at)) *at = gone->next;
    pthread_mutex_unlock(&numbers_lock);
    mem_free(gone);
}

static sn_observer *observer_called(int64_t number) {
    pthread_mutex_lock(&numbers_lock);
    const Numbered *at = numbered;
    while (at && at->number != number) at = at->next;
    sn_observer *const found = at ? at->observer : NULL;
    pthread_mutex_unlock(&numbers_lock);
    return found;
}

static sn_status observe_input(sn_frame *f) {
    const int64_t number = sn_in_int(f, 1);
    sn_observer *const o = observer_called(number);
    if (!o)
        return (sn_status)error_raise(ST_STATE, "quant::observe: observer %lld went with its quantizer",
                                      (long long)number);
    return (sn_status)observer_add(o, sn_in(f, 0));
}

static sn_status no_results(sn_frame *f) { return SN_OK; }

Status quant_observe_op(void) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static const sn_op *op;
    pthread_mutex_lock(&once);
    if (!op)
        op = sn_op_register(SN_OP_DESC(.schema = "quant::observe(Tensor x, int observer) -> ()", .flags = SN_OP_ORDERED,
                                       .meta = no_results, .cpu = observe_input, .cuda = observe_input));
    pthread_mutex_unlock(&once);
    return op ? ST_OK : error_pending();
}
