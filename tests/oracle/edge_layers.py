"""Calls of the edge sweep (edge_calls.py) of layers: products, attention, pads, pools and convolutions. Special values stand in a
line of their own each (`rows`), so that one does not hide another."""

import torch
from edge_values import *

F32, F64, I64 = torch.float32, torch.float64, torch.int64

THREE = [torch.float64, torch.float32, torch.bfloat16]


def ints(*x):
    return torch.tensor(x, dtype=torch.int64)


def sized(*shapes, dtype=F32):
    return [one(dtype, s, i + 1) for i, s in enumerate(shapes)]


MATRICES = [
    ((2, 3), (3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (3, 0)),
    ((1, 1), (1, 1)),
    ((2, 3), (2, 3)),
    ((3,), (3, 2)),
    ((), (3, 2)),
    ((2, 3, 1), (3, 4)),
]


VECTORS = [
    ((2, 3), (3,)),
    ((0, 3), (3,)),
    ((2, 0), (0,)),
    ((2, 3), (2,)),
    ((1, 1), (1,)),
    ((3,), (3,)),
    ((2, 3), (3, 1)),
    ((), (3,)),
]


ANY = (
    MATRICES
    + VECTORS
    + [
        ((2, 2, 3), (3, 4)),
        ((2, 2, 3), (2, 3, 1)),
        ((1, 2, 3), (5, 3, 1)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 1)),
        ((), ()),
        ((0, 2, 3), (3, 4)),
        ((2, 2, 3), (3, 3, 1)),
        ((2, 1, 2, 3), (3, 3, 2)),
    ]
)


BATCHES = [
    ((2, 2, 3), (2, 3, 4)),
    ((0, 2, 3), (0, 3, 4)),
    ((2, 0, 3), (2, 3, 4)),
    ((2, 2, 0), (2, 0, 4)),
    ((1, 1, 1), (1, 1, 1)),
    ((2, 2, 3), (1, 3, 4)),
    ((2, 3), (3, 4)),
    ((2, 2, 3), (2, 2, 3)),
]


def products(shapes, by_rows=lambda d: [rows(d), one(d, (3, 2), 2)], more=lambda d: []):
    def calls():
        for d in ALL:
            if d != torch.bool:
                yield Call([*by_rows(d), *more(d)], {}, f"special {d}")
            yield Call([*sized(*shapes[0], dtype=d), *more(d)], {}, f"plain {d}")
        for pair in shapes:
            yield Call([*sized(*pair), *more(F32)], {}, f"shapes {pair}")
        for a, b in itertools.permutations(MIXED, 2):
            yield Call([one(a, shapes[0][0]), one(b, shapes[0][1], 2), *more(a)], {}, f"mixed {a} {b}")
        for x, y in ((0.0, inf), (inf, 0.0), (nan, 0.0), (1e30, 1e30), (-inf, inf), (-0.0, 1.0)):
            a, b = sized(*shapes[0])
            yield Call([torch.full_like(a, x), torch.full_like(b, y), *more(F32)], {}, f"special {x} times {y}")

    return calls


def scaled(pair, sizes, numbers=(1, 0, 2, -1, 0.5, inf, nan, True)):
    """(self, mat1, mat2, *, beta, alpha)"""

    def calls():
        for d in ALL:
            a, b = sized(*pair, dtype=d)
            for s in sizes:
                yield Call([one(d, s, 3), a, b], {}, f"plain {d} {s}")
            for v in numbers:
                yield Call([one(d, sizes[0], 3), a, b], {"beta": v}, f"plain {d} beta {v}")
                yield Call([one(d, sizes[0], 3), a, b], {"alpha": v}, f"plain {d} alpha {v}")
        for d in FLOATS:
            a, b = sized(*pair, dtype=d)
            for v in (nan, inf, -0.0):
                yield Call([torch.full_like(one(d, sizes[0]), v), a, b], {"beta": 0}, f"special {d} {v} times beta 0")
                yield Call([one(d, sizes[0]), torch.full_like(a, v), b], {"alpha": 0}, f"special {d} {v} times alpha 0")
                yield Call([torch.full_like(one(d, sizes[0]), v), a, b], {}, f"special {d} {v}")
        for a, b, c in itertools.permutations((F64, F32, torch.float16, I64), 3):
            yield Call([one(a, sizes[0]), one(b, pair[0]), one(c, pair[1])], {}, f"mixed {a} {b} {c}")
        for wrong in MATRICES if len(pair[0]) == 2 else BATCHES:
            yield Call([one(F32, ()), *sized(*wrong)], {}, f"shapes {wrong}")
            yield Call([one(F32, ()), *sized(*wrong)], {"beta": 0}, f"shapes {wrong} beta 0")

    return calls


def attention(flash=False):
    def calls():
        for d in THREE:
            for q, k in [
                ((1, 2, 3, 2), (1, 2, 3, 2)),
                ((1, 1, 1, 1), (1, 1, 4, 1)),
                ((0, 2, 3, 2), (0, 2, 3, 2)),
                ((1, 2, 0, 2), (1, 2, 3, 2)),
                ((1, 2, 3, 2), (1, 2, 0, 2)),
                ((1, 2, 3, 0), (1, 2, 3, 0)),
                ((1, 2, 3, 2), (1, 2, 3, 4)),
                ((2, 3, 2), (2, 4, 2)),
                ((3, 2), (4, 2)),
                ((2,), (2,)),
                ((1, 4, 3, 2), (1, 2, 3, 2)),
            ]:
                x = [one(d, q), one(d, k, 2), one(d, k, 3)]
                for causal in FLAGS:
                    yield Call(
                        [*x, *([0.0, causal] if flash else [None, 0.0, causal])], {}, f"plain {d} {q} {k} {causal}"
                    )
            x = [one(d, (1, 2, 3, 2), i) for i in range(3)]
            for scale in (None, 0.0, 1.0, -2.0, inf, nan):
                yield Call(x, {"scale": scale}, f"plain {d} scale {scale}")
            for mask in (
                torch.zeros(3, 3),
                torch.full((3, 3), -inf),
                torch.tensor([[0, -inf, 1.0]] * 3),
                torch.full((3, 3), nan),
                torch.zeros(1, 1, 3, 3),
                torch.zeros(1, 3),
                torch.zeros(2, 3),
            ):
                yield Call(
                    x, {"attn_mask": mask.to(d)}, f"special {d} {mask.reshape(-1)[:3].tolist()} {list(mask.shape)}"
                )
            for mask in (
                torch.tensor([[True, False, True]] * 3),
                torch.zeros(3, 3, dtype=torch.bool),
                torch.eye(3) == 1,
            ):
                yield Call(x, {"attn_mask": mask}, f"special {d} mask {mask.reshape(-1)[:3].tolist()}")
            both = torch.tensor([[0, -inf, 1.0]] * 3).to(d)
            yield Call(
                [*x, 0.0, True] if flash else [*x, both, 0.0, True],
                {"attn_mask": both} if flash else {},
                f"both {d} mask and causal",
            )
            if not flash:
                yield Call([*x, torch.zeros(3, 3).to(d), 0.0, True], {}, f"plain {d} mask and causal")
                yield Call([one(d, (1, 4, 3, 2)), *x[1:]], {"enable_gqa": True}, f"plain {d} groups")
                yield Call([one(d, (1, 3, 3, 2)), *x[1:]], {"enable_gqa": True}, f"plain {d} groups that do not fit")
            for v in (inf, nan, -inf, 1e30):
                y = [t.clone() for t in x]
                y[1][0, 0, 1, 0] = v
                yield Call(y, {}, f"special {d} key {v}")
                yield Call([x[0], x[1], torch.full_like(x[2], v)], {}, f"special {d} value {v}")

    return calls


# windows ---


def planes(d, rank):
    """rows as channels of an image of `rank` dims."""
    x = rows(d)
    for _ in range(rank - 1):
        x = torch.stack([x, x.roll(1, 0)], 1)
    return x.unsqueeze(0)


def image_sizes(rank, wide=4):
    s = (wide,) * rank
    return [(1, 2, *s), (2, *s), (0, 2, *s), (1, 0, *s), (1, 2, *s[1:], 0), (1, 1, *[1] * rank), s, (1, 2, *s, 2)]


KERNELS = [2, 1, 3, 0, -1, 5, [], [2, 2, 2, 2]]


STRIDES = [[], 1, 2, 0, -1, 5]


PADDINGS = [0, 1, 2, -1, 3]


def lists(values, rank):
    """Numbers as lists of the schema's length."""
    return [v if isinstance(v, list) else [v] * rank for v in values]


def pools(rank, *more, average=False):
    """(self, kernel, stride, padding, dilation | ceil, ...)"""
    usual = [[2] * rank, [], [0] * rank] + ([False, True] if average else [[1] * rank, False])
    usual = usual[: 5 if not (average and rank == 1) else 5]

    def calls():
        other = [lists(KERNELS, rank), lists(STRIDES, rank), lists(PADDINGS, rank)]
        other += [FLAGS, FLAGS] if average else [lists([1, 2, 0, -1], rank), FLAGS]
        both = [
            {1: [3] * rank, 3: [1] * rank, 2: [2] * rank},
            {1: [2] * rank, 2: [3] * rank, (4 if average else 5): True},
            {1: [3] * rank, 3: [1] * rank, 5: False if average else True},
        ]
        for d in FLOATS + [I64, torch.uint8, torch.bool]:
            yield Call([planes(d, rank), *usual], {}, f"special {d}")
            yield Call([planes(d, rank), [1] * rank, *usual[1:]], {}, f"special {d} by ones")
        for s in image_sizes(rank):
            yield Call([one(F32, s), *usual], {}, f"shapes {s}")
        for d in (F32, F64, torch.float16):
            yield from varied([one(d, (1, 2, *[4] * rank)), *usual], [], *other, *both)
        for divisor in more:
            for d in (F32, I64):
                yield Call([one(d, (1, 2, *[4] * rank)), *usual, divisor], {}, f"plain {d} divisor {divisor}")

    return calls


def adaptive(rank):
    def calls():
        for d in FLOATS + [I64]:
            yield Call([planes(d, rank), [2] * rank], {}, f"special {d}")
        for s in image_sizes(rank):
            yield Call([one(F32, s), [2] * rank], {}, f"shapes {s}")
        for n in (1, 2, 3, 4, 7, 0, -1, 2**40):
            for d in (F64, F32, torch.float16):
                yield Call([one(d, (1, 2, *[4] * rank)), [n] * rank], {}, f"plain {d} {n}")

    return calls


def pads(rank):
    def calls():
        for d in FLOATS + [I64, torch.bool]:
            yield Call(
                [planes(d, rank), [1, 1] * rank if rank == 1 else [1, 1] + [1, 0] * (rank - 1)], {}, f"special {d}"
            )
        for s in image_sizes(rank, 3):
            yield Call([one(F32, s), [1, 1] * rank], {}, f"shapes {s}")
        for p in ([0, 0], [2, 2], [3, 0], [-1, 0], [-1, 1], [-3, 0], [-2, -1], [5, 5], [0, 2]):
            for d in (F64, F32, torch.float16):
                yield Call([one(d, (1, 2, *[3] * rank)), p + [0, 0] * (rank - 1)], {}, f"plain {d} {p}")
                yield Call([one(d, (1, 2, *[3] * rank)), p * rank], {}, f"plain {d} {p} all")
        for p in ([], [1], [1] * (2 * rank + 2), [1] * (2 * rank - 1)):
            yield Call([one(F32, (1, 2, *[3] * rank)), p], {}, f"plain {p}")

    return calls


def convolutions(rank, transposed=False, words=False, low=False):
    """conv and conv_transpose of a rank; `low`: aten::convolution."""

    def calls():
        n = lambda v: [v] * rank
        x, w = (1, 4, *[3] * rank), (4, 2, *[2] * rank)
        plain = lambda d: [one(d, x), one(d, w, 2), None]
        if low:
            rest = [n(1), n(0), n(1), False, n(0), 2]
            others = [
                lists([1, 2, 0, -1], rank),
                lists([0, 1, -1], rank),
                lists([1, 2, 0], rank),
                [True],
                lists([0, 1], rank),
                [1, 2, 4, 0, 3, -1],
            ]
            both = [{6: True, 3: n(2), 7: n(1)}, {6: True, 4: n(1)}, {6: True, 5: n(2)}, {6: True, 7: n(1)}]
        elif transposed:
            rest, others = [n(1), n(0), n(0), 2, n(1)], [
                lists([1, 2, 0, -1], rank),
                lists([0, 1, -1, 3], rank),
                lists([0, 1], rank),
                [1, 2, 0, 3],
                lists([1, 2, 0], rank),
            ]
            both = [{3: n(2), 5: n(1)}]
        else:
            rest = [n(1), "valid" if words else n(0), n(1), 2]
            others = [
                lists([1, 2, 0, -1], rank),
                ["same", "valid", "none", ""] if words else lists([0, 1, 2, -1], rank),
                lists([1, 2, 3, 0], rank),
                [1, 2, 4, 0, 3, -1],
            ]
            both = [{4: "same", 5: n(2)}, {4: "same", 3: n(2)}] if words else [{3: n(2), 4: n(1)}]
        for d in FLOATS + [I64, torch.uint8]:
            yield Call([*plain(d), *rest], {}, f"plain {d}")
            yield Call([*plain(d)[:2], one(d, (4,), 3), *rest], {}, f"plain {d} bias")
        for d in THREE:
            for v in (inf, nan, -0.0, 1e30):
                a, b = plain(d)[:2]
                a[0, 0].view(-1)[1] = v
                yield Call([a, b, None, *rest], {}, f"special {d} {v}")
                a, b = plain(d)[:2]
                b[0, 0].view(-1)[0] = v
                yield Call([a, b, torch.tensor([v, 0.0, 1.0, -0.0], dtype=d), *rest], {}, f"special {d} weight {v}")
        for a, b in itertools.permutations((F64, F32, torch.float16, I64), 2):
            yield Call([one(a, x), one(b, w), None, *rest], {}, f"mixed {a} {b}")
            yield Call([one(a, x), one(a, w), one(b, (4,)), *rest], {}, f"mixed {a} bias {b}")
        for s in image_sizes(rank, 3) + [
            (1, 4, *[1] * rank),
            (0, 4, *[3] * rank),
            (4, *[3] * rank),
            (1, 4, *[0] * rank),
            (1, 4, *[3] * (rank - 1), 0),
        ]:
            yield Call([one(F32, s), one(F32, w, 2), None, *rest], {}, f"shapes {s}")
        for s in (
            (4, 2, *[1] * rank),
            (0, 2, *[2] * rank),
            (4, 2, *[0] * rank),
            (4, 4, *[2] * rank),
            (4, 2, *[4] * rank),
            (4, 2),
            (3, 2, *[2] * rank),
        ):
            yield Call([one(F32, x), one(F32, s, 2), None, *rest], {}, f"shapes weight {s}")
        for s in ((3,), (1,), (4, 1), (), (0,)):
            yield Call([one(F32, x), one(F32, w, 2), one(F32, s), *rest], {}, f"shapes bias {s}")
        for d in (F32, F64):
            yield from varied([*plain(d), *rest], [], [], [], *others, *both)

    return calls


PER_RANK = {}
for rank in (1, 2, 3):
    PER_RANK |= {
        f"reflection_pad{rank}d": pads(rank),
        f"replication_pad{rank}d": pads(rank),
        f"max_pool{rank}d_with_indices": pools(rank),
        f"max_pool{rank}d": pools(rank),
        f"avg_pool{rank}d": pools(rank, *([None, 3, -1, 0] if rank > 1 else []), average=True),
        f"adaptive_avg_pool{rank}d": adaptive(rank),
        f"adaptive_max_pool{rank}d": adaptive(rank),
        f"conv{rank}d": convolutions(rank),
        f"conv{rank}d.padding": convolutions(rank, words=True),
        "conv_transpose1d" if rank == 1 else f"conv_transpose{rank}d.input": convolutions(rank, transposed=True),
    }
    if rank > 1:
        PER_RANK |= {f"_adaptive_avg_pool{rank}d": adaptive(rank)}



def pads_of_modes():
    """(self, pad, mode, value): constant, reflect, replicate, circular, and none."""
    for mode in (0, 1, 2, 3, 4, -1):
        for rank in (1, 2, 3):
            for call in pads(rank)():
                if mode < 4 or call.note.startswith("plain"):
                    yield Call([*call.args, mode, None], {}, f"{call.note} {mode}")
        for value in (0.0, 1.5, nan):
            yield Call([one(F32, (1, 2, 3)), [1, 1], mode, value], {}, f"special value {value} {mode}")


FAMILIES = PER_RANK | {
    "_pad_enum": pads_of_modes,
    "_pad_circular": lambda: chained(pads(1)(), pads(2)(), pads(3)()),
    "mm": products(MATRICES),
    "mv": products(VECTORS, lambda d: [rows(d), one(d, (3,), 2)]),
    "matmul": products(ANY),
    "linear": products([((2, 3), (4, 3))] + ANY, lambda d: [rows(d), one(d, (2, 3), 2)]),
    "outer": products(
        [((2,), (3,)), ((0,), (3,)), ((1,), (1,)), ((), (3,)), ((2, 1), (3,))], lambda d: [values(d, 1), values(d, 0)]
    ),
    "dot": products(
        [((3,), (3,)), ((0,), (0,)), ((1,), (1,)), ((), ()), ((3,), (2,)), ((3, 1), (3,))],
        lambda d: [rows(d)[1], one(d, (3,), 2)],
    ),
    "bmm": products(BATCHES, lambda d: [rows(d).unsqueeze(0), one(d, (1, 3, 2), 2)]),
    "_int_mm": products(MATRICES + [((20, 8), (8, 8)), ((17, 16), (16, 8))]),
    "mm.dtype": products(MATRICES, more=lambda d: [F32]),
    "bmm.dtype": products(BATCHES, lambda d: [rows(d).unsqueeze(0), one(d, (1, 3, 2), 2)], lambda d: [F32]),
    "addmm": scaled(((2, 3), (3, 4)), [(2, 4), (4,), (), (1, 4), (2, 1), (3,), (1, 2, 4)]),
    "baddbmm": scaled(((2, 2, 3), (2, 3, 4)), [(2, 2, 4), (4,), (), (2, 1, 4), (3,), (1, 2, 2, 4)]),
    "addmm.dtype": lambda: (
        Call([one(d, (2, 4)), *sized((2, 3), (3, 4), dtype=d), F32], {}, f"plain {d}") for d in ALL
    ),
    "baddbmm.dtype": lambda: (
        Call([one(d, (2, 2, 4)), *sized((2, 2, 3), (2, 3, 4), dtype=d), F32], {}, f"plain {d}") for d in ALL
    ),
    "scaled_dot_product_attention": attention(),
    "_scaled_dot_product_flash_attention_for_cpu": attention(True),
    "max_pool1d_with_indices": pools(1),
    "convolution": lambda: chained(convolutions(2, low=True)(), convolutions(1, low=True)()),
    "norm.ScalarOpt_dim": lambda: over([0, 1, 2, inf, -inf, 0.5, None], [[0], [-1], [], [0, 0], [2]], dtypes=FLOATS),
    "norm.ScalarOpt_dtype": lambda: over([0, 2, inf, 0.5, None], dtypes=FLOATS + [I64], dtype=[F32, F64]),
    "norm.ScalarOpt_dim_dtype": lambda: over(
        [0, 1, 2, inf, None], [[0], [-1], []], [False], dtypes=FLOATS, dtype=[F64]
    ),
}
