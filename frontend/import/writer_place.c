/* writer_place.c: the user's line in a stack trace as torch.export keeps it:
 *
 *     File "/home/me/net.py", line 13, in forward
 *       return F.relu(self.l(x))
 *     File ".../torch/nn/modules/linear.py", line 134, in forward
 *
 * outermost first. PyTorch's own files, and what it made as it traced ("<eval_with_key>.5"), are nobody's lines. */
#include <stdlib.h>

#include "frontend/import/writer.h"

typedef struct Frame {
    const char *file;
    size_t n;
    long line;
} Frame;

/* The next frame from *at on; false: there is none. */
static bool next_frame(const char **at, Frame *out) {
    static const char head[] = "File \"", middle[] = "\", line ";
    const char *const found = strstr(*at, head), *const file = found ? found + strlen(head) : NULL;
    const char *const end = file ? strstr(file, middle) : NULL;
    if (!end) return false;
    char *behind;
    *out = (Frame){file, (size_t)(end - file), strtol(end + strlen(middle), &behind, 10)};
    *at = behind;
    return true;
}

static bool holds(const Frame *f, const char *word) {
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= f->n; i++)
        if (!memcmp(f->file + i, word, n)) return true;
    return false;
}

static bool is_own(const Frame *f) {
    return f->n && f->file[0] != '<' && !holds(f, "/torch/") && strncmp(f->file, "torch/", 6) && f->line > 0;
}

const char *writer_place(Arena *arena, const Json *node) {
    const char *at = json_string(json_get(json_get(node, "metadata"), "stack_trace"));
    Frame frame, best = {NULL, 0, 0};
    while (at && next_frame(&at, &frame))
        if (is_own(&frame)) best = frame;
    if (!best.file) return NULL;
    size_t from = best.n;
    while (from && best.file[from - 1] != '/' && best.file[from - 1] != '\\') from--;
    return arena_printf(arena, "%.*s:%ld", (int)(best.n - from), best.file + from, best.line);
}
