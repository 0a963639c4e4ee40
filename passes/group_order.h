/* group_order.h: an order in which the groups can run, kept while groups are joined and hazards are added, so that
 * asking for a cycle looks only at groups in between (group_order.c). schedule.c and order.c use it. */
#ifndef SINTER_PASSES_GROUP_ORDER_H
#define SINTER_PASSES_GROUP_ORDER_H
#include "passes/lower.h"

/* From groups in program order, one per node. */
void group_order_new(Lower *l);
/* The nodes that compute its operands, views looked through: latest first, each once. */
int node_feeds(const Lower *l, const Node *node, const int **feeds);
/* Groups that read what it computes or come later for another reason (else: the other way round), one for each reason;
 * valid until the next call. */
const Groups *group_neighbours(Lower *l, const Group *group, bool forward);
Group *group_order_first(const Lower *l);                   /* the rest by group->next */
void group_order_insert(Lower *l, Group *at, Group *group); /* a new one, right after `at` */

/* Would one group of both have to run before and after a third one? A yes may also be a search given up. */
bool groups_close_cycle(Lower *l, Group *a, Group *b);
/* Right after groups_close_cycle denied it of these two: `gone` becomes a part of `into`. */
void groups_join(Lower *l, Group *into, Group *gone);

/* A hazard: `group` must come after `before`. */
bool group_can_follow(Lower *l, Group *group, Group *before);
void group_follow(Lower *l, Group *group, Group *before); /* where it can */

#endif
