"""One segment: a compiled text graph and the way to call it with torch tensors, without copies.

Inputs are given where they lie (sn_call_arrays); results are made by Sinter and handed over by DLPack. A `Frame` holds
the C structs of one call and is used again by the next; a segment keeps as many as calls of it have run at once.
"""
import ctypes
import itertools
import threading

import torch

from .library import (ALIAS_INPUT, ALIAS_NONE, KIND_INT, REPLAY, Array, Options, Stats, check, lib, owned, take_error, text_of,
                      DTYPES as DTYPE_NAMES)
from .text import DTYPES

CODES = {dtype: DTYPE_NAMES.index(name) + 1 for dtype, name in DTYPES.items()}
TORCH = {code: dtype for dtype, code in CODES.items()}

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_from_dlpack = torch._C._from_dlpack


def parse(text):
    """The graph of a text, to be freed; an error names line and column."""
    data = text.encode()
    return owned(lib().sn_graph_parse(data, len(data)))


def compile_text(text, name, numerics=0, preset=0, mode=REPLAY):
    graph = parse(text)
    try:
        options = Options(size=ctypes.sizeof(Options), mode=mode, numerics=numerics, preset=preset, name=name.encode())
        return owned(lib().sn_graph_compile(graph, options))
    finally:
        lib().sn_graph_free(graph)


def tensor_of(handle):
    """A torch tensor of a result's memory."""
    return _from_dlpack(_capsule(owned(lib().sn_to_dlpack(handle)), b"dltensor_versioned", None))


class Frame:
    """C structs of a call with n_in tensors of these ranks, n_int numbers before them and n_out results."""

    def __init__(self, ranks, n_int, n_out):
        pointer = ctypes.POINTER(ctypes.c_int64)
        self.n_in, self.n_out = len(ranks) + n_int, n_out
        self.arguments, self.results = (Array * max(self.n_in, 1))(), (Array * max(n_out, 1))()
        items = [self.arguments[i] for i in range(self.n_in)]
        self.ints, self.tensors = items[:n_int], items[n_int:]
        self.outs = [self.results[i] for i in range(n_out)]
        self.lists = [((ctypes.c_int64 * max(r, 1))(), (ctypes.c_int64 * max(r, 1))()) for r in ranks]
        self.shapes = [None] * len(ranks)
        for item in self.ints:
            item.kind = KIND_INT
        for item, (sizes, strides), rank in zip(self.tensors, self.lists, ranks):
            item.rank, item.sizes, item.strides = rank, ctypes.cast(sizes, pointer), ctypes.cast(strides, pointer)

    def describe(self, i, tensor, described):
        """Sizes, strides and dtype of input i as this call has them."""
        sizes, strides = self.lists[i]
        sizes[:len(described[0])] = described[0]
        strides[:len(described[0])] = described[1]
        self.tensors[i].dtype = CODES[tensor.dtype]
        self.shapes[i] = described


class Segment:
    """text is made by `write(metas)`: of what the graph says, or, where real tensors differ, of theirs."""

    def __init__(self, write, inputs, ints, outputs, name, options, mode=REPLAY):
        self.write, self.inputs, self.ints, self.outputs, self.mode = write, inputs, ints, outputs, mode
        self.name, self.options = name, options
        self.frames, self.function, self.variants, self.lock = [], None, {}, threading.Lock()

    def compile(self, text):
        return compile_text(text, self.name, self.options.numerics, self.options.preset, self.mode)

    def call(self, tensors, ints):
        """The results as torch tensors."""
        frame = self.frames.pop() if self.frames else Frame([t.dim() for t in tensors], len(ints), len(self.outputs))
        for item, value in zip(frame.ints, ints):
            item.i = value
        items, shapes = frame.tensors, frame.shapes
        for i, tensor in enumerate(tensors):
            described = (tensor.shape, tensor.stride(), tensor.dtype)
            if shapes[i] != described:
                frame.describe(i, tensor, described)
            items[i].p = tensor.data_ptr()
        for out in frame.outs:
            out.p = None
        function = self._function(tensors)
        if lib().sn_call_arrays(function, frame.arguments, frame.n_in, frame.results, frame.n_out, None):
            function = self._variant(tensors, take_error())
            check(lib().sn_call_arrays(function, frame.arguments, frame.n_in, frame.results, frame.n_out, None))
        results = _results(frame, tensors)
        self.frames.append(frame)
        return results

    def _function(self, tensors):
        if self.function is None:
            with self.lock:
                self.function = self.function or self.compile(self.write(None))
        return self.variants.get(_key(tensors), self.function) if self.variants else self.function

    def _variant(self, tensors, error):
        """The graph for tensors that are not as it says: fake ones may differ from real ones in dtype and strides."""
        key = _key(tensors)
        if key in self.variants or all(_same(m, t) for m, t in zip(self.inputs, tensors)):
            raise error
        with self.lock:
            if key not in self.variants:
                self.variants[key] = self.compile(self.write(tensors))
        return self.variants[key]

    def functions(self):
        return [f for f in itertools.chain([self.function], self.variants.values()) if f]

    def stats(self):
        total = dict.fromkeys(Stats.COUNTS, 0)
        for function in list(self.functions()):
            stats = Stats(size=ctypes.sizeof(Stats))
            check(lib().sn_function_stats(function, stats))
            for name in Stats.COUNTS:
                total[name] += getattr(stats, name)
        return total

    def explain(self):
        return [text_of("sn_explain", function) for function in self.functions()]

    def __del__(self):
        try:
            for function in self.functions():
                lib().sn_function_free(function)
        except (AttributeError, TypeError):  # the interpreter ends
            pass


def _key(tensors):
    return tuple((t.dtype, t.shape, t.stride()) for t in tensors)


def _same(meta, tensor):
    dtype, sizes, strides = meta
    if dtype != tensor.dtype:
        return False
    numbers = all(isinstance(s, int) for s in sizes) and all(isinstance(s, int) for s in strides)
    return numbers and tuple(sizes) == tuple(tensor.shape) and tuple(strides) == tuple(tensor.stride())


def _results(frame, tensors):
    """The results as torch tensors: of Sinter's memory, or views of inputs and of earlier results."""
    outs = frame.outs  # sizes are there until the next call of the library
    shapes = [None if o.owner else (tuple(o.sizes[:o.rank]), tuple(o.strides[:o.rank])) for o in outs]
    results = []
    for out, shape in zip(outs, shapes):
        if shape is None:
            results.append(tensor_of(out.owner))
            lib().sn_release(out.owner)
        elif out.alias == ALIAS_NONE:
            results.append(torch.empty_strided(*shape, dtype=TORCH[out.dtype]))  # without elements
        else:
            base = tensors[out.alias_of - len(frame.ints)] if out.alias == ALIAS_INPUT else results[out.alias_of]
            offset = base.storage_offset() + out.alias_bytes // base.element_size()
            results.append(torch.as_strided(base, *shape, offset))
    return results
