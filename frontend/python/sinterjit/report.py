"""`explain(model)`: what became of what torch.compile was given, by the user's Python lines."""
import collections

from .text import place


def explain(model=None):
    """A text: nodes, kernels, breaks and fallbacks of a compiled model or function; None: of all that are alive."""
    from . import torch_backend
    reports = [r for r in (ref() for ref in torch_backend.reports) if r is not None]
    if model is not None:
        own = _files_of(model)
        reports = [r for r in reports if r.belongs(own)]
    if not reports:
        return "nothing of it has been compiled by sinter: call it first\n"
    return "".join(_head(reports) + _breaks(reports) + _kept(reports) + _graphs(reports))


def counts(reports):
    """nodes, nodes in Sinter, views that PyTorch makes of inputs, kernels, and what ran eagerly."""
    total = collections.Counter()
    for report in reports:
        total["made_of"] += 1
        for program in report.programs:
            total.update(program.counts())
    return total


def _head(reports):
    c = counts(reports)
    nodes, own = c["nodes"], c["sinter"]
    share = 100 * own / nodes if nodes else 100
    yield_line = f"{own} of {nodes} nodes in Sinter ({share:.1f} %), {c['kernels']} kernels, in {c['segments']} segments of "
    lines = [yield_line + f"{c['made_of']} graphs of torch.compile\n"]
    if c["ops_eager"]:
        lines.append(f"{c['ops_eager']} ops ran one by one (Sinter's eager), not as compiled code\n")
    lines.append(f"compiled in {(c['trace_ns'] + c['passes_ns'] + c['codegen_ns']) / 1e6:.1f} ms\n")
    return lines


def _breaks(reports):
    lines = []
    for report in reports:
        if report.broken_by:
            frame = report.broken_by.user_stack[-1] if report.broken_by.user_stack else None
            at = f"{frame.filename}:{frame.lineno}" if frame else "somewhere"
            lines.append(f"  {at}: {str(report.broken_by.reason).splitlines()[0]}\n")
    return [f"graph breaks of torch.compile: {len(lines)}\n", *lines] if lines else []


def _kept(reports):
    """What stays with PyTorch, the most frequent first, with the lines that it comes from."""
    why, lines_of, errors = collections.Counter(), {}, []
    for report in reports:
        errors += [f"  a whole graph: {e}\n" for e in report.errors]
        for program in report.programs:
            errors += [f"  {p}\n" for p in program.problems]
            for node, reason in program.reasons.items():
                if reason is not None:
                    file, line, _ = place(node)
                    why[(str(node.target), reason)] += 1
                    lines_of.setdefault((str(node.target), reason), collections.Counter())[f"{file}:{line}"] += 1
    lines = []
    for (target, reason), n in why.most_common():
        lines.append(f"  {n:4d} {target}: {reason}\n")
        lines += [f"         {at} ({k})\n" for at, k in lines_of[(target, reason)].most_common(5)]
    out = [f"PyTorch keeps {sum(why.values())} nodes:\n", *lines] if lines else ["PyTorch keeps no node\n"]
    return out + (["errors, for which PyTorch ran:\n", *errors] if errors else [])


def _graphs(reports):
    lines = []
    for i, report in enumerate(reports):
        for program in report.programs:
            c = program.counts()
            lines.append(f"graph {i} {program.kind}: {c['sinter']} of {c['nodes']} nodes, {c['segments']} segments, "
                         f"{c['kernels']} kernels, {c['calls']} calls\n")
    return lines


def _files_of(model):
    """Where the code of a compiled function or module lies: its own, and its submodules'."""
    import inspect
    target = getattr(model, "_torchdynamo_orig_callable", None) or getattr(model, "_orig_mod", model)
    functions = [type(m).forward for m in target.modules()] if hasattr(target, "modules") else [target]
    found = set()
    for f in functions:
        code = getattr(inspect.unwrap(f), "__code__", None) or getattr(type(f).__call__, "__code__", None)
        if code:
            found.add((code.co_filename, code.co_name))
    return found
