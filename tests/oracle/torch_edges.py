#!/usr/bin/env python3
"""Records what PyTorch computes at the edges: special values, dtypes beside each other, operands without dims or elements.

usage: torch_edges.py --rows ROWS.json --out DIR [--ops NAME ...]
ROWS.json is what `sinter ops --json` prints. One file DIR/<op>.safetensors per row of the table that edge_calls.py has calls
for (format: cases.md). A row without one needs a line in edges.txt, which says why.

A call is recorded with its results, first gradients for fixed incoming ones, and the gradients of these (`second`): of f64 and
f32. One that PyTorch refuses is recorded as an error, then once more without the values that it is refused for.
"""
import argparse, hashlib, json, mmap, os, sys, traceback, warnings
import torch
import edge_calls
from safetensors.torch import save_file
from torch_cases import CaseFile, DT, Unsupported, fresh, has_own_layout, qualified, same_span
from torch.utils._pytree import tree_flatten, tree_map

warnings.filterwarnings("ignore")
# Units in the last place that a value may be off, and the least step between two values.
STEP = {torch.float64: (2.0**-52, 5e-324), torch.float32: (2.0**-23, 1.5e-45), torch.float16: (2.0**-10, 6e-8),
        torch.bfloat16: (2.0**-7, 9.2e-41)}
ULPS, ULPS_HALF, ULPS_GRAD = 8, 1, 64
# What PyTorch's CPU build has no kernel or no derivative for says nothing of the op.
NOT_THERE = ("not implemented", "not supported", "not yet implemented", "unsupported", "derivative for", "expected m1 and m2")


def tolerance(dtype, ulps):
    if dtype not in STEP:
        return [0.0, 0.0]
    if ulps and dtype in (torch.float16, torch.bfloat16):
        ulps = max(ULPS_HALF, ulps // 16)
    return [ulps * STEP[dtype][0], ulps * STEP[dtype][1]]


def described(cf, t, ulps, through=()):
    """through: tensors that it was computed by; the coarsest dtype says how near it can be."""
    spec = cf.arg(t)
    if isinstance(t, torch.Tensor):
        spec["tol"] = max([tolerance(x.dtype, ulps) for x in (t, *through)])
        spec.pop("requires_grad", None)
    return spec


def weights(t, k):
    """Fixed incoming gradients: exact in every dtype, of both signs."""
    flat = torch.tensor([1.0, 2.0, -1.0, 0.5, 1.0])[(torch.arange(t.numel()) + k) % 5]
    return flat.to(t.dtype).reshape(t.shape)


def record_gradients(cf, case, func, args, kwargs):
    """First and second gradients, where there are any."""
    args, kwargs = fresh((args, kwargs))
    leaves = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor) and x.requires_grad]
    try:
        out = func(*args, **kwargs)
    except RuntimeError:  # a result of ints cannot require a gradient
        return
    outs = list(out) if isinstance(out, (list, tuple)) else [out]
    at = [i for i, o in enumerate(outs) if isinstance(o, torch.Tensor) and o.requires_grad]
    if not at or not leaves:
        return
    with_ = [weights(outs[i], i) for i in at]
    roots = [outs[i] for i in at]
    try:
        first = torch.autograd.grad(roots, leaves, with_, allow_unused=True, create_graph=True)
    except Exception as e:
        case["no_grad"] = str(e)[:80]
        return
    grad = {"outputs": at, "grad_outputs": [cf.tensor(g.detach()) for g in with_],
            "grads": [None if g is None else described(cf, g.detach(), ULPS_GRAD, roots) for g in first]}
    through = roots
    roots = [(i, g) for i, g in enumerate(first) if g is not None and g.requires_grad]
    if roots:
        again = [weights(g, 1) for _, g in roots]
        try:
            second = torch.autograd.grad([g for _, g in roots], leaves, again, allow_unused=True)
            grad["second"] = {"of": [i for i, _ in roots], "with": [cf.tensor(g) for g in again],
                              "grads": [None if g is None else described(cf, g.detach(), 2 * ULPS_GRAD, through) for g in second]}
        except Exception:
            pass
    case["grad"] = grad


def leaf_copies(tree, grad):
    def one(x):
        if not isinstance(x, torch.Tensor):
            return x
        return x.detach().clone().requires_grad_(grad and x.dtype in (torch.float64, torch.float32))
    return tree_map(one, tree)


def error_of(func, args, kwargs):
    try:
        with torch.no_grad():
            func(*fresh(args), **fresh(kwargs))
        return None
    except Exception as e:
        return e


def key_of(case, tensors, names):
    blob = json.dumps([case["op"], case["args"], case["kwargs"], bool(case.get("grad"))], sort_keys=True)
    for i, n in enumerate(names):
        blob = blob.replace(f'"{n}"', f'"#{i}"')
    h = hashlib.sha256(blob.encode())
    for n in names:
        h.update(tensors[n].view(torch.uint8).numpy().tobytes())
    return h.digest()


def record(cf, func, args, kwargs, note):
    """One call; whether PyTorch takes it."""
    mark = len(cf.tensors)
    grad = not func._schema.is_mutable and not edge_calls.is_random(func) and not edge_calls.picks(func)
    args, kwargs = leaf_copies((args, kwargs), grad)
    error = error_of(func, args, kwargs)
    if isinstance(error, NotImplementedError) or (error and any(w in str(error) for w in NOT_THERE)):
        return True
    try:
        case = {"op": qualified(func), "note": note, "args": [cf.arg(a) for a in args],
                "kwargs": {k: cf.arg(v) for k, v in kwargs.items()}}
        names = list(cf.tensors)[mark:]
        key = key_of(case, cf.tensors, names)
        if error is not None:
            case["error"] = str(error).split("\n")[0][:120]
        else:
            record_results(cf, case, func, args, kwargs, grad)
        if cf.add(case, key):
            return error is None
    except Unsupported:
        pass
    for n in list(cf.tensors)[mark:]:
        del cf.tensors[n]
    return error is None


def record_results(cf, case, func, args, kwargs, grad):
    with torch.no_grad():
        a, kw = fresh((args, kwargs))
        flat_in = [x for x in tree_flatten((a, kw))[0] if isinstance(x, torch.Tensor)]
        out = func(*a, **kw)
    outs = list(out) if isinstance(out, (list, tuple)) else [out] if func._schema.returns else []
    if edge_calls.is_random(func):
        case["random"] = True
    case["out"] = []
    for o in outs:
        spec = described(cf, o, 0 if edge_calls.is_exact(func, kwargs) else ULPS)
        if isinstance(o, torch.Tensor):
            alias = [i for i, x in enumerate(flat_in) if same_span(o, x)]
            if alias:
                spec["alias_of_tensor_input"] = alias[0]
            if edge_calls.any_order(func, o, outs):
                spec["alike"] = True
            if not has_own_layout(func, o, alias):
                spec["any_layout"] = True
        case["out"].append(spec)
    if func._schema.is_mutable:
        case["mutated"] = [{"tensor_input": i, **described(cf, x, ULPS)} for i, x in enumerate(flat_in)]
    if grad:
        record_gradients(cf, case, func, args, kwargs)


def overload(name):
    """aten::add.Tensor -> torch.ops.aten.add.Tensor"""
    space, _, rest = name.partition("::")
    base, _, over = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), over or "default")


def record_row(name, leave_out, progress):
    """All calls of a row but those whose numbers are left out; `progress` holds the number of the one that is made."""
    cf = CaseFile()
    func = overload(name)
    for k, call in enumerate(edge_calls.calls(name, func)):
        if k in leave_out:
            continue
        progress[:8] = k.to_bytes(8, "little")
        if not record(cf, func, call.args, call.kwargs, call.note):
            tamer = call.without_refused(lambda args: error_of(func, args, call.kwargs) is None)
            if tamer is not None:
                record(cf, func, tamer, call.kwargs, call.note + ", tamer")
    return cf


def write_row(name, path, leave_out, progress):
    cf = record_row(name, leave_out, progress)
    if cf.cases:
        meta = {"format": "cases-1", "torch": torch.__version__, "cases": json.dumps(cf.cases, separators=(",", ":"))}
        save_file(cf.tensors, path, meta)
    progress[:8] = len(cf.cases).to_bytes(8, "little")


def record_apart(name, path):
    """Records a row in a process of its own, again without each call that ends it: how many cases, and those calls."""
    ending = []
    progress = mmap.mmap(-1, 8)
    while True:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                write_row(name, path, ending, progress)
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        number = int.from_bytes(progress[:8], "little")
        if status == 0:
            return number, ending
        if status > 0:
            sys.exit(f"{name}: the calls could not be made")
        ending.append(number)


def absent_rows():
    """Rows of which edges.txt says that there is no call, and why."""
    with open(os.path.join(os.path.dirname(__file__), "edges.txt")) as file:
        return {line.split()[0] for line in file if line.split()[1:2] == ["absent"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--ops", nargs="*")
    parser.add_argument("--go-on", action="store_true", help="rows whose file is there are left as they are")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(options.out, exist_ok=True)
    with open(options.rows) as file:
        table = json.load(file)
    rows = [row["name"] for row in table]
    edge_calls.POINTWISE.update((row["name"], row["kind"] == "pointwise") for row in table)
    absent, none, total = absent_rows(), [], 0
    for name in rows:
        if options.ops and name.removeprefix("aten::") not in options.ops and name.removeprefix("aten::").split(".")[0] not in options.ops:
            continue
        if name in absent:
            continue
        path = os.path.join(options.out, name.replace("::", "_") + ".safetensors")
        if options.go_on and os.path.exists(path):
            continue
        n, ending = record_apart(name, path)
        total += n
        if ending:
            print(f"{name}: PyTorch's process ends in calls {ending}", file=sys.stderr)
        if n == 0:
            none.append(name)
    print(json.dumps({"rows": len(os.listdir(options.out)), "cases": total}))
    if none:
        sys.exit(f"no call of {' '.join(none)}: they need some in edge_calls.py, or a line in edges.txt that they are absent")


if __name__ == "__main__":
    main()
