"""torch_export.py: writes pt2/NAME.pt2, small programs as torch.export.save writes them, and beside each NAME.safetensors:
what PyTorch computes. Entries: "1.in.x" and "1.out.y" of the first call and so on, by the names of signature and tree;
"after.NAME": parameters and buffers behind the last call; "grad.NAME": gradients of the sum of the first result.
tests/unit/test_import.c calls them. Usage: torch_export.py [NAME...], with PyTorch 2.15."""
import collections
import dataclasses
import math
import pathlib
import struct
import sys
import warnings

import torch
from safetensors.torch import save_file
from torch.export import Dim, export, save
from torch.utils import _pytree

HERE = pathlib.Path(__file__).parent / "pt2"
Pair = collections.namedtuple("Pair", "a b")
_pytree._register_namedtuple(Pair, serialized_type_name="torch_export.Pair")


@dataclasses.dataclass
class Point:
    a: torch.Tensor
    b: object
    c: object = None


torch.export.register_dataclass(Point, serialized_type_name="torch_export.Point")


class State(torch.nn.Module):
    """What a TRAINING program may do: writes to buffers, statistics, views, tensors made in forward, regions."""

    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 3)
        self.bn = torch.nn.BatchNorm1d(3)
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("hidden", torch.arange(3.0) * 2, persistent=False)
        self.attribute = torch.tensor([0.5, 1.0, 1.5])

    def forward(self, x, lst, d, k=3, n=None, *, scale=2.0):
        self.count.add_(1.0)
        y = self.bn(self.l(x)).relu_() * k + self.count + self.hidden + torch.tensor([1.0, 2.0, 3.0]) * scale
        y[0, 1:] += self.attribute[1:]
        with torch.no_grad():
            z = y.sum()
        return {"out": y, "z": (z, x[:, [0, 2]]), "n": 7, "none": None, "sum": lst[0] + d["q"], "at": x[d["i"]], "b": True}


class Sizes(torch.nn.Module):
    def forward(self, x, lst):
        n = x.shape[0]
        return Pair(x.reshape(-1) * n, torch.cat([x, lst[0]])), n, n * 2 + 1, x.new_zeros(n // 2)


class Guarded(torch.nn.Module):
    """Sizes that a call has to satisfy beyond their ranges."""

    def forward(self, x, y):
        if max(x.shape[0] // 2, 1) * y.shape[0] > 6 and x.shape[0] != 5:
            return x.sum() + y[: x.shape[0] // 2].sum()
        return x.sum() - y.sum()


class Half(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 2).sum(1), x[::2]


class Ints(torch.nn.Module):
    def forward(self, x, n: int):
        return x * n, Pair(x, x + 1), n + 1


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.e = torch.nn.Embedding(8, 6)
        self.o = torch.nn.Linear(6, 8, bias=False)
        self.o.weight = self.e.weight
        whole = torch.arange(12.0)
        self.register_buffer("every_other", whole[1::2])
        self.register_buffer("tail", whole[6:])
        self.register_buffer("turned", torch.arange(12.0).view(3, 4).t())

    def forward(self, ids):
        self.tail.mul_(2)
        return self.o(self.e(ids)), self.every_other + 0, self.turned @ torch.ones(3)


class Cond(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: (self.l(a), a.sin()), lambda a: (a * 2, a.cos()), (x,))


class While(torch.nn.Module):
    def forward(self, n, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 2), (n, x))


class Scan(torch.nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        return scan(lambda c, a: (c + a, c * a), x[0] * 0, x, dim=0)


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 3)

    def forward(self, x, y):
        return ((self.l(x) - y) ** 2).mean()


class Autocast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(8, 8)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.l(x)
            z = torch.nn.functional.cross_entropy(y, torch.tensor([1, 2]))
            with torch.autocast("cpu", enabled=False):
                w = x @ x.t()
        return y, z, w


class Writes(torch.nn.Module):
    def forward(self, x, mask):
        x.add_(1)
        x[1].masked_fill_(mask, 0)
        return x * 2


class Kinds(torch.nn.Module):
    def forward(self, h, b, i, u, d, flag):
        return h * 2, b + h.to(torch.bfloat16), i // 3, u + 1, d.exp(), flag & (i > 0), i.to(torch.float64) * d


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.n = torch.nn.LayerNorm(16)
        self.f = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 16))

    def forward(self, x):
        y = self.n(x)
        x = x + self.a(y, y, y, need_weights=False)[0]
        return x + self.f(self.n(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.b = torch.nn.BatchNorm2d(4)
        self.o = torch.nn.Linear(4, 2)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(self.b(self.c(x)).relu(), 2)
        return self.o(x.mean((2, 3)))


class Where(torch.nn.Module):
    """Sizes that values say."""

    def forward(self, x):
        n = x.nonzero()
        y = x[x > 0] * 2
        return n, y, y.sum(), n.shape[0]


class Item(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k] * 2, k


class Values(torch.nn.Module):
    """Numbers that values say, with what is checked of them."""

    def forward(self, x, n):
        k = n.sum().item()
        torch._check(k >= 2)
        torch._check(k == x.shape[0])
        z = (x[:, 0] > 0).nonzero().squeeze(1)
        torch._check(z.shape[0] >= 1)
        torch._check(z.shape[0] < k)
        return torch.zeros(k), torch.arange(2 * k + 1) + k, x[z] * 2, torch.full((k // 2 + 1, z.shape[0]), 1.5), k + 1


class Totals(torch.nn.Module):
    """What autocast computes in f32, outside of it."""

    def forward(self, i, d):
        return i.sum(), i.cumsum(0), i.prod(), d.sum(), d.softmax(0), d.log_softmax(0)


class Scaled(torch.nn.Module):
    """Floats that values say."""

    def forward(self, x):
        s, m = x.sum().item(), x.double().max().item()
        return x * s, torch.lerp(x, x + 1, m), x - (s + 1.0) / 2, torch.full((2,), m), s


class Scalars(torch.nn.Module):
    """Floats of sizes where ops want numbers."""

    def forward(self, x, y):
        n = x.shape[0]
        a = x.lerp(y, 1.0 / n), x.double().lerp(y.double(), 1 / n), x.abs() ** (n / 2), x.half().clamp_max(n / 30)
        b = x.clamp(-n / 9, n / 9), torch.full((2, n), n * 0.5), x.new_full((3,), n / 7, dtype=torch.float64)
        i = (x * 9).to(torch.int32)
        b = *b, i * (1 / n), i.to(torch.int64) > n / 3, (y > 0) * (n / 2), i.sum() / (n / 2)
        return a, b, x.masked_fill(y > 0, n / 7), torch.where(y > 0, x, n / 4), x > n / 20, x.fmod(n / 5)


class Rounded(torch.nn.Module):
    """Floats in sizes and in guards."""

    def forward(self, x):
        n = x.shape[2]
        if n * 0.5 > 1.5 and n / 3 < 3.5 and math.ceil(n / 2) != 4 and round(n / 4) < 90:
            x = x * 2
        y = torch.nn.functional.interpolate(x, scale_factor=1.5)
        return y, y.reshape(-1), torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (y,))


class Alpha(torch.nn.Module):
    def forward(self, x):
        return torch.add(x, x, alpha=x.shape[0] / 3)


class Variadic(torch.nn.Module):
    """Guards of *a name its values otherwise than the file does."""

    def forward(self, *a):
        torch._check(a[0].shape[0] + a[1].shape[0] <= 20)
        return a[0].sum() + a[1].sum(), a[0] * 2


class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).abs()


class Lists(torch.nn.Module):
    """Ops that give lists, and results that are lists."""

    def forward(self, x):
        a, b = x.chunk(2, 1)
        return [a * 2, b], x.split([1, 2, 3], 1), x.unbind(1), list(x.tensor_split(3, 1)), torch.stack(x.unbind(1)[1:3])


class Nested(torch.nn.Module):
    def forward(self, p, x, *more, scale, **named):
        ordered = collections.OrderedDict(z=p.a + 1, a=p.b[0] * p.c)
        deep = {"text": "sum", 7: x, "list": [{"none": None, "bool": True, "float": 2.5}, (more[0] - more[1],)]}
        return Point(x * scale, [x, named["other"]["q"]]), ordered, deep, "done", 3


class Strided(torch.nn.Module):
    """Parameters and buffers that are views of others' memory."""

    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 4, bias=False)
        self.turned = torch.nn.Parameter(self.l.weight.t())
        self.part = torch.nn.Parameter(self.l.weight.detach()[1:, 1:3])
        self.register_buffer("row", torch.arange(12.0).view(3, 4)[1])
        self.register_buffer("wide", torch.arange(3.0).expand(2, 3))

    def forward(self, x):
        return self.l(x) @ self.turned, x[:, :3] @ self.part + self.row[:2], x[:, :3] * self.wide


class Cache(torch.nn.Module):
    """Buffers of several dtypes that live on; ints of a call, of which the export fixes one by how it is used."""

    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(2, 3, 2))
        self.register_buffer("n", torch.tensor(0))
        self.register_buffer("flag", torch.tensor(False))

    def forward(self, x, at, place: int, fixed: int):
        self.k.index_copy_(1, at, x.unsqueeze(1))
        self.k[:, fixed] = x * 2
        self.k[:, place].add_(1)
        self.n += 1
        self.flag.logical_not_()
        return self.k.sum(1), self.n * 2, self.flag & True


class OnlyState(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)


class Through(torch.nn.Module):
    """What is given, and what is held, as results."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("s", torch.full((2,), 3.0))

    def forward(self, x, unused):
        return x, x[1:], self.w, self.s, x.t(), x, torch.tensor([1, 2])


class Checked(torch.nn.Module):
    """What must hold of sizes that only values say."""

    def forward(self, x, y):
        n = x.nonzero().squeeze(1)
        torch._check(n.shape[0] >= 3)
        torch._check(n.shape[0] % 2 == 1, lambda: "an odd number of them")
        torch._check(n.shape[0] < y.shape[0])
        return n * 2, y.to(torch.float64).to(torch.float32) + n.shape[0]


class Numbers(torch.nn.Module):
    """Control flow that is given sizes, and asks them."""

    def forward(self, x):
        from torch._higher_order_ops.map import map as map_rows
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop

        n, m, w = x.shape[0], x.shape[1], x.cos()
        inner = lambda a: torch.cond(a.max() > 1, lambda b: b * m, lambda b: b + n * 2, (a,))
        one = torch.cond(x.sum() > 0, inner, lambda a: a - m, (x,))
        two = torch.cond(n > 4, lambda a: a * 2, lambda a: a + 3, (x,))
        last, rows = scan(lambda c, a: (c + a * n, c * a), x[0] * 0, x, dim=0)
        loop = while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * w + m), (torch.tensor(2), x))
        return one, two, last, rows, loop, map_rows(lambda a, k: a * k + m, x, x.sum())


class Counts(torch.nn.Module):
    """Numbers that loops carry, and what is asked and computed of them."""

    def forward(self, x, y):
        from torch._higher_order_ops.while_loop import while_loop

        n = x.shape[0]

        def body(i, j, a, b):
            torch._check(i >= 0)
            torch._check(i < n)
            inner, c = while_loop(lambda k, d: k < j, lambda k, d: (k + 2, d * k + 1), (i + 1, a))
            return i + 1, j + i % 3 - max(j // 2, i), c - (j - 1) ** 2 + x[i], b + j

        i, j, a, b = while_loop(lambda i, j, a, b: i < n, body, (n - 3, n * 2, x, y))
        torch._check(i >= 3)
        return a + i, j + 1, x.new_zeros(3) + j, b, x.new_ones(i) * n


class Running(torch.nn.Module):
    """Scans without a first carry."""

    def forward(self, x, y):
        from torch._higher_order_ops.associative_scan import associative_scan

        affine = lambda a, b: {"p": a["p"] * b["p"], "q": a["q"] * b["p"] + b["q"]}
        both = associative_scan(affine, {"p": x, "q": y}, 1, reverse=True, combine_mode="pointwise")
        one = associative_scan(torch.maximum, x[:1], 0, combine_mode="pointwise")
        return both, associative_scan(lambda a, b: a + b, x.to(torch.int64), 0, combine_mode="pointwise"), one


class Sums(torch.nn.Module):
    """What sizes are computed to."""

    def forward(self, x, fixed: int):
        n = x.shape[0]
        return x.new_ones(max(n, 5)), x.new_ones((n + 1) // 2), n**2, -n, x * (fixed + x.shape[1] / 2), min(n, 6) % 4


class Floats(torch.nn.Module):
    """Floats of sizes."""

    def forward(self, x):
        n = x.shape[0]
        half = n / 2
        mean = x.sum() * (1.0 / n)
        return x * (1.0 / n), x.double() + n * 0.1, half, x.half() - half**2, -(half - 0.25), mean, x.double().sum() / half


class Rows(torch.nn.Module):
    def forward(self, x, *, y):
        return torch.cat([x.softmax(0), y]).mean(0)


def zip64(path, to):
    """The same entries in the same places; all sizes and places in 64 bits, as files above 4 GiB have some."""
    data = path.read_bytes()
    end = data.rindex(b"PK\5\6")
    n, _, start = struct.unpack("<HII", data[end + 10 : end + 20])
    out, at = bytearray(data[:start]), start
    for _ in range(n):
        head = bytearray(data[at : at + 46])
        packed, whole = struct.unpack("<II", head[20:28])
        name, extra, comment = struct.unpack("<HHH", head[28:34])
        wide = struct.pack("<HHQQQ", 1, 24, whole, packed, *struct.unpack("<I", head[42:46]))
        head[20:28], head[42:46], head[30:32] = b"\xff" * 8, b"\xff" * 4, struct.pack("<H", extra + len(wide))
        behind = at + 46 + name + extra
        out += head + data[at + 46 : behind] + wide + data[behind : behind + comment]
        at = behind + comment
    directory = len(out)
    out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, n, n, directory - start, start)
    out += struct.pack("<IIQI", 0x07064B50, 0, directory, 1)
    out += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    to.write_bytes(out)


def randn(*sizes):
    return torch.randn(*sizes)


def state_args(rows=2):
    return (randn(rows, 4), [randn(rows)], {"q": randn(rows), "i": torch.tensor([0, 1])}, 3, None), {"scale": 2.0}


BATCH = Dim("batch", min=2, max=16)
ROWS = ({0: BATCH}, [{0: BATCH}], {"q": {0: BATCH}, "i": None}, None, None)
# name: module, arguments of the calls (the first is that of the export), what else export takes
PROGRAMS = {
    "state": (State, [state_args, state_args], {}),
    "state_rows": (State, [state_args, lambda: state_args(5)], dict(dynamic_shapes={"x": ROWS[0], "lst": ROWS[1], "d": ROWS[2], "k": None, "n": None, "scale": None})),
    "sizes": (Sizes, [lambda: ((randn(4, 3), [randn(2, 3)]), {}), lambda: ((randn(7, 3), [randn(5, 3)]), {})], dict(dynamic_shapes=({0: Dim("n", min=4, max=9)}, [{0: Dim.AUTO}]))),
    "half": (Half, [lambda: ((randn(4, 6),), {}), lambda: ((randn(10, 6),), {})], dict(dynamic_shapes=({0: 2 * Dim("h")},))),
    "ints": (Ints, [lambda: ((randn(4, 2), 3), {}), lambda: ((randn(5, 2), 7), {})], dict(dynamic_shapes=({0: Dim.AUTO}, Dim.DYNAMIC))),
    "tied": (Tied, [lambda: ((torch.tensor([1, 5]),), {}), lambda: ((torch.tensor([0, 7]),), {})], {}),
    "cond": (Cond, [lambda: ((randn(2, 4).abs(),), {}), lambda: ((-randn(2, 4).abs(),), {})], {}),
    "while": (While, [lambda: ((torch.tensor(1), randn(3)), {}), lambda: ((torch.tensor(4), randn(3)), {})], {}),
    "scan": (Scan, [lambda: ((randn(4, 3),), {})], {}),
    "joint": (Loss, [lambda: ((randn(2, 4), randn(2, 3)), {})], {}),
    "autocast": (Autocast, [lambda: ((randn(2, 8),), {})], {}),
    "writes": (Writes, [lambda: ((randn(3, 4), torch.tensor([True, False, True, False])), {})], {}),
    "kinds": (Kinds, [lambda: ((randn(3).half(), randn(3).bfloat16(), torch.tensor([-5, 0, 7], dtype=torch.int32), torch.tensor([0, 9, 255], dtype=torch.uint8), randn(3).double(), torch.tensor([True, False, True])), {})], {}),
    "block": (Block, [lambda: ((randn(2, 5, 16),), {})], {}),
    "net": (Net, [lambda: ((randn(2, 3, 6, 6),), {})], {}),
    "where": (Where, [lambda: ((torch.tensor([[0.0, 1.0], [2.0, -3.0]]),), {}), lambda: ((torch.tensor([[0.0, -1.0], [0.0, 3.0]]),), {})], {}),
    "item": (Item, [lambda: ((randn(4, 2), torch.tensor(2)), {}), lambda: ((randn(4, 2), torch.tensor(4)), {})], {}),
    "values": (Values, [lambda: ((torch.tensor([[1.0, 2.0], [-1.0, 0.0], [3.0, 1.0]]), torch.tensor([1, 2])), {}), lambda: ((torch.tensor([[-1.0, 2.0], [4.0, 0.0]]), torch.tensor([2, 0])), {})], dict(dynamic_shapes=({0: Dim.DYNAMIC}, {}))),
    "totals": (Totals, [lambda: ((torch.tensor([3, 4, 1 << 40]), randn(5).double()), {})], {}),
    "scaled": (Scaled, [lambda: ((randn(3),), {})], {}),
    "lists": (Lists, [lambda: ((randn(2, 6),), {})], {}),
    "nested": (Nested, [lambda: ((Point(randn(2), [randn(2)], randn(2)), randn(2), randn(2), randn(2)), {"scale": randn(2), "other": {"q": randn(2)}})], {}),
    "strided": (Strided, [lambda: ((randn(2, 4),), {})], {}),
    "cache": (Cache, [lambda: ((randn(2, 2), torch.tensor([1]), 2, 0), {}), lambda: ((randn(2, 2), torch.tensor([0]), 1, 0), {}), lambda: ((randn(2, 2), torch.tensor([2]), 0, 0), {})], dict(dynamic_shapes=(None, None, Dim.DYNAMIC, Dim.DYNAMIC))),
    "only_state": (OnlyState, [lambda: ((randn(3),), {}), lambda: ((randn(3),), {})], {}),
    "through": (Through, [lambda: ((randn(2, 2), randn(1)), {})], {}),
    "checked": (Checked, [lambda: ((torch.tensor([1, 0, 1, 1]), randn(4)), {}), lambda: ((torch.tensor([1, 1, 1, 1, 1, 0]), randn(7)), {})], dict(dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))),
    "numbers": (Numbers, [lambda: ((randn(3, 4),), {}), lambda: ((randn(6, 2) - 3,), {}), lambda: ((randn(4, 3) + 1,), {})], dict(dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))),
    "counts": (Counts, [lambda: ((randn(4), torch.tensor(3, dtype=torch.int32)), {}), lambda: ((randn(6), torch.tensor(-5, dtype=torch.int32)), {})], dict(dynamic_shapes=({0: Dim.AUTO}, None))),
    "running": (Running, [lambda: ((randn(4, 3), randn(4, 3)), {}), lambda: ((randn(9, 3), randn(9, 3)), {})], dict(dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))),
    "scalars": (Scalars, [lambda: ((randn(5), randn(5)), {}), lambda: ((randn(8), randn(8)), {})], dict(dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))),
    "alpha": (Alpha, [lambda: ((randn(5),), {})], dict(dynamic_shapes=({0: Dim.AUTO},))),
    "rounded": (Rounded, [lambda: ((randn(1, 2, 5),), {}), lambda: ((randn(1, 2, 10),), {})], dict(dynamic_shapes=({2: Dim.AUTO},))),
    "sums": (Sums, [lambda: ((randn(4, 3), 2), {}), lambda: ((randn(7, 3), 2), {})], dict(dynamic_shapes=({0: Dim.AUTO}, None))),
    "floats": (Floats, [lambda: ((randn(4, 3),), {}), lambda: ((randn(7, 3),), {})], dict(dynamic_shapes=({0: Dim.AUTO},))),
    "rows": (Rows, [lambda: ((randn(4, 3),), {"y": randn(2, 3)}), lambda: ((randn(1, 3),), {"y": randn(5, 3)})], dict(strict=True, dynamic_shapes={"x": {0: Dim("rows", min=1, max=9)}, "y": {0: Dim.AUTO}})),
    "guarded": (Guarded, [lambda: ((randn(4), randn(5)), {}), lambda: ((randn(7), randn(3)), {})], dict(dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))),
    "draft": (Half, [lambda: ((randn(4, 6),), {}), lambda: ((randn(10, 6),), {})], dict(dynamic_shapes=({0: 2 * Dim("h")},))),
    "variadic": (Variadic, [lambda: ((randn(4), randn(5)), {}), lambda: ((randn(9), randn(2)), {})], dict(dynamic_shapes=(({0: Dim.AUTO}, {0: Dim.AUTO}),))),
    "spectrum": (Spectrum, [lambda: ((randn(8),), {})], {}),
}
EVAL = {"block"}
ATEN = {"state", "half", "writes", "net", "lists", "cache", "checked", "numbers", "values", "floats", "running", "rounded", "scalars", "scaled"}  # as core ops, too
GRADIENTS = {"block", "net", "cond", "strided"}
WIDE = {"tied"}  # as a zip64 archive, too


def leaf_names(tree):
    leaves, _ = _pytree.tree_flatten_with_path(tree)
    name = lambda k: str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", None))))
    return [(".".join(name(k) for k in path) or "0", value) for path, value in leaves]


def inputs_by_name(ep, args, kwargs):
    specs = [s for s in ep.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    for spec, value in zip(specs, _pytree.tree_leaves((args, kwargs), is_leaf=lambda x: x is None), strict=True):
        if type(spec.arg).__name__ != "ConstantArgument":
            yield spec.arg.name, torch.as_tensor(value).clone()


def outputs_by_name(ep, out):
    if any(s.kind.name == "LOSS_OUTPUT" for s in ep.graph_signature.output_specs):
        specs = ep.graph_signature.output_specs
        for spec, value in zip(specs, out, strict=True):
            yield ("0" if spec.target is None else spec.target + ".grad"), value
    else:
        yield from leaf_names(out)


def record(name, ep, calls):
    entries = {}
    module = ep.module() if not name.startswith("joint") else None
    for i, (args, kwargs) in enumerate(calls, 1):
        for key, value in inputs_by_name(ep, args, kwargs):
            entries[f"{i}.in.{key}"] = value
        with torch.no_grad():
            out = module(*args, **kwargs) if module else ep.graph_module(*ep.state_dict.values(), *args)
        for key, value in outputs_by_name(ep, out):
            if value is not None and not isinstance(value, str):
                value = torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
                entries[f"{i}.out.{key}"] = value.clone().contiguous()
        for key, value in inputs_by_name(ep, args, kwargs):
            if not torch.equal(value, entries[f"{i}.in.{key}"]):
                entries[f"{i}.written.{key}"] = value
    if module:
        for key, value in list(module.named_parameters()) + list(module.named_buffers()):
            entries[f"after.{key}"] = value.detach().clone().contiguous()
    if name in GRADIENTS:
        args, kwargs = calls[0]
        again = ep.module()
        _pytree.tree_leaves(again(*args, **kwargs))[0].sum().backward()
        for key, value in again.named_parameters():
            if value.grad is not None:
                entries[f"grad.{key}"] = value.grad.clone().contiguous()
    return entries


def main(names):
    warnings.filterwarnings("ignore")
    HERE.mkdir(exist_ok=True)
    for name, (kind, calls, more) in PROGRAMS.items():
        if names and name not in names:
            continue
        torch.manual_seed(1)
        module = kind().eval() if name in EVAL else kind()
        made = [call() for call in calls]
        copies = lambda: _pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, made)
        args, kwargs = copies()[0]
        how = torch.export.draft_export if name == "draft" else export
        ep = how(module, args, kwargs or None, **more)
        variants = {name: ep}
        if name == "joint":
            from torch.export.experimental import _export_forward_backward

            variants = {name: _export_forward_backward(ep)}
        for variant, program in variants.items():
            save(program, HERE / f"{variant}.pt2")
            save_file(record(variant, program, copies()), HERE / f"{variant}.safetensors")
        if name in WIDE:
            zip64(HERE / f"{name}.pt2", HERE / f"{name}_wide.pt2")
        if name in ATEN:
            module = type(module)()
            torch.manual_seed(1)
            module = kind()
            program = export(module, *[x or None for x in copies()[0]], **more).run_decompositions()
            save(program, HERE / f"{name}_aten.pt2")
            save_file(record(f"{name}_aten", program, copies()), HERE / f"{name}_aten.safetensors")
        print(name)


main(sys.argv[1:])
