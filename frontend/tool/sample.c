/* sample.c: see sample.h. To explain a sample or dump a stage the library is asked for a report when the sample's
 * functions are freed, one text a function. */
#include "frontend/tool/sample.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/text.h"

bool program_folder(char *out, size_t capacity) {
    const ssize_t n = readlink("/proc/self/exe", out, capacity - 1);
    if (n <= 0 || (size_t)n == capacity - 1) return false; /* or only a part of it */
    out[n] = '\0';
    *strrchr(out, '/') = '\0';
    return true;
}

/* The folder that has bin/samples and lib/samples: the one of the build, or an installed one with the samples' data. */
static bool samples_folder(char *out, size_t capacity) {
    char folder[600], path[800];
    if (!program_folder(folder, sizeof folder)) return false;
    snprintf(out, capacity, "%s/..", folder);
    snprintf(path, sizeof path, "%s/bin/samples", out);
    if (access(path, X_OK) == 0) return true;
    snprintf(out, capacity, "%s/" INSTALLED_FROM_BIN, folder);
    snprintf(path, sizeof path, "%s/data", out);
    if (access(path, X_OK) == 0) setenv("SINTER_SAMPLE_DATA", path, 0);
    return true;
}

static bool sample_path(const char *name, char *out, size_t capacity) {
    char folder[700];
    if (!*name || *name == '.' || strchr(name, '/')) return false;
    if (!samples_folder(folder, sizeof folder)) return false;
    snprintf(out, capacity, "%s/bin/samples/%s", folder, name);
    return access(out, X_OK) == 0;
}

bool sample_exists(const char *name) {
    char path[1024];
    return sample_path(name, path, sizeof path);
}

void *sample_symbol(const char *name, const char *symbol) {
    char folder[700] = "", path[1100];
    samples_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/lib/samples/%s.so", folder, name);
    void *const module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return module ? dlsym(module, symbol) : NULL;
}

const char *sample_takes(const char *name) {
    const char *const arguments = sample_symbol(name, "sample_arguments");
    return arguments ? arguments : "";
}

void samples_offer(NearName *near) {
    char folder[700] = "", path[1024];
    samples_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/bin/samples", folder);
    struct dirent **files = NULL;
    const int n = scandir(path, &files, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (sample_exists(files[i]->d_name)) near_offer(near, files[i]->d_name);
        free(files[i]);
    }
    free(files);
}

int no_such_target(const char *name) {
    char guess[128];
    NearName near = near_begin(name);
    samples_offer(&near);
    fprintf(stderr, "sinter: '%s' is no sample, no .sn file, no saved plan and no library.so:symbol%s\n", name,
            did_you_mean(guess, sizeof guess, "", &near));
    return EXIT_environment;
}

int run_sample(const char *name, char **argv) {
    char path[1024];
    if (!sample_path(name, path, sizeof path)) return no_such_target(name);
    argv[0] = path;
    execv(path, argv);
    fprintf(stderr, "sinter: cannot start '%s'\n", path);
    return EXIT_environment;
}

/* Runs the program at `path` to its end; its exit code. */
static int run_silently(const char *path) {
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout)) execl(path, path, (char *)NULL);
        _exit(EXIT_environment);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_wrong;
}

int sample_report(const char *name, const char *report, char **text) {
    char path[1024], file[] = "/tmp/sinter-report-XXXXXX";
    if (!sample_path(name, path, sizeof path)) return no_such_target(name);
    const int fd = mkstemp(file);
    if (fd < 0) return EXIT_environment;
    close(fd);
    setenv("SINTER_REPORT", report, 1);
    setenv("SINTER_REPORT_FILE", file, 1);
    const int code = run_silently(path);
    size_t n;
    const Status status = input_read(file, text, &n);
    unlink(file);
    return status == ST_OK ? code : report_error(EXIT_environment);
}

/* One line each. */
static void print_functions(const char *lines) {
    const char *const end = strchr(lines, '\n');
    if (end && !end[1]) {
        fputs(lines, stdout);
        return;
    }
    fputs("{\"functions\": [", stdout);
    for (const char *line = lines; *line;) {
        const size_t n = strcspn(line, "\n");
        printf("%s%.*s", line == lines ? "" : ",\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    puts("]}");
}

int explain_sample_json(const char *name) {
    char *lines = NULL;
    const int code = sample_report(name, "explain-json", &lines);
    if (lines) print_functions(lines);
    mem_free(lines);
    return code;
}
