"""torch_folds.py > folds.txt: reductions, losses and norms of a few numbers, of moderate size and at both ends of the
range: exact results and gradients (at 1,600 bits), and how far PyTorch's CPU results lie from them.

Lines: NAME DTYPE N X*N Y*N M EXACT*M SIZE*M GRADIENT*N SIZE*N ULPS ULPS, numbers in hexadecimal. The gradient is that of the
results' sum, each times WEIGHTS, by X. A SIZE is what units of the last place are of: the exact value, or, where that
is larger, what each argument adds by its own size, sum |x dr/dx|: errors of a sum that cancels are measured by its terms.
The last two are PyTorch's largest errors in such units, of the results and of the gradient.
"""
import math

import mpmath
import torch

mp = mpmath.mp
mp.prec = 1600
N = 5
WEIGHTS = [1.0, -0.5, 0.25, 2.0, -1.25]
F = torch.nn.functional


def mean(x):
    return mpmath.fsum(x) / len(x)


def var(x, correction=1):
    m = mean(x)
    return mpmath.fsum((v - m) ** 2 for v in x) / (len(x) - correction)


def exp(v):
    """0 where adding it to 1 would need the memory of a machine"""
    return mpmath.exp(v) if v > -5000 else mpmath.mpf(0)


def softplus(v):
    return mpmath.log(1 + exp(v)) if v < 4000 else v


def norm(x, p):
    return mpmath.fsum(abs(v) ** p for v in x) ** (mpmath.mpf(1) / p)


def logsumexp(x):
    m = max(x)
    return m + mpmath.log(mpmath.fsum(exp(v - m) for v in x))


def smooth(d, beta):
    return d * d / 2 / beta if abs(d) < beta else abs(d) - mpmath.mpf(beta) / 2


EPS = mpmath.mpf(float(torch.tensor(1e-5, dtype=torch.float64)))


def normed(x):
    m, root = mean(x), mpmath.sqrt(var(x, 0) + EPS)
    return [(v - m) / root for v in x]


EXACT = {
    "sum": lambda x, y: [mpmath.fsum(x)],
    "mean": lambda x, y: [mean(x)],
    "var": lambda x, y: [var(x)],
    "std": lambda x, y: [mpmath.sqrt(var(x))],
    "logsumexp": lambda x, y: [logsumexp(x)],
    "softmax": lambda x, y: (lambda whole: [exp(v - whole) for v in x])(logsumexp(x)),
    "log_softmax": lambda x, y: (lambda whole: [v - whole for v in x])(logsumexp(x)),
    "norm_1": lambda x, y: [norm(x, 1)],
    "norm_2": lambda x, y: [norm(x, 2)],
    "norm_3": lambda x, y: [norm(x, 3)],
    "norm_half": lambda x, y: [norm(x, mpmath.mpf(0.5))],
    "cosine_similarity": lambda x, y: [mpmath.fsum(a * b for a, b in zip(x, y)) / norm(x, 2) / norm(y, 2)],
    "mse_loss": lambda x, y: [mean([(a - b) ** 2 for a, b in zip(x, y)])],
    "l1_loss": lambda x, y: [mean([abs(a - b) for a, b in zip(x, y)])],
    "smooth_l1_loss": lambda x, y: [mean([smooth(a - b, 0.5) for a, b in zip(x, y)])],
    "huber_loss": lambda x, y: [mean([smooth(a - b, 0.5) / 2 for a, b in zip(x, y)])],
    "soft_margin_loss": lambda x, y: [mean([softplus(-a * b) for a, b in zip(x, y)])],
    "binary_cross_entropy": lambda x, y: [mean([-b * mpmath.log(a) - (1 - b) * mpmath.log(1 - a) for a, b in zip(x, y)])],
    "with_logits": lambda x, y: [mean([(1 - b) * a + softplus(-a) for a, b in zip(x, y)])],
    "cross_entropy": lambda x, y: [logsumexp(x) - x[2]],
    "layer_norm": lambda x, y: normed(x),
    "rms_norm": lambda x, y: (lambda root: [v / root for v in x])(mpmath.sqrt(mean([u * u for u in x]) + EPS)),
    "batch_norm": lambda x, y: normed(x),
}
TORCH = {
    "sum": lambda x, y: x.sum(0),
    "mean": lambda x, y: x.mean(0),
    "var": lambda x, y: x.var(0),
    "std": lambda x, y: x.std(0),
    "logsumexp": lambda x, y: x.logsumexp(0),
    "softmax": lambda x, y: x.softmax(0),
    "log_softmax": lambda x, y: x.log_softmax(0),
    "norm_1": lambda x, y: torch.linalg.vector_norm(x, 1),
    "norm_2": lambda x, y: torch.linalg.vector_norm(x),
    "norm_3": lambda x, y: torch.linalg.vector_norm(x, 3),
    "norm_half": lambda x, y: torch.linalg.vector_norm(x, 0.5),
    "cosine_similarity": lambda x, y: F.cosine_similarity(x, y, 0, 0.0),
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
    "huber_loss": lambda x, y: F.huber_loss(x, y, delta=0.5),
    "soft_margin_loss": F.soft_margin_loss,
    "binary_cross_entropy": F.binary_cross_entropy,
    "with_logits": F.binary_cross_entropy_with_logits,
    "cross_entropy": lambda x, y: F.cross_entropy(x, torch.tensor(2)),
    "layer_norm": lambda x, y: F.layer_norm(x, [N], eps=1e-5),
    "rms_norm": lambda x, y: F.rms_norm(x, [N], eps=1e-5),
    "batch_norm": lambda x, y: F.batch_norm(x[:, None], None, None, training=True, eps=1e-5)[:, 0],
}
UNIT = {"binary_cross_entropy"}  # probabilities
SIGNS = {"soft_margin_loss"}  # targets -1 and 1
TARGETS = {"with_logits"} | UNIT  # from 0 to 1
# Squares of values from 1.8e19 (1.3e154) on overflow there, as in PyTorch: a sum in a wider type would slow what is hot.
MODERATE = {"layer_norm", "rms_norm", "batch_norm"}


# Their differences would need steps below 1: f64 as large as f32.
EXPONENTIAL = {"logsumexp", "softmax", "log_softmax", "cross_entropy", "soft_margin_loss", "with_logits"}


def inputs(name, dtype):
    """pairs of lists: moderate, shifted, of many sizes, near the ends"""
    torch.manual_seed(7)
    one = torch.randn(N, dtype=torch.float64)
    two = torch.randn(N, dtype=torch.float64)
    narrow = dtype == torch.float32
    most = torch.finfo(dtype).max
    if name in UNIT:
        rows = [(torch.sigmoid(one * s), torch.sigmoid(two)) for s in (1, 0.01, 3, 5)]
    else:
        sizes = [1, 100, 1e-3, 1e-7]
        rows = [(one * s, two * s) for s in sizes] + [(one + 1000, two + 1000), (one * 0.001 + 4, two), (one * 20, two)]
        if name not in MODERATE:
            if name in EXPONENTIAL:
                most, narrow = torch.finfo(torch.float32).max, True
            ends = [most / 64, 1e30 if narrow else 1e200, 1e-30 if narrow else 1e-200, 1e-41 if narrow else 1e-310]
            if name == "cosine_similarity":
                ends = ends[:3]  # norms of denormals have few digits
            rows += [(one * s / 2, two * s / 2) for s in ends]
            spread = 10.0 ** torch.linspace(-30, 25, N, dtype=torch.float64)
            rows += [(one * spread, two * spread.flip(0))]
    if name in TARGETS and name not in UNIT:
        rows = [(x, torch.sigmoid(two)) for x, _ in rows]
    if name in SIGNS:
        rows = [(x, torch.sign(two)) for x, _ in rows]
    return [(x.to(dtype), y.to(dtype)) for x, y in rows]


TERMS = {  # of results, of gradients
    "softmax": (lambda x: [0] * N, lambda x: EXACT["softmax"](x, x)),
    "log_softmax": (lambda x: [1] * N, lambda x: [1] * N),
    "cross_entropy": (lambda x: [1], lambda x: [1] * N),
}


def with_terms(name, part, x, sizes):
    return [max(a, mpmath.mpf(b)) for a, b in zip(sizes, TERMS[name][part](x))] if name in TERMS else sizes


def derivative(f, x, i):
    """of a list of numbers by x[i]: central differences of numbers with 1,600 bits"""
    step = mpmath.ldexp(max(abs(x[i]), mpmath.mpf(2) ** -1080), -400)
    up, down = list(x), list(x)
    up[i], down[i] = x[i] + step, x[i] - step
    return [(a - b) / (2 * step) for a, b in zip(f(up), f(down))]


def condition(f, x, y):
    """sum |x dr/dx| of each result, over both arguments"""
    both = list(x) + list(y)
    total = None
    for i in range(len(both)):
        rows = [abs(v * both[i]) for v in derivative(lambda b: f(b[:N], b[N:]), both, i)]
        total = rows if total is None else [a + b for a, b in zip(total, rows)]
    return total


def gradient(name):
    f = EXACT[name]
    weigh = lambda r: mpmath.fsum(w * v for w, v in zip(WEIGHTS, r))
    return lambda x, y: [derivative(lambda u: [weigh(f(u, y))], x, i)[0] for i in range(N)]


def unit(size, dtype):
    digits, least, most = (24, -149, 128) if dtype == torch.float32 else (53, -1074, 1024)
    exponent = int(mpmath.frexp(size)[1]) if size else -5000
    return mpmath.ldexp(1, min(max(exponent - digits, least), most - digits))


def ulps(got, exact, size, dtype):
    worst = 0.0
    beyond = mpmath.ldexp(1, 128 if dtype == torch.float32 else 1024)
    for g, e, s in zip(got, exact, size):
        if math.isnan(g):
            return 1e30
        held = max(-beyond, min(beyond, e))
        given = mpmath.mpf(g) if math.isfinite(g) else math.copysign(1, g) * beyond
        worst = max(worst, float(abs(given - held) / unit(min(max(abs(e), s), beyond / 2), dtype)))
    return min(worst, 1e30)


def hexadecimal(value):
    if not value:
        return "0x0p+0"
    mantissa, exponent = mpmath.frexp(value)
    whole = int(mpmath.nint(mpmath.ldexp(mantissa, 64)))
    return f"{'-' if whole < 0 else ''}0x{abs(whole):x}p{int(exponent) - 64:+d}"


def run(name, x, y):
    x = x.clone().requires_grad_()
    r = TORCH[name](x, y)
    flat = r.reshape(-1)
    (flat * torch.tensor(WEIGHTS[: flat.numel()], dtype=r.dtype)).sum().backward()
    return flat.tolist(), x.grad.tolist()


torch.set_num_threads(1)
for name in EXACT:
    slope = gradient(name)
    for dtype in (torch.float32, torch.float64):
        for x, y in inputs(name, dtype):
            exact_x, exact_y = [mpmath.mpf(v) for v in x.tolist()], [mpmath.mpf(v) for v in y.tolist()]
            exact, slopes = EXACT[name](exact_x, exact_y), slope(exact_x, exact_y)
            sizes = [condition(f, exact_x, exact_y) for f in (EXACT[name], slope)]
            sizes = [with_terms(name, part, exact_x, sizes[part]) for part in (0, 1)]
            got = run(name, x, y)
            print(name, "f32" if dtype == torch.float32 else "f64", N, *(v.hex() for v in x.tolist() + y.tolist()), len(exact),
                  *map(hexadecimal, exact + sizes[0] + slopes + sizes[1]),
                  f"{ulps(got[0], exact, sizes[0], dtype):.3g} {ulps(got[1], slopes, sizes[1], dtype):.3g}", flush=True)
