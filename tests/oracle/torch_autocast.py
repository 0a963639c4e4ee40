#!/usr/bin/env python3
"""Records what PyTorch's ops give under autocast as a case file (format: cases.md), and checks Sinter's table of policies.

usage: torch_autocast.py --sinter BIN --out FILE [--max N] [--seed S]
The generic lists are read from the header that PyTorch installs (ATen/autocast_mode.h): rows of `sinter ops --autocast` must agree with
them, but for those in PASS_ON. Where the CPU's own list has the same policy (no star), a case is a run under torch.autocast("cpu"); where
it differs there is no such run, and the op is called on what the generic list casts. What the table says of the CPU's list is held
against runs: the dtype of a result is that of the op on the casts which that policy makes. Needs what torch_cases.py needs.
"""
import argparse, collections, json, os, re, subprocess, sys
import torch
from safetensors.torch import save_file
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

import torch_cases as tc

LISTS = {"LOWER_PRECISION_FP": "lower", "FP32": "f32", "FP32_SET_OPT_DTYPE": "f32_dtype", "PROMOTE": "promote"}
# Not in the lists: PyTorch's op only passes on to one that is, below autocast or with its parts in f32.
PASS_ON = {"aten::conv1d.padding": "lower", "aten::conv2d.padding": "lower", "aten::conv3d.padding": "lower", "aten::square": "f32",
           "aten::cross_entropy_loss": "f32"}
PASS_ON |= {f"aten::upsample_{x}.vec": "f32" for x in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d")}
LOWER = {"bf16": torch.bfloat16, "f16": torch.float16}
# PyTorch's CPU kernels of transposed convolutions, which are also gradients of others, add up in halves: what is recorded of such is the
# sum in f32, rounded once.
SUMS_IN_HALVES = "aten::conv"


def generic_lists():
    path = os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h")
    text = open(path).read().replace("\\\n", " ")
    lists = {}
    for name, policy in LISTS.items():
        body = re.search(rf"#define AT_FORALL_{name}\(_\)(.*)", text).group(1)
        for op, overload in re.findall(r"_\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\)", body):
            lists[f"aten::{op}.{overload}" if overload else f"aten::{op}"] = policy
    body = re.search(r"#define AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE\(_\)(.*)", text).group(1)
    for op in re.findall(r'"([\w.]+)"', body):
        lists[f"aten::{op}"] = "f32"
    return lists


def check_table(table, known):
    lists = generic_lists()
    bad = [f"{op}: {table.get(op, 'none')}, PyTorch's list has {policy}" for op, policy in lists.items()
           if op in known and table.get(op, "none") != policy]
    bad += [f"{op}: {policy}, which PyTorch's list lacks" for op, policy in table.items()
            if policy != "none" and op not in lists and PASS_ON.get(op) != policy]
    return bad


def is_cast(t):
    return isinstance(t, torch.Tensor) and t.dtype in (torch.float32, torch.float16, torch.bfloat16)


def by_policy(func, policy, lower, args, kwargs):
    """The call on what the policy casts, without autocast."""
    if policy == "f32_dtype":
        names = [a.name for a in func._schema.arguments]
        if is_cast(args[0]) and "dtype" in names and kwargs.get("dtype") is None and len(args) <= names.index("dtype"):
            kwargs = {**kwargs, "dtype": torch.float32}
        return func(*args, **kwargs)
    to = {"lower": lower, "f32": torch.float32, "none": None}.get(policy)
    if policy == "promote":
        flat = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if is_cast(x)]
        to = torch.float32 if any(x.dtype != lower for x in flat) else lower
    if to is not None:
        args, kwargs = tree_map(lambda x: x.to(to) if is_cast(x) else x, (args, kwargs))
    return func(*args, **kwargs)


class Under:
    """An overload as torch_cases.record calls it: under autocast, or as the policy says."""

    def __init__(self, func, row, lower):
        self.func, self.row, self.lower = func, row, lower
        self._schema, self.tags = func._schema, func.tags
        self.wide = row["name"].startswith(SUMS_IN_HALVES)
        self.real = row["autocast"] == row["autocast_cpu_list"]

    def __call__(self, *args, **kwargs):
        if self.wide:
            args, kwargs = tree_map(lambda x: x.to(self.lower).float() if is_cast(x) else x, (args, kwargs))
            return self.func(*args, **kwargs).to(self.lower)
        if not self.real:
            return by_policy(self.func, self.row["autocast"], self.lower, args, kwargs)
        with torch.autocast("cpu", dtype=self.lower):
            return self.func(*args, **kwargs)


def dtypes_of(out):
    return [x.dtype for x in torch.utils._pytree.tree_leaves(out) if isinstance(x, torch.Tensor)]


def check_cpu_list(func, row, lower, args, kwargs):
    """Whether a run has the dtypes that the CPU's policy in the table gives; None: the call fails."""
    try:
        with torch.no_grad():
            want = dtypes_of(by_policy(func, row["autocast_cpu_list"], lower, *tc.fresh((args, kwargs))))
            with torch.autocast("cpu", dtype=lower):
                args, kwargs = tc.fresh((args, kwargs))
                return dtypes_of(func(*args, **kwargs)) == want
    except (RuntimeError, NotImplementedError):
        return None


def calls(op, args, kwargs):
    """The sample's own overload and those that it runs below."""
    own = tc.overload_of(op, args, kwargs)
    rec = tc.Recorder()
    with torch.no_grad(), rec:
        try:
            a, kw = tc.fresh((args, kwargs))
            op(*a, **kw)
        except Exception:
            rec.calls = []
    return ([(own, args, kwargs)] if own is not None else []) + [c for c in rec.calls if c[0] is not own]


def small(args, kwargs):
    return all(not isinstance(x, torch.Tensor) or x.numel() <= 150 for x in torch.utils._pytree.tree_leaves((args, kwargs)))


def own_samples(dtype):
    """Of rows that PyTorch's samples do not reach, or only with more elements: overload, arguments."""
    aten, grad = torch.ops.aten, dtype == torch.float32

    def t(*sizes, scale=1.0):
        return (torch.rand(sizes) * scale + 0.05).to(dtype).requires_grad_(grad)
    for name in ("log1p", "expm1", "asin", "sinh", "tan", "acos", "cosh", "exp", "log", "log2", "log10", "rsqrt", "reciprocal", "square"):
        yield getattr(aten, name).default, (t(3, 5, scale=0.9),), {}
    yield aten.pow.Scalar, (2.5, t(3, 5)), {}
    yield aten.prelu.default, (t(2, 3, 4), t(3)), {}
    yield aten.scaled_dot_product_attention.default, (t(1, 2, 4, 8), t(1, 2, 5, 8), t(1, 2, 5, 8)), {}
    target = torch.tensor([1, 0, 3])
    yield aten.nll_loss.default, (t(3, 4), target), {}
    yield aten.cross_entropy_loss.default, (t(3, 4), target), {}
    yield aten.cross_entropy_loss.default, (t(3, 4), target, t(4).detach(), 1, 1, 0.1), {}
    yield aten.l1_loss.default, (t(3, 4), t(3, 4)), {}
    yield aten.conv2d.padding, (t(1, 2, 5, 5), t(3, 2, 3, 3), t(3), [1, 1], "same"), {}
    yield aten.conv2d.default, (t(1, 2, 5, 5), t(3, 2, 3, 3), t(3)), {}
    yield aten.conv_transpose3d.input, (t(1, 2, 2, 3, 3), t(2, 2, 2, 2, 2)), {}
    yield aten.adaptive_avg_pool3d.default, (t(1, 2, 4, 3, 4), [2, 2, 2]), {}
    yield aten.max_pool3d.default, (t(1, 2, 4, 4, 4), [2, 2, 2]), {}
    yield aten.grid_sampler.default, (t(1, 2, 4, 4), t(1, 3, 3, 2), 0, 0, False), {}
    for name, dims in (("nearest1d", 1), ("nearest2d", 2), ("nearest3d", 3), ("linear1d", 1), ("bilinear2d", 2)):
        corners = [False] if "linear" in name else []
        x = t(1, 2, *([3] * dims))
        yield getattr(aten, f"upsample_{name}").vec, (x, [5] * dims, *corners, None), {}
        yield getattr(aten, f"upsample_{name}").default, (x, [5] * dims, *corners), {}


def samples(op_bases, dtype, seed):
    """Name, overload and arguments of calls in that dtype."""
    torch.manual_seed(seed)
    for func, args, kwargs in own_samples(dtype):
        yield "own", func, args, kwargs
    for op in op_db:
        if dtype not in op.dtypes or not {op.aten_name, op.name.split(".")[-1]} & op_bases:
            continue
        torch.manual_seed(seed)
        try:
            made = list(op.sample_inputs("cpu", dtype, requires_grad=dtype == torch.float32 and op.supports_autograd))[:12]
        except Exception:
            continue
        for k, s in enumerate(made):
            for func, args, kwargs in calls(op, (s.input, *s.args), s.kwargs):
                yield f"{op.name} sample {k}", func, args, kwargs


def loosen(case, lower):
    """Results that are rounded to the region's dtype inside have its tolerance, and so have gradients through casts to it."""
    tol = list(tc.TOL[lower])
    for spec in (case.get("grad") or {}).get("grads", []):
        if spec:
            spec["tol"] = [tol[0], 1e-2 if lower == torch.bfloat16 else 1e-3]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sinter", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--max", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    rows = {r["name"]: r for r in json.loads(subprocess.check_output([o.sinter, "ops", "--autocast", "--json"]))}
    known = {r["name"] for r in json.loads(subprocess.check_output([o.sinter, "ops", "--json"]))}
    bad = check_table({name: r["autocast"] for name, r in rows.items()}, known)
    cf, taken, checked = tc.CaseFile(), collections.Counter(), collections.Counter()
    bases = {name.split("::")[1].split(".")[0] for name in rows} | {"conv1d", "norm", "pad", "interpolate", "grid_sample"}
    for name, lower in LOWER.items():
        cf.seen = set()
        for dtype in (torch.float32, lower):
            for note, func, args, kwargs in samples(bases, dtype, o.seed):
                row = rows.get(tc.qualified(func))
                if row is None or not small(args, kwargs) or taken[row["name"], dtype, name] >= o.max:
                    continue
                agrees = check_cpu_list(func, row, lower, args, kwargs)
                checked[row["name"]] += agrees is True
                if agrees is False:
                    bad.append(f"{row['name']}: the CPU's run of {dtype} is not {row['autocast_cpu_list']}")
                if tc.record(cf, Under(func, row, lower), args, kwargs, f"{note} {tc.DT[dtype]}", dtype == torch.float32):
                    taken[row["name"], dtype, name] += 1
                    cf.cases[-1]["autocast"] = name
                    loosen(cf.cases[-1], lower)
    missing = sorted(set(rows) - set(checked))
    save_file(cf.tensors, o.out, {"format": "cases-1", "torch": torch.__version__, "cases": json.dumps(cf.cases, separators=(",", ":"))})
    print(f"{len(cf.cases)} cases of {len({c['op'] for c in cf.cases})} overloads; {len(checked)} rows agree with runs on the CPU, no run of "
          f"{', '.join(missing) or 'none'}")
    for line in sorted(set(bad)):
        print("DIFFERS", line)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
