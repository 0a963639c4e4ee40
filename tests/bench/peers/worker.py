"""worker.py: the loop of a peer's process: a request is a line of JSON on stdin, the answer some on the stdout it was given.

    {"row": "fuse/silu_mul", "seconds": 0.1}  ->  {"eager_ms": 9.1, "eager_ms_min": 9.0, "eager_ms_spread": 0.02, ...}
                                                  {"compiled_ms": ...}
                                                  {"done": true}

What a row has made (compiled code, tensors) is kept until another row is asked for, so that rounds take turns with other systems.
"""
import gc
import json
import os
import statistics
import sys
import time

MOST_SAMPLES, SHORTEST = 200, 2e-3  # of the latter, in seconds: shorter calls are timed by several


class Missing(Exception):
    """The peer does not have this row."""


class Variant:
    """One way of running a row: its first call apart, then samples."""

    def __init__(self, run, scale=1e3):
        self.run, self.scale, self.first, self.inner = run, scale, None, 1

    def warm_up(self):
        start = time.perf_counter()
        self.run()
        self.first = time.perf_counter() - start
        start = time.perf_counter()
        self.run()
        once = time.perf_counter() - start
        if once < 0.3:
            self.run()
        self.inner = max(1, int(SHORTEST / max(once, 1e-7)))

    def sample(self, seconds):
        if self.first is None:
            self.warm_up()
        samples, stop = [], time.perf_counter() + seconds
        while not samples or (time.perf_counter() < stop and len(samples) < MOST_SAMPLES):
            start = time.perf_counter()
            for _ in range(self.inner):
                self.run()
            samples.append((time.perf_counter() - start) / self.inner * self.scale)
        return samples


def summary(key, samples):
    middle = statistics.median(samples)
    spread = 0.0
    if len(samples) > 3:
        quarters = statistics.quantiles(samples, n=4)
        spread = (quarters[2] - quarters[0]) / middle
    return {key: middle, key + "_min": min(samples), key + "_spread": round(spread, 4)}


def serve(build):
    """build(name) -> {key: Variant}; a key ends with its unit. Answers until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    name, variants = None, {}

    def answer(figures):
        answers.write(json.dumps(figures) + "\n")
        answers.flush()

    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["row"] != name:
                name, variants = None, {}
                gc.collect()
                variants = build(request["row"])
                name = request["row"]
        except Missing as missing:
            answer({"missing": str(missing) or "not written"})
        except Exception as error:  # the driver says so, and goes on
            answer({"error": words(error)})
        for key, variant in variants.items():
            try:
                answer(summary(key, variant.sample(request["seconds"])) | {key + "_first": variant.first * 1e3})
            except Exception as error:  # one way of running fails, another one counts
                answer({key + "_error": words(error)})
        answer({"done": True})


def words(error):
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
