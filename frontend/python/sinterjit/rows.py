"""The library's op table: which ATen overloads have a row, with what arguments."""
import collections
import functools
import json
import re

from .library import Scope, lib

Argument = collections.namedtuple("Argument", "name type keyword")


def _split(text):
    """At commas that no bracket holds."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in parts + [text[start:]] if p.strip()]


class Row:
    """One op: name "aten::add.Tensor", its arguments, how many results (-1: a list), whether it draws numbers."""

    def __init__(self, entry):
        self.name, self.inplace = entry["name"], entry["inplace"]
        op = lib().sn_op_find(self.name.encode())
        tags = lib().sn_op_tags(op).decode() if op else ""
        self.random, self.reads_values, self.internal = "random" in tags, "reads_values" in tags, not op
        body, results = entry["schema"].split("(", 1)[1].rsplit(" -> ", 1)
        self.arguments, keyword = [], False
        for part in _split(body.rsplit(")", 1)[0]):
            if part == "*":
                keyword = True
                continue
            kind, name = part.split("=")[0].rsplit(" ", 1)
            self.arguments.append(Argument(name, re.sub(r"\([a-z]!?( -> \*)?\)", "", kind), keyword))
        self.by_name = {a.name: a for a in self.arguments}
        results = re.sub(r"\([a-z]!?\)", "", results)
        self.n_results = -1 if results.endswith("[]") else len(_split(results.strip("()"))) if results != "()" else 0
        self.numeric = results in ("Scalar", "SymInt", "int", "float", "bool")


@functools.cache
def table():
    """By name, an overload without a name as PyTorch writes it: "aten::mm"."""
    with Scope():
        rows = {entry["name"]: Row(entry) for entry in json.loads(lib().sn_op_list())}
        lib().sn_error_take()  # of rows that only the library's own graphs have
    return rows


def finds_sizes(target):
    """Do values decide the sizes of its results, as PyTorch says of nonzero and x[mask]?"""
    return any(tag.name == "dynamic_output_shape" for tag in target.tags)


def find(target):
    """The row of a torch.ops overload, or None."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return None
    overload = "." + schema.overload_name if schema.overload_name else ""
    row = table().get(schema.name + overload)
    return None if row is None or row.internal or row.numeric or (row.reads_values and not finds_sizes(target)) else row
