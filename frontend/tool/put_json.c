/* put_json.c: what the commands' --json share: a pair of an object, and an object around a text. */
#include <stdio.h>

#include "frontend/tool/tool.h"

void put_json_pair(Text *text, const char *before, const char *key, const char *value) {
    text_printf(text, "%s\"%s\": ", before, key);
    text_json_string(text, value);
}

void put_json_text(const char *command, const char *key, const char *data) {
    Text text = {0};
    put_json_pair(&text, "{", "command", command);
    put_json_pair(&text, ", ", key, data);
    printf("%s}\n", text_str(&text));
    text_free(&text);
}
