#!/usr/bin/env python3
"""Runs the fuzzer's programs in PyTorch and compares with what Sinter's eager gave (what eager and compiled get wrong alike).

    build/bin/fuzz --graphs 3000 --seed 1 --record DIR        (text format: tests/fuzz/program.h, run.c)
    torch_programs.py DIR|FILE.fz [--only KIND,...] [--skip KIND,...] [--show N]

Prints the programs that differ, smallest first, and a total by kind: error, dtype, sizes, none, grad (requires_grad), items, values;
strides and memory (which results share it) count as kinds of their own. Values are compared with a tolerance by the coarsest dtype that the
program holds: gross differences are what matters. Programs that do what is known to differ
(`known`, `refuse_unspecified`, REFUSED, LENIENT, STRICT) are left out and counted.
"""
import argparse, collections, glob, math, os, re, sys, warnings
import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
DT = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
      "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
NAME = {d: n for n, d in DT.items()}
NUMBERED = [None, *DT.values()]  # sn_dtype
TOL = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
OUTER = {"write", "backward"}
# What PyTorch refuses and Sinter does not, by words of PyTorch's message.
REFUSED = ["not implemented for", "does not support bool", "is not supported", "Could not run", "Can't detach views in-place",
           "is not differentiable with respect to", "returns multiple views", "is not currently supported",
           "does not support automatic differentiation for outputs", "tensor does not have a device", "Autograd not support dtype",
           "expected scalar type", "Expected out tensor to have dtype", "create a primitive descriptor", "itensor_view_from_dense",
           "should not be set when is_causal", "is outside the representable range of"]
# Errors that only one of the two raises: PyTorch; Sinter.
LENIENT = ["refer to a single memory location", "Inplace update to inference tensor", "created in inference mode", "is not implemented",
           "Trying to backward through the graph a second time", "a leaf Variable that requires grad is being used"]
STRICT = ["several elements at one place in memory", "has to be resized shares memory", "out forms record none"]


class Unsupported(Exception):
    """PyTorch has no such op or overload, or refuses it in general."""


# Programs --------------------------------------------------------------------------------------------------------------


class Program:
    def __init__(self, text):
        self.inputs, self.steps, self.returns, self.flags = [], [], [], set()
        for line in text.splitlines():
            words = line.split()
            if not words or words[0] == "#":
                continue
            if words[0] == "sizes":
                self.sizes = [int(w) for w in words[1:words.index("/")]]
            elif words[0] == "input":
                self.inputs.append(words[1:])
            elif words[0] == "return":
                self.returns = [int(w[1:]) for w in words[1:]]
            elif words[0] in ("outer_write", "outer_backward"):
                self.flags.add(words[0])
            else:
                self.steps.append(words)

    def integer(self, word):
        head, by, var = word.rpartition("n")
        if not by:
            return int(word)
        return (int(head[:-1]) if head else 1) * self.sizes[int(var)]

    def arg(self, word, values):
        if word == "none":
            return None
        if word[0] == "v":
            return values.get(int(word[1:]))
        if word[0] == "[":
            return [self.integer(w) for w in word[1:-1].split(",") if w]
        if word[0] == "(":
            return [values.get(int(w[1:])) for w in word[1:-1].split(",") if w]
        kind, rest = word.split(":", 1)
        if kind == "i":
            return self.integer(rest)
        if kind == "f":
            number, _, var = rest.partition("*n")
            return float(number) * (self.sizes[int(var)] if var else 1)
        return bool(int(rest)) if kind == "b" else rest


def overload(name):
    packet, _, form = name.removeprefix("aten::").partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), form or "default")
    except AttributeError:
        raise Unsupported(name)


def converted(a, value):
    """An argument as PyTorch's parameter `a` wants it."""
    kind = str(a.type)
    if value is None or isinstance(value, torch.Tensor):
        return value
    if "List[bool]" in kind:
        return [bool(v) for v in value]
    if a.name == "dtype" or a.real_type.str() in ("ScalarType", "ScalarType?"):
        return NUMBERED[value]
    if a.real_type.str() in ("Device", "Device?"):
        return torch.device("cpu")
    if a.real_type.str() in ("Layout", "Layout?"):
        return torch.strided
    if a.real_type.str() in ("MemoryFormat", "MemoryFormat?"):
        return [torch.contiguous_format, torch.preserve_format, torch.channels_last][value]
    return value


# Of these PyTorch's out forms read an argument after they began to write it, where it is the result too.
WRITES_EARLY = set("""addmm baddbmm mm bmm mv matmul linear dot addmv outer softmax log_softmax _softmax _log_softmax sum mean prod amax
amin all any var std var_mean std_mean logsumexp norm argmax argmin embedding gather index_select _softmax_backward_data
_log_softmax_backward_data cumsum cumprod cat stack max min nll_loss nll_loss_forward""".split())


LAYOUTS = set("squeeze unsqueeze t transpose as_strided detach".split())
COMPARISONS = set("eq ne lt le gt ge logical_and logical_or logical_xor logical_not".split())


def known(base, given, inplace):
    """Why a call is known to differ; None: it is not."""
    grad = torch.is_grad_enabled() and any(t.requires_grad for t in tensors(given))
    if base in ("any", "all", "logsumexp") and [] in given:
        return "no dims are all dims"
    if inplace and base in LAYOUTS and not torch.is_grad_enabled():
        return "a layout changed in place while gradients are off"
    if not grad:
        return None
    if base == "floor_divide":
        return "floor_divide gives no gradient instead of an error"
    if base in ("native_layer_norm", "nll_loss_forward"):
        return "results beside the first have gradients"
    if inplace and base in COMPARISONS:
        return "a comparison in place gives no gradient instead of zeros"
    if base == "xlogy" and not isinstance(given[1], torch.Tensor):
        return "no derivative of xlogy by a number"
    if base in ("max", "min") and len(given) > 1 and isinstance(given[1], int):
        return "max.dim shares the gradient of ties"
    return "clamp passes the gradient at its bounds" if base == "clamp" else None


def tensors(values):
    for v in values:
        yield from (tensors(v) if isinstance(v, list) else [v] if isinstance(v, torch.Tensor) else [])


def overlap(a, b):
    return a.numel() and b.numel() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def refuse_unspecified(op, name, given):
    """What PyTorch leaves open: ops that read, element by element or not, memory that they write in another layout."""
    schema = op._schema
    base = schema.name.removeprefix("aten::").rstrip("_")
    outs = sum(a.is_out for a in schema.arguments)
    written = given[len(given) - outs:] if outs else given[:1] if schema.is_mutable else []
    read = list(tensors(given[:len(given) - outs] if outs else given[1:]))
    for w in tensors(written):
        for r in read:
            same = w.data_ptr() == r.data_ptr() and w.shape == r.shape and w.stride() == r.stride() and w.dtype == r.dtype
            if overlap(w, r) and (not same or base in WRITES_EARLY):
                raise Unsupported("memory is read in another layout than written")
    if any(p.name == "alpha" and value == 0 for p, value in zip(schema.arguments, given) if not isinstance(value, torch.Tensor)):
        raise Unsupported("alpha 0 of what is not finite")
    if "softmax" in base and outs and not written[0].is_contiguous():
        raise Unsupported("softmax.out takes its result for contiguous")
    words = known(base, given, schema.name.endswith("_"))
    if words:
        raise Unsupported(words)
    if base == "_unsafe_view":
        raise Unsupported("_unsafe_view: no view to autograd")
    if "softmax_backward_data" in name and given[3] is not None and NUMBERED[given[3]] != given[0].dtype:
        raise Unsupported("softmax_backward_data in another dtype")


def call(name, given):
    op = overload(name)
    refuse_unspecified(op, name, given)
    args, kwargs = [], {}
    params = op._schema.arguments
    outs = sum(p.is_out for p in params)
    if outs and len(given) < outs:
        raise Unsupported(name)
    plain = given[:len(given) - outs]
    wanted = [p for p in params if not p.is_out]
    plain += [None] * sum(not p.has_default_value() for p in wanted[len(plain):])
    for p, value in zip(wanted, plain):
        value = converted(p, value)
        if value is None and "Optional" not in str(p.type) and p.has_default_value():
            value = p.default_value
        if p.kwarg_only:
            kwargs[p.name] = value
        else:
            args.append(value)
    for p, value in zip([p for p in params if p.is_out], given[len(given) - outs:] if outs else []):
        kwargs[p.name] = value
    return op(*args, **kwargs)


# Running ---------------------------------------------------------------------------------------------------------------


def made(line):
    """An input from "f32[2,3]{3,1}+0 = storage's bytes"."""
    m = re.fullmatch(r"(\w+)\[(.*)\]\{(.*)\}\+(\d+) = (\w*)", line)
    dtype, sizes, strides = DT[m[1]], *([int(w) for w in g.split(",") if w] for g in (m[2], m[3]))
    memory = bytearray(bytes.fromhex(m[5]))
    flat = torch.frombuffer(memory, dtype=dtype) if memory else torch.empty(0, dtype=dtype)
    return torch.empty(0, dtype=dtype).set_(flat.clone().untyped_storage(), int(m[4]), sizes, strides)  # no view to autograd


class Mode:
    """sn_grad_mode: one of PyTorch's guards at a time."""

    def __init__(self):
        self.guard = None

    def set(self, mode):
        if self.guard:
            self.guard.__exit__(None, None, None)
        self.guard = [None, torch.no_grad, torch.inference_mode][mode]
        if self.guard:
            self.guard = self.guard()
            self.guard.__enter__()


def tracked(t):
    """Has a history or is a leaf that wants gradients: a view made in no_grad mode says requires_grad too, but has none."""
    try:
        return t.grad_fn is not None or (t.requires_grad and not t._is_view())
    except RuntimeError:  # PyTorch refuses such a view once its base was written
        return False


def telling(sizes, strides):
    """Strides that some element's place depends on; of the others each library has its own."""
    return [s for n, s in zip(sizes, strides) if n > 1] if 0 not in sizes else []


class Run:
    def __init__(self, program, given):
        self.p, self.values, self.story, self.places, self.at = program, {}, [], [], None
        self.dtypes, self.kept = set(), []
        self.inputs = []
        for words in program.inputs:
            i = len(self.inputs)
            if "alias" in words:
                t = torch.ops.aten.alias(self.inputs[int(words[words.index("alias") + 1])])
            else:
                t = made(given[i])
                if "grad" in words:
                    t.requires_grad_()
            self.inputs.append(t)

    def note(self, t):
        if isinstance(t, torch.Tensor):
            self.dtypes.add(t.dtype)

    def op(self, step):
        outs = []
        if step[0] != "=":
            eq = step.index("=")
            outs = [int(w[1:]) for w in " ".join(step[:eq]).replace(",", " ").split()]
            step = step[eq:]
        given = [self.p.arg(w, self.values) for w in step[2:]]
        self.at = step[1]
        got = call(step[1], given)
        got = list(got) if isinstance(got, (list, tuple)) else [got]
        for i, v in enumerate(outs):
            self.values[v] = got[i] if i < len(got) else None
            self.note(self.values[v])
        if "empty" in step[1] and outs and self.values[outs[0]] is not None:
            self.zero_unset(self.values[outs[0]], step[1])

    def zero_unset(self, t, name):
        apart = "empty_strided" in name and ".out" not in name
        span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if apart and t.numel() else 0
        (t.as_strided([span], [1], 0) if span > t.numel() else t).zero_()

    def item(self, t):
        if t is None or t.numel() != 1:
            return
        item = float(t.item())
        self.story.append(("item", 0.125 if math.isnan(item) else item))

    def step(self, step, mode):
        value = self.values.get(int(step[1][1:])) if step[0] in ("item", "backward", "keep") else None
        self.at = step[0]
        if step[0] == "item":
            self.item(value)
        elif step[0] == "backward":
            if value is not None and tracked(value):
                torch.autograd.backward(value)
        elif step[0] == "grad":
            mode.set(int(step[1]))
        elif step[0] == "keep":
            if value is not None and len(self.kept) < 40:
                self.kept.append(value)
        elif step[0] not in ("break", "loop"):
            self.op(step)

    def body(self):
        mode, i, rounds = Mode(), 0, collections.Counter()
        self.values = dict(enumerate(self.inputs))
        try:
            while i < len(self.p.steps):
                step = self.p.steps[i]
                self.step(step, mode)
                i += 1
                if step[0] == "loop":
                    rounds[i] += 1
                    if rounds[i] < int(step[2]):
                        i = int(step[1])
        finally:
            mode.set(0)
        return [self.values.get(v) for v in self.p.returns]

    # What is seen, in the order and words of run.c

    def place(self, t):
        """The first tensor written down whose memory meets this one's, and the distance."""
        if not t.numel():
            return (-1, 0)
        last = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
        here = (t.data_ptr(), t.data_ptr() + last * t.element_size())
        for i, there in enumerate(self.places):
            if here[0] < there[1] and there[0] < here[1]:
                return (i, here[0] - there[0])
        self.places.append(here)
        return (len(self.places) - 1, 0)

    def see(self, what, t, layout=True):
        if t is None:
            self.story.append((what, None))
            return
        self.note(t)
        seen = {"dtype": t.dtype, "sizes": list(t.shape), "grad": tracked(t), "data": t.detach().clone().contiguous()}
        if layout:
            seen["strides"] = telling(t.shape, t.stride())
            seen["memory"] = self.place(t)
        self.story.append((what, seen))

    def guarded(self, where, fn):
        try:
            return fn()
        except Unsupported:
            raise
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as e:
            for words in REFUSED:
                if words in str(e):
                    raise Unsupported(words)
            self.story.append((where + " error", f"{self.at} {str(e).splitlines()[0]}"))
            return None

    def outer(self, out):
        factor = torch.full((), 1.5, requires_grad=True)
        once = [t for i, t in enumerate(out) if t is not None and not any(t is o for o in out[:i])]

        def write():
            for t in once:
                if t.dtype.is_floating_point:
                    t.mul_(factor)

        def backward():
            for t in once:
                if tracked(t):
                    torch.autograd.backward(t, torch.full_like(t, 0.75), retain_graph=True)
        if "outer_write" in self.p.flags:
            self.at = "write"
            self.guarded("write", write)
            for i, t in enumerate(out):
                self.see(f"written {i}", t)
        if "outer_backward" in self.p.flags:
            self.at = "backward"
            self.guarded("backward", backward)
        if "outer_write" in self.p.flags:
            self.see("grad of the factor 0", factor.grad)

    def all(self):
        for t in self.inputs:
            self.note(t)
        out = self.guarded("call", self.body)
        self.at = None
        if out is not None:
            self.places = []
            for t in self.inputs:
                if t.numel():
                    last = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
                    self.places.append((t.data_ptr(), t.data_ptr() + last * t.element_size()))
            for i, t in enumerate(out):
                self.see(f"out {i}", t)
            places = list(self.places)
            for i, t in enumerate(self.kept):
                self.see(f"kept {i}", t)
            self.places = places
            self.outer(out)
        for i, t in enumerate(self.inputs):
            self.see(f"input {i}", t, layout=False)
            if "grad" in self.p.inputs[i]:
                self.see(f"grad {i}", t.grad)
        return self.story


# Sinter's story --------------------------------------------------------------------------------------------------------


def element_bytes(words):
    return b"".join(bytes.fromhex(w)[::-1] for w in words)


def read_line(line):
    if line.startswith("item "):
        return ("item", float.fromhex(line[5:]))
    what, _, rest = line.partition(": ")
    if rest.startswith("error "):
        return (what + " error", rest.split(" ", 2)[2])
    if rest == "none":
        return (what, None)
    head, _, data = rest.partition(" =")
    m = re.fullmatch(r"(\w+)\[(.*?)\]\{(.*?)\} memory (-?\d+)\+(-?\d+)( grad)?( made)?", head)
    dtype, sizes, strides = DT[m[1]], *([int(w) for w in g.split(",") if w] for g in (m[2], m[3]))
    raw = bytearray(element_bytes(data.split()))
    flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    return (what, {"dtype": dtype, "sizes": sizes, "grad": bool(m[6]), "data": flat.reshape(sizes),
                   "strides": telling(sizes, strides), "memory": (int(m[4]), int(m[5]))})


def read_story(text):
    given, story = [], []
    for line in text.splitlines():
        if line.startswith("given "):
            given.append(line.split(": ", 1)[1])
        else:
            story.append(read_line(line))
    return given, story


# Comparing -------------------------------------------------------------------------------------------------------------


def far(a, b, tol):
    """How many elements differ grossly; where one is finite and the other is not, the finite one must be huge."""
    if a.dtype == torch.bool or not a.dtype.is_floating_point:
        if tol == 0:
            return int((a != b).sum())
        a, b = a.double(), b.double()
        return int(((a - b).abs() > 1 + tol * torch.maximum(a.abs(), b.abs())).sum())
    most = torch.finfo(a.dtype).max if a.dtype != torch.bfloat16 else 3.3e38
    a, b = a.double(), b.double()
    finite = a.isfinite() & b.isfinite()
    top = float(torch.where(finite, torch.maximum(a.abs(), b.abs()), 0).max()) if a.numel() else 0.0
    close = (a - b).abs() <= tol * torch.maximum(a.abs(), b.abs()) + tol * (0.01 + min(top, 1e3))
    same = (a == b) | (a.isnan() & b.isnan())
    huge = ~finite & ((a.abs() > most * 0.1) | (b.abs() > most * 0.1)) & ~(a.isnan() & b.isfinite()) & ~(b.isnan() & a.isfinite())
    return int((~(same | (finite & close) | huge)).sum())


def differences(ours, theirs, dtypes):
    """Pairs of kind and text, for two stories."""
    tol = max((TOL[d] for d in dtypes if d in TOL), default=0)
    items = [[s[1] for s in story if s[0] == "item"] for story in (ours, theirs)]
    a, b = [s for s in ours if s[0] != "item"], [s for s in theirs if s[0] != "item"]
    errors = [[(s[0], s[1]) for s in story if s[0].endswith(" error")] for story in (a, b)]
    if [e[0] for e in errors[0]] != [e[0] for e in errors[1]]:
        for words in LENIENT + STRICT:
            mine, other = errors if words in STRICT else errors[::-1]
            if mine and words in mine[0][1] and not other:
                raise Unsupported(words)
        yield "error", f"{errors[0]} | {errors[1]}"
        return
    n = min(len(items[0]), len(items[1]))
    if not errors[0] and len(items[0]) != len(items[1]):
        yield "items", f"{items[0]} | {items[1]}"
    for x, y in zip(items[0][:n], items[1][:n]):
        if x != y and math.isfinite(x) and math.isfinite(y) and abs(x - y) > tol * (1 + max(abs(x), abs(y))):
            yield "items", f"{x} | {y}"
    if any("backward" in op_of(e[1]) for e in errors[1]):  # a failing backward accumulates nothing
        a, b = ([s for s in story if not s[0].startswith("grad")] for story in (a, b))
    if any("ZeroDivision" in e[1] for e in errors[1]):  # PyTorch has written some elements, Sinter none
        return
    mine = dict(s for s in a if not s[0].endswith(" error"))
    for what, y in (s for s in b if not s[0].endswith(" error")):
        x = mine.get(what)
        if (x is None) != (y is None):
            yield "none", f"{what}: {x and shown(x)} | {y and shown(y)}"
        if x is None or y is None:
            continue
        for key in ("dtype", "sizes", "grad", "strides", "memory"):
            if key in y and x[key] != y[key]:
                yield key, f"{what}: {key} {x[key]} | {y[key]}"
        if x["sizes"] == y["sizes"] and x["dtype"] == y["dtype"]:
            count = far(x["data"], y["data"], tol)
            if count:
                yield "values", f"{what}: {count} of {x['data'].numel()}\n    sinter {shown(x)}\n    torch  {shown(y)}"
    if errors[0] and [op_of(e[1]) for e in errors[0]] != [op_of(e[1]) for e in errors[1]]:
        yield "other error", f"{errors[0]} | {errors[1]}"


def op_of(message):
    op = re.split(r"[ .]", message)[0].removeprefix("aten::").rstrip("_")
    return "backward" if op == "sn_backward" or op.endswith("Backward") else "mul" if op == "write" else op


def shown(seen):
    return f"{NAME[seen['dtype']]}{seen['sizes']} " + " ".join(f"{v:g}" for v in seen["data"].flatten()[:24].tolist())


# Main ------------------------------------------------------------------------------------------------------------------


def compare(path):
    """(kinds and texts, program text) of one recorded program."""
    text = open(path).read()
    program = Program(text)
    given, ours = read_story(open(path[:-3] + ".txt").read())
    run = Run(program, given)
    return list(differences(ours, run.all(), run.dtypes)), text


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir")
    ap.add_argument("--only", default="")
    ap.add_argument("--skip", default="")
    ap.add_argument("--show", type=int, default=20)
    a = ap.parse_args()
    paths = [a.dir] if a.dir.endswith(".fz") else sorted(glob.glob(os.path.join(a.dir, "*.fz")))
    kinds, missing, found, same = collections.Counter(), collections.Counter(), [], 0
    for path in paths:
        try:
            diffs, text = compare(path)
        except Unsupported as e:
            missing[str(e)] += 1
            continue
        kinds.update({k for k, _ in diffs})
        if not diffs:
            same += 1
        wanted = [d for d in diffs if (not a.only or d[0] in a.only.split(",")) and d[0] not in a.skip.split(",")]
        if wanted:
            found.append((len(text), text, diffs))
    for _, text, diffs in sorted(found, key=lambda f: f[0])[:a.show]:
        print(text + "".join(f"  {kind}: {what}\n" for kind, what in diffs[:6]))
    print(f"{len(paths)} programs: {same} same, {sum(missing.values())} with what PyTorch has not, by kind {dict(kinds)}")
    print("PyTorch has not:", dict(missing.most_common(30)))


if __name__ == "__main__":
    main()
