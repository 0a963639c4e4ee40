"""test_import.py: importing sinterjit opens neither PyTorch nor NumPy nor the library; wants nothing but Python."""
import sys
import unittest

import sinterjit


def mapped():
    with open("/proc/self/maps") as f:
        return {line.split()[-1] for line in f if "/" in line}


class Import(unittest.TestCase):
    def test_importing_opens_nothing(self):
        self.assertEqual([m for m in ("torch", "numpy", "sympy") if m in sys.modules], [])
        self.assertEqual([m for m in mapped() if "sinter.so" in m or "sinter-llvm" in m or "LLVM" in m], [])

    def test_the_library_is_opened_without_llvm(self):
        from sinterjit import rows
        self.assertGreater(len(rows.table()), 500)
        self.assertTrue([m for m in mapped() if "libsinter.so" in m])
        self.assertEqual([m for m in mapped() if "sinter-llvm" in m or "LLVM" in m], [])
        self.assertNotIn("torch", sys.modules)

    def test_names(self):
        self.assertEqual(set(dir(sinterjit)), set(sinterjit.__all__))
        with self.assertRaisesRegex(AttributeError, "has no attribute 'nothing'"):
            sinterjit.nothing

    def test_errors_have_words(self):
        with self.assertRaisesRegex(sinterjit.SinterError, r"line 2, column 8: no op is called 'aten::ex'"):
            sinterjit.Function("graph f(%x: f32[3]) {\n  %0 = aten::ex(%x)\n  return %0\n}")


if __name__ == "__main__":
    names = ["test_importing_opens_nothing", "test_the_library_is_opened_without_llvm", "test_names", "test_errors_have_words"]
    suite = unittest.TestSuite(Import(n) for n in names)  # the first one first
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
