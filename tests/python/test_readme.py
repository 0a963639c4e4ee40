"""test_readme.py: the programs of frontend/python/README.md run as they stand there, each in a process of its own."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../frontend/python/README.md")


class Readme(unittest.TestCase):
    def test_programs(self):
        with open(README) as f:
            found = re.findall(r"```python\n(.*?)```", f.read(), re.S)
        self.assertEqual(len(found), 3)
        with tempfile.TemporaryDirectory() as folder:
            for program in found:
                out = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
                self.assertEqual(out.returncode, 0, program + out.stderr)
                self.assertNotIn("runs by PyTorch", out.stderr)


if __name__ == "__main__":
    unittest.main()
