/* user_pass.h: passes of the program's own: which there are, in the order in which they were registered. They run in
 * the passes user_captured, user_joint and user_decomposed, each at its stage. */
#ifndef SINTER_PASSES_USER_PASS_H
#define SINTER_PASSES_USER_PASS_H
#include "passes/passes.h"

enum { USER_PASS_TEXT = 65 }; /* bytes of a name, or of a version */

typedef struct UserPass UserPass;
struct UserPass {
    char name[USER_PASS_TEXT], version[USER_PASS_TEXT]; /* version "": none, nothing that it took part in is stored */
    Stage stage;                                        /* capture, joint or decomposed: where it runs */
    /* Edits the graph, or raises. Nothing bails out of it. */
    Status (*run)(const UserPass *pass, Graph *graph);
    void *fn, *closure; /* run's */
    int batch;          /* what it was registered together with; 0: by itself */
};

/* Raises ST_ARGUMENT where the name is taken. Thread-safe, as the others. */
Status user_pass_add(const UserPass *pass);
/* From now on it does not run; its name may be given again. False: there is none. */
bool user_pass_remove(const char *name);

void user_pass_withdraw(int batch); /* all of a batch */

/* Whether there is one; version: its own. */
bool user_pass_version(const char *name, char version[USER_PASS_TEXT]);

#endif
