/* export.h: graphs as .pt2 files, as torch.export.save writes them, for sn_import. */
#ifndef SINTER_TESTS_FUZZ_EXPORT_H
#define SINTER_TESTS_FUZZ_EXPORT_H
#include "ir/graph.h"
#include "tests/fuzz/program.h"

/* zip.c: an archive of stored entries, each aligned to 64 bytes, in one folder. */
typedef struct FzZip {
    Text bytes, directory;
    int n;
} FzZip;
void fz_zip_add(FzZip *zip, const char *name, const void *data, size_t n);
bool fz_zip_save(FzZip *zip, const char *path); /* and frees it */

/* What an input of the graph is in the file. */
typedef enum FzWeight { FZ_no_weight, FZ_parameter, FZ_buffer, FZ_constant } FzWeight;

/* export.c: false: the format has no word for something in the graph; *why says for what. weights: by input, those that
 * lie in the file are `tensors`. */
bool fz_export(const Graph *graph, const FzWeight *weights, sn_tensor *const *tensors, const char *path,
               const char **why);

/* build.c */
sn_tensor *fz_make_argument(const SymEnv *env, const Meta *meta, uint64_t *s);
uint64_t fz_see_tensor(uint64_t hash, sn_tensor *t);
bool fz_draws_unset(const Graph *graph); /* some elements of results are anything */

/* import.c: the graph as a file, imported and called, beside the graph itself: false: they differ; the story says
 * how. */
bool fz_imported(sn_graph *parsed, uint64_t seed, Text *story, FzBuilt *count);

#endif
