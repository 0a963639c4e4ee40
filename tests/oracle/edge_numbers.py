"""Numbers that a dtype does not hold, for every row that has a parameter for one and refuses some: the first call of each
dtype that PyTorch takes, with each number in turn."""

import torch
from torch.utils._pytree import tree_flatten
from edge_values import Call

BEYOND = {
    torch.float16: [65505.0, -7e4, 70000, 1e39],
    torch.bfloat16: [-3.396e38, 1e39],
    torch.float32: [-3.5e38],
    torch.int8: [127, 128, 300, -129, 200.5, 1e30, 2**62],
    torch.uint8: [256, -1, -255, -256, 300.0],
    torch.int16: [2**15, -(2**15)],
    torch.int32: [2**31, 1e30],
    torch.int64: [2**62, 1e30],
}
NUMBERS = ("number", "Optional[number]", "float", "Optional[float]")


def dtype_of(call):
    """Of its result, or of all tensors but masks; None: several, or no elements."""
    if call.kwargs.get("dtype") is not None:
        return call.kwargs["dtype"]
    tensors = [x for x in tree_flatten((call.args, call.kwargs))[0] if isinstance(x, torch.Tensor)]
    dtypes = {t.dtype for t in tensors if t.dtype != torch.bool}
    return dtypes.pop() if len(dtypes) == 1 and all(t.numel() for t in tensors) else None


def refusal(func, call):
    try:
        with torch.no_grad():
            func(*call.args, **call.kwargs)
        return ""
    except Exception as e:
        return str(e) or "refused"


def with_number(func, call, param, number):
    at = [p.name for p in func._schema.arguments].index(param.name)
    args, kwargs = list(call.args), dict(call.kwargs)
    if at < len(args):
        args[at] = number
    else:
        kwargs[param.name] = number
    return Call(args, kwargs, f"beyond {dtype_of(call)}, {param.name} {number}")


def is_limited(func, calls):
    """Only such a parameter is asked: what another makes of numbers that large says nothing of limits."""
    return any("overflow" in refusal(func, c) or "outside the representable" in refusal(func, c) for c in calls)


def beyond(func, calls):
    """`calls`, and behind them those of numbers beyond."""
    params = [p for p in func._schema.arguments if str(p.type) in NUMBERS]
    first = {}
    for call in calls:
        dtype = dtype_of(call) if params else None
        if dtype in BEYOND and dtype not in first and not refusal(func, call):
            first[dtype] = call
        yield call
    for param in params:
        found = [with_number(func, call, param, n) for dtype, call in first.items() for n in BEYOND[dtype]]
        if is_limited(func, found):
            yield from found
