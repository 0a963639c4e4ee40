/* plugin.c: plug-ins, and the check macro of those who write them (sinter/plugin.h). */
#include <sinter/plugin.h>

#include <stdio.h>

#include "frontend/api/enter.h"
#include "passes/passes.h"
#include "runtime/base/error.h"
#include "runtime/core/frame.h"
#include "runtime/core/plugin.h"
#include "runtime/core/state.h"

sn_status sn_plugin_load(const char *path) {
    API_ENTER(sn_plugin_load);
    if (error_pending() != ST_OK || entered.refused) return (sn_status)error_pending();
    if (!path) return (sn_status)error_raise(ST_ARGUMENT, "sn_plugin_load: the path is NULL");
    return (sn_status)plugin_load(path);
}

sn_status sn_plugin_build(const char *const *sources, int n) {
    API_ENTER(sn_plugin_build);
    if (error_pending() != ST_OK || entered.refused) return (sn_status)error_pending();
    for (int i = 0; i < n; i++)
        if (!sources || !sources[i])
            return (sn_status)error_raise(ST_ARGUMENT, "sn_plugin_build: source %d is NULL", i);
    return (sn_status)plugin_build(sources, n);
}

sn_status sn_plugin_build_text(const char *name, const char *c, const char *cuda) {
    API_ENTER(sn_plugin_build_text);
    if (error_pending() != ST_OK || entered.refused) return (sn_status)error_pending();
    if (!name || !c)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_plugin_build_text: the %s is NULL", name ? "text" : "name");
    return (sn_status)plugin_build_text(name, c, cuda);
}

sn_status sn_plugin_seal(const char *path) {
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (!path) return (sn_status)error_raise(ST_ARGUMENT, "sn_plugin_seal: the path is NULL");
    return (sn_status)plugin_seal(path);
}

/* SN_REQUIRE ---------------------------------------------------------------------------------- */

static void print_value(Text *text, const Arg *arg) {
    switch (arg->kind) {
    case ARG_tensor:
        if (arg->val)
            meta_print(NULL, text, arg->val->meta);
        else
            text_puts(text, "None");
        break;
    case ARG_int:
        text_printf(text, "%lld", (long long)arg->i);
        break;
    case ARG_float:
        text_printf(text, "%.9g", arg->f);
        break;
    case ARG_bool:
        text_puts(text, arg->i ? "True" : "False");
        break;
    case ARG_string:
        text_printf(text, "'%.80s'", arg->string);
        break;
    case ARG_ints:
        sizes_print(NULL, text, arg->ints, arg->n);
        break;
    case ARG_floats:
    case ARG_tensors:
        text_printf(text, "a list of %d", arg->n);
        break;
    default:
        text_puts(text, "None");
    }
}

/* "; x = f32[3, 4], by = 2" */
static void print_arguments(Text *text, const sn_frame *frame) {
    const OpRow *const row = frame->call ? frame->call->row : frame->deriv ? frame->deriv->row : NULL;
    for (int i = 0; i < frame->n_in; i++) {
        text_puts(text, i ? ", " : "; ");
        if (row && i < row->n_params)
            text_printf(text, "%s = ", row->params[i].name);
        else
            text_printf(text, "argument %d = ", i);
        print_value(text, &frame->in[i]);
    }
}

sn_status sn_require_failed(sn_status status, const char *text, const char *condition, const char *file, int line) {
    if (error_pending() != ST_OK) return (sn_status)error_pending(); /* the condition did not hold because of it */
    if (status <= SN_OK || status > SN_ERR_INTERNAL) status = SN_ERR_CALLBACK;
    const sn_frame *const frame = frame_running(state_get());
    Text values = {0};
    char where[256];
    if (frame) print_arguments(&values, frame);
    error_raise((Status)status, "%.300s (%.200s is false%.400s)", text ? text : "", condition ? condition : "",
                text_str(&values));
    text_free(&values);
    if (frame) error_set_op(frame->what);
    snprintf(where, sizeof where, "%.200s:%d", file ? file : "", line);
    error_set_where(where);
    return status;
}
