"""Calls of the edge sweep (edge_calls.py) of layers: products, windows, norms, resampling, and the gradients of rows that have one of
their own. Special values stand in a line of their own each (`rows`), so that one does not hide another."""
import torch
from edge_values import *

F32, F64, I64 = torch.float32, torch.float64, torch.int64
THREE = [torch.float64, torch.float32, torch.bfloat16]


def ints(*x):
    return torch.tensor(x, dtype=torch.int64)


# products -------------------------------------------------------------------------------------------------------------

def sized(*shapes, dtype=F32):
    return [one(dtype, s, i + 1) for i, s in enumerate(shapes)]


# Sizes of the operands of a product of two matrices: usual, without rows, columns or terms, of one, that do not fit.
MATRICES = [((2, 3), (3, 4)), ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((1, 1), (1, 1)), ((2, 3), (2, 3)), ((3,), (3, 2)), ((), (3, 2)), ((2, 3, 1), (3, 4))]
VECTORS = [((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,)), ((2, 3), (2,)), ((1, 1), (1,)), ((3,), (3,)), ((2, 3), (3, 1)), ((), (3,))]
ANY = MATRICES + VECTORS + [((2, 2, 3), (3, 4)), ((2, 2, 3), (2, 3, 1)), ((1, 2, 3), (5, 3, 1)), ((2, 2, 3), (3,)), ((3,), (2, 3, 1)), ((), ()), ((0, 2, 3), (3, 4)), ((2, 2, 3), (3, 3, 1)), ((2, 1, 2, 3), (3, 3, 2))]
BATCHES = [((2, 2, 3), (2, 3, 4)), ((0, 2, 3), (0, 3, 4)), ((2, 0, 3), (2, 3, 4)), ((2, 2, 0), (2, 0, 4)), ((1, 1, 1), (1, 1, 1)), ((2, 2, 3), (1, 3, 4)), ((2, 3), (3, 4)), ((2, 2, 3), (2, 2, 3))]


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
            for q, k in [((1, 2, 3, 2), (1, 2, 3, 2)), ((1, 1, 1, 1), (1, 1, 4, 1)), ((0, 2, 3, 2), (0, 2, 3, 2)), ((1, 2, 0, 2), (1, 2, 3, 2)), ((1, 2, 3, 2), (1, 2, 0, 2)), ((1, 2, 3, 0), (1, 2, 3, 0)),
                         ((1, 2, 3, 2), (1, 2, 3, 4)), ((2, 3, 2), (2, 4, 2)), ((3, 2), (4, 2)), ((2,), (2,)), ((1, 4, 3, 2), (1, 2, 3, 2))]:
                x = [one(d, q), one(d, k, 2), one(d, k, 3)]
                for causal in FLAGS:
                    yield Call([*x, *([0.0, causal] if flash else [None, 0.0, causal])], {}, f"plain {d} {q} {k} {causal}")
            x = [one(d, (1, 2, 3, 2), i) for i in range(3)]
            for scale in (None, 0.0, 1.0, -2.0, inf, nan):
                yield Call(x, {"scale": scale}, f"plain {d} scale {scale}")
            for mask in (torch.zeros(3, 3), torch.full((3, 3), -inf), torch.tensor([[0, -inf, 1.0]] * 3), torch.full((3, 3), nan), torch.zeros(1, 1, 3, 3), torch.zeros(1, 3), torch.zeros(2, 3)):
                yield Call(x, {"attn_mask": mask.to(d)}, f"special {d} {mask.reshape(-1)[:3].tolist()} {list(mask.shape)}")
            for mask in (torch.tensor([[True, False, True]] * 3), torch.zeros(3, 3, dtype=torch.bool), torch.eye(3) == 1):
                yield Call(x, {"attn_mask": mask}, f"special {d} mask {mask.reshape(-1)[:3].tolist()}")
            both = torch.tensor([[0, -inf, 1.0]] * 3).to(d)
            yield Call([*x, 0.0, True] if flash else [*x, both, 0.0, True], {"attn_mask": both} if flash else {}, f"special {d} mask and causal")
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


# windows --------------------------------------------------------------------------------------------------------------

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
    usual = usual[:5 if not (average and rank == 1) else 5]

    def calls():
        other = [lists(KERNELS, rank), lists(STRIDES, rank), lists(PADDINGS, rank)]
        other += [FLAGS, FLAGS] if average else [lists([1, 2, 0, -1], rank), FLAGS]
        both = [{1: [3] * rank, 3: [1] * rank, 2: [2] * rank}, {1: [2] * rank, 2: [3] * rank, (4 if average else 5): True}, {1: [3] * rank, 3: [1] * rank, 5: False if average else True}]
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
            yield Call([planes(d, rank), [1, 1] * rank if rank == 1 else [1, 1] + [1, 0] * (rank - 1)], {}, f"special {d}")
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
            others = [lists([1, 2, 0, -1], rank), lists([0, 1, -1], rank), lists([1, 2, 0], rank), [True], lists([0, 1], rank), [1, 2, 4, 0, 3, -1]]
            both = [{6: True, 3: n(2), 7: n(1)}, {6: True, 4: n(1)}, {6: True, 5: n(2)}, {6: True, 7: n(1)}]
        elif transposed:
            rest, others = [n(1), n(0), n(0), 2, n(1)], [lists([1, 2, 0, -1], rank), lists([0, 1, -1, 3], rank), lists([0, 1], rank), [1, 2, 0, 3], lists([1, 2, 0], rank)]
            both = [{3: n(2), 5: n(1)}]
        else:
            rest = [n(1), "valid" if words else n(0), n(1), 2]
            others = [lists([1, 2, 0, -1], rank), ["same", "valid", "none", ""] if words else lists([0, 1, 2, -1], rank), lists([1, 2, 3, 0], rank), [1, 2, 4, 0, 3, -1]]
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
        for s in image_sizes(rank, 3) + [(1, 4, *[1] * rank), (0, 4, *[3] * rank), (4, *[3] * rank), (1, 4, *[0] * rank), (1, 4, *[3] * (rank - 1), 0)]:
            yield Call([one(F32, s), one(F32, w, 2), None, *rest], {}, f"shapes {s}")
        for s in ((4, 2, *[1] * rank), (0, 2, *[2] * rank), (4, 2, *[0] * rank), (4, 4, *[2] * rank), (4, 2, *[4] * rank), (4, 2), (3, 2, *[2] * rank)):
            yield Call([one(F32, x), one(F32, s, 2), None, *rest], {}, f"shapes weight {s}")
        for s in ((3,), (1,), (4, 1), (), (0,)):
            yield Call([one(F32, x), one(F32, w, 2), one(F32, s), *rest], {}, f"shapes bias {s}")
        for d in (F32, F64):
            yield from varied([*plain(d), *rest], [], [], [], *others, *both)
    return calls


# norms ----------------------------------------------------------------------------------------------------------------

def group_inputs(d):
    """Lines of four channels in two groups: those of the first group's elements are special."""
    x = torch.cat([rows(d), rows(d).flip(0)[:, :1]], 1) if d.is_floating_point else one(d, (7, 4))
    return x.reshape(len(x), 4, 1)


NORM_SHAPES = [(2, 4, 3), (1, 4, 1), (0, 4, 3), (2, 0, 3), (2, 4, 0), (2, 4), (4,), (), (1, 4, 2, 2), (2, 4, 1, 1, 1)]


def weighted(d, n=4):
    return [(None, None), (one(d, (n,), 2), None), (one(d, (n,), 2), one(d, (n,), 3)), (None, one(d, (n,), 3))]


def normed(tail, special=lambda d: rows(d), shapes=((2, 3), (1, 3), (0, 3), (3,), (2, 1), ()), head=lambda x: [[3]], n=3, grads=True):
    """(input, *head, weight, bias?, *tail)"""
    def calls():
        for d in FLOATS + [I64]:
            for w, b in weighted(d, n):
                for t in tail:
                    yield Call([special(d), *head(0), *([w, b] if grads else [w]), *t], {}, f"special {d} {w is not None} {b is not None} {t}")
        for s in shapes:
            for w, b in weighted(F32, n)[:3:2]:
                yield Call([one(F32, s), *head(0), *([w, b] if grads else [w]), *tail[0]], {}, f"shapes {s} {w is not None}")
        for a, b in itertools.permutations((F64, F32, torch.float16, torch.bfloat16), 2):
            yield Call([one(a, shapes[0]), *head(0), *([one(b, (n,)), one(b, (n,))] if grads else [one(b, (n,))]), *tail[0]], {}, f"mixed {a} {b}")
        for wrong in ((1,), (n + 1,), (), (n, 1), (0,)):
            yield Call([one(F32, shapes[0]), *head(0), *([one(F32, wrong), None] if grads else [one(F32, wrong)]), *tail[0]], {}, f"shapes weight {wrong}")
    return calls


def layer_norms():
    yield from normed([[1e-5], [0.0], [1.0], [-1.0], [inf]])()
    for dims in ([], [2], [2, 3], [3, 2], [0], [-1], [3, 1]):
        yield Call([one(F32, (2, 3)), dims, None, None, 1e-5], {}, f"shapes {dims}")


def rms_norms(fused=False):
    def calls():
        yield from normed([[1e-5], [None], [0.0], [1.0]], grads=False)()
        for dims in ([], [2], [2, 3], [0]):
            yield Call([one(F32, (2, 3)), dims, None, None], {}, f"shapes {dims}")
    return calls


def group_norms():
    yield from normed([[1e-5], [0.0], [1.0]], group_inputs, NORM_SHAPES, lambda x: [2], 4)()
    for groups in (1, 4, 3, 0, -1, 8):
        yield Call([one(F32, (2, 4, 3)), groups, None, None, 1e-5], {}, f"plain {groups} groups")


def native_group_norms():
    for d in FLOATS:
        x = group_inputs(d)
        for w, b in weighted(d):
            for eps in (1e-5, 0.0):
                yield Call([x, w, b, len(x), 4, 1, 2, eps], {}, f"special {d} {w is not None} {b is not None} {eps}")
    for s in NORM_SHAPES[:5]:
        for groups in (1, 2, 4, 3, 0):
            yield Call([one(F32, s), None, None, s[0], s[1], s[2], groups, 1e-5], {}, f"shapes {s} {groups}")


def batch_norms(kind):
    """kind: which of the rows."""
    def calls():
        flags = [False] if kind in ("no_training", "update") else FLAGS
        for d in THREE + [torch.float16]:
            for x in (group_inputs(d)[:4], one(d, (2, 4, 3)), one(d, (1, 4, 3)), one(d, (3, 4))):
                for w, b in weighted(d):
                    for train in flags:
                        for eps in (1e-5, 0.0):
                            yield made_norm(kind, x, w, b, one(d, (4,), 2), one(d, (4,), 1).abs(), train, 0.1, eps)
        d = F32
        stats = lambda: (one(d, (4,), 2), one(d, (4,), 1).abs())
        for s in NORM_SHAPES:
            for train in flags:
                yield made_norm(kind, one(d, s), None, None, *stats(), train, 0.1, 1e-5)
        for momentum in (0.0, 1.0, 0.5, inf, nan):
            yield made_norm(kind, one(d, (2, 4, 3)), None, None, *stats(), flags[-1], momentum, 1e-5)
        for bad in ((one(d, (3,)), one(d, (3,))), (one(d, ()), one(d, ())), (one(F64, (4,)), one(F64, (4,)))):
            yield made_norm(kind, one(d, (2, 4, 3)), None, None, *bad, flags[-1], 0.1, 1e-5)
        special = torch.tensor([0.0, inf, nan, -1.0])
        yield made_norm(kind, one(d, (2, 4, 3)), None, None, special, special.abs(), False, 0.1, 1e-5)
        if kind in ("native", "batch", "instance"):
            for train in FLAGS:
                yield made_norm(kind, one(d, (2, 4, 3)), None, None, None, None, train, 0.1, 1e-5)
    return calls


def made_norm(kind, x, w, b, mean, var, train, momentum, eps):
    note = f"plain {said(x)} {w is not None} {b is not None} {train} {momentum} {eps}"
    if kind == "no_training":
        return Call([x, w, b, mean, var, momentum, eps], {}, note)
    if kind == "no_stats":
        return Call([x, w, b, train, momentum, eps], {}, note)
    if kind == "update":
        return Call([x, w, b, mean, var, momentum, eps], {}, note)
    return Call([x, w, b, mean, var, train, momentum, eps] + ([False] if kind in ("batch", "instance") else []), {}, note)


# resampling, distances, windows as columns ----------------------------------------------------------------------------

def resampled(rank, linear=False, vector=False):
    def calls():
        corners = [[f] for f in FLAGS] if linear else [[]]
        for c in corners:
            for d in FLOATS + [torch.uint8, I64]:
                size = [2, 6, 3][:rank]
                yield Call([planes(d, rank), size, *c, *([None] if vector else [])], {}, f"special {d} {c}")
            for s in image_sizes(rank, 3):
                yield Call([one(F32, s), [2] * rank, *c, *([None] if vector else [])], {}, f"shapes {s} {c}")
            for n in (1, 2, 3, 5, 6, 7, 0, -1, 2**40):
                for d in (F64, F32, torch.float16):
                    yield Call([one(d, (1, 2, *[3] * rank)), [n] * rank, *c, *([None] if vector else [])], {}, f"plain {d} {n} {c}")
            for f in (1.0, 2.0, 0.5, 1.7, 0.1, 0.0, -1.0, inf, nan):
                if vector:
                    yield Call([one(F32, (1, 2, *[3] * rank)), None, *c, [f] * rank], {}, f"plain scale {f} {c}")
                else:
                    yield Call([one(F32, (1, 2, *[3] * rank)), [5] * rank, *c, *[f] * rank], {}, f"plain scale {f} {c}")
            if vector:
                yield Call([one(F32, (1, 2, *[3] * rank)), None, *c, None], {}, f"plain neither {c}")
                yield Call([one(F32, (1, 2, *[3] * rank)), [2] * rank, *c, [2.0] * rank], {}, f"plain both {c}")
                yield Call([one(F32, (1, 2, *[3] * rank)), [2] * (rank + 1), *c, None], {}, f"plain sizes {c}")
    return calls


ORDERS = [0.0, 1.0, 2.0, 0.5, 1.5, 3.0, inf, -1.0, nan]


def distances():
    for p in ORDERS:
        for d in (F64, F32):
            yield Call([rows(d), one(d, (2, 3)), p, None], {}, f"special {d} {p}")
            yield Call([one(d, (2, 3)), one(d, (2, 3)), p, None], {}, f"plain {d} {p}")
        for s, t in (((0, 3), (2, 3)), ((2, 0), (2, 0)), ((2, 2, 3), (2, 1, 3)), ((2, 3), (2, 2)), ((3,), (3,)), ((1, 2, 3), (4, 1, 3))):
            yield Call([*sized(s, t), p, None], {}, f"shapes {s} {t} {p}")
    for mode in (0, 1, 2, 3):
        yield Call([rows(F32), one(F32, (2, 3)), 2.0, mode], {}, f"special mode {mode}")


def own_distances():
    for p in ORDERS:
        for d in (F64, F32):
            yield Call([rows(d), p], {}, f"special {d} {p}")
            yield Call([torch.zeros(3, 2, dtype=d), p], {}, f"zeros {d} {p}")
        for s in ((0, 3), (1, 3), (2, 0), (2, 2), (3,), (2, 2, 2)):
            yield Call([one(F32, s), p], {}, f"shapes {s} {p}")


def columns(back=False):
    def calls():
        x = (lambda d: one(d, (1, 8, 4))) if back else (lambda d: one(d, (1, 2, 3, 3)))
        head = [[3, 3]] if back else []
        rest = [*head, [2, 2], [1, 1], [0, 0], [1, 1]]
        for d in FLOATS + [I64, torch.bool]:
            yield Call([x(d), *rest], {}, f"plain {d}")
        if not back:
            for d in FLOATS:
                yield Call([planes(d, 2), [1, 2], [1, 1], [0, 0], [1, 1]], {}, f"special {d}")
        for s in ((8, 4), (0, 8, 4), (1, 8, 0), (1, 0, 4), (1, 6, 4), (4,)) if back else ((2, 3, 3), (0, 2, 3, 3), (1, 0, 3, 3), (1, 2, 0, 3), (1, 1, 1, 1), (3, 3)):
            yield Call([one(F32, s), *rest], {}, f"shapes {s}")
        sizes = [[[3, 3], [4, 4], [0, 3], [-1, 3], [3], [2, 5]]] if back else []
        yield from varied([x(F32), *rest], [], *sizes, [[1, 1], [3, 3], [4, 4], [0, 2], [-1, 1], [2]], [[2, 2], [0, 1], [3, 3]], [[1, 1], [-1, 0], [2, 0]], [[2, 2], [0, 1], [-1, 1]])
    return calls


def grids(back=False):
    def calls():
        at = [0.0, -1.0, 1.0, 0.5, -0.5, 2.0, -3.0, 1e30, nan, inf, -inf, 0.99]
        for d in (F64, F32):
            g = torch.tensor(at, dtype=d)
            grid = torch.stack(torch.broadcast_tensors(g, torch.tensor([0.25, -1.5], dtype=d).reshape(2, 1)), -1).unsqueeze(0)
            for mode, pad, corners in itertools.product((0, 1, 2) if not back else (0, 1), (0, 1, 2), FLAGS):
                x = one(d, (1, 2, 3, 4))
                head = [one(d, (1, 2, 2, len(at)), 3)] if back else []
                yield Call([*head, x, grid, mode, pad, corners, *([[True, True]] if back else [])], {}, f"special {d} {mode} {pad} {corners}")
        if back:
            return
        for s, t in (((1, 2, 3, 3), (1, 0, 2, 2)), ((0, 2, 3, 3), (0, 2, 2, 2)), ((1, 0, 3, 3), (1, 2, 2, 2)), ((1, 2, 0, 3), (1, 2, 2, 2)), ((1, 2, 1, 1), (1, 1, 1, 2)), ((2, 2, 3, 3), (1, 2, 2, 2)), ((1, 2, 3, 3), (1, 2, 2, 3)),
                     ((2, 3, 3), (2, 2, 2)), ((1, 2, 3, 3), (1, 2, 2))):
            yield Call([*sized(s, t), 0, 0, False], {}, f"shapes {s} {t}")
        for mode, pad in ((3, 0), (-1, 0), (0, 3), (0, -1)):
            yield Call([*sized((1, 2, 3, 3), (1, 2, 2, 2)), mode, pad, False], {}, f"plain {mode} {pad}")
        yield Call([one(F32, (1, 2, 3, 3)), one(F64, (1, 2, 2, 2)), 0, 0, False], {}, "mixed grid")
    return calls


def bags(low=True, padding=False):
    """(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)"""
    def calls():
        cut = 9 if low or padding else 8
        none = None if padding else -1
        for d in FLOATS:
            w = one(d, (4, 2))
            w[3] = nan
            for mode in (0, 1, 2):
                for index, offsets, last in (([0, 2, 2, 1], [0, 2], False), ([0, 2, 2, 1], [0, 0, 4], False), ([0, 2, 2, 1], [0, 2, 4], True), ([], [0, 0], False), ([], [], False), ([1], [0], False),
                                             ([0, 4], [0], False), ([0, -1], [0], False), ([0, 1], [1], False), ([0, 1], [0, 3], False), ([0, 1], [0, -1], False), ([3, 0], [0, 1], False), ([1, 1, 1], [0], False), ([0, 1], [0, 1], True)):
                    yield Call([w, ints(*index), ints(*offsets), False, mode, False, None, last, none][:cut], {}, f"plain {d} {mode} {index} {offsets} {last}")
                if cut == 9:
                    for p in (0, 2, -1, -4, 4, -9):
                        yield Call([w, ints(0, 2, 2, 1), ints(0, 2), False, mode, False, None, False, p], {}, f"plain {d} {mode} padding {p}")
                for s in ([1.0, 0.0, nan, -inf], [1.0, 2.0, 3.0]):
                    yield Call([w, ints(0, 2, 2, 1), ints(0, 2), False, mode, False, torch.tensor(s).to(d), False, none][:cut], {}, f"special {d} {mode} weights {s}")
            yield Call([w, ints(0, 2, 2, 1), ints(0, 2), True, 0, False, None, False, none][:cut], {}, f"plain {d} by count")
        yield Call([one(F32, (4, 2)), torch.tensor([0, 1], dtype=torch.int32), ints(0), False, 0, False, None, False, none][:cut], {}, "mixed indices")
        yield Call([one(F32, (4, 2)), ints(0, 1), ints(0), False, 3, False, None, False, none][:cut], {}, "plain mode 3")
        yield Call([one(F32, (4,)), ints(0, 1), ints(0), False, 0, False, None, False, none][:cut], {}, "shapes one dim")
    return calls


# numbers by few steps -------------------------------------------------------------------------------------------------

def quantized(qparams=False, enabled=False, channel=False):
    def calls():
        for d in FLOATS:
            for scale, zero in ((0.1, 0), (1.0, 3), (0.5, -5), (1e-30, 0), (inf, 0), (0.0, 0), (-1.0, 0), (nan, 0), (1.0, 300)):
                for low, high in ((-128, 127), (0, 255), (0, 0), (5, 1)):
                    note = f"special {d} {scale} {zero} {low} {high}"
                    if channel:
                        x = torch.broadcast_to(values(d), (2, len(values(d)))).contiguous()
                        yield Call([x, torch.tensor([scale, 0.25]), torch.tensor([zero, 1], dtype=torch.int32), 0, low, high], {}, note)
                    elif qparams:
                        yield Call([values(d), torch.tensor([scale]), torch.tensor([zero], dtype=torch.int32), *([torch.tensor([1])] if enabled else []), low, high], {}, note)
                    else:
                        yield Call([values(d), scale, zero, low, high], {}, note)
        if channel:
            for axis in (0, 1, -1, 2):
                for n in (2, 3, 0):
                    yield Call([one(F32, (2, 3)), torch.full((n,), 0.5), torch.zeros(n, dtype=torch.int32), axis, 0, 255], {}, f"shapes axis {axis}, {n} scales")
        if enabled:
            yield Call([values(F32), torch.tensor([0.1]), torch.tensor([0], dtype=torch.int32), torch.tensor([0]), 0, 255], {}, "special off")
    return calls


# gradients of rows that have one of their own -------------------------------------------------------------------------

def backward(forward, make):
    """Calls of a backward row for each of the forward's: make(call, results) gives the arguments, or None."""
    def calls():
        for call in forward():
            try:
                with torch.no_grad():
                    args = make(call)
            except Exception:  # the forward refuses the call
                continue
            if args is not None:
                yield Call(args, {}, call.note)
    return calls


def floats_only(call):
    return call.args[0].dtype.is_floating_point


def like_result(x, k=2):
    return one(x.dtype, tuple(x.shape), k)


def by(op, *take):
    """Arguments of a backward that has the forward's, with a gradient of the result in front."""
    def make(call):
        if not floats_only(call):
            return None
        out = op(*call.args, **call.kwargs)
        return [like_result(out[0] if isinstance(out, tuple) else out), *call.args]
    return make


def with_all(call, usual):
    return [*call.args, *usual[len(call.args):]]


A = torch.ops.aten


def max_pool_back(op):
    def make(call):
        out, index = op(*call.args)
        return [like_result(out), *call.args, index] if floats_only(call) else None
    return make


def avg_pool_back(op):
    def make(call):
        out = op(*call.args)
        return [like_result(out), *call.args, *[None][:7 - len(call.args)]] if floats_only(call) else None
    return make


def softmax_back(op):
    def calls():
        for d in FLOATS:
            for dim in DIMS:
                for x in (rows(d), one(d, (2, 3)), one(d, ()), one(d, (0,)), one(d, (2, 0))):
                    try:
                        out = op(x, dim, False)
                    except Exception:
                        out = x
                    yield Call([like_result(x), out, dim, d], {}, f"{'special' if len(x.shape) > 1 and len(x) > 2 else 'plain'} {said(x)} {dim}")
        yield Call([one(F32, (2, 3)), one(F32, (2, 2)), 0, F32], {}, "shapes")
    return calls


def upsample_back(op):
    def make(call):
        x, size, *rest = call.args
        out = op(x, size, *rest)
        return [like_result(out), size, list(x.shape), *rest] if floats_only(call) else None
    return make


def layer_norm_back():
    for d in FLOATS:
        for x in (rows(d), one(d, (2, 3)), one(d, (0, 3)), one(d, (1, 3))):
            for w, b in weighted(d, 3):
                out, mean, rstd = A.native_layer_norm(x, [3], w, b, 1e-5)
                for mask in ([True, True, True], [True, False, False], [False, True, False], [False, False, False]):
                    if (w is None and mask[1]) or (b is None and mask[2]):
                        continue
                    yield Call([like_result(out), x, [3], mean, rstd, w, b, mask], {}, f"{'special' if len(x) > 2 else 'plain'} {said(x)} {w is not None} {b is not None} {mask}")


def group_norm_back():
    for d in FLOATS:
        for x in (group_inputs(d), one(d, (2, 4, 3)), one(d, (0, 4, 3))):
            for w in (None, one(d, (4,), 2)):
                out, mean, rstd = A.native_group_norm(x, w, None, x.shape[0], 4, x.shape[2], 2, 1e-5)
                for mask in ([True, True, True], [True, False, False], [False, True, False]):
                    yield Call([like_result(out), x, mean, rstd, w, x.shape[0], 4, x.shape[2], 2, mask], {}, f"{'special' if len(x) > 2 else 'plain'} {said(x)} {w is not None} {mask}")


def batch_norm_back():
    for d in THREE + [torch.float16]:
        for x in (group_inputs(d)[:4], one(d, (2, 4, 3)), one(d, (1, 4, 1)), one(d, (3, 4))):
            for w in (None, one(d, (4,), 2)):
                for train in FLAGS:
                    mean, var = one(d, (4,), 2), one(d, (4,), 1).abs()
                    try:
                        out, m, r = A.native_batch_norm(x, w, None, mean, var, train, 0.1, 1e-5)
                    except Exception:
                        continue
                    for mask in ([True, True, True], [True, False, False], [False, True, False]):
                        yield Call([like_result(out), x, w, mean, var, m, r, train, 1e-5, mask], {}, f"plain {said(x)} {w is not None} {train} {mask}")


def class_losses_back():
    for d in FLOATS:
        x = torch.tensor([[-1.0, -2.0, -3.0], [-inf, -1.0, nan], [inf, 0.0, -0.5]], dtype=F64).to(d)
        for target in ([0, 1, 2], [-100, -100, -100], [0, -100, 2], [1, 0, 1]):
            for w in (None, [1.0, 0.0, 2.0], [nan, 1.0, inf]):
                for reduction in (0, 1, 2):
                    weight = None if w is None else torch.tensor(w, dtype=F64).to(d)
                    out, total = A.nll_loss_forward(x, torch.tensor(target), weight, reduction, -100)
                    yield Call([like_result(out), x, torch.tensor(target), weight, reduction, -100, total], {}, f"special {d} {target} {w} {reduction}")


def entropy_back():
    for d in FLOATS:
        x = torch.tensor([0.0, 1.0, 0.5, 0.1, 1e-6], dtype=F64).to(d).reshape(-1, 1)
        y = torch.tensor([0.0, 1.0, 0.5, 2.0, -1.0, nan, inf], dtype=F64).to(d)
        x, y = (v.contiguous() for v in torch.broadcast_tensors(x, y))
        for reduction in (0, 1, 2):
            for w in (None, torch.full_like(x, 0.5)):
                yield Call([torch.ones(x.shape if reduction == 0 else (), dtype=d), x, y, w, reduction], {}, f"special {d} {reduction} {w is not None}")


def glu_back():
    for d in FLOATS:
        x = torch.cat([rows(d), rows(d).flip(0)[:, :1]], 1)
        for dim in (-1, 1, 0, 2):
            yield Call([one(d, (13, 2), 2), x, dim], {}, f"special {d} {dim}")
        yield Call([one(d, (0, 2)), one(d, (0, 4)), -1], {}, f"shapes {d}")
    yield Call([one(F32, (2, 3)), one(F32, (2, 4)), -1], {}, "shapes that do not fit")


def prelu_back():
    for d in FLOATS:
        x, w = product(d, 2)
        yield Call([one(d, (len(x), w.shape[1]), 2), *(v.contiguous() for v in torch.broadcast_tensors(x, w))], {}, f"special {d}")
        yield Call([one(d, (0,)), one(d, (0,)), one(d, (0,))], {}, f"shapes {d}")


def attention_back():
    for d in (F64, F32):
        for q, k in (((1, 2, 3, 2), (1, 2, 3, 2)), ((1, 1, 1, 1), (1, 1, 4, 1)), ((2, 2, 3, 2), (2, 2, 5, 2)), ((1, 4, 3, 2), (1, 2, 3, 2))):
            for causal in FLAGS:
                for mask in (None, torch.tensor([0.0, -inf, 1.0, 0.0, 0.0][:k[2]]).expand(q[2], k[2]).contiguous().to(d)):
                    x = [one(d, q), one(d, k, 2), one(d, k, 3)]
                    out, sums = A._scaled_dot_product_flash_attention_for_cpu(*x, 0.0, causal, attn_mask=mask)
                    yield Call([like_result(out), *x, out, sums, 0.0, causal], {"attn_mask": mask}, f"plain {d} {q} {causal} {mask is not None}")


def convolution_back():
    for rank in (1, 2, 3):
        n = lambda v: [v] * rank
        for d in (F64, F32, torch.bfloat16) if rank == 2 else (F32,):
            for v in (None, inf, nan):
                for rest in ([n(1), n(0), n(1), False, n(0), 2], [n(2), n(1), n(1), False, n(0), 2], [n(1), n(0), n(1), True, n(0), 2]):
                    x, w = one(d, (1, 4, *[3] * rank)), one(d, (4, 2, *[2] * rank), 2)
                    if v is not None:
                        x[0, 0].view(-1)[1] = v
                    g = like_result(A.convolution(x, w, None, *rest))
                    for mask in ([True, True, True], [True, False, False], [False, True, False], [False, False, True]):
                        yield Call([g, x, w, [4], *rest, mask], {}, f"{'plain' if v is None else 'special'} {d} {rank} {v} {rest[0]} {rest[3]} {mask}")
    yield Call([one(F32, (0, 4, 2)), one(F32, (0, 4, 3)), one(F32, (4, 2, 2)), [4], [1], [0], [1], False, [0], 2, [True, True, True]], {}, "shapes no images")


def distance_back():
    for p in ORDERS[:7]:
        for d in (F64, F32):
            for x, y in ((rows(d), one(d, (2, 3))), (one(d, (2, 3)), one(d, (2, 3))), (one(d, (0, 3)), one(d, (2, 3))), (one(d, (2, 2, 3)), one(d, (2, 1, 3)))):
                out = A._cdist_forward(x, y, p, None)
                yield Call([like_result(out), x, y, p, out], {}, f"{'special' if len(x) > 2 else 'plain'} {said(x)} {p}")


def own_distance_back():
    for p in ORDERS[:7]:
        for d in (F64, F32):
            for x in (rows(d), one(d, (3, 2)), torch.zeros(3, 2, dtype=d), one(d, (1, 3)), one(d, (0, 3))):
                out = A._pdist_forward(x, p)
                yield Call([like_result(out), x, p, out], {}, f"{'special' if len(x) > 3 else 'plain'} {said(x)} {p}")


def bag_back(row):
    def calls():
        for call in bags()():
            try:
                out, to, size, most = A._embedding_bag(*call.args)
            except Exception:
                continue
            w, index, offsets, freq, mode, sparse, samples, last, padding = call.args
            if row == "samples":
                if mode == 0:
                    yield Call([like_result(out), w, index, offsets, to, mode, padding], {}, call.note)
            elif mode == 2 and samples is not None:
                continue
            elif row == "dense":
                yield Call([like_result(out), index, to, size, most, 4, freq, mode, samples, padding], {}, call.note)
            else:
                yield Call([like_result(out), index, offsets, to, size, most, 4, freq, mode, False, samples, padding], {}, call.note)
    return calls


PER_RANK = {}
for rank in (1, 2, 3):
    PER_RANK |= {
        f"reflection_pad{rank}d": pads(rank), f"replication_pad{rank}d": pads(rank), f"max_pool{rank}d_with_indices": pools(rank), f"max_pool{rank}d": pools(rank),
        f"avg_pool{rank}d": pools(rank, *([None, 3, -1, 0] if rank > 1 else []), average=True), f"adaptive_avg_pool{rank}d": adaptive(rank), f"conv{rank}d": convolutions(rank),
        f"conv{rank}d.padding": convolutions(rank, words=True), "conv_transpose1d" if rank == 1 else f"conv_transpose{rank}d.input": convolutions(rank, transposed=True),
        f"upsample_nearest{rank}d": resampled(rank), f"upsample_nearest{rank}d.vec": resampled(rank, vector=True),
        f"reflection_pad{rank}d_backward": backward(pads(rank), by(getattr(A, f"reflection_pad{rank}d").default)),
        f"replication_pad{rank}d_backward": backward(pads(rank), by(getattr(A, f"replication_pad{rank}d").default)),
        f"upsample_nearest{rank}d_backward": backward(resampled(rank), upsample_back(getattr(A, f"upsample_nearest{rank}d").default)),
    }
    if rank > 1:
        PER_RANK |= {
            f"_adaptive_avg_pool{rank}d": adaptive(rank), f"max_pool{rank}d_with_indices_backward": backward(pools(rank), max_pool_back(getattr(A, f"max_pool{rank}d_with_indices").default)),
            f"avg_pool{rank}d_backward": backward(pools(rank, None, 3, average=True), avg_pool_back(getattr(A, f"avg_pool{rank}d").default)),
            f"_adaptive_avg_pool{rank}d_backward": backward(adaptive(rank), lambda call, op=getattr(A, f"_adaptive_avg_pool{rank}d").default: [like_result(op(*call.args)), call.args[0]] if floats_only(call) else None),
        }

FAMILIES = PER_RANK | {
    "mm": products(MATRICES), "mv": products(VECTORS, lambda d: [rows(d), one(d, (3,), 2)]), "matmul": products(ANY), "linear": products([((2, 3), (4, 3))] + ANY, lambda d: [rows(d), one(d, (2, 3), 2)]),
    "outer": products([((2,), (3,)), ((0,), (3,)), ((1,), (1,)), ((), (3,)), ((2, 1), (3,))], lambda d: [values(d, 1), values(d, 0)]),
    "dot": products([((3,), (3,)), ((0,), (0,)), ((1,), (1,)), ((), ()), ((3,), (2,)), ((3, 1), (3,))], lambda d: [rows(d)[1], one(d, (3,), 2)]),
    "bmm": products(BATCHES, lambda d: [rows(d).unsqueeze(0), one(d, (1, 3, 2), 2)]), "_int_mm": products(MATRICES + [((20, 8), (8, 8)), ((17, 16), (16, 8))]),
    "mm.dtype": products(MATRICES, more=lambda d: [F32]), "bmm.dtype": products(BATCHES, lambda d: [rows(d).unsqueeze(0), one(d, (1, 3, 2), 2)], lambda d: [F32]),
    "addmm": scaled(((2, 3), (3, 4)), [(2, 4), (4,), (), (1, 4), (2, 1), (3,), (1, 2, 4)]), "baddbmm": scaled(((2, 2, 3), (2, 3, 4)), [(2, 2, 4), (4,), (), (2, 1, 4), (3,), (1, 2, 2, 4)]),
    "addmm.dtype": lambda: (Call([one(d, (2, 4)), *sized((2, 3), (3, 4), dtype=d), F32], {}, f"plain {d}") for d in ALL),
    "baddbmm.dtype": lambda: (Call([one(d, (2, 2, 4)), *sized((2, 2, 3), (2, 3, 4), dtype=d), F32], {}, f"plain {d}") for d in ALL),
    "scaled_dot_product_attention": attention(), "_scaled_dot_product_flash_attention_for_cpu": attention(True), "_scaled_dot_product_flash_attention_for_cpu_backward": attention_back,
    "max_pool1d_with_indices": pools(1), "convolution": lambda: chained(convolutions(2, low=True)(), convolutions(1, low=True)()), "convolution_backward": convolution_back,
    "layer_norm": layer_norms, "rms_norm": rms_norms(), "_fused_rms_norm": rms_norms(True), "group_norm": group_norms, "native_group_norm": native_group_norms,
    "_native_batch_norm_legit_no_training": batch_norms("no_training"), "_native_batch_norm_legit.no_stats": batch_norms("no_stats"), "_native_batch_norm_legit": batch_norms("legit"),
    "_native_batch_norm_legit_functional": batch_norms("legit"), "native_batch_norm": batch_norms("native"), "_batch_norm_with_update": batch_norms("update"), "batch_norm": batch_norms("batch"),
    "instance_norm": batch_norms("instance"), "native_layer_norm_backward": layer_norm_back, "native_group_norm_backward": group_norm_back, "native_batch_norm_backward": batch_norm_back,
    "upsample_linear1d": resampled(1, True), "upsample_linear1d.vec": resampled(1, True, True), "upsample_bilinear2d": resampled(2, True), "upsample_bilinear2d.vec": resampled(2, True, True),
    "upsample_linear1d_backward": backward(resampled(1, True), upsample_back(A.upsample_linear1d.default)), "upsample_bilinear2d_backward": backward(resampled(2, True), upsample_back(A.upsample_bilinear2d.default)),
    "_cdist_forward": distances, "_pdist_forward": own_distances, "_cdist_backward": distance_back, "_pdist_backward": own_distance_back, "im2col": columns(), "col2im": columns(True),
    "grid_sampler_2d": grids(), "grid_sampler": grids(), "grid_sampler_2d_backward": grids(True), "_embedding_bag": bags(), "_embedding_bag_forward_only": bags(), "embedding_bag": bags(False),
    "embedding_bag.padding_idx": bags(False, True), "_embedding_bag_backward": bag_back("whole"), "_embedding_bag_dense_backward": bag_back("dense"), "_embedding_bag_per_sample_weights_backward": bag_back("samples"),
    "fake_quantize_per_tensor_affine": quantized(), "fake_quantize_per_tensor_affine.tensor_qparams": quantized(True), "fake_quantize_per_channel_affine": quantized(channel=True),
    "fake_quantize_per_tensor_affine_cachemask": quantized(), "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": quantized(True, True), "fake_quantize_per_channel_affine_cachemask": quantized(channel=True),
    "_softmax_backward_data": softmax_back(A._softmax.default), "_log_softmax_backward_data": softmax_back(A._log_softmax.default), "nll_loss_backward": class_losses_back,
    "binary_cross_entropy_backward": entropy_back, "glu_backward": glu_back, "_prelu_kernel_backward": prelu_back,
    "norm.ScalarOpt_dim": lambda: over([0, 1, 2, inf, -inf, 0.5, None], [[0], [-1], [], [0, 0], [2]], dtypes=FLOATS), "norm.ScalarOpt_dtype": lambda: over([0, 2, inf, 0.5, None], dtypes=FLOATS + [I64], dtype=[F32, F64]),
    "norm.ScalarOpt_dim_dtype": lambda: over([0, 1, 2, inf, None], [[0], [-1], []], [False], dtypes=FLOATS, dtype=[F64]),
}
