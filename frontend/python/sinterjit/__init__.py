"""Sinter's compiler for Python: `torch.compile(model, backend="sinter")`, text graphs, saved plans.

Importing this opens neither PyTorch nor the library: each part is loaded when it is first asked for.
"""
__version__ = "0.2.0"
_PARTS = {"explain": "report", "Function": "function", "load": "function", "Tensor": "array", "from_dlpack": "array",
          "SinterError": "library"}
__all__ = ["__version__", *_PARTS]


def __getattr__(name):
    if name not in _PARTS:
        raise AttributeError(f"module 'sinterjit' has no attribute '{name}'")
    import importlib
    return getattr(importlib.import_module("." + _PARTS[name], __name__), name)


def __dir__():
    return sorted(__all__)
