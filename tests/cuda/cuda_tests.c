/* cuda_tests.c: all programs tests/cuda/test_cuda_*.c in one, for the folder of `./dev gpu --pack`, where each would
 * bring the whole library: it runs the one by whose name it was called. PROGRAMS: PROGRAM(test_cuda_ops) and so on. */
#include <stdio.h>
#include <string.h>

#define PROGRAM(name) int name##_main(void);
PROGRAMS
#undef PROGRAM

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(void);
    } programs[] = {
#define PROGRAM(name) {#name, name##_main},
        PROGRAMS
#undef PROGRAM
    };
    const char *const slash = strrchr(argv[0], '/'), *const name = slash ? slash + 1 : argv[0];
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(name, programs[i].name)) return programs[i].run();
    fprintf(stderr, "%s: no such program is in here; call it by the name of one:", name);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) fprintf(stderr, " %s", programs[i].name);
    fputc('\n', stderr);
    return 2;
}
