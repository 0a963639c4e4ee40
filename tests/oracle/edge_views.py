"""Calls of the edge sweep (edge_calls.py) of what moves values: views and their copies, factories, indexing."""

import torch
from edge_values import *

SIZES = [
    [],
    [1],
    [-1],
    [6],
    [3, 2],
    [0],
    [-1, 0],
    [2, -1],
    [-1, -1],
    [0, -1],
    [1, 6, 1],
    [7],
    [-2, 3],
    [2**62, 4],
    [3],
    [2, 3],
]
WIDER = [[], [3], [2, 3], [-1], [-1, 3], [0], [4, 2, 3], [2, -1, 3], [0, 3], [-1, -1], [-2], [5, 5], [2, 1, 3]]
ORDERS = [[], [0], [1, 0], [0, 1], [-1, 0], [0, 0], [2, 0, 1], [1], [0, 1, 2], [-3, 1]]
SOME_DIMS = [-3, -1, 0, 1, 2]
FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last]
TYPES = [torch.float64, torch.float32, torch.float16, torch.int64, torch.int8, torch.bool]
CPU = torch.device("cpu")


def images():
    return [one(torch.float32, s) for s in [(1, 2, 3, 2), (2, 0, 3, 3), (1, 1, 1, 1), (2, 3, 1, 1)]]


def laid_out():
    """Images in both formats, and turned."""
    return (
        images()
        + [x.contiguous(memory_format=torch.channels_last) for x in images()]
        + [one(torch.float32, (3, 2)).t(), one(torch.float32, (2, 3, 4, 5)).mT]
    )


def strided():
    for x in boxes([(), (3,), (2, 3), (0,)]):
        for size, stride, offset in [
            ([], [], None),
            ([2, 2], [1, 1], None),
            ([2, 2], [1, 1], 1),
            ([3], [0], 0),
            ([0], [1], None),
            ([2], [1, 1], None),
            ([2], [-1], None),
            ([10], [1], None),
            ([2], [1], -1),
            ([1], [5], 5),
            ([0], [1], 99),
            ([-1], [1], None),
            ([2, 3], [3, 1], 0),
        ]:
            yield Call([x, size, stride, offset], {}, f"plain {said(x)} {size} {stride} {offset}")


def strided_scatters():
    """(self, src, size, stride, storage_offset)"""
    for d in (torch.float32, torch.float64, torch.float16, torch.int64, torch.bool):
        for n, size, stride, offset in [
            ((), [], [], None),
            ((2, 2), [2, 2], [1, 2], None),
            ((2, 2), [2, 2], [3, 1], 1),
            ((3,), [3], [2], 0),
            ((0,), [0], [1], None),
            ((0, 2), [0, 2], [1, 1], 99),
            ((1,), [1], [0], 5),
            ((2,), [2], [1], -1),
            ((2,), [2], [-1], None),
            ((2,), [2], [1, 1], None),
            ((10,), [10], [1], None),
            ((3,), [3], [0], 0),
            ((2,), [3], [1], 0),
            ((2, 2), [4], [1], 0),
        ]:
            yield Call([one(d, (2, 3)), one(d, n, 2), size, stride, offset], {}, f"plain {d} {size} {stride} {offset}")
    x = one(torch.float32, (4, 6))
    for of_x in (x.t(), x[1:, 1::2], x[:, :4], x[1].expand(3, 6)):
        for offset in (None, 8, 0, 21):
            yield Call([of_x, one(torch.float32, (2,), 3), [2], [1], offset], {}, f"plain {said(of_x)} {offset}")
    for src in (one(torch.float64, (2,)), one(torch.int64, (2,)), one(torch.bool, (2,))):
        yield Call([x, src, [2], [3], None], {}, f"mixed {said(src)}")
    yield Call([one(torch.float32, (0,)), one(torch.float32, (1,)), [1], [1], None], {}, "plain no elements")


def of(*lists, shapes=BOXES, **named):
    return lambda: made(boxes(shapes), *lists, word="plain ", **named)


def halves_to_bool(*size):
    """Numbers that ints do not hold are true."""
    return made([one(torch.int64, (2,))], *[[s] for s in size], [0.5], word="truth ", dtype=[torch.bool])


MASKS_OF = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 3), ()),
    ((), ()),
    ((0,), (0,)),
    ((2, 0), (2, 0)),
    ((2, 3), (2, 1)),
    ((3,), (2, 3)),
    ((2, 3), (4,)),
]


def masked_scatters():
    """(self, mask, source)"""
    for d in (torch.float64, torch.float32, torch.float16, torch.int64, torch.bool):
        for s, m in MASKS_OF:
            for n in (6, 1, 0, 9):
                yield Call([one(d, s), one(torch.bool, m), one(d, (n,), 3)], {}, f"plain {d} {s} {m} {n}")
    for v in (nan, -0.0, inf):
        yield Call(
            [one(torch.float32, (3,)), torch.tensor([True, False, True]), torch.full((2,), v)], {}, f"special {v}"
        )
    for mask in (torch.tensor([1, 0, 1], dtype=torch.uint8), torch.tensor([1, 0, 1]), torch.tensor([1.0, 0.0, 1.0])):
        yield Call([one(torch.float32, (3,)), mask, torch.ones(3)], {}, f"mixed {said(mask)}")
    yield Call(
        [one(torch.float32, (3,)), one(torch.bool, (3,)), torch.ones(3, dtype=torch.float64)], {}, "mixed source"
    )
    yield Call(
        [one(torch.float32, (2, 3)), one(torch.bool, (2, 3)), one(torch.float32, (3, 2), 3)],
        {},
        "plain source of two dims",
    )


def masked_scatters_back():
    """(grad_output, mask, sizes)"""
    for d in FLOATS:
        for s, m in MASKS_OF[:7]:
            for sizes in ([6], [3, 3], [0], [], [1], [-1]):
                yield Call([one(d, s, 2), one(torch.bool, s if m == s else m), sizes], {}, f"plain {d} {s} {m} {sizes}")


def converted():
    """Special values to each dtype."""
    for d in ALL:
        for to in TYPES:
            yield Call([values(d), to], {}, f"special {d} {to}")


def indexed():
    """(self, indices) of index.Tensor and index_put."""
    i = lambda *x: torch.tensor(x, dtype=torch.int64)
    for d in (torch.float32, torch.int64, torch.bool):
        x = one(d, (3, 2))
        for at in (
            [i(0, 2)],
            [i(-1, -3)],
            [i(3)],
            [i(-4)],
            [None, i(1, 0)],
            [None, None],
            [],
            [i(0, 1), i(1, 0)],
            [i(0, 1), i(1)],
            [i(0, 1), i(0, 1, 2)],
            [i()],
            [i(0, 1, 2).reshape(3, 1), i(0, 1)],
            [torch.tensor([True, False, True])],
            [torch.tensor([True, False])],
            [torch.tensor(True)],
            [x != 0],
            [torch.tensor(1)],
            [torch.tensor([1, 2], dtype=torch.int32)],
            [torch.tensor([1.0])],
            [i(0), i(0), i(0)],
            [None, torch.tensor([False, True])],
            [torch.tensor([False, False, False])],
            [torch.tensor([1, 0, 1], dtype=torch.uint8)],
        ):
            yield x, list(at)
        for x, at in [
            (one(d, ()), [torch.tensor(True)]),
            (one(d, ()), [i(0)]),
            (one(d, (0,)), [i()]),
            (one(d, (0,)), [i(0)]),
            (one(d, (0, 2)), [i(), i()]),
            (one(d, (2, 0)), [i(1, 1)]),
            (one(d, (2, 1, 3)), [i(1, 1), None, i(2, 0)]),
            (one(d, (2, 1, 3)), [None, i(0, 0)]),
        ]:
            yield x, at


def put():
    for x, at in indexed():
        for v in (torch.tensor(2), torch.tensor([2, 3]), torch.tensor([[1], [2]])):
            for add in FLAGS:
                yield Call([x, at, v.to(x.dtype), add], {}, f"plain {said(x)} {said(at)} {said(v)} {add}")
    yield Call(
        [one(torch.float32, (3,)), [torch.tensor([0])], torch.tensor([1.0], dtype=torch.float64)], {}, "mixed values"
    )
    yield Call(
        [one(torch.float32, (3,)), [torch.tensor([0, 0, 0])], torch.tensor([1e30, 1e30, -inf]), True],
        {},
        "special sums",
    )


def index_lists():
    i = lambda *x, d=torch.int64: torch.tensor(x, dtype=d)
    return [
        i(0, 2),
        i(-1),
        i(3),
        i(),
        torch.tensor(1),
        i(1, 1, d=torch.int32),
        torch.tensor([[0, 1]]),
        torch.tensor([0.0]),
    ]


def index_add():
    for d in MIXED:
        for x, dim, index in [
            (one(d, (3, 2)), 0, [0, 2]),
            (one(d, (3, 2)), 1, [1, 1]),
            (one(d, ()), 0, [0]),
            (one(d, (0, 2)), 0, []),
            (one(d, (3,)), 0, [3]),
            (one(d, (3,)), 0, [-1]),
            (one(d, (3,)), 1, [0]),
            (one(d, (3, 2)), -1, [0, 0]),
        ]:
            size = list(x.shape)
            if x.dim() and -x.dim() <= dim < x.dim():
                size[dim] = len(index)
            for alpha in (1, 0, 2, -1, 0.5, inf, nan):
                yield Call(
                    [x, dim, torch.tensor(index, dtype=torch.int64), one(d, tuple(size), 2)],
                    {"alpha": alpha},
                    f"plain {said(x)} {dim} {index} {alpha}",
                )
    yield Call([torch.zeros(3), 0, torch.tensor([0, 1]), torch.ones(2, dtype=torch.float64)], {}, "mixed source")
    yield Call([torch.zeros(3), 0, torch.tensor([0, 1]), torch.ones(3)], {}, "plain source of another size")
    yield Call(
        [torch.zeros(3), 0, torch.tensor([0, 1], dtype=torch.int32), torch.tensor([nan, -0.0])], {}, "special source"
    )


def embeddings(back=False):
    """Backwards go without indices out of range, by which PyTorch writes where it may not."""
    for d in FLOATS:
        for index in [
            torch.tensor([0, 2, 2]),
            torch.tensor([[1], [0]]),
            torch.tensor(1),
            torch.tensor([], dtype=torch.int64),
            torch.tensor([1, 0], dtype=torch.int32),
            *(
                []
                if back
                else [torch.tensor([3]), torch.tensor([-1]), torch.tensor([0.0]), torch.tensor([1], dtype=torch.int8)]
            ),
        ]:
            for padding in (-1, 0, 2, 5):
                for freq in FLAGS:
                    yield index, padding, freq, d


def scattered():
    """(self, src, dim, ...) of slice_scatter, select_scatter and diagonal_scatter."""
    x = one(torch.float32, (3, 4))
    yield from [
        Call([x, one(torch.float32, (2, 4), 2), 0, *r], {}, f"plain {r}")
        for r in ([0, 2, 1], [1, None, 1], [None, -1, 1], [0, 3, 2], [0, 3, 1], [-2, 9, 1], [0, 2, 0])
    ]


def slice_scatters():
    yield from scattered()
    for d in (torch.float64, torch.int64, torch.bool):
        yield Call([one(d, (3, 4)), one(d, (3, 2), 2), 1, 0, 4, 2], {}, f"plain {d}")
    x = one(torch.float32, (3, 4))
    for src in (
        one(torch.float32, (3, 1)),
        one(torch.float32, ()),
        one(torch.float64, (3, 2)),
        one(torch.int64, (3, 2)),
        one(torch.float32, (3, 0)),
    ):
        yield Call([x, src, 1, 0, 4, 2], {}, f"mixed {said(src)}")
    yield Call([x, one(torch.float32, (3, 0)), 1, 2, 1, 1], {}, "plain no elements")
    yield Call([one(torch.float32, ()), one(torch.float32, ()), 0, 0, 1, 1], {}, "plain no dims")


def select_scatters():
    for d in (torch.float32, torch.int64, torch.bool):
        for dim, at in ((0, 0), (0, -1), (1, 3), (1, 4), (2, 0), (-1, 1), (0, 3), (0, -4)):
            yield Call([one(d, (3, 4)), one(d, (4,) if dim == 0 else (3,), 2), dim, at], {}, f"plain {d} {dim} {at}")
    for src in (one(torch.float32, ()), one(torch.float64, (4,)), one(torch.float32, (1,)), one(torch.int64, (4,))):
        yield Call([one(torch.float32, (3, 4)), src, 0, 1], {}, f"mixed {said(src)}")
    yield Call([one(torch.float32, (0, 4)), one(torch.float32, (4,)), 0, 0], {}, "plain no rows")
    yield Call([one(torch.float32, ()), one(torch.float32, ()), 0, 0], {}, "plain no dims")


def diagonal_scatters():
    for d in (torch.float32, torch.int64, torch.bool):
        for offset, n, dims in (
            (0, 3, (0, 1)),
            (1, 3, (0, 1)),
            (-1, 2, (0, 1)),
            (4, 0, (0, 1)),
            (9, 0, (0, 1)),
            (1, 2, (1, 0)),
            (0, 3, (0, 0)),
            (0, 3, (0, 2)),
            (0, 2, (0, 1)),
            (0, 3, (-1, -2)),
        ):
            yield Call([one(d, (3, 4)), one(d, (n,), 2), offset, *dims], {}, f"plain {d} {offset} {n} {dims}")
    yield Call([one(torch.float32, (3, 4)), one(torch.float64, (3,))], {}, "mixed src")
    yield Call([one(torch.float32, (3,)), one(torch.float32, (3,))], {}, "plain one dim")


def spread_back(*sizes):
    """Gradients put back where a view took them from."""
    return lambda: (
        Call([one(d, tuple(g), 2), *rest], {}, f"plain {d} {g} {rest}")
        for d in (torch.float32, torch.float16, torch.int64)
        for g, *rest in sizes
    )


def factories(*lists):
    return lambda: made(
        *lists,
        word="plain ",
        dtype=[None, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool],
    )


def news(*lists):
    return lambda: chained(
        *(
            made([one(d, ())], *lists, word="plain ", dtype=[None, torch.float16, torch.int8, torch.bool])
            for d in (torch.float32, torch.int64, torch.bool)
        )
    )


def likes():
    return lambda: chained(
        made(boxes() + images(), word="plain ", dtype=[None, torch.float16, torch.int8, torch.bool]),
        made(images(), word="plain ", memory_format=FORMATS + [torch.channels_last_3d]),
    )


EMPTY_SIZES = [[2], [0], [], [2, 0], [1, 1], [-1], [2**62, 4]]
TO = {"non_blocking": [False], "copy": FLAGS, "memory_format": [None, torch.preserve_format]}
QUARTER = [[2, -1, 1], [1, 1], [2], [-1], [0, -1], [3, 1], [-1, -1], []]
FAMILIES = {
    "view": of(SIZES),
    "_unsafe_view": of(SIZES),
    "reshape": of(SIZES),
    "view_copy": of(SIZES),
    "view.dtype": of(TYPES),
    "as_strided": strided,
    "as_strided_scatter": strided_scatters,
    "expand": of(WIDER),
    "broadcast_to": of(WIDER),
    "expand_copy": of(WIDER),
    "permute": of(ORDERS),
    "permute_copy": of(ORDERS),
    "transpose.int": of(SOME_DIMS, SOME_DIMS),
    "transpose_copy.int": of(SOME_DIMS, SOME_DIMS),
    "movedim.int": of(SOME_DIMS, SOME_DIMS),
    "movedim.intlist": of([[0], [1, 0], [0, 0], [-1], [2], []], [[0], [0, 1], [-1], [1, 1], []]),
    "t": of(),
    "t_copy": of(),
    "detach": of(),
    "detach_copy": of(),
    "alias": of(),
    "alias_copy": of(),
    "lift_fresh": of(),
    "squeeze": of(),
    "squeeze_copy": of(),
    "squeeze.dims": of([[0], [], [1], [-1], [0, 1], [0, 0], [5], [-2, 0]]),
    "squeeze_copy.dims": of([[0], [], [1], [-1], [0, 1], [0, 0], [5]]),
    "squeeze_copy.dim": of(SOME_DIMS),
    "unsqueeze_copy": of(SOME_DIMS + [3, -4]),
    "contiguous": lambda: chained(
        made(images()[3:], word="alias ", memory_format=FORMATS[2:]),
        made(boxes([(), (2, 3), (0,)]) + laid_out(), word="plain ", memory_format=FORMATS),
    ),
    "masked_scatter": masked_scatters,
    "masked_scatter_backward": masked_scatters_back,
    "sym_is_contiguous": lambda: made(boxes() + laid_out(), FORMATS, word="plain "),
    "diagonal": of([0, 1, -1, 3, -9, 9], [0, 1, -1], [1, 0, -2, 2]),
    "diagonal_copy": of([0, 1, -1, 9], [0, 1], [1, 0, -2, 2]),
    "diag_embed": of([0, 1, -2], [-2, 0, -1, 3], [-1, 1, -2, -4]),
    "flatten.using_ints": of([0, 1, -1, 3], [-1, 0, 1, -3]),
    "to.dtype": lambda: chained(
        made(boxes([(), (0,), (2, 3)]), TYPES, word="plain ", **TO),
        converted(),
        made(laid_out(), TYPES[1:3], word="plain ", memory_format=FORMATS),
    ),
    "to.dtype_layout": lambda: made(boxes([(), (0,), (2, 3)]), word="plain ", dtype=[None] + TYPES[:4], copy=FLAGS),
    "to.other": lambda: made(boxes([(), (0,), (2, 3)]), boxes([()]), word="plain ", copy=FLAGS),
    "type_as": of(boxes([()])),
    "to.device": lambda: made(boxes([(), (2, 3)]), [CPU], TYPES, word="plain "),
    "narrow": of(DIMS, [0, 1, -1, 3, 4, -4], [0, 1, 3, -1]),
    "narrow_copy": of(DIMS, [0, 1, -1, 3, -4], [0, 1, 3, -1]),
    "narrow.Tensor": of(
        DIMS,
        [torch.tensor(v) for v in (0, 1, -1, 3)] + [torch.tensor([0]), torch.tensor(0.0), torch.tensor(True)],
        [0, 1, 3, -1],
    ),
    "view_as": of(boxes()),
    "reshape_as": of(boxes()),
    "expand_as": of(boxes()),
    "unflatten.int": of([0, 1, -1, 2], [[2], [3, 1], [-1], [-1, 1], [-1, -1], [], [0, -1], [6], [1, 3]]),
    "split_with_sizes": of([[1, 2], [3], [2, -1, 2], [], [0, 3], [1, 1], [1, 1, 0]], DIMS),
    "split.sizes": of([[1, 2], [3], [2, -1, 2], [], [0, 3], [1, 1]], DIMS),
    "unbind.int": of(DIMS),
    "unfold_copy": of([0, -1, 1], [1, 2, 0, 4], [1, 2, 0]),
    "slice_copy.Tensor": of(DIMS, [None, 1, -2, 9], [None, 0, -1], [1, 2, 0, -1]),
    "select_copy.int": of(DIMS, [0, -1, 3, -4]),
    "tile": of([[2], [0, 2], [1, -1], [], [1, 2, 1, 1]]),
    "rot90": of([1, 0, -1, 6], [[0, 1], [1, 0], [0, 0], [0], [-1, -2], [0, 5]]),
    "pixel_shuffle": lambda: made(
        [
            one(d, s)
            for d in (torch.float32, torch.int64)
            for s in [(4, 2, 3), (1, 4, 1, 1), (0, 4, 2, 2), (4, 0, 2), (3, 2, 2), (4, 2), ()]
        ],
        [2, 1, 0, -1, 3],
        word="plain ",
    ),
    "pixel_unshuffle": lambda: made(
        [
            one(d, s)
            for d in (torch.float32, torch.int64)
            for s in [(1, 4, 2), (1, 1, 2, 6), (0, 4, 2, 2), (1, 0, 2), (1, 3, 2), (4, 2), ()]
        ],
        [2, 1, 0, -1, 3],
        word="plain ",
    ),
    "channel_shuffle": lambda: made(
        [
            one(d, s)
            for d in (torch.float32, torch.int64)
            for s in [(1, 4, 2), (1, 6, 2, 1), (0, 4, 2, 2), (1, 4, 0), (1, 3, 2), (4, 2), (), (1, 0, 2)]
        ],
        [2, 1, 0, -1, 3],
        word="plain ",
    ),
    "isin.Tensor_Scalar": lambda: made(
        [values(d) for d in ALL], [0, 1, -1, 0.5, nan, inf, 300, True, 2**40], word="special ", invert=FLAGS
    ),
    "isin.Scalar_Tensor": lambda: made(
        [0, 1, -1, 0.5, nan, inf, 300, True],
        [values(d) for d in ALL] + [torch.tensor([]), torch.tensor(1)],
        word="special ",
        invert=FLAGS,
    ),
    "sym_size.int": of(SOME_DIMS),
    "sym_stride.int": of(SOME_DIMS),
    "sym_numel": of(),
    "sym_storage_offset": of(),
    "item": lambda: chained(of()(), made([v for d in ALL for v in values(d)], word="special ")),
    "_local_scalar_dense": lambda: chained(of()(), made([v for d in ALL for v in values(d)], word="special ")),
    "eye.m": factories([0, 1, 3, -1], [0, 1, 2, -1]),
    "zeros": factories(EMPTY_SIZES),
    "ones": factories(EMPTY_SIZES),
    "zeros_like": likes(),
    "ones_like": likes(),
    "new_zeros": news(EMPTY_SIZES),
    "new_ones": news(EMPTY_SIZES),
    "new_full": lambda: chained(news([[2], [0], []], NUMBERS)(), halves_to_bool([2])),
    "empty.memory_format": factories(EMPTY_SIZES),
    "empty_strided": factories([[2, 3], [0], []], [[3, 1], [1, 2], [1], [], [-1]]),
    "empty_like": likes(),
    "new_empty": news(EMPTY_SIZES),
    "new_empty_strided": news([[2, 3], [0], []], [[3, 1], [1, 2], [1], []]),
    "rand": factories(EMPTY_SIZES),
    "randn": factories(EMPTY_SIZES),
    "randperm": factories([0, 1, 5, -1, 300]),
    "rand_like": likes(),
    "randn_like": likes(),
    "rand.generator": lambda: made(
        EMPTY_SIZES, word="plain ", generator=[None], dtype=[None, torch.float16, torch.int64]
    ),
    "randn.generator": lambda: made(
        EMPTY_SIZES, word="plain ", generator=[None], dtype=[None, torch.float16, torch.int64]
    ),
    "rand_like.generator": lambda: made(
        boxes(), word="plain ", generator=[None], dtype=[None, torch.float16, torch.int64]
    ),
    "randn_like.generator": lambda: made(
        boxes(), word="plain ", generator=[None], dtype=[None, torch.float16, torch.int64]
    ),
    "dropout": lambda: made(boxes(), [0.5, 0.0, 1.0, -0.5, 1.5, nan], FLAGS, word="plain "),
    "native_dropout": lambda: made(boxes(), [0.5, 0.0, 1.0, -0.5, 1.5, nan], [None] + FLAGS, word="plain "),
    "logspace": lambda: made(
        [0, 1.0, -1.5, inf, nan],
        [1, 3.7, -2],
        [0, 1, 3, -1],
        [10.0, 2.0, 0.0, -2.0],
        word="plain ",
        dtype=[None] + FLOATS + INTS[:1] + [torch.int8],
    ),
    "constant_pad_nd": lambda: made(
        boxes() + [values(d, 0) for d in FLOATS],
        [[1, 0], [0, 0], [-1, 0], [-2, 0], [1, 1, 0, 2], [], [1], [-4, 1], [-1, -1], [1, 2, 3, 4, 5, 6, 7, 8]],
        [0, 0.5, nan, -3, 300, True],
        word="plain ",
    ),
    "index.Tensor": lambda: (Call([x, at], {}, f"plain {said(x)} {said(at)}") for x, at in indexed()),
    "index_put": put,
    "index_add": index_add,
    "index_select": of([0, 1, -1, 2], index_lists()),
    "take": of(index_lists()),
    "embedding": lambda: (
        Call([one(d, (3, 2)), i, p, freq, False], {}, f"plain {d} {said(i)} {p} {freq}")
        for i, p, freq, d in embeddings()
    ),
    "embedding_backward": lambda: (
        Call([one(d, (*i.shape, 2)), i, 3, p, freq, False], {}, f"plain {d} {said(i)} {p} {freq}")
        for i, p, freq, d in embeddings(True)
    ),
    "embedding_dense_backward": lambda: (
        Call([one(d, (*i.shape, 2)), i, 3, p, freq], {}, f"plain {d} {said(i)} {p} {freq}")
        for i, p, freq, d in embeddings(True)
    ),
    "slice_scatter": slice_scatters,
    "select_scatter": select_scatters,
    "diagonal_scatter": diagonal_scatters,
    "index_select_backward": lambda: (
        Call([one(d, (2, 3)), [4, 3], 0, torch.tensor(i)], {}, f"plain {d} {i}")
        for d in FLOATS
        for i in ([0, 2], [1, 1], [-1, 0], [4, 0], [3, 3])
    ),
    "gather_backward": lambda: (
        Call([one(d, (2, 2)), one(d, (3, 2)), 0, torch.tensor(i), False], {}, f"plain {d} {i}")
        for d in FLOATS
        for i in ([[0, 2], [2, 2]], [[0, 0], [0, 0]], [[3, 0], [0, 0]])
    ),
    "select_backward": spread_back(
        ((3,), [2, 3], 0, 1),
        ((3,), [2, 3], 0, -1),
        ((2,), [2, 3], 1, 3),
        ((3,), [2, 3], 2, 0),
        ((), [3], 0, 0),
        ((0,), [2, 0], 0, 0),
    ),
    "slice_backward": spread_back(
        ((2, 3), [4, 3], 0, 0, 2, 1),
        ((2, 3), [4, 3], 0, 0, 4, 2),
        ((2, 3), [4, 3], 0, -2, 9, 1),
        ((0, 3), [4, 3], 0, 3, 1, 1),
        ((2, 3), [4, 3], 0, 0, 2, 0),
    ),
    "diagonal_backward": spread_back(
        ((2,), [2, 3], 0, 0, 1),
        ((2,), [2, 3], 1, 0, 1),
        ((1,), [2, 3], -1, 0, 1),
        ((0,), [2, 3], 9, 0, 1),
        ((2,), [2, 3], 0, 0, 0),
        ((2,), [2, 3], 0, 1, 0),
    ),
    "argsort.stable": lambda: over(stable=FLAGS, dim=DIMS, descending=FLAGS),
}
