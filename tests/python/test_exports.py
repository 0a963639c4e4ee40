"""test_exports.py [--all | MODEL...]: models of models.py as torch.export.save writes them, loaded by sn_import, without Python's
part in the calls: PyTorch's values, also with another batch and length, and the gradients of a training step.

Differences to f64 are at most twice PyTorch's own, measured as in test_models.py. Without arguments four models. --all: all
that export (at least 36); those in DYNAMIC also with dynamic batch and length (at least 20 of them); five train a step.
"""
import ctypes
import logging
import os
import sys
import tempfile
import warnings
from ctypes import c_char_p, c_int, c_void_p

import torch
import models
from sinterjit.array import as_tensor
from sinterjit.function import _value
from sinterjit.library import Scope, Value, check, lib, owned
from test_models import check_differences, double_inputs, ratios

PUSH = ["llama", "bert", "resnet18", "vit"]
TRAINED = ["llama", "bert", "gpt2", "resnet18", "vit"]
# Images beside tokens: of them it is the size.
DYNAMIC = models.DYNAMIC + ["mixtral", "mamba2", "deberta", "wav2vec2", "resnet18", "mobilenetv3", "convnext", "segformer"]
# What the library refuses by name: there are no complex numbers, and no kernels of transformers' own.
REFUSED = {"fnet": "aten::fft_fftn", "mixtral": "transformers::grouped_mm_fallback"}
LEAST_EXPORTS, LEAST_DYNAMIC = 36, 20


class About(ctypes.Structure):  # sn_program_input
    _fields_ = [("size", ctypes.c_size_t), ("name", c_char_p), ("type", c_char_p), ("fixed", ctypes.c_bool), ("dtype", c_int),
                ("rank", ctypes.c_int32), ("sizes", c_void_p), ("hints", c_void_p)]


def signatures(library):
    for result, name, *args in [
            (c_void_p, "sn_import", c_char_p, c_void_p), (None, "sn_program_free", c_void_p),
            (c_void_p, "sn_program_function", c_void_p), (c_void_p, "sn_program_dict", c_void_p),
            (c_int, "sn_program_in_count", c_void_p), (c_int, "sn_program_in", c_void_p, c_int, ctypes.POINTER(About)),
            (c_int, "sn_program_out_count", c_void_p), (c_char_p, "sn_program_out_name", c_void_p, c_int),
            (c_int, "sn_backward", c_void_p), (c_void_p, "sn_grad", c_void_p), (c_void_p, "sn_dict_get", c_void_p, c_char_p)]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, args


def to_torch(handle):
    from sinterjit.array import Tensor
    return torch.from_dlpack(Tensor(lib().sn_retain(handle))).clone()


class Program:
    """A .pt2 file; calls take what the export took, and give the tensors in their order."""

    def __init__(self, path):
        signatures(lib())
        self.handle = owned(lib().sn_import(os.fsencode(path), None), "sn_import")
        self.names = []
        for i in range(lib().sn_program_in_count(self.handle)):
            about = About(size=ctypes.sizeof(About))
            check(lib().sn_program_in(self.handle, i, about))
            if not about.fixed:
                self.names.append(about.name.decode())

    def call(self, inputs):
        """Inside of a scope."""
        given = inputs if isinstance(inputs, dict) else dict(zip(self.names, inputs, strict=True))
        kept, n = [], lib().sn_program_out_count(self.handle)
        values = (Value * max(len(self.names), 1))(*[_value(given[name], kept) for name in self.names])
        outs = (c_void_p * n)()
        check(lib().sn_call_values(lib().sn_program_function(self.handle), values, len(self.names), outs, n), "call")
        return [h for h in outs if h]

    def __call__(self, inputs):
        before = lib().sn_grad_mode_set(1)  # off
        try:
            with Scope():
                return [t for t in map(to_torch, self.call(inputs)) if t.is_floating_point()]
        finally:
            lib().sn_grad_mode_set(before)

    def gradients(self, inputs, names):
        with Scope():
            loss = self.call(inputs)[0]
            check(lib().sn_backward(loss), "backward")
            parameters = lib().sn_program_dict(self.handle)
            grads = [lib().sn_grad(lib().sn_dict_get(parameters, n.encode())) for n in names]
            return [to_torch(g) for g in grads if g]

    def close(self):
        lib().sn_program_free(self.handle)


class Loss(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, **inputs):
        return models.loss_of(self.net(**inputs))


class Fixed(Exception):
    """PyTorch has fixed a size that was to be dynamic: its own program refuses another one."""


def exported(net, inputs, dynamic=None, other=None):
    """other: what the program has to take, too."""
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, None)
    program = torch.export.export(net, args, kwargs, dynamic_shapes=dynamic)
    if other:
        try:
            program.module()(**other)
        except AssertionError as error:  # "Guard failed: ..."
            raise Fixed(str(error)) from None
    path = os.path.join(tempfile.mkdtemp(), "model.pt2")
    torch.export.save(program, path)
    loaded = None
    try:
        loaded = Program(path)
    finally:
        os.remove(path)  # the mapping stays
        os.rmdir(os.path.dirname(path))
    return loaded


def compare(net, program, inputs):
    """Ratios of differences to f64, ours in PyTorch's."""
    with torch.no_grad():
        torchs = models.tensors_of(models.call(net, inputs))
        exact = models.tensors_of(models.call(double(net), double_inputs(inputs)))
    got = program(inputs)
    if len(got) != len(torchs):
        raise AssertionError(f"{len(got)} results, not {len(torchs)}")
    return ratios(got, torchs, exact)


def double(net):
    import copy
    return copy.deepcopy(net).double()


def static(name, seed):
    net, inputs = models.make(name, seed)
    with torch.no_grad():
        program = exported(net, inputs)
    measured = {"results": compare(net, program, inputs)}
    program.close()
    return measured


def dynamic_dims(t):
    """Of a tensor the dims that are batch and length: of tokens and sound two, of images their sizes, too."""
    if not isinstance(t, torch.Tensor) or t.dim() not in (2, 4):
        return ()
    return (0, 1) if t.dim() == 2 else (0, 2, 3)


def resized(inputs, batch, length):
    """Other tokens; sound and images whose sizes grow with the length."""
    def tensor(t):
        if not dynamic_dims(t):
            return t
        if t.dtype == torch.int64:
            return torch.randint(3, models.VOCABULARY - 1, (batch, length))
        if t.dim() == 2:
            return torch.randn(batch, t.shape[1] + 16 * length)
        return torch.randn(batch, t.shape[1], t.shape[2] + 32 * (length % 3), t.shape[3] + 32 * (length % 2))
    return {k: tensor(v) for k, v in inputs.items()}


def dynamic(name, seed):
    net, inputs = models.make(name, seed)
    if not isinstance(inputs, dict):
        inputs = {"x": inputs[0]}
    dims = {k: {d: torch.export.Dim.AUTO for d in dynamic_dims(v)} or None for k, v in inputs.items()}
    with torch.no_grad():
        program = exported(net, inputs, dims, resized(inputs, 3, 9))
    measured = {f"batch {batch}, length {n}": compare(net, program, resized(inputs, batch, n))
                for batch, n in ((2, 12), (3, 9), (5, 20), (4, 17))}
    program.close()
    return measured


def train(name, seed):
    net, inputs = models.make(name, seed)
    if not isinstance(inputs, dict):
        inputs = {"x": inputs[0]}
    loss = Loss(net).train()  # batch norm writes its statistics, dropout is 0
    results = []
    for module, given in ((loss, inputs), (double(loss), double_inputs(inputs))):
        module(**given).backward()
        results.append([p.grad.clone() for p in module.parameters() if p.grad is not None])
    fresh = Loss(models.make(name, seed)[0]).train()
    program = exported(fresh, inputs)
    names = [n for n, p in loss.named_parameters() if p.grad is not None]
    got = program.gradients(inputs, names)
    program.close()
    if len(got) != len(names):
        raise AssertionError(f"{len(got)} gradients, not {len(names)}")
    return {"gradients": ratios(got, *results)}


def complaints(kind, name):
    first = kind(name, 0)
    names = [f"{what}: {how}" for what in first for how in ("largest", "norm")]
    flat = lambda measured: [ratio for both in measured.values() for ratio in both]
    return check_differences(names, flat(first), lambda seed: flat(kind(name, seed)))


def main(args):
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    every = "--all" in args
    names = list(models.MODELS) if every else args or PUSH
    counts, failed = {"static": 0, "dynamic": 0, "train": 0}, False
    for name in names:
        kinds = [("static", static)]
        if every and name in DYNAMIC:
            kinds.append(("dynamic", dynamic))
        if name in TRAINED:
            kinds.append(("train", train))
        for kind, kind_of in kinds:
            try:
                bad = complaints(kind_of, name)
            except (torch._dynamo.exc.TorchDynamoException, torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode,
                    torch._export.serde.serialize.SerializeError) as error:
                print(f"{name:16} {kind:8} PyTorch does not export it: {str(error).splitlines()[0][:100]}", flush=True)
                continue
            except Fixed as error:
                print(f"{name:16} {kind:8} PyTorch fixes a size: {str(error).splitlines()[0][:100]}", flush=True)
                continue
            except Exception as error:  # of the library, or of this test
                if name in REFUSED and REFUSED[name] in str(error):
                    print(f"{name:16} {kind:8} refused: {error}", flush=True)
                    continue
                bad = [f"{type(error).__name__}: {str(error)[:300]}"]
            counts[kind] += not bad
            failed |= bool(bad)
            print(f"{name:16} {kind:8} {'; '.join(bad) or 'ok'}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()))
    if every and (counts["static"] < LEAST_EXPORTS or counts["dynamic"] < LEAST_DYNAMIC or counts["train"] < len(TRAINED)):
        failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
