/* planted.h: the mistake that EMULATED_PLANTED names: see planted.def. */
#ifndef SINTER_TESTS_PLANTED_H
#define SINTER_TESTS_PLANTED_H
#include <stdbool.h>

typedef enum PlantedId {
#define TEXT(name, ...)  PLANTED_##name,
#define FAULT(name, ...) PLANTED_##name,
#include "tests/emulator/planted.def"
    PLANTED_COUNT
} PlantedId;

/* Whether it is to be made here; says once on stderr that it was. */
bool planted(PlantedId id);
/* The text with it; *n is its length. NULL: as it is. The caller frees it. */
char *planted_text(const char *text);

#endif
