"""Calls of the edge sweep (edge_calls.py) of random numbers: what is compared is sizes, strides, dtypes, and what is refused."""

import torch
from edge_values import *

SOME = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]
SHAPES = [(), (0,), (3,), (2, 0), (2, 3)]


def bodies_of(d):
    return [one(d, s) for s in SHAPES] + [one(d, (2, 3)).t(), one(d, (1,)).expand(3, 1)]


def filled(*lists):
    """Tensors that give sizes and dtype, with each combination of numbers."""
    return lambda: chained(*(made(bodies_of(d) if not lists else [one(d, (2, 3)), one(d, (0,))], *lists, word="plain ") for d in SOME))


ENDS = [0, 1, 2, -1, 100, 255, 256, 300, -128, -129, 2**31, 2**53, 2**63 - 1]
MEANS, DEVIATIONS = [0.0, -1.5, inf, nan, 1e300], [1.0, 0.0, -1.0, inf, nan]


def spread():
    for d in SOME:
        for v in ([1.0, 2.0], [0.0, -0.0], [1.0, -1.0], [nan, 1.0], [inf, 1.0], []):
            yield torch.tensor(v, dtype=torch.float64).to(d), f"{d} {v}"


def normals(which):
    def calls():
        for std, note in spread():
            if which == "both":
                for s in ((2,), (1,), (), (3, 1), (3,), (0,)):
                    yield Call([one(torch.float32, s), std], {}, f"plain {note} {s}")
                yield Call([torch.zeros(len(std), dtype=std.dtype), std], {}, f"plain {note} alike")
            else:
                for v in MEANS if which == "std" else DEVIATIONS:
                    yield Call([v, std] if which == "std" else [std, v], {}, f"plain {note} {v}")
        for d in (torch.float32, torch.float64, torch.float16):
            for x in bodies_of(d):
                y = x.abs() + 1
                yield Call([y, y] if which == "both" else [0.5, y] if which == "std" else [x, 0.5], {}, f"shapes {said(x)} {x.stride()}")

    return calls


def drawn():
    """(self, num_samples, replacement) of multinomial"""
    for d in SOME:
        for v in ([1.0, 2.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [nan, 1.0, 1.0], [inf, 1.0, 1.0], [-0.0, 1.0, 1.0], []):
            for n in (1, 2, 3, 4, 0, -1):
                for again in FLAGS:
                    yield Call([torch.tensor(v, dtype=torch.float64).to(d), n, again], {}, f"plain {d} {v} {n} {again}")
    for s in ((), (2, 3), (0, 3), (2, 0), (2, 2, 2)):
        for again in FLAGS:
            yield Call([torch.ones(s), 2, again], {}, f"shapes {s} {again}")


FAMILIES = {
    "random": filled(),
    "random.from": lambda: chained(filled([0, -1, 3, 2**53, -(2**63)], [None, 4, 0])(), filled([0], ENDS)()),
    "random.to": filled(ENDS),
    "uniform": lambda: chained(filled()(), filled([0.0, -1.0, nan, inf, -1e39], [1.0, 0.0, -2.0, inf, nan, 7e4, 1e39])()),
    "normal_functional": lambda: chained(filled()(), filled(MEANS, DEVIATIONS)()),
    "normal.Tensor_float": normals("mean"),
    "normal.float_Tensor": normals("std"),
    "normal.Tensor_Tensor": normals("both"),
    "normal.float_float": lambda: made(MEANS, DEVIATIONS, [[2], [0], [], [-1]], word="plain ", dtype=[None, torch.float16, torch.int64]),
    "exponential": lambda: chained(filled()(), filled([1.0, 0.5, 0.0, -1.0, inf, nan])()),
    "geometric": lambda: filled([0.5, 1e-3, 0.0, 1.0, -1.0, 1.5, nan, inf])(),
    "cauchy": lambda: chained(filled()(), filled(MEANS, DEVIATIONS)()),
    "log_normal": lambda: chained(filled()(), filled(MEANS, DEVIATIONS)()),
    "multinomial": drawn,
    "randint_like.Tensor": lambda: (
        Call([x, high], {}, f"plain {said(x)} {said(high)} {high.tolist()}")
        for d in SOME
        for x in (one(d, (2, 3)), one(d, (2, 3)).t(), one(d, (0,)), one(d, ()))
        for high in [torch.tensor(v) for v in (1, 2, 5, 0, -1, 300, 2.5, True)] + [torch.tensor([5]), torch.tensor([5, 6]), torch.tensor([])]
    ),
}
