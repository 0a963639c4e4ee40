"""bench_models.py [--training] [MODEL...]: models of models.py: share of nodes in Sinter, time to compile, speed beside eager and inductor.

One line for each model, as it is measured; times are the smallest of several calls, in milliseconds, by as many threads as
--threads says (1). compile: the first call, with Dynamo and AOTAutograd; of it Sinter's own part.
"""
import argparse
import logging
import time
import warnings

import torch
import models
from sinterjit import report, torch_backend


def best(f, seconds=0.5, least=5):
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def step_of(call, net, inputs, training):
    def infer():
        with torch.no_grad():
            models.call(call, inputs)

    def train():
        net.zero_grad()
        models.loss_of(models.call(call, inputs)).backward()

    return train if training else infer


def first_and_best(call, net, inputs, training):
    step = step_of(call, net, inputs, training)
    start = time.perf_counter()
    step()
    first = (time.perf_counter() - start) * 1e3
    return first, best(step)


def measure(name, training, with_inductor):
    net, inputs = models.make(name)
    eager = best(step_of(net, net, inputs, training))
    torch._dynamo.reset()
    torch_backend.reports.clear()
    first, mine = first_and_best(torch.compile(net, backend="sinter", options={"threads": torch.get_num_threads()}), net,
                                 inputs, training)
    counts = report.counts([r for ref in torch_backend.reports if (r := ref())])
    own = (counts["trace_ns"] + counts["passes_ns"] + counts["codegen_ns"]) / 1e6
    line = (f"{name:15} {100 * counts['sinter'] / max(counts['nodes'], 1):6.2f} %  {counts['nodes']:5d} nodes  "
            f"{own:7.0f} of {first:7.0f}  {mine:9.3f}  {eager:9.3f} {eager / mine:5.2f}x")
    if with_inductor:
        torch._dynamo.reset()
        try:
            first, theirs = first_and_best(torch.compile(net, backend="inductor"), net, inputs, training)
            line += f"  {theirs:9.3f} {theirs / mine:5.2f}x  {first:8.0f}"
        except Exception as e:  # noqa: inductor's own failures are a line, too
            line += f"  inductor: {type(e).__name__}"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("models", nargs="*")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch._dynamo.config.allow_rnn = True
    print(f"{'training' if chosen.training else 'inference'}, {chosen.threads} threads; milliseconds\n{'model':15}   nodes in Sinter"
          f"     compile: own, all     sinter      eager         inductor          its compile")
    for name in chosen.models or models.MODELS:
        measure(name, chosen.training, not chosen.no_inductor)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    main()
