/* arc4random.c: for LLVM's archives, which name their temporary files by it. glibc has it only since 2.36; with
 * this one, which nothing outside of the module sees (exports.map), the module loads wherever glibc 2.34 is. */
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

uint32_t arc4random(void);

uint32_t arc4random(void) {
    uint32_t word;
    if (getrandom(&word, sizeof word, 0) == (ssize_t)sizeof word) return word;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec << 20;
}
