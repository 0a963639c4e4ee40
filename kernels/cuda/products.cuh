/* products.cuh: elements from one place to another, for a library's products: operands to where their rows lie by 16
 * bytes, with zeros up to the sizes there; a result to where others see it. */
KERNEL move_product(const Element *from, Element *to, CudaMove m, int visible, const Failed *failed) {
    int64_t row = thread_number();
    if (visible && failed->launch >= 0) return;
    const int64_t column = remainder_of(&row, m.columns);
    int64_t batch = row;
    row = remainder_of(&batch, m.rows);
    if (batch >= m.batches) return;
    Element x = WORDS(to_, DTYPE)(0);
    if (row < m.from_rows && column < m.from_columns)
        x = from[batch * m.from_batch + row * m.from_row + column * m.from_column];
    to[batch * m.to_batch + row * m.to_row + column * m.to_column] = x;
}
