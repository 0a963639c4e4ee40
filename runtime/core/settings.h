/* settings.h: the settings table. A value is text; numbers, flags and choices are parsed once, when they
 * are set. */
#ifndef SINTER_RUNTIME_SETTINGS_H
#define SINTER_RUNTIME_SETTINGS_H
#include "runtime/base/base.h"

typedef enum SettingId {
#define SETTING(name, kind, value, doc) SET_##name,
#include "runtime/core/settings.def"
#undef SETTING
    SET_COUNT
} SettingId;

/* Of SET_eager_compile. */
typedef enum EagerCompile { EAGER_COMPILE_never, EAGER_COMPILE_auto, EAGER_COMPILE_always } EagerCompile;

typedef struct Setting {
    char *text; /* NULL: the process' initial value */
    int64_t number;
} Setting;

enum { SETTING_MOST_THREADS = 256 }; /* of `threads` */

struct sn_state;
void settings_init(struct sn_state *state); /* the initial values */
void settings_free(struct sn_state *state);
Status settings_copy(struct sn_state *to, const struct sn_state *from); /* to: has the initial values */
int64_t setting_number(SettingId id);                                   /* of the current state; flags: 0 or 1 */
/* Raises ST_ARGUMENT and lists the valid names for an unknown one. */
Status setting_set(struct sn_state *state, const char *name, const char *value);
int setting_find(const char *name); /* -1, raised so, for an unknown one */
const char *setting_text(const struct sn_state *state, SettingId id);
int64_t setting_initial(SettingId id); /* the process' initial number, without a state */
const char *setting_initial_text(SettingId id);

#endif
