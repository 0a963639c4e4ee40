/* cpu_attention.c: sn::attention and sn::attention_backward (attention_heads.h). */
#include "runtime/cpu/attention_heads.h"

OpKernel cpu_attention, cpu_attention_backward;

static Status attention_ended(const Attention *a) {
    return a->no_memory ? error_raise(ST_MEMORY, "out of memory for attention's scores") : ST_OK;
}

Status cpu_attention(OpCall *call) {
    Attention a = {0};
    attention_of_call(&a, call);
    attention_forward(&a, call->outs);
    return attention_ended(&a);
}

static const sn_tensor *attention_given(const OpCall *call, const char *name) {
    return tensor_of(call->args[op_param_find(call->row, name)].val);
}

Status cpu_attention_backward(OpCall *call) {
    Attention a = {0};
    attention_of_call(&a, call);
    attention_backward(&a, attention_given(call, "grad_out"), attention_given(call, "max"),
                       attention_given(call, "sum"), call->outs);
    return attention_ended(&a);
}
