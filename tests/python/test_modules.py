"""test_modules.py [--every N] [NAME...]: the modules of torch.nn by PyTorch's own samples (module_db), forward and backward, f32 and bf16.

Each module is called eagerly and through torch.compile with backend "sinter", whose results and gradients must be PyTorch's
within the dtype's tolerance, or, where they are not (sums of bf16 that PyTorch rounds at each step), nearer to those of f64. What PyTorch itself refuses is left out; random modules are (their bits are Sinter's).
"""
import argparse
import collections
import copy
import logging
import sys
import warnings

import torch
from torch.utils._pytree import tree_leaves, tree_map
from sinterjit import report, torch_backend

TOLERANCE = {torch.float32: (1e-3, 1e-4), torch.bfloat16: (6e-2, 6e-2)}
SAMPLES = 2


def floats(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.is_floating_point()]


def fresh(tree):
    return tree_map(lambda t: t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t, tree)


def step(call, module, args, kwargs):
    """Results, and gradients of inputs and parameters."""
    torch.manual_seed(0)
    args, kwargs = fresh((args, kwargs))
    module.zero_grad()
    results = floats(call(*args, **kwargs))
    roots = [r for r in results if r.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.ones_like(r) for r in roots])
    leaves = [*floats((args, kwargs)), *module.parameters()]
    return [r.detach() for r in results] + [t.grad for t in leaves if t.grad is not None]


def nearer(got, want, module, args, kwargs):
    """Are all of ours at least as near to f64 as PyTorch's?"""
    exact = copy.deepcopy(module).double()
    args, kwargs = tree_map(lambda t: t.detach().double().requires_grad_(t.requires_grad)
                            if isinstance(t, torch.Tensor) and t.is_floating_point() else t, (args, kwargs))
    try:
        right = step(exact, exact, args, kwargs)
    except Exception:  # noqa: a module without f64
        return False
    far = lambda a, b: (a.double() - b).abs().max().item() if b.numel() else 0
    return len(right) == len(got) and all(far(g, r) <= max(2 * far(w, r), 0.05 * r.abs().max().item())
                                          for g, w, r in zip(got, want, right) if r.numel())


def compare(got, want, dtype):
    if len(got) != len(want):
        return f"{len(got)} results and gradients, not {len(want)}"
    for g, w in zip(got, want):
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"{g.dtype} {tuple(g.shape)}, not {w.dtype} {tuple(w.shape)}"
        if not torch.allclose(g.double(), w.double(), *TOLERANCE[dtype], equal_nan=True):
            return f"differs by {(g.double() - w.double()).abs().max().item():.2e}"
    return ""


def is_random(info):
    return "Dropout" in info.name or info.name.endswith("RReLU")


def check(info, dtype, counts, words):
    for sample in info.module_inputs_func(info, "cpu", dtype, True, training=True)[:SAMPLES]:
        given = sample.constructor_input
        try:
            module = info.module_cls(*given.args, **given.kwargs).to(dtype)
            args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
            one = copy.deepcopy(module)
            want = step(one, one, args, kwargs)
        except Exception:  # noqa: PyTorch has no such module in this dtype
            counts["left out"] += 1
            continue
        torch._dynamo.reset()
        torch_backend.reports.clear()
        two = copy.deepcopy(module)
        try:
            got = step(torch.compile(two, backend="sinter", options={"threads": 1}), two, args, kwargs)
            wrong = compare(got, want, dtype)
            if wrong and nearer(got, want, module, args, kwargs):
                wrong = ""
        except Exception as e:  # noqa
            wrong = f"{type(e).__name__}: {str(e)[:200]}"
        alive = [r for ref in torch_backend.reports if (r := ref())]
        errors = [e for r in alive for e in r.errors] + [p for r in alive for g in r.programs for p in g.problems]
        of_graphs = report.counts(alive)
        counts["nodes"] += of_graphs["nodes"]
        counts["sinter"] += of_graphs["sinter"]
        counts["tried"] += 1
        if wrong or errors:
            counts["failed"] += 1
            words.append(f"{info.name} {str(dtype)[6:]}: {wrong} {'; '.join(errors)[:200]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    from torch.testing._internal.common_modules import module_db
    counts, words = collections.Counter(), []
    for i, info in enumerate(module_db):
        if (chosen.names and info.name not in chosen.names) or i % chosen.every or is_random(info):
            continue
        for dtype in TOLERANCE:
            if dtype in info.dtypes or dtype == torch.bfloat16:
                check(info, dtype, counts, words)
    print("\n".join(words))
    print(f"{counts['sinter']} of {counts['nodes']} nodes in Sinter")
    print(f"{counts['tried'] - counts['failed']} passed, {counts['failed']} failed, {counts['left out']} skipped")
    return counts["failed"] != 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True
    try:
        import expecttest, hypothesis  # noqa: what torch.testing wants
    except ImportError as e:
        print(f"skipped: {e}")
        sys.exit(77)
    sys.exit(main())
