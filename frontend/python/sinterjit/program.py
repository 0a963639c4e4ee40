"""A compiled FX graph: its steps, and what runs them.

`Program(gm, options)` is what AOTAutograd gets back: called with one list, which it empties, so that inputs die early.
Values live in a list of registers, one for each FX node; `frees` says after which step one is dropped.
"""
import collections
import logging

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from . import rows
from . import split as splitter
from .library import REPLAY, VERIFY, SinterError, lib
from .segment import Segment, parse
from .text import Writer, found_symbols, runs_alone

log = logging.getLogger("sinterjit")
LEAST = -(1 << 40)  # of an int that may be anything
MATH = {"math": __import__("math"), "min": min, "max": max, "abs": abs}


# Numbers ------------------------------------------------------------------------------------------------------------


class Symbols:
    """Where the graph's symbols get their values: from a register that is the number, or a size of a tensor."""

    def __init__(self, shape_env):
        self.shape_env, self.sources, self.codes = shape_env, {}, {}

    def learn(self, register, value):
        """What a register's value says of symbols: rules for `bind`."""
        rules = []
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            rules.append((value.node.expr, register, None, None))
        elif isinstance(value, torch.Tensor):
            for how, numbers in (("shape", value.shape), ("stride", value.stride())):
                rules += [(n.node.expr, register, how, d) for d, n in enumerate(numbers)
                          if isinstance(n, torch.SymInt) and isinstance(n.node.expr, sympy.Symbol)]
        kept = []
        for rule in rules:
            if rule[0] not in self.sources:
                self.sources[rule[0]] = register
                kept.append((str(rule[0]), *rule[1:]))
        return kept

    def hint_and_low(self, s):
        env, hint, low = self.shape_env, 2, 2
        if env is not None:
            known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
            hint = int(known.get(s, 2))
            bounds = env.var_to_range.get(s)
            if bounds is not None:
                low = int(bounds.lower) if isinstance(bounds.lower, (int, sympy.Integer)) else LEAST
            hint = max(hint, low)
        return hint, low

    def evaluate(self, value, values):
        """An int, or a SymInt of known symbols, as it is in this call."""
        if not isinstance(value, torch.SymInt):
            return value
        expr = value.node.expr
        code = self.codes.get(expr)
        if code is None:
            code = self.codes[expr] = compile(PythonPrinter().doprint(expr), "<size>", "eval")
        return int(eval(code, MATH, values))


def bind(rules, registers, values):
    for name, register, how, dim in rules:
        value = registers[register]
        values[name] = value if how is None else getattr(value, how)[dim] if how == "shape" else value.stride()[dim]


# Steps --------------------------------------------------------------------------------------------------------------


class SegmentStep:
    def __init__(self, program, nodes, name):
        self.program, self.nodes = program, nodes
        self.outputs, self.aliases, self.frees, self.rules = [], [], [], []
        self.inside = set()
        for n in nodes:
            self.inside.add(n)
        self.name = name

    def holds(self, node):
        return splitter.source_of_item(node) in self.inside

    def finish(self):
        """Inputs, and the segment itself; SyntaxError-like parse errors name a node (`Refused`)."""
        self.inputs = []
        seen = set()
        for n in self.nodes:
            for s in n.all_input_nodes:
                if not self.holds(s) and isinstance(s.meta.get("val"), torch.Tensor) and s not in seen:
                    seen.add(s)
                    self.inputs.append(s)
        text, self.writer, symbols = self.write(None)
        try:
            graph = parse(text)
        except SinterError as e:
            raise Refused(self.node_of_error(str(e)), str(e)) from None
        lib().sn_graph_free(graph)
        metas = [(m.dtype, m.shape, m.stride()) for m in (n.meta["val"] for n in self.inputs)]
        self.segment = Segment(lambda tensors: self.write(tensors)[0], metas, symbols, self.outputs, self.name,
                               self.program.options, VERIFY if any(map(runs_alone, self.nodes)) else REPLAY)
        self.number_of = {n: i for i, n in enumerate(self.inputs)}
        self.in_registers = [self.program.register[n] for n in self.inputs]
        self.out_registers = [self.program.register[n] for n in self.outputs]
        self.ints = [str(s) for s in symbols]
        self.text = text

    def write(self, tensors):
        writer = Writer(self.program.symbols.hint_and_low)
        header = []
        for i, n in enumerate(self.inputs):
            meta = tensors[i] if tensors else n.meta["val"]
            name = writer.names[n] = f"{n.name}"
            sizes = [writer.expression(s) for s in meta.shape]
            header.append((name, sizes, writer.type_text(meta.dtype, meta.shape, meta.stride())))
        for n in self.nodes:
            writer.line(n)
        text, symbols = writer.text(header, self.outputs, self.name)
        return text, writer, symbols

    def node_of_error(self, message):
        words = message.split()
        if words[:1] == ["line"]:
            line = int(words[1].rstrip(",:"))
            if 2 <= line < 2 + len(self.nodes):
                return self.nodes[line - 2]
        return None

    def run(self, registers, values, program):
        tensors = [registers[r] for r in self.in_registers]
        ints = [values[name] for name in self.ints]
        try:
            results = self.segment.call(tensors, ints)
        except SinterError as e:
            return self.run_eagerly(registers, values, program, e)
        for r, result in zip(self.out_registers, results):
            registers[r] = result

    def run_eagerly(self, registers, values, program, error):
        """The nodes by PyTorch: an error of the call is then PyTorch's own."""
        if program.options.fallback == "error":
            raise error
        program.failed(self, error)
        own = list(registers)
        for n in self.nodes:
            run_node(n, own, values, program)
        for r in self.out_registers:
            registers[r] = own[r]


class Refused(Exception):
    """The library does not take a node."""

    def __init__(self, node, message):
        super().__init__(message)
        self.node = node


def run_node(node, registers, values, program):
    """One FX node by PyTorch, its items too."""
    def read(n):
        value = n.meta.get("val")
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool) and registers[program.register[n]] is None:
            return program.symbols.evaluate(value, values)
        if registers[program.register[n]] is None and n.op == "call_function":
            if splitter.is_getitem(n) or splitter.is_number(n):
                run_node(n, registers, values, program)
        return registers[program.register[n]]

    args = torch.fx.node.map_arg(node.args, read)
    kwargs = torch.fx.node.map_arg(node.kwargs, read)
    registers[program.register[node]] = node.target(*args, **kwargs)
    for user in node.users:
        if splitter.is_getitem(user):
            run_node(user, registers, values, program)


class TorchStep:
    def __init__(self, node, reason):
        self.node, self.reason, self.frees, self.rules = node, reason, [], []

    def run(self, registers, values, program):
        run_node(self.node, registers, values, program)


# Programs -----------------------------------------------------------------------------------------------------------


class Program:
    def __init__(self, gm, options, kind):
        self.gm, self.options, self.kind = gm, options, kind
        self.nodes = list(gm.graph.nodes)
        self.register = {n: i for i, n in enumerate(self.nodes)}
        context = torch._guards.TracingContext.try_get()
        self.symbols = Symbols(context.fake_mode.shape_env if context and context.fake_mode else None)
        self.problems = []
        self.placeholders = [n for n in self.nodes if n.op == "placeholder"]
        self.output = next(n for n in self.nodes if n.op == "output")
        self.reasons = splitter.reasons_of(gm.graph)
        self.constants = [(self.register[n], self._attribute(n.target)) for n in self.nodes if n.op == "get_attr"]
        self._build()
        self.random = any(getattr(rows.find(n.target), "random", False) for s in self.steps if isinstance(s, SegmentStep)
                          for n in s.nodes)

    def _attribute(self, target):
        value = self.gm
        for part in target.split("."):
            value = getattr(value, part)
        return value

    def _build(self):
        while True:
            try:
                self._build_once()
                return
            except Refused as e:
                if e.node is None or self.reasons.get(e.node) is not None:
                    raise SinterError(str(e)) from None
                self.reasons[e.node] = str(e)

    def _build_once(self):
        """Steps from reasons; a node that the library refuses is `Refused`."""
        self.symbols.sources.clear()
        self.steps, self.rules = [], []
        for n in self.placeholders:
            self.rules += self.symbols.learn(self.register[n], n.meta.get("val"))
        for part in splitter.split(self.gm.graph, self.reasons):
            if part.reason is not None:
                step = TorchStep(part.nodes[0], part.reason)
                self.steps.append(step)
                for n in part.nodes + [u for u in part.nodes[0].users if splitter.is_getitem(u)]:
                    for value in (n.meta.get("val"),) if not isinstance(n.meta.get("val"), (tuple, list)) else ():
                        step.rules += self.symbols.learn(self.register[n], value)
            else:
                step = SegmentStep(self, part.nodes, f"{self.kind}{len(self.steps)}")
                self.steps.append(step)
                for n in filter(found_symbols, part.nodes):
                    step.rules += self.symbols.learn(self.register[n], n.meta["val"])
        self._connect()
        for step in list(self.steps):
            if isinstance(step, SegmentStep):
                step.finish()
        self._plan_frees()

    def _wanted(self):
        """Nodes whose values steps of PyTorch and the caller read; with the steps that read them."""
        readers = {}
        for step in self.steps:
            if isinstance(step, TorchStep):
                self._want(step.node, step, readers)
            else:
                for n in step.nodes:
                    for s in n.all_input_nodes:
                        if not step.holds(s) and isinstance(s.meta.get("val"), torch.Tensor):
                            readers.setdefault(s, []).append(step)
        self._want(self.output, None, readers)
        return readers

    def _want(self, node, step, readers):
        for s in node.all_input_nodes:
            if splitter.is_number(s) and s.op == "call_function" and s not in self.reasons:
                if not isinstance(s.meta["val"], (int, torch.SymInt)):
                    self._want(s, step, readers)
                continue
            readers.setdefault(s, []).append(step)

    def _connect(self):
        """Results of each segment; those that are views of what comes from outside are made by PyTorch."""
        readers = self._wanted()
        steps = []
        for step in self.steps:
            steps.append(step)
            if not isinstance(step, SegmentStep):
                continue
            made = [n for n in self.nodes if n in readers and step.holds(n)
                    and any(r is not step for r in readers[n]) and isinstance(n.meta.get("val"), torch.Tensor)
                    or step.holds(n) and found_symbols(n)]  # whose sizes tell the program what the symbols are
            outside = [n for n in made if self._views_outside(n, step)]
            step.outputs = [n for n in made if n not in set(outside)]
            chain = []
            for n in outside:
                for v in self._chain(n, step):
                    if v not in chain:
                        chain.append(v)
            chain.sort(key=self.register.get)
            needless = not step.outputs and not any(splitter.is_write(n) for n in step.nodes)
            if needless:
                steps.pop()
            view_steps = [TorchStep(v, None) for v in chain if not splitter.is_getitem(v)]
            for v in view_steps:
                v.view = True
            steps += view_steps
        self.steps = steps

    def _views_outside(self, node, step):
        while step.holds(node):
            if not splitter.is_view(node):
                return False
            node = node.args[0]
        return True

    def _chain(self, node, step):
        found = []
        while step.holds(node):
            found.append(node)
            node = node.args[0]
        return reversed(found)

    def _plan_frees(self):
        """After which step no one reads a register; inputs of the graph among them."""
        last = {}
        for i, step in enumerate(self.steps):
            nodes = step.inputs + step.outputs if isinstance(step, SegmentStep) else [step.node, *needed_by(step.node)]
            for n in nodes:
                last[n] = i
                for u in n.users:
                    if splitter.is_getitem(u):
                        last[u] = max(last.get(u, i), i)
        kept = set(needed_by(self.output))
        for n, i in last.items():
            if n not in kept and n.op != "get_attr":
                self.steps[i].frees.append(self.register[n])

    def failed(self, step, error):
        text = f"{step.name}: {error}"
        if text not in self.problems and len(self.problems) < 100:
            self.problems.append(text)
            log.warning("a segment ran by PyTorch: %s", text)

    def counts(self):
        """nodes: what computes, in Sinter or not; and what its segments say of themselves."""
        total = collections.Counter(nodes=len(self.reasons), sinter=sum(r is None for r in self.reasons.values()))
        for step in self.steps:
            if isinstance(step, SegmentStep):
                total["segments"] += 1
                total.update(step.segment.stats())
        return total

    def __call__(self, args):
        registers = [None] * len(self.nodes)
        registers[:len(args)] = args
        args.clear()
        for r, value in self.constants:
            registers[r] = value
        values = {}
        bind(self.rules, registers, values)
        if self.options.threads is not None:
            self.options.apply()
        if self.random:
            lib().sn_seed(int(torch.empty((), dtype=torch.int64).random_(-(1 << 63), None)) & ((1 << 64) - 1))
        for step in self.steps:
            step.run(registers, values, self)
            if step.rules:
                bind(step.rules, registers, values)
            for r in step.frees:
                registers[r] = None
        return self.results(registers, values)

    def results(self, registers, values):
        out = []
        for item in self.output.args[0]:
            if isinstance(item, torch.fx.Node):
                value = registers[self.register[item]]
                if value is None and splitter.is_number(item):
                    value = self.symbols.evaluate(item.meta["val"], values)
                out.append(value)
            else:
                out.append(item)
        return out


def needed_by(node):
    """Nodes whose registers running `node` reads, through numbers that are computed on the way."""
    for s in node.all_input_nodes:
        yield s
        if splitter.is_number(s) or splitter.is_getitem(s):
            yield from needed_by(s)
