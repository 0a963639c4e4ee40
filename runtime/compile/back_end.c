/* back_end.c: see back_end.h. */
#include "runtime/compile/back_end.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/compile/compile.h"

static Status raise_refused(const BackEnd *row) {
    char said[400];
    snprintf(said, sizeof said, "%.399s", error_slot()->message);
    error_clear();
    return error_raise(ST_UNSUPPORTED, "back end '%s' made no code: %s", row->name, said);
}

const BackEndCode *back_end_code(void *context, Graph *graph) {
    CompileReport *const info = context;
    const BackEnd *const row = compile_request(info)->back_end;
    BackEndCode *const code = mem_zero(sizeof *code);
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
    compile_note_extension(info, "back end", row->name, row->version);
    pthread_mutex_init(&code->lock, NULL);
    code->next = info->codes;
    return info->codes = code;
}

void back_end_drop(CompileReport *info) {
    for (BackEndCode *code = info->codes, *next; code; code = next) {
        next = code->next;
        if (code->drop) code->drop(code->context);
        pthread_mutex_destroy(&code->lock);
        mem_free(code);
    }
    info->codes = NULL;
}

void back_end_print_failures(const CompileReport *info, Text *text) {
    for (BackEndCode *code = info->codes; code; code = code->next) {
        pthread_mutex_lock(&code->lock);
        if (code->failures)
            text_printf(text, "  back end '%s' failed %lld time%s, and what it computes ran eagerly: %s\n", code->name,
                        (long long)code->failures, code->failures == 1 ? "" : "s", code->failure);
        pthread_mutex_unlock(&code->lock);
    }
}
