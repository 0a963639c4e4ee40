/* explained.h: what sn_explain must say of a function. */
#ifndef SINTER_TESTS_UNIT_EXPLAINED_H
#define SINTER_TESTS_UNIT_EXPLAINED_H
#include <check.h>
#include <sinter/sinter.h>
#include <string.h>

static inline void expect_explained(sn_function *fn, const char *text) {
    const char *const all = sn_explain(fn);
    ck_assert_msg(strstr(all, text) != NULL, "'%s' is not in: %s", text, all);
}

#endif
