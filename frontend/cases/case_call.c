/* case_call.c: from a case's JSON to an op call: inputs with their strides in memory of their own, arguments placed by
 * the op's schema. */
#include <stdlib.h>

#include "frontend/cases/cases.h"
#include "ir/schema.h"
#include "runtime/base/error.h"

static void free_data(void *data, void *context) { free(data); }

static bool json_list(Arena *arena, const Json *list, sn_ints *out) {
    if (!list || list->kind != JSON_list) return false;
    int64_t *items = ARENA_ARRAY(arena, int64_t, list->n ? list->n : 1);
    for (int i = 0; items && i < list->n; i++) items[i] = list->items[i].i;
    *out = (sn_ints){items, list->n};
    return items != NULL;
}

static sn_tensor *in_f64(sn_tensor *t, bool magnitudes) {
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *wide = sn_to(t, SN_F64);
    if (magnitudes) wide = sn_abs(wide);
    sn_grad_mode_set(mode);
    return wide;
}

sn_tensor *case_tensor(const SafeFile *file, const Json *spec, CaseFloats floats) {
    const SafeTensor *span = safetensors_find(file, json_string(json_get(spec, "t")));
    sn_ints sizes, strides;
    if (!span || !span->dtype || !json_list(file->arena, json_get(spec, "size"), &sizes) ||
        !json_list(file->arena, json_get(spec, "stride"), &strides)) {
        error_raise(ST_PARSE, "a tensor of the case is incomplete");
        return NULL;
    }
    void *data = aligned_alloc(64, (span->bytes + 64) / 64 * 64);
    if (!data) return error_raise(ST_MEMORY, "out of memory"), NULL;
    memcpy(data, span->data, span->bytes);
    sn_tensor *t = sn_wrap(SN_BLOB(.data = data, .bytes = span->bytes, .sizes = sizes, .strides = strides,
                                   .dtype = (sn_dtype)span->dtype, .device = SN_CPU, .free = free_data));
    if (!t) return free(data), NULL;
    if (floats && dtype_is_float(span->dtype)) t = in_f64(t, floats == FLOATS_magnitudes);
    const Json *grad = json_get(spec, "requires_grad");
    return grad && grad->i ? sn_requires_grad_(t, true) : t;
}

static Status read_input(CaseCall *call, const Json *spec, sn_tensor **out) {
    if (call->n_inputs == MAX_CASE_INPUTS)
        return error_raise(ST_ARGUMENT, "more than %d tensor inputs", MAX_CASE_INPUTS);
    *out = case_tensor(call->file, spec, call->floats);
    if (!*out) return error_pending();
    call->inputs[call->n_inputs++] = (CaseInput){*out, spec};
    return ST_OK;
}

static double read_float(const Json *value) {
    const char *text = json_string(value);
    return text ? strtod(text, NULL) : value->number;
}

static int device_of(const char *name) {
    return !strcmp(name, "meta") ? DEV_meta : !strncmp(name, "cuda", 4) ? DEV_cuda : DEV_cpu;
}

Status case_number(const Json *spec, sn_value *out) {
    const Json *item = spec->kind == JSON_object && spec->n ? &spec->items[0] : NULL;
    const char *text = item ? json_string(item) : NULL;
    const char *kind = item ? item->key : "";
    if (!strcmp(kind, "i"))
        *out = sn_int(item->i);
    else if (!strcmp(kind, "f"))
        *out = sn_float(read_float(item));
    else if (!strcmp(kind, "b"))
        *out = sn_bool(item->i != 0);
    else if (!strcmp(kind, "s") && text)
        *out = (sn_value){.kind = SN_KIND_STRING, .string = text};
    else if (!strcmp(kind, "dtype") && text)
        *out = sn_int(dtype_find(text, strlen(text)));
    else if (!strcmp(kind, "device") && text)
        *out = sn_int(device_of(text));
    else if (!strcmp(kind, "layout"))
        *out = sn_int(0);
    else if (!strcmp(kind, "memory_format") && text)
        *out = sn_int(memory_format_find(text, strlen(text)));
    else
        return error_raise(ST_PARSE, "an argument of unknown kind '%s'", kind);
    return ST_OK;
}

static bool holds_tensors(const Json *list, ParamType type) {
    for (int i = 0; i < list->n; i++)
        if (json_get(&list->items[i], "t")) return true;
    return type == PT_tensors || type == PT_tensors_opt;
}

static Status read_tensors(CaseCall *call, const Json *list, sn_value *out) {
    sn_tensor **items = ARENA_ARRAY(call->arena, sn_tensor *, list->n ? list->n : 1);
    if (!items) return ST_MEMORY;
    for (int i = 0; i < list->n; i++)
        if (list->items[i].kind != JSON_null) TRY(read_input(call, &list->items[i], &items[i]));
    *out = (sn_value){.kind = SN_KIND_TENSORS, .n = list->n, .tensors = items};
    return ST_OK;
}

/* Lists of numbers: floats if the parameter says so, else ints. */
static Status read_numbers(CaseCall *call, const Json *list, ParamType type, sn_value *out) {
    bool floats = type == PT_floats_opt;
    for (int i = 0; type == PT_scalars && i < list->n; i++)
        floats |= list->items[i].kind == JSON_object && list->items[i].n && !strcmp(list->items[i].items[0].key, "f");
    int64_t *items = ARENA_ARRAY(call->arena, int64_t, list->n ? list->n : 1);
    if (!items) return ST_MEMORY;
    for (int i = 0; i < list->n; i++) {
        sn_value value;
        TRY(case_number(&list->items[i], &value));
        const double number = value.kind == SN_KIND_FLOAT ? value.f : (double)value.i;
        if (floats)
            memcpy(&items[i], &number, sizeof number);
        else if (value.kind == SN_KIND_FLOAT)
            return error_raise(ST_ARGUMENT, "a float where ints are wanted");
        else
            items[i] = value.i;
    }
    *out = (sn_value){.kind = floats ? SN_KIND_FLOATS : SN_KIND_INTS, .n = list->n, .ints = items};
    return ST_OK;
}

static Status read_arg(CaseCall *call, const Json *spec, ParamType type, sn_value *out) {
    if (spec->kind == JSON_null) return *out = (sn_value){.kind = SN_KIND_NONE}, ST_OK;
    if (spec->kind == JSON_list) {
        if (holds_tensors(spec, type)) return read_tensors(call, spec, out);
        return read_numbers(call, spec, type, out);
    }
    const char *device = type == PT_device_opt ? json_string(json_get(spec, "s")) : NULL;
    if (device) return *out = sn_int(device_of(device)), ST_OK;
    if (!json_get(spec, "t")) return case_number(spec, out);
    sn_tensor *tensor = NULL;
    TRY(read_input(call, spec, &tensor));
    *out = type == PT_int ? sn_int(sn_item_int(tensor)) : sn_val(tensor); /* PyTorch reads a 0-dim tensor there */
    return ST_OK;
}

/* Parameters in the order of the form's schema; the tensors that it writes follow. */
static ParamType type_at(const CaseCall *call, int i) {
    if (i >= op_form_params(call->row, call->form)) return PT_tensor;
    return call->row->params[op_form_param(call->row, call->form, i)].type;
}

static int find_param(const CaseCall *call, const char *name) {
    for (int i = 0; i < op_form_params(call->row, call->form); i++)
        if (!strcmp(call->row->params[op_form_param(call->row, call->form, i)].name, name)) return i;
    return -1;
}

Status case_call_make(CaseCall *call, const Json *spec) {
    const Json *args = json_get(spec, "args"), *kwargs = json_get(spec, "kwargs");
    const OpRow *row = call->row;
    const int n_params = op_form_params(row, call->form);
    int n_out = 0;
    call->n_args = n_params + (call->form == FORM_out ? row->n_out : 0);
    for (int i = 0; args && i < args->n; i++) {
        if (i >= call->n_args) return error_raise(ST_ARGUMENT, "%d arguments for %d parameters", args->n, call->n_args);
        TRY(read_arg(call, &args->items[i], type_at(call, i), &call->args[i]));
    }
    for (int i = 0; kwargs && i < kwargs->n; i++) {
        int at = find_param(call, kwargs->items[i].key);
        if (at < 0 && call->form == FORM_out && n_out < row->n_out) at = n_params + n_out++;
        if (at < 0) return error_raise(ST_ARGUMENT, "no argument is called '%s'", kwargs->items[i].key);
        TRY(read_arg(call, &kwargs->items[i], type_at(call, at), &call->args[at]));
    }
    return ST_OK;
}

int case_inputs(const CaseCall *call, sn_tensor **inputs) {
    int n = 0;
    for (int i = 0; i < call->n_args; i++) {
        if (call->args[i].kind == SN_KIND_TENSOR) inputs[n++] = call->args[i].tensor;
        for (int k = 0; call->args[i].kind == SN_KIND_TENSORS && k < call->args[i].n; k++)
            if (call->args[i].tensors[k]) inputs[n++] = call->args[i].tensors[k];
    }
    return n;
}

void case_args_with(const CaseCall *call, sn_tensor *const *tensors, sn_value *args, sn_tensor **lists) {
    int next = 0;
    for (int i = 0, used = 0; i < call->n_args; i++) {
        args[i] = call->args[i];
        if (args[i].kind == SN_KIND_TENSOR) args[i].tensor = tensors[next++];
        if (args[i].kind != SN_KIND_TENSORS) continue;
        for (int k = 0; k < args[i].n; k++) lists[used + k] = args[i].tensors[k] ? tensors[next++] : NULL;
        args[i].tensors = lists + used;
        used += args[i].n;
    }
}
