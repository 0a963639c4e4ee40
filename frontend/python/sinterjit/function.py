"""Functions without PyTorch: text graphs and saved plans, called with anything that has DLPack.

    f = sinterjit.Function("graph f(%x: f32[s0,3]) { %0 = aten::exp(%x) return %0 }")
    y = f(numpy_array)                    a sinterjit.Tensor, or a list where the graph has several results
"""
import ctypes
import os

from .array import Tensor, as_tensor
from .library import (KIND_BOOL, KIND_FLOAT, KIND_INT, KIND_NONE, KIND_TENSOR, REPLAY, Options, Scope, Stats, Value, check,
                      lib, owned, text_of)


def _value(value, kept):
    """An sn_value; kept gets what must live until the call is over."""
    out = Value()
    if value is None:
        out.kind = KIND_NONE
    elif isinstance(value, bool):
        out.kind, out.i = KIND_BOOL, value
    elif isinstance(value, int):
        out.kind, out.i = KIND_INT, value
    elif isinstance(value, float):
        out.kind, out.f = KIND_FLOAT, value
    else:
        tensor = as_tensor(value)
        kept.append(tensor)
        out.kind, out.p = KIND_TENSOR, tensor.handle
    return out


class Function:
    """A text graph, compiled; `explain()`, `dump(stage)` and `stats()` say what became of it."""

    def __init__(self, text, *, numerics="exact", name=None):
        data = text.encode()
        graph = owned(lib().sn_graph_parse(data, len(data)), "sinterjit.Function")
        try:
            options = Options(size=ctypes.sizeof(Options), mode=REPLAY, numerics={"exact": 0, "fast": 1}[numerics],
                              name=name.encode() if name else None)
            self._own(owned(lib().sn_graph_compile(graph, options), "sinterjit.Function"))
        finally:
            lib().sn_graph_free(graph)

    def _own(self, handle):
        self.handle, self.n_results = handle, lib().sn_function_result_count(handle)

    def __call__(self, *inputs):
        kept = []
        with Scope():
            values = (Value * max(len(inputs), 1))(*[_value(v, kept) for v in inputs])
            outs = (ctypes.c_void_p * max(self.n_results, 1))()
            check(lib().sn_call_values(self.handle, values, len(inputs), outs, self.n_results))
            results = [Tensor(lib().sn_retain(h)) if h else None for h in outs[:self.n_results]]
        return results[0] if self.n_results == 1 else results

    def explain(self):
        return text_of("sn_explain", self.handle)

    def dump(self, stage):
        return text_of("sn_dump", self.handle, stage.encode())

    def stats(self):
        stats = Stats(size=ctypes.sizeof(Stats))
        check(lib().sn_function_stats(self.handle, stats))
        return {name: getattr(stats, name) for name in Stats.COUNTS}

    def save(self, path):
        """A plan, for sinterjit.load and the C library, of the cases that calls have compiled."""
        check(lib().sn_plan_save(self.handle, os.fsencode(path), None), "save")

    def __del__(self):
        if getattr(self, "handle", None):
            lib().sn_function_free(self.handle)


class Plan(Function):
    """A plan from a file: a function whose cases are compiled; it needs no LLVM."""

    def __init__(self, path, results):
        self._own(owned(lib().sn_plan_load(os.fsencode(path), None), os.fspath(path)))
        if results is not None:
            self.n_results = results
        elif self.n_results < 0:
            raise ValueError(f"{os.fspath(path)}: its cases give different numbers of results; say results=")


def load(path, results=None):
    """The function of a plan (sn_plan_save, `sinter plan`); results: how many it gives, where its cases differ in that."""
    return Plan(path, results)
