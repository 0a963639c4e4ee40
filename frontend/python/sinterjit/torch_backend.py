"""`torch.compile(model, backend="sinter")`: what PyTorch calls.

AOTAutograd makes forward and backward graphs of ATen ops; each becomes a `Program`. Nothing that goes wrong here reaches
the user, unless options say fallback="error": the graph then runs by PyTorch.
"""
import logging
import weakref

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

from .decompositions import decompositions
from .library import check, lib
from .program import Program
from .text import FRAME

log = logging.getLogger("sinterjit")
PRESETS = {"default": 0, "reduce-overhead": 1, "max-autotune": 2, "max-autotune-no-cudagraphs": 2}
NUMERICS = {"exact": 0, "fast": 1}
reports = []  # of every graph that is alive, in the order of their making


class BackendOptions:
    """options={"numerics": "exact" | "fast", "threads": n, "fallback": "eager" | "error"}, or torch's mode=."""

    def __init__(self, options=None, mode=None):
        options = dict(options or {})
        self.numerics = choice("numerics", options.pop("numerics", "exact"), NUMERICS)
        self.preset = choice("mode", mode or "default", PRESETS)
        self.fallback = options.pop("fallback", "eager")
        choice("fallback", self.fallback, {"eager": 0, "error": 1})
        self.threads = options.pop("threads", None)
        if self.threads is not None and (not isinstance(self.threads, int) or self.threads < 0):
            raise ValueError(f"sinter: threads={self.threads!r} is no count")
        if options:
            raise ValueError(f"sinter: there is no option {sorted(options)[0]!r}; there are numerics, threads, fallback")

    def apply(self):
        check(lib().sn_setting_set(b"threads", str(self.threads).encode()))


def choice(name, value, known):
    if value not in known:
        raise ValueError(f"sinter: {name}={value!r}; there are {', '.join(map(repr, known))}")
    return known[value]


def sinter(gm, example_inputs, *, options=None, mode=None):
    """The back end: takes Dynamo's graph, gives a function of the same inputs."""
    chosen = BackendOptions(options, mode)
    report = Report(gm)
    reports[:] = [r for r in reports if r() is not None] + [weakref.ref(report)]
    try:
        compiled = compile_graph(gm, example_inputs, chosen, report)
    except torch._dynamo.exc.RestartAnalysis:  # Dynamo asks itself for another graph
        raise
    except Exception as e:
        if chosen.fallback == "error":
            raise
        log.warning("a graph runs by PyTorch: %s: %s", type(e).__name__, e)
        report.fell_back(e)
        gm.sinter_report = report  # which lives as long as what it is about
        return gm.forward
    return compiled


def compile_graph(gm, example_inputs, options, report):
    def part(kind):
        def compiler(graph, inputs):
            try:
                program = Program(graph, options, kind)
            except torch._dynamo.exc.RestartAnalysis:
                raise
            except Exception as e:
                if options.fallback == "error":
                    raise
                log.warning("a %s graph runs by PyTorch: %s: %s", kind, type(e).__name__, e, exc_info=True)
                report.fell_back(e)
                graph.sinter_report = report
                return by_pytorch(graph)
            report.made.append(weakref.ref(program))
            program.report = report  # which lives as long as one of its programs
            return boxed(program)
        return compiler

    return aot_autograd(fw_compiler=part("forward"), bw_compiler=part("backward"), inference_compiler=part("inference"),
                        partition_fn=min_cut_rematerialization_partition, decompositions=decompositions(),
                        keep_inference_input_mutations=True)(gm, example_inputs)


def boxed(program):
    """As a function: AOTAutograd asks its __dict__ whether it takes one list."""
    def run(args):
        return program(args)

    run._boxed_call = True
    return run


def by_pytorch(graph):
    from functorch.compile import make_boxed_func
    return make_boxed_func(graph.forward)


class Report:
    """What became of one graph of Dynamo's."""

    def __init__(self, gm):
        self.made, self.errors = [], []
        reason = getattr(gm, "compile_subgraph_reason", None)
        self.broken_by = reason if reason is not None and getattr(reason, "graph_break", False) else None

        self.code = None
        for node in gm.graph.nodes:
            frames = FRAME.findall(node.meta.get("stack_trace") or "")
            if frames:
                self.code = (frames[0][0], frames[0][2].split(".")[-1])
                break

    @property
    def programs(self):
        """Those that are alive."""
        return [p for p in (made() for made in self.made) if p is not None]

    def belongs(self, codes):
        """Is it of one of these functions, (file, name) each?"""
        return self.code is None or self.code in codes

    def fell_back(self, error):
        self.errors.append(f"{type(error).__name__}: {error}")
