"""test_ops.py [--every N] [NAME...]: PyTorch's own samples (OpInfo of torch.testing) as graphs of one node each.

What each sample calls below autograd is recorded with its arguments; each ATen call that Sinter takes becomes an FX graph of
that node, which runs twice, the second time as compiled code, and must give PyTorch's values, dtypes, sizes and strides; or
values at least as near to those of f64 as PyTorch's are, which rounds bf16 at each step of some sums. Calls of equal signature
are tried once. Prints the ops that differ, and why calls were skipped: how many, of how many ops.
"""
import argparse
import collections
import logging
import sys
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from sinterjit import rows, torch_backend
from sinterjit.program import Program

TOLERANCE = {torch.float64: (1e-7, 1e-7), torch.float32: (2e-5, 2e-5), torch.float16: (2e-3, 1e-3), torch.bfloat16: (2e-2, 1e-2)}
DTYPES = (torch.float32, torch.bfloat16, torch.int64)
MOST_ELEMENTS = 20000
UNFILLED = {"aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::empty.memory_format", "aten::new_empty_strided",
            "aten::empty_permuted"}
# Where PyTorch leaves open what comes out, or says it by layout: name -> why.
OPEN = {"aten::sort": "ties", "aten::topk": "ties", "aten::median.dim": "ties", "aten::resize_": "memory"}


def plain(t):
    return type(t) is torch.Tensor and t.layout == torch.strided and t.device.type == "cpu" and not t.is_conj() and not t.is_neg()


def signature(func, args, kwargs):
    flat, spec = tree_flatten((args, kwargs))
    return str(func), str(spec), tuple((t.dtype, tuple(t.shape), t.stride()) if isinstance(t, torch.Tensor) else repr(t) for t in flat)


def node_graph(func, args, kwargs, result):
    """A graph module of the one call, and its tensors."""
    graph, tensors = torch.fx.Graph(), []

    def node_of(value):
        if isinstance(value, torch.Tensor):
            node = graph.placeholder(f"x{len(tensors)}")
            node.meta["val"] = value
            tensors.append(value)
            return node
        if isinstance(value, (list, tuple)):
            return type(value)(node_of(v) for v in value) if type(value) in (list, tuple) else value
        return value

    args, kwargs = node_of(args), {k: node_of(v) for k, v in kwargs.items()}
    call = graph.call_function(func, args, kwargs)
    call.meta["val"] = result
    outs = [call]
    if isinstance(result, (list, tuple)):
        outs = []
        for i, r in enumerate(result):
            item = graph.call_function(__import__("operator").getitem, (call, i))
            item.meta["val"] = r
            outs.append(item)
    graph.output(tuple(outs))
    return torch.fx.GraphModule(torch.nn.Module(), graph), tensors


def left_out(func, flat):
    """Why a call is none for Sinter, or can't be compared; None: it is tried."""
    row, tensors = rows.find(func), [t for t in flat if isinstance(t, torch.Tensor)]
    if any(type(x) is complex or isinstance(x, torch.Tensor) and x.is_complex() for x in flat):
        return "complex numbers"
    if row is None:
        return "Sinter has no row"
    if func._schema.is_mutable:
        return "writes its argument, which no node of a functional graph does"
    if row.random:
        return "random: the bits are Sinter's"
    if row.name in UNFILLED:
        return "memory that is not filled"
    if func._schema.name in OPEN:
        return f"PyTorch leaves it open: {OPEN[func._schema.name]}"
    if not all(map(plain, tensors)):
        return "no plain tensor"
    return f"more than {MOST_ELEMENTS} elements" if any(t.numel() > MOST_ELEMENTS for t in tensors) else None


class Recorder(TorchDispatchMode):
    def __init__(self, tried):
        super().__init__()
        self.tried = tried

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = [t.clone() if isinstance(t, torch.Tensor) and plain(t) else t for t in tree_flatten((args, kwargs))[0]]
        result = func(*args, **kwargs)
        self.tried.try_call(func, args, kwargs, result, before)
        return result


class Tried:
    def __init__(self):
        self.seen, self.counts, self.wrong, self.skipped = set(), collections.Counter(), [], {}
        self.options = torch_backend.BackendOptions({"fallback": "error", "threads": 1})

    def try_call(self, func, args, kwargs, result, before):
        with torch._C._DisableTorchDispatch():
            key = signature(func, args, kwargs)
            if key in self.seen:
                return
            self.seen.add(key)
            why = left_out(func, tree_flatten((args, kwargs, result))[0])
            self.skip(func, why) if why else self.compare(func, args, kwargs, result)

    def skip(self, func, why):
        self.skipped.setdefault(why, collections.Counter())[str(func)] += 1

    def compare(self, func, args, kwargs, result):
        gm, tensors = node_graph(func, args, kwargs, result)
        try:
            program = Program(gm, self.options, "op")
        except Exception as e:
            self.counts["not taken"] += 1
            return self.wrong.append((func, f"no program: {type(e).__name__}: {e}"))
        kept = [r for r in program.reasons.values() if r is not None]
        if kept:
            return self.skip(func, "stays with PyTorch: " + kept[0].removeprefix(f"{func}").strip(": ")[:160])
        self.counts["tried"] += 1
        wanted = list(result) if isinstance(result, (list, tuple)) else [result]
        for _ in range(2):
            try:
                got = program(list(tensors))
            except Exception as e:
                return self.wrong.append((func, f"{type(e).__name__}: {e}"))
            for i, (g, w) in enumerate(zip(got, wanted)):
                words = difference(g, w)
                if words and not (words.startswith("differs") and nearer(func, args, kwargs, i, g, w)):
                    sizes = ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}" for t in tensors)
                    return self.wrong.append((func, f"{words}  ({sizes})"))


def nearer(func, args, kwargs, i, g, w):
    """Is result i as near to that of f64 as PyTorch's?"""
    if not w.is_floating_point() or w.dtype == torch.float64:
        return False
    wide = lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
    try:
        right = func(*tree_map(wide, args), **tree_map(wide, kwargs))
    except Exception:  # noqa: an op without f64
        return False
    right = (list(right) if isinstance(right, (list, tuple)) else [right])[i].double()
    far = lambda t: torch.nan_to_num((t.double() - right).abs()).max().item()
    return torch.equal(g.isfinite(), w.isfinite()) and far(g) <= far(w)


def same_strides(g, w):
    """Of what has elements, in dims that are longer than 1."""
    return not w.numel() or all(a == b for a, b, n in zip(g.stride(), w.stride(), w.shape) if n > 1)


def difference(g, w):
    if w is None or not isinstance(w, torch.Tensor):
        return ""
    if g is None or g.dtype != w.dtype or g.shape != w.shape:
        return f"gives {g if g is None else (g.dtype, tuple(g.shape))}, not {(w.dtype, tuple(w.shape))}"
    if not same_strides(g, w):
        return f"gives strides {g.stride()}, not {w.stride()}, of sizes {tuple(w.shape)}"
    if not torch.allclose(g.double() if not g.is_complex() else g, w.double(), *TOLERANCE.get(w.dtype, (0, 0)), equal_nan=True):
        return f"differs by {(g.double() - w.double()).abs().max().item():.2e}"
    return ""


def samples(op, dtype):
    try:
        return list(op.sample_inputs("cpu", dtype, requires_grad=False))[:12]
    except Exception:  # noqa: an entry that has none here
        return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="one entry of so many")
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db
    tried = Tried()
    for i, op in enumerate(op_db):
        if (chosen.names and op.name not in chosen.names) or i % chosen.every:
            continue
        for dtype in DTYPES:
            if dtype not in op.dtypes:
                continue
            for sample in samples(op, dtype):
                torch.manual_seed(0)
                try:
                    with torch.no_grad(), Recorder(tried):
                        op(sample.input, *sample.args, **sample.kwargs)
                except Exception:  # noqa: a sample that PyTorch itself refuses here
                    pass
    by_op = collections.Counter(str(f) for f, _ in tried.wrong)
    shown = set()
    for func, words in tried.wrong:
        if str(func) not in shown:
            shown.add(str(func))
            print(f"{by_op[str(func)]:4d} {func}: {words}"[:300])
    skipped = sorted(((sum(ops.values()), why, ops) for why, ops in tried.skipped.items()), key=lambda s: s[:2], reverse=True)
    for calls, why, ops in skipped:
        print(f"skipped: {calls} calls of {len(ops)} ops: {why}: {', '.join(n.removeprefix('aten.') for n in sorted(ops))}")
    print(f"{tried.counts['tried'] - len(tried.wrong)} passed, {len(tried.wrong)} failed, {sum(s[0] for s in skipped)} skipped")
    return bool(tried.wrong)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    try:
        import expecttest, hypothesis  # noqa: what torch.testing wants
    except ImportError as e:
        print(f"skipped: {e}")
        sys.exit(77)
    sys.exit(main())
