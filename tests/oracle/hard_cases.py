"""hard_cases.py FOLDER > hard_cases.txt: of CORE-MATH's published worst cases for f64 (FOLDER: its src/binary64, with
NAME/NAME.wc) those 24 of each function whose result is nearest to where rounding changes, and 24 evenly among the
others; with their exact results, to the 64 bits of a long double.

Lines: NAME X RESULT, or NAME X Y RESULT, as hexadecimal floats. The files list inputs only (CORE-MATH, the libraries of
Lefevre, Zimmermann and others, https://core-math.gitlabpages.inria.fr); the results are computed here, at 320 bits.
"""
import pathlib
import sys

import mpmath

mpmath.mp.prec = 320
HARDEST = EVENLY = 24
AT_MOST = 12000  # of a file, evenly: a function of mpmath takes 50 us
FUNCTIONS = {name: getattr(mpmath, name) for name in (
    "exp expm1 log log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc atan2 hypot").split()}
FUNCTIONS |= {"exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x, 2), "pow": mpmath.power}


def evenly(items, count):
    return items[:: max(1, -(-len(items) // count))]


def inputs(path):
    """as tuples of floats, in the order of the file; infinities and NaNs are left out"""
    found = []
    for line in path.read_text().splitlines():
        words = line.split("#")[0].strip().split(",")
        if not all("0x" in word for word in words):
            continue
        found.append(tuple(float.fromhex(word.strip().replace("0x.", "0x0.")) for word in words))
    return list(dict.fromkeys(found))


def rounded(value, bits):
    """to that many bits, denormals of f64 where the value is one"""
    mantissa, exponent = mpmath.frexp(value)
    bits = min(bits, int(exponent) + 1074 + bits - 53)
    scaled = mpmath.ldexp(mantissa, bits)
    return int(mpmath.nint(scaled)), int(exponent) - bits, abs(scaled * 2 - mpmath.nint(scaled * 2))


def hexadecimal(value):
    whole, exponent, _ = rounded(value, 64)
    return f"{'-' if whole < 0 else ''}0x{abs(whole):x}p{exponent:+d}"


def cases(name, path):
    rows = []
    for at in evenly(inputs(path), AT_MOST):
        try:
            exact = FUNCTIONS[name](*map(mpmath.mpf, at))
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        if not isinstance(exact, mpmath.mpf) or not mpmath.isfinite(exact) or exact == 0:
            continue
        exponent = mpmath.frexp(exact)[1]
        if exponent > 1024 or exponent < -1073:
            continue
        distance = rounded(exact, 53)[2]
        rows.append((distance, at, exact))
    rows = [row for row in rows if row[0]]  # what a f64 or a tie is needs no rounding
    rows.sort(key=lambda row: row[0])
    return rows[:HARDEST] + evenly(rows[HARDEST:], EVENLY)


folder = pathlib.Path(sys.argv[1])
for name in sorted(FUNCTIONS):
    for _, at, exact in cases(name, folder / name / f"{name}.wc"):
        print(name, *(x.hex() for x in at), hexadecimal(exact))
