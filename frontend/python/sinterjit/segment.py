"""One segment: a compiled text graph and the way to call it with torch tensors, without copies.

Inputs are wrapped where they lie (sn_wrap); results are made by Sinter and handed over by DLPack. A `Frame` holds the
C structs of one call and is used again by the next; a segment keeps as many as calls of it have run at once.
"""
import ctypes
import itertools

import torch

from .library import (KIND_INT, KIND_TENSOR, REPLAY, Blob, Options, Stats, Value, check, lib, owned, take_error, text_of,
                      DTYPES as DTYPE_NAMES)
from .text import DTYPES

CODES = {dtype: DTYPE_NAMES.index(name) + 1 for dtype, name in DTYPES.items()}
ITEMSIZE = {dtype: dtype.itemsize for dtype in DTYPES}

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


def span(sizes, strides):
    """How many elements lie between the first and the last one."""
    n = 1
    for size, stride in zip(sizes, strides):
        if size == 0:
            return 0
        n += (size - 1) * stride
    return n


class Frame:
    """C structs of a call with n_in tensors of these ranks, n_int numbers and n_out results."""

    def __init__(self, ranks, n_int, n_out):
        n = len(ranks)
        self.lists = [((ctypes.c_int64 * max(r, 1))(), (ctypes.c_int64 * max(r, 1))()) for r in ranks]
        self.blobs = [Blob(size=ctypes.sizeof(Blob)) for _ in ranks]
        self.shapes = [None] * n
        for blob, (sizes, strides), rank in zip(self.blobs, self.lists, ranks):
            pointer = ctypes.POINTER(ctypes.c_int64)
            blob.sizes.data, blob.sizes.n = ctypes.cast(sizes, pointer), rank
            blob.strides.data, blob.strides.n = ctypes.cast(strides, pointer), rank
        self.pointers = [ctypes.pointer(b) for b in self.blobs]
        self.values = (Value * max(n + n_int, 1))()
        self.items = list(self.values)
        for item in self.items[:n_int]:
            item.kind = KIND_INT
        for item in self.items[n_int:]:
            item.kind = KIND_TENSOR
        self.outs = (ctypes.c_void_p * max(n_out, 1))()

    def describe(self, i, tensor):
        """Sizes, strides and dtype of input i as this call has them."""
        shape, strides = tensor.shape, tensor.stride()
        if self.shapes[i] == (shape, strides, tensor.dtype):
            return
        self.lists[i][0][:len(shape)] = shape
        self.lists[i][1][:len(shape)] = strides
        blob = self.blobs[i]
        blob.dtype = CODES[tensor.dtype]
        blob.bytes = span(shape, strides) * tensor.dtype.itemsize
        self.shapes[i] = (shape, strides, tensor.dtype)


class Segment:
    """text is made by `write(metas)`: of what the graph says, or, where real tensors differ, of theirs."""

    def __init__(self, write, inputs, ints, outputs, name, options):
        self.write, self.inputs, self.ints, self.outputs = write, inputs, ints, outputs
        self.name, self.options = name, options
        self.frames, self.function, self.variants, self.borrowed = [], None, {}, None
        self.random = False

    def compile(self, text):
        return compile_text(text, self.name, self.options.numerics, self.options.preset)

    def call(self, tensors, ints):
        """The results as torch tensors."""
        frame = self.frames.pop() if self.frames else Frame([t.dim() for t in tensors], len(ints), len(self.outputs))
        library = lib()
        mark = library.sn_scope_begin()
        try:
            items, n_int = frame.items, len(ints)
            for i, value in enumerate(ints):
                items[i].i = value
            wrap, blobs, pointers, describe = library.sn_wrap, frame.blobs, frame.pointers, frame.describe
            for i, tensor in enumerate(tensors):
                describe(i, tensor)
                blobs[i].data = tensor.data_ptr()
                items[n_int + i].p = wrap(pointers[i])
            results = self._run(frame, tensors, ints)
        finally:
            library.sn_scope_end(mark)
        self.frames.append(frame)
        return results

    def _run(self, frame, tensors, ints):
        library, n_out = lib(), len(self.outputs)
        if self.function is None:
            self.function = self.compile(self.write(None))
        function = self.function
        if self.variants:
            function = self.variants.get(_key(tensors), function)
        status = library.sn_call_values(function, frame.values, len(tensors) + len(ints), frame.outs, n_out)
        if status:
            error = take_error()
            function = self._variant(tensors, error)
            check(library.sn_call_values(function, frame.values, len(tensors) + len(ints), frame.outs, n_out))
        results = [tensor_of(handle) for handle in frame.outs[:n_out]]
        if self.borrowed is None or status:
            self.borrowed = _borrowed(tensors, results)
        for i in self.borrowed:  # it lies in an input's memory, which no result of ours holds
            results[i] = results[i].clone()
        return results

    def _variant(self, tensors, error):
        """The graph for tensors that are not as it says: fake ones may differ from real ones in dtype and strides."""
        key = _key(tensors)
        if key in self.variants or all(not m or _same(m, t) for m, t in zip(self.inputs, tensors)):
            raise error
        self.variants[key] = self.compile(self.write(tensors))
        return self.variants[key]

    def functions(self):
        return [f for f in itertools.chain([self.function], self.variants.values()) if f]

    def stats(self):
        total = dict.fromkeys(Stats.COUNTS, 0)
        for function in self.functions():
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


def _borrowed(tensors, results):
    """Which results lie in an input's memory."""
    ranges = []
    for t in tensors:
        if t.numel():
            ranges.append((t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()))
    return [i for i, r in enumerate(results)
            if r.numel() and any(start <= r.data_ptr() < start + n for start, n in ranges)]
