/* isa.c: which of the three instruction sets runs. The CPU is asked once; SINTER_ISA=v2|v3|v4 lowers the level, tests
 * force one. All levels give the same bits, so a wrong choice can only be slow or fault, never differ. */
#include "kernels/levels.h"

#include "runtime/base/environment.h"

static int forced = -1; /* tests, single-threaded */

const char *isa_name(Isa isa) {
    static const char *const names[ISA_COUNT] = {"v2", "v3", "v4"};
    return names[isa];
}

int isa_lanes(Isa isa) { return 4 << isa; }

Isa isa_host(void) {
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    return v4 ? ISA_v4 : v3 ? ISA_v3 : ISA_v2;
}

/* The environment's level, or the host's if it is unset, unknown or higher. */
static Isa choose(void) {
    const Isa host = isa_host();
    const char *const wish = environment("SINTER_ISA");
    for (int isa = 0; wish && isa < (int)host; isa++)
        if (!strcmp(wish, isa_name((Isa)isa))) return (Isa)isa;
    return host;
}

Isa isa_used(void) {
    static int chosen = -1; /* every thread computes the same value */
    if (UNLIKELY(forced >= 0)) return (Isa)forced;
    int isa = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (UNLIKELY(isa < 0)) __atomic_store_n(&chosen, isa = choose(), __ATOMIC_RELAXED);
    return (Isa)isa;
}

void isa_force(int isa) { forced = isa; }

const KernelTable *kernel_table(void) {
    static const KernelTable *const tables[ISA_COUNT] = {&kernel_table_v2, &kernel_table_v3, &kernel_table_v4};
    return tables[isa_used()];
}
