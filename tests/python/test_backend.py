"""test_backend.py: torch.compile(..., backend="sinter"): what a user relies on, each against PyTorch's own results."""
import logging
import os
import subprocess
import sys
import threading
import unittest

import torch
import torch.nn.functional as F
import sinterjit
from sinterjit import torch_backend

torch.set_num_threads(1)


def compiled(f, **how):
    torch._dynamo.reset()
    return torch.compile(f, backend="sinter", **how)


def programs():
    return [p for ref in torch_backend.reports if (r := ref()) for p in r.programs]


def segments():
    return [s.segment for p in programs() for s in p.steps if hasattr(s, "segment")]


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch_backend.reports.clear()
        torch.manual_seed(1)

    def tearDown(self):
        """No test lets PyTorch run in silence, but those of class Fallback."""
        if not isinstance(self, Fallback):
            self.assertEqual([e for ref in torch_backend.reports if (r := ref()) for e in r.errors], [])
            self.assertEqual([e for p in programs() for e in p.problems], [])

    def near(self, a, b, **how):
        torch.testing.assert_close(a, b, **how)

    def all_in_sinter(self):
        self.assertTrue(programs())
        for p in programs():
            self.assertEqual([r for r in p.reasons.values() if r], [])
            self.assertEqual(p.problems, [])


class Training(Case):
    def test_forward_and_backward(self):
        model, x = net(), torch.randn(6, 8, requires_grad=True)
        c = compiled(model)
        for _ in range(3):
            got = torch.autograd.grad(c(x).pow(2).sum(), [x, *model.parameters()])
            want = torch.autograd.grad(model(x).pow(2).sum(), [x, *model.parameters()])
            self.near(got, want)
        self.all_in_sinter()
        self.assertEqual([p.kind for p in programs()], ["forward", "backward"])

    def test_inference(self):
        model, x = net(), torch.randn(6, 8)
        with torch.no_grad():
            c = compiled(model)
            self.near(c(x), model(x))
            self.near(c(x + 1), model(x + 1))
        with torch.inference_mode():
            self.near(c(x), model(x))
        self.all_in_sinter()

    def test_steps_of_an_optimizer(self):
        for kind in (torch.optim.SGD, torch.optim.AdamW):
            a, b = net(), net()
            opt_a, opt_b = kind(a.parameters(), lr=0.01), kind(b.parameters(), lr=0.01)
            c, step = compiled(a), torch.compile(opt_a.step, backend="sinter")
            for i in range(4):
                x = torch.randn(6, 8)
                for model, call, opt in ((a, c, step), (b, b, opt_b.step)):
                    model.zero_grad()
                    call(x).pow(2).mean().backward()
                    opt()
            for p, q in zip(a.parameters(), b.parameters()):
                self.near(p, q)

    def test_buffers_are_written(self):
        a = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        b = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        b.load_state_dict(a.state_dict())
        where = a[1].running_mean.data_ptr()
        c = compiled(a)
        for _ in range(3):
            x = torch.randn(2, 3, 8, 8)
            self.near(c(x), b(x))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.near(getattr(a[1], name), getattr(b[1], name))
        self.assertEqual(a[1].running_mean.data_ptr(), where)
        self.all_in_sinter()

    def test_inputs_are_written(self):
        def f(x, y):
            x.mul_(2)
            y.add_(x)
            return x + y

        a, b = [torch.ones(4), torch.ones(4)], [torch.ones(4), torch.ones(4)]
        self.near(compiled(f)(*a), f(*b))
        self.near(a, b)

    def test_checkpoint_repeats_random_numbers(self):
        lin = torch.nn.Linear(32, 32)

        def f(x):
            return torch.utils.checkpoint.checkpoint(lambda t: F.dropout(lin(t).relu(), 0.5), x, use_reentrant=False)

        x = torch.randn(4, 32, requires_grad=True)
        y = compiled(f)(x)
        y.sum().backward()
        want = (y != 0).float() * 2  # of relu's positive parts that were kept
        self.near(x.grad, want @ lin.weight)

    def test_autocast(self):
        model, x = net(), torch.randn(6, 8)

        def f(x):
            with torch.autocast("cpu", torch.bfloat16):
                return model(x)

        got, want = compiled(f)(x), f(x)
        self.assertEqual(got.dtype, want.dtype)
        self.near(got, want, atol=2e-2, rtol=2e-2)
        got.float().sum().backward()
        self.all_in_sinter()

    def test_norms_of_bf16_with_f32_weights(self):
        norm = torch.nn.LayerNorm(16)
        x = torch.randn(4, 16, dtype=torch.bfloat16, requires_grad=True)
        f = lambda x: F.layer_norm(x, (16,), norm.weight.bfloat16(), norm.bias.bfloat16())
        got = torch.autograd.grad(compiled(f)(x).float().sum(), [x])
        self.near(got, torch.autograd.grad(f(x).float().sum(), [x]), atol=2e-2, rtol=2e-2)
        with torch.autocast("cpu", torch.bfloat16):
            g = compiled(lambda x: norm(x))
            y = g(x)
            y.float().sum().backward()
        self.assertEqual(segments()[0].stats()["ops_eager"], 0)


class Random(Case):
    def test_dropout_follows_torchs_generator(self):
        f = compiled(lambda x: F.dropout(x, 0.5))
        x = torch.ones(1000)
        torch.manual_seed(3)
        a, b = f(x), f(x)
        torch.manual_seed(3)
        c = f(x)
        self.assertTrue(torch.equal(a, c))
        self.assertFalse(torch.equal(a, b))
        self.assertTrue(350 < (a == 0).sum().item() < 650)
        with torch.random.fork_rng():
            f(x)
        self.assertTrue(torch.equal(f(x), b))
        self.all_in_sinter()

    def test_backward_has_the_mask_of_the_forward(self):
        f = compiled(lambda x: F.dropout(x, 0.3) * 3)
        x = torch.ones(500, requires_grad=True)
        y = f(x)
        y.sum().backward()
        self.near(x.grad, y.detach())


class Shapes(Case):
    def test_dynamic_sizes_compile_once(self):
        model = net()
        c = compiled(model, dynamic=True)
        for n in (3, 5, 9, 4):
            x = torch.randn(n, 8, requires_grad=True)
            got, want = c(x), model(x)
            self.near(got, want)
            self.near(torch.autograd.grad(got.sum(), x), torch.autograd.grad(want.sum(), x))
        self.assertEqual(len(programs()), 2)

    def test_sizes_and_ints_are_results(self):
        f = lambda x, n: (x.reshape(-1, 2) * n, x.shape[0] * 2 + n)
        c = compiled(f, dynamic=True)
        for n, k in ((4, 3), (6, 5), (10, 7)):
            x = torch.randn(n, 4)
            got, want = c(x, k), f(x, k)
            self.near(got[0], want[0])
            self.assertEqual(got[1], want[1])

    def test_a_float_argument_changes(self):
        f = lambda x, a: x * a + a
        c = compiled(f)
        for a in (0.5, 0.25, 3.0, -1.0):
            x = torch.randn(5)
            self.near(c(x, a), f(x, a))

    def test_layouts(self):
        f = lambda x: (x * 2 + 1).transpose(0, 1).contiguous()
        c = compiled(f)
        for x in (torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(8, 6)[::2], torch.randn(4, 12)[:, 1::2]):
            self.near(c(x), f(x))

    def test_empty_and_scalar(self):
        f = lambda x: x.exp().sum() + x.numel()
        for x in (torch.randn(()), torch.randn(0, 3), torch.randn(1, 1)):
            self.near(compiled(f)(x), f(x))

    def test_sizes_that_values_give(self):
        """Each graph is one segment, whose sizes the program knows from its results."""
        def f(x, m):
            places, rows = x.relu().nonzero(), x[m]
            return places[:, 0] * 2, rows.exp().view(-1), rows.masked_select(rows > 0.5) + 1, rows.sum(), places.shape[0] * 3

        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            c = compiled(f, fullgraph=True)
            for n in (5, 9, 13, 4):  # the last: nothing is found
                x = torch.randn(n, 4) - (9 if n == 4 else 0)
                self.near(c(x, x[:, 0] > 0), f(x, x[:, 0] > 0))
        self.all_in_sinter()
        self.assertEqual([len([s for s in p.steps if hasattr(s, "segment")]) for p in programs()], [1] * len(programs()))

    def test_gradients_through_masks(self):
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            for f in (lambda x, m: x.relu()[m].exp() * 2, lambda x, m: x.index_select(0, m.nonzero()[:, 0]).sin(),
                      lambda x, m: x.index_put((m,), x.sum()) * x):
                c = compiled(f, fullgraph=True)
                for n in (5, 9, 13, 4):
                    x = torch.randn(n, 4, requires_grad=True)
                    m = x[:, 0] > (9 if n == 4 else 0)
                    got, want = c(x, m), f(x, m)
                    self.near(got, want)
                    self.near(torch.autograd.grad(got.sum(), x), torch.autograd.grad(want.sum(), x))
                self.all_in_sinter()

    def test_checks_of_what_values_give(self):
        def f(x):
            found = x.nonzero()
            torch._check(found.shape[0] <= 3, lambda: "more than three")
            return found * 2

        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            c = compiled(f, fullgraph=True)
            self.near(c(torch.tensor([[0.0, 1, 2]])), torch.tensor([[0, 2], [0, 4]]))
            with self.assertRaisesRegex(RuntimeError, "more than three"):
                c(torch.ones(3, 2))
            self.near(c(torch.tensor([[0.0, 0, 2]])), torch.tensor([[0, 4]]))
        self.all_in_sinter()

    def test_a_value_as_a_size(self):
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            g = lambda x, n: x[: n.item()] * 2
            c = compiled(g)
            self.near(c(torch.arange(10.0), torch.tensor(4)), g(torch.arange(10.0), torch.tensor(4)))
            self.assertRegex(sinterjit.explain(c), r"_local_scalar_dense.default reads a value")

    def test_items_as_sizes(self):
        """An item stays with PyTorch; segments have its number in sizes and expressions, whichever it is."""
        def f(x, n):
            k = n.item()
            torch._check(k >= 2)
            torch._check(k <= x.shape[0])
            return torch.zeros(k, 3) + x[:k].sum(), torch.arange(2 * k + 1) + k, torch.full((k // 2,), 2.5).cumsum(0)

        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            c = compiled(f)
            for k in (3, 5, 2, 7, 4):
                x = torch.randn(8)
                for got, want in zip(c(x, torch.tensor(k)), f(x, torch.tensor(k)), strict=True):
                    self.near(got, want)


class Fallback(Case):
    def test_what_sinter_lacks_stays_with_pytorch(self):
        f = lambda x: torch.linalg.inv(x @ x.t() + torch.eye(4)).exp().sum()
        x = torch.randn(4, 4, requires_grad=True)
        c = compiled(f)
        self.near(torch.autograd.grad(c(x), x), torch.autograd.grad(f(x), x), rtol=1e-3, atol=1e-3)
        text = sinterjit.explain(c)
        self.assertRegex(text, r"aten\.linalg_inv_ex\.default has no row")
        self.assertRegex(text, r"test_backend\.py:\d+ \(1\)")

    def test_complex_numbers(self):
        f = lambda x: torch.fft.fft(x + 1).abs() * 2
        x = torch.randn(8)
        self.near(compiled(f)(x), f(x))

    def test_errors_are_pytorchs(self):
        f = compiled(lambda t, i: F.embedding(i, t) * 2)
        with self.assertLogs("sinterjit", logging.WARNING), self.assertRaises(IndexError):
            f(torch.randn(4, 2), torch.tensor([7]))
        self.near(f(torch.ones(4, 2), torch.tensor([3])), torch.full((1, 2), 2.0))

    def test_an_error_in_compiling_is_no_users(self):
        old = torch_backend.Program
        torch_backend.Program = lambda *_: 1 / 0
        try:
            with self.assertLogs("sinterjit", logging.WARNING):
                self.near(compiled(lambda x: x + 1)(torch.ones(2)), torch.full((2,), 2.0))
            with self.assertRaises(Exception) as caught:
                compiled(lambda x: x + 1, options={"fallback": "error"})(torch.ones(2))
            self.assertIn("division by zero", str(caught.exception))
        finally:
            torch_backend.Program = old

    def test_wrong_options(self):
        for options in ({"numerics": "loose"}, {"threads": -1}, {"speed": 1}, {"fallback": "none"}):
            with self.assertRaisesRegex(Exception, "sinter: "):
                compiled(lambda x: x + 1, options=options)(torch.ones(2))

    def test_graph_breaks_are_told(self):
        def f(x):
            y = x * 2
            torch._dynamo.graph_break()
            return y + 1

        c = compiled(f)
        c(torch.ones(3))
        self.assertRegex(sinterjit.explain(c), r"graph breaks of torch.compile: 1\n.*test_backend\.py:\d+")


class Options(Case):
    def test_modes_and_options(self):
        model, x = net(), torch.randn(6, 8)
        for how in ({"mode": "reduce-overhead"}, {"mode": "max-autotune"}, {"options": {"numerics": "fast"}},
                    {"options": {"threads": 2, "fallback": "error"}}):
            c = compiled(model, **how)
            for _ in range(3):
                self.near(c(x), model(x))

    def test_bits_do_not_depend_on_threads(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
        x = torch.randn(128, 256)
        results = []
        for n in (1, 2):
            c = compiled(model, options={"threads": n})
            loss = c(x).pow(2).mean()
            results.append([loss.detach(), *torch.autograd.grad(loss, model.parameters())])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*results)))


class Memory(Case):
    def test_nothing_is_copied(self):
        f = compiled(lambda x, w: (x @ w, x.t(), x))
        x, w = torch.randn(64, 64), torch.randn(64, 64)
        y, view, same = f(x, w)
        self.assertEqual(view.data_ptr(), x.data_ptr())
        self.assertEqual(same.data_ptr(), x.data_ptr())
        with torch.profiler.profile(profile_memory=True) as profile:
            f(x, w)
        self.assertEqual([e.key for e in profile.key_averages() if e.self_cpu_memory_usage > 0], [])

    def test_results_outlive_everything(self):
        y = compiled(lambda x: (x * 2).t())(torch.ones(300, 300))
        torch._dynamo.reset()
        import gc
        gc.collect()
        junk = [torch.zeros(300, 300) for _ in range(8)]
        self.assertTrue((y == 2).all())

    def test_inputs_die_early(self):
        """The list of inputs is emptied, and a value is let go of by the step that reads it last."""
        import weakref
        died = []

        c = compiled(lambda x: torch.linalg.inv((x * 2).exp()).sum() + 1)
        c(torch.eye(64))
        program = programs()[0]
        x = torch.eye(64)
        watched, arguments = weakref.ref(x), [None] * (len(program.placeholders) - 1) + [x]  # tokens of effects
        del x
        step = next(s for s in program.steps if s.__class__.__name__ == "TorchStep")
        run = step.run
        step.run = lambda *a: (died.append(watched() is None), run(*a))
        program(arguments)
        self.assertEqual((arguments, died), ([], [True]))

    def test_memory_does_not_grow(self):
        model = net()
        c = compiled(model)
        x = torch.randn(64, 8)

        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * 4096

        for _ in range(200):
            c(x).sum().backward()
        before = resident()
        for _ in range(2000):
            c(x).sum().backward()
        self.assertLess(resident() - before, 8 << 20)


class Threads(Case):
    def test_calls_from_threads(self):
        model, xs = net(), [torch.randn(6, 8) for _ in range(4)]
        c = compiled(model)
        c(xs[0])
        wrong = []

        def work(x):
            want = model(x)
            for _ in range(50):
                if not torch.allclose(c(x), want, atol=1e-5):
                    wrong.append(x)

        threads = [threading.Thread(target=work, args=(x,)) for x in xs]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(wrong, [])

    def test_other_threads_run_while_sinter_computes(self):
        f = compiled(lambda x: torch.linalg.matrix_power(x, 2) if False else x @ x @ x)
        x = torch.randn(1500, 1500)
        f(x)
        ticks, stop = [0], threading.Event()

        def tick():
            while not stop.is_set():
                ticks[0] += 1
                stop.wait(0.001)

        t = threading.Thread(target=tick)
        t.start()
        before = ticks[0]
        f(x)
        during = ticks[0] - before
        stop.set()
        t.join()
        self.assertGreater(during, 3)

    def test_fork(self):
        model, x = net(), torch.randn(6, 8)
        c = compiled(model)
        want = c(x).detach()
        pid = os.fork()
        if pid == 0:
            ok = torch.equal(c(x).detach(), want)
            os._exit(0 if ok else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_data_loader(self):
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, i):
                return torch.full((8,), float(i))

        model = net()
        c = compiled(model)
        for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
            self.near(c(batch), model(batch))


class EntryPoint(unittest.TestCase):
    def test_the_name_is_known_and_loaded_late(self):
        code = ("import torch, sys; assert 'sinter' in torch._dynamo.list_backends(); "
                "assert 'sinterjit' not in sys.modules; "
                "print(torch.compile(lambda x: x + 1, backend='sinter')(torch.ones(2)).tolist()); "
                "assert 'sinterjit' in sys.modules")
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((out.returncode, out.stdout), (0, "[2.0, 2.0]\n"), out.stderr)


if __name__ == "__main__":
    unittest.main()
