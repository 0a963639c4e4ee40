#!/usr/bin/env python3
"""PyTorch on the rows `sinter bench --device=cuda device/`: one line a row and dtype, times beside a copy of as many bytes.

usage: torch_cuda_rows.py [--bytes N] [ROW-PREFIX ...]
eager, torch.compile and its mode max-autotune; bytes are those that must move, as Sinter counts them.
"""
import argparse
import statistics

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--bytes", type=float, default=1e9)
parser.add_argument("rows", nargs="*")
options = parser.parse_args()


def chain20(x):
    for _ in range(5):
        x = torch.sqrt(torch.abs(torch.tanh(x * 1.01 + 0.5)) + 1)
    return x


def residual_norm(approximate):
    return lambda x, b, r, w, c: F.layer_norm(F.gelu(x + b, approximate=approximate) + r, (x.shape[1],), w, c)


# name: function, columns, tensors read and written, its inputs ("x": a whole one, "v": a row)
ROWS = {
    "silu_mul": (lambda a, b: F.silu(a) * b, 4096, 3, "xx"),
    "bias_gelu_res_ln": (residual_norm("tanh"), 768, 3, "xvxvv"),
    "bias_gelu_erf_res_ln": (residual_norm("none"), 768, 3, "xvxvv"),
    "chain20": (chain20, 1024, 2, "x"),
    "softmax": (lambda x: torch.softmax(x, -1), 1024, 2, "x"),
    "softmax_wide": (lambda x: torch.softmax(x, -1), 50257, 2, "x"),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (x.shape[1],), w, b), 768, 2, "xvv"),
    "row_sum": (lambda x: x.sum(-1), 1024, 1, "x"),
    "col_sum": (lambda x: x.sum(0), 768, 1, "x"),
}


def milliseconds(run):
    """The median of 15 times ten calls, by events."""
    for _ in range(3):
        run()
    times = []
    for _ in range(15):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 10)
    return statistics.median(times)


def main():
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    source = torch.empty(int(options.bytes) // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy_rate = options.bytes / milliseconds(lambda: target.copy_(source)) * 1e-6
    del source, target
    for name, (function, columns, streams, inputs) in ROWS.items():
        for suffix, dtype, size in (("", torch.float32, 4), ("_bf16", torch.bfloat16, 2)):
            row = f"device/{name}{suffix}"
            if options.rows and not any(row.startswith(prefix) for prefix in options.rows):
                continue
            n = max(1, int(options.bytes) // (streams * columns * size))
            made = [torch.randn(*((n, columns) if kind == "x" else (columns,)), device="cuda", dtype=dtype) for kind in inputs]
            line = f"{row:<32}"
            for what, run in (("eager", function), ("compiled", torch.compile(function)),
                              ("max-autotune", torch.compile(function, mode="max-autotune"))):
                with torch.no_grad():
                    ms = milliseconds(lambda: run(*made))
                share = n * columns * size * streams / ms * 1e-4 / copy_rate
                line += f"  {what} {ms:8.4f} ms {share:4.0f} % of a copy"
            print(line, flush=True)
            torch._dynamo.reset()


main()
