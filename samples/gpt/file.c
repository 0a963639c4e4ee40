/* file.c: a training's file: what it needs to go on as if it had never stopped. Parameters, the optimizer's state,
 * the generator, the step, the losses so far: one safetensors file, replaced whole. */
#include <stdio.h>
#include <string.h>

#include "gpt.h"

/* Every entry of `from` under "PREFIX.NAME" of `to`. */
static void put_all(sn_dict *to, const char *prefix, sn_dict *from) {
    for (int i = 0; i < sn_dict_count(from); i++) {
        char name[128];
        snprintf(name, sizeof name, "%s.%s", prefix, sn_dict_name(from, i));
        sn_dict_set(to, name, sn_dict_at(from, i));
    }
}

/* Values of "PREFIX.NAME" in `file` into the entries of `to`; what is missing or of other sizes is an error. */
static void take_all(sn_dict *to, sn_dict *file, const char *prefix) {
    sn_dict *const part = sn_dict_new();
    for (int i = 0; i < sn_dict_count(to); i++) {
        char name[128];
        snprintf(name, sizeof name, "%s.%s", prefix, sn_dict_name(to, i));
        sn_dict_set(part, sn_dict_name(to, i), sn_dict_get(file, name));
    }
    sn_dict_copy(to, part);
    sn_dict_free(part);
}

sn_status gpt_save(const GptTraining *t, const char *path) {
    const sn_scope scope = sn_no_grad_begin();
    const sn_rng rng = sn_rng_get();
    const int64_t numbers[] = {(int64_t)rng.seed, (int64_t)rng.sequence, t->step};
    sn_dict *const file = sn_dict_new();
    put_all(file, "param", t->model.params);
    put_all(file, "optim", sn_optim_dict(t->optim));
    sn_default_device_set(SN_CPU);
    sn_dict_set(file, "training.numbers", sn_from_data(numbers, SN_INTS(3), SN_I64));
    sn_dict_set(file, "training.losses", sn_from_data(t->losses, SN_INTS(t->step), SN_F32));
    sn_dict_save(file, path);
    sn_dict_free(file);
    return sn_scope_end(scope);
}

static void consume_numbers(GptTraining *t, sn_dict *file) {
    int64_t numbers[3] = {0};
    sn_read(sn_dict_get(file, "training.numbers"), numbers, sizeof numbers);
    if (sn_check()) return;
    if (numbers[2] < 0 || numbers[2] > t->plan.steps) {
        sn_fail(SN_ERR_VALUE, "gpt: the file has more steps than --steps asks for");
        return;
    }
    sn_read(sn_dict_get(file, "training.losses"), t->losses, (size_t)numbers[2] * sizeof *t->losses);
    t->step = (int)numbers[2];
    sn_rng_set((sn_rng){.seed = (uint64_t)numbers[0], .sequence = (uint64_t)numbers[1]});
}

sn_status gpt_resume(GptTraining *t, const char *path) {
    const sn_scope scope = sn_no_grad_begin();
    sn_dict *const file = sn_dict_load(path);
    take_all(t->model.params, file, "param");
    take_all(sn_optim_dict(t->optim), file, "optim");
    sn_scope_end(scope); /* whose end restores modes; the generator is none of them */
    if (!sn_check()) consume_numbers(t, file);
    sn_dict_free(file);
    return sn_check();
}
