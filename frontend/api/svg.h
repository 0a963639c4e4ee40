/* svg.h: what pictures as SVG files, and pages with them, share. */
#ifndef SINTER_FRONTEND_SVG_H
#define SINTER_FRONTEND_SVG_H
#include "runtime/base/text.h"

/* The head of a file of that size, with a white ground; "</svg>\n" ends it. */
void svg_begin(Text *svg, int64_t width, int64_t height);
/* As the content of an element, or of an attribute in double quotes. */
void svg_escaped(Text *svg, const char *words, size_t n);
void svg_words(Text *svg, const char *words);
/* Writes it and frees it; raises ST_IO. */
Status svg_write(const char *path, Text *svg);

#endif
