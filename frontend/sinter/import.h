/* import.h: programs that PyTorch has exported (torch.export.save): a .pt2 file as a compiled function, without Python.
 *
 *     sn_program *p = sn_import("model.pt2", NULL);
 *     sn_tensor *out[1];
 *     sn_call(sn_program_function(p), &x, 1, out, 1);
 *
 * The file is mapped: parameters and buffers lie in it, what is written stays in memory, and the file as it is. Both
 * kinds of program load: as the user wrote it (torch.export.export), and of core ops (run_decompositions), with the
 * gradients of joint exports as further results. Weights that the file shares are shared. */
#ifndef SINTER_IMPORT_H
#define SINTER_IMPORT_H
#include <sinter/graph.h>
#include <sinter/nn.h>
SN_BEGIN
typedef struct sn_program sn_program;
typedef struct sn_import_options {
    size_t size;
    /* Which program of the file; NULL: "model", which torch.export.save writes, or the only one. */
    const char *model;
    /* Of the function; NULL: defaults. closure_free is not used. */
    const sn_compile_options *compile;
} sn_import_options;
#define SN_IMPORT_OPTIONS(...) SN_STRUCT(sn_import_options, __VA_ARGS__)
/* SN_ERR_IO: the file can't be read. SN_ERR_PARSE: it is damaged. SN_ERR_UNSUPPORTED names what there is none of here:
   an op, with the line of the Python program that called it, another major version of the schema, files of before
   PyTorch 2.8, packages of AOTInductor, pickled or custom objects, compressed entries. options NULL: defaults.
   [refused] */
sn_program *sn_import(const char *path, const sn_import_options *options);
/* Its function, graph and dictionary go, too; tensors of it that are retained keep the file mapped. NULL: nothing.
   [refused in its own function] */
void sn_program_free(sn_program *p);
/* The program: takes the inputs that are not fixed, in order, tensors and ints (sn_call_values); gives the results in
   order, numbers as tensors of no dims, None and texts as NULL (sn_program_out has the text). Buffers that it writes
   keep their values from call to call. Sizes that are fixed, ranges and guards of the export are checked with each
   call, whose error has the file's expression; strides may be others than those of the export. Sizes that values give
   (of nonzero, of x[mask], of an integer's item) are found as the call goes, and what the program asserts of them is
   asked then. Borrowed. [neutral] */
sn_function *sn_program_function(sn_program *p);
/* The same with other options, yours: freed before p. closure_free is not used. [refused] */
sn_function *sn_program_compile(sn_program *p, const sn_compile_options *options);
/* Its graph, to look at, edit and compile with other options (sn_graph_compile): parameters and buffers are bound, its
   inputs are those of a call, its header has the ranges and guards of the export. Borrowed. [neutral] */
sn_graph *sn_program_graph(sn_program *p);
/* Parameters and buffers by their full names, as state_dict() has them, with those buffers that are not persistent;
   they require gradients as in the file. Tied ones are one tensor. Borrowed. [neutral] */
sn_dict *sn_program_dict(sn_program *p);

/* One input of the exported program. */
typedef struct sn_program_input {
    size_t size;
    /* "x", "lst_0", "d_q" */
    const char *name;
    /* "f32[s77,4]", "int"; of a fixed one its value: "3", "None" */
    const char *type;
    /* The export fixed its value: the function does not take it. */
    bool fixed;
    /* Of one that is a tensor and not fixed. */
    sn_dtype dtype;
    int32_t rank;
    /* -1: it may differ from call to call. */
    const int64_t *sizes;
    /* What they were in the export. */
    const int64_t *hints;
} sn_program_input;
/* Fixed ones among them. [neutral] */
int sn_program_in_count(sn_program *p);
/* Of input i from 0; texts and lists live as long as p. Set out->size first. [neutral] */
sn_status sn_program_in(sn_program *p, int i, sn_program_input *out);
/* [neutral] */
int sn_program_out_count(sn_program *p);
/* Of result i from 0, by the tree of results: "last_hidden_state", "z.1"; without keys "0", "1". Gradients of a joint
   export are "layer.weight.grad". [neutral] */
const char *sn_program_out_name(sn_program *p, int i);
/* One result of the exported program. */
typedef struct sn_program_output {
    size_t size;
    const char *name;
    /* "f32[s77,4]", "int" (of sizes); of a fixed one its value: "3", "True", "None", "'mean'" */
    const char *type;
    /* The same in each call. A number is given as a tensor all the same; None and a text are NULL. */
    bool fixed;
} sn_program_output;
/* Of result i from 0; texts live as long as p. Set out->size first. [neutral] */
sn_status sn_program_out(sn_program *p, int i, sn_program_output *out);
SN_END
#endif
