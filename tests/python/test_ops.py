"""test_ops.py [--every N] [NAME...]: PyTorch's own samples (OpInfo of torch.testing) as graphs of one node each.

What each sample calls below autograd is recorded with its arguments; each ATen call that Sinter takes becomes an FX graph of
that node, which runs twice, the second time as compiled code, and must give PyTorch's values, dtypes, sizes and strides.
Calls of equal signature are tried once. Prints the ops that differ; random ops and those whose memory is not filled are left out.
"""
import argparse
import collections
import logging
import sys
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from sinterjit import rows, torch_backend
from sinterjit.program import Program

TOLERANCE = {torch.float64: (1e-7, 1e-7), torch.float32: (2e-5, 2e-5), torch.float16: (2e-3, 1e-3), torch.bfloat16: (2e-2, 1e-2)}
DTYPES = (torch.float32, torch.bfloat16, torch.int64)
MOST_ELEMENTS = 20000
UNFILLED = {"aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::empty.memory_format", "aten::new_empty_strided"}
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
        self.seen, self.counts, self.wrong = set(), collections.Counter(), []
        self.options = torch_backend.BackendOptions({"fallback": "error", "threads": 1})

    def try_call(self, func, args, kwargs, result, before):
        row = rows.find(func)
        name = func._schema.name
        if row is None or row.random or row.name in UNFILLED or name in OPEN or func._schema.is_mutable:
            self.counts["left out"] += 1
            return
        flat = tree_flatten((args, kwargs, result))[0]
        tensors = [t for t in flat if isinstance(t, torch.Tensor)]
        if not all(plain(t) and t.numel() <= MOST_ELEMENTS for t in tensors) or any(type(x) is complex for x in flat):
            return
        key = signature(func, args, kwargs)
        if key in self.seen:
            return
        self.seen.add(key)
        with torch._C._DisableTorchDispatch():
            self.compare(func, args, kwargs, result)

    def compare(self, func, args, kwargs, result):
        gm, tensors = node_graph(func, args, kwargs, result)
        try:
            program = Program(gm, self.options, "op")
        except Exception as e:
            self.counts["not taken"] += 1
            return self.wrong.append((func, f"no program: {type(e).__name__}: {e}"))
        if any(r is not None for r in program.reasons.values()):
            self.counts["stays with PyTorch"] += 1
            return
        self.counts["tried"] += 1
        wanted = list(result) if isinstance(result, (list, tuple)) else [result]
        for _ in range(2):
            try:
                got = program(list(tensors))
            except Exception as e:
                return self.wrong.append((func, f"{type(e).__name__}: {e}"))
            for g, w in zip(got, wanted):
                words = difference(g, w)
                if words:
                    sizes = ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}" for t in tensors)
                    return self.wrong.append((func, f"{words}  ({sizes})"))


def difference(g, w):
    if w is None or not isinstance(w, torch.Tensor):
        return ""
    if g is None or g.dtype != w.dtype or g.shape != w.shape:
        return f"gives {g if g is None else (g.dtype, tuple(g.shape))}, not {(w.dtype, tuple(w.shape))}"
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
    print(f"{tried.counts['tried'] - len(tried.wrong)} passed, {len(tried.wrong)} failed, {tried.counts['stays with PyTorch']} skipped")
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
