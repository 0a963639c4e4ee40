/* bail.c: see bail.h. */
#include "runtime/base/bail.h"

#include <stdarg.h>
#include <stdio.h>

char failpoint_names[512];

_Noreturn void bail(Bail *to, BailCode code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(to->message, sizeof to->message, format, args);
    va_end(args);
    to->code = code;
    longjmp(to->exit, 1);
}

const char *bail_name(BailCode code) {
    static const char *const names[BAIL_COUNT] = {"none",
#define X(name, text) #name,
                                                  BAIL_CODES(X)
#undef X
    };
    return names[code];
}

/* What the library asks for. */
static const char *const points[] = {
#define FAILPOINT(name) name,
#include "runtime/base/failpoints.def"
#undef FAILPOINT
};

static bool is_number(const char *text, size_t n) { return n && strspn(text, "0123456789") >= n; }

static bool is_point(const char *name, size_t n, FailpointPass *is_pass) {
    for (int i = 0; i < COUNT_OF(points); i++) {
        const size_t length = strcspn(points[i], "#*");
        const char kind = points[i][length];
        if (n < length || strncmp(name, points[i], length)) continue;
        if (kind == '#' ? is_number(name + length, n - length)
            : kind      ? is_pass(name + length, n - length)
                        : n == length)
            return true;
    }
    return false;
}

const char *failpoint_unknown(const char *names, FailpointPass *is_pass, size_t *n) {
    for (; *names; names += *n + (names[*n] == ',')) {
        *n = strcspn(names, ",");
        if (*n && !is_point(names, *n, is_pass)) return names;
    }
    return NULL;
}

bool failpoint_set(const char *names) {
    failpoint_names[0] = '\0';
    if (!names || !*names) return true;
    if (strlen(names) + 3 > sizeof failpoint_names) return false;
    snprintf(failpoint_names, sizeof failpoint_names, ",%s,", names);
    return true;
}

bool failpoint(const char *name) {
    if (LIKELY(!failpoints_set())) return false;
    char key[128];
    snprintf(key, sizeof key, ",%s,", name);
    return strstr(failpoint_names, key) != NULL;
}
