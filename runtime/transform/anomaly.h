/* anomaly.h: the mode that looks at each result for a NaN. */
#ifndef SINTER_RUNTIME_ANOMALY_H
#define SINTER_RUNTIME_ANOMALY_H

void anomaly_start(void);

#endif
