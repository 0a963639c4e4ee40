/* plan.c: `sinter plan`: prints the file of a saved plan: its first line, the tensors that it holds, then its text
 * (runtime/capture/function/saved.h); or saves what a target compiles as one. `run`, `explain` and `dump` take such a
 * file as a target. */
#include <stdio.h>

#include "frontend/tool/sample.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/core/bundle.h"
#include "runtime/core/safetensors.h"

enum { CALLS = 3 }; /* a number that differs becomes a symbol in the second, whose code the third one runs */

/* Printing ------------------------------------------------------------------------------------ */

static void print_tensor(const SafeTensor *t) {
    printf("tensor %s: %s[", t->name, t->dtype ? dtype_name(t->dtype) : t->dtype_name);
    for (int d = 0; d < t->rank; d++) printf("%s%lld", d ? "," : "", (long long)t->sizes[d]);
    printf("], %zu bytes\n", t->bytes);
}

static void print_tensor_json(const SafeTensor *t, bool first) {
    Text text = {0};
    put_json_pair(&text, first ? "{" : ",\n{", "name", t->name);
    put_json_pair(&text, ", ", "dtype", t->dtype ? dtype_name(t->dtype) : t->dtype_name);
    text_puts(&text, ", \"sizes\": [");
    for (int d = 0; d < t->rank; d++) text_printf(&text, "%s%lld", d ? ", " : "", (long long)t->sizes[d]);
    printf("%s], \"bytes\": %zu}", text_str(&text), t->bytes);
    text_free(&text);
}

static Status print_tensors(const FileSpan *part, bool json) {
    SafeFile *file;
    if (!part->bytes) return ST_OK;
    TRY(safetensors_view(part->at, part->bytes, &file));
    for (int i = 0; i < file->n; i++)
        if (json)
            print_tensor_json(&file->tensors[i], !i);
        else
            print_tensor(&file->tensors[i]);
    safetensors_close(file);
    return ST_OK;
}

static Status print_bundle_json(const Bundle *b) {
    Text text = {0}, line = {0};
    text_put(&line, b->head, strcspn(b->head, "\n"));
    put_json_pair(&text, "{", "content", text_str(&line));
    printf("%s, \"tensors\": [", text_str(&text));
    text_free(&text);
    text_free(&line);
    TRY(print_tensors(&b->parts[BUNDLE_tensors], true));
    put_json_pair(&text, "], ", "text", b->text);
    printf("%s}\n", text_str(&text));
    text_free(&text);
    return ST_OK;
}

static Status print_bundle(const Bundle *b) {
    printf("%.*s\n", (int)strcspn(b->head, "\n"), b->head);
    TRY(print_tensors(&b->parts[BUNDLE_tensors], false));
    fputs(b->text, stdout);
    return ST_OK;
}

static int print_file(const char *path, bool json) {
    Bundle bundle;
    Status status = bundle_open(path, "plan", &bundle);
    if (status == ST_OK) {
        status = json ? print_bundle_json(&bundle) : print_bundle(&bundle);
        if (status == ST_PARSE) error_add_path(path);
        bundle_close(&bundle);
    }
    return status == ST_OK ? EXIT_done : report_error(status == ST_PARSE ? EXIT_wrong : EXIT_environment);
}

/* Saving -------------------------------------------------------------------------------------- */

/* Other inputs at each call: what the function computes from them is then known. */
static void teach(const TargetOptions *o, Target *t, sn_function *fn) {
    sn_tensor *out[TARGET_OUTPUTS];
    for (int i = 0; i < CALLS && !sn_check(); i++) {
        if (i) target_inputs(o, t, o->vary ? DEFAULT_SIZE * (i + 1) : DEFAULT_SIZE);
        if (!sn_check()) target_call(t, fn, out);
    }
}

static int save_target(const Command *self, const TargetOptions *o, const char *path) {
    Target target;
    if (sample_exists(o->name))
        return usage_error(
            self, "a sample saves by its own option (sinter run digits --save FILE), and sinter plan cannot save",
            o->name);
    if (!target_open(o, &target)) return no_such_target(o->name);
    sn_function *const fn = sn_check() ? NULL : target_compile(&target, o, SN_COMPILE_REPLAY);
    if (fn) teach(o, &target, fn);
    if (!sn_check()) target.exit_code = EXIT_wrong;
    if (!sn_check() && sn_plan_save(fn, path, SN_PLAN_OPTIONS(.embed = true)) == SN_ERR_IO)
        target.exit_code = EXIT_environment;
    sn_function_free(fn);
    const int code = sn_check() ? report_error(target.exit_code) : EXIT_done;
    target_close(&target);
    return code;
}

int command_plan(const Command *self, int argc, char **argv) {
    TargetOptions o = {0};
    const char *save = NULL;
    bool json = false;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_text(&a, "save", &save) || argument_flag(&a, "json", &json) || target_argument(&a, &o)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!o.name) return usage_error(self, "a file is missing after", self->name);
    if (!save && o.given) return usage_error(self, "--save must be given with", o.given);
    if (save && o.compile.mode && o.compile.mode != SN_COMPILE_REPLAY)
        return usage_error(self, "a plan is saved in mode replay, not", target_mode_name(o.compile.mode));
    const int code = save ? save_target(self, &o, save) : print_file(o.name, json);
    if (save && json && code == EXIT_done) put_json_text(self->name, "saved", save);
    return code;
}
