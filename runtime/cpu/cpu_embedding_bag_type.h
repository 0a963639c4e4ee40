/* cpu_embedding_bag_type.h: the chains of one bag. Included once per compute type: TYPE, NAME(word). No guard. */
static void NAME(add_row)(const Bags *b, int64_t i, const TYPE *row, TYPE *sums) {
    const TYPE by = b->by ? ((const TYPE *)b->by)[i] : 1;
    for (int64_t c = 0; c < b->length; c++) {
        const TYPE part = b->by ? row[c] * by : row[c];
        sums[c] += part;
    }
}

/* The first of equal elements stays; what is no number stays where it came first, and else never comes in. */
static void NAME(most_row)(const Bags *b, int64_t bag, int64_t index, const TYPE *row, TYPE *most, bool first) {
    for (int64_t c = 0; c < b->length; c++)
        if (first || row[c] > most[c]) most[c] = row[c], b->from[bag * b->length + c] = index;
}

static void NAME(join)(const Bags *b, int64_t bag, void *buffer) {
    TYPE *const out = (TYPE *)(void *)b->out + bag * b->length;
    int64_t size = 0;
    for (int64_t i = b->offsets[bag]; i < bag_end(b, bag); i++) {
        const int64_t index = b->indices[i];
        if (index == b->padding) continue;
        const TYPE *const row = row_of(b, index, buffer);
        if (b->mode == BAG_max)
            NAME(most_row)(b, bag, index, row, out, size == 0);
        else
            NAME(add_row)(b, i, row, out);
        size++;
    }
    for (int64_t c = 0; c < b->length && b->mode == BAG_mean && size; c++) out[c] /= (TYPE)size;
    if (b->mode != BAG_sum) b->sizes[bag] = size;
}
