"""Calls of the edge sweep (edge_calls.py) of norms, resampling, distances, bags of embeddings and rounding to few numbers."""

import torch
from edge_layers import F32, F64, I64, THREE, image_sizes, ints, planes, sized
from edge_values import *


def group_inputs(d):
    """Lines of four channels in two groups: those of the first group's elements are special."""
    x = torch.cat([rows(d), rows(d).flip(0)[:, :1]], 1) if d.is_floating_point else one(d, (7, 4))
    return x.reshape(len(x), 4, 1)


NORM_SHAPES = [(2, 4, 3), (1, 4, 1), (0, 4, 3), (2, 0, 3), (2, 4, 0), (2, 4), (4,), (), (1, 4, 2, 2), (2, 4, 1, 1, 1)]


def weighted(d, n=4):
    return [(None, None), (one(d, (n,), 2), None), (one(d, (n,), 2), one(d, (n,), 3)), (None, one(d, (n,), 3))]


def normed(
    tail,
    special=lambda d: rows(d),
    shapes=((2, 3), (1, 3), (0, 3), (3,), (2, 1), ()),
    head=lambda x: [[3]],
    n=3,
    grads=True,
):
    """(input, *head, weight, bias?, *tail)"""

    def calls():
        for d in FLOATS + [I64]:
            for w, b in weighted(d, n):
                for t in tail:
                    yield Call(
                        [special(d), *head(0), *([w, b] if grads else [w]), *t],
                        {},
                        f"special {d} {w is not None} {b is not None} {t}",
                    )
        for s in shapes:
            for w, b in weighted(F32, n)[:3:2]:
                yield Call(
                    [one(F32, s), *head(0), *([w, b] if grads else [w]), *tail[0]], {}, f"shapes {s} {w is not None}"
                )
        for a, b in itertools.permutations((F64, F32, torch.float16, torch.bfloat16), 2):
            yield Call(
                [one(a, shapes[0]), *head(0), *([one(b, (n,)), one(b, (n,))] if grads else [one(b, (n,))]), *tail[0]],
                {},
                f"mixed {a} {b}",
            )
        for wrong in ((1,), (n + 1,), (), (n, 1), (0,)):
            yield Call(
                [one(F32, shapes[0]), *head(0), *([one(F32, wrong), None] if grads else [one(F32, wrong)]), *tail[0]],
                {},
                f"shapes weight {wrong}",
            )

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
    return Call(
        [x, w, b, mean, var, train, momentum, eps] + ([False] if kind in ("batch", "instance") else []), {}, note
    )


# resampling, distances, windows as columns ---


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
                    yield Call(
                        [one(d, (1, 2, *[3] * rank)), [n] * rank, *c, *([None] if vector else [])],
                        {},
                        f"plain {d} {n} {c}",
                    )
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
        for s, t in (
            ((0, 3), (2, 3)),
            ((2, 0), (2, 0)),
            ((2, 2, 3), (2, 1, 3)),
            ((2, 3), (2, 2)),
            ((3,), (3,)),
            ((1, 2, 3), (4, 1, 3)),
        ):
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
        for s in (
            ((8, 4), (0, 8, 4), (1, 8, 0), (1, 0, 4), (1, 6, 4), (4,))
            if back
            else ((2, 3, 3), (0, 2, 3, 3), (1, 0, 3, 3), (1, 2, 0, 3), (1, 1, 1, 1), (3, 3))
        ):
            yield Call([one(F32, s), *rest], {}, f"shapes {s}")
        sizes = [[[3, 3], [4, 4], [0, 3], [-1, 3], [3], [2, 5]]] if back else []
        yield from varied(
            [x(F32), *rest],
            [],
            *sizes,
            [[1, 1], [3, 3], [4, 4], [0, 2], [-1, 1], [2]],
            [[2, 2], [0, 1], [3, 3]],
            [[1, 1], [-1, 0], [2, 0]],
            [[2, 2], [0, 1], [-1, 1]],
        )

    return calls


def grids(back=False, dims=2):
    """grid_sampler_2d and 3d. Along z positions stand still inside of the volume, and leave it."""

    def calls():
        at = [0.0, -1.0, 1.0, 0.5, -0.5, 2.0, -3.0, 1e30, nan, inf, -inf, 0.99]
        ones = (1,) * (dims - 2)
        volume = (1, 2, *(2,) * (dims - 2), 3, 4)
        for d in (F64, F32):
            g = torch.tensor(at, dtype=d)
            rest = [torch.tensor([0.25, -1.5], dtype=d).reshape(2, 1)] + [torch.tensor([-0.125, 1.25], dtype=d).reshape(2, 1)] * (dims - 2)
            grid = torch.stack(torch.broadcast_tensors(g, *rest), -1).reshape(1, *ones, 2, len(at), dims)
            for mode, pad, corners in itertools.product((0, 1, 2) if not back else (0, 1), (0, 1, 2), FLAGS):
                x = one(d, volume)
                head = [one(d, (1, 2, *ones, 2, len(at)), 3)] if back else []
                yield Call(
                    [*head, x, grid, mode, pad, corners, *([[True, True]] if back else [])],
                    {},
                    f"special {d} {mode} {pad} {corners}",
                )
        if back:
            return
        for s, t in (
            ((1, 2, 3, 3), (1, 0, 2, 2)),
            ((0, 2, 3, 3), (0, 2, 2, 2)),
            ((1, 0, 3, 3), (1, 2, 2, 2)),
            ((1, 2, 0, 3), (1, 2, 2, 2)),
            ((1, 2, 1, 1), (1, 1, 1, 2)),
            ((2, 2, 3, 3), (1, 2, 2, 2)),
            ((1, 2, 3, 3), (1, 2, 2, 3)),
            ((2, 3, 3), (2, 2, 2)),
            ((1, 2, 3, 3), (1, 2, 2)),
        ):
            if dims == 3:
                s, t = (*s[:2], 2, *s[2:]), (*t[:1], 1, *t[1:-1], t[-1] + 1)
            yield Call([*sized(s, t), 0, 0, False], {}, f"shapes {s} {t}")
        for mode, pad in ((3, 0), (-1, 0), (0, 3), (0, -1)):
            yield Call([*sized((1, 2, *ones, 3, 3), (1, 2, *ones, 2, dims)), mode, pad, False], {}, f"plain {mode} {pad}")
        yield Call([one(F32, (1, 2, *ones, 3, 3)), one(F64, (1, 2, *ones, 2, dims)), 0, 0, False], {}, "mixed grid")

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
                for index, offsets, last in (
                    ([0, 2, 2, 1], [0, 2], False),
                    ([0, 2, 2, 1], [0, 0, 4], False),
                    ([0, 2, 2, 1], [0, 2, 4], True),
                    ([], [0, 0], False),
                    ([], [], False),
                    ([1], [0], False),
                    ([0, 4], [0], False),
                    ([0, -1], [0], False),
                    ([0, 1], [1], False),
                    ([0, 1], [0, 3], False),
                    ([0, 1], [0, -1], False),
                    ([3, 0], [0, 1], False),
                    ([1, 1, 1], [0], False),
                    ([0, 1], [0, 1], True),
                ):
                    yield Call(
                        [w, ints(*index), ints(*offsets), False, mode, False, None, last, none][:cut],
                        {},
                        f"plain {d} {mode} {index} {offsets} {last}",
                    )
                if cut == 9:
                    for p in (0, 2, -1, -4, 4, -9):
                        yield Call(
                            [w, ints(0, 2, 2, 1), ints(0, 2), False, mode, False, None, False, p],
                            {},
                            f"plain {d} {mode} padding {p}",
                        )
                for s in ([1.0, 0.0, nan, -inf], [1.0, 2.0, 3.0]):
                    yield Call(
                        [w, ints(0, 2, 2, 1), ints(0, 2), False, mode, False, torch.tensor(s).to(d), False, none][:cut],
                        {},
                        f"special {d} {mode} weights {s}",
                    )
            yield Call(
                [w, ints(0, 2, 2, 1), ints(0, 2), True, 0, False, None, False, none][:cut], {}, f"plain {d} by count"
            )
        yield Call(
            [one(F32, (4, 2)), torch.tensor([0, 1], dtype=torch.int32), ints(0), False, 0, False, None, False, none][
                :cut
            ],
            {},
            "mixed indices",
        )
        yield Call(
            [one(F32, (4, 2)), ints(0, 1), ints(0), False, 3, False, None, False, none][:cut], {}, "plain mode 3"
        )
        yield Call(
            [one(F32, (4,)), ints(0, 1), ints(0), False, 0, False, None, False, none][:cut], {}, "shapes one dim"
        )

    return calls


# numbers by few steps ---


def quantized(qparams=False, enabled=False, channel=False):
    def calls():
        for d in FLOATS:
            for scale, zero in (
                (0.1, 0),
                (1.0, 3),
                (0.5, -5),
                (1e-30, 0),
                (inf, 0),
                (0.0, 0),
                (-1.0, 0),
                (nan, 0),
                (1.0, 300),
            ):
                for low, high in ((-128, 127), (0, 255), (0, 0), (5, 1)):
                    note = f"special {d} {scale} {zero} {low} {high}"
                    if channel:
                        x = torch.broadcast_to(values(d), (2, len(values(d)))).contiguous()
                        yield Call(
                            [x, torch.tensor([scale, 0.25]), torch.tensor([zero, 1], dtype=torch.int32), 0, low, high],
                            {},
                            note,
                        )
                    elif qparams:
                        yield Call(
                            [
                                values(d),
                                torch.tensor([scale]),
                                torch.tensor([zero], dtype=torch.int32),
                                *([torch.tensor([1])] if enabled else []),
                                low,
                                high,
                            ],
                            {},
                            note,
                        )
                    else:
                        yield Call([values(d), scale, zero, low, high], {}, note)
        if channel:
            for axis in (0, 1, -1, 2):
                for n in (2, 3, 0):
                    yield Call(
                        [one(F32, (2, 3)), torch.full((n,), 0.5), torch.zeros(n, dtype=torch.int32), axis, 0, 255],
                        {},
                        f"shapes axis {axis}, {n} scales",
                    )
        if enabled:
            yield Call(
                [values(F32), torch.tensor([0.1]), torch.tensor([0], dtype=torch.int32), torch.tensor([0]), 0, 255],
                {},
                "special off",
            )

    return calls


PER_RANK = {}
for rank in (1, 2, 3):
    PER_RANK |= {
        f"upsample_nearest{rank}d": resampled(rank),
        f"upsample_nearest{rank}d.vec": resampled(rank, vector=True),
        f"_upsample_nearest_exact{rank}d": resampled(rank),
        f"_upsample_nearest_exact{rank}d.vec": resampled(rank, vector=True),
    }

FAMILIES = PER_RANK | {
    "layer_norm": layer_norms,
    "rms_norm": rms_norms(),
    "_fused_rms_norm": rms_norms(True),
    "group_norm": group_norms,
    "native_group_norm": native_group_norms,
    "_native_batch_norm_legit_no_training": batch_norms("no_training"),
    "_native_batch_norm_legit.no_stats": batch_norms("no_stats"),
    "_native_batch_norm_legit": batch_norms("legit"),
    "_native_batch_norm_legit_functional": batch_norms("legit"),
    "native_batch_norm": batch_norms("native"),
    "_batch_norm_with_update": batch_norms("update"),
    "batch_norm": batch_norms("batch"),
    "instance_norm": batch_norms("instance"),
    "upsample_linear1d": resampled(1, True),
    "upsample_linear1d.vec": resampled(1, True, True),
    "upsample_bilinear2d": resampled(2, True),
    "upsample_bilinear2d.vec": resampled(2, True, True),
    "upsample_trilinear3d": resampled(3, True),
    "upsample_trilinear3d.vec": resampled(3, True, True),
    "upsample_bicubic2d.vec": resampled(2, True, True),
    "_upsample_bilinear2d_aa.vec": resampled(2, True, True),
    "_upsample_bicubic2d_aa.vec": resampled(2, True, True),
    "_upsample_lanczos2d_aa": resampled(2, True),
    "_upsample_lanczos2d_aa.vec": resampled(2, True, True),
    "_cdist_forward": distances,
    "_pdist_forward": own_distances,
    "im2col": columns(),
    "col2im": columns(True),
    "grid_sampler_2d": grids(),
    "grid_sampler_3d": grids(dims=3),
    "grid_sampler": grids(),
    "_embedding_bag": bags(),
    "_embedding_bag_forward_only": bags(),
    "embedding_bag": bags(False),
    "embedding_bag.padding_idx": bags(False, True),
    "fake_quantize_per_tensor_affine": quantized(),
    "fake_quantize_per_tensor_affine.tensor_qparams": quantized(True),
    "fake_quantize_per_channel_affine": quantized(channel=True),
    "fake_quantize_per_tensor_affine_cachemask": quantized(),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": quantized(True, True),
    "fake_quantize_per_channel_affine_cachemask": quantized(channel=True),
}
