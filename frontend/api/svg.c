/* svg.c: see svg.h. */
#include "frontend/api/svg.h"

#include "runtime/base/file.h"

void svg_begin(Text *svg, int64_t width, int64_t height) {
    text_printf(svg,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" font-family=\"sans-serif\" "
                "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                (long long)width, (long long)height);
}

static const char *entity_of(char c) {
    return c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : NULL;
}

void svg_escaped(Text *svg, const char *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *const entity = entity_of(words[i]);
        text_put(svg, entity ? entity : words + i, entity ? strlen(entity) : 1);
    }
}

void svg_words(Text *svg, const char *words) { svg_escaped(svg, words, strlen(words)); }

Status svg_write(const char *path, Text *svg) {
    const Status status = file_write(path, text_str(svg), svg->n);
    text_free(svg);
    return status;
}
