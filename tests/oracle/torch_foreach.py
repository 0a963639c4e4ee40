#!/usr/bin/env python3
"""Records what PyTorch's CPU gives for ops that no OpInfo samples alone show: a case file (format: cases.md) of _foreach_* in all their
forms, steps of the fused optimizers, assertions, and prims.

usage: torch_foreach.py FILE [--seed S]
Lists have tensors of several sizes, one of them without dims; ScalarList is tried with ints, too. Optimizers run three kinds of step:
plain, with everything on, and with found_inf set. Needs what torch_cases.py needs.
"""
import argparse, json, sys
import torch
import torch._inductor.inductor_prims  # registers prims::fma
from safetensors.torch import save_file

import torch_cases as tc

aten, prims = torch.ops.aten, torch.ops.prims
SIZES = [(2, 3), (), (5,), (1, 4)]
NO_ROW = {"_foreach_lgamma", "_foreach_lgamma_", "_foreach_powsum"}
NEAR_ONE = ("acos", "asin")


def values(dtype, low=-2.0, high=2.0, sizes=SIZES):
    out = [torch.rand(s, dtype=torch.float64) * (high - low) + low for s in sizes]
    return [t.to(dtype) if dtype.is_floating_point else (t * 3).round().to(dtype) for t in out]


def arguments(schema, dtype, ints):
    """By type and name; the first list is self's."""
    name = schema.name
    args, kwargs = [], {}
    for a in schema.arguments:
        kind = str(a.type)
        if kind == "List[Tensor]":
            low, high = (-0.9, 0.9) if any(x in name for x in NEAR_ONE) else (-2.0, 2.0)
            positive = "pow" in name or ("div" in name and a.name in ("other", "tensor2")) or any(x in name for x in ("log", "sqrt"))
            value = values(dtype, 0.25 if positive else low, high)
            if name.endswith("mm"):
                value = values(dtype, sizes=[(2, 3), (1, 2)] if a.name == "self" else [(3, 4), (2, 2)])
        elif kind == "List[number]":
            value = [2, 1, 3, 2] if ints else [0.5, 1.5, 2.0, 0.25]
        elif kind == "Tensor":
            value = torch.tensor([0.5, 1.5, 2.0, 0.25]) if a.name == "scalars" else torch.tensor(1.5)
        elif kind == "number":
            if a.has_default_value() and ints:
                continue
            value = 2 if ints or "pow" in name else 1.5
        else:
            continue
        if a.kwarg_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    return args, kwargs


def foreach(cf):
    for s in torch._C._jit_get_all_schemas():
        base = s.name.split("::")[1]
        if not base.startswith("_foreach_") or base in NO_ROW or "out" in s.overload_name:
            continue
        packet = getattr(aten, base, None)
        if packet is None:
            continue
        func = getattr(packet, s.overload_name or "default")
        numbers = any("number" in str(a.type) for a in s.arguments)
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            for ints in (False, True) if numbers else (False,):
                args, kwargs = arguments(s, dtype, ints)
                tc.record(cf, func, args, kwargs, f"{base} {tc.DT[dtype]}", False)


def leaves(tree):
    """Without the tensor that has no dims, whose gradient is an error of PyTorch's."""
    lists = [[t for t in x if t.dim()] if isinstance(x, list) else x for x in tree]
    return [[t.requires_grad_() for t in x] if isinstance(x, list) else x for x in lists]


def gradients(cf):
    for op, ov in (("mul", "List"), ("div", "List"), ("sqrt", "default")):
        func = getattr(getattr(aten, "_foreach_" + op), ov)
        args, kwargs = arguments(func._schema, torch.float64, True)
        tc.record(cf, func, leaves(args), kwargs, f"_foreach_{op} with gradients", True)


def steps(cf):
    on = dict(grad_scale=torch.tensor(4.0), found_inf=torch.tensor(0.0))
    inf = dict(grad_scale=torch.tensor(4.0), found_inf=torch.tensor(1.0))
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for more in ({}, on, inf):
            everything = bool(more)
            p, g, m = (values(dtype) for _ in range(3))
            v, most, count = values(dtype, 0, 1), values(dtype, 0, 1), [torch.tensor(float(k + 1)) for k in range(len(SIZES))]
            for name in ("_fused_adam_", "_fused_adamw_"):
                for lr in (0.01, torch.tensor(0.01)):
                    func = getattr(getattr(aten, name), "tensor_lr" if isinstance(lr, torch.Tensor) else "default")
                    tc.record(cf, func, (p, g, m, v, most if everything else [], count),
                              dict(lr=lr, beta1=0.9, beta2=0.99, weight_decay=0.1 * everything, eps=1e-6, amsgrad=everything,
                                   maximize=everything, **more), name, False)
            for first in (False, True):
                for momentum in (0.0, 0.9):
                    tc.record(cf, aten._fused_sgd_.default, (p, g, m if momentum else []),
                              dict(weight_decay=0.1 * everything, momentum=momentum, lr=0.01, dampening=0.25,
                                   nesterov=everything and momentum > 0, maximize=everything, is_first_step=first, **more),
                              "_fused_sgd_", False)
            tc.record(cf, aten._fused_adagrad_.default, (p, g, v, count),
                      dict(lr=0.01, lr_decay=0.01, weight_decay=0.1 * everything, eps=1e-6, maximize=everything, **more),
                      "_fused_adagrad_", False)


def assertions(cf):
    x = torch.randn(2, 3)
    for args in ((torch.tensor(True),), (torch.tensor([[2.5]]),), (torch.tensor(float("nan")),)):
        tc.record(cf, aten._assert_async.default, args, {}, "assert", False)
        tc.record(cf, aten._assert_async.msg, (*args, "no"), {}, "assert", False)
        tc.record(cf, aten._functional_assert_async.msg, (*args, "no", x), {}, "assert", False)
    for n in (1, 2.5, True):
        tc.record(cf, aten._assert_scalar.default, (n, "no"), {}, "assert", False)
        tc.record(cf, aten._functional_assert_scalar.default, (n, "no", x), {}, "assert", False)
    tc.record(cf, aten._assert_tensor_metadata.default, (x, [2, 3], [3, 1], torch.float32), {}, "assert", False)
    tc.record(cf, aten._assert_tensor_metadata.default, (x,), {}, "assert", False)
    for limits in ({}, {"min": 1}, {"max": 9}, {"min": 2, "max": 9}):
        tc.record(cf, aten.sym_constrain_range.default, (5,), limits, "range", False)
        tc.record(cf, aten.sym_constrain_range_for_size.default, (5,), limits, "range", False)
        tc.record(cf, aten._functional_sym_constrain_range.default, (5, limits.get("min"), limits.get("max"), x), {}, "range", False)
    bad = [(aten._assert_async.msg, (torch.tensor(0), "it is none"), {}), (aten._assert_async.default, (torch.ones(2),), {}),
           (aten._assert_scalar.default, (0, "it is none"), {}), (aten._assert_tensor_metadata.default, (x, [3, 2]), {}),
           (aten._assert_tensor_metadata.default, (x, None, None, torch.int64), {}),
           (aten.sym_constrain_range.default, (5,), {"min": 6}), (aten.sym_constrain_range_for_size.default, (-1,), {}),
           (aten.sym_constrain_range_for_size.default, (5,), {"max": 2})]
    for k, (func, args, kwargs) in enumerate(bad):
        try:
            func(*args, **kwargs)
            sys.exit(f"{func} {args} is no error")
        except RuntimeError as e:
            cf.add({"op": tc.qualified(func), "note": f"error {k}", "error": str(e).splitlines()[0],
                    "args": [cf.arg(a) for a in args], "kwargs": {k: cf.arg(v) for k, v in kwargs.items()}}, hash((k, "error")))


def others(cf):
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        x = torch.randn(4, 3).mul(3).to(dtype)
        for to in (torch.float64, torch.float16, torch.int64, torch.bool, dtype):
            tc.record(cf, prims.convert_element_type.default, (x.t(), to), {}, "prims", False)
        if dtype == torch.float32:
            tc.record(cf, prims.fma.default, (x, x[:, :1], x[0]), {}, "prims", False)
            tc.record(cf, prims.fma.default, (x.double().requires_grad_(), x.double(), x.double().requires_grad_()), {}, "prims", True)
        tc.record(cf, aten.lift_fresh_copy.default, (x.t(),), {}, "lift", False)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for v, g, dim in (((3, 4), (3, 1), 0), ((3, 4, 5), (1, 1, 5), 2), ((3, 4, 5), (1, 4, 1), 1), ((3, 4), (), -1), ((6,), (6,), 0)):
            args = (torch.randn(v).to(dtype).requires_grad_(), torch.rand(g).to(dtype).requires_grad_(), dim)
            tc.record(cf, aten._weight_norm.default, args, {}, "weight norm", dim >= 0 and dtype in (torch.float32, torch.float64))
            if dim != 1 and dim >= 0:
                tc.record(cf, aten._weight_norm_interface.default, [a.detach() if isinstance(a, torch.Tensor) else a for a in args], {}, "weight norm", False)
                if dtype != torch.float16:
                    w, n = aten._weight_norm_interface(args[0].detach(), args[1].detach(), dim)
                    tc.record(cf, aten._weight_norm_interface_backward.default, (torch.randn_like(w), args[0].detach(), args[1].detach(), n, dim), {}, "weight norm", False)
                    tc.record(cf, aten._weight_norm_differentiable_backward.default, (torch.randn_like(w), args[0].detach(), args[1].detach(), n, dim), {}, "weight norm", False)
    for dtype in (torch.float32, torch.float64):
        for size, align in (([2, 3, 4, 5], False), ([2, 3, 4, 5], True), ([2, 1, 1, 6], True), ([2, 2, 3, 4, 5], False), ([2, 2, 3, 4, 5], True)):
            n = len(size) - 2
            theta = torch.randn(2, n, n + 1, dtype=dtype, requires_grad=True)
            tc.record(cf, aten.affine_grid_generator.default, (theta, size, align), {}, "affine grid", True)
            grad = torch.randn(2, *size[2:], n, dtype=dtype)
            tc.record(cf, aten.affine_grid_generator_backward.default, (grad, size, align), {}, "affine grid", False)
    for dtype in (torch.float32, torch.uint8):
        x = (torch.rand(1, 2, 9, 7) * (255 if dtype == torch.uint8 else 1)).to(dtype)
        for size, align, factors in (([4, 5], False, (None, None)), ([13, 3], True, (None, None)), ([4, 5], False, (0.5, 0.75))):
            for name in ("_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "upsample_bicubic2d"):
                f = getattr(aten, name)
                tc.record(cf, f.default, (x, size, align, *factors), {}, "filter", False)
                if dtype == torch.float32:
                    tc.record(cf, f.default, (x.double().requires_grad_(), size, align, *factors), {}, "filter", True)
                    tc.record(cf, getattr(aten, name + "_backward").default, (torch.randn(1, 2, *size), size, list(x.shape), align, *factors), {}, "filter", False)
    for mode in ("constant", "reflect", "replicate", "circular"):
        for x, pad in ((torch.randn(2, 3, 4), [1, 2]), (torch.randn(1, 2, 3, 4), [1, 2, 2, 0]), (torch.randn(1, 2, 3, 4), [1, -1, -1, 2])):
            tc.record(cf, aten.pad.default, (x.double().requires_grad_(), pad, mode), {}, "pad", True)
    for func in (aten.__and__, aten.__or__, aten.__xor__, aten.__lshift__, aten.__rshift__, aten.__iand__, aten.__ior__, aten.__ixor__, aten.__ilshift__, aten.__irshift__):
        for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
            x, y = torch.randint(0, 7, (3, 4)).to(dtype), torch.randint(0, 3, (4,)).to(dtype)
            tc.record(cf, func.Tensor, (x, y), {}, "dunder", False)
            tc.record(cf, func.Scalar, (x, True if dtype == torch.bool else 2), {}, "dunder", False)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file")
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    cf = tc.CaseFile()
    for part in (foreach, gradients, steps, assertions, others):
        part(cf)
    save_file(cf.tensors, a.file, {"format": "cases-1", "torch": torch.__version__, "cases": json.dumps(cf.cases, separators=(",", ":"))})
    print(json.dumps({"cases": len(cf.cases)}))


if __name__ == "__main__":
    main()
