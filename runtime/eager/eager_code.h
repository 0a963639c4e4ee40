/* eager_code.h: generated code of eager's programs (setting eager_compile). A program runs on the interpreter until it
 * has cost more than EAGER_CODE_NS; then its code is made once by the worker (runtime/core/background.h), from the same
 * cache as that of compiled functions, and calls after that launch it. The bits are the same. */
#ifndef SINTER_RUNTIME_EAGER_CODE_H
#define SINTER_RUNTIME_EAGER_CODE_H
#include "runtime/core/settings.h"
#include "runtime/device/execute.h"

typedef struct EagerCode EagerCode;

/* A program's, of one thread's state. */
typedef struct EagerProgram {
    Executable *run;   /* by the interpreter; NULL: it was let go */
    Executable *coded; /* by generated code; NULL: there is none yet, or none ever */
    EagerCode *code;   /* that was asked for; NULL: nothing was */
    int64_t ns;        /* that it took so far, while nothing was asked for */
    bool has_nests;    /* loop nests of the host: what code can be of */
} EagerProgram;

enum { EAGER_CODE_NS = 20000000 }; /* about what the first code of a process costs another core */

/* After program->run is set. */
void eager_program_look(EagerProgram *program);
/* What runs it now: never its code where the setting says so, whatever it said before. `op` names it in the log. */
Executable *eager_program_ready(EagerProgram *program, const char *op);
/* Whether calls are to be timed: code may be asked for some day. */
static inline bool eager_program_is_timed(const EagerProgram *program) {
    return !program->code && program->has_nests && setting_number(SET_eager_compile) == EAGER_COMPILE_auto;
}
/* Such a call took so long: it may be enough. */
void eager_program_spent(EagerProgram *program, const char *op, int64_t ns);
/* With its code, whose making is withdrawn, or waited for where it has begun. */
void eager_program_free(EagerProgram *program);

typedef struct EagerCodeCounts { /* of the process, for tests: programs whose code */
    int64_t asked, ready, failed;
} EagerCodeCounts;
EagerCodeCounts eager_code_counts(void);
void eager_code_start(void);

#endif
