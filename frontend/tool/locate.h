/* locate.h: the first op of a graph whose compiled result has other bits than its eager one. */
#ifndef SINTER_TOOL_LOCATE_H
#define SINTER_TOOL_LOCATE_H
#include "frontend/tool/ways.h"

typedef struct Located {
    bool found;
    bool backward;      /* it is an op of the gradients */
    char op[128];       /* "aten::relu" */
    char place[300];    /* of the program's line, "f.sn:3", or "" */
    char text[512];     /* its line in the graph */
    char how[512];      /* what differs: host_values_print */
    char nothing[1024]; /* not found: why */
} Located;

/* call: of those that a way makes (the sizes of its inputs); way: which differs there. Nothing is left pending. */
void locate_difference(const TargetOptions *o, Way way, int call, Located *out);

#endif
