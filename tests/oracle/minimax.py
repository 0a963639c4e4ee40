"""minimax.py: coefficients of the polynomials in kernels/cpu/math_*.h. A Remez exchange in 60 digits, of f on [a, b]
with a weight; coefficients are rounded to the type one at a time, the lowest first, and the rest fitted anew.

    python3 minimax.py NAME [TERMS [END...]]    the coefficients, highest first, and the largest weighted error

It needs mpmath. What math_*.h has: exp_f32 6, exp_short 6, exp3 10 (exp_pair_terms), log_short 5, atan_short 7, atan 12,
asin_short 8, asin 14, sinh 7, tanh_f32 7 0.9, erfc_short 13, erfc 25 (whose lowest coefficient is kept as a sum of two),
gelu_far 9, gelu_near 6, slope_near 6.
"""
import sys
from mpmath import *

mp.dps = 60


def solve_on(points, f, weight, basis):
    n = len(basis)
    rows = matrix(n + 1, n + 1)
    right = matrix(n + 1, 1)
    for i, x in enumerate(points):
        for j, p in enumerate(basis):
            rows[i, j] = x ** p
        rows[i, n] = (-1) ** i / weight(x)
        right[i] = f(x)
    found = lu_solve(rows, right)
    return [found[j] for j in range(n)], abs(found[n])


def extrema(error, a, b, n):
    grid = [a + (b - a) * (1 - cos(pi * k / (24 * n))) / 2 for k in range(24 * n + 1)]
    values = [error(x) for x in grid]
    out = []
    for k, v in enumerate(values):
        if out and sign(v) == sign(out[-1][1]):
            if abs(v) > abs(out[-1][1]):
                out[-1] = (grid[k], v)
        elif v != 0:
            out.append((grid[k], v))
    while len(out) > n:
        out.pop(0 if abs(out[0][1]) < abs(out[-1][1]) else -1)
    return [x for x, _ in out], max(abs(v) for v in values)


def remez(f, weight, a, b, powers):
    n = len(powers)
    points = [a + (b - a) * (1 - cos(pi * (2 * k + 1) / (2 * (n + 1)))) / 2 for k in range(n + 1)]
    for _ in range(12):
        found, level = solve_on(points, f, weight, powers)
        error = lambda x: (f(x) - sum(c * x ** p for c, p in zip(found, powers))) * weight(x)
        fresh, worst = extrema(error, a, b, n + 1)
        if len(fresh) < n + 1 or worst < level * mpf('1.0005'):
            break
        points = fresh
    return found, worst


def rounded(c, digits):
    if c == 0:
        return c
    m, e = frexp(c)
    return ldexp(nint(ldexp(m, digits)), e - digits)


def fit(f, weight, a, b, n, digits):
    """n terms of powers 0..n-1, rounded to so many bits."""
    a, b = mpf(a), mpf(b)
    fixed, left = [], list(range(n))
    if a < 0: # not a Chebyshev system without the lowest power
        found, _ = remez(f, weight, a, b, left)
        fixed, left = [(p, rounded(c, digits)) for p, c in zip(left, found)], []
    while left:
        rest = lambda x: f(x) - sum(c * x ** p for p, c in fixed)
        found, _ = remez(rest, weight, a, b, left)
        fixed.append((left.pop(0), rounded(found[0], digits)))
    grid = [a + (b - a) * k / 997 for k in range(998)]
    worst = max(abs((f(x) - sum(c * x ** p for p, c in fixed)) * weight(x)) for x in grid)
    return [c for _, c in reversed(fixed)], worst


def fit_squares(f, weight, a, b, n, digits):
    """As fit, of a and b beside 0: the rest is fitted by least squares where powers are no Chebyshev system."""
    points = [(a + b) / 2 + (b - a) / 2 * cos(pi * (k + mpf(1) / 2) / 96) for k in range(96)]
    scale = [weight(x) for x in points]
    fixed, left = [], list(range(n))
    while left:
        rest = [w * (f(x) - sum(c * x ** p for p, c in fixed)) for x, w in zip(points, scale)]
        found, _ = qr_solve(matrix([[w * x ** p for p in left] for x, w in zip(points, scale)]), matrix(rest))
        fixed.append((left.pop(0), rounded(found[0], digits)))
    worst = max(abs((f(x) - sum(c * x ** p for p, c in fixed)) * w) for x, w in zip(points, scale))
    return [c for _, c in reversed(fixed)], worst


def exp_tail(x):
    return (expm1(x) - x) / (x * x) if abs(x) > mpf(10) ** -15 else mpf(1) / 2 + x / 6

def atan_tail(z):
    x = sqrt(z)
    return (atan(x) / x - 1) / z if z > mpf(10) ** -20 else -mpf(1) / 3 + z / 5

def asin_tail(z):
    x = sqrt(z)
    return (asin(x) / x - 1) / z if z > mpf(10) ** -20 else mpf(1) / 6 + 3 * z / 40

def sinh_tail(z):
    x = sqrt(z)
    return (sinh(x) / x - 1) / z if z > mpf(10) ** -20 else mpf(1) / 6 + z / 120

def tanh_tail(z):
    x = sqrt(z)
    return (tanh(x) / x - 1) / z if z > mpf(10) ** -20 else -mpf(1) / 3 + 2 * z / 15

def log_tail(z):
    x = sqrt(z)
    return (2 * atanh(x) - 2 * x) / (x * z) if z > mpf(10) ** -20 else mpf(2) / 3 + 2 * z / 5

def erfcx(x):
    return exp(x * x) * erfc(x)

@memoize
def erfcx_at(c, u):
    """(1 + 2 x) e^(x^2) erfc(x) in u = (x - c) / (x + c)"""
    x = c * (1 + u) / (1 - u)
    return (1 + 2 * x) * erfcx(x)

LOG_Z = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf('1.0001')
HALF_LN2 = log(mpf(2)) / 2 * mpf('1.001')
T8 = tan(pi / 8) * mpf('1.0001')
def exp_tail3(x):
    return (expm1(x) - x - x * x / 2) / x ** 3 if abs(x) > mpf(10) ** -12 else mpf(1) / 6 + x / 24

def fit_erfc(n, center, low, top):
    c = mpf(center)
    ends = [(mpf(x) - c) / (mpf(x) + c) for x in (low or 0, top)]
    return fit(lambda u: erfcx_at(c, u), lambda u: 1 / erfcx_at(c, u), ends[0], ends[1], n, 53)

DENSITY = 1 / sqrt(2 * pi)

def gelu_far(x):
    """x (1 - Phi(x)) e^(x^2/2)"""
    return x / 2 * erfcx(x / sqrt(mpf(2)))

def gelu_near(z):
    """(Phi(x) - 1/2) / x, z = x^2"""
    x = sqrt(z)
    return erf(x / sqrt(mpf(2))) / 2 / x if z > mpf(10) ** -20 else DENSITY * (1 - z / 6)

def slope_near(z):
    return gelu_near(z) + DENSITY * exp(-z / 2)

def fit_gelu_far(n, center, low, top):
    c = mpf(center)
    at = memoize(lambda v: gelu_far(c * (1 + v) / (1 - v)))
    ends = [(mpf(x) - c) / (mpf(x) + c) for x in (low, top)]
    return fit_squares(at, lambda v: 1 / at(v), ends[0], ends[1], n, 24)

rows = {
    'gelu_far': lambda n=9, c='4.0', low='1.0', top='15.0': fit_gelu_far(n, c, low, top),
    'gelu_near': lambda n=6, e='1.0': fit(gelu_near, lambda z: 1, 0, mpf(e) ** 2, n, 24),
    'slope_near': lambda n=6, e='1.0': fit(slope_near, lambda z: 1, 0, mpf(e) ** 2, n, 24),
    'exp3': lambda n=9: fit(exp_tail3, lambda x: mpf('0.042'), -HALF_LN2, HALF_LN2, n, 53),
    'erfc_short': lambda n=13, c='2.0', top='10.1': fit_erfc(n, c, None, top),
    'erfc': lambda n=25, c='3.0', low='0.5', top='27.3': fit_erfc(n, c, low, top),
    'exp_f32': lambda n=6: fit(exp_tail, lambda x: mpf('0.12'), -HALF_LN2, HALF_LN2, n, 24),
    'exp_short': lambda n=6: fit(exp_tail, lambda x: mpf("0.12"), -HALF_LN2, HALF_LN2, n, 53),
    'log_short': lambda n=5: fit(log_tail, lambda z: z, 0, LOG_Z, n, 53),
    'atan_short': lambda n=8: fit(atan_tail, lambda z: z, 0, T8 ** 2, n, 53),
    'atan': lambda n=12: fit(atan_tail, lambda z: z, 0, T8 ** 2, n, 53),
    'asin_short': lambda n=9: fit(asin_tail, lambda z: z, 0, mpf('0.2501'), n, 53),
    'asin': lambda n=13: fit(asin_tail, lambda z: z, 0, mpf('0.2501'), n, 53),
    'sinh': lambda n=8: fit(sinh_tail, lambda z: z, 0, mpf('1.01'), n, 53),
    'tanh_f32': lambda n=8, e='0.95': fit(tanh_tail, lambda z: z, 0, mpf(e) ** 2, int(n), 24),
    'tanh': lambda n=14, e='0.8': fit(tanh_tail, lambda z: z, 0, mpf(e) ** 2, int(n), 53),
}
if __name__ == '__main__':
    got, worst = rows[sys.argv[1]](*[(int(a) if '.' not in a else a) for a in sys.argv[2:]])
    for c in got:
        print(float(c).hex() + ',', end=' ')
    print('\nerror 2^%.2f' % float(log(worst, 2) if worst else -999))
