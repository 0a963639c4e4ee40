"""onnx_peer.py [--threads N] --models FOLDER: ONNX Runtime's process (worker.py), for rows without a backward.

PyTorch exports each row once, in a process of its own; weights are constants, as in a deployed model.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

import numpy
import onnxruntime

import rows
import worker


def exported(folder, row):
    """A folder of the row's own: the model names the file of its data."""
    made = folder / row.name.replace("/", ".")
    if not made.exists():
        new = made.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        command = [sys.executable, pathlib.Path(__file__).with_name("torch_peer.py"), "--export", new / "model.onnx", row.name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"torch.onnx.export: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
        new.rename(made)
    return made / "model.onnx"


def random_input(random, node):
    if "int64" in node.type:
        return random.integers(3, 10000, node.shape)
    if "bool" in node.type:
        n = node.shape[0]
        return numpy.tri(n, dtype=bool) & ~numpy.tri(n, k=-256, dtype=bool)
    return random.standard_normal(node.shape, dtype=numpy.float32)


def build(threads, folder):
    def of(name):
        row = rows.ROWS[name]
        if row.sizes[-1] != 0 if row.is_net else rows.work_of(row).kind != "forward":
            raise worker.Missing("has a backward, or no kernel")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(exported(folder, row)), options, providers=["CPUExecutionProvider"])
        binding, random = session.io_binding(), numpy.random.default_rng(0)
        for node in session.get_inputs():
            binding.bind_ortvalue_input(node.name, onnxruntime.OrtValue.ortvalue_from_numpy(random_input(random, node)))

        def run():
            for node in session.get_outputs():
                binding.bind_output(node.name)  # memory of its own for each run
            session.run_with_iobinding(binding)
        return {"compiled_ms": worker.Variant(run)}
    return of


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.models.mkdir(parents=True, exist_ok=True)
    worker.serve(build(options.threads, options.models))


if __name__ == "__main__":
    main()
