"""torch_peer.py [--threads N] [--backend inductor|none|sinter]: PyTorch's process (worker.py): eagerly and by torch.compile.

With sinter the nets alone, through frontend/python; eagerly where SINTER_COMPILE=0. --export PATH ROW writes a row for ONNX
Runtime instead; --values PATH ROW computes in f64 what Sinter computed (`sinter bench --digest --save`) and prints how far off
that is; --digest ROW: a digest of what a net gives through Sinter.
"""
import argparse
import hashlib
import json
import logging
import os
import warnings

import torch

import rows
import torch_works
import worker


def identity(f):
    return f


def compiling(backend, threads):
    if backend != "sinter":
        return lambda f: torch.compile(f, backend=backend)
    from sinterjit import torch_backend
    return lambda f: torch.compile(f, backend=torch_backend.sinter, options={"threads": threads})


def build(backend, threads):
    def of(name):
        row = rows.ROWS[name]
        kind = "net" if row.is_net else rows.work_of(row).kind
        if backend == "sinter":
            if not row.is_net:
                raise worker.Missing("Sinter's tool has it")
            torch._dynamo.reset()
            key = "eager_ms" if os.environ.get("SINTER_COMPILE") == "0" else "compiled_ms"
            return {key: worker.Variant(torch_works.run_of(row, compiling(backend, threads)))}
        if kind == "overhead":
            per = rows.work_of(row).per
            return {"eager_ns": worker.Variant(torch_works.run_of(row, identity), 1e9 / per)}
        ways = {} if kind == "call" else {"eager_ms": worker.Variant(torch_works.run_of(row, identity))}
        if backend != "none":
            torch._dynamo.reset()
            compiled = torch_works.run_of(row, compiling(backend, threads))
            ways |= {"call_ns": worker.Variant(compiled, 1e9)} if kind == "call" else {"compiled_ms": worker.Variant(compiled)}
        return ways
    return of


class WithConstants(torch.nn.Module):
    """A row's function whose weights are the module's."""

    def __init__(self, f, inputs, specs):
        super().__init__()
        self.f, self.order = f, []
        for i, (tensor, spec) in enumerate(zip(inputs, specs)):
            if spec.weight:
                self.register_buffer(f"w{i}", tensor)
            self.order.append(f"w{i}" if spec.weight else None)

    def forward(self, *given):
        left = iter(given)
        return self.f(*[getattr(self, name) if name else next(left) for name in self.order])


def export(path, row):
    if row.is_net:
        import nets
        net, inputs, _ = nets.make(row)
        net, args = net.eval(), tuple(inputs.values())
    else:
        work = rows.work_of(row)
        tensors, _ = torch_works.tensors(work)
        net = WithConstants(torch_works.function_of(row), tensors, work.inputs).eval()
        args = tuple(t for t, spec in zip(tensors, work.inputs) if not spec.weight)
    with torch.no_grad():
        torch.onnx.export(net, args, path, dynamo=True, verbose=False)


def off(ours, theirs):
    """The largest difference, as a share of the largest value."""
    return ((ours.double() - theirs).abs().max() / theirs.abs().max().clamp_min(1e-30)).item()


def wide(t):
    return t.double() if t.is_floating_point() else t


def values(path, row):
    """What the file says that Sinter gave, against PyTorch in f64."""
    from safetensors.torch import load_file
    saved = load_file(path)
    work = rows.work_of(row)
    inputs = [wide(saved[f"in{i}"]).requires_grad_(spec.leaf) for i, spec in enumerate(work.inputs)]
    params = [wide(saved[key]).requires_grad_() for key in sorted(k for k in saved if k.startswith("init."))]
    for tensor, spec in zip(inputs + params, list(work.inputs) + list(work.params)):
        if tuple(tensor.shape) != tuple(spec.shape):
            raise SystemExit(f"{row.name}: {tuple(tensor.shape)} here, {spec.shape} in rows.py")
    worst = {}
    if row.maker == "adamw":
        return {}
    f = torch_works.function_of(row)
    out = f(params, *inputs) if work.kind == "step" else f(*inputs)
    worst["out"] = off(saved["out0"], out.detach())
    leaves = [x for x in inputs if x.requires_grad]
    if work.kind == "backward":
        dy = wide(saved["dy0"]) if out.dim() else saved["dy0"].double()
        for i, grad in enumerate(torch.autograd.grad(out, leaves, dy)):
            worst[f"grad{i}"] = off(saved[f"grad{i}"], grad)
    return worst


def digest(row, threads):
    """Of all that a net gives through Sinter, and how many nodes of its graphs Sinter has."""
    from sinterjit import report, torch_backend
    found = torch_works.run_of(row, compiling("sinter", threads))()
    seen = hashlib.sha256()
    for tensor in found if isinstance(found, tuple) else (found,):
        if tensor is not None:
            seen.update(tensor.detach().contiguous().numpy().tobytes())
    counts = report.counts([r for ref in torch_backend.reports if (r := ref())])
    return {"digest": seen.hexdigest()[:16], "nodes": f"{counts['sinter']}/{counts['nodes']}"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--export", nargs=2)
    parser.add_argument("--values", nargs=2)
    parser.add_argument("--digest")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.export:
        export(options.export[0], rows.ROWS[options.export[1]])
    elif options.digest:
        print(json.dumps(digest(rows.ROWS[options.digest], options.threads)))
    elif options.values:
        print(json.dumps(values(options.values[0], rows.ROWS[options.values[1]])))
    else:
        worker.serve(build(options.backend, options.threads))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    main()
