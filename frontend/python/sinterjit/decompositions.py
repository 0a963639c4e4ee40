"""Which of PyTorch's decompositions are used: those of ops that Sinter has no row for."""
import functools

import torch

from . import rows
from .text import synonym

# Decompositions that give what Sinter lacks, too, or that lose the op's bits for nothing.
NOT_USED = set()


@functools.cache
def decompositions():
    from torch._decomp import core_aten_decompositions
    found = {}
    for op, rule in core_aten_decompositions().items():
        if isinstance(op, torch._ops.OpOverload) and rows.find(op) is None and synonym(op) is None and op not in NOT_USED:
            found[op] = rule
    return found
