"""rows.py: the rows of frontend/tool/bench_peers.def, and what goes into each: the same tensors in the same order as in Sinter.

`ROWS[name]` has maker and sizes; `work_of(row)` says how it is run and what its inputs and parameters are. Who computes it
(torch_peer.py, jax_peer.py) has a function for each maker.
"""
import dataclasses
import pathlib
import re

DEFINITION = pathlib.Path(__file__).resolve().parents[3] / "frontend/tool/bench_peers.def"
WIDTH, HEADS = 768, 12


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    maker: str
    reads: float  # elements of f32
    writes: float
    flops: float
    sizes: tuple
    is_net: bool  # a MODEL line


def number(text):
    """An expression of the definition; anything but arithmetic is refused."""
    if not re.fullmatch(r"[0-9.+*() -]+", text):
        raise ValueError(f"{DEFINITION}: '{text}' is no arithmetic")
    return eval(text)


def read_rows(text):
    rows = {}
    for kind, body in re.findall(r"^(ROW|MODEL)\(((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*)\)$", text, re.M):
        parts = [part.strip() for part in body.split(",")]
        name, maker, *rest = parts[0].strip('"'), *parts[1:]
        moved = [number(part) for part in rest[:3]] if kind == "ROW" else [0, 0, 0]
        sizes = tuple(number(part) for part in (rest[3:] if kind == "ROW" else rest))
        rows[name] = Row(name, maker, *moved, sizes, kind == "MODEL")
    return rows


ROWS = read_rows(DEFINITION.read_text())


def chosen(prefixes):
    return [row for row in ROWS.values() if not prefixes or any(row.name.startswith(prefix) for prefix in prefixes)]


@dataclasses.dataclass(frozen=True)
class Input:
    shape: tuple
    scale: float = 1
    leaf: bool = False      # requires a gradient
    classes: int = 0        # int64 below it
    channels_last: bool = False
    window: int = 0         # a mask: true where a query sees a key
    weight: bool = False    # what a deployed model holds as a constant

    def make(self, random):
        import numpy  # a run without peers needs none
        if self.classes:
            return random.integers(0, self.classes, self.shape)
        if self.window:
            n = self.shape[0]
            return numpy.tri(n, dtype=bool) & ~numpy.tri(n, k=-self.window, dtype=bool)
        shape = self.shape
        if self.channels_last:
            shape = (shape[0], shape[2], shape[3], shape[1])
        made = random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(self.scale)
        return made.transpose(0, 3, 1, 2) if self.channels_last else made


@dataclasses.dataclass(frozen=True)
class Work:
    kind: str  # forward, backward, step, overhead, call
    inputs: list
    params: list = ()
    per: int = 1  # ops in one run of overhead

    def arrays(self):
        import numpy
        random = numpy.random.default_rng(0)
        return [i.make(random) for i in self.inputs], [i.make(random) for i in self.params]


def block_weights(leaf=False, mlp_only=False):
    layers = [(WIDTH,), (3 * WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
    out = []
    for shape in layers[3:] if mlp_only else layers:
        out.append(Input(shape, 0.02 if len(shape) > 1 else 1, leaf, weight=True))
        out.append(Input(shape[:1], 1, leaf, weight=True))
    return out


def linear_params(*widths):
    out = []
    for before, after in zip(widths, widths[1:]):
        out += [Input((after, before), before ** -0.5, True), Input((after,), before ** -0.5, True)]
    return out


def convolution(c_in, c_out, kernel, stride, side, last, groups):
    return Work("backward", [Input((8, c_in, side, side), 1, True, channels_last=bool(last)),
                             Input((c_out, c_in // groups, kernel, kernel), 1, True, channels_last=bool(last))])


def attention(heads, kv_heads, queries, keys, window, grad):
    leaf = bool(grad)
    inputs = [Input((1, heads, queries, 64), 1, leaf)] + [Input((1, kv_heads, keys, 64), 1, leaf)] * 2
    return Work("backward" if grad else "forward", inputs + ([Input((keys, keys), window=window)] if window else []))


def residual(n, width):
    return Work("forward", [Input((n, width)), Input((width,)), Input((n, width)), Input((width,)), Input((width,))])


def norm(n, width, leaf=False):
    return Work("backward" if leaf else "forward", [Input((n, width), 1, leaf)] + [Input((width,), 1, leaf)] * 2)


def gpt2_block(batch, length, grad):
    leaf = bool(grad)
    return Work("backward" if grad else "forward", [Input((batch, length, WIDTH), 1, leaf), *block_weights(leaf)])


def mlp_blocks(blocks, n, grad):
    leaf = bool(grad)
    return Work("backward" if grad else "forward", [Input((n, WIDTH), 1, leaf)] + block_weights(leaf, True) * blocks)


def decode(layers, cache, vocabulary):
    layer = block_weights() + [Input((1, HEADS, cache, WIDTH // HEADS))] * 2
    return Work("forward", [Input((1, 1), classes=vocabulary), Input((vocabulary, WIDTH), 0.02, weight=True),
                            Input((cache, WIDTH), 0.02, weight=True), Input((WIDTH,), weight=True),
                            Input((WIDTH,), weight=True)] + layer * layers)


def gpt2_step(layers, batch, length, vocabulary):
    ids = Input((batch, length), classes=vocabulary)
    params = [Input((vocabulary, WIDTH), 0.02, True), Input((1024, WIDTH), 0.02, True)] + [Input((WIDTH,), 1, True)] * 2
    return Work("step", [ids, ids], params + block_weights(True) * layers)


WORKS = {
    "add16": lambda n: Work("overhead", [Input((n,)), Input((n,))], per=1000),
    "add16_grad": lambda n: Work("overhead", [Input((n,), 1, True), Input((n,))], per=1000),
    "relu16": lambda n: Work("overhead", [Input((n,))], per=1000),
    "view16": lambda n: Work("overhead", [Input((n,))], per=1000),
    "sum16": lambda n: Work("overhead", [Input((n,))], per=1000),
    "mm4": lambda n: Work("overhead", [Input((n, n))], per=1000),
    "chain100": lambda n: Work("overhead", [Input((n,), 1, True), Input((n,))], per=100),
    "call16": lambda n: Work("call", [Input((n,))] * 16),
    "residual_tanh": residual,
    "residual_erf": residual,
    "silu_mul": lambda n, m: Work("forward", [Input((n, m))] * 2),
    "chain20": lambda n, m: Work("forward", [Input((n, m))]),
    "softmax": lambda n, m: Work("forward", [Input((n, m))]),
    "col_sum": lambda n, m: Work("forward", [Input((n, m))]),
    "layer_norm": norm,
    "layer_norm_backward": lambda n, m: norm(n, m, True),
    "cross_entropy_backward": lambda n, m: Work("backward", [Input((n, m), 1, True), Input((n,), classes=m)]),
    "adamw": lambda n, m: Work("step", [], [Input((n, m), 1, True)] * 20),
    "linear": lambda m, n, k: Work("forward", [Input((m, k)), Input((n, k), weight=True)]),
    "linear_gelu": lambda m, n, k: Work("forward", [Input((m, k)), Input((n, k), weight=True), Input((n,), weight=True)]),
    "product": lambda m, n, k: Work("forward", [Input((m, k)), Input((k, n))]),
    "product_transposed": lambda m, n, k: Work("forward", [Input((k, m)), Input((k, n))]),
    "convolution": convolution,
    "attention": attention,
    "gpt2_block": gpt2_block,
    "mlp_blocks": mlp_blocks,
    "decode": decode,
    "mlp_step": lambda n: Work("step", [Input((n, 784)), Input((n,), classes=10)], linear_params(784, 512, 512, 10)),
    "convnet_step": lambda n: Work("step", [Input((n, 1, 28, 28)), Input((n,), classes=10)],
                                   [Input((32, 1, 3, 3), 0.3, True), Input((32,), 0, True),
                                    Input((64, 32, 3, 3), 0.06, True), Input((64,), 0, True),
                                    *linear_params(3136, 128, 10)]),
    "gpt2_step": gpt2_step,
}


def work_of(row):
    return WORKS[row.maker](*row.sizes)
