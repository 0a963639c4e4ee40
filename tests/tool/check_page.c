/* check_page.c: a page of `sinter report` on stdin, read strictly: tags close in order, attributes are quoted,
 * characters that mean something are entities, ids are unique, and each link within the page leads to one. Prints what
 * it has:
 *
 *     4 kernels, 9 linked ops, 3 boxes, 2 pictures, 4 times, 9 costs, 5 blocks
 *
 * or of a picture, which begins with its tag, the last of these alone. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPEN = 64, NAME = 32, MOST_NAMES = 100000 };

static const char *start, *at;
static char open_tags[MOST_OPEN][NAME];
static int n_open, kernels, ops, boxes, pictures, times, costs, blocks, n_ids, n_links;
static char *ids[MOST_NAMES], *links[MOST_NAMES];

static void fail(const char *what) {
    int line = 1;
    for (const char *p = start; p < at; p++) line += *p == '\n';
    printf("line %d: %s: %.40s\n", line, what, at);
    exit(1);
}

static void expect(const char *word) {
    if (strncmp(at, word, strlen(word))) fail(word);
    at += strlen(word);
}

static void read_name(char *name) {
    int n = 0;
    while ((isalnum((unsigned char)*at) || *at == '-') && n + 1 < NAME) name[n++] = *at++;
    name[n] = '\0';
    if (!n) fail("a name is missing");
}

static void read_entity(void) {
    static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(at, known[i], strlen(known[i]))) continue;
        at += strlen(known[i]);
        return;
    }
    fail("an unknown entity");
}

static char *read_value(void) {
    expect("\"");
    const char *const from = at;
    while (*at && *at != '"') {
        if (*at == '<') fail("'<' in an attribute");
        if (*at == '&')
            read_entity();
        else
            at++;
    }
    char *const value = strndup(from, (size_t)(at - from));
    expect("\"");
    return value;
}

static void keep(char **list, int *n, const char *value) {
    if (*n == MOST_NAMES) fail("too many names");
    list[(*n)++] = strdup(value);
}

static void read_attribute(const char *tag) {
    char name[NAME];
    read_name(name);
    if (*at != '=') {
        if (strcmp(name, "open")) fail("an attribute has no value");
        return;
    }
    at++;
    char *const value = read_value();
    if (!strcmp(name, "id")) keep(ids, &n_ids, value);
    if (!strcmp(name, "href") && value[0] == '#') keep(links, &n_links, value + 1);
    kernels += !strcmp(tag, "article") && !strcmp(value, "kernel");
    ops += !strcmp(tag, "a") && !strcmp(value, "op");
    times += !strcmp(tag, "td") && !strcmp(value, "time");
    costs += !strcmp(tag, "span") && !strcmp(value, "cost");
    blocks += !strcmp(tag, "rect") && !strcmp(value, "block");
    boxes += !strcmp(tag, "rect") && !strcmp(value, "slot");
    free(value);
}

static void read_tag(void) {
    char name[NAME];
    const bool closes = at[1] == '/';
    at += 1 + closes;
    read_name(name);
    if (closes) {
        if (!n_open || strcmp(open_tags[n_open - 1], name)) fail("this closes another tag");
        n_open--;
        expect(">");
        return;
    }
    while (*at == ' ') at++, read_attribute(name);
    pictures += !strcmp(name, "svg");
    if (*at == '/') {
        expect("/>");
        return;
    }
    expect(">");
    if (n_open == MOST_OPEN) fail("too deep");
    strcpy(open_tags[n_open++], name);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void check_links(void) {
    qsort(ids, (size_t)n_ids, sizeof *ids, by_text);
    for (int i = 1; i < n_ids; i++)
        if (!strcmp(ids[i - 1], ids[i])) printf("two have the id %s\n", ids[i]), exit(1);
    for (int i = 0; i < n_links; i++)
        if (!bsearch(&links[i], ids, (size_t)n_ids, sizeof *ids, by_text))
            printf("nothing has the id %s\n", links[i]), exit(1);
}

static char *read_all(void) {
    size_t n = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    for (size_t got; text && (got = fread(text + n, 1, capacity - n - 1, stdin)) > 0;) {
        n += got;
        if (n + 1 == capacity) text = realloc(text, capacity *= 2);
    }
    if (text) text[n] = '\0';
    return text;
}

int main(void) {
    start = at = read_all();
    if (!start) return 2;
    const bool is_picture = !strncmp(at, "<svg ", 5);
    if (!is_picture) expect("<!DOCTYPE html>\n");
    while (*at) {
        if (*at == '<')
            read_tag();
        else if (*at == '&')
            read_entity();
        else if (*at == '>')
            fail("'>' outside of a tag");
        else
            at++;
    }
    if (n_open) fail("the page ends within a tag");
    check_links();
    if (!is_picture)
        printf("%d kernels, %d linked ops, %d boxes, %d pictures, %d times, %d costs, ", kernels, ops, boxes, pictures,
               times, costs);
    printf("%d blocks\n", blocks);
    return 0;
}
