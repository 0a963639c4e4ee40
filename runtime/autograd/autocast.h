/* autocast.h: the kernel of the key autocast. */
#ifndef SINTER_RUNTIME_AUTOGRAD_AUTOCAST_H
#define SINTER_RUNTIME_AUTOGRAD_AUTOCAST_H

void autocast_start(void); /* registers it */

#endif
