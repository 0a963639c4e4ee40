/* driver.h: the CUDA driver, opened at its first use and never linked. driver.def has one row per function.
 *
 *   const Driver *driver;
 *   TRY(driver_open(&driver));
 *   driver->DeviceGetCount(&n);
 *
 * It is libcuda.so.1, or what SINTER_CUDA_DRIVER names (a path; a name that does not exist: as if there were none). The
 * 12.0 forms of the functions are asked for, which drivers 12 and 13 have. */
#ifndef SINTER_RUNTIME_CUDA_DRIVER_H
#define SINTER_RUNTIME_CUDA_DRIVER_H
#include "runtime/cuda/driver_types.h"
#include "runtime/base/base.h"

enum { DRIVER_OLDEST = 12000 }; /* CUDA 12.0 */

/* CU_out_of_memory... */
typedef enum DriverResult {
#define RESULT(name, theirs, value, fate) CU_##name = value,
#include "runtime/cuda/driver.def"
} DriverResult;
/* CU_multiprocessors... */
enum {
#define CONSTANT(name, theirs, value) CU_##name = value,
#include "runtime/cuda/driver.def"
};

typedef struct Driver {
#define DRIVER(name, since, parameters) CuResult(*name) parameters;
#include "runtime/cuda/driver.def"
    int version; /* 13000: CUDA 13.0 */
    int devices; /* 0 where no GPU is visible */
} Driver;

/* Opens it once; ST_DEVICE with the reason where there is none, each time. */
Status driver_open(const Driver **out);
/* NULL, and *why: what is missing and where to get it. Raises nothing. */
const Driver *driver_find(const char **why);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)" */
typedef struct DriverText {
    char buffer[160];
} DriverText;
const char *driver_text(CuResult result, DriverText *text); /* of a driver that was found */
bool driver_lost(CuResult result);                          /* the context is gone with all that it held */

#endif
