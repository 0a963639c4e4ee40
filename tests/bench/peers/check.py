"""check.py: `./dev bench --peers --check`: whether Sinter's results of every row are one set of bits, eager and compiled, for every
instruction set and number of threads; and how far they are from PyTorch's in f64.

v2 has no fma and emulates it, a hundred times as slow: rows of more operations than V2_FLOPS are left out there, and said.
"""
import json
import os
import subprocess
import sys
import pathlib

import rows

V2_FLOPS, TIMEOUT, BOUND = 3e9, 600, 1e-4
WAYS = [("v4", 1), ("v4", 2), ("v4", 7), ("v3", 1), ("v3", 2), ("v2", 1), ("v2", 2)]


def usable(isa):
    """v4 of a CPU without AVX-512 would be v3 under another name."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return isa == "v2" or (" avx2 " in flags if isa == "v3" else " avx512vl " in flags)


def digests(tool, row, isa, threads, save=None):
    command = [tool, "bench", "--digest", f"--threads={threads}", *([f"--save={save}"] if save else []), row.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, "SINTER_ISA": isa, "SINTER_CACHE_DIR": "off"})
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no word"])[-1])
    found = [line for line in map(json.loads, done.stdout.splitlines()) if line["row"] == row.name]
    return {f"{isa}, {threads} threads, {way}": found[0][way] for way in ("eager", "compiled")} if found else {}


def compare_bits(tool, row, say):
    """True: all are the same."""
    found = {}
    for isa, threads in WAYS:
        if not usable(isa) or (isa == "v2" and row.flops > V2_FLOPS):
            continue
        try:
            found |= digests(tool, row, isa, threads)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            say(f"{row.name}: {isa}, {threads} threads: {error}")
            return False
    if len(set(found.values())) > 1:
        for way, digest in found.items():
            say(f"{row.name}: {digest} by {way}")
    line = f"{row.name:30} {len(found)} ways, {len(set(found.values()))} digest{'s' * (len(set(found.values())) != 1)}"
    print(line + ("" if row.flops <= V2_FLOPS else ", not v2"), flush=True)
    return len(set(found.values())) <= 1


def compare_values(tool, row, out, say):
    """Against PyTorch in f64: the work is the same one, and right."""
    path = out / "check.safetensors"
    if not digests(tool, row, "v4" if usable("v4") else "v3", 1, path):
        return True
    script = pathlib.Path(__file__).with_name("torch_peer.py")
    done = subprocess.run([sys.executable, script, "--values", str(path), row.name], capture_output=True, text=True,
                          timeout=TIMEOUT)
    path.unlink(missing_ok=True)
    if done.returncode:
        say(f"{row.name}: PyTorch: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
        return False
    worst = json.loads(done.stdout.splitlines()[-1])
    text = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
    print(f"{row.name:30} off PyTorch in f64 by {text}"[:150], flush=True)
    wrong = [name for name, value in worst.items() if not value < BOUND]
    if wrong:
        say(f"{row.name}: {', '.join(wrong)} more than {BOUND:g} of the largest value off")
    return not wrong


def compare(build, chosen, out, cores, say):
    """The exit code."""
    tool, failed = build / "bin/sinter", []
    for row in chosen:
        if row.is_net:
            continue
        if not (compare_bits(tool, row, say) & compare_values(tool, row, out, say)):
            failed.append(row.name)
    if failed:
        say(f"{len(failed)} rows differ: {', '.join(failed)}")
    return 1 if failed else 0
