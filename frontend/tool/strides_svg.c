/* strides_svg.c: a view as a picture: its elements as a grid, each with the offset where it lies, and below it the
 * storage, whose elements that the view has are filled. One colour a row of the grid, in both. */
#include "frontend/tool/strides.h"
#include "frontend/api/svg.h"
#include "runtime/base/error.h"

enum { CELL_WIDTH = 40, CELL_HEIGHT = 22, MARGIN = 20, STORAGE_COLUMNS = 16, MOST_CELLS = 4096 };

static const char *const colours[] = {"#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3", "#fdb462", "#b3de69"};

typedef struct StridesPicture {
    const StridesView *view;
    int64_t columns, rows; /* of the grid */
    int64_t elements;      /* of the storage, up to the last one that is drawn */
    int storage_top;
    Text svg;
} StridesPicture;

static void print_cell(StridesPicture *p, int64_t column, int64_t row, int top, const char *fill, int64_t number) {
    const int64_t x = MARGIN + column * CELL_WIDTH, y = top + row * CELL_HEIGHT;
    text_printf(&p->svg, "<rect x=\"%lld\" y=\"%lld\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#666\"/>\n",
                (long long)x, (long long)y, CELL_WIDTH, CELL_HEIGHT, fill);
    text_printf(&p->svg, "<text x=\"%lld\" y=\"%lld\" text-anchor=\"middle\">%lld</text>\n",
                (long long)(x + CELL_WIDTH / 2), (long long)(y + 15), (long long)number);
}

static const char *colour_of(const StridesPicture *p, int64_t element) {
    return colours[element / p->columns % COUNT_OF(colours)];
}

static void print_words(StridesPicture *p, int y, const char *words) {
    text_printf(&p->svg, "<text x=\"%d\" y=\"%d\">", MARGIN, y);
    svg_words(&p->svg, words);
    text_puts(&p->svg, "</text>\n");
}

/* What the view has of it, from its last element on, so that the first one that lies there gives the colour. */
static void print_storage(StridesPicture *p) {
    for (int64_t i = 0; i < p->elements; i++)
        print_cell(p, i % STORAGE_COLUMNS, i / STORAGE_COLUMNS, p->storage_top, "white", i);
    for (int64_t i = p->view->meta->numel - 1; i >= 0; i--) {
        const int64_t offset = strides_offset(p->view, i);
        print_cell(p, offset % STORAGE_COLUMNS, offset / STORAGE_COLUMNS, p->storage_top, colour_of(p, i), offset);
    }
}

static void draw(StridesPicture *p) {
    const int64_t wide = p->columns > STORAGE_COLUMNS ? p->columns : STORAGE_COLUMNS;
    const int64_t storage_rows = (p->elements + STORAGE_COLUMNS - 1) / STORAGE_COLUMNS;
    svg_begin(&p->svg, 2 * MARGIN + wide * CELL_WIDTH, p->storage_top + storage_rows * CELL_HEIGHT + MARGIN);
    print_words(p, MARGIN + 8, p->view->title);
    for (int64_t i = 0; i < p->view->meta->numel; i++)
        print_cell(p, i % p->columns, i / p->columns, 2 * MARGIN, colour_of(p, i), strides_offset(p->view, i));
    print_words(p, p->storage_top - 8, "storage");
    print_storage(p);
    text_puts(&p->svg, "</svg>\n");
}

static int64_t elements_of(const StridesView *view) {
    int64_t last = view->storage - 1;
    for (int64_t i = 0; i < view->meta->numel; i++) {
        const int64_t offset = strides_offset(view, i);
        last = offset > last ? offset : last;
    }
    return last + 1;
}

Status strides_svg(const char *path, const StridesView *view) {
    const Meta *const meta = view->meta;
    if (meta->numel > MOST_CELLS || view->storage > MOST_CELLS)
        return error_raise(ST_ARGUMENT, "%lld elements of %lld, of which at most %d are drawn", (long long)meta->numel,
                           (long long)view->storage, MOST_CELLS);
    StridesPicture p = {.view = view, .columns = meta->rank && meta->numel ? meta->sizes[meta->rank - 1] : 1};
    p.rows = meta->numel / p.columns;
    p.elements = elements_of(view);
    p.storage_top = (int)(4 * MARGIN + p.rows * CELL_HEIGHT);
    if (p.elements > MOST_CELLS)
        return error_raise(ST_ARGUMENT, "offset %lld, up to %d is drawn", (long long)p.elements - 1, MOST_CELLS - 1);
    draw(&p);
    return svg_write(path, &p.svg);
}
