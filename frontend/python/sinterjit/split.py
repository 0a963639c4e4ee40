"""An FX graph as steps: segments that Sinter takes, and single nodes that stay with PyTorch.

    view(x) mm add | nonzero | gather sum        a node that Sinter lacks ends no more than what needs it:
    segment 0        torch     segment 1         whatever is ready goes into the segment that is being made

Nodes are taken in their order; a segment gets every node that Sinter has and whose sources are there, then PyTorch gets
what is ready and so on. Checks of sizes and then writes of inputs (copy_) come last. Numbers (SymInts) are no nodes:
they are computed from the symbols where a step needs them.
"""
import operator

import torch

from .text import Unsupported, check_node

CHECKS = {torch.ops.aten._assert_scalar.default, torch.ops.aten.sym_constrain_range.default,
          torch.ops.aten.sym_constrain_range_for_size.default}
VIEWS_WITHOUT_ALIAS = {torch.ops.aten._unsafe_view.default}


def is_getitem(node):
    return node.op == "call_function" and node.target is operator.getitem


def is_number(node):
    return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def is_view(node):
    """Its result has the memory of its first argument."""
    target = node.target
    if is_getitem(node):
        return is_view(node.args[0])
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    if target in VIEWS_WITHOUT_ALIAS:
        return True
    returns = target._schema.returns
    return bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write


def is_write(node):
    return node.op == "call_function" and node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"


def is_check(node):
    """Of numbers alone: what must hold of sizes that values have given."""
    return node.op == "call_function" and node.target in CHECKS and not takes_tensor(node)


def source_of_item(node):
    while is_getitem(node):
        node = node.args[0]
    return node


class Step:
    """nodes of one segment (reason None) or one node of PyTorch's, with the reason why ("": a check of numbers)."""

    def __init__(self, nodes, reason=None):
        self.nodes, self.reason = nodes, reason


def reasons_of(graph):
    """node -> why PyTorch keeps it; None: Sinter takes it. Of what computes: no inputs, items, numbers."""
    found = {}
    for node in graph.nodes:
        if node.op != "call_function" or is_getitem(node) or is_check(node) or (is_number(node) and not takes_tensor(node)):
            continue
        if is_number(node) and is_size(node):
            continue
        try:
            if is_number(node):
                raise Unsupported(f"{node.target} reads a value")
            check_node(node)
            if any(not is_getitem(u) and isinstance(node.meta.get("val"), (list, tuple)) for u in node.users):
                raise Unsupported(f"{node.target}: its list is passed on")
            found[node] = None
        except Unsupported as e:
            found[node] = str(e)
    return found


def takes_tensor(node):
    return any(isinstance(s.meta.get("val"), torch.Tensor) for s in node.all_input_nodes)


def is_size(node):
    """A number of symbols alone, which needs no tensor to be known."""
    value = node.meta.get("val")
    return isinstance(value, (int, torch.SymInt)) and node.target in (
        torch.ops.aten.sym_size.int, torch.ops.aten.sym_stride.int, torch.ops.aten.sym_numel.default,
        torch.ops.aten.sym_storage_offset.default)


def split(graph, reasons):
    """The steps, in an order in which they can run."""
    waiting = [n for n in graph.nodes if n in reasons]
    late = [n for n in waiting if is_write(n)]
    waiting = [n for n in waiting if not is_write(n)]
    done, steps = set(), []

    def ready(node, taken):
        return all(s not in reasons or s in done or s in taken for s in needs(node))

    while waiting:
        taken = []
        taken_set = set()
        for node in waiting:
            if reasons[node] is None and ready(node, taken_set):
                taken.append(node)
                taken_set.add(node)
        if taken:
            steps.append(Step(taken))
            done |= taken_set
        rest = [n for n in waiting if n not in taken_set]
        alone = [n for n in rest if reasons[n] is not None and ready(n, ())]
        steps += [Step([n], reasons[n]) for n in alone]
        done |= set(alone)
        waiting = [n for n in rest if n not in done]
        if not taken and not alone:
            raise RuntimeError("the graph has a circle")
    steps += [Step([n], "") for n in graph.nodes if is_check(n)]
    writes = [n for n in late if reasons[n] is None]
    if writes and steps and steps[-1].reason is None:
        steps[-1].nodes += writes
    elif writes:
        steps.append(Step(writes))
    return steps + [Step([n], reasons[n]) for n in late if reasons[n] is not None]


def needs(node):
    """The nodes whose results a node reads, through items and numbers."""
    for source in node.all_input_nodes:
        source = source_of_item(source)
        if is_number(source) and source.op == "call_function":
            yield source
            yield from needs(source)
        else:
            yield source
