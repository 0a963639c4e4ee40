"""jax_peer.py [--threads N]: JAX's process (worker.py): every function jitted, by XLA for the CPU.

It runs on the cores that it was given; on one of them without Eigen's pool.
"""
import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=1)
options = parser.parse_args()
if options.threads == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")
import jax  # noqa: after the flags
import jax.numpy as jnp

import rows
import worker

FUNCTIONS = {}


def function(f):
    FUNCTIONS[f.__name__] = f
    return f


@function
def call16(*xs):
    return sum(xs[1:], xs[0])


@function
def layer_norm(x, w, b):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w + b


def gelu(x):
    return jax.nn.gelu(x, approximate=True)


FUNCTIONS["residual_tanh"] = lambda x, b, r, w, c: layer_norm(gelu(x + b) + r, w, c)
FUNCTIONS["residual_erf"] = lambda x, b, r, w, c: layer_norm(jax.nn.gelu(x + b, approximate=False) + r, w, c)
FUNCTIONS["layer_norm_backward"] = layer_norm


@function
def silu_mul(a, b):
    return jax.nn.silu(a) * b


@function
def chain20(x):
    for _ in range(5):
        x = jnp.sqrt(jnp.abs(jnp.tanh(x * 1.01 + 0.5)) + 1)
    return x


@function
def softmax(x):
    return jax.nn.softmax(x, -1)


@function
def col_sum(x):
    return x.sum(0)


def cross_entropy(logits, target):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1).mean()


FUNCTIONS["cross_entropy_backward"] = cross_entropy


@function
def linear(x, w):
    return x @ w.T


@function
def linear_gelu(x, w, b):
    return gelu(x @ w.T + b)


@function
def product(a, b):
    return a @ b


@function
def product_transposed(a, b):
    return a.T @ b


def convolution(row):
    _, _, kernel, stride, _, last, groups = row.sizes
    form = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
    pad = [(kernel // 2, kernel // 2)] * 2
    return lambda x, w: jax.lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=form,
                                                     feature_group_count=groups)


def sdpa(q, k, v, mask=None):
    """Scores written out: what XLA has for the CPU."""
    if k.shape[1] != q.shape[1]:
        k, v = (jnp.repeat(t, q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
    if mask is None and q.shape[2] == k.shape[2]:
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    return jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(scores, -1), v)


OF_ROW = {"convolution": convolution, "attention": lambda row: sdpa}


def heads_of(parts, batch, length):
    return jnp.moveaxis(parts.reshape(batch, length, 3, rows.HEADS, -1), 2, 0).swapaxes(2, 3)


def perceptron(x, w):
    return x + gelu(layer_norm(x, w[0], w[1]) @ w[2].T + w[3]) @ w[4].T + w[5]


def block(x, w):
    batch, length, width = x.shape
    q, k, v = heads_of(layer_norm(x, w[0], w[1]) @ w[2].T + w[3], batch, length)
    y = sdpa(q, k, v).swapaxes(1, 2).reshape(batch, length, width)
    return perceptron(x + y @ w[4].T + w[5], w[6:])


@function
def gpt2_block(x, *w):
    return block(x, w)


@function
def mlp_blocks(x, *w):
    for first in range(0, len(w), 6):
        x = perceptron(x, w[first:first + 6])
    return x


def decode(caches, token, tokens, places, norm, bias, *weights):
    """The logits, and the caches with the token in their last place, in the memory of those given (donated)."""
    x, out = tokens[token] + places[-1:], []
    for i in range(len(caches) // 2):
        w, (keys, values) = weights[12 * i:12 * i + 12], caches[2 * i:2 * i + 2]
        q, k, v = heads_of(layer_norm(x, w[0], w[1]) @ w[2].T + w[3], 1, 1)
        keys, values = keys.at[:, :, -1:].set(k), values.at[:, :, -1:].set(v)
        out += [keys, values]
        y = jax.nn.softmax(jnp.einsum("bhtd,bhsd->bhts", q, keys) / q.shape[-1] ** 0.5, -1)
        y = jnp.einsum("bhts,bhsd->bhtd", y, values).swapaxes(1, 2).reshape(1, 1, -1)
        x = perceptron(x + y @ w[4].T + w[5], w[6:])
    return out, layer_norm(x, norm, bias) @ tokens.T


@function
def mlp_step(p, x, target):
    h = jax.nn.relu(jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3])
    return cross_entropy(h @ p[4].T + p[5], target)


def convolved(x, w, b):
    form = ("NCHW", "OIHW", "NCHW")
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=form) + b[:, None, None]
    return jax.lax.reduce_window(jax.nn.relu(y), -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


@function
def convnet_step(p, x, target):
    h = convolved(convolved(x, p[0], p[1]), p[2], p[3]).reshape(x.shape[0], -1)
    return cross_entropy(jax.nn.relu(h @ p[4].T + p[5]) @ p[6].T + p[7], target)


@function
def gpt2_step(p, ids, target):
    x = p[0][ids] + p[1][: ids.shape[1]]
    for first in range(4, len(p), 12):
        x = block(x, p[first:first + 12])
    logits = layer_norm(x, p[2], p[3]) @ p[0].T
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


def adamw(state, grads):
    """(parameters, first and second moments, steps), one step later."""
    params, first, second, count = state
    count = count + 1
    first = [0.9 * m + 0.1 * g for m, g in zip(first, grads)]
    second = [0.999 * v + 0.001 * g * g for v, g in zip(second, grads)]
    even, odd = 1 - 0.9 ** count, 1 - 0.999 ** count
    params = [p * (1 - 1e-3 * 0.01) - 1e-3 * (m / even) / (jnp.sqrt(v / odd) + 1e-8)
              for p, m, v in zip(params, first, second)]
    return params, first, second, count


def stateful(step, state, given):
    """Each run goes on from the last one's state, whose memory it takes."""
    fast, held = jax.jit(step, donate_argnums=0), [state]

    def run():
        held[0], out = fast(held[0], *given)
        jax.block_until_ready((held[0], out))
    return run


def run_step(row, inputs, params):
    state = (params, [jnp.zeros_like(p) for p in params], [jnp.zeros_like(p) for p in params], jnp.float32(0))
    if row.maker == "adamw":
        grads = [jnp.ones_like(p) * 0.1 for p in params]
        return stateful(lambda state, grads: (adamw(state, grads), 0), state, (grads,))

    def step(state, *given):
        loss, grads = jax.value_and_grad(FUNCTIONS[row.maker])(state[0], *given)
        return adamw(state, grads), loss
    return stateful(step, state, inputs)


def run_decode(inputs):
    head, layers = inputs[:5], inputs[5:]
    caches = [t for i, t in enumerate(layers) if i % 14 >= 12]
    return stateful(decode, caches, (*head, *[t for i, t in enumerate(layers) if i % 14 < 12]))


def backward_of(f, inputs, leaves, dy):
    def both(dy, *given):
        def of(*some):
            whole = list(given)
            for i, t in zip(leaves, some):
                whole[i] = t
            return f(*whole)
        out, back = jax.vjp(of, *[given[i] for i in leaves])
        return back(dy)
    fast = jax.jit(both)
    return lambda: jax.block_until_ready(fast(dy, *inputs))


def in_layout(row, array, i):
    """Images last in channels are [n, h, w, c], their weights [h, w, in, out]."""
    if row.maker != "convolution" or not row.sizes[5]:
        return array
    return array.transpose(0, 2, 3, 1) if i == 0 else array.transpose(2, 3, 1, 0)


def build(name):
    row = rows.ROWS[name]
    if row.is_net:
        raise worker.Missing("a model of PyTorch")
    work = rows.work_of(row)
    if work.kind == "overhead":
        raise worker.Missing("eager PyTorch is the peer")
    arrays, parameters = work.arrays()
    inputs = [jnp.array(in_layout(row, a, i)) for i, a in enumerate(arrays)]
    params = [jnp.array(a) for a in parameters]
    if row.maker == "decode":
        return {"compiled_ms": worker.Variant(run_decode(inputs))}
    if work.kind == "step":
        return {"compiled_ms": worker.Variant(run_step(row, inputs, params))}
    f = OF_ROW[row.maker](row) if row.maker in OF_ROW else FUNCTIONS[row.maker]
    if work.kind == "backward":
        shape = jax.eval_shape(f, *inputs).shape
        dy = jax.random.normal(jax.random.PRNGKey(0), shape) if shape else jnp.float32(1)
        leaves = [i for i, spec in enumerate(work.inputs) if spec.leaf]
        return {"compiled_ms": worker.Variant(backward_of(f, inputs, leaves, dy))}
    fast = jax.jit(f)
    run = worker.Variant(lambda: jax.block_until_ready(fast(*inputs)), 1e9 if work.kind == "call" else 1e3)
    return {"call_ns" if work.kind == "call" else "compiled_ms": run}


if __name__ == "__main__":
    worker.serve(build)
