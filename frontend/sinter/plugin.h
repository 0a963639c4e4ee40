/* plugin.h: plug-ins: shared libraries that register ops (dispatch.h), and may be newer or older than the program.

       #include <sinter/sinter.h>

       static sn_status twice_cpu(sn_frame *f) {
           SN_REQUIRE(sn_dtype_of(sn_in(f, 0)) == SN_F32, SN_ERR_DTYPE, "x must be f32");
           ...
       }
       SN_PLUGIN { // once, when the plug-in is loaded
           sn_op_register(SN_OP_DESC(.schema = "my::twice(Tensor x) -> Tensor", .cpu = twice_cpu));
           return sn_check();
       }

   A whole one with a Makefile and a kernel in CUDA C is an installed example: examples/plugin. */
#ifndef SINTER_PLUGIN_H
#define SINTER_PLUGIN_H
#include <sinter/dispatch.h>
SN_BEGIN
/* In a body that returns sn_status: where condition does not hold, raises status with text, the condition, the op, the
   values of its arguments and this line, and returns. */
#define SN_REQUIRE(condition, status, text)                                                                            \
    do {                                                                                                               \
        if (!(condition)) return sn_require_failed(status, text, #condition, __FILE__, __LINE__);                      \
    } while (0)
/* What SN_REQUIRE does: "text (condition is false; x = f32[3], by = 2)"; of the innermost body that runs.
   [neutral] */
sn_status sn_require_failed(sn_status status, const char *text, const char *condition, const char *file, int line);

/* What a plug-in says of itself in three symbols, which are looked at in its file before any code of it runs; without
   these headers (those of 0.1) a plug-in may define the first and the last by itself.

   sn_plugin_version: SN_ABI << 24 | SN_VERSION of the headers that it was built with. Of the same ABI and major
   version, and of the same or an earlier minor one, it is loaded; else refused, with both versions.
   sn_plugin_mark (from 0.2 on): where sn_plugin_seal puts a checksum of the file; of a sealed file each changed byte is
   found. Of one that is not sealed only what this library reads is checked: the head, that tables and segments lie
   within the file, the three symbols, the names of the libraries that it needs. The rest is the system's loader's to
   read, which believes a file: damaged relocations, hash tables or code may end the program. Seal what travels.
   sn_plugin_start: runs once, behind the library's constructors, in a scope of its own: modes that it sets and results
   that it makes end with it; sn_keep those that stay. */
#define SN_PLUGIN_VERSION ((uint32_t)SN_ABI << 24 | SN_VERSION)
#define SN_PLUGIN_MARK    "SNSEAL1\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0SNSEAL1"
#ifdef __cplusplus
#define SN_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define SN_PLUGIN_EXPORT extern __attribute__((visibility("default")))
#endif
/* Followed by a body without parameters that returns sn_status. */
#define SN_PLUGIN                                                                                                      \
    SN_PLUGIN_EXPORT sn_status sn_plugin_start(void);                                                                  \
    SN_PLUGIN_EXPORT const uint32_t sn_plugin_version;                                                                 \
    SN_PLUGIN_EXPORT const char sn_plugin_mark[32];                                                                    \
    const uint32_t sn_plugin_version = SN_PLUGIN_VERSION;                                                              \
    const char sn_plugin_mark[32] = SN_PLUGIN_MARK;                                                                    \
    sn_status sn_plugin_start(void)

/* Loads a plug-in, which stays for the process, as its ops do; one that is loaded already is not started again. Where
   it fails no op or override of it is left registered and the program goes on. SN_ERR_IO: no such file, or the system
   refuses it (a symbol that nothing has: its name); SN_ERR_PARSE: no ELF file, cut off, no plug-in, or changed since it
   was sealed; SN_ERR_UNSUPPORTED: another machine, ABI or major version, or a later minor one; else what its start
   raised.
   [refused in bodies] */
sn_status sn_plugin_load(const char *path);
/* Compiles and links the sources by the system's C compiler (setting plugin_compiler, "cc") and loads the result; the
   compiler is started only by this call, without a shell, in a folder of its own, which is removed. Sources: .c files,
   one of which says SN_PLUGIN; a .cu file NAME.cu holds kernels only, whose text the .c files have as
   `extern const char NAME_cu[];`, for sn_cuda_kernel. The headers are those beside the library, or in the folders that
   the setting plugin_include names. SN_ERR_ARGUMENT with the compiler's words; SN_ERR_IO where there is none; else as
   sn_plugin_load. [refused in bodies] */
sn_status sn_plugin_build(const char *const *sources, int n);
/* The same from texts: c is that of NAME.c, which says SN_PLUGIN; cuda that of NAME.cu, or NULL. name: a word of C's,
   by which the compiler's words and errors of the plug-in name their lines. So a string of C, or of C and CUDA C,
   becomes an op that is loaded. Errors as sn_plugin_build's; they name the compiler, which may be one that does not
   fit: that knows no C17, or makes code for another machine. [refused in bodies] */
sn_status sn_plugin_build_text(const char *name, const char *c, const char *cuda);
/* Writes the checksum of a plug-in's file into it, once it is linked, and stripped. Errors as sn_plugin_load's.
   [neutral] */
sn_status sn_plugin_seal(const char *path);

/* The values of one call, in the order of the schema. */
typedef struct sn_op_sample {
    const sn_value *in;
    int n;
} sn_op_sample;
/* Tests an op against what it says, on copies of each sample, on its device (none: f32 tensors of 0 to 4 dims, of which
   the op may refuse 0 and 4, and numbers by its schema): that the call runs; writes no argument, and shares no memory,
   but where the schema says so (found by comparing memory); gives the same bits twice, if it is SN_OP_PURE, and for
   the same values in other places of memory (exchanged strides, gaps, behind others in their storage, channels_last,
   rows that share memory), or refuses these; that its meta rule says what the kernel returns; its derivative and the
   derivative's own against central differences, in f64 where it takes that; that compiled functions, with gradients,
   and sn_vmap have eager's bits, and autocast what the policy says. Gradients are on, autocast off and the stance the
   default while it runs, whatever the caller's are; where an op that is not SN_OP_PURE gives other bits the second
   time, no bits are compared.
   SN_OK, or the first rule that fails: "my::op: meta (sample 1): ...", with the status of what failed or SN_ERR_VALUE.
   [refused in bodies] */
sn_status sn_op_check(const sn_op *op, const sn_op_sample *samples, int n);
SN_END
#endif
