/* json.h: a strict reader of JSON text (RFC 8259) into a tree in an arena: for safetensors headers, case files, saved
 * plans. Depth is limited; duplicate keys keep the first; integers that fit are exact. */
#ifndef SINTER_RUNTIME_BASE_JSON_H
#define SINTER_RUNTIME_BASE_JSON_H
#include "runtime/base/arena.h"

typedef enum JsonKind { JSON_null, JSON_bool, JSON_number, JSON_string, JSON_list, JSON_object } JsonKind;
typedef struct Json {
    JsonKind kind;
    bool is_int;        /* numbers: `i` is exact */
    int n;              /* items of a list or object */
    const char *key;    /* of a member of an object */
    const char *string; /* decoded, NUL-terminated; NULs inside are refused */
    int64_t i;          /* bools: 0 or 1 */
    double number;
    const struct Json *items;
} Json;

/* Raises ST_PARSE with the byte offset. */
Status json_parse(Arena *arena, const char *text, size_t n, const Json **out);
const Json *json_get(const Json *object, const char *key); /* NULL when absent, not an object, or without a key */
const char *json_string(const Json *value);                /* NULL unless a string */

#endif
