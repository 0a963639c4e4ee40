/* memory_picture.h: a snapshot of a device's memory (sn_memory_snapshot) as a picture: size classes, segments with
 * their blocks, who holds what. */
#ifndef SINTER_FRONTEND_MEMORY_PICTURE_H
#define SINTER_FRONTEND_MEMORY_PICTURE_H
#include "runtime/base/json.h"
#include "runtime/base/text.h"

/* An <svg> element, which is a file of its own as well. What the snapshot lacks is left out. */
void memory_picture(const Json *snapshot, Text *svg);

#endif
