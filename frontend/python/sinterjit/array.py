"""Tensors outside of PyTorch: shared with everything that knows DLPack or NumPy's `__array__`, never copied.

    a = sinterjit.from_dlpack(numpy_array)        numpy.asarray(a), numpy.from_dlpack(a), torch.from_dlpack(a)
"""
import ctypes

from .library import CPU, Scope, check, lib, owned, shape_of, take_error, text_of

_api = ctypes.pythonapi
_api.PyCapsule_New.restype, _api.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.restype, _api.PyCapsule_IsValid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.restype, _api.PyCapsule_SetName.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_NAME, _USED = b"dltensor_versioned", b"used_dltensor_versioned"
DLPACK_CPU = 1


class Tensor:
    """A tensor of the library: shape, strides (in elements), dtype ("f32"); `handle` is the sn_tensor, which it owns."""

    __slots__ = ("handle",)

    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        lib().sn_release(self.handle)

    @property
    def shape(self):
        return shape_of(self.handle)[0]

    @property
    def strides(self):
        return shape_of(self.handle)[1]

    @property
    def dtype(self):
        return shape_of(self.handle)[2]

    @property
    def data_ptr(self):
        return lib().sn_data_raw(self.handle) or 0

    def __repr__(self):
        return text_of("sn_repr", self.handle)

    def __dlpack_device__(self):
        if lib().sn_device_of(self.handle) != CPU:
            raise BufferError("sinterjit: the tensor is not on the CPU")
        return (DLPACK_CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if max_version is None or max_version[0] < 1:
            raise BufferError("sinterjit: the consumer knows no DLPack 1.0")
        if copy or dl_device not in (None, (DLPACK_CPU, 0)):
            raise BufferError("sinterjit: the memory is shared, not copied")
        return _api.PyCapsule_New(owned(lib().sn_to_dlpack(self.handle)), _NAME, None)

    def __array__(self, dtype=None, copy=None):
        import numpy
        if self.dtype == "bf16":
            raise TypeError("numpy has no bfloat16")
        array = numpy.from_dlpack(self)
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("another dtype needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array


def from_dlpack(array):
    """A Tensor of the memory of anything that has `__dlpack__`: NumPy's arrays, PyTorch's tensors, our own."""
    capsule = array.__dlpack__(max_version=(1, 0))
    if not _api.PyCapsule_IsValid(capsule, _NAME):
        raise BufferError(f"sinterjit: {type(array).__name__} gives DLPack before 1.0")
    with Scope():
        handle = lib().sn_from_dlpack(_api.PyCapsule_GetPointer(capsule, _NAME))
        if not handle:
            raise take_error("sinterjit.from_dlpack")
        _api.PyCapsule_SetName(capsule, _USED)  # it belongs to the library
        return Tensor(lib().sn_keep(handle))


def as_tensor(array):
    return array if isinstance(array, Tensor) else from_dlpack(array)
