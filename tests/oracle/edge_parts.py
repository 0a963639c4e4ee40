"""Calls of the edge sweep (edge_calls.py) of what is made of other ops: parts and lists of tensors, positions, indices, products by
name, steps of optimizers."""

import torch
from edge_layers import F32, F64, I64, ints, products, scaled, sized
from edge_norms import distances
from edge_values import *
from edge_views import index_lists, of

SOME = [F64, F32, torch.float16, I64, torch.int8, torch.bool]


def lists_of_tensors():
    for d in SOME:
        yield [one(d, (2,)), one(d, (3,), 2)], f"plain {d}"
    for s, t in (((), (3,)), ((0,), (3,)), ((2, 1), (3,)), ((2, 3), (3,)), ((2, 3), (2, 2)), ((), ()), ((1,), (0,)), ((2, 0), (1, 1))):
        yield [one(F32, s), one(F32, t, 2)], f"shapes {s} {t}"
    yield [one(F32, (2,)), one(I64, (2,), 2)], "mixed float32 int64"
    yield [one(torch.float16, (2,)), one(F32, (1,), 2)], "mixed float16 float32"
    yield [one(F32, (2,))], "plain one"
    yield [one(F32, (2, 3)).t(), one(F32, (3, 2), 2)], "plain turned"
    yield [values(F32), one(F32, (1,))], "special"
    yield [], "plain none"


def of_lists(**named):
    def calls():
        for xs, note in lists_of_tensors():
            for kw in itertools.product(*named.values()):
                yield Call([list(xs)], dict(zip(named, kw)), f"{note} {list(kw)}")

    return calls


def stacked():
    """(tensors) of vstack: those of fewer dims become rows."""
    yield from of_lists()()
    for s, t in (((3,), (2, 3)), ((2, 3), (4, 3)), ((0,), (2, 3)), ((0, 3), (2, 3)), ((), (1, 1)), ((2, 2, 3), (1, 2, 3)), ((3,), (2,))):
        yield Call([sized(s, t)], {}, f"shapes {s} {t}")


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i", (3,), (3,)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 1)),
    ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
    ("...,...", (2, 3), (3,)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ii->i", (2, 3)),
    ("ij->ji", (2, 3)),
    ("ij->j", (2, 3)),
    ("ij->", (2, 3)),
    ("", ()),
    (",", (), ()),
    ("->", ()),
    ("i->i", (0,)),
    ("i,i->", (0,), (0,)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,jk->ik", (2, 2), (3, 4)),
    ("i j , j k -> i k", (2, 3), (3, 4)),
    ("iJ,Jk->ik", (2, 3), (3, 4)),
    ("ij,jk->il", (2, 3), (3, 4)),
    ("ij,jk->ii", (2, 3), (3, 4)),
    ("ij", (2, 3), (3, 4)),
    ("ijk", (2, 3)),
    ("i.j", (2, 3)),
    ("i1,1j", (2, 3), (3, 4)),
    ("ij,jk-ik", (2, 3), (3, 4)),
    ("...i->...", (2, 3)),
    ("i...->...i", (2, 3)),
    ("i...", (3,)),
    ("bn,anm,bm->ba", (2, 3), (2, 3, 2), (2, 2)),
    ("ij,ik,il->jkl", (2, 2), (2, 3), (2, 1)),
]


def equations():
    for text, *shapes in EQUATIONS:
        for d in (F64, F32, torch.float16, I64):
            yield Call([text, sized(*shapes, dtype=d)], {}, f"plain {d} {text} {shapes}")
    for d in FLOATS:
        yield Call(["ij,jk->ik", [rows(d), one(d, (3, 2), 2)]], {}, f"special {d} rows")
        yield Call(["ij->j", [rows(d)]], {}, f"special {d} sums")
        yield Call(["ij,j->ij", [rows(d), one(d, (3,), 2)]], {}, f"special {d} each")
    for a, b in itertools.permutations((F64, F32, torch.float16, I64), 2):
        yield Call(["ij,jk->ik", [one(a, (2, 3)), one(b, (3, 4), 2)]], {}, f"mixed {a} {b}")
    yield Call(["ij->ij", []], {}, "plain none")


def sorted_rows(d):
    """Ascending special values."""
    return values(d, 1).sort()[0]


SEARCHES = dict(out_int32=FLAGS, right=FLAGS)


def searches(number=False, buckets=False):
    """searchsorted (sorted_sequence, self), bucketize (self, boundaries)."""

    def placed(sequence, x, kw, note):
        return Call([x, sequence] if buckets else [sequence, x], kw, note)

    def calls():
        for d in ALL:
            if d == torch.bool:
                continue
            for right in FLAGS:
                for x in NUMBERS if number else [values(d), values(d, 0).reshape(-1, 1)]:
                    yield placed(sorted_rows(d), x, {"right": right}, f"special {d} {said(x)} {right}")
        some = [2, 2.5, nan, -inf] if number else [one(F32, s) for s in ((), (3,), (0,), (2, 2), (2, 3))]
        for x in some:
            for s in ((0,), (1,), (4,), (2, 4), (2, 0), (3, 4), ()):
                for kw in ({"out_int32": True}, {"right": True}):
                    yield placed(one(F32, s).sort()[0], x, dict(kw), f"plain {s} {said(x)} {kw}")
        if not number:
            for a, b in itertools.permutations((F64, F32, torch.float16, I64, torch.uint8), 2):
                yield placed(sorted_rows(a), values(b), {}, f"mixed {a} {b}")
        if buckets:
            return
        x = 2.5 if number else one(F32, (3,))
        for side in ("left", "right", "middle"):
            for right in FLAGS:
                yield placed(torch.tensor([1.0, 2.0, 3.0]), x, {"side": side, "right": right}, f"plain side {side} {right}")
        for sorter in (ints(2, 0, 1), ints(0, 1), ints(0, 1, 3), ints(0, -1, 1), torch.tensor([2, 0, 1], dtype=torch.int32), torch.tensor([0.0, 1, 2])):
            yield placed(torch.tensor([2.0, 3.0, 1.0]), x, {"sorter": sorter}, f"plain sorter {sorter.tolist()}")

    return calls


def hot():
    for x in (ints(0, 2, 1), ints(), torch.tensor(2), ints(0, 0).reshape(2, 1), ints(-1), ints(5), torch.zeros(2, 0, dtype=I64)):
        for n in (-1, 3, 1, 0, -2, 6):
            yield Call([x, n], {}, f"plain {said(x)} {x.tolist()} {n}")
    for d in (torch.int32, torch.uint8, torch.bool, F32):
        yield Call([torch.ones(2, dtype=d), 3], {}, f"mixed {d}")


COUNTS = [ints(1, 2), ints(0, 3), ints(0, 0), ints(2), ints(), torch.tensor(2), ints(1, -1), torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1.0, 2.0]), torch.tensor([[1, 2]])]


def repeats():
    for n in COUNTS:
        for size in (None, int(n.sum()), 7, -1, 0):
            yield Call([n], {"output_size": size}, f"plain {said(n)} {n.tolist()} {size}")


def repeated(counts):
    """(self, repeats, dim)"""
    for x in [one(d, (2, 3)) for d in SOME] + [one(F32, s) for s in ((), (0,), (2,), (2, 0), (1, 2))] + [one(F32, (3, 2)).t()]:
        for n in counts:
            for dim in (None, 0, 1, -1, 2):
                yield Call([x, n, dim], {}, f"plain {said(x)} {said(n)} {n.tolist() if isinstance(n, torch.Tensor) else n} {dim}")
    yield Call([values(F32), counts[0] if not isinstance(counts[0], torch.Tensor) else ints(2), None], {}, "special")
    for size in (6, 5, 0):
        yield Call([one(F32, (2, 3)), counts[0], 0], {"output_size": size}, f"plain output_size {size}")


def index_reduced():
    """(self, dim, index, source, reduce)"""
    for reduce in ("prod", "mean", "amax", "amin", "sum"):
        for include in FLAGS:
            for d in MIXED:
                yield Call([one(d, (3, 2)), 0, ints(0, 2, 2), one(d, (3, 2), 2), reduce], {"include_self": include}, f"plain {d} {reduce} {include}")
            for d in FLOATS:
                x = values(d, 0)
                yield Call([x, 0, torch.arange(len(x)), x.roll(1), reduce], {"include_self": include}, f"special {d} {reduce} {include}")
                yield Call([torch.zeros(2, dtype=d), 0, torch.zeros(len(x), dtype=I64), x, reduce], {"include_self": include}, f"special {d} {reduce} {include} all")
        for s, dim, index, t in [
            ((3, 2), 1, ints(1, 1), (3, 2)),
            ((), 0, ints(0), (1,)),
            ((), 0, torch.tensor(0), ()),
            ((0, 2), 0, ints(), (0, 2)),
            ((3,), 0, ints(3), (1,)),
            ((3,), 0, ints(-1), (1,)),
            ((3,), 1, ints(0), (1,)),
            ((3, 2), -1, ints(0, 0), (3, 2)),
            ((3, 2), 0, ints(0), (2, 2)),
            ((3, 2), 0, ints(0), (1, 3)),
            ((2, 0), 0, ints(1, 1), (2, 0)),
        ]:
            yield Call([one(F32, s), dim, index, one(F32, t, 2), reduce], {}, f"shapes {s} {dim} {index.tolist()} {t} {reduce}")
    yield Call([torch.ones(3), 0, ints(0), torch.ones(1, dtype=F64), "prod"], {}, "mixed source")
    yield Call([torch.ones(3), 0, torch.tensor([0], dtype=torch.int32), torch.ones(1), "prod"], {}, "mixed index")


def index_copies():
    """(self, dim, index, source)"""
    for d in MIXED:
        for at in index_lists():
            yield Call([one(d, (3, 2)), 0, at, one(d, (at.numel(), 2), 2)], {}, f"plain {d} {at.tolist()}")
    for s, dim, at, t in [
        ((), 0, ints(0), (1,)),
        ((), 0, torch.tensor(0), ()),
        ((3,), 0, torch.tensor(1), ()),
        ((0,), 0, ints(), (0,)),
        ((2, 0), 0, ints(1), (1, 0)),
        ((3, 2), -1, ints(1), (3, 1)),
        ((3, 2), 2, ints(1), (3, 1)),
        ((3, 2), 0, ints(1), (2, 2)),
        ((3, 2), 0, ints(1), (1, 3)),
        ((3, 2), 0, ints(1), (2,)),
    ]:
        yield Call([one(F32, s), dim, at, one(F32, t, 2)], {}, f"shapes {s} {dim} {at.tolist()} {t}")
    yield Call([one(F32, (3, 2)).t(), 1, ints(2, 0), one(F32, (2, 2), 2)], {}, "plain turned")
    yield Call([torch.zeros(3), 0, ints(0), torch.ones(1, dtype=F64)], {}, "mixed source")
    yield Call([torch.zeros(3), 0, ints(0, 1, 2), torch.tensor([nan, -0.0, inf])], {}, "special")


def index_fills(tensor=False):
    given = (lambda v, d: torch.tensor(v).to(d)) if tensor else (lambda v, d: v)

    def calls():
        for d in MIXED:
            for at in index_lists():
                for dim in (0, 1, -1, 2):
                    yield Call([one(d, (3, 2)), dim, at, given(2, d)], {}, f"plain {d} {dim} {at.tolist()}")
            for v in (nan, inf, -0.0, 0.5, 300, True, 1e300):
                if not tensor:
                    yield Call([one(d, (3,)), 0, ints(0, 2), v], {}, f"special {d} {v}")
        for s in ((), (0,), (2, 0)):
            for at in (ints(0), ints(), torch.tensor(0)):
                yield Call([one(F32, s), 0, at, given(2.0, F32)], {}, f"shapes {s} {at.tolist()}")
        if tensor:
            for v in (torch.tensor([1.0]), torch.tensor([1.0, 2.0]), torch.tensor(1.5, dtype=F64), torch.tensor(2), torch.tensor(True), torch.tensor(nan)):
                for d in (F32, I64, torch.bool):
                    yield Call([one(d, (3,)), 0, ints(0, 2), v], {}, f"mixed {d} {said(v)} {v.tolist()}")

    return calls


def taken():
    """(self, indices, dim)"""
    for d in SOME:
        x = one(d, (3, 2))
        for at, dim in [
            (ints(0, 5, -1), None),
            (ints(6), None),
            (ints(0), None),
            (torch.tensor([[0, 2], [1, 1]]), 0),
            (torch.tensor([[1], [0], [-1]]), 1),
            (torch.tensor([[1, 0]]), 0),
            (torch.tensor([[3, 0]]), 0),
            (ints(0), 0),
            (torch.zeros(0, 2, dtype=I64), 0),
            (torch.tensor([[0, 2], [1, 1]], dtype=torch.int32), 0),
            (torch.tensor([[0, 2], [1, 1]]), 2),
        ]:
            yield Call([x, at, dim], {}, f"plain {d} {at.tolist()} {dim}")
    yield Call([one(F32, ()), torch.tensor(0), 0], {}, "shapes no dims")
    yield Call([one(F32, ()), ints(0, 0), None], {}, "shapes no dims, flat")
    yield Call([one(F32, (0,)), ints(), 0], {}, "shapes none")
    yield Call([one(F32, (0,)), ints(0), 0], {}, "shapes one of none")
    yield Call([values(F32), ints(*range(8)), 0], {}, "special")


def trapezoids(with_x, floats=False):
    def calls():
        for x, note in bodies():
            for dim in (-1, 0, 1):
                if with_x:
                    for t in {x.shape[-1:], x.shape, (1,), (2,)} if x.dim() else {(), (1,)}:
                        yield Call([x, one(x.dtype if x.dtype != torch.bool else F32, tuple(t), 3)], {"dim": dim}, f"{note} {tuple(t)} {dim}")
                else:
                    yield Call([x], {"dim": dim}, f"{note} {dim}")
        for d in (F32, I64, torch.float16):
            for dx in (0, 2, 0.5, inf, nan, -1, *([] if floats else [True, 300])):
                if not with_x:
                    yield Call([one(d, (2, 3))], {"dx": dx}, f"plain {d} dx {dx}")
        if with_x:
            for a, b in itertools.permutations(MIXED, 2):
                yield Call([one(a, (2, 3)), one(b, (3,), 2)], {"dim": -1}, f"mixed {a} {b}")

    return calls


def dots():
    """(x, y) of linalg_vecdot"""
    for d in ALL:
        if d != torch.bool:
            yield Call([rows(d), one(d, (3,), 2)], {}, f"special {d}")
        yield Call([one(d, (2, 3)), one(d, (2, 3), 2)], {}, f"plain {d}")
    for s, t in (((), ()), ((3,), (3,)), ((0,), (0,)), ((2, 0), (2, 0)), ((2, 3), (1, 3)), ((2, 1), (2, 3)), ((2, 3), (3,)), ((2, 3), (2,)), ((0, 3), (3,))):
        for dim in (-1, 0, 1, -2, 2):
            yield Call([*sized(s, t)], {"dim": dim}, f"shapes {s} {t} {dim}")
    for a, b in itertools.permutations(MIXED, 2):
        yield Call([one(a, (2, 3)), one(b, (2, 3), 2)], {}, f"mixed {a} {b}")


def scaled_by_powers():
    for a in ALL:
        for b in (torch.int32, I64, torch.uint8, torch.bool, F32, F64):
            exponents = torch.tensor([0, 1, 2, 10, 30]).to(b)
            if b in (torch.int32, I64, F32, F64):
                exponents = torch.cat([exponents, torch.tensor([-1, -3, 127, 128, -126, -149, -150, 1023, 1024, -1074, 2000, -2000]).to(b)])
            yield Call([values(a, 1).reshape(-1, 1), exponents], {}, f"special {a} {b}")
    for d in (F64, F32, torch.float16, torch.bfloat16):
        for v in (torch.tensor([0.5, nan, inf, -inf]).to(d), torch.tensor(0.5).to(d), torch.tensor(2)):
            yield Call([one(d, (2, 1)), v], {}, f"mixed {d} {said(v)}")
    for s, t in (((), ()), ((0,), ()), ((2, 0), (1,)), ((2,), (3,)), ((2, 1), (3,))):
        yield Call([one(F32, s), one(I64, t, 2)], {}, f"shapes {s} {t}")


def steps_of(f):
    """Steps of an optimizer whose rate is a tensor."""

    def calls():
        for d in (F64, F32):
            for lr in (torch.tensor(0.1), torch.tensor(0.0), torch.tensor(inf), torch.tensor([0.1]), torch.tensor(0.1, dtype=F64)):
                for decay in (0.0, 0.5):
                    for maximize in FLAGS:
                        yield f(d, lr, decay, maximize)

    return calls


def sgd_step(d, lr, decay, maximize):
    xs, gs = [one(d, (3,)), one(d, ())], [one(d, (3,), 2), one(d, (), 3)]
    kw = dict(weight_decay=decay, momentum=0.9 * maximize, lr=lr, dampening=0.1, nesterov=False, maximize=maximize, is_first_step=decay > 0)
    return Call([xs, gs, [torch.ones_like(x) for x in xs] if maximize else []], kw, f"plain {d} {said(lr)} {lr.tolist()} {decay} {maximize}")


def adagrad_step(d, lr, decay, maximize):
    xs, gs = [one(d, (3,)), one(d, (1,))], [one(d, (3,), 2), one(d, (1,), 3)]
    kw = dict(lr=lr, lr_decay=decay, weight_decay=decay, eps=1e-6 * (1 - maximize), maximize=maximize)
    state = [[torch.ones_like(x) for x in xs], [torch.tensor(2.0) for _ in xs]]
    return Call([xs, gs, *state], kw, f"plain {d} {said(lr)} {lr.tolist()} {decay} {maximize}")



def triangles():
    yield from made([0, 1, 3, 2, -1], [0, 1, 2, 4, -1], [0, 1, -1, 3, -3, 9, -9], word="plain ", dtype=[I64])
    for d in (None, torch.int32, torch.int8, torch.uint8, F32, torch.bool):
        yield Call([3, 2, 0], {"dtype": d}, f"plain dtype {d}")


def squares(*lists):
    return of(*lists, shapes=[(), (0,), (3,), (2, 3), (0, 3), (2, 0), (1, 1), (2, 1, 3), (2, 2, 0)])


SIZES_OF_PARTS = [[1, 2], [3], [2, -1, 2], [], [0, 3], [1, 1], [1, 1, 0], [2, 1], [2]]
FAMILIES = {
    "numpy_T": of(),
    "mT": of(),
    "mH": of(),
    "broadcast_tensors": of_lists(),
    "meshgrid": of_lists(),
    "meshgrid.indexing": of_lists(indexing=["ij", "xy", "", "ji"]),
    "vstack": stacked,
    "einsum": equations,
    "searchsorted.Tensor": searches(),
    "searchsorted.Scalar": searches(number=True),
    "bucketize.Tensor": searches(buckets=True),
    "bucketize.Scalar": searches(number=True, buckets=True),
    "one_hot": hot,
    "repeat_interleave.Tensor": repeats,
    "repeat_interleave.self_Tensor": lambda: repeated(COUNTS),
    "repeat_interleave.self_int": lambda: repeated([2, 1, 0, -1]),
    "tril_indices": triangles,
    "triu_indices": triangles,
    "index_reduce": index_reduced,
    "index_copy": index_copies,
    "index_fill.int_Scalar": index_fills(),
    "index_fill.int_Tensor": index_fills(True),
    "take_along_dim": taken,
    "trapezoid.x": trapezoids(True),
    "trapezoid.dx": trapezoids(False),
    "trapz.x": trapezoids(True),
    "trapz.dx": trapezoids(False, True),
    "sum_to_size": lambda: chained(of([[], [1], [3], [2, 3], [1, 3], [2, 1], [0], [1, 2, 3], [6], [-1], [0, 3]])(), (Call([x, [1] * x.dim()], {}, n) for x, n in bodies())),
    "unsafe_split.Tensor": of([1, 2, 0, -1, 9], DIMS),
    "unsafe_split_with_sizes": of(SIZES_OF_PARTS, DIMS),
    "unsafe_chunk": of([1, 2, 5, 0, -1], DIMS),
    "tensor_split.sections": of([1, 2, 5, 0, -1], DIMS),
    "tensor_split.indices": of([[1], [], [0], [1, 2], [2, 1], [-1], [9], [-9], [1, 1]], DIMS),
    "split_with_sizes_copy": of(SIZES_OF_PARTS, DIMS),
    "unbind_copy.int": of(DIMS),
    "vdot": products(
        [((3,), (3,)), ((0,), (0,)), ((1,), (1,)), ((), ()), ((3,), (2,)), ((3, 1), (3,))],
        lambda d: [rows(d)[1], one(d, (3,), 2)],
    ),
    "linalg_vecdot": dots,
    "addbmm": scaled(((2, 2, 3), (2, 3, 4)), [(2, 4), (4,), (), (1, 4), (3,), (1, 2, 4)]),
    "addmv": scaled(((2, 3), (3,)), [(2,), (), (1,), (3,), (1, 2)]),
    "ldexp.Tensor": scaled_by_powers,
    "cdist": lambda: (Call([c.args[0], c.args[1], c.args[2], c.args[3]], {}, c.note) for c in distances()),
    "_euclidean_dist": lambda: (Call(c.args[:2], {}, c.note) for c in distances() if c.args[2] == 2.0 and c.args[3] is None),
    "diag": squares([0, 1, -1, 3, -9]),
    "diagflat": squares([0, 1, -1, 3]),
    "linalg_diagonal": lambda: made(boxes(), word="plain ", offset=[0, 1, -1, 9], dim1=[-2, 0, 5], dim2=[-1, 1]),
    "empty_permuted": lambda: made(
        [[2, 3], [0, 3], [], [2], [1, 2, 3], [-1, 2]],
        [[1, 0], [0, 1], [], [0], [2, 0, 1], [0, 0], [-1, 0], [5, 0]],
        word="plain ",
        dtype=[None, torch.int64],
    ),
    "_functional_sym_constrain_range_for_size": lambda: (
        Call([n, low, high, torch.zeros(1)], {}, f"plain {n} {low} {high}")
        for n in (0, 1, 3, -1)
        for low in (None, 0, 2)
        for high in (None, 3, 2)
    ),
    "_fused_sgd_.tensor_lr": steps_of(sgd_step),
    "_fused_adagrad_.tensor_lr": steps_of(adagrad_step),
}
