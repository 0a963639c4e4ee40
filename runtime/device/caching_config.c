/* caching_config.c: the text of SINTER_ALLOC_CONF, as PyTorch writes it:
 *
 *   expandable_segments:True,max_split_size_mb:64
 *
 * A text with a mistake counts for nothing, and the reason says which piece it is. */
#include <stdlib.h>

#include "runtime/device/caching.h"

typedef bool ReadConfig(const char *value, size_t n, CachingConfig *config);

static bool is_word(const char *value, size_t n, const char *word) {
    return strlen(word) == n && !strncmp(value, word, n);
}

static bool read_expandable(const char *value, size_t n, CachingConfig *config) {
    config->expandable = is_word(value, n, "True");
    return config->expandable || is_word(value, n, "False");
}

/* At most what large blocks come from would leave nothing to split. */
static bool read_max_split(const char *value, size_t n, CachingConfig *config) {
    int64_t mib = 0;
    if (!n || n > 9) return false;
    for (size_t i = 0; i < n; i++) {
        if (value[i] < '0' || value[i] > '9') return false;
        mib = mib * 10 + (value[i] - '0');
    }
    config->max_split = (size_t)mib << 20;
    return mib > 20;
}

static const struct {
    const char *key, *values;
    ReadConfig *read;
} keys[] = {{"expandable_segments", "True or False", read_expandable},
            {"max_split_size_mb", "a number above 20", read_max_split}};

static bool read_pair(const char *pair, size_t n, CachingConfig *config, Text *why) {
    const char *const colon = memchr(pair, ':', n);
    const size_t n_key = colon ? (size_t)(colon - pair) : n;
    for (int i = 0; i < COUNT_OF(keys); i++) {
        if (!is_word(pair, n_key, keys[i].key)) continue;
        if (colon && keys[i].read(colon + 1, n - n_key - 1, config)) return true;
        text_printf(why, "'%.*s': %s is %s", (int)n, pair, keys[i].key, keys[i].values);
        return false;
    }
    text_printf(why, "'%.*s' is no key; keys:", (int)n_key, pair);
    for (int i = 0; i < COUNT_OF(keys); i++) text_printf(why, "%s %s (%s)", i ? "," : "", keys[i].key, keys[i].values);
    return false;
}

bool caching_config_read(const char *text, CachingConfig *config, Text *why) {
    CachingConfig read = *config;
    while (*text) {
        const size_t n = strcspn(text, ",");
        if (!read_pair(text, n, &read, why)) return false;
        text += n;
        if (!*text) break;
        if (!*++text) {
            text_puts(why, "it ends in a comma");
            return false;
        }
    }
    *config = read;
    return true;
}
