/* environment.c: says what a state took from the environment (environment.sh). */
#include <stdio.h>

#include "runtime/base/environment.h"
#include "runtime/core/settings.h"

int main(void) {
    printf("threads %d, foreign %d\n", (int)setting_initial(SET_threads), environment_is_foreign());
    return 0;
}
