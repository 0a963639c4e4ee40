/* input_name.c: see input_name.h. */
#include "runtime/capture/record/input_name.h"

#include "runtime/capture/record/capture.h"

static const struct {
    const char *before, *behind, *word;
} words[] = {[INPUT_argument] = {"argument ", "", "x"},
             [INPUT_closed_over] = {"closed over ", "", "closed"},
             [INPUT_earlier] = {"value ", " of an earlier graph", "value"}};

/* The first argument that is this tensor, or -1. */
static int argument_of(const Capture *c, const sn_tensor *t) {
    for (int i = 0; t && i < c->n_in; i++)
        if (c->in[i].kind == ARG_tensor && c->in[i].val == &t->base) return i;
    return -1;
}

static InputName next_name(const Trace *trace, int i, int *n_closed) {
    const TraceInput *const input = &trace->inputs.at[i];
    if (input->maker) return (InputName){INPUT_earlier, input->maker_value};
    const int argument = argument_of(trace->capture, input->tensor);
    return argument >= 0 ? (InputName){INPUT_argument, argument} : (InputName){INPUT_closed_over, (*n_closed)++};
}

void input_names(const Trace *trace, InputName *names) {
    int n_closed = 0;
    for (int i = 0; i < trace->inputs.n; i++) names[i] = next_name(trace, i, &n_closed);
}

InputName input_name(const Trace *trace, int input) {
    InputName name = {0};
    int n_closed = 0;
    for (int i = 0; i <= input; i++) name = next_name(trace, i, &n_closed);
    return name;
}

void input_name_print(Text *text, InputName name) {
    text_printf(text, "%s%d%s", words[name.kind].before, name.index, words[name.kind].behind);
}

bool input_name_read(TextReader *in, InputName *name) {
    for (int kind = 0; kind < COUNT_OF(words); kind++) {
        int64_t index;
        const char *const start = in->at;
        if (!reader_eat(in, words[kind].before)) continue;
        *name = (InputName){.kind = kind};
        if (in->at[0] >= '0' && in->at[0] <= '9' && reader_int(in, &index) == ST_OK &&
            reader_eat(in, words[kind].behind)) {
            name->index = (int)index;
            return true;
        }
        in->at = start;
        return false;
    }
    return false;
}

const char *input_name_word(Arena *arena, InputName name) {
    return arena_printf(arena, "%s%d", words[name.kind].word, name.index);
}
