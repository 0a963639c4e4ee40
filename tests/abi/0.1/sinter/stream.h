/* stream.h: streams, events, pinned memory: copies and kernels at once, and how long they take.

   A stream is an order: what is begun on it runs one after another, while the program goes on; streams know nothing of
   each other but what events say. Each device has its own stream, where all work goes that no other was asked for:

       sn_stream *side = sn_stream_new(device);
       sn_event *ready = sn_event_new(device);
       sn_scope scope = sn_scope_begin();
       sn_stream_use(side);                                     until the scope ends
       sn_tensor *next = sn_to_device_async(pinned, device);    goes on by itself
       sn_event_record(ready, side);
       ...
       sn_stream_wait(sn_stream_own(device), ready);            what comes now on the device's own waits for the copy
       sn_record_stream(next, sn_stream_own(device));           and next's memory is in use there, too

   What one stream writes another may read after a wait alone. Memory belongs to the stream that was current when it was
   made, and sn_record_stream names others that use it. Reading a tensor (sn_item, sn_read, a copy to the CPU) waits for
   the current stream. A compiled function runs on the current stream; backward runs each op's gradients on the stream
   of that op, and the caller's waits for them. What a kernel finds wrong in values is the error of the call that waits
   for its stream, or for one that has waited for an event behind it; with SINTER_LAUNCH_BLOCKING=1 of the call itself,
   and SINTER_DEVICE_ASSERTS=1 names the line of its op.

   On the CPU, and on a device that the program has registered, work is done when its call returns: the same program
   runs, nothing overlaps, and events take the host's time. */
#ifndef SINTER_STREAM_H
#define SINTER_STREAM_H
#include <sinter/device.h>
SN_BEGIN
typedef struct sn_stream sn_stream;
typedef struct sn_event sn_event;

/* Of that device, yours. [neutral] */
sn_stream *sn_stream_new(sn_device device);
/* What runs on it goes on; the current one can be freed. [neutral] */
void sn_stream_free(sn_stream *stream);
/* The device's own, where work goes until another is used; not to be freed. [neutral] */
sn_stream *sn_stream_own(sn_device device);
/* The calling thread's of that device; not yours. [flush] */
sn_stream *sn_stream_current(sn_device device);
/* -1: it is NULL. [neutral] */
sn_device sn_stream_device(const sn_stream *stream);
/* Makes it its device's current stream until the innermost scope ends, which puts the one before back; streams of other
   devices stay. In a compiled function the ops before it run before it. [event] */
sn_status sn_stream_use(sn_stream *stream);
/* Waits for all that was begun on it; raises what kernels found wrong. [flush] */
sn_status sn_stream_synchronize(sn_stream *stream);
/* Whether all of it is done; waits for nothing. [flush] */
bool sn_stream_query(sn_stream *stream);

/* A mark in a stream's order, with the time when work got there. Of that device; yours. [neutral] */
sn_event *sn_event_new(sn_device device);
/* Waits for it that were asked for stay. [neutral] */
void sn_event_free(sn_event *event);
/* Behind all that was begun on the stream, which must be of the event's device; again: the mark moves. [flush] */
sn_status sn_event_record(sn_event *event, sn_stream *stream);
/* What is begun on the stream from now on waits for the event as it was recorded last; one that never was is passed.
   They may be of different devices. [flush] */
sn_status sn_stream_wait(sn_stream *stream, sn_event *event);
/* Whether work has passed it, or it was never recorded; waits for nothing. [flush] */
bool sn_event_query(sn_event *event);
/* Waits until work has passed it; raises what kernels before it found wrong. [flush] */
sn_status sn_event_synchronize(sn_event *event);
/* Milliseconds from one to the other, of one device, both recorded and passed; else an error and NaN. [flush] */
double sn_event_elapsed(sn_event *from, sn_event *to);

/* x itself where it is pinned already (for SN_CPU: any), else a copy of this CPU tensor in host memory that the device
   reads and writes by itself. Without history. [flush] */
sn_tensor *sn_pin(sn_tensor *x, sn_device device);
/* [flush] */
bool sn_is_pinned(sn_tensor *x);
/* sn_to_device, on the current stream, that does not wait where x is pinned or, for a copy to the CPU, on a GPU: its
   result is pinned then, and the host may read it when an event behind the copy has passed. x may not be written before
   that either. sn_copy_ex_(to, from, true) is the same into a tensor there is. Inside of a compiled function it is
   sn_to_device. [op] */
sn_tensor *sn_to_device_async(sn_tensor *x, sn_device device);
/* x's memory is used by what was begun on the stream until now: where x is given up, it is not given out again before
   that is done. The stream must be of x's device. [flush] */
sn_status sn_record_stream(sn_tensor *x, sn_stream *stream);
SN_END
#endif
