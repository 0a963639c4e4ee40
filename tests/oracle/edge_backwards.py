"""Calls of the edge sweep (edge_calls.py) of the gradients of rows that have one of their own: each for calls of its forward."""

import torch
from edge_layers import *
from edge_norms import *


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
    return [*call.args, *usual[len(call.args) :]]


A = torch.ops.aten


def max_pool_back(op):
    def make(call):
        out, index = op(*call.args)
        return [like_result(out), *call.args, index] if floats_only(call) else None

    return make


def adaptive_max_pool_back(op):
    def make(call):
        out, index = op(*call.args)
        return [like_result(out), call.args[0], index] if floats_only(call) else None

    return make


def avg_pool_back(op):
    def make(call):
        out = op(*call.args)
        return [like_result(out), *call.args, *[None][: 7 - len(call.args)]] if floats_only(call) else None

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
                    yield Call(
                        [like_result(x), out, dim, d],
                        {},
                        f"{'special' if len(x.shape) > 1 and len(x) > 2 else 'plain'} {said(x)} {dim}",
                    )
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
                    yield Call(
                        [like_result(out), x, [3], mean, rstd, w, b, mask],
                        {},
                        f"{'special' if len(x) > 2 else 'plain'} {said(x)} {w is not None} {b is not None} {mask}",
                    )


def group_norm_back():
    for d in FLOATS:
        for x in (group_inputs(d), one(d, (2, 4, 3)), one(d, (0, 4, 3))):
            for w in (None, one(d, (4,), 2)):
                out, mean, rstd = A.native_group_norm(x, w, None, x.shape[0], 4, x.shape[2], 2, 1e-5)
                for mask in ([True, True, True], [True, False, False], [False, True, False]):
                    yield Call(
                        [like_result(out), x, mean, rstd, w, x.shape[0], 4, x.shape[2], 2, mask],
                        {},
                        f"{'special' if len(x) > 2 else 'plain'} {said(x)} {w is not None} {mask}",
                    )


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
                        yield Call(
                            [like_result(out), x, w, mean, var, m, r, train, 1e-5, mask],
                            {},
                            f"plain {said(x)} {w is not None} {train} {mask}",
                        )


def class_losses_back():
    for d in FLOATS:
        x = torch.tensor([[-1.0, -2.0, -3.0], [-inf, -1.0, nan], [inf, 0.0, -0.5]], dtype=F64).to(d)
        for target in ([0, 1, 2], [-100, -100, -100], [0, -100, 2], [1, 0, 1]):
            for w in (None, [1.0, 0.0, 2.0], [nan, 1.0, inf]):
                for reduction in (0, 1, 2):
                    weight = None if w is None else torch.tensor(w, dtype=F64).to(d)
                    out, total = A.nll_loss_forward(x, torch.tensor(target), weight, reduction, -100)
                    yield Call(
                        [like_result(out), x, torch.tensor(target), weight, reduction, -100, total],
                        {},
                        f"special {d} {target} {w} {reduction}",
                    )


def entropy_back():
    for d in FLOATS:
        x = torch.tensor([0.0, 1.0, 0.5, 0.1, 1e-6], dtype=F64).to(d).reshape(-1, 1)
        y = torch.tensor([0.0, 1.0, 0.5, 2.0, -1.0, nan, inf], dtype=F64).to(d)
        x, y = (v.contiguous() for v in torch.broadcast_tensors(x, y))
        for reduction in (0, 1, 2):
            for w in (None, torch.full_like(x, 0.5)):
                yield Call(
                    [torch.ones(x.shape if reduction == 0 else (), dtype=d), x, y, w, reduction],
                    {},
                    f"special {d} {reduction} {w is not None}",
                )


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
        yield Call(
            [one(d, (len(x), w.shape[1]), 2), *(v.contiguous() for v in torch.broadcast_tensors(x, w))],
            {},
            f"special {d}",
        )
        yield Call([one(d, (0,)), one(d, (0,)), one(d, (0,))], {}, f"shapes {d}")


def attention_back():
    for d in (F64, F32):
        for q, k in (
            ((1, 2, 3, 2), (1, 2, 3, 2)),
            ((1, 1, 1, 1), (1, 1, 4, 1)),
            ((2, 2, 3, 2), (2, 2, 5, 2)),
            ((1, 4, 3, 2), (1, 2, 3, 2)),
        ):
            for causal in FLAGS:
                for mask in (
                    None,
                    torch.tensor([0.0, -inf, 1.0, 0.0, 0.0][: k[2]]).expand(q[2], k[2]).contiguous().to(d),
                ):
                    x = [one(d, q), one(d, k, 2), one(d, k, 3)]
                    out, sums = A._scaled_dot_product_flash_attention_for_cpu(*x, 0.0, causal, attn_mask=mask)
                    yield Call(
                        [like_result(out), *x, out, sums, 0.0, causal],
                        {"attn_mask": mask},
                        f"{'both' if causal and mask is not None else 'plain'} {d} {q} {causal} {mask is not None}",
                    )


def convolution_back():
    for rank in (1, 2, 3):
        n = lambda v: [v] * rank
        for d in (F64, F32, torch.bfloat16) if rank == 2 else (F32,):
            for v in (None, inf, nan):
                for rest in (
                    [n(1), n(0), n(1), False, n(0), 2],
                    [n(2), n(1), n(1), False, n(0), 2],
                    [n(1), n(0), n(1), True, n(0), 2],
                ):
                    x, w = one(d, (1, 4, *[3] * rank)), one(d, (4, 2, *[2] * rank), 2)
                    if v is not None:
                        x[0, 0].view(-1)[1] = v
                    g = like_result(A.convolution(x, w, None, *rest))
                    for mask in ([True, True, True], [True, False, False], [False, True, False], [False, False, True]):
                        yield Call(
                            [g, x, w, [4], *rest, mask],
                            {},
                            f"{'plain' if v is None else 'special'} {d} {rank} {v} {rest[0]} {rest[3]} {mask}",
                        )
    yield Call(
        [
            one(F32, (0, 4, 2)),
            one(F32, (0, 4, 3)),
            one(F32, (4, 2, 2)),
            [4],
            [1],
            [0],
            [1],
            False,
            [0],
            2,
            [True, True, True],
        ],
        {},
        "shapes no images",
    )


def distance_back():
    for p in ORDERS[:7]:
        for d in (F64, F32):
            for x, y in (
                (rows(d), one(d, (2, 3))),
                (one(d, (2, 3)), one(d, (2, 3))),
                (one(d, (0, 3)), one(d, (2, 3))),
                (one(d, (2, 2, 3)), one(d, (2, 1, 3))),
            ):
                out = A._cdist_forward(x, y, p, None)
                yield Call(
                    [like_result(out), x, y, p, out], {}, f"{'special' if len(x) > 2 else 'plain'} {said(x)} {p}"
                )


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
                yield Call(
                    [like_result(out), index, offsets, to, size, most, 4, freq, mode, False, samples, padding],
                    {},
                    call.note,
                )

    return calls


PER_RANK = {}
for rank in (1, 2, 3):
    PER_RANK |= {
        f"reflection_pad{rank}d_backward": backward(pads(rank), by(getattr(A, f"reflection_pad{rank}d").default)),
        f"replication_pad{rank}d_backward": backward(pads(rank), by(getattr(A, f"replication_pad{rank}d").default)),
        f"upsample_nearest{rank}d_backward": backward(
            resampled(rank), upsample_back(getattr(A, f"upsample_nearest{rank}d").default)
        ),
        f"_upsample_nearest_exact{rank}d_backward": backward(
            resampled(rank), upsample_back(getattr(A, f"_upsample_nearest_exact{rank}d").default)
        ),
    }
    if rank > 1:
        PER_RANK |= {
            f"max_pool{rank}d_with_indices_backward": backward(
                pools(rank), max_pool_back(getattr(A, f"max_pool{rank}d_with_indices").default)
            ),
            f"adaptive_max_pool{rank}d_backward": backward(
                adaptive(rank), adaptive_max_pool_back(getattr(A, f"adaptive_max_pool{rank}d").default)
            ),
            f"avg_pool{rank}d_backward": backward(
                pools(rank, None, 3, average=True), avg_pool_back(getattr(A, f"avg_pool{rank}d").default)
            ),
            f"_adaptive_avg_pool{rank}d_backward": backward(
                adaptive(rank),
                lambda call, op=getattr(A, f"_adaptive_avg_pool{rank}d").default: (
                    [like_result(op(*call.args)), call.args[0]] if floats_only(call) else None
                ),
            ),
        }

FAMILIES = PER_RANK | {
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_back,
    "convolution_backward": convolution_back,
    "native_layer_norm_backward": layer_norm_back,
    "native_group_norm_backward": group_norm_back,
    "native_batch_norm_backward": batch_norm_back,
    "upsample_linear1d_backward": backward(resampled(1, True), upsample_back(A.upsample_linear1d.default)),
    "upsample_bilinear2d_backward": backward(resampled(2, True), upsample_back(A.upsample_bilinear2d.default)),
    "upsample_trilinear3d_backward": backward(resampled(3, True), upsample_back(A.upsample_trilinear3d.default)),
    "_upsample_lanczos2d_aa_backward": backward(resampled(2, True), upsample_back(A._upsample_lanczos2d_aa.default)),
    "_cdist_backward": distance_back,
    "_pdist_backward": own_distance_back,
    "grid_sampler_2d_backward": grids(True),
    "grid_sampler_3d_backward": grids(True, 3),
    "_embedding_bag_backward": bag_back("whole"),
    "_embedding_bag_dense_backward": bag_back("dense"),
    "_embedding_bag_per_sample_weights_backward": bag_back("samples"),
    "_softmax_backward_data": softmax_back(A._softmax.default),
    "_log_softmax_backward_data": softmax_back(A._log_softmax.default),
    "nll_loss_backward": class_losses_back,
    "binary_cross_entropy_backward": entropy_back,
    "glu_backward": glu_back,
    "_prelu_kernel_backward": prelu_back,
}
