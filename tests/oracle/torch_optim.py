"""Steps of torch.optim's SGD, Adam and AdamW (for-loop formulas), recorded for tests/unit/test_optim_recorded.c.

Run with any PyTorch: python tests/oracle/torch_optim.py tests/oracle/optim.safetensors
Needs safetensors. For each kind KIND and i from 0 to 49: from row i of KIND.p (and .m, .v: momentum or first moment,
second moment) with KIND.g's row i as gradient and KIND.lr's entry i as learning rate, step number i, one step gives row
i + 1. Gradients change in size and sign, so that sums cancel; a row is 37 numbers, so that vectors have a rest.
"""
import sys

import torch
from safetensors.torch import save_file

STEPS, WIDTH = 50, 37
KINDS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, foreach=False),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "adam_decay": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.01, foreach=False),
}
STATE = {"momentum": {"m": "momentum_buffer"}, "sgd": {}}
ADAM = {"m": "exp_avg", "v": "exp_avg_sq"}


def record(kind, out):
    torch.manual_seed(len(kind))
    p = torch.randn(WIDTH, requires_grad=True)
    optimizer = KINDS[kind]([p])
    slots = STATE.get(kind, ADAM)
    rows = {"p": [p.detach().clone()], "g": [], "lr": []}
    rows.update({slot: [torch.zeros(WIDTH)] for slot in slots})
    for step in range(STEPS):
        p.grad = torch.randn(WIDTH) * 10.0 ** (step % 5 - 3)
        rows["g"].append(p.grad.clone())
        rows["lr"].append(torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64))
        optimizer.step()
        rows["p"].append(p.detach().clone())
        for slot, name in slots.items():
            rows[slot].append(optimizer.state[p][name].clone())
        optimizer.param_groups[0]["lr"] *= 0.97
    out.update({f"{kind}.{name}": torch.stack(values) for name, values in rows.items()})


def main():
    out = {}
    for kind in KINDS:
        record(kind, out)
    save_file(out, sys.argv[1], {"torch": torch.__version__.split("+")[0]})


main()
