"""The calls of torch_edges.py: which arguments each row of the op table is called with.

A row's arguments follow from its schema: every tensor that is one of a pointwise row takes all special values of a dtype,
each beside each; mixed dtypes, with and without dims, numbers in a tensor's place where there is such an overload. Rows of
other kinds have a line in FAMILIES (here, or of edge_views.py, edge_layers.py and the other edge_*.py) that
says what shapes, dims and numbers they take. A new row needs one of the two, or a line in edges.txt that it is absent.
"""

import itertools
import torch
import edge_backwards, edge_layers, edge_norms, edge_numbers, edge_parts, edge_random, edge_recurrent, edge_views
from edge_values import *

SHAPES = {
    1: [[()], [(0,)], [(2, 0)], [(1,)], [(1, 3)]],
    2: [
        [(), ()],
        [(), (3,)],
        [(3,), ()],
        [(0,), ()],
        [(0,), (1,)],
        [(1,), (3,)],
        [(2, 0), (1, 1)],
        [(3, 1), (1, 2)],
        [(0, 3), (3,)],
        [(2,), (3,)],
    ],
    3: [[(), (), ()], [(3,), (), (3,)], [(), (3,), ()], [(0,), (1,), ()], [(3,), (3,), (1,)], [(2, 1), (2,), (1, 1)]],
}

BY_NAME = {
    "alpha": [1, 2, 0, 0.5, -1, inf, nan, True],
    "value": [1, 0, 0.5, -2, inf, nan, 300],
    "negative_slope": [0.01, 0, -1, inf, nan, 2],
    "beta": [1, 0.5, 2, 0, -1, inf],
    "threshold": [20, 0, -1, inf, nan, 1],
    "lambd": [0.5, 0, 1e-3, inf, nan, -1],
    "min_val": [-1, 0, inf, nan, 5],
    "max_val": [1, 0, 6, nan],
    "eps": [None, 1e-3, 0, 0.5, 0.7, -1.0],
    "scale": [1, 0, 0.5, inf],
    "input_scale": [1, 0.5, 0],
    "nan": [None, 1.5, inf],
    "posinf": [None, 2.0, nan],
    "neginf": [None, -2.0],
    "decimals": [0, 1, -1, 3, 40, -400, 400],
}
STRINGS = {"rounding_mode": [None, "trunc", "floor", "up"], "approximate": ["none", "tanh", "exact"]}
LISTS = {"dims": [[0], [], [0, -1]], "pad": [[1, 0], [-1, 0], [0, 0], [-2, 0], [1, 1, 0, 2]]}


def choices(name, arg):
    """What a parameter that is no tensor may be, the first being usual."""
    kind = str(arg.type).removeprefix("Optional[").removesuffix("]")
    if arg.name in BY_NAME:
        return BY_NAME[arg.name]
    if arg.name in STRINGS:
        return STRINGS[arg.name]
    if arg.name == "dtype":
        return [None, torch.float32, torch.float16, torch.int8, torch.bool, torch.int64]
    if arg.name in ("layout", "device", "pin_memory", "memory_format", "generator"):
        return [arg.default_value]
    if kind in ("number", "float"):
        return NUMBERS
    if kind == "bool":
        return [False, True]
    if kind == "int":
        return [0, 1, -1, 2, 100]
    return [arg.default_value]


def is_tensor(arg):
    return str(arg.type) in ("Tensor", "Optional[Tensor]")


# The least int divided by -1 ends PyTorch's process (here it wraps [B3]): these rows go without it.
DIVIDES = ("div", "remainder", "fmod")


def pointwise(name, func):
    for call in pointwise_calls(name, func):
        if any(d in name for d in DIVIDES):
            least = (
                lambda x: isinstance(x, torch.Tensor)
                and not x.dtype.is_floating_point
                and x.dtype not in (torch.bool, torch.uint8)
            )
            call.args = [
                torch.where(x == torch.iinfo(x.dtype).min, torch.ones_like(x), x) if least(x) else x for x in call.args
            ]
        yield call


def pointwise_calls(name, func):
    params = func._schema.arguments
    tensors = [a for a in params if is_tensor(a)]
    others = [a for a in params if not is_tensor(a)]
    n = len(tensors)

    def made(xs, numbers, note):
        xs, args, kwargs = list(xs), [], {}
        for a in params:
            v = xs.pop(0) if is_tensor(a) else numbers[a.name]
            if a.kwarg_only:
                kwargs[a.name] = v
            else:
                args.append(v)
        return Call(args, kwargs, note)

    usual = {
        a.name: choices(name, a)[0] if a.default_value is None or a.name in STRINGS else a.default_value for a in others
    }
    mask = MASKS.get(name, ())
    fit = lambda d, i: torch.bool if i in mask else d
    for d in ALL:
        yield made(product(d, n, [fit(d, i) for i in range(n)]), usual, f"special {d}")
        for a in others:
            for v in choices(name, a):
                few = [
                    (
                        values(fit(d, i), 1).roll(i)
                        if n == 1
                        else values(fit(d, i), 0).reshape([-1 if k == i else 1 for k in range(n)])
                    )
                    for i in range(n)
                ]
                yield made(few, {**usual, a.name: v}, f"special {d}, {a.name} {v}")
                if d in MIXED and a.name not in STRINGS:
                    yield made([one(fit(d, i), ()) for i in range(n)], {**usual, a.name: v}, f"0-dim {d}, {a.name} {v}")
    for d in (torch.float32, torch.int8, torch.bool):
        for shapes in SHAPES.get(n, []):
            yield made([one(fit(d, i), s, i + 1) for i, s in enumerate(shapes)], usual, f"shapes {shapes} {d}")
    # What is called underneath with tensors of one dtype has no promotion; PyTorch's kernels read others as if they had it.
    inner = name.endswith("_backward") or name == "aten::_prelu_kernel"
    for a, b in itertools.permutations(MIXED, 2) if n > 1 and not inner else []:
        for note, xs in mixed(n, [fit((a, b)[i % 2], i) for i in range(n)]):
            yield made(xs, usual, f"mixed {a} {b}, {note}")


def odd(dtype, k):
    """A number that narrower dtypes do not hold, without dims."""
    return torch.tensor(
        (0.1, 200.5)[k] if dtype.is_floating_point else (300, 200)[k] if dtype != torch.bool else True
    ).to(dtype)


def mixed(n, dtypes):
    """Tensors of several dtypes: all with dims, one of them without, all without."""
    some = [torch.cat([values(d, 0), torch.tensor([3, 7.9, -0.3]).to(d)]) for d in dtypes]
    if n == 2:
        yield "dims", [some[0].reshape(-1, 1), some[1]]
        for k in (0, 1):
            yield f"the first 0-dim {k}", [odd(dtypes[0], k), some[1]]
            yield f"the second 0-dim {k}", [some[0], odd(dtypes[1], k)]
    else:
        yield "dims", [one(d, (3,), i) for i, d in enumerate(dtypes)]
        yield "0-dim but the first", [one(d, (3,)) if i == 0 else odd(d, 0) for i, d in enumerate(dtypes)]
    yield "0-dim", [odd(d, i % 2) for i, d in enumerate(dtypes)]


MASKS = {
    "aten::where.self": (0,),
    "aten::where.ScalarSelf": (0,),
    "aten::where.ScalarOther": (0,),
    "aten::where.Scalar": (0,),
    "aten::masked_fill.Tensor": (1,),
    "aten::masked_fill.Scalar": (1,),
    "aten::native_dropout_backward": (1,),
}

# families ------------------------------------------------------------------------------------------------------------


def pairs(dtypes=FLOATS, shapes=True):
    for d in dtypes:
        x, y = product(d, 2)
        x, y = torch.broadcast_tensors(x, y)
        yield x.contiguous(), y.contiguous(), f"special {d}"
    for s in [(), (0,), (2, 0), (1,), (3,)] if shapes else []:
        yield one(torch.float32, s), one(torch.float32, s, 2), f"{list(s)}"


def losses(*lists, dtypes=FLOATS, grad=False):
    for x, y, note in pairs(dtypes):
        for rest in itertools.product(*lists):
            first = [torch.ones(x.shape if rest[0] == 0 else (), dtype=x.dtype)] if grad else []
            yield Call([*first, x, y, *rest], {}, f"{note}, {list(rest)}")


def unit_losses(*lists):
    """Inputs from 0 to 1, and those outside one by one."""
    for d in FLOATS:
        x = torch.tensor([0.0, -0.0, 1.0, 0.5, 0.1, 1e-6, torch.finfo(d).smallest_normal], dtype=torch.float64).to(d)
        y = torch.tensor([0.0, 1.0, 0.5, 2.0, -1.0, nan, inf], dtype=torch.float64).to(d)
        x, y = (v.contiguous() for v in torch.broadcast_tensors(x.reshape(-1, 1), y))
        for rest in itertools.product(*lists):
            yield Call([x, y, *rest], {}, f"unit {d}, {list(rest)}")
        for bad in (1.5, -0.25, nan, inf, 1 + 2 * torch.finfo(d).eps, -1e-7):
            yield Call(
                [torch.tensor([0.5, bad]).to(d), torch.tensor([1.0, 1.0]).to(d), *[l[0] for l in lists]],
                {},
                f"{bad} {d}",
            )
    for s in [(), (0,), (2, 0)]:
        yield Call(
            [one(torch.float32, s).abs().clamp(0, 1), one(torch.float32, s), *[l[0] for l in lists]], {}, f"{list(s)}"
        )


def draws(*lists):
    for d in FLOATS:
        for v in (0.0, 1.0, 0.5, -0.0, 1.5, -0.25, nan, inf):
            yield Call([torch.tensor([0.5, v]).to(d), *[l[0] for l in lists]], {}, f"{v} {d}")
    for s in [(), (0,)]:
        yield Call([torch.zeros(s), *[l[0] for l in lists]], {}, f"{list(s)}")


def draws_by_number():
    for p in (0.0, 1.0, 0.5, -0.0, 1.5, -0.25, nan, inf):
        yield Call([torch.ones(3), p], {}, f"{p}")


def classes(weights=(None,), more=()):
    """(self, target, weight, reduction, ignore_index, *more)"""
    for d in FLOATS:
        x = torch.tensor([[-1.0, -2.0, -3.0], [-inf, -1.0, nan], [inf, 0.0, -0.5]], dtype=torch.float64).to(d)
        for target in ([0, 1, 2], [-100, -100, -100], [0, -100, 2], [1, 0, 1], [-100, 2, -100], [0, 3, 1], [0, -1, 1]):
            for w in (None, [1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [nan, 1.0, inf]):
                for reduction in (0, 1, 2):
                    weight = None if w is None else torch.tensor(w, dtype=torch.float64).to(d)
                    for rest in more or [()]:
                        yield Call(
                            [x, torch.tensor(target), weight, reduction, -100, *rest],
                            {},
                            f"{d} {target} {w} {reduction} {list(rest)}",
                        )
        for reduction in (0, 1, 2):
            yield Call(
                [x[:0], torch.tensor([], dtype=torch.int64), None, reduction, -100, *(more[0] if more else ())],
                {},
                f"{d} no rows {reduction}",
            )
            yield Call(
                [x[0], torch.tensor(1), None, reduction, -100, *(more[0] if more else ())],
                {},
                f"{d} one row {reduction}",
            )
            yield Call(
                [x[0], torch.tensor(-100), None, reduction, -100, *(more[0] if more else ())],
                {},
                f"{d} one ignored row {reduction}",
            )


def norms():
    for x, note in bodies(FLOATS):
        for p in (0, 1, 2, 3, 0.5, 1.5, -1, inf, -inf, 2.5, nan):
            for dims in (None, [0], [-1], []):
                yield Call([x, p, dims, False], {}, f"{note}, {p} {dims}")


def indices(values_too=False, value=None, reduce=None, include=None):
    for d in (torch.float32, torch.int64, torch.bool):
        for x, dim, index in [
            (one(d, (3, 2)), 0, torch.tensor([[0, 2], [2, 2]])),
            (one(d, (3, 2)), 1, torch.tensor([[1, 1]])),
            (one(d, ()), 0, torch.tensor(0)),
            (one(d, ()), 0, torch.tensor([0])),
            (one(d, (0, 2)), 0, torch.zeros((0, 2), dtype=torch.int64)),
            (one(d, (3,)), 0, torch.tensor([3])),
            (one(d, (3,)), 0, torch.tensor([-1])),
            (one(d, (3,)), 0, torch.tensor([], dtype=torch.int64)),
            (one(d, (3,)), 1, torch.tensor([0])),
            (one(d, (0,)), 0, torch.tensor([0])),
            (one(d, (2, 2)), 0, torch.tensor([0])),
        ]:
            rest = [one(d, tuple(index.shape), 2)] if values_too else [value] if value is not None else []
            for r in reduce or [None]:
                more = rest + ([r] if r else [])
                yield Call(
                    [x, dim, index, *more],
                    {} if include is None else {"include_self": include},
                    f"{d} {list(x.shape)} {index.tolist()} {r}",
                )


def joined(stack):
    sets = [
        [one(torch.float32, (2,)), one(torch.int64, (2,))],
        [one(torch.float16, (2,)), one(torch.bfloat16, (2,))],
        [one(torch.int8, (2,)), one(torch.uint8, (2,))],
        [one(torch.bool, (2,)), one(torch.float64, ())],
        [one(torch.float32, (0,)), one(torch.float32, (2, 3))],
        [one(torch.float32, (2, 0)), one(torch.float32, (2, 3))],
        [one(torch.float32, (0, 3)), one(torch.float32, (2, 3))],
        [one(torch.float32, ()), one(torch.float32, ())],
        [one(torch.float32, (2,))],
        [],
        [one(torch.float32, (0,)), one(torch.int64, (0,))],
        [one(torch.float32, (2, 3)), one(torch.float32, (2, 4))],
    ]
    for xs in sets:
        for dim in (0, 1, -1, 2, -3):
            yield Call([xs, dim], {}, f"{[list(x.shape) for x in xs]} {[str(x.dtype) for x in xs]} {dim}")


def full_like():
    for d in ALL:
        for v in NUMBERS:
            yield Call([one(d, (2,)), v], {}, f"{d} {v}")
            for to in (torch.float16, torch.int8, torch.bool):
                yield Call([one(d, (2,)), v], {"dtype": to}, f"{d} {v} {to}")
    yield from edge_views.halves_to_bool()


def layers():
    """layer_norm's core: rows that are constant, infinite, of one element, of none."""
    for d in FLOATS:
        for w in (None, [1.0, 0.0, -2.0]):
            weight = None if w is None else torch.tensor(w).to(d)
            yield Call([rows(d), [3], weight, None, 1e-5], {}, f"rows {d} {w}")
        yield Call([rows(d), [3], None, None, 0.0], {}, f"rows {d}, eps 0")
    for s, n in (((2, 1), [1]), ((0, 3), [3]), ((2, 0), [0]), ((2, 2), [2, 2]), ((3,), [3])):
        yield Call([one(torch.float32, s), n, None, None, 1e-5], {}, f"{s} {n}")


def quantiles(*lists):
    return over(*lists)


FAMILIES = (
    {
        "sum": lambda: over(dtype=DTYPES),
        "sum.dim_IntList": lambda: over(DIM_LISTS + [None], FLAGS, dtype=[None, torch.float16]),
        "mean": lambda: over(dtype=[None, torch.float32]),
        "mean.dim": lambda: over(DIM_LISTS + [None], FLAGS),
        "nansum": lambda: over(DIM_LISTS + [None], FLAGS),
        "prod": lambda: over(dtype=DTYPES),
        "prod.dim_int": lambda: over(DIMS, FLAGS),
        "amax": lambda: over(DIM_LISTS, FLAGS),
        "amin": lambda: over(DIM_LISTS, FLAGS),
        "nanmean": lambda: over(DIM_LISTS + [None], FLAGS),
        "median": lambda: over(),
        "nanmedian": lambda: over(),
        "median.dim": lambda: over(DIMS, FLAGS),
        "nanmedian.dim": lambda: over(DIMS, FLAGS),
        "ravel": lambda: over(),
        "real": lambda: over(),
        "conj": lambda: over(),
        "resolve_conj": lambda: over(),
        "resolve_neg": lambda: over(),
        "atleast_1d": lambda: over(),
        "atleast_2d": lambda: over(),
        "atleast_3d": lambda: over(),
        "fliplr": lambda: over(),
        "flipud": lambda: over(),
        "max": lambda: over(),
        "min": lambda: over(),
        "aminmax": lambda: over(dim=[None] + DIMS),
        "max.dim": lambda: over(DIMS, FLAGS),
        "min.dim": lambda: over(DIMS, FLAGS),
        "argmax": lambda: over([None] + DIMS, FLAGS),
        "argmin": lambda: over([None] + DIMS, FLAGS),
        "any": lambda: over(),
        "all": lambda: over(),
        "any.dim": lambda: over(DIMS, FLAGS),
        "all.dim": lambda: over(DIMS, FLAGS),
        "any.dims": lambda: over(DIM_LISTS + [None], FLAGS),
        "all.dims": lambda: over(DIM_LISTS + [None], FLAGS),
        "count_nonzero": lambda: over([None] + DIMS),
        "count_nonzero.dim_IntList": lambda: over(DIM_LISTS),
        "var": lambda: over(FLAGS),
        "std": lambda: over(FLAGS),
        "var.dim": lambda: over(DIM_LISTS + [None], FLAGS),
        "std.dim": lambda: over(DIM_LISTS + [None], FLAGS),
        "var.correction": lambda: over([None, [0], [1], [-1]], correction=[None, 0, 1, 3, 4.5, -1], keepdim=[False]),
        "std.correction": lambda: over([None, [0], [1], [-1]], correction=[None, 0, 1, 3, 4.5, -1], keepdim=[False]),
        "var_mean": lambda: over(FLAGS),
        "std_mean": lambda: over(FLAGS),
        "var_mean.dim": lambda: over([[0], [-1], None]),
        "std_mean.dim": lambda: over([[0], [-1], None]),
        "var_mean.correction": lambda: over([None, [-1]], correction=[0, 1, 3]),
        "std_mean.correction": lambda: over([None, [-1]], correction=[0, 1, 3]),
        "logsumexp": lambda: over(DIM_LISTS, FLAGS),
        "linalg_vector_norm": norms,
        "norm.Scalar": lambda: over([0, 1, 2, inf, -inf, 0.5], dtypes=FLOATS),
        "_softmax": lambda: over(DIMS, [False], dtypes=FLOATS),
        "_log_softmax": lambda: over(DIMS, [False], dtypes=FLOATS),
        "_safe_softmax": lambda: over(DIMS, dtypes=FLOATS),
        "softmax.int": lambda: over(DIMS, [None, torch.float32]),
        "log_softmax.int": lambda: over(DIMS, [None, torch.float32]),
        "cumsum": lambda: over(DIMS, dtype=[None, torch.float16, torch.int8]),
        "cumprod": lambda: over(DIMS, dtype=[None, torch.float16]),
        "sort": lambda: over(DIMS, FLAGS),
        "msort": lambda: over(),
        "sort.stable": lambda: over(stable=[True], dim=DIMS, descending=FLAGS),
        "argsort": lambda: over(DIMS, FLAGS),
        "topk": lambda: over([0, 1, 3, 4, -1], DIMS, FLAGS),
        "nonzero": lambda: over(),
        "where": lambda: over(),
        "mse_loss": lambda: losses([0, 1, 2]),
        "l1_loss": lambda: losses([0, 1, 2]),
        "huber_loss": lambda: losses([0, 1, 2], [1.0, 0.1, inf, 0.0, -1.0]),
        "smooth_l1_loss": lambda: losses([0, 1, 2], [1.0, 0.1, 0.0, inf, -1.0]),
        "soft_margin_loss": lambda: losses([0, 1, 2]),
        "mse_loss_backward": lambda: losses([0, 1], grad=True),
        "huber_loss_backward": lambda: losses([0, 1], [1.0, 0.1], grad=True),
        "smooth_l1_loss_backward": lambda: losses([0, 1], [1.0, 0.1, 0.0], grad=True),
        "binary_cross_entropy": lambda: unit_losses([None], [0, 1, 2]),
        "binary_cross_entropy_with_logits": lambda: losses([None], [None], [0, 1, 2]),
        "nll_loss": classes,
        "nll_loss_forward": classes,
        "cross_entropy_loss": lambda: classes(more=[(0.0,), (0.1,)]),
        "bernoulli": draws,
        "bernoulli.Tensor": lambda: (
            Call([torch.ones(2), c.args[0]], {}, c.note) for c in draws() if c.args[0].dim() == 1 and len(c.args[0])
        ),
        "bernoulli.p": draws_by_number,
        "native_layer_norm": layers,
        "gather": lambda: indices(),
        "scatter_add": lambda: indices(True),
        "scatter.src": lambda: indices(True),
        "scatter.value": lambda: indices(value=1.5),
        "scatter.reduce": lambda: (
            Call(c.args[:-1], {"reduce": c.args[-1]}, c.note) for c in indices(True, reduce=["add", "multiply", "mean"])
        ),
        "scatter_reduce.two": lambda: indices(True, reduce=["sum", "prod", "mean", "amax", "amin"], include=False),
        "cat": lambda: joined(False),
        "stack": lambda: joined(True),
        "linspace": lambda: made([0, 0.0, 1, -1.5], [1, 3.7, -2], [0, 1, 3, -1], dtype=DTYPES[:5]),
        "arange": lambda: made([0, 3, 2.5, -1, inf, nan, 0.0], dtype=DTYPES),
        "arange.start": lambda: made([0, 1, 0.5, 5], [3, 2.5, 0, nan], dtype=DTYPES[:5]),
        "arange.start_step": lambda: made([0, 1, 5], [3, 0.5, -2], [1, 0.25, -1, 0, nan], dtype=DTYPES[:5]),
        "full": lambda: made([[2], [0], []], NUMBERS, dtype=DTYPES),
        "full_like": full_like,
        "scalar_tensor": lambda: made(NUMBERS, dtype=DTYPES),
        "eye": lambda: made([0, 1, 3, -1], dtype=DTYPES[:4]),
        "trace": lambda: (c for c in over() if c.args[0].dim() == 2),
        "diff": lambda: over([1, 0, 2, 5, -1], DIMS),
        "isclose": lambda: (
            Call([x, y, r, a, e], {}, f"{n} {r} {a} {e}")
            for x, y, n in pairs(ALL)
            for r in (1e-5, 0.0, inf, -1.0)
            for a in (1e-8, 0.0)
            for e in FLAGS
        ),
        "isin.Tensor_Tensor": lambda: (Call([x, y[:, :4] if y.dim() > 1 else y], {}, n) for x, y, n in pairs(ALL)),
        "repeat": lambda: over([[2], [0, 2], [1, -1], []]),
        "roll": lambda: over([[1], [-4], [0]], [[0], [-1], []]),
        "clone": lambda: over(),
        "flip": lambda: over([[0], [-1], [], [0, 0], [2]]),
        "squeeze.dim": lambda: over(DIMS),
        "unsqueeze": lambda: over(DIMS),
        "select.int": lambda: over(DIMS, [0, -1, 3]),
        "slice.Tensor": lambda: over(DIMS, [None, 1, -2, 9], [None, 0, -1, 2**63 - 1], [1, 2, 0]),
        "cosine_similarity": lambda: (Call([x, y, -1, 1e-8], {}, n) for x, y, n in pairs() if x.dim()),
        "dist": lambda: (Call([x, y, p], {}, n) for x, y, n in pairs() for p in (2, 1, inf, 0)),
        "unfold": lambda: over([0, -1, 1], [1, 2, 0, 4], [1, 2, 0]),
        "chunk": lambda: over([1, 2, 5, 0, -1], DIMS),
        "split.Tensor": lambda: over([1, 2, 0, -1], DIMS),
        "masked_select": lambda: (Call([x, x != 0], {}, n) for x, n in bodies()),
        "glu": lambda: (
            Call([x[..., :2] if x.dim() else x, d], {}, f"{n} {d}") for x, n in bodies(FLOATS) for d in (-1, 0)
        ),
        "square": lambda: over(),
        "selu": lambda: over(dtypes=FLOATS),
        "prelu": lambda: (Call([x, torch.tensor([0.25], dtype=x.dtype)], {}, n) for x, n in bodies(FLOATS)),
        "scatter.value_reduce": lambda: (
            Call(c.args[:-1], {"reduce": c.args[-1]}, c.note)
            for c in indices(value=1.5, reduce=["add", "multiply", "mean"])
        ),
    }
    | edge_views.FAMILIES
    | edge_layers.FAMILIES
    | edge_norms.FAMILIES
    | edge_backwards.FAMILIES
    | edge_parts.FAMILIES
    | edge_random.FAMILIES
    | edge_recurrent.FAMILIES
)

# Composed of others, and called as pointwise rows are.
COMPOSED = (
    "float_power.Tensor_Tensor",
    "float_power.Tensor_Scalar",
    "float_power.Scalar",
    "log_sigmoid_forward",
    "isposinf",
    "isneginf",
    "deg2rad",
    "rad2deg",
    "sinc",
    "special_sinc",
    "special_entr",
    "special_ndtr",
)


def is_random(func):
    """Only dtype, sizes and strides are compared."""
    return torch.Tag.nondeterministic_seeded in func.tags or "empty" in func._schema.name


def picks(func):
    """Which of equal elements has the gradient is the affair of what picks one."""
    return func._schema.name in ("aten::sort", "aten::topk", "aten::msort", "aten::median", "aten::nanmedian")


def any_order(func, out, outs):
    """Which of equal elements an index names is PyTorch's affair."""
    return (
        func._schema.name in ("aten::sort", "aten::argsort", "aten::topk", "aten::median", "aten::nanmedian")
        and out.dtype == torch.int64
        and out is outs[-1]
    )


def is_exact(func, kwargs):
    """One IEEE operation, rounded once: nothing may be off (with alpha PyTorch's vectors fuse, its scalars do not)."""
    return (
        func._schema.name in ("aten::mul", "aten::div", "aten::true_divide", "aten::add", "aten::sub")
        and kwargs.get("alpha", 1) == 1
    )


def family(name):
    return name.removeprefix("aten::")


def is_pointwise(name):
    return POINTWISE.get(name, False)


POINTWISE = {}


def calls(name, func):
    return edge_numbers.beyond(func, calls_of_row(name, func))


def calls_of_row(name, func):
    if FAMILIES.get(family(name)):
        return FAMILIES[family(name)]()
    return pointwise(name, func) if is_pointwise(name) or family(name) in COMPOSED else []
