/* explain.c: see explain.h. Everything printed comes from the function's own tables, under its
 * lock. */
#include "runtime/explain.h"

#include "runtime/base/alloc.h"
#include "runtime/training.h"

static double ms(int64_t ns) { return (double)ns * 1e-6; }

double explain_share(const sn_stats *s) {
    const int64_t all = s->ops_generated + s->ops_interpreted + s->ops_eager;
    return all ? (double)s->ops_generated / (double)all : 0.0;
}

/* Text
 * ---------------------------------------------------------------------------------------------------------
 */

static void graph_text(const Variant *v, Text *text) {
    const CompileInfo *const info = &v->info;
    text_printf(text, "graph %d: %d ops -> %d kernels%s%s, hit %lld times\n", v->id, v->n_ops,
                info->kernels, v->dynamic ? ", symbolic sizes" : "",
                info->interpreted ? ", interpreted" : "", (long long)atomic_load(&v->hits));
    if (info->interpreted)
        text_printf(text, "  no generated code: %s: %s\n", bail_name(info->failure), info->reason);
    text_printf(text,
                "  trace %.2f ms, passes %.2f, lower %.2f, codegen %.2f, load %.2f; %d nests, %d "
                "generated, %d reused\n",
                ms(v->trace_ns), ms(info->passes_ns), ms(info->lower_ns), ms(info->codegen_ns),
                ms(info->load_ns), info->nests, info->generated, info->reused);
    if (info->refusals && *info->refusals) text_printf(text, "  not fused:\n%s", info->refusals);
}

static void guards_text(const Variant *v, Text *text) {
    for (int i = 0; i < v->n_inputs; i++) {
        const InputGuard *const g = &v->inputs[i];
        text_printf(text, "  input %d: ", i);
        meta_print(v->env, text, g->meta);
        text_printf(text, "%s%s storage %d\n", g->requires_grad ? " requires_grad" : "",
                    g->is_leaf ? " leaf" : "", g->storage);
    }
    for (int k = 0; k < v->n_numbers; k++) {
        const int rule = v->number_rules ? v->number_rules[k] : NUMBER_fixed;
        if (rule != NUMBER_expr) continue;
        text_printf(text, "  number %d == ", k);
        sym_print(v->env, text, v->numbers[k]);
        text_puts(text, "\n");
    }
    static const char *const rel[] = {"==", "!=", "<", "<="};
    for (int i = 0; i < sym_guard_count(v->env); i++) {
        const SymGuard *const g = sym_guard_at(v->env, i);
        text_puts(text, "  ");
        sym_print(v->env, text, g->a);
        text_printf(text, " %s ", rel[g->rel]);
        sym_print(v->env, text, g->b);
        text_puts(text, "\n");
    }
}

static void breaks_text(const sn_function *fn, Text *text) {
    for (int i = 0; i < fn->breaks.n; i++) {
        char where[256];
        site_name(fn->breaks.at[i].site, where, sizeof where);
        text_printf(text, "break at %s: %s (%lld times)\n", where, fn->breaks.at[i].reason,
                    (long long)fn->breaks.at[i].count);
    }
    for (int i = 0; i < fn->recompiles.n; i++)
        text_printf(text, "recompile: %s\n", fn->recompiles.at[i].text);
    for (int i = 0; i < fn->failures.n; i++)
        text_printf(text, "not compiled: %s: %s\n", bail_name(fn->failures.at[i].code),
                    fn->failures.at[i].text);
    if (fn->limit_hits)
        text_printf(text, "recompile limit: %lld calls ran eagerly\n", (long long)fn->limit_hits);
}

void explain_text(sn_function *fn, Text *text) {
    pthread_mutex_lock(&fn->lock);
    const sn_stats *const s = &fn->stats;
    text_printf(text,
                "%s: %lld calls, %d graphs, %lld compiles, %lld breaks, compiled share %.2f\n",
                fn->name, (long long)s->calls, fn->variants.n, (long long)s->compiles,
                (long long)s->breaks, explain_share(s));
    for (int i = 0; i < fn->variants.n; i++) {
        graph_text(fn->variants.at[i], text);
        text_puts(text, "  guards:\n");
        Text guards = {0};
        guards_text(fn->variants.at[i], &guards);
        text_puts(text, text_str(&guards));
        text_free(&guards);
    }
    breaks_text(fn, text);
    pthread_mutex_unlock(&fn->lock);
}

/* JSON
 * ---------------------------------------------------------------------------------------------------------
 */

static void graph_json(const Variant *v, Text *text) {
    const CompileInfo *const info = &v->info;
    text_printf(text,
                "{\"id\": %d, \"ops\": %d, \"kernels\": %d, \"dynamic\": %s, \"interpreted\": %s, "
                "\"hits\": %lld, "
                "\"trace_ms\": %.4f, \"passes_ms\": %.4f, \"lower_ms\": %.4f, \"codegen_ms\": "
                "%.4f, \"load_ms\": %.4f, "
                "\"reason\": ",
                v->id, v->n_ops, info->kernels, v->dynamic ? "true" : "false",
                info->interpreted ? "true" : "false", (long long)atomic_load(&v->hits),
                ms(v->trace_ns), ms(info->passes_ns), ms(info->lower_ns), ms(info->codegen_ns),
                ms(info->load_ns));
    text_json_string(text, info->reason);
    text_puts(text, ", \"guards\": ");
    Text guards = {0};
    guards_text(v, &guards);
    text_json_string(text, text_str(&guards));
    text_free(&guards);
    text_puts(text, "}");
}

static void breaks_json(const sn_function *fn, Text *text) {
    text_puts(text, "\"breaks\": [");
    for (int i = 0; i < fn->breaks.n; i++) {
        char where[256];
        site_name(fn->breaks.at[i].site, where, sizeof where);
        text_printf(text, "%s{\"where\": ", i ? ", " : "");
        text_json_string(text, where);
        text_puts(text, ", \"reason\": ");
        text_json_string(text, fn->breaks.at[i].reason);
        text_printf(text, ", \"count\": %lld}", (long long)fn->breaks.at[i].count);
    }
    text_puts(text, "], \"recompiles\": [");
    for (int i = 0; i < fn->recompiles.n; i++) {
        text_puts(text, i ? ", " : "");
        text_json_string(text, fn->recompiles.at[i].text);
    }
    text_puts(text, "], \"failures\": [");
    for (int i = 0; i < fn->failures.n; i++) {
        text_puts(text, i ? ", " : "");
        text_json_string(text, fn->failures.at[i].text);
    }
    text_puts(text, "]");
}

void explain_json(sn_function *fn, Text *text) {
    pthread_mutex_lock(&fn->lock);
    const sn_stats *const s = &fn->stats;
    text_puts(text, "{\"name\": ");
    text_json_string(text, fn->name);
    text_printf(
        text,
        ", \"calls\": %lld, \"compiles\": %lld, \"recompiles_count\": %lld, \"compiled_share\": "
        "%.4f, "
        "\"ops_generated\": %lld, \"ops_interpreted\": %lld, \"ops_eager\": %lld, \"graphs\": [",
        (long long)s->calls, (long long)s->compiles, (long long)s->recompiles, explain_share(s),
        (long long)s->ops_generated, (long long)s->ops_interpreted, (long long)s->ops_eager);
    for (int i = 0; i < fn->variants.n; i++) {
        text_puts(text, i ? ", " : "");
        graph_json(fn->variants.at[i], text);
    }
    text_puts(text, "], ");
    breaks_json(fn, text);
    text_puts(text, "}");
    pthread_mutex_unlock(&fn->lock);
}

/* Stages
 * -------------------------------------------------------------------------------------------------------
 */

const char *explain_stage_name(int i) {
    int n = 0;
    while (compile_stage_name(n)) n++;
    return i == n ? "guards" : compile_stage_name(i);
}

static Status dump_one(const Variant *v, const char *stage, Text *text) {
    text_printf(text, "# graph %d\n", v->id);
    if (!strcmp(stage, "guards")) {
        guards_text(v, text);
        return ST_OK;
    }
    if (v->training && training_stage(v, stage, text)) return ST_OK;
    char *const one = compile_stage_text(v->text, stage);
    if (!one) return error_pending();
    text_puts(text, one);
    mem_free(one);
    return ST_OK;
}

Status explain_dump(sn_function *fn, const char *stage, Text *text) {
    Status status = ST_OK;
    pthread_mutex_lock(&fn->lock);
    for (int i = 0; i < fn->variants.n && status == ST_OK; i++)
        status = dump_one(fn->variants.at[i], stage, text);
    pthread_mutex_unlock(&fn->lock);
    return status;
}
