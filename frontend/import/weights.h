/* weights.h: the tensors of a program, in the mapped file. */
#ifndef SINTER_IMPORT_WEIGHTS_H
#define SINTER_IMPORT_WEIGHTS_H
#include <sinter/tensor.h>

#include "frontend/import/model.h"

/* out: by input of the model, of weights the tensor, kept, else NULL; room m->inputs.n, zeroed. What was made stays
 * there where it fails. Two names of one storage and layout are one tensor, those of other layouts views of it. */
Status weights_load(Model *m, Archive *a, sn_tensor **out);

#endif
