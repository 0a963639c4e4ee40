"""Reference numbers of tests/unit/test_optim.c: torch.optim on f(p) = sum((p - target)^2 * weight), printed as C.

Run with any PyTorch: python tests/oracle/optim_reference.py > tests/unit/optim_reference.h
"""
import torch

START = [0.5, -1.25, 2.0, 0.0]
TARGET = [1.0, -1.0, -0.5, 0.25]
WEIGHT = [1.0, 0.5, 2.0, 0.125]
STEPS = 25


def run(make):
    p = torch.tensor(START, requires_grad=True)
    optimizer = make([p])
    rows = []
    for step in range(STEPS):
        optimizer.zero_grad()
        (((p - torch.tensor(TARGET)) ** 2) * torch.tensor(WEIGHT)).sum().backward()
        optimizer.step()
        if step in (0, 9, STEPS - 1):
            rows.append(p.tolist())
        if step == 12:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
    return rows


def main():
    cases = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01),
        "adam": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.0),
    }
    print("/* optim_reference.h: parameters after steps 1, 10 and 25, lr halved after step 13: made by")
    print(f" * tests/oracle/optim_reference.py with PyTorch {torch.__version__.split('+')[0]}. */")
    for name, make in cases.items():
        rows = ",\n    ".join("{" + ", ".join(repr(v) for v in row) + "}" for row in run(make))
        print(f"static const double reference_{name}[3][4] = {{\n    {rows}}};")


main()
