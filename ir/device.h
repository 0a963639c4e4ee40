/* device.h: numbers and names of devices. Texts of graphs say the name; the number of a registered device follows the
 * order in which a program registers them.
 *
 *   0 cpu   64 meta   65... registered by the program   256 + i cuda:i
 *
 * None but the CPU's is the number of a dtype, so that a device given as one is an error. */
#ifndef SINTER_IR_DEVICE_H
#define SINTER_IR_DEVICE_H
#include "runtime/base/text.h"

typedef int32_t Device; /* the public sn_device */
enum { DEV_cpu = 0, DEV_meta = 64, DEV_spare = 65, SPARE_DEVICES = 8, DEV_cuda = 256 };
enum { DEV_host = DEV_cpu }; /* whose memory the host reads and writes through pointers */
enum { DEVICE_NAME_MAX = 31 };

static inline bool device_is_host(Device device) { return device == DEV_host; }
static inline bool device_has_memory(Device device) { return device != DEV_meta; }
static inline bool device_is_spare(int64_t device) { return device >= DEV_spare && device < DEV_spare + SPARE_DEVICES; }

/* Whether there is what runs the kernels and native ops of a plan on it; true of the host. The table of devices in
 * runtime/device sets it. */
bool device_has_executor(Device device);
void device_executor_set(Device device);

bool device_exists(int64_t device); /* cpu, meta, any cuda, and what is registered */
/* The name, of cuda:i in room. */
typedef struct DeviceText {
    char buffer[DEVICE_NAME_MAX + 1];
} DeviceText;
const char *device_text(Device device, DeviceText *text);
#define DEVICE_TEXT(device) device_text(device, &(DeviceText){{0}})

/* The device whose name the text begins with; *end behind it. */
bool device_parse(const char *text, const char **end, Device *device);

/* Letters, digits and '_', at most DEVICE_NAME_MAX, no name that there is: the new device's number. Raises; -1. */
Device device_name_add(const char *name);
void device_name_withdraw(Device device); /* its number is given again only if it was the newest */

#endif
