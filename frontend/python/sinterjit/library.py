"""The C library, opened when it is first needed: structs, signatures, errors, scopes.

Everything in this package calls C through `lib()`; ctypes releases the GIL for the time of a call. Results belong to a
scope of the calling thread (`Scope`), and what outlives it is kept by `sn_keep`. Texts are copied at once.
"""
import ctypes
import os
import threading
from ctypes import POINTER, Structure, Union, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

SONAME = "libsinter.so.0"


class SinterError(RuntimeError):
    """An error of the library: status is its number, op and where are known as far as the library says."""

    def __init__(self, message, status=0, op="", where=""):
        super().__init__(message)
        self.status, self.op, self.where = status, op, where


class Any(Union):
    _fields_ = [("p", c_void_p), ("i", c_int64), ("f", c_double)]


class Value(Structure):  # sn_value
    _anonymous_ = ("u",)
    _fields_ = [("kind", c_int32), ("n", c_int32), ("u", Any)]


class Ints(Structure):  # sn_ints
    _fields_ = [("data", POINTER(c_int64)), ("n", c_int64)]


class Blob(Structure):  # sn_blob
    _fields_ = [("size", c_size_t), ("data", c_void_p), ("bytes", c_size_t), ("sizes", Ints), ("strides", Ints),
                ("dtype", c_int), ("device", c_int32), ("read_only", c_bool), ("free", c_void_p), ("context", c_void_p)]


class Array(Structure):  # sn_array
    _anonymous_ = ("u",)
    _fields_ = [("kind", c_int32), ("dtype", c_int), ("device", c_int32), ("rank", c_int32), ("u", Any),
                ("sizes", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("bytes", c_size_t), ("flags", c_uint32),
                ("alias", c_int), ("alias_of", c_int32), ("alias_bytes", c_int64), ("owner", c_void_p)]


class Options(Structure):  # sn_compile_options
    _fields_ = [("size", c_size_t), ("mode", c_int), ("numerics", c_int), ("dynamic", c_int), ("full_graph", c_bool),
                ("eager_checks", c_bool), ("background", c_bool), ("check_every", c_int32), ("recompile_limit", c_int32),
                ("name", c_char_p), ("closure_free", c_void_p), ("preset", c_int), ("backend", c_char_p)]


class Stats(Structure):  # sn_stats
    COUNTS = ("calls", "graphs", "compiles", "recompiles", "breaks", "kernels", "ops_generated", "ops_interpreted",
              "ops_eager", "trace_ns", "passes_ns", "codegen_ns", "arena_bytes", "ops_waiting")
    _fields_ = [("size", c_size_t)] + [(name, c_int64) for name in COUNTS]


class ErrorTaken(Structure):  # sn_error
    _fields_ = [("size", c_size_t), ("status", c_int), ("code", c_int32), ("message", c_char_p), ("op", c_char_p),
                ("where", c_char_p)]


ALIAS_NONE, ALIAS_INPUT, ALIAS_RESULT, ALIAS_OTHER = range(4)  # sn_array_alias
KIND_DEFAULT, KIND_NONE, KIND_TENSOR, KIND_INT, KIND_FLOAT, KIND_BOOL = range(6)
VERIFY, REPLAY, EAGER = 0, 1, 2
CPU = 0
DTYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool")  # sn_dtype from 1

SIGNATURES = [
    (POINTER(ErrorTaken), "sn_error_take"), (c_int, "sn_check"), (c_int, "sn_shutdown"),
    (c_uint64, "sn_scope_begin"), (c_int, "sn_scope_end", c_uint64),
    (c_int, "sn_setting_set", c_char_p, c_char_p), (c_char_p, "sn_setting_get", c_char_p), (c_int, "sn_seed", c_uint64),
    (c_char_p, "sn_op_list"), (c_void_p, "sn_op_find", c_char_p), (c_char_p, "sn_op_tags", c_void_p),
    (c_void_p, "sn_graph_parse", c_char_p, c_size_t), (None, "sn_graph_free", c_void_p),
    (c_void_p, "sn_graph_compile", c_void_p, POINTER(Options)), (c_char_p, "sn_graph_text", c_void_p),
    (c_int, "sn_graph_check", c_void_p), (c_int, "sn_graph_count", c_void_p), (c_void_p, "sn_graph_node", c_void_p, c_int),
    (None, "sn_function_free", c_void_p), (c_int, "sn_function_result_count", c_void_p),
    (c_int, "sn_function_stats", c_void_p, POINTER(Stats)),
    (c_int, "sn_call_values", c_void_p, POINTER(Value), c_int, POINTER(c_void_p), c_int),
    (c_int, "sn_call_arrays", c_void_p, POINTER(Array), c_int, POINTER(Array), c_int, c_void_p),
    (c_char_p, "sn_explain", c_void_p), (c_char_p, "sn_dump", c_void_p, c_char_p),
    (c_void_p, "sn_plan_load", c_char_p, c_void_p), (c_int, "sn_plan_save", c_void_p, c_char_p, c_void_p),
    (c_void_p, "sn_wrap", POINTER(Blob)), (c_void_p, "sn_keep", c_void_p), (c_void_p, "sn_retain", c_void_p),
    (None, "sn_release", c_void_p), (c_int, "sn_dtype_of", c_void_p), (c_int, "sn_device_of", c_void_p),
    (Ints, "sn_sizes", c_void_p), (Ints, "sn_strides", c_void_p), (c_char_p, "sn_repr", c_void_p),
    (c_void_p, "sn_data_raw", c_void_p), (c_int64, "sn_numel", c_void_p),
    (c_void_p, "sn_to_dlpack", c_void_p), (c_void_p, "sn_from_dlpack", c_void_p), (c_int, "sn_grad_mode_set", c_int),
]

_opened, _lock = None, threading.Lock()


def path():
    """Where the library is: as SINTERJIT_LIBRARY says, or in this package."""
    return os.environ.get("SINTERJIT_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", SONAME)


def _open():
    global _opened
    with _lock:
        if _opened is None:
            library = ctypes.CDLL(path())
            for result, name, *args in SIGNATURES:
                function = getattr(library, name)
                function.restype, function.argtypes = result, args
            _opened = library
    return _opened


def lib():
    return _opened or _open()


def take_error(doing=""):
    """The pending error as an exception; what is pending no more."""
    error = lib().sn_error_take().contents
    texts = [t.decode("utf-8", "replace") if t else "" for t in (error.message, error.op, error.where)]
    return SinterError((doing + ": " if doing else "") + texts[0], error.status, texts[1], texts[2])


def check(status, doing=""):
    if status:
        raise take_error(doing)


def owned(handle, doing=""):
    if not handle:
        raise take_error(doing)
    return handle


class Scope:
    """What is made inside, on this thread, ends with it."""

    __slots__ = ("mark",)

    def __enter__(self):
        self.mark = lib().sn_scope_begin()
        return self

    def __exit__(self, *_):
        lib().sn_scope_end(self.mark)


def text_of(name, *args):
    """A text that a function of the library gives, copied."""
    with Scope():
        text = getattr(lib(), name)(*args)
        error = lib().sn_check()
        if error:
            raise take_error()
        return text.decode("utf-8", "replace")


def shape_of(handle):
    """sizes, strides and the name of the dtype."""
    sizes, strides = lib().sn_sizes(handle), lib().sn_strides(handle)
    return (tuple(sizes.data[:sizes.n]) if sizes.n else (), tuple(strides.data[:strides.n]) if strides.n else (),
            DTYPES[lib().sn_dtype_of(handle) - 1])
