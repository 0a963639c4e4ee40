"""Values, dtypes, shapes and ways to vary arguments, of which the calls of the edge sweep are made (edge_calls.py)."""

import itertools, math
import torch

inf, nan = math.inf, math.nan
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = FLOATS + INTS + [torch.bool]
MIXED = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool]


def special(dtype, how_many):
    """Special values of a dtype: `how_many` is 0 (few), 1 or 2 (all)."""
    if dtype == torch.bool:
        return [False, True]
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        few = [0, 1, 2, info.max] + ([-1, info.min] if info.min else [255])
        more = [3, 7, 64, info.max - 1] + ([-2, -3, -7, info.min + 1] if info.min else [128, 254])
        return few + (more if how_many else [])
    info = torch.finfo(dtype)
    least = info.smallest_normal * info.eps
    few = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, inf, -inf, nan]
    more = [-2.0, -3.0, 0.1, info.max, -info.max, info.smallest_normal, -least]
    rest = [
        3.0,
        -0.5,
        1.5,
        2.5,
        -1.5,
        6.0,
        -6.0,
        20.5,
        -20.0,
        100.0,
        -100.0,
        1 + info.eps,
        1 - info.eps / 2,
        1e-3,
        7.9,
        -info.smallest_normal,
        least,
        4096.0,
        -3.7,
    ]
    return few + (more if how_many else []) + (rest if how_many > 1 else [])


class Call:
    def __init__(self, args, kwargs, note):
        self.args, self.kwargs, self.note = args, kwargs, note

    def without_refused(self, accepts):
        """The arguments with only those values that are accepted one at a time; None where these are none, or all."""
        kept, changed = list(self.args), False
        for i, a in enumerate(self.args):
            if not isinstance(a, torch.Tensor) or a.numel() < 2 or a.numel() > 600:
                continue
            flat = a.reshape(-1)
            ones = [
                (
                    x
                    if not isinstance(x, torch.Tensor)
                    else x.reshape(-1)[2:3].reshape([1] * x.dim()) if x.numel() > 2 else x
                )
                for x in self.args
            ]
            good = [v for v in flat if accepts(ones[:i] + [v.reshape([1] * a.dim())] + ones[i + 1 :])]
            if not good or len(good) == len(flat):
                continue
            changed = True
            many = torch.stack([good[k % len(good)] for k in range(len(flat))])
            kept[i] = many.reshape(a.shape)
        return kept if changed and accepts(kept) else None


def values(dtype, how_many=2):
    return torch.tensor(special(dtype, how_many), dtype=torch.float64 if dtype.is_floating_point else dtype).to(dtype)


def product(dtype, n, dtypes=None):
    """n tensors, all special values beside all others by broadcasting."""
    dtypes = dtypes or [dtype] * n
    how = 2 if n == 1 else 1 if n == 2 else 0
    return [values(d, how).reshape([-1 if k == i else 1 for k in range(n)]) for i, d in enumerate(dtypes)]


def one(dtype, size, start=1):
    """Plain values, and a few that are not."""
    if dtype == torch.bool:
        return (torch.arange(math.prod(size)) % 2 == start % 2).reshape(size)
    return (
        ((torch.arange(math.prod(size)) * 3 + start) % 5 - (0 if dtype == torch.uint8 else 1)).to(dtype).reshape(size)
    )


FLAGS = [False, True]
DTYPES = [None, torch.float32, torch.float16, torch.int64, torch.int8, torch.bool, torch.float64]
# Numbers for parameters of the type Scalar or float: by row and name, by name, else these.
NUMBERS = [0, 1, 2, -1, 0.5, 0.1, inf, -inf, nan, 300, -3.7, True, 1e300]

ROWS = [
    [1.0, 2.0, 3.0],
    [nan, 1.0, 2.0],
    [inf, -inf, 1.0],
    [inf, 1.0, inf],
    [-inf, -inf, -inf],
    [0.0, -0.0, 0.0],
    [-0.0, -0.0, -0.0],
    [2.0, 2.0, 1.0],
    [0.0, 3.0, 0.0],
    [nan, nan, nan],
    [1e30, 1e30, -1e30],
    [-inf, 1.0, -inf],
    [5.0, 0.0, 2.0],
]
INT_ROWS = [[1, 2, 3], [0, 0, 0], [2, 2, 1], [0, 3, 0], [100, 100, 100], [-1, -128, 127], [5, 0, 2]]


def rows(dtype):
    if dtype == torch.bool:
        return torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    if dtype.is_floating_point:
        return torch.tensor(ROWS, dtype=torch.float64).to(dtype)
    return torch.tensor(INT_ROWS).to(dtype)


def bodies(dtypes=ALL):
    """Inputs of what works along dims: every special row, and shapes with dims of size 0 and 1."""
    for d in dtypes:
        yield rows(d), f"rows {d}"
    for d in [x for x in dtypes if x in (torch.float32, torch.float16, torch.int64, torch.bool)]:
        for s in [(), (0,), (3, 0), (0, 3), (1,), (2, 1), (2, 3, 0), (2, 2, 2)]:
            yield one(d, s), f"{list(s)} {d}"
    for d in [x for x in dtypes if x in (torch.float64, torch.float32)]:
        for row in ROWS:
            yield torch.tensor(row, dtype=torch.float64).to(d), f"{row} {d}"


DIMS = [0, 1, -1, -2, 2]
DIM_LISTS = [[0], [1], [-1], [], [0, 1], [0, 0], [2]]


def over(*lists, dtypes=ALL, **named):
    """Every body with each combination of the lists' items after it, and keywords."""
    for x, note in bodies(dtypes):
        for rest in itertools.product(*lists):
            for kw in itertools.product(*named.values()):
                yield Call([x, *rest], dict(zip(named, kw)), f"{note}, {list(rest)} {list(kw)}")


def said(x):
    """A value in a call's note: of a tensor only dtype and sizes."""
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    return "[" + ", ".join(map(said, x)) + "]" if isinstance(x, (list, tuple)) else repr(x)


def made(*lists, word="", **named):
    """Each combination of the lists' items, and keywords."""
    for args in itertools.product(*lists):
        for kw in itertools.product(*named.values()):
            yield Call(list(args), dict(zip(named, kw)), f"{word}{said(args)} {list(kw)}")


def varied(usual, *others, word="plain ", **named):
    """The usual arguments, then with one of them at a time replaced: `others` has a list for each (a shorter one: the rest stay), or a
    dict of positions that change together; keywords follow, the first value being usual."""
    kw = {k: v[0] for k, v in named.items()}
    yield Call(list(usual), dict(kw), f"{word}{said(usual)}")
    for i, choices in enumerate(others):
        for x in [choices] if isinstance(choices, dict) else [{i: v} for v in choices]:
            args = [x.get(k, a) for k, a in enumerate(usual)]
            yield Call(args, dict(kw), f"{word}{said(args)}")
    for k, choices in named.items():
        for v in choices[1:]:
            yield Call(list(usual), {**kw, k: v}, f"{word}{said(usual)} {k} {v}")


def chained(*generators):
    return itertools.chain(*generators)


BOXES = [(), (0,), (1,), (3,), (2, 0), (2, 3), (1, 3), (2, 1, 3)]


def boxes(shapes=BOXES):
    """Tensors for what only moves values."""
    return [one(torch.float32, s) for s in shapes] + [
        one(d, (2, 3)) for d in (torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool)
    ]
