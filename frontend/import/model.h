/* model.h: a program as models/model.json has it: what goes in, what comes out and what they are called, sizes and what
 * must hold of them. Its nodes are nodes.h's. All of it lives in one arena. */
#ifndef SINTER_IMPORT_MODEL_H
#define SINTER_IMPORT_MODEL_H
#include "frontend/import/archive.h"
#include "frontend/import/size_expr.h"
#include "ir/device.h"
#include "ir/dtype.h"
#include "ir/meta.h"
#include "runtime/base/json.h"

typedef enum ModelInputKind {
    INPUT_parameter,
    INPUT_buffer,
    INPUT_constant, /* a tensor of the program's own: lifted, or an attribute that is no buffer */
    INPUT_tensor,   /* of the call, as the following */
    INPUT_int,
    INPUT_fixed /* a number or None that the export fixed: no value of the graph */
} ModelInputKind;
static inline bool input_is_weight(ModelInputKind kind) { return kind <= INPUT_constant; }
static inline bool input_is_given(ModelInputKind kind) { return kind == INPUT_tensor || kind == INPUT_int; }

/* What tensor_meta says. sizes and strides: expressions. */
typedef struct ModelType {
    DType dtype;
    Device device;
    int rank;
    const SizeExpr *const *sizes, *const *strides;
} ModelType;

typedef struct ModelInput {
    ModelInputKind kind;
    bool persistent;             /* buffers */
    const char *value;           /* its name among the graph's values; of a fixed one NULL */
    const char *name;            /* "layers.0.weight"; of the call "lst_0" */
    const char *path;            /* "L['lst'][0]"; of weights NULL */
    const Json *fixed;           /* {"as_int": 3} */
    int number;                  /* among what a call gives; -1 */
    ModelType type;              /* of tensors of a call */
    const SizeExpr *number_expr; /* of ints of a call */
} ModelInput;

typedef enum ModelOutputKind { OUTPUT_result, OUTPUT_write, OUTPUT_gradient } ModelOutputKind;
typedef struct ModelOutput {
    ModelOutputKind kind;
    const Json *arg;  /* {"as_tensor": {"name": "add"}} */
    const char *name; /* results: by the tree; writes: the value that is written */
} ModelOutput;

/* What must hold of sizes and ints at each call. */
typedef struct ModelCheck {
    const SizeExpr *holds;
    const char *text; /* as the file has it */
    bool of_values;   /* of numbers that values give: the graph asks it as it runs */
} ModelCheck;

typedef struct Model {
    Arena *arena;
    const Json *root, *graph; /* model.json, and the program's graph */
    bool joint;               /* gradients are among the results: nothing is recorded for more of them */
    SizeSymbols symbols;
    VEC(ModelInput) inputs;
    VEC(ModelOutput) outputs;
    VEC(ModelCheck) checks;
    bool asks_sizes;  /* a check is not in the graph's header */
    int n_given;      /* inputs of a call */
    int n_symbols;    /* that the graph's header has */
    int n_found;      /* sizes that only values say, so far: the symbols behind those */
    const char *name; /* "model" */
} Model;

/* name: of the program in the archive, "model" for torch.export.save's; NULL: that, or the only one. */
Status model_read(Arena *arena, const Archive *a, const char *name, Model *out);
/* tensor_meta of a value of this graph, by name; NULL: there is none. */
const Json *model_meta(const Json *graph, const char *value);

/* Of tensor_meta. Raises for dtypes and layouts that there are none of here; `what` is what it speaks of. */
Status model_type(Model *m, const Json *meta, const char *what, ModelType *out);
/* A size, {as_int} or {as_expr}; NULL raises. */
Status model_size(Model *m, const Json *size, const SizeExpr **out);
DType model_dtype(int64_t code); /* DT_default: there is none here */
Status model_device(const Json *device, Device *out);

#endif
