"""Calls of the edge sweep (edge_calls.py) of recurrent nets: cells and whole sequences of few steps."""

import torch
from edge_values import *

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
WIDE, HELD = 3, 2


def some(dtype, size, start=1):
    """Between -0.75 and 0.5, exact in every dtype."""
    return one(torch.float32, size, start).sub(1).mul(0.25).to(dtype)


def weights(kind, dtype, bias=True, wide=WIDE, held=HELD):
    n = GATES[kind] * held
    both = [some(dtype, (n, wide), 2), some(dtype, (n, held), 3)]
    return both + [some(dtype, (n,), 1), some(dtype, (n,), 4)] if bias else both


def states(kind, dtype, size):
    h = some(dtype, size, 2)
    return [h, some(dtype, size, 3)] if kind == "lstm" else h


def cells(kind):
    def calls():
        for d in FLOATS:
            for bias in FLAGS:
                yield Call([some(d, (2, WIDE)), states(kind, d, (2, HELD)), *weights(kind, d, bias)], {}, f"plain {d} {bias}")
            for v in (nan, inf, -inf, 1e30, -0.0):
                x = some(d, (2, WIDE))
                x[0, 1] = v
                yield Call([x, states(kind, d, (2, HELD)), *weights(kind, d)], {}, f"special {d} {v}")
            large = [w * 200 for w in weights(kind, d)]
            yield Call([some(d, (2, WIDE)), states(kind, d, (2, HELD)), *large], {}, f"special {d} large")
        for d in (torch.float64, torch.float32):
            for n in (0, 1, 3):
                yield Call([some(d, (n, WIDE)), states(kind, d, (n, HELD)), *weights(kind, d)], {}, f"shapes {d} {n} rows")
            yield Call([some(d, (WIDE,)), states(kind, d, (HELD,)), *weights(kind, d)], {}, f"shapes {d} no rows")
            yield Call([some(d, (2, 4)), states(kind, d, (2, HELD)), *weights(kind, d)], {}, f"shapes {d} input too wide")
            yield Call([some(d, (2, WIDE)), states(kind, d, (2, 3)), *weights(kind, d)], {}, f"shapes {d} state too wide")
            yield Call([some(d, (2, WIDE)), states(kind, d, (3, HELD)), *weights(kind, d)], {}, f"shapes {d} rows apart")
            yield Call([some(d, (2, WIDE)), states(kind, d, (1, HELD)), *weights(kind, d)], {}, f"shapes {d} one state")
            w = weights(kind, d)
            yield Call([some(d, (2, WIDE)), states(kind, d, (2, HELD)), *w[:2], w[2], None], {}, f"plain {d} one bias")
        x, h, w = some(torch.float32, (2, WIDE)), states(kind, torch.float32, (2, HELD)), weights(kind, torch.float32)
        yield Call([x.double(), h, *w], {}, "mixed input")
        yield Call([x, h, *[t.double() for t in w]], {}, "mixed weights")
        yield Call([some(torch.int64, (2, WIDE)), h, *w], {}, "mixed ints")

    return calls


def sequences(kind):
    """(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)"""

    def made_call(d, steps=3, rows=2, bias=True, layers=1, both=False, first=False, note="plain", x=None):
        ways = 2 if both else 1
        params = []
        for layer in range(layers):
            for _ in range(ways):
                params += weights(kind, d, bias, WIDE if layer == 0 else HELD * ways)
        if x is None:
            x = some(d, (rows, steps, WIDE) if first else (steps, rows, WIDE))
        args = [x, states(kind, d, (layers * ways, rows, HELD)), params, bias, layers, 0.0, False, both, first]
        return Call(args, {}, f"{note} {d} {steps} {rows} {bias} {layers} {both} {first}")

    def calls():
        for d in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            for bias, layers, both, first in itertools.product(FLAGS, (1, 2), FLAGS, FLAGS):
                yield made_call(d, bias=bias, layers=layers, both=both, first=first)
        for d in (torch.float64, torch.float32):
            for steps, rows in ((1, 1), (1, 2), (2, 0), (0, 2), (5, 1)):
                for first in FLAGS:
                    yield made_call(d, steps=steps, rows=rows, first=first, note="shapes")
            for v in (nan, inf, -inf, 1e30):
                x = some(d, (3, 2, WIDE))
                x[1, 0, 1] = v
                yield made_call(d, x=x, note=f"special {v}")
            good = made_call(d)
            for at, arg, note in (
                (0, some(d, (3, WIDE)), "no rows"),
                (0, some(d, (3, 2, 4)), "input too wide"),
                (1, states(kind, d, (2, 2, HELD)), "states too many"),
                (1, states(kind, d, (1, 3, HELD)), "rows apart"),
                (2, good.args[2][:2], "weights too few"),
                (2, [], "weights none"),
                (4, 2, "layers too many"),
                (4, 0, "layers none"),
                (7, True, "directions too many"),
            ):
                args = list(good.args)
                args[at] = arg
                yield Call(args, {}, f"shapes {d} {note}")

    return calls


FAMILIES = {f"{kind}.input": sequences(kind) for kind in GATES} | {f"{kind}_cell": cells(kind) for kind in GATES}
