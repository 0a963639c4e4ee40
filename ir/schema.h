/* schema.h: reads a schema text ("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor") into parameters.
 * The op table does this for its rows once, sn_op_register for a user's; names and strings are copied to `text`. */
#ifndef SINTER_IR_SCHEMA_H
#define SINTER_IR_SCHEMA_H
#include "ir/op.h"
#include "runtime/base/text.h"

typedef struct Schema {
    const char *name_space, *base, *overload; /* "aten" where the text names none; "" */
    int n_params, n_out;
    bool returns_list;
    Param *params; /* room of MAX_ARGS given by the caller */
    Param results[MAX_OUTS];
    char *text; /* room of strlen(schema) + 64 bytes for names and lists, given by the caller */
    size_t text_used;
} Schema;

/* schema->params and text are set; fills the rest. Raises ST_PARSE naming the column. */
Status schema_parse(const char *schema, Schema *out);
/* PyTorch's text of it: what is read prints back to the same bytes. */
void schema_print(Text *text, const Schema *schema);
const char *param_type_name(ParamType type); /* "Tensor?", "int[]" */
bool param_type_optional(ParamType type);
/* Names of small enums that schemas and graph text use; -1 unknown, NULL out of range. */
int memory_format_find(const char *name, size_t n);
const char *memory_format_name(int64_t format);

/* Memory formats as ints: PyTorch's order. */
enum { MF_contiguous, MF_preserve, MF_channels_last, MF_channels_last_3d };
/* Reductions of losses as ints. */
enum { REDUCTION_none, REDUCTION_mean, REDUCTION_sum };
/* What embedding_bag joins the rows of a bag by. */
enum { BAG_sum, BAG_mean, BAG_max };

#endif
