"""torch_works.py: each maker's function in PyTorch, and what runs a row of it once."""
import torch
import torch.nn.functional as F

import nets
import rows

FUNCTIONS = {}


def function(f):
    FUNCTIONS[f.__name__] = f
    return f


def repeated(call, grad=False, n=1000):
    def run():
        with torch.set_grad_enabled(grad):
            for _ in range(n):
                call()
    return run


OVERHEADS = {
    "add16": lambda a, b: repeated(lambda: a + b),
    "add16_grad": lambda a, b: repeated(lambda: a + b, True),
    "relu16": lambda a: repeated(lambda: torch.relu(a)),
    "view16": lambda a: repeated(lambda: a.view(4, 4)),
    "sum16": lambda a: repeated(lambda: a.sum()),
    "mm4": lambda a: repeated(lambda: a @ a),
}


def chain100(a, b):
    def run():
        x = a
        for _ in range(100):
            x = x + b
        x.sum().backward()
        a.grad = None
    return run


OVERHEADS["chain100"] = chain100


@function
def call16(*xs):
    y = xs[0]
    for x in xs[1:]:
        y = y + x
    return y


def residual(approximate):
    return lambda x, b, r, w, c: F.layer_norm(F.gelu(x + b, approximate=approximate) + r, (x.shape[1],), w, c)


FUNCTIONS["residual_tanh"], FUNCTIONS["residual_erf"] = residual("tanh"), residual("none")


@function
def silu_mul(a, b):
    return F.silu(a) * b


@function
def chain20(x):
    for _ in range(5):
        x = torch.sqrt(torch.abs(torch.tanh(x * 1.01 + 0.5)) + 1)
    return x


@function
def softmax(x):
    return torch.softmax(x, -1)


@function
def col_sum(x):
    return x.sum(0)


@function
def layer_norm(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b)


FUNCTIONS["layer_norm_backward"], FUNCTIONS["cross_entropy_backward"] = layer_norm, F.cross_entropy
FUNCTIONS["linear"] = F.linear


@function
def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b), approximate="tanh")


@function
def product(a, b):
    return a @ b


@function
def product_transposed(a, b):
    return a.t() @ b


def convolution(row):
    _, _, kernel, stride, _, _, groups = row.sizes
    return lambda x, w: F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)


def attention(row):
    heads, kv_heads, queries, keys, _, _ = row.sizes

    def attended(q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None and queries == keys,
                                              enable_gqa=heads != kv_heads)
    return attended


OF_ROW = {"convolution": convolution, "attention": attention}


def heads_of(parts, batch, length):
    return parts.view(batch, length, 3, rows.HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)


def perceptron(x, w):
    return x + F.linear(F.gelu(F.linear(layer_norm(x, w[0], w[1]), w[2], w[3]), approximate="tanh"), w[4], w[5])


def block(x, w):
    batch, length, width = x.shape
    q, k, v = heads_of(F.linear(layer_norm(x, w[0], w[1]), w[2], w[3]), batch, length)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return perceptron(x + F.linear(y.transpose(1, 2).reshape(batch, length, width), w[4], w[5]), w[6:])


@function
def gpt2_block(x, *w):
    return block(x, w)


@function
def mlp_blocks(x, *w):
    for first in range(0, len(w), 6):
        x = perceptron(x, w[first:first + 6])
    return x


@function
def decode(token, tokens, places, norm, bias, *layers):
    x = F.embedding(token, tokens) + places[-1:]
    for first in range(0, len(layers), 14):
        *w, keys, values = layers[first:first + 14]
        q, k, v = heads_of(F.linear(layer_norm(x, w[0], w[1]), w[2], w[3]), 1, 1)
        keys[:, :, -1:].copy_(k)
        values[:, :, -1:].copy_(v)
        y = F.scaled_dot_product_attention(q, keys, values)
        x = perceptron(x + F.linear(y.transpose(1, 2).reshape(1, 1, -1), w[4], w[5]), w[6:])
    return F.linear(layer_norm(x, norm, bias), tokens)


@function
def mlp_step(p, x, target):
    h = F.relu(F.linear(x, p[0], p[1]))
    return F.cross_entropy(F.linear(F.relu(F.linear(h, p[2], p[3])), p[4], p[5]), target)


@function
def convnet_step(p, x, target):
    h = F.max_pool2d(F.relu(F.conv2d(x, p[0], p[1], padding=1)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, p[2], p[3], padding=1)), 2)
    return F.cross_entropy(F.linear(F.relu(F.linear(h.flatten(1), p[4], p[5])), p[6], p[7]), target)


@function
def gpt2_step(p, ids, target):
    x = F.embedding(ids, p[0]) + F.embedding(torch.arange(ids.shape[1]), p[1])
    for first in range(4, len(p), 12):
        x = block(x, p[first:first + 12])
    logits = F.linear(layer_norm(x, p[2], p[3]), p[0])
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1))


def function_of(row):
    return OF_ROW[row.maker](row) if row.maker in OF_ROW else FUNCTIONS.get(row.maker)


def tensors(work):
    """Inputs and parameters, in memory of PyTorch's own."""
    arrays = work.arrays()
    return [[torch.from_numpy(a).clone().requires_grad_(spec.leaf) for a, spec in zip(made, specs)]
            for made, specs in zip(arrays, (work.inputs, work.params))]


def no_grad(f):
    def run():
        with torch.no_grad():
            return f()
    return run


def backward_run(call, inputs, leaves, dy):
    def run():
        torch.autograd.grad(call(*inputs), leaves, dy)
    return run


def step_run(call, update, optimizer, params, inputs):
    def run():
        call(params, *inputs).backward()
        update()
        optimizer.zero_grad(set_to_none=True)
    return run


def optimizer_of(params):
    return torch.optim.AdamW(params, lr=1e-3, foreach=True)


def run_net(row, wrap):
    net, inputs, training = nets.make(row)
    call = wrap(net)
    if not training:
        return no_grad(lambda: nets.first_output(call(**inputs)))
    leaves = [p for p in net.parameters() if p.requires_grad]
    with torch.no_grad():
        dy = torch.randn_like(nets.first_output(net(**inputs)))
    return lambda: torch.autograd.grad(nets.first_output(call(**inputs)), leaves, dy, allow_unused=True)


def run_of(row, wrap):
    """A function of no arguments that does the row's work once; wrap: what compiles, or gives back what it gets."""
    if row.is_net:
        return run_net(row, wrap)
    work = rows.work_of(row)
    inputs, params = tensors(work)
    if work.kind == "overhead":
        return OVERHEADS[row.maker](*inputs)
    if row.maker == "adamw":
        params = [torch.nn.Parameter(p.detach()) for p in params]
        for p in params:
            p.grad = torch.randn_like(p)
        return wrap(optimizer_of(params).step)
    f = function_of(row)
    call = wrap(f)
    if work.kind in ("forward", "call"):
        return no_grad(lambda: call(*inputs))
    if work.kind == "backward":
        with torch.no_grad():
            y = f(*inputs)
        return backward_run(call, inputs, [x for x in inputs if x.requires_grad], torch.randn_like(y) if y.dim() else None)
    optimizer = optimizer_of(params)
    return step_run(call, wrap(optimizer.step), optimizer, params, inputs)
