/* machine_code.h: what a GPU's kernels are compiled to, where NVIDIA's toolkit is: `sinter dump --stage=ptx` and
 * `--stage=sass`. No GPU is asked for: NVRTC makes PTX, or a cubin, which nvdisasm prints. */
#ifndef SINTER_TOOL_MACHINE_CODE_H
#define SINTER_TOOL_MACHINE_CODE_H
#include "runtime/base/text.h"

typedef enum MachineCode { CODE_none, CODE_ptx, CODE_sass } MachineCode;
MachineCode machine_code_stage(const char *stage); /* CODE_none: another stage's name */
/* cuda: the text of stage cuda, whose head lines stay. arch: 90 for sm_90. Raises ST_DEVICE where a part of the toolkit
 * is not there, and says which. */
Status machine_code_print(const char *cuda, MachineCode code, int arch, Text *out);

#endif
