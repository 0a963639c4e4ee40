/* flow_limits.h: how many operands and results control flow has whose gradients are one op (ops/flow.def); with more,
 * each op of the bodies is on the tape itself. */
#ifndef SINTER_IR_FLOW_LIMITS_H
#define SINTER_IR_FLOW_LIMITS_H
enum { FLOW_OPERANDS = 64, FLOW_RESULTS = 64 };
#endif
