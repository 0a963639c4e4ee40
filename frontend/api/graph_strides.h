/* graph_strides.h: graphs whose calls may give other strides than the header says: each op looks at what it gets. */
#ifndef SINTER_FRONTEND_GRAPH_STRIDES_H
#define SINTER_FRONTEND_GRAPH_STRIDES_H
#include <sinter/graph.h>

/* Also for what is compiled of it from now on. */
void graph_accept_strides(sn_graph *g);

#endif
