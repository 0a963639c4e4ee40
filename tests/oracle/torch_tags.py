"""torch_tags.py LIST DEF: the overloads that PyTorch tags `core` and `pointwise` (torch.Tag, of every op that the
dispatcher of the installed PyTorch has). LIST has one a line, for unit.test_accept_inspect; DEF has the same for the
library. Nobody edits either:

    python3 torch_tags.py tests/oracle/aten_tags.txt ir/aten_tags.def
"""
import pathlib
import sys

import torch

TAGS = {"core": torch.Tag.core, "pointwise": torch.Tag.pointwise}


def tagged():
    """{"abs": ["core", "pointwise"], "clamp.Tensor": ...}"""
    found = {}
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        name = full.removeprefix("aten::")
        base, _, overload = name.partition(".")
        if name == full or not hasattr(torch.ops.aten, base):
            continue
        op = getattr(getattr(torch.ops.aten, base), overload or "default", None)
        tags = [tag for tag, mark in TAGS.items() if op is not None and mark in op.tags]
        if tags:
            found[name] = tags
    return found


def rows(macro, names):
    """Macro calls in lines of at most 120 columns."""
    lines = [""]
    for name in names:
        call = f'{macro}("{name}")'
        if lines[-1] and len(lines[-1]) + 1 + len(call) > 120:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + call
    return lines


found = tagged()
version = torch.__version__.partition("+")[0]
counts = {tag: sum(tag in tags for tags in found.values()) for tag in TAGS}
head = [f"# Tags of ATen's overloads: torch {version}, torch.Tag.core ({counts['core']}) and torch.Tag.pointwise "
        f"({counts['pointwise']}), by torch_tags.py."]
pathlib.Path(sys.argv[1]).write_text("\n".join(head + [" ".join([f"aten::{n}", *t]) for n, t in found.items()]) + "\n")
text = [f"/* aten_tags.def: the overloads that PyTorch {version} tags core ({counts['core']} of them) and pointwise "
        f"({counts['pointwise']}), as", " * tests/oracle/torch_tags.py recorded them: CORE(name) and POINTWISE(name), the "
        "name as op_find takes it. The list is", " * PyTorch's whole: ops that the table does not have are in it. */"]
for tag in TAGS:
    text += ["/* " + tag + " */", *rows(tag.upper(), [n for n, t in found.items() if tag in t])]
pathlib.Path(sys.argv[2]).write_text("\n".join(text) + "\n")
