/* saves.c: see saves.h. */
#include "ir/saves.h"

#include <string.h>

#include "runtime/base/error.h"

static int result_index(const char *word, size_t n) {
    if (n >= 6 && !memcmp(word, "result", 6)) return n == 6 ? 0 : word[6] - '0';
    return -1;
}

static int param_index(const OpRow *row, const char *word, size_t n) {
    for (int i = 0; i < row->n_params; i++)
        if (strlen(row->params[i].name) == n && !memcmp(row->params[i].name, word, n)) return i;
    return -1;
}

/* "self/other": one item; returns its end. */
static const char *parse_item(const OpRow *row, const char *at, SaveItem *item) {
    size_t n = strcspn(at, " ,/");
    *item = (SaveItem){.arg = (int16_t)param_index(row, at, n), .result = (int16_t)result_index(at, n)};
    if (item->arg >= 0) item->result = -1;
    at += n;
    while (*at == '/') {
        n = strcspn(++at, " ,/");
        const int arg = param_index(row, at, n);
        if (arg >= 0) item->when |= 1u << arg;
        at += n;
    }
    return at;
}

void saves_parse(const OpRow *row, SaveSpec *plan) {
    for (const char *at = row->saves; at && *at && plan->n < MAX_SAVES;) {
        at += strspn(at, " ,");
        if (!*at) break;
        at = parse_item(row, at, &plan->items[plan->n]);
        const SaveItem *const item = &plan->items[plan->n];
        if (item->arg >= 0 || item->result >= 0) plan->n++;
    }
}

/* "/other/weight": arguments; the table's rows may say so, a user's op saves for all gradients alike. */
static bool names_conditions(const OpRow *row, const char *at, const char *end) {
    while (at < end) {
        const size_t n = strcspn(++at, " ,/");
        if (row->flags & OPF_user || param_index(row, at, n) < 0) return false;
        at += n;
    }
    return true;
}

/* "x", "result", "result1", "x/other": one item whose words are names of arguments or results. */
static bool names_one(const OpRow *row, const char *at, const char *end) {
    SaveItem item;
    const char *const word_end = at + strcspn(at, " ,/");
    if (end == at || parse_item(row, at, &item) != end || !names_conditions(row, word_end, end)) return false;
    return item.arg >= 0 ||
           (word_end - at <= 7 && item.result >= 0 && item.result < (row->returns_list ? MAX_OUTS : row->n_out));
}

Status saves_check(const OpRow *row) {
    const char *at = row->saves + strspn(row->saves, " ");
    int n = 0;
    for (bool more = *at != '\0'; more; n++) {
        const char *const end = at + strcspn(at, " ,");
        if (!names_one(row, at, end) || n == MAX_SAVES)
            return error_raise(ST_ARGUMENT, "%s: saves \"%s\": '%.*s' is no argument or result, or one too many",
                               row->name, row->saves, (int)(end - at), at);
        at = end + strspn(end, " ");
        more = *at != '\0'; /* after a comma there is another in any case */
        if (*at == ',') at += 1 + strspn(at + 1, " ");
    }
    return ST_OK;
}
