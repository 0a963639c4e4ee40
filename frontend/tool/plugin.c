/* plugin.c: `sinter plugin LIB.so [--seal]`: loads a plug-in and prints the ops that it registers; --seal: writes the
 * checksum of its file into it, without running any of it. `sinter opcheck LIB.so:my::op`: tests one of its ops. */
#include <sinter/plugin.h>
#include <stdio.h>
#include <string.h>

#include "frontend/tool/arguments.h"
#include "frontend/tool/target.h"
#include "runtime/base/error.h"
#include "runtime/core/custom_op.h"

static void print_ops(bool json) {
    const DynamicOp *op;
    Text text = {0};
    const char *before = "";
    for (int i = 0; (op = custom_op_at(i)); i++) {
        if (op->row.flags & OPF_internal) continue;
        text_puts(&text, before);
        if (json)
            text_json_string(&text, op->row.schema);
        else
            text_puts(&text, op->row.schema);
        before = json ? ",\n" : "\n";
    }
    if (json)
        printf("{\"ops\": [%s]}\n", text_str(&text));
    else if (text.n)
        puts(text_str(&text));
    text_free(&text);
}

static int code_of(sn_status status) { return status == SN_ERR_IO ? EXIT_environment : EXIT_wrong; }

int command_plugin(const Command *self, int argc, char **argv) {
    const char *path = NULL;
    bool seal = false, json = false;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_flag(&a, "seal", &seal) || argument_flag(&a, "json", &json) || argument_name(&a, &path)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!path) return usage_error(self, "a file is missing after", self->name);
    const sn_status status = seal ? sn_plugin_seal(path) : sn_plugin_load(path);
    if (status != SN_OK) return report_error(code_of(status));
    if (!seal)
        print_ops(json);
    else if (json)
        put_json_text(self->name, "sealed", path);
    return EXIT_done;
}

/* opcheck ------------------------------------------------------------------------------------- */

/* "lib.so:my::op": the name begins behind the first ".so:". */
static bool split_target(const char *target, char *path, size_t capacity, const char **name) {
    const char *const end = strstr(target, ".so:");
    if (!end || (size_t)(end - target) + 4 > capacity) return false;
    snprintf(path, capacity, "%.*s", (int)(end - target) + 3, target);
    *name = end + 4;
    return true;
}

/* The inputs are its tensors, in order; the numbers have their defaults. */
static int make_sample(const OpRow *row, const Target *inputs, sn_value *in) {
    int at = 0;
    for (int i = 0; i < row->n_params; i++) {
        const bool tensor = row->params[i].type == PT_tensor || row->params[i].type == PT_tensor_opt;
        in[i] = tensor && at < inputs->n_in ? sn_val(inputs->in[at++]) : (sn_value){.kind = SN_KIND_DEFAULT};
    }
    return row->n_params;
}

static int check_op(const char *name, const TargetOptions *o, bool json) {
    Target inputs = {.exit_code = EXIT_usage};
    sn_value in[MAX_ARGS];
    const sn_op *const op = sn_op_find(name);
    if (!op) return report_error(EXIT_wrong);
    sn_seed(1);
    target_inputs(o, &inputs, 8);
    if (sn_check() != SN_OK) return report_error(inputs.exit_code);
    const sn_op_sample sample = {in, make_sample(op_find(sn_op_name(op), strlen(sn_op_name(op)), NULL), &inputs, in)};
    if (sn_op_check(op, inputs.n_in ? &sample : NULL, inputs.n_in ? 1 : 0) != SN_OK) return report_error(EXIT_wrong);
    if (json)
        put_json_text("opcheck", "good", sn_op_name(op));
    else
        printf("%s: good\n", sn_op_name(op));
    return EXIT_done;
}

int command_opcheck(const Command *self, int argc, char **argv) {
    const char *target = NULL, *name, *input;
    char path[4096];
    TargetOptions o = {0};
    bool json = false;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a)) {
        if (argument_text(&a, "input", &input)) {
            if (o.n_inputs == TARGET_INPUTS)
                arguments_refuse_value(&a, "there are too many inputs from here on:");
            else
                o.inputs[o.n_inputs++] = input;
        } else if (!(argument_flag(&a, "json", &json) || argument_name(&a, &target))) {
            arguments_refuse(&a, "unexpected");
        }
    }
    if (a.ended) return a.code;
    if (!target || !split_target(target, path, sizeof path, &name))
        return target ? usage_error(self, "an op is written as LIB.so:my::op, not", target)
                      : usage_error(self, "LIB.so:my::op is missing after", self->name);
    const sn_status status = sn_plugin_load(path);
    if (status != SN_OK) return report_error(code_of(status));
    return check_op(name, &o, json);
}
