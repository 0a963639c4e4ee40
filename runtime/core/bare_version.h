/* bare_version.h: version counters of tensors without memory: on SN_META and fake ones, which have no storage that
 * could count. Views of such a tensor, and detached handles, share its counter, as they would share a storage.
 *
 * A tensor has one from its first write or view on (TF_versioned); until then its version is 0. */
#ifndef SINTER_RUNTIME_BARE_VERSION_H
#define SINTER_RUNTIME_BARE_VERSION_H
#include "runtime/core/tensor.h"

/* Without memory for good, where another tensor may wait for it. */
bool bare_version_counts(const sn_tensor *t);
/* view counts what base does from here on; of others than such tensors nothing. Raises ST_MEMORY. */
Status bare_version_share(sn_tensor *view, const sn_tensor *base);
void bare_version_bump(sn_tensor *t);       /* where memory is out a write is not counted */
void bare_version_drop(const sn_tensor *t); /* the handle goes; of TF_versioned */

#endif
