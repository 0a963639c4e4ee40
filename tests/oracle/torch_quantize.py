#!/usr/bin/env python3
"""Records what PyTorch's CPU gives for quantization: a case file (format: cases.md) of ops, and int8 linear layers.

usage: torch_quantize.py CASES LAYERS [--seed S]
CASES: fake_quantize with gradients, quantize, dequantize, _int_mm. Each call of quantized_decomposed's ops is recorded twice: as these
compute it, and as torch.quantize_per_tensor, torch.quantize_per_channel and dequantize do, by their int_repr.
LAYERS, for tests/unit/test_quant_recorded.c: for each KIND KIND.seen (what a MinMaxObserver of quint8 sees), KIND.in, KIND.weight
(whose observer is symmetric, qint8), KIND.bias, KIND.params (the two scales and the zero point of the input, f64) and KIND.out, the
result in f32 of onednn::qlinear_pointwise, which multiplies u8 by i8 into i32. Where that saturates in 16 bits (AVX2 without VNNI) it is
not what integers give, and nothing is recorded. Needs what torch_cases.py needs.
"""
import argparse, json, sys
import torch
import torch.ao.quantization.fx._decomposed  # its ops
from safetensors.torch import save_file
from torch.ao.quantization import MinMaxObserver

import torch_cases as tc

GRIDS = [(0.25, 3, 0, 255, torch.uint8), (0.1, -7, -128, 127, torch.int8), (0.037, 0, -8, 7, torch.int8),
         (1.5, 100, -300, 300, torch.int16)]
QUANTIZED = {torch.uint8: torch.quint8, torch.int8: torch.qint8}
own, aten = torch.ops.quantized_decomposed, torch.ops.aten


class By:
    """An overload as torch_cases.record calls it, computed by another function."""

    def __init__(self, func, by):
        self._schema, self.tags, self.by = func._schema, func.tags, by

    def __call__(self, *args, **kwargs):
        return self.by(*args, **kwargs)


def values(*size, endless=False):
    """Ties, the edges of grids, and what lies outside of them; also beyond all ints, which some of PyTorch's kernels, where C leaves it
    undefined, take for the least one."""
    x = torch.randn(size) * 10
    flat = x.view(-1)
    far = [1e30, -1e30, float("inf"), float("-inf")] if endless else [1e5, -1e5]
    special = torch.tensor([0.125, 0.375, -0.125, 0.625, 63.0, -0.75, -0.0, *far])
    n = min(len(special), flat.numel() // 2)
    flat[:n] = special[:n]
    return x


def by_tensor(x, scale, zero, low, high, dtype):
    return torch.quantize_per_tensor(x, scale, zero, QUANTIZED[dtype]).int_repr()


def by_channel(x, scales, zeros, axis, low, high, dtype):
    return torch.quantize_per_channel(x, scales, zeros, axis, QUANTIZED[dtype]).int_repr()


def back(q, scale, zero, low, high, dtype):
    return torch._make_per_tensor_quantized_tensor(q, scale, zero).dequantize()


def is_whole(low, high, dtype):
    """PyTorch's own quantizers have all of a dtype's values."""
    return dtype in QUANTIZED and (low, high) == (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


def tensor_calls(scale, zero, low, high, dtype):
    x, one = values(4, 7), [torch.tensor([scale]), torch.tensor([zero])]
    yield aten.fake_quantize_per_tensor_affine.default, (values(3, 9, endless=True).requires_grad_(), scale, zero, low, high)
    yield aten.fake_quantize_per_tensor_affine.tensor_qparams, (values(17, endless=True).requires_grad_(), one[0], one[1].int(), low, high)
    yield aten.fake_quantize_per_tensor_affine_cachemask.default, (x.clone().requires_grad_(), scale, zero, low, high)
    q = own.quantize_per_tensor(x, scale, zero, low, high, dtype)
    yield own.quantize_per_tensor.default, (x, scale, zero, low, high, dtype)
    yield own.quantize_per_tensor.tensor, (x, one[0], one[1], low, high, dtype)
    yield own.dequantize_per_tensor.default, (q, scale, zero, low, high, dtype)
    yield own.dequantize_per_tensor.tensor, (q, one[0], one[1], low, high, dtype)
    if is_whole(low, high, dtype):
        yield By(own.quantize_per_tensor.default, by_tensor), (x, scale, zero, low, high, dtype)
        yield By(own.dequantize_per_tensor.default, back), (q, scale, zero, low, high, dtype)


def channel_calls(scale, zero, low, high, dtype):
    for size, axis in (((3, 5), 0), ((3, 5), 1), ((2, 4, 3), 1), ((2, 3, 2, 2), 0)):
        n = size[axis]
        scales = scale * (1 + torch.arange(n) / 8)
        zeros = torch.tensor([max(low, min(high, zero - i)) for i in range(n)])
        x = values(*size)
        yield aten.fake_quantize_per_channel_affine.default, (x.clone().requires_grad_(), scales, zeros.int(), axis, low, high)
        yield own.quantize_per_channel.default, (x, scales, zeros, axis, low, high, dtype)
        q = own.quantize_per_channel(x, scales, zeros, axis, low, high, dtype)
        yield own.dequantize_per_channel.default, (q, scales, zeros, axis, low, high, dtype)
        if is_whole(low, high, dtype):
            yield By(own.quantize_per_channel.default, by_channel), (x, scales, zeros, axis, low, high, dtype)


def record_ops(cf):
    for grid in GRIDS:
        for make in (tensor_calls, channel_calls):
            for func, args in make(*grid):
                cf.seen = set()  # the second way of a call is one more case
                if not tc.record(cf, func, args, {}, f"quantize {tc.DT[grid[4]]}", True):
                    print("not recorded:", func._schema.name, grid, file=sys.stderr)
    for n, k, m in ((1, 1, 1), (5, 7, 3), (17, 64, 8), (20, 130, 9)):
        a, b = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((n, k), (k, m)))
        tc.record(cf, aten._int_mm.default, (a, b), {}, "int8 product", False)


def layer(out, kind, rows, depth, columns, shift, bias):
    seen, x = torch.randn(rows, depth) + shift, torch.randn(rows, depth) + shift
    w, b = torch.randn(columns, depth) / depth**0.5, torch.randn(columns) if bias else None
    of_x = MinMaxObserver(dtype=torch.quint8, qscheme=torch.per_tensor_affine)
    of_w = MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
    of_x(seen), of_w(w)
    (sx, zx), (sw, zw) = of_x.calculate_qparams(), of_w.calculate_qparams()
    sx, zx, sw = float(sx), int(zx), float(sw)
    assert int(zw) == 0
    qx, qw = by_tensor(x, sx, zx, 0, 255, torch.uint8), by_tensor(w, sw, 0, -128, 127, torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(qw, list(qx.shape))
    y = torch.ops.onednn.qlinear_pointwise(qx, sx, zx, packed, torch.tensor([sw]), torch.tensor([0]), b, 1.0, 0, torch.float32,
                                           "none", [], "")
    exact = (qx.double() - zx) @ qw.double().t() * (sx * sw) + (b.double() if bias else 0)
    if not torch.allclose(y.double(), exact, rtol=1.3e-6, atol=1e-5):
        sys.exit(f"{kind}: this machine's int8 product saturates: off by {(y - exact).abs().max():g}")
    params = torch.tensor([sx, sw, zx], dtype=torch.float64)
    named = {"seen": seen, "in": x, "weight": w, "params": params, "out": y} | ({"bias": b} if bias else {})
    out.update({f"{kind}.{name}": t.contiguous() for name, t in named.items()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("layers")
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args()
    torch.manual_seed(o.seed)
    cf, out = tc.CaseFile(), {}
    record_ops(cf)
    save_file(cf.tensors, o.cases, {"format": "cases-1", "torch": torch.__version__, "cases": json.dumps(cf.cases, separators=(",", ":"))})
    layer(out, "small", 5, 7, 3, 0, True)
    layer(out, "plain", 4, 16, 6, 0, False)
    layer(out, "deep", 3, 300, 9, 0, True)
    layer(out, "shifted", 11, 33, 5, 1.5, True)
    save_file(out, o.layers, {"torch": torch.__version__.split("+")[0]})
    print(f"{len(cf.cases)} cases of {len({c['op'] for c in cf.cases})} overloads, {len(out)} tensors of layers")


main()
