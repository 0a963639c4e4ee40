"""check.py: `./dev bench --peers --check`: whether Sinter's results of every row are one set of bits, eager and compiled, for
every instruction set and number of threads; and how far they are from PyTorch's in f64.

v2 has no fma and emulates it, a hundred times as slow: there fused and reduced rows have HEIGHT rows of their tensors, which
are compared with v3 and v4 of as many; others of more operations than V2_FLOPS are left out, and said.
"""
import json
import os
import subprocess
import sys
import pathlib

import rows

V2_FLOPS, HEIGHT, TIMEOUT, BOUND = 2e9, 65, 600, 2e-5
WAYS = [("v4", 1), ("v4", 2), ("v4", 7), ("v3", 1), ("v3", 2)]
SLOW_WAYS = [("v2", 1), ("v2", 2)]


def usable(isa):
    """v4 of a CPU without AVX-512 would be v3 under another name."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return isa == "v2" or (" avx2 " in flags if isa == "v3" else " avx512vl " in flags)


def digests(tool, row, isa, threads, *more):
    command = [tool, "bench", "--digest", f"--threads={threads}", *more, row.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, "SINTER_ISA": isa, "SINTER_CACHE_DIR": "off"})
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no word"])[-1])
    found = [line for line in map(json.loads, done.stdout.splitlines()) if line["row"] == row.name]
    return {f"{isa}, {threads} threads, {way}": found[0][way] for way in ("eager", "compiled")} if found else {}


def net_digests(row, build, isa, threads):
    """Through PyTorch: what its own part computes counts, too, and is named where there is one."""
    script = pathlib.Path(__file__).with_name("torch_peer.py")
    command = [sys.executable, script, "--backend=sinter", f"--threads={threads}", "--digest", row.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **sinter_environment(build), "SINTER_ISA": isa})
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no word"])[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    return {f"{isa}, {threads} threads, {found['nodes']} of its nodes in Sinter": found["digest"]}


def sinter_environment(build):
    return {"SINTERJIT_LIBRARY": str(build / "lib/libsinter.so.0"), "SINTER_CACHE_DIR": "off", "SINTER_CUDA_DRIVER": "none",
            "PYTHONPATH": str(rows.DEFINITION.parents[2] / "frontend/python")}


def compare_ways(build, row, ways, say, *more):
    """The number of ways that gave one digest; 0: they differ."""
    found = {}
    for isa, threads in filter(lambda way: usable(way[0]), ways):
        try:
            if row.is_net:
                found |= net_digests(row, build, isa, threads)
            else:
                found |= digests(build / "bin/sinter", row, isa, threads, *more)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            say(f"{row.name}: {isa}, {threads} threads: {error}")
            return 0
    if len(set(found.values())) <= 1:
        return max(len(found), 1)
    for way, digest in found.items():
        say(f"{row.name}: {digest} by {way}")
    return 0


def compare_bits(build, row, say):
    """True: all are the same."""
    is_lower = not row.flops and row.reads
    is_slow = row.flops > V2_FLOPS or row.is_net or row.maker in ("mlp_step", "convnet_step")
    n = compare_ways(build, row, WAYS + ([] if is_lower or is_slow else SLOW_WAYS), say)
    n_lower = compare_ways(build, row, WAYS + SLOW_WAYS, say, f"--height={HEIGHT}") if is_lower else 1
    text = f"{n} ways" + (f", of {HEIGHT} rows {n_lower}" if is_lower else "") + (", not v2" if is_slow else "")
    print(f"{row.name:30} {text + ': the same bits' if n and n_lower else 'DIFFERS'}", flush=True)
    return bool(n and n_lower)


def compare_values(tool, row, out, say):
    """Against PyTorch in f64: the work is the same one, and right."""
    path = out / "check.safetensors"
    if not digests(tool, row, "v4" if usable("v4") else "v3", 1, f"--save={path}"):
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
    if worst:
        print(f"{row.name:30} off PyTorch in f64 by {text}"[:150], flush=True)
    wrong = [name for name, value in worst.items() if not value < BOUND]
    if wrong:
        say(f"{row.name}: {', '.join(wrong)} more than {BOUND:g} of the largest value off")
    return not wrong


def compare(build, chosen, out, cores, say):
    """The exit code."""
    failed = []
    for row in chosen:
        right = compare_bits(build, row, say)
        if not row.is_net:  # tests/python compares models with PyTorch
            right &= compare_values(build / "bin/sinter", row, out, say)
        if not right:
            failed.append(row.name)
    if failed:
        say(f"{len(failed)} rows differ: {', '.join(failed)}")
    return 1 if failed else 0
