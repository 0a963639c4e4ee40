/* settings.c: the table of settings.def, initial values from the environment, per-state changes.
 *
 * Initial values are read once; a state copies numbers only, and owns a text once it was set.
 * Settings marked process-wide take effect when set, through the module that they belong to. */
#include "runtime/core/settings.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/core/disk_folder.h"
#include "runtime/core/memory.h"
#include "runtime/core/pool.h"
#include "runtime/core/jit_symbols.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"
#include "runtime/core/tracking.h"

typedef enum SettingKind { SETTING_flag, SETTING_number, SETTING_text, SETTING_choice } SettingKind;

typedef struct SettingRow {
    const char *name;
    SettingKind kind;
    const char *value;
} SettingRow;

static const SettingRow rows[SET_COUNT] = {
#define SETTING(name, kind, value, doc) {#name, SETTING_##kind, value},
#include "runtime/core/settings.def"
#undef SETTING
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Setting initial[SET_COUNT]; /* text points at the environment or the table */

static long long most(const SettingRow *row) {
    if (row->kind == SETTING_flag) return 1;
    return row == &rows[SET_threads] ? SETTING_MOST_THREADS : INT32_MAX;
}

/* Of the settings of kind choice: one. */
static const char *const choices[] = {
    [EAGER_COMPILE_never] = "never", [EAGER_COMPILE_auto] = "auto", [EAGER_COMPILE_always] = "always"};

static bool parse_choice(const char *text, int64_t *out) {
    for (*out = 0; *out < COUNT_OF(choices); ++*out)
        if (!strcmp(text, choices[*out])) return true;
    return false;
}

/* What a value of it is to be. */
typedef struct SettingWanted {
    char text[64];
} SettingWanted;

static SettingWanted wanted_of(const SettingRow *row) {
    SettingWanted wanted = {"one of"};
    if (row->kind != SETTING_choice) {
        snprintf(wanted.text, sizeof wanted.text, "a number from 0 to %lld", most(row));
        return wanted;
    }
    for (int i = 0; i < COUNT_OF(choices); i++) {
        const size_t n = strlen(wanted.text);
        snprintf(wanted.text + n, sizeof wanted.text - n, "%s %s", i ? "," : "", choices[i]);
    }
    return wanted;
}

static bool parse_number(const SettingRow *row, const char *text, int64_t *out) {
    if (row->kind == SETTING_choice) return parse_choice(text, out);
    if (row->kind == SETTING_text) {
        *out = 0;
        return true;
    }
    char *end;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || value < 0 || value > most(row)) return false;
    *out = value;
    return true;
}

typedef struct SettingVariable {
    char name[64];
} SettingVariable;

static SettingVariable variable_of(const char *name) {
    SettingVariable variable;
    const int n = snprintf(variable.name, sizeof variable.name, "SINTER_%s", name);
    for (int i = 0; i < n; i++) variable.name[i] = (char)toupper((unsigned char)variable.name[i]);
    return variable;
}

static const char *from_environment(const char *name) { return environment(variable_of(name).name); }

/* Variables that are read elsewhere: by the library and the tool, and by the build's script. */
static const char *const others[] = {
#define VARIABLE(name, value, doc) #name,
#include "runtime/core/variables.def"
#undef VARIABLE
    "SINTER_BUILD", "SINTER_VENV"};

static bool is_variable(const char *name, size_t n) {
    for (int i = 0; i < COUNT_OF(others); i++)
        if (!strncmp(others[i], "SINTER_", 7) && strlen(others[i]) == n + 7 && !strncmp(others[i] + 7, name, n))
            return true;
    for (int i = 0; i < SET_COUNT; i++)
        if (strlen(rows[i].name) == n && !strncasecmp(rows[i].name, name, n)) return true;
    return false;
}

static char *names_of_all(void) {
    Text list = {0};
    for (int i = 0; i < SET_COUNT; i++) text_printf(&list, "%s%s", i ? ", " : "", rows[i].name);
    return list.at;
}

static bool is_pass(const char *name, size_t n) {
    for (int i = 0; pass_row(i); i++) {
        const char *const pass = pass_row(i)->name;
        if (strlen(pass) == n && !strncmp(pass, name, n)) return true;
    }
    return false;
}

/* What is misspelt would have no effect, and nobody would know. */
static void warn_of_unknown(void) {
    size_t n;
    const char *const point = failpoint_unknown(initial[SET_failpoints].text, is_pass, &n);
    if (point) LOG(general, WARNING, "SINTER_FAILPOINTS: no step asks for '%.*s'", (int)n, point);
    Text unknown = {0};
    int count = 0;
    for (char **at = environment_all(); *at; at++) {
        n = strcspn(*at, "=");
        if (strncmp(*at, "SINTER_", 7) || is_variable(*at + 7, n - 7)) continue;
        text_printf(&unknown, "%s%.*s", count++ ? ", " : "", (int)n, *at);
    }
    char *const list = count ? names_of_all() : NULL;
    if (list)
        LOG(general, WARNING, "%.800s %s; settings: %s", text_str(&unknown),
            count == 1 ? "is no setting" : "are no settings", list);
    mem_free(list);
    text_free(&unknown);
}

static void log_as_set(Status (*set)(const char *text), SettingId id) {
    if (!initial[id].text[0] || set(initial[id].text) == ST_OK) return;
    LOG(general, WARNING, "%s: %s", variable_of(rows[id].name).name, error_slot()->message);
    error_clear();
}

static void read_initial(void) {
    for (int i = 0; i < SET_COUNT; i++) {
        const char *text = from_environment(rows[i].name);
        if (text && !parse_number(&rows[i], text, &initial[i].number)) {
            LOG(general, WARNING, "setting %s: '%s' in the environment is not %s; %s is used", rows[i].name, text,
                wanted_of(&rows[i]).text, rows[i].value);
            text = NULL;
        }
        if (!text) {
            text = rows[i].value;
            parse_number(&rows[i], text, &initial[i].number);
        }
        initial[i].text = (char *)text;
    }
    log_as_set(log_file_set, SET_logs_file); /* first: what is said below goes there */
    log_as_set(log_functions_set, SET_logs_function);
    log_as_set(jit_dump_folder_choose, SET_jit_dump_dir);
    log_as_set(jit_symbols_choose, SET_jit_symbols);
    const char *const isa = initial[SET_isa].text;
    if (isa[0] && strcmp(isa, isa_name(isa_used())))
        LOG(general, WARNING, "setting isa: '%s' in the environment is none that this CPU has; %s is used", isa,
            isa_name(isa_used()));
    if (initial[SET_dispatch_trace].number) log_threshold[LOG_dispatch] = LOG_INFO;
    const char *const failpoints = initial[SET_failpoints].text;
    if (failpoints[0] && !failpoint_set(failpoints))
        LOG(general, WARNING, "SINTER_FAILPOINTS is too long; none is set");
    warn_of_unknown();
    log_as_set(log_topics_set, SET_logs);
}

int64_t setting_initial(SettingId id) {
    pthread_once(&once, read_initial);
    return initial[id].number;
}

const char *setting_initial_text(SettingId id) {
    pthread_once(&once, read_initial);
    return initial[id].text;
}

void settings_init(sn_state *state) {
    pthread_once(&once, read_initial);
    for (int i = 0; i < SET_COUNT; i++) state->settings[i] = (Setting){.number = initial[i].number};
    if (state->settings[SET_check_handles].number) tracking_check(state, true);
    if (state->settings[SET_track_tensors].number) tracking_set(state, true);
    if (tracking_is_on()) tensor_blocks_track(state, true);
}

void settings_free(sn_state *state) {
    for (int i = 0; i < SET_COUNT; i++) mem_free(state->settings[i].text);
}

Status settings_copy(sn_state *to, const sn_state *from) {
    for (int i = 0; i < SET_COUNT; i++) {
        const char *const text = from->settings[i].text;
        to->settings[i] = (Setting){.text = text ? mem_strdup(text) : NULL, .number = from->settings[i].number};
        if (text && !to->settings[i].text) return ST_MEMORY;
    }
    return ST_OK;
}

int64_t setting_number(SettingId id) { return state_get()->settings[id].number; }

const char *setting_text(const sn_state *state, SettingId id) {
    return state->settings[id].text ? state->settings[id].text : initial[id].text;
}

int setting_find(const char *name) {
    for (int i = 0; i < SET_COUNT; i++)
        if (!strcmp(rows[i].name, name)) return i;
    char *const list = names_of_all();
    error_raise(ST_ARGUMENT, "setting '%s' is unknown; settings: %s", name, list ? list : "");
    mem_free(list);
    return -1;
}

/* What process-wide settings do when they are set. */
static Status apply_setting(int id, const Setting *setting) {
    if (id == SET_threads) pool_threads_set((int)setting->number);
    if (id == SET_dispatch_trace) log_threshold[LOG_dispatch] = setting->number ? LOG_INFO : LOG_WARNING;
    if (id == SET_failpoints && !failpoint_set(setting->text))
        return error_raise(ST_VALUE, "setting failpoints: the list is too long; none is set");
    if (id == SET_track_tensors) tracking_set(state_current, setting->number != 0);
    if (id == SET_check_handles) tracking_check(state_current, setting->number != 0);
    if (id == SET_memory_retain_mib) memory_host()->keep_at_most(memory_host(), (size_t)setting->number << 20);
    if (id == SET_cache_mib) disk_bytes_choose(setting->number << 20);
    if (id == SET_cache_dir) return disk_folder_choose(setting->text);
    if (id == SET_logs_file) return log_file_set(setting->text);
    if (id == SET_logs_function) return log_functions_set(setting->text);
    if (id == SET_jit_dump_dir) return jit_dump_folder_choose(setting->text);
    if (id == SET_jit_symbols) return jit_symbols_choose(setting->text);
    return id == SET_logs ? log_topics_set(setting->text) : ST_OK;
}

static bool is_read_once(int id) { return id == SET_isa || id == SET_plain_malloc || id == SET_alloc_conf; }

Status setting_set(sn_state *state, const char *name, const char *value) {
    const int id = setting_find(name);
    if (id < 0) return error_pending();
    size_t n;
    const char *const unknown = id == SET_failpoints && value ? failpoint_unknown(value, is_pass, &n) : NULL;
    if (unknown) return error_raise(ST_ARGUMENT, "setting failpoints: no step asks for '%.*s'", (int)n, unknown);
    if (is_read_once(id))
        return error_raise(ST_UNSUPPORTED, "setting %s is read once, from the environment: %s has set it by now", name,
                           variable_of(name).name);
    Setting setting = {0};
    if (!value || !parse_number(&rows[id], value, &setting.number))
        return error_raise(ST_ARGUMENT, "setting %s: '%s' is not %s", name, value ? value : "NULL",
                           wanted_of(&rows[id]).text);
    setting.text = mem_strdup(value);
    if (!setting.text) return ST_MEMORY;
    const Status status = apply_setting(id, &setting);
    if (status != ST_OK) {
        mem_free(setting.text);
        return status;
    }
    mem_free(state->settings[id].text);
    state->settings[id] = setting;
    return ST_OK;
}
