/* takes.c: see takes.h. A line that no case meets must leave the list. */
#include "tests/ops/takes.h"

#include <stdio.h>
#include <string.h>

typedef struct Refusal {
    const char *row;
    const char *says; /* a part of the message */
    const char *reason;
} Refusal;

static const Refusal refusals[] = {
    {"aten::nll_loss_forward", "no derivative for weight", "not differentiable, as in PyTorch"},
    {"aten::nll_loss", "no derivative for weight", "not differentiable, as in PyTorch"},
    {"aten::cross_entropy_loss", "no derivative for weight", "not differentiable, as in PyTorch"},
    {"aten::nll_loss_backward", "no derivative for weight", "its derivative is nll_loss_forward: as there"},
    {"aten::nll_loss_backward", "target", "a class that there is not: PyTorch writes outside of the memory"},
    {"aten::scatter.reduce", "'multiply' in src", "PyTorch's has no derivative at all"},
    {"aten::_embedding_bag_backward", "has no derivative rule", "PyTorch's has none"},
};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

static bool met[REFUSALS];

bool takes_listed(const OpRow *row, const char *message) {
    for (int i = 0; i < REFUSALS; i++)
        if (!strcmp(refusals[i].row, row->name) && strstr(message, refusals[i].says)) return met[i] = true;
    return false;
}

int takes_stale(const char *only_row) {
    int n = 0;
    for (int i = 0; i < REFUSALS; i++) {
        if (met[i] || (only_row && strcmp(only_row, refusals[i].row))) continue;
        printf("%s: no backward says '%s': it leaves the list (%s)\n", refusals[i].row, refusals[i].says,
               refusals[i].reason);
        n++;
    }
    return n;
}
