/* start.c: the one file that knows every layer. It fills the tables of hooks while the library is loaded, and sets up
 * each module, in a fixed order, before the first thread state is made, so no op runs earlier. */
#include <pthread.h>

#include "runtime/autograd/autocast.h"
#include "runtime/autograd/region.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/metadata_mutation.h"
#include "runtime/core/hooks.h"
#include "runtime/core/tracer.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/device/device.h"
#include "runtime/eager/eager.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/override.h"
#include "runtime/transform/anomaly.h"
#include "runtime/transform/level.h"
#include "runtime/transform/fake_mode.h"
#include "runtime/transform/functional_mode.h"

static void start_all(void) {
    dispatch_start();
    prepare_start();
    tracer_start();
    override_start();
    custom_op_start();
    custom_derivative_start();
    eager_start();
    cpu_start();
    cuda_start();
    tape_start();
    autocast_start();
    level_start();
    fake_mode_start();
    functional_mode_start();
    capture_start();
    metadata_mutation_start();
    region_start();
    anomaly_start();
    flow_start();
}

void runtime_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_all);
}

__attribute__((constructor)) static void fill_hooks(void) {
    runtime_hooks = (RuntimeHooks){
        .runtime_start = runtime_start,

        .flow_launch = flow_launch,
    };
}
