#!/usr/bin/env python3
"""Picks a small set of cases (format: cases.md) for the tests that run without PyTorch.

usage: subset.py --sinter build/bin/sinter --out tests/oracle/subset.safetensors DIR/*.safetensors

Of every overload that the tool supports: for each dtype the smallest case that has elements; for each of what else a case can
have (gradients, an input that is not contiguous, no elements, an expected error, a mutated input) the smallest one. An op's own
samples go before calls that another op made ("below"); a case of more than MOST bytes is left out. Equal tensors are kept once.
Needs only Python.

With --layouts the files are of torch_cases.py --layouts, and the smallest case of each of some layouts is picked,
one with gradients where there is one. layouts.safetensors is such a set, of --dtypes f32 --max 4, of the ops with gradients, and
of what stood there before.

With --edges the files are of torch_edges.py, and of every row the smallest case of each kind is picked: by what its note begins
with (special values, mixed dtypes, shapes), the dtypes of its tensors, and whether it is an error or has gradients.

With --note NOTE (more than once) the cases of these notes instead; with --exactly NOTE such cases, whose results must then
be met to the last bit. off_reference.safetensors is
    --note "add f16 sample 10" --note "log_softmax bf16 sample 2" --note "log_softmax f16 sample 2" --note "matmul f32 sample 13"
    --note "native_layer_norm f32 sample 8" --exactly "exp f32 sample 0"
"""
import argparse, json, struct, subprocess

MOST, MOST_EDGE = 100_000, 6_000
LAYOUTS = {"images", "transposed", "channels_last", "cut"}
WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def read(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    cases = json.loads(header.pop("__metadata__")["cases"])
    return cases, {name: (t["dtype"], data[t["data_offsets"][0] : t["data_offsets"][1]]) for name, t in header.items()}


def tensors_of(value):
    if isinstance(value, list):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        if "t" in value:
            yield value
        else:
            for item in value.values():
                yield from tensors_of(item)


def inputs_of(case):
    return list(tensors_of([case["args"], list(case["kwargs"].values())]))


def is_contiguous(t):
    step = 1
    for size, stride in zip(reversed(t["size"]), reversed(t["stride"])):
        if size > 1 and stride != step:
            return False
        step *= max(size, 1)
    return True


def numel(t):
    n = 1
    for size in t["size"]:
        n *= size
    return n


def kinds(case, layouts):
    """What this case would be picked for."""
    if layouts:
        layout = case["note"].replace(" (below)", "").split()[-1]
        return [("layout", layout)] if layout in LAYOUTS else []
    inputs = inputs_of(case)
    dtype = inputs[0]["dtype"] if inputs else "none"
    empty = any(numel(t) == 0 for t in inputs)
    if "error" in case:
        return [("error",)]
    out = [("no elements",)] if empty else [("dtype", dtype)]
    if "grad" in case and not empty:
        out.append(("gradients", dtype))
    if any(not is_contiguous(t) for t in inputs):
        out.append(("strides",))
    if "mutated" in case:
        out.append(("mutated",))
    return out


MIXED = {("f32", "f16"), ("f32", "i64"), ("f16", "i64"), ("i64", "i8"), ("f64", "f32"), ("f16", "f32"), ("i8", "i64"), ("i64", "f32")}


def edge_kind(case):
    """None: it is left to the whole sweep."""
    like = {"bf16": "f16", "i32": "i8", "i16": "i8", "u8": "i8"}
    inputs = inputs_of(case)
    dtypes = tuple(like.get(t["dtype"], t["dtype"]) for t in inputs[:2])
    word = case["note"].split()[0]
    if "error" in case:
        return ("edge", "error", word if word.isalpha() else "call")
    if word == "mixed":  # a wider operand has no dims, or all have dims
        return ("edge", dtypes, any(not t["size"] for t in inputs) and len(inputs[0]["size"])) if dtypes in MIXED else None
    if word == "shapes" and dtypes and dtypes[0] != "f32":
        return None
    return ("edge", word if word.isalpha() else "call", dtypes[:1], min([len(t["size"]) and min(numel(t), 2) for t in inputs] or [9]))


def cost(case, tensors):
    return len(json.dumps(case)) + 80 * len(list(tensors_of(case))) + sum(len(tensors[t["t"]][1]) for t in tensors_of(case))


def supported(sinter, paths):
    found = set()
    for path in paths:
        report = json.loads(subprocess.run([sinter, "cases", "--json", "--eager-only", path], capture_output=True, text=True).stdout)
        found |= {op for op, counts in report["overloads"].items() if not counts["unsupported"]}
    return found


def pick(paths, ops, layouts, edges=False):
    best = {}
    for path in paths:
        cases, tensors = read(path)
        for case in cases:
            if not edges and case["op"] not in ops:
                continue
            key = ("(below)" in case.get("note", ""), layouts and "grad" not in case, cost(case, tensors))
            if key[-1] > MOST:
                continue
            for kind in filter(None, [edge_kind(case)] if edges else kinds(case, layouts)):
                at = (case["op"],) + kind
                if at not in best or key < best[at][0]:
                    best[at] = (key, case, tensors)
    unique = {}
    for at in sorted(best, key=repr if edges else None):
        _, case, tensors = best[at]
        unique[json.dumps([case["op"], case.get("note"), case["args"], case["kwargs"]])] = (case, tensors)
    return list(unique.values())


def noted(paths, notes, exact_notes):
    picked = []
    for path in paths:
        cases, tensors = read(path)
        for case in cases:
            if case.get("note") in exact_notes:
                for t in tensors_of(case["out"]):
                    t["tol"] = [0, 0]
            elif case.get("note") not in notes:
                continue
            picked.append((case, tensors))
    return picked


def write(path, picked):
    names, header, blobs, at, cases = {}, {}, [], 0, []
    for case, tensors in picked:
        for t in tensors_of(case):
            content = tensors[t["t"]]
            if content not in names:
                dtype, data = content
                names[content] = name = "t%d" % len(names)
                header[name] = {"dtype": dtype, "shape": [len(data) // WIDTH[dtype]], "data_offsets": [at, at + len(data)]}
                blobs.append(data)
                at += len(data)
            t["t"] = names[content]
        cases.append(case)
    text = json.dumps(cases, separators=(",", ":"))
    header["__metadata__"] = {"format": "cases-1", "torch": "see cases.md", "cases": text}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + b"".join(blobs))
    print("%d cases, %d tensors, %d bytes" % (len(cases), len(names), 8 + len(head) + at))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sinter", default="build/bin/sinter")
    parser.add_argument("--out", required=True)
    parser.add_argument("--note", action="append", default=[])
    parser.add_argument("--exactly", action="append", default=[])
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--edges", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    if options.note or options.exactly:
        write(options.out, noted(options.files, options.note, options.exactly))
    elif options.edges:
        write(options.out, pick(options.files, None, False, True))
    else:
        write(options.out, pick(options.files, supported(options.sinter, options.files), options.layouts))
