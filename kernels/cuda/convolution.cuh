/* convolution.cuh: convolutions and their gradients [B2.4], all of the form of CudaConvolution (planes.h): chains over
 * places, padding left out, cut where the place's number passes a multiple of 4,096; +0 is added at the end, then bias.
 *
 *   convolve_each   a thread has one element: few rows a group (depthwise), or few places
 *   convolve_tiles  a product of matrices whose right operand is never whole: a block of 256 threads has 64 rows x 64
 *                   columns, a thread 4 x 4 of them; 16 places at a time are in shared memory, padding among them as 0.
 *                   fma(w, 0, sum) is sum but for the sign of a 0, which +0 ends, and for a w that is not finite: then
 *                   padding is left out
 *   convolve_join   adds chunks that had blocks of their own, in order
 *
 * The transposed form goes by phases: positions of the result that leave the same rest by the stride have the same
 * kernel positions, so a tile has columns of one phase. */
enum { CONV_TILE = 64, CONV_PLACES = 16, CONV_CHUNK = 4096 };

/* One dim of a phase: column x and place u read the source at x * by_column + u * by_place + start. Columns are every
 * column_step-th from column on, places likewise. */
struct ConvAxis {
    int64_t column, column_step, columns, place, place_step, places;
    int64_t by_column, by_place, start;
};

/* The axis of columns column, column + column_step...; of all of them where there is no stride. */
INLINE ConvAxis conv_axis(const CudaConvolution &g, int d, int64_t column, int64_t column_step) {
    ConvAxis a;
    a.column = column, a.column_step = column_step;
    a.columns = (g.columns[d] - column + column_step - 1) / column_step;
    a.place = 0, a.place_step = 1, a.places = g.places[d];
    a.by_column = g.by_column[d] * column_step, a.by_place = g.by_place[d];
    a.start = g.start[d] + column * g.by_column[d];
    if (!g.stride[d]) return a;
    const int64_t from = column + g.padding[d];
    const int64_t rests = least_of(g.place_step[d], g.places[d]);
    while (a.place < rests && (from - a.place * g.dilation[d]) % g.stride[d]) a.place++;
    a.place_step = g.place_step[d];
    a.places = a.place < rests ? (g.places[d] - a.place + a.place_step - 1) / a.place_step : 0;
    a.by_column = column_step / g.stride[d];
    a.by_place = -(a.place_step * g.dilation[d] / g.stride[d]);
    a.start = (from - a.place * g.dilation[d]) / g.stride[d];
    return a;
}

/* Place number r of those that the axes leave. */
struct ConvPlace {
    int64_t outer, u[3];
};
INLINE ConvPlace conv_place(int64_t r, const ConvAxis *axis) {
    ConvPlace p;
#pragma unroll
    for (int d = 2; d >= 0; d--) p.u[d] = remainder_of(&r, axis[d].places);
    p.outer = r;
    return p;
}
INLINE int64_t place_number(const CudaConvolution &g, const ConvPlace &p, const ConvAxis *axis) {
    int64_t number = p.outer;
#pragma unroll
    for (int d = 0; d < 3; d++) number = number * g.places[d] + axis[d].place + p.u[d] * axis[d].place_step;
    return number;
}
INLINE int64_t left_at(const CudaConvolution &g, const ConvPlace &p, const ConvAxis *axis) {
    int64_t at = p.outer * g.left_outer;
#pragma unroll
    for (int d = 0; d < 3; d++) at += (axis[d].place + p.u[d] * axis[d].place_step) * g.left[d];
    return at;
}
INLINE int64_t all_columns(const CudaConvolution &g) {
    return g.outer_columns * g.columns[0] * g.columns[1] * g.columns[2];
}
INLINE int64_t axes_places(const CudaConvolution &g, const ConvAxis *axis) {
    return g.outer_places * axis[0].places * axis[1].places * axis[2].places;
}

INLINE void conv_store(const CudaConvolution &g, Element *to, const Element *bias, int64_t group, int64_t row,
                       int64_t at, Number sum) {
    Number more = 0;
    if (bias) more = add_numbers(read_element(bias, (group * g.rows + row) * g.bias), more);
    write_element(to, group * g.to_group + row * g.to_row + at, add_numbers(sum, more));
}

/* The chain from place r to before `end`. */
INLINE Number conv_chain(const CudaConvolution &g, const Element *left, const Element *source, const ConvAxis *axis,
                         int64_t r, int64_t end) {
    Number sum = 0, total = 0;
    int64_t limit = 0;
    ConvPlace p = conv_place(r, axis);
#pragma unroll 1
    for (; r < end; r++) {
        const int64_t number = place_number(g, p, axis);
        if (number >= limit) total = add_numbers(total, sum), sum = 0, limit = (number / CONV_CHUNK + 1) * CONV_CHUNK;
        int64_t at = p.outer * g.source_place;
        bool inside = true;
#pragma unroll
        for (int d = 0; d < 3; d++) {
            const int64_t z = axis[d].start + p.u[d] * axis[d].by_place;
            inside &= (uint64_t)z < (uint64_t)g.size[d];
            at += z * g.source[d];
        }
        if (inside) sum = chain_numbers(read_element(left, left_at(g, p, axis)), read_element(source, at), sum);
        if (++p.u[2] < axis[2].places) continue;
        p.u[2] = 0;
        if (++p.u[1] < axis[1].places) continue;
        p.u[1] = 0;
        if (++p.u[0] < axis[0].places) continue;
        p.u[0] = 0, p.outer++;
    }
    return add_numbers(total, sum);
}

KERNEL convolve_each(const Element *left, const Element *source, const Element *bias, Element *to, Number *workspace,
                     CudaConvolution g, const Failed *failed) {
    const int64_t columns = all_columns(g), each = g.groups * g.rows * columns, t = thread_number();
    const int64_t chunks = g.n_chunks ? g.n_chunks : 1;
    if (t >= each * chunks || failed->launch >= 0) return;
    int64_t w = t, column[3];
#pragma unroll
    for (int d = 2; d >= 0; d--) column[d] = remainder_of(&w, g.columns[d]);
    const int64_t outer = remainder_of(&w, g.outer_columns), row = remainder_of(&w, g.rows);
    const int64_t group = remainder_of(&w, g.groups);
    ConvAxis axis[3];
    int64_t at = outer * g.to_outer;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        axis[d] = conv_axis(g, d, column[d], g.stride[d] ? g.stride[d] : 1);
        at += column[d] * g.to[d];
    }
    left += group * g.left_group + row * g.left_row;
    source += group * g.source_group + outer * g.source_column;
    const int64_t all = axes_places(g, axis), first = g.n_chunks ? (g.first_chunk + w) * CONV_CHUNK : 0;
    const int64_t end = g.n_chunks ? least_of(all, first + CONV_CHUNK) : all;
    const Number sum = first < end ? conv_chain(g, left, source, axis, first, end) : 0;
    if (g.n_chunks)
        workspace[t] = sum;
    else
        conv_store(g, to, bias, group, row, at, sum);
}

/* Workspace has the chunks' sums, [chunk][group][row][column], before them what earlier launches made of it. */
KERNEL convolve_join(Element *to, Number *before, const Number *workspace, CudaConvolution g, int is_last,
                     const Failed *failed) {
    const int64_t columns = all_columns(g), each = g.groups * g.rows * columns, t = thread_number();
    if (t >= each || failed->launch >= 0) return;
    Number sum = g.first_chunk ? before[t] : 0;
#pragma unroll 1
    for (int64_t c = 0; c < g.n_chunks; c++) sum = add_numbers(sum, workspace[c * each + t]);
    if (!is_last) {
        before[t] = sum;
        return;
    }
    int64_t w = t, at = 0;
#pragma unroll
    for (int d = 2; d >= 0; d--) at += remainder_of(&w, g.columns[d]) * g.to[d];
    at += remainder_of(&w, g.outer_columns) * g.to_outer;
    const int64_t row = remainder_of(&w, g.rows);
    conv_store(g, to, 0, w, row, at, sum);
}

/* tiles ----------------------------------------------------------------------------------------- */

/* Sizes and coordinates are below 2^30 here, columns and places below 2^31: the host sees to it. */
INLINE unsigned digit_of(unsigned *w, unsigned n) {
    const unsigned a = *w;
    *w = a / n;
    return a - *w * n;
}

/* A place of a slice: what it adds to addresses and to the source's coordinates. */
struct ConvEntry {
    int64_t left, source;
    int z[3], chunk;
};
INLINE void conv_entry(const CudaConvolution &g, const ConvAxis *axis, unsigned r, ConvEntry *e) {
    ConvPlace p;
#pragma unroll
    for (int d = 2; d >= 0; d--) p.u[d] = digit_of(&r, (unsigned)axis[d].places);
    p.outer = r;
    int64_t at = p.outer * g.source_place;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        e->z[d] = (int)(p.u[d] * axis[d].by_place);
        at += p.u[d] * axis[d].by_place * g.source[d];
    }
    e->left = left_at(g, p, axis), e->source = at;
    e->chunk = (int)(place_number(g, p, axis) / CONV_CHUNK);
}

/* A column of a phase: where it begins in the source and lies in the result. */
struct ConvColumn {
    int64_t source, to;
    int z[3];
    bool is_there;
};
INLINE ConvColumn conv_column(const CudaConvolution &g, const ConvAxis *axis, unsigned x) {
    ConvColumn c;
    c.source = c.to = 0;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        const int64_t at = digit_of(&x, (unsigned)axis[d].columns), z = at * axis[d].by_column + axis[d].start;
        c.z[d] = (int)z;
        c.source += z * g.source[d];
        c.to += (axis[d].column + at * axis[d].column_step) * g.to[d];
    }
    c.is_there = x < g.outer_columns;
    c.source += x * g.source_column, c.to += x * g.to_outer;
    return c;
}
INLINE bool is_inside(const CudaConvolution &g, const ConvColumn &c, const ConvEntry &e) {
    bool inside = c.is_there;
#pragma unroll
    for (int d = 0; d < 3; d++) inside &= (unsigned)(c.z[d] + e.z[d]) < (unsigned)g.size[d];
    return inside;
}

INLINE void chain_tile(const Number *x, const Number *y, Number (&sum)[4][4]) {
    Number a[4], b[4];
#pragma unroll
    for (int u = 0; u < 4; u++) a[u] = x[u], b[u] = y[u];
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int v = 0; v < 4; v++) sum[u][v] = chain_numbers(a[u], b[v], sum[u][v]);
}
/* The same of columns that are inside. */
INLINE void left_out_tile(const Number *x, const Number *y, const unsigned char *inside, Number (&sum)[4][4]) {
#pragma unroll
    for (int v = 0; v < 4; v++) {
        if (!inside[v]) continue;
#pragma unroll
        for (int u = 0; u < 4; u++) sum[u][v] = chain_numbers(x[u], y[v], sum[u][v]);
    }
}
/* What was summed of a chunk is added, and the next one begins. */
INLINE void add_tile(Number (&total)[4][4], Number (&sum)[4][4]) {
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int v = 0; v < 4; v++) total[u][v] = add_numbers(total[u][v], sum[u][v]), sum[u][v] = 0;
}

INLINE void store_tile(Number *to, int64_t row, int rows, int width, const Number (&total)[4][4]) {
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int v = 0; v < 4; v++)
            if (u < rows && v < width) to[u * row + v] = total[u][v];
}

KERNEL __launch_bounds__(256) convolve_tiles(const Element *left, const Element *source, const Element *bias,
                                             Element *to, Number *workspace, CudaConvolution g, const Failed *failed) {
    __shared__ Number lefts[CONV_PLACES][CONV_TILE + 4], sources[CONV_PLACES][CONV_TILE + 4];
    __shared__ unsigned char insides[CONV_PLACES][CONV_TILE];
    __shared__ ConvEntry entries[2][CONV_PLACES];
    __shared__ ConvAxis axis[3];
    const int t = threadIdx.x, ti = t / 16 * 4, tj = t % 16 * 4, mine = t % CONV_TILE;
    int64_t w = blockIdx.x;
    const int64_t j0 = CONV_TILE * remainder_of(&w, g.column_tiles), i0 = CONV_TILE * remainder_of(&w, g.row_tiles);
    if (__syncthreads_or(failed->launch >= 0)) return;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        const int64_t phases = g.stride[d] ? least_of(g.stride[d], g.columns[d]) : 1, phase = remainder_of(&w, phases);
        if (t == d) axis[d] = conv_axis(g, d, phase, g.stride[d] ? g.stride[d] : 1);
    }
    const int64_t group = remainder_of(&w, g.groups);
    __syncthreads();
    const int64_t columns = g.outer_columns * axis[0].columns * axis[1].columns * axis[2].columns;
    if (j0 >= columns) return;
    const int64_t all = axes_places(g, axis), first = g.n_chunks ? (g.first_chunk + w) * CONV_CHUNK : 0;
    const int64_t end = g.n_chunks ? least_of(all, first + CONV_CHUNK) : all;
    const ConvColumn column = conv_column(g, axis, (unsigned)j0 + mine);
    left += group * g.left_group, source += group * g.source_group + column.source;
    Number sum[4][4], total[4][4];
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int v = 0; v < 4; v++) sum[u][v] = total[u][v] = 0;
    if (t < CONV_PLACES && first + t < end) conv_entry(g, axis, (unsigned)first + t, &entries[0][t]);
    __syncthreads();
    int chunk = first < end ? entries[0][0].chunk : 0;
#pragma unroll 1
    for (int64_t r = first; r < end; r += CONV_PLACES) {
        const ConvEntry *const slice = entries[(r - first) / CONV_PLACES % 2];
        const int n = (int)least_of(CONV_PLACES, end - r);
        bool odd = false;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = t / 16 + 16 * e, q = t % 16;
            Number x = 0;
            if (i0 + i < g.rows && q < n) x = read_element(left, (i0 + i) * g.left_row + slice[q].left);
            odd |= !(x - x == 0);
            lefts[q][i] = x;
            const int k = t / CONV_TILE + 4 * e;
            const bool inside = k < n && is_inside(g, column, slice[k]);
            insides[k][mine] = inside;
            sources[k][mine] = inside ? read_element(source, slice[k].source) : (Number)0;
        }
        const int64_t next = r + CONV_PLACES + t;
        if (t < CONV_PLACES && next < end)
            conv_entry(g, axis, (unsigned)next, &entries[((r - first) / CONV_PLACES + 1) % 2][t]);
        if (__syncthreads_or(odd) || slice[n - 1].chunk != chunk) {
#pragma unroll 1
            for (int q = 0; q < n; q++) {
                if (slice[q].chunk != chunk) add_tile(total, sum), chunk = slice[q].chunk;
                left_out_tile(&lefts[q][ti], &sources[q][tj], &insides[q][tj], sum);
            }
        } else {
#pragma unroll 4
            for (int q = 0; q < n; q++) chain_tile(&lefts[q][ti], &sources[q][tj], sum);
        }
        __syncthreads();
    }
    add_tile(total, sum);
    const int rows = quad_of(g.rows - i0 - ti), width = quad_of(columns - j0 - tj);
    int64_t at[4];
    if (g.n_chunks) {
        workspace += ((w * g.groups + group) * g.rows + i0 + ti) * columns + j0 + tj;
        store_tile(workspace, columns, rows, width, total);
        return;
    }
#pragma unroll
    for (int v = 0; v < 4; v++) at[v] = conv_column(g, axis, (unsigned)j0 + tj + v).to;
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int v = 0; v < 4; v++)
            if (u < rows && v < width) conv_store(g, to, bias, group, i0 + ti + u, at[v], total[u][v]);
}
