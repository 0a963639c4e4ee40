/* tree_files.h: the files of a folder of the tree, for the checks that read its text. */
#ifndef SINTER_TESTS_TREE_FILES_H
#define SINTER_TESTS_TREE_FILES_H
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* endings: without dots, each between spaces: " c h " */
static inline bool has_ending(const char *name, const char *endings) {
    const char *const dot = strrchr(name, '.');
    char word[32];
    return dot && snprintf(word, sizeof word, " %s ", dot + 1) < (int)sizeof word && strstr(endings, word);
}

/* Every file below root/folder ("ir/", with its slash) of these endings; names that begin with a dot are left out. */
static inline void each_file(const char *root, const char *folder, const char *endings,
                             void (*visit)(const char *root, const char *path)) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", root, folder);
    DIR *const dir = opendir(full);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[2048];
        struct stat info;
        if (*entry->d_name == '.') continue;
        snprintf(path, sizeof path - 1, "%s%s", folder, entry->d_name); /* a slash may follow */
        snprintf(full, sizeof full, "%s/%s", root, path);
        if (stat(full, &info)) continue;
        if (S_ISDIR(info.st_mode))
            each_file(root, strcat(path, "/"), endings, visit);
        else if (has_ending(path, endings))
            visit(root, path);
    }
    if (dir) closedir(dir);
}

/* Blanks comments out; *inside: the line begins in one. */
static inline void cut_comments(char *text, bool *inside) {
    for (char *at = text; *at; at++) {
        if (!*inside && at[0] == '/' && at[1] == '*') *inside = true;
        const bool ends = *inside && at[0] == '*' && at[1] == '/';
        if (*inside && *at != '\n') *at = ' ';
        if (ends) at[1] = ' ', at++, *inside = false;
    }
}

/* Each line of a file, its comments blanked out. */
static inline void each_code_line(const char *root, const char *path,
                                  void (*visit)(const char *path, int line, const char *text)) {
    char full[4096], text[4096];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *const file = fopen(full, "r");
    bool inside = false;
    for (int line = 1; file && fgets(text, sizeof text, file); line++) {
        cut_comments(text, &inside);
        visit(path, line, text);
    }
    if (file) fclose(file);
}

#endif
