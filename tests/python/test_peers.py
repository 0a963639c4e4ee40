"""test_peers.py: what `./dev bench --peers` is made of: every row is read and has a maker on each side, a peer that hangs or crashes
loses its own answer alone, and the table says what was measured."""
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench/peers"
sys.path.insert(0, str(BENCH))

import peers  # noqa: after the path
import rows  # noqa
import table  # noqa
import torch_works  # noqa


class Rows(unittest.TestCase):
    def test_every_line_is_a_row(self):
        names = re.findall(r'^(?:ROW|MODEL)\("([^"]+)"', rows.DEFINITION.read_text(), re.M)
        self.assertGreater(len(names), 90)
        self.assertEqual(list(rows.ROWS), names)

    def test_only_arithmetic_is_computed(self):
        self.assertEqual(rows.number("2.0 * (3 + 4)"), 14)
        with self.assertRaises(ValueError):
            rows.number("__import__('os')")

    def test_every_row_has_makers(self):
        for row in rows.ROWS.values():
            if row.is_net:
                self.assertIn(row.maker, torch_works.nets.MAKERS)
                continue
            work = rows.work_of(row)
            here = torch_works.OVERHEADS if work.kind == "overhead" else torch_works.FUNCTIONS | torch_works.OF_ROW
            self.assertTrue(row.maker in here or row.maker == "adamw", row.name)
            jax = (BENCH / "jax_peer.py").read_text()
            self.assertTrue(work.kind == "overhead" or f"def {row.maker}(" in jax or f'"{row.maker}"' in jax, row.name)

    def test_moved_elements_are_those_of_the_inputs(self):
        """A row of products that is read through once, or one that is fused, says of its inputs how many it reads."""
        for name in ("fuse/silu_mul", "fuse/chain20", "reduce/softmax", "reduce/col_sum", "gemm/64x768x768", "attn/decode_1024"):
            row = rows.ROWS[name]
            elements = sum(numel(spec.shape) for spec in rows.work_of(row).inputs)
            self.assertLess(abs(row.reads / elements - 1), 0.01, name)


def numel(shape):
    n = 1
    for size in shape:
        n *= size
    return n


ECHO = """import sys, json, time, os
def answer(**figures): print(json.dumps(figures), flush=True)
for line in sys.stdin:
 r = json.loads(line)["row"]
"""


class Workers(unittest.TestCase):
    def worker(self, body):
        made = peers.Worker([sys.executable, "-c", ECHO + body], sorted(peers.os.sched_getaffinity(0))[:1], {})
        self.addCleanup(made.end)
        return made

    def test_one_that_hangs_is_replaced(self):
        hangs = self.worker(" time.sleep(600 if r == 'slow' else 0)\n answer(eager_ms=1)\n answer(done=1)")
        self.assertEqual(hangs.ask({"row": "fast"}, 60), {"eager_ms": 1})
        self.assertIn("no answer in 1 s", hangs.ask({"row": "slow"}, 1)["error"])
        self.assertEqual(hangs.ask({"row": "fast"}, 60), {"eager_ms": 1})

    def test_what_came_before_is_kept(self):
        half = self.worker(" answer(eager_ms=3)\n os.abort()")
        self.assertEqual(half.ask({"row": "x"}, 60)["eager_ms"], 3)

    def test_one_that_crashes_is_replaced(self):
        crashes = self.worker(" os.abort() if r == 'bad' else answer(eager_ms=2)\n answer(done=1)")
        self.assertIn("ended", crashes.ask({"row": "bad"}, 60)["error"])
        self.assertEqual(crashes.ask({"row": "good"}, 60), {"eager_ms": 2})


def line(system, row, turn, heap="fresh", **figures):
    return {"system": system, "heap": heap, "row": row, "threads": 1, "round": turn, **figures}


PROBE = {"system": "probe", "threads": 1, "fma_gflops": 100, "l2_bytes": 1 << 20, "l3_bytes": 1 << 25,
         **{f"{level}_{kind}_gbs": 40 for level in ("l2", "l3", "memory") for kind in ("read", "copy", "add")}}
RUN = [PROBE,
       line("sinter", "fuse/silu_mul", 0, eager_ms=20, compiled_ms=10), line("sinter", "fuse/silu_mul", 1, compiled_ms=10),
       line("torch", "fuse/silu_mul", 0, eager_ms=40, compiled_ms=50), line("torch", "fuse/silu_mul", 1, compiled_ms=50),
       line("torch", "fuse/silu_mul", 0, "warm", compiled_ms=15), line("torch", "fuse/silu_mul", 1, "warm", compiled_ms=25),
       line("sinter", "gemm/nn_1024", 0, compiled_ms=30, compiled_ms_min=20), line("jax", "gemm/nn_1024", 0, compiled_ms=24),
       line("sinter", "reduce/softmax", 0, compiled_ms=4), line("jax", "reduce/softmax", 0, compiled_ms=1),
       line("jax", "fuse/chain20", 0, error="the process ended (-6)")]


class Resuming(unittest.TestCase):
    def test_a_row_that_was_cut_off_is_measured_again(self):
        done = {"system": "done", "row": "fuse/silu_mul", "threads": 1}
        run = [PROBE, line("sinter", "fuse/silu_mul", 0), done, line("sinter", "fuse/chain20", 0)]
        self.assertEqual(peers.done_rows(run), {("fuse/silu_mul", 1)})
        self.assertEqual(peers.whole_rows(run), run[:3])


class Table(unittest.TestCase):
    def test_ratio_is_of_the_faster_heap_round_by_round(self):
        compared = table.Compared(RUN, rows.ROWS["fuse/silu_mul"], 1)
        self.assertEqual(compared.ratios, [1.5, 2.5])
        self.assertEqual((compared.best.title, compared.best.heap), ("PyTorch compiled", "warm"))
        self.assertEqual(compared.eager_times, 2)

    def test_share_of_the_probe(self):
        text = table.markdown(RUN)
        moved = 3 * 4096 * 4096 * 4
        self.assertIn(f"{100 * moved / 40e9 / 10e-3:.0f} % memory add", text)
        self.assertIn(f"{100 * 2 * 1024 ** 3 / 100e9 / 30e-3:.0f} % FMA", text)

    def test_slower_rows_worst_first(self):
        lines = table.slower(RUN).splitlines()
        self.assertIn("faster on 2 rows", lines[0])
        self.assertRegex(lines[2], "^- 0.25 reduce/softmax, 1 thread: 4 ms, JAX 1 ms$")
        self.assertRegex(lines[3], "^- 0.80 gemm/nn_1024")

    def test_failures_are_named(self):
        self.assertIn("- fuse/chain20, 1: JAX: the process ended (-6)", table.markdown(RUN))

    def test_minima(self):
        run = [*RUN, {"system": "machine", "processor": "x", "versions": {}, "day": "", "load": 0, "cores": 1, "minima": True}]
        self.assertEqual(table.Compared(run, rows.ROWS["gemm/nn_1024"], 1).times, 1.2)

    def test_lines_of_the_readme(self):
        text = "| row | Sinter |\n|---|---|\n| fuse/silu_mul | old | old | 9 |\n| fuse/chain20 | old | old | 9 |\n"
        lines = table.with_measured_rows(text, RUN).split("\n")
        self.assertEqual(lines[2], "| fuse/silu_mul | 10 ms, 50 % memory add | 20 ms (PyTorch compiled) | 2.0 |")
        self.assertEqual(lines[:2] + lines[3:], text.split("\n")[:2] + text.split("\n")[3:])

    def test_picture_is_xml(self):
        root = xml.etree.ElementTree.fromstring(table.svg(RUN))
        bars = [e for e in root.iter() if e.tag.endswith("rect") and e.get("fill") in ("#2a7", "#c33")]
        self.assertEqual([bar.get("fill") for bar in bars], ["#2a7", "#c33", "#c33"])


if __name__ == "__main__":
    unittest.main()
