"""torch_ulps.py DIR: what PyTorch's CPU kernels give for the inputs that `ulps --inputs DIR` wrote (DIR/inputs.f32 and
.f64), as DIR/NAME.f32 and .f64. `ulps --record DIR > torch_ulps.txt` compares them with the references of our own:

    ulps --inputs D && python3 torch_ulps.py D && ulps --record D > tests/oracle/torch_ulps.txt
"""
import pathlib
import sys

import numpy
import torch

NAMES = ("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sqrt "
         "sigmoid").split()


def slope(x):
    """of gelu"""
    x = x.clone().requires_grad_()
    torch.nn.functional.gelu(x).sum().backward()
    return x.grad


FUNCTIONS = {name: getattr(torch, name) for name in NAMES}
FUNCTIONS |= {"gelu_erf": torch.nn.functional.gelu, "gelu_erf_slope": slope}

folder = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)
for dtype, numbers in (("f32", numpy.float32), ("f64", numpy.float64)):
    inputs = torch.from_numpy(numpy.fromfile(folder / f"inputs.{dtype}", dtype=numbers))
    for name, function in FUNCTIONS.items():
        function(inputs).numpy().tofile(folder / f"{name}.{dtype}")
