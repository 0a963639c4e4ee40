/* make_graph.c: make_graph KIND N prints a text graph of that size (tests/ref/big_graph.h). */
#include <stdio.h>
#include <stdlib.h>

#include "tests/ref/big_graph.h"

int main(int argc, char **argv) {
    Text text = {0};
    const int n = argc == 3 ? atoi(argv[2]) : 0;
    if (n < 1 || !big_graph(&text, argv[1], n)) {
        fprintf(stderr, "make_graph chain|layers|heads|gpt2 N\n");
        return 2;
    }
    fputs(text_str(&text), stdout);
    text_free(&text);
    return 0;
}
