/* backend.c: see backend.h. */
#include "runtime/compile/backend.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/compile/compile.h"

static Status raise_refused(const Backend *row) {
    char said[400];
    snprintf(said, sizeof said, "%.399s", error_slot()->message);
    error_clear();
    return error_raise(ST_UNSUPPORTED, "backend '%s' made no code: %s", row->name, said);
}

const BackendCode *backend_code(void *context, Graph *graph) {
    CompileReport *const info = context;
    const Backend *const row = compile_request(info)->backend;
    BackendCode *const code = mem_zero(sizeof *code);
    if (!code) return NULL;
    code->name = row->name;
    /* The program's code runs: nothing bails out of it. */
    Bail *const exit = compile_disarm(graph); /* that of the graph that it was copied from, and of the arena of both */
    Status status = row->make(row, graph, code);
    if (status == ST_OK) status = error_pending();
    compile_arm(graph, exit);
    if (status != ST_OK) {
        mem_free(code);
        raise_refused(row);
        return NULL;
    }
    compile_record_extension(info, "backend", row->name, row->version);
    pthread_mutex_init(&code->lock, NULL);
    code->next = info->codes;
    return info->codes = code;
}

void backend_drop(CompileReport *info) {
    for (BackendCode *code = info->codes, *next; code; code = next) {
        next = code->next;
        if (code->drop) code->drop(code->context);
        pthread_mutex_destroy(&code->lock);
        mem_free(code);
    }
    info->codes = NULL;
}

void backend_print_failures(const CompileReport *info, Text *text) {
    for (BackendCode *code = info->codes; code; code = code->next) {
        pthread_mutex_lock(&code->lock);
        if (code->failures)
            text_printf(text, "  backend '%s' failed %lld time%s, and what it computes ran eagerly: %s\n", code->name,
                        (long long)code->failures, code->failures == 1 ? "" : "s", code->failure);
        pthread_mutex_unlock(&code->lock);
    }
}
