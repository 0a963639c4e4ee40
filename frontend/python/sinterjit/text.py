"""FX nodes as lines of a text graph.

A `Writer` makes the text of one segment: `%name` for each tensor, `s0`, `s1`... for its symbols, `at='file:line'` for
the user's line. What has no text raises `Unsupported`, whose words become the node's reason in `explain`.
"""
import functools
import re

import sympy
import torch
from torch.utils._sympy import functions as sf

from . import rows

DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
          torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
MEMORY_FORMATS = {torch.contiguous_format: "contiguous_format", torch.preserve_format: "preserve_format",
                  torch.channels_last: "channels_last", torch.channels_last_3d: "channels_last_3d"}
# What Sinter says in other words, where it has no row of that name: op, and keyword names by position.
SYNONYMS = {"aten::lift_fresh_copy": ("aten::clone", ("self",)),
            "prims::convert_element_type": ("aten::_to_copy", ("self", "dtype"))}


class Unsupported(Exception):
    pass


# Symbols ------------------------------------------------------------------------------------------------------------


def _pairs(name, args, write):
    text = write(args[0])
    for other in args[1:]:
        text = f"{name}({text},{write(other)})"
    return text


def write_expression(e, name_of):
    """A sympy expression of ints as Sinter writes it; name_of gives a symbol's name."""

    def write(e):
        if isinstance(e, (int, sympy.Integer)):
            return str(int(e))
        if isinstance(e, sympy.Symbol):
            return name_of(e)
        if isinstance(e, sympy.Add):
            return "(" + "+".join(write(a) for a in e.args) + ")"
        if isinstance(e, sympy.Mul):
            return "(" + "*".join(write(a) for a in e.args) + ")"
        if isinstance(e, sympy.Pow) and e.exp.is_Integer and 0 < e.exp <= 8:
            return "(" + "*".join([write(e.base)] * int(e.exp)) + ")"
        if isinstance(e, (sf.FloorDiv, sf.CleanDiv)):
            return f"({write(e.args[0])}//{write(e.args[1])})"
        if isinstance(e, (sf.Mod, sf.PythonMod)):
            return f"({write(e.args[0])}%{write(e.args[1])})"
        if isinstance(e, sf.ModularIndexing):
            return f"(({write(e.args[0])}//{write(e.args[1])})%{write(e.args[2])})"
        if isinstance(e, sf.CeilDiv):
            return f"(-((-{write(e.args[0])})//{write(e.args[1])}))"
        if isinstance(e, (sf.Max, sympy.Max)):
            return _pairs("max", e.args, write)
        if isinstance(e, (sf.Min, sympy.Min)):
            return _pairs("min", e.args, write)
        if isinstance(e, sf.Identity):
            return write(e.args[0])
        raise Unsupported(f"the size {e}")

    return write(e)


def expression(value):
    """An int as it is, a SymInt as sympy has it."""
    return value.node.expr if isinstance(value, torch.SymInt) else int(value)


def free_symbols(value):
    return value.node.expr.free_symbols if isinstance(value, torch.SymInt) else ()


# Places -------------------------------------------------------------------------------------------------------------

FRAME = re.compile(r'File "([^"]*)", line (\d+), in (\S+)')
LIBRARIES = ("/torch/", "/site-packages/", "<eval_with_key>", "<frozen")


@functools.lru_cache(maxsize=4096)
def _place_of(trace):
    frames = FRAME.findall(trace)
    own = [f for f in frames if not any(part in f[0] for part in LIBRARIES)]
    return (own or frames or [("", "", "")])[-1]


def place(node):
    """file, line and function of the user's call that a node comes from; ("", "", "") where nobody knows."""
    return _place_of(node.meta.get("stack_trace") or "")


def place_text(node):
    file, line, function = place(node)
    return f"{file}:{line}" if file else ""


# Lines --------------------------------------------------------------------------------------------------------------


def values_of(node):
    """The tensors that a node gives: a list, with None for what is absent."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def found_symbols(node):
    """Symbols of sizes that the values of this call give (nonzero, an index by masks)."""
    if not node.meta.get("unbacked_bindings") or not rows.finds_sizes(node.target):
        return []
    known = {s for source in node.all_input_nodes for value in values_of(source) if isinstance(value, torch.Tensor)
             for size in value.shape for s in free_symbols(size)}
    sizes = [expression(n) for value in values_of(node) if isinstance(value, torch.Tensor) for n in value.shape]
    return [e for e in dict.fromkeys(sizes) if isinstance(e, sympy.Symbol) and e not in known]


def runs_alone(node):
    """Does the library run it between two compiled parts, because it reads values or takes memory as another dtype?"""
    if node.target is torch.ops.aten.view.dtype or found_symbols(node):
        return True
    masks = node.target in (torch.ops.aten.index_put.default, torch.ops.aten._unsafe_index_put.default)
    return masks and any(i is not None and i.meta["val"].dtype in (torch.bool, torch.uint8) for i in node.args[1])


def check_tensor(value):
    if not isinstance(value, torch.Tensor):
        return
    if value.layout != torch.strided:
        raise Unsupported(f"a tensor of layout {value.layout}")
    if value.device.type != "cpu":
        raise Unsupported(f"a tensor on {value.device.type}")
    if value.dtype not in DTYPES:
        raise Unsupported(f"the dtype {str(value.dtype).removeprefix('torch.')}")


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


class Writer:
    """Text of one segment in the making. names: of FX nodes (and result numbers) here."""

    def __init__(self, hints):
        self.hints, self.symbols, self.names, self.lines, self.nodes = hints, {}, {}, [], []
        self.found = {}  # symbols of sizes that values give: the library numbers them behind the others, `text` knows

    def symbol(self, s):
        return self.found.get(s) or self.symbols.setdefault(s, f"s{len(self.symbols)}")

    def expression(self, value):
        return write_expression(expression(value), self.symbol)

    def number(self, value):
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, (int, torch.SymInt)):
            return self.expression(value)
        if isinstance(value, float):
            text = repr(value)
            return text if any(c in text for c in ".einf") else text + ".0"
        raise Unsupported(f"an argument of type {type(value).__name__}")

    def argument(self, value, param):
        if isinstance(value, torch.fx.Node):
            inner = value.meta.get("val")
            if isinstance(inner, torch.Tensor):
                return "%" + self.names[value]
            value = inner
        if value is None:
            return "None"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.argument(v, param) for v in value) + "]"
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, torch.dtype):
            if value not in DTYPES:
                raise Unsupported(f"the dtype {value}")
            return DTYPES[value]
        if isinstance(value, torch.memory_format):
            return MEMORY_FORMATS[value]
        if isinstance(value, torch.layout):
            if value != torch.strided:
                raise Unsupported(f"the layout {value}")
            return "strided"
        if isinstance(value, torch.device):
            if value.type != "cpu":
                raise Unsupported(f"the device {value}")
            return "cpu"
        if param.type.startswith("bool") and isinstance(value, int):
            return str(bool(value))
        return self.number(value)

    def call(self, node):
        """"aten::add.Tensor(%a, %b, alpha=2)" of a node that `plan_call` accepted."""
        name, given = plan_call(node)
        parts = []
        for param, value, by_name in given:
            text = self.argument(value, param)
            parts.append(f"{param.name}={text}" if by_name else text)
        return f"{name}({', '.join(parts)})"

    def line(self, node):
        call = self.call(node)
        results = self.result_names(node)
        at = place_text(node)
        self.lines.append(f"  {', '.join('%' + r for r in results)} = {call}" + (f" at={quoted(at)}" if at else ""))
        self.nodes.append(node)
        for s in found_symbols(node):
            self.found[s] = f"s?{len(self.found)}?"

    def result_names(self, node):
        value = node.meta.get("val")
        if not isinstance(value, (list, tuple)):
            self.names[node] = node.name
            return [node.name]
        names = [f"{node.name}_r{i}" for i in range(len(value))]
        for user in node.users:  # all are getitem
            self.names[user] = names[user.args[1]]
        return names

    def type_text(self, dtype, sizes, strides):
        sizes, strides = [self.expression(s) for s in sizes], [self.expression(s) for s in strides]
        text = f"{DTYPES[dtype]}[{','.join(sizes)}]"
        return text + "{" + ",".join(strides) + "}" if strides else text

    def text(self, inputs, outputs, name):
        """inputs: texts of their types by name; symbols that no size is alone are ints in front of them."""
        alone = {size for _, sizes, _ in inputs for size in sizes}
        ints = [(s, n) for s, n in self.symbols.items() if n not in alone]
        symbols = ", ".join(f"{n}={self.hints(s)[0]}>={self.hints(s)[1]}" for s, n in self.symbols.items())
        header = [f"{n}: int" for _, n in ints] + [f"%{n}: {t}" for n, _, t in inputs]
        lines = [f"graph {name}" + (f"[{symbols}]" if symbols else "") + f"({', '.join(header)}) {{"]
        lines += self.lines
        if outputs:
            lines.append("  return " + ", ".join("%" + self.names[n] for n in outputs))
        text = "\n".join(lines) + "\n}\n"
        for i, name in enumerate(self.found.values()):
            text = text.replace(name, f"s{len(self.symbols) + i}")
        return text, [s for s, _ in ints]


def synonym(target):
    schema = target._schema
    name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
    return SYNONYMS.get(name)


def row_of(node):
    """Row and, for a synonym, the names of its positional arguments."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        raise Unsupported(f"{getattr(target, '__name__', target)} is no ATen op")
    row = rows.find(target)
    if row:
        return row, row.name, None
    other = synonym(target)
    if other:
        return rows.table()[other[0]], other[0], other[1]
    if target is torch.ops.aten.copy_.default:
        return rows.table()["aten::copy"], "aten::copy_", None
    raise Unsupported(f"{target} has no row")


def plan_call(node):
    """The op's name here, and (parameter, value, by name?) of each argument; Unsupported where one has no place."""
    row, name, positions = row_of(node)
    schema = node.target._schema
    given = []
    for i, value in enumerate(node.args):
        own = positions[i] if positions else schema.arguments[i].name
        given.append((own, value, schema.arguments[i]))
    by_name = {a.name: a for a in schema.arguments}
    given += [(k, v, by_name[k]) for k, v in node.kwargs.items()]
    planned, in_order = [], True
    for i, (own, value, theirs) in enumerate(given):
        param = row.by_name.get(own)
        if param is None:
            if own in ("pin_memory", "non_blocking", "generator") and not value:
                continue
            if theirs.has_default_value() and theirs.default_value == value:
                continue
            raise Unsupported(f"{node.target}: no argument {own}")
        in_order = in_order and i < len(row.arguments) and row.arguments[i].name == own and not param.keyword
        planned.append((param, value, not in_order))
    return name, planned


def check_node(node):
    """Unsupported where Sinter can't take this node; what only the library knows shows when the text is parsed."""
    plan_call(node)
    if node.meta.get("unbacked_bindings") and not rows.finds_sizes(node.target):
        raise Unsupported(f"{node.target}: a value of its arguments decides the sizes of its results")
    for value in values_of(node):
        check_tensor(value)
    for source in node.all_input_nodes:
        for value in values_of(source):
            check_tensor(value)
            if isinstance(value, (torch.SymFloat, torch.SymBool)):
                raise Unsupported("a number that is no int")
