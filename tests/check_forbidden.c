/* check_forbidden.c: what generic code may not ask of an op, and names that have one home. An op's id or name is for
 * its own rules (passes/rules), its kernels and the code that emits it; all other code asks its row for a trait (flags
 * and columns: ir/op.h). Counted in the folders of the library, comments left out:
 *
 *   id      a row compared with an op: ->id == OP_x, case OP_x
 *   op      an op named in a table of a pass or of codegen: [OP_x] = ..., OP_ROW(x)
 *   name    a row's base, name, overload or body compared as text
 *   schema  a schema searched as text: what it says is parsed (Param, OpRow)
 *   passes  a list of passes: a pipeline has a row in passes/passes.def
 *   stage   a stage told by its name: it has an id (ir/stages.def)
 *   setting a setting asked for by ir, kernels, passes or codegen
 *   program a function of the program called where it stands: frame_run and callback_run say whose its calls are
 *   getenv  a variable of the environment: runtime/base/environment.h says which programs read none
 *
 * Where one is broken, what to do instead is said. Usage: check_forbidden ROOT. Exceptions stand in the table, each
 * with its reason; more than it allows is an error, and so is an exception that nothing needs any more. */
#define _XOPEN_SOURCE 700
#include <ctype.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/tree_files.h"

typedef struct Rule {
    const char *name, *pattern;
    const char *own;     /* prefixes of files where it is right, separated by spaces */
    const char *instead; /* what to do, said where it is broken */
    regex_t compiled;
    bool broken;
} Rule;

#define ASK_THE_ROW                                                                                                    \
    "generic code names no op: ask its row for a flag or a column (ir/op.h; a new one is a column of ir/ops.def or a " \
    "row of a table), or write a rule in passes/rules; a peephole is a row of passes/fold.def"

static Rule rules[] = {
    {"id", "(->|\\.)id [!=]= OP_[A-Za-z_]|case OP_[A-Za-z_]+:", "passes/rules/ passes/template_", ASK_THE_ROW},
    {"op", "\\[OP_[a-z_][A-Za-z_]*\\] *=|\\<OP_(ROW|ID)\\(", "ir/ runtime/ frontend/ kernels/ passes/rules/",
     ASK_THE_ROW},
    {"name",
     "(str|mem)n?(case)?cmp\\(.*row->(base|name|overload|body|meta_rule)\\>|"
     "(str|mem)n?cmp\\(.*op_form_name\\(",
     "", ASK_THE_ROW},
    {"schema", "str(str|chr|rchr|pbrk|spn|cspn)\\([^,]*schema\\>", "ir/schema.c ir/op.c",
     "a schema is parsed once: ask Param and OpRow (ir/op.h)"},
    {"passes", "\"[a-z_,]*(functionalize|joint|decompose|fold|cse|dce|partition|reinplace|schedule|lower),[a-z_]",
     "codegen/llvm/", "a list of passes is a pipeline: a row of passes/passes.def"},
    {"stage",
     "(str|mem)n?cmp\\(.*\"(capture|functional|joint|decomposed|fused|forward|backward|loops|shapes|llvm|asm|guards)\"",
     "", "a stage has an id: ir/stages.def"},
    {"setting", "\\<(setting_(number|text|flag)|SET_[a-z_]+)\\>", "runtime/ frontend/",
     "ir, kernels, passes and codegen cannot ask a setting, so that a graph's code depends on what is passed alone: "
     "who "
     "calls them asks, and what they need comes with PassOptions or the options of codegen"},
    {"program", "(->|\\.)[a-z_]+\\([a-z_>.-]*(options|desc|guard|\\<o)(->|\\.)(context|closure)[,)]", "frontend/cases/",
     "a callback runs by frame_run or callback_run (runtime/core/frame.h): in a scope of its own, and its calls have "
     "places of their own"},
    {"getenv", "\\<(secure_)?getenv\\(|\\<environ\\>", "runtime/base/environment.",
     "the environment is read by runtime/base/environment.h: a setting is a row of runtime/core/settings.def"},
};
enum { N_RULES = sizeof rules / sizeof *rules };

typedef struct Exception {
    const char *rule, *file; /* or the folder that it ends with / */
    int most;
    const char *why;
    int found;
} Exception;

static Exception exceptions[] = {
    {"op", "passes/joint.c", 1, "the node of gradients that it appends, which it expands"},
    {"program", "runtime/transform/sharded.c", 1, "what callback_run is given"},
    {"program", "runtime/transform/data_parallel.c", 1, "the same"},
    {"program", "frontend/api/transform.c", 1, "the same"},
    {"program", "runtime/device/device_user.c", 5, "a device's functions may not call the library"},
    {"program", "runtime/core/profile.c", 1, "nor may what sees spans"},
    {"program", "runtime/core/user_guard.c", 1, "nor what reads a guard, which is checked"},
    {"program", "frontend/api/array.c", 1, "nor what has memory for results, which is checked"},
    {"name", "frontend/tool/ops.c", 2, "`sinter ops NAME`: the user asks by name"},
    {"name", "frontend/tool/strides.c", 1, "`sinter strides`: as above"},
    {"name", "frontend/tool/bench", 2, "rows of the benchmarks, no ops"},
};
enum { N_EXCEPTIONS = sizeof exceptions / sizeof *exceptions };

static int problems;

static bool starts(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

static bool is_own(const Rule *rule, const char *path) {
    char list[256];
    snprintf(list, sizeof list, "%s", rule->own);
    for (char *at = strtok(list, " "); at; at = strtok(NULL, " "))
        if (starts(path, at)) return true;
    return false;
}

static Exception *exception_for(const Rule *rule, const char *path) {
    for (int i = 0; i < N_EXCEPTIONS; i++)
        if (!strcmp(exceptions[i].rule, rule->name) && starts(path, exceptions[i].file)) return &exceptions[i];
    return NULL;
}

static void find(Rule *rule, const char *path, int line, const char *text) {
    regmatch_t match;
    for (; !regexec(&rule->compiled, text, 1, &match, 0); text += match.rm_eo) {
        Exception *const exception = exception_for(rule, path);
        if (exception && ++exception->found <= exception->most) continue;
        printf("%s:%d: %s: %.*s\n", path, line, rule->name, (int)(match.rm_eo - match.rm_so), text + match.rm_so);
        rule->broken = true;
        problems++;
    }
}

static void find_all(const char *path, int line, const char *text) {
    for (int i = 0; i < N_RULES; i++)
        if (!is_own(&rules[i], path)) find(&rules[i], path, line, text);
}

static void check_file(const char *root, const char *path) { each_code_line(root, path, find_all); }

int main(int argc, char **argv) {
    static const char *const folders[] = {"ir/", "passes/", "codegen/", "kernels/", "runtime/", "frontend/"};
    if (argc != 2) return fprintf(stderr, "usage: check_forbidden ROOT\n"), 2;
    for (int i = 0; i < N_RULES; i++)
        if (regcomp(&rules[i].compiled, rules[i].pattern, REG_EXTENDED)) return fprintf(stderr, "a bad pattern\n"), 2;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) each_file(argv[1], folders[i], " c h ", check_file);
    for (int i = 0; i < N_EXCEPTIONS; i++) {
        const Exception *const e = &exceptions[i];
        printf("%s in %s: %d (at most %d: %s)\n", e->rule, e->file, e->found, e->most, e->why);
        if (e->found) continue;
        printf("nothing needs this exception\n");
        problems++;
    }
    for (int i = 0; i < N_RULES; i++)
        if (rules[i].broken) printf("%s: %s\n", rules[i].name, rules[i].instead);
    printf("%d problems\n", problems);
    return problems != 0;
}
