/* samples_foreach.c: samples of ir/ops/foreach.def. Those that write, and steps of optimizers: cases.foreach and
 * unit/test_foreach.c. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_foreach_each = {
    .good = LINES("(p[2,3],p[4])", "(p[],p[0])", "_foreach_acos: (u[2,3],u[4])", "_foreach_asin: (u[2,3],u[4])"),
    .bad = BAD({"()", ST_ARGUMENT, "an element"}),
};
const Samples samples_foreach_list = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[4])", "(x[2,3],x[]) (x[3],x[2])",
                  "_foreach_div.List: (x[2,3],x[4]) (p[2,3],p[4])"),
    .bad = BAD({"(x[2]) (x[2],x[2])", ST_ARGUMENT, "2 elements"}, {"(x[2]) (x[3])", ST_SHAPE, "[3]"}),
};
const Samples samples_foreach_number = {
    .good = LINES("(x[2,3],x[4]) 2", "(x[2,3],x[]) 1.5", "(x[0]) 3"),
    .bad = BAD({"() 2", ST_ARGUMENT, "an element"}),
};
const Samples samples_foreach_numbers = {
    .good = LINES("(x[2,3],x[4]) [2,3]", "(x[0]) [3]"),
    .bad = BAD({"(x[2],x[2]) [2]", ST_ARGUMENT, "1 elements"}),
};
const Samples samples_foreach_tensor = {
    .good = LINES("(x[2,3],x[4]) p[]", "(x[0]) p[]"),
    .bad = BAD({"(x[2],x[2]) x[2]", ST_SHAPE, "[2]"}),
};
const Samples samples_foreach_addc_number = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[4]) (p[2,3],p[4])", "(x[2]) (x[2]) (p[2]) 2"),
    .bad = BAD({"(x[2]) (x[2]) ()", ST_ARGUMENT, "0 elements"}),
};
const Samples samples_foreach_addc_numbers = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[4]) (p[2,3],p[4]) [2,3]"),
    .bad = BAD({"(x[2]) (x[2]) (x[2]) [1,2]", ST_ARGUMENT, "2 elements"}),
};
const Samples samples_foreach_addc_tensor = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[4]) (p[2,3],p[4]) w[2]"),
    .bad = BAD({"(x[2]) (x[2]) (x[2]) x[2]", ST_SHAPE, "[2]"}),
};
const Samples samples_foreach_lerp_list = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[4]) (u[2,3],u[4])"),
    .bad = BAD({"(x[2]) (x[2]) ()", ST_ARGUMENT, "0 elements"}),
};
const Samples samples_foreach_lerp_number = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[4]) 0.25"),
    .bad = BAD({"(x[2]) () 0.25", ST_ARGUMENT, "0 elements"}),
};
const Samples samples_foreach_lerp_numbers = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[4]) [0,2]"),
    .bad = BAD({"(x[2]) (x[2]) [1,2]", ST_ARGUMENT, "2 elements"}),
};
const Samples samples_foreach_pow_list = {
    .good = LINES("(p[2,3],p[4]) (x[2,3],x[4])"),
    .bad = BAD({"(x[2]) (x[2],x[2])", ST_ARGUMENT, "2 elements"}),
};
const Samples samples_foreach_pow_number = {
    .good = LINES("(p[2,3],p[4]) 2", "(p[2]) 0.5"),
    .bad = BAD({"() 2", ST_ARGUMENT, "an element"}),
};
const Samples samples_foreach_pow_numbers = {
    .good = LINES("(p[2,3],p[4]) [2,3]"),
    .bad = BAD({"(x[2],x[2]) [2]", ST_ARGUMENT, "1 elements"}),
};
const Samples samples_foreach_pow_of_number = {
    .good = LINES("2 (p[2,3],p[4])", "0.5 (p[2])"),
    .bad = BAD({"2 ()", ST_ARGUMENT, "an element"}),
};
const Samples samples_foreach_norm = {
    .good = LINES("(x[2,3],x[4])", "(x[2,3],x[]) 1", "(x[2]) inf", "(f32[2]) 2 :f64"),
    .bad = BAD({"(i64[2])", ST_DTYPE, "i64"}),
};
const Samples samples_foreach_mm = {
    .good = LINES("(x[2,3],x[1,2]) (x[3,4],x[2,2])"),
    .bad = BAD({"(x[2,3]) (x[2,3])", ST_SHAPE, "[2, 3]"}),
};
const Samples samples_foreach_copy = {
    .good = LINES("(x[2,3],x[4]) (x[2,3],x[])", "(x[2]) (f32[2])"),
    .bad = BAD({"(x[2]) (x[3])", ST_SHAPE, "[3]"}),
};
const Samples samples_foreach_clone = {
    .good = LINES("(x[2,3],x[4])", "(x[0])"),
    .bad = BAD({"()", ST_ARGUMENT, "an element"}),
};
const Samples samples_foreach_max = {
    .good = LINES("(x[2,3],x[4])", "(x[])"),
    .bad = BAD({"(x[0])", ST_SHAPE, "[0]"}),
};
