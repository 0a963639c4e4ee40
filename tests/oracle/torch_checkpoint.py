"""Gradients through torch.utils.checkpoint (use_reentrant=False), recorded for tests/unit/test_checkpoint_recorded.c.

Run with any PyTorch: python tests/oracle/torch_checkpoint.py tests/oracle/checkpoint.safetensors
Needs safetensors. For each kind KIND of the functions below: KIND.in0... are what it is called with, KIND.w0... the weights that it
closes over, KIND.out0... its results, KIND.go0... what they are multiplied by in the sum whose gradients KIND.grad.in0...,
KIND.grad.w0... are. A kind is recorded only if the same function without checkpoints has the same gradients, and if bodies ran
twice. No dropout: the generators differ.
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.utils.checkpoint import checkpoint

on, runs = True, 0


def region(body, *args):
    def counted(*x):
        global runs
        runs += 1
        return body(*x)
    return checkpoint(counted, *args, use_reentrant=False) if on else body(*args)


def mlp(x, w):
    return region(lambda x: F.linear(F.gelu(F.linear(x, w[0], w[1])), w[2], w[3]), x)


def nested(x, w):
    def inner(x):
        return torch.tanh(x @ w[1])

    def outer(x):
        h = torch.sigmoid(x @ w[0])
        return h * region(inner, h) + region(inner, torch.sin(h))
    return region(outer, x)


def shared(x, w):
    """Two regions and what lies between use one weight."""
    def body(x):
        return torch.exp(-torch.square(x @ w[0]))
    h = region(body, x)
    return region(body, h @ w[0] + x)


def several(x, w):
    """Of four results one is not used, and one takes no gradient."""
    def body(x, y):
        p = x * w[0]
        q = torch.cumsum(p * y, 1)
        return p, torch.softmax(q, -1), torch.log1p(p * p), torch.argmax(q, 1)
    p, q, _, best = region(body, x, torch.cos(x))
    return q, (p * q).sum(1) + best


def block(x, w):
    """A transformer's, twice with the same weights."""
    def body(x):
        n = F.layer_norm(x, x.shape[-1:], w[0], w[1])
        q, k, v = F.linear(n, w[2]).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1) @ v
        return x + F.linear(F.gelu(F.linear(x, w[3]), approximate="tanh"), w[4])
    return region(body, region(body, x))


def written(x, w):
    """In-place ops and views of what the body made."""
    def body(x):
        h = (x @ w[0]).mul_(0.5)
        h[:, 1:3].mul_(w[1])
        return h.t().contiguous().sub_(0.5), h
    a, b = region(body, x)
    return a @ b


KINDS = {"mlp": (mlp, (5, 6), [(8, 6), (8,), (3, 8), (3,)]),
         "nested": (nested, (4, 5), [(5, 7), (7, 7)]),
         "shared": (shared, (4, 6), [(6, 6)]),
         "several": (several, (3, 7), [(7,)]),
         "block": (block, (2, 5, 8), [(8,), (8,), (24, 8), (16, 8), (8, 16)]),
         "written": (written, (4, 5), [(5, 6), (2,)])}


def run(f, x, w, grad_outputs):
    x, w = x.clone().requires_grad_(), [t.clone().requires_grad_() for t in w]
    outs = f(x, w)
    outs = list(outs) if isinstance(outs, tuple) else [outs]
    grad_outputs = grad_outputs or [torch.randn(t.shape) for t in outs]
    forward = runs
    sum((t * g).sum() for t, g in zip(outs, grad_outputs)).backward()
    if on and runs < 2 * forward:
        raise SystemExit(f"{f.__name__}: {forward} bodies ran {runs} times in all")
    return [t.detach() for t in outs], grad_outputs, [t.grad for t in (x, *w)]


def main():
    global on, runs
    out = {}
    for kind, (f, size, weights) in KINDS.items():
        torch.manual_seed(len(kind))
        x, w = torch.randn(size), [torch.randn(s) * (0.5 if len(s) > 1 else 1.0) for s in weights]
        on, runs = True, 0
        outs, gos, grads = run(f, x, w, None)
        on = False
        if not all(torch.equal(a, b) for a, b in zip(grads, run(f, x, w, gos)[2])):
            raise SystemExit(f"{kind}: other gradients than without checkpoints")
        named = {"in0": x, **{f"w{i}": t for i, t in enumerate(w)}}
        out |= {f"{kind}.{name}": t for name, t in named.items()}
        out |= {f"{kind}.grad.{name}": g for name, g in zip(named, grads)}
        for i, (t, go) in enumerate(zip(outs, gos)):
            out[f"{kind}.out{i}"], out[f"{kind}.go{i}"] = t.contiguous(), go
    save_file({name: t.contiguous() for name, t in out.items()}, sys.argv[1], {"torch": torch.__version__.split("+")[0]})


main()
