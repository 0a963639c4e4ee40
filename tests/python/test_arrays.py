"""test_arrays.py: text graphs and plans with NumPy's arrays: memory is shared, values are right, errors have words."""
import gc
import os
import tempfile
import unittest

import numpy as np
import sinterjit

SQUARE = "graph square(%x: f32[s0,3]) {\n  %0 = aten::mul.Tensor(%x, %x)\n  %1 = aten::add.Tensor(%0, 1)\n  return %1\n}\n"
TWO = "graph two(%x: f32[s0,3]) {\n  %0 = aten::exp(%x)\n  %1 = aten::sum(%x)\n  return %0, %1\n}\n"


class Arrays(unittest.TestCase):
    def test_function(self):
        f = sinterjit.Function(SQUARE)
        for n in (4, 4, 7, 1):
            x = np.random.default_rng(n).standard_normal((n, 3), dtype=np.float32)
            np.testing.assert_array_equal(np.asarray(f(x)), x * x + 1)
        self.assertEqual(f.stats()["calls"], 4)
        self.assertIn("square", f.explain())
        self.assertIn("aten::mul.Tensor", f.dump("capture"))

    def test_every_dtype_both_ways(self):
        for name, dtype in {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
                            "u8": "u1", "bool": "?"}.items():
            x = np.arange(6).reshape(2, 3).astype(dtype)
            t = sinterjit.from_dlpack(x)
            self.assertEqual((t.shape, t.strides, t.dtype, t.data_ptr), ((2, 3), (3, 1), name, x.ctypes.data))
            back = np.from_dlpack(t)
            self.assertEqual((back.dtype, back.ctypes.data), (x.dtype, x.ctypes.data))
            np.testing.assert_array_equal(back, x)

    def test_strides(self):
        x = np.arange(24, dtype=np.float32).reshape(4, 6)
        for view in (x.T, x[::2], x[:, 1::2], x[1:]):
            t = sinterjit.from_dlpack(view)
            self.assertEqual(t.strides, tuple(s // 4 for s in view.strides))
            np.testing.assert_array_equal(np.asarray(t), view)

    def test_memory_lives_as_long_as_anyone_wants_it(self):
        x = np.full(100000, 7, np.float32)
        t = sinterjit.from_dlpack(x)
        del x
        gc.collect()
        array = np.asarray(t)
        del t
        gc.collect()
        self.assertTrue((array == 7).all())

    def test_array_protocol(self):
        t = sinterjit.from_dlpack(np.ones(3, np.float32))
        self.assertEqual(np.asarray(t, dtype=np.float64).dtype, np.float64)
        self.assertNotEqual(np.array(t, copy=True).ctypes.data, t.data_ptr)
        self.assertIn("1.", repr(t))
        with self.assertRaises(BufferError):
            t.__dlpack__()
        with self.assertRaises(BufferError):
            t.__dlpack__(max_version=(1, 0), copy=True)

    def test_numbers_and_several_results(self):
        f = sinterjit.Function("graph f(s0: int, %x: f32[s0,2]) {\n  %0 = aten::view(%x, [s0*2])\n  %1 = aten::exp(%x)\n"
                               "  return %0, %1\n}")
        x = np.ones((5, 2), np.float32)
        flat, e = f(5, x)
        self.assertEqual(flat.shape, (10,))
        np.testing.assert_allclose(np.asarray(e), np.exp(x), rtol=1e-6)

    def test_errors(self):
        f = sinterjit.Function(SQUARE)
        with self.assertRaisesRegex(sinterjit.SinterError, "1 inputs wanted, 2 given"):
            f(np.ones((2, 3), np.float32), np.ones(1, np.float32))
        with self.assertRaises(sinterjit.SinterError):
            f(np.ones((2, 3), np.float64))
        with self.assertRaises(sinterjit.SinterError):
            f(np.ones((2, 4), np.float32))
        np.testing.assert_array_equal(np.asarray(f(np.zeros((2, 3), np.float32))), 1)

    def test_plan(self):
        f, x = sinterjit.Function(SQUARE), np.full((4, 3), 2, np.float32)
        f(x), f(x)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.plan")
            f.save(path)
            np.testing.assert_array_equal(np.asarray(sinterjit.load(path)(x)), np.asarray(f(x)))
            two, lists = os.path.join(folder, "two.plan"), sinterjit.Function(TWO)
            lists(x), lists(x)
            lists.save(two)
            for got, want in zip(sinterjit.load(two)(x), lists(x), strict=True):
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
            with self.assertRaisesRegex(sinterjit.SinterError, "1 arguments and 2 results, now 1 and 3"):
                sinterjit.load(two, results=3)(x)
            with open(path, "r+b") as file:
                file.seek(200)
                file.write(b"\0" * 64)
            with self.assertRaisesRegex(sinterjit.SinterError, "m.plan"):
                sinterjit.load(path)
        with self.assertRaisesRegex(sinterjit.SinterError, "nothing.plan"):
            sinterjit.load("nothing.plan")


if __name__ == "__main__":
    unittest.main()
