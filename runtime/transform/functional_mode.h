/* functional_mode.h: the mode in which no op writes memory. */
#ifndef SINTER_RUNTIME_FUNCTIONAL_MODE_H
#define SINTER_RUNTIME_FUNCTIONAL_MODE_H

void functional_mode_start(void);

#endif
