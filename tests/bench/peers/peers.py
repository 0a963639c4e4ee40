"""peers.py: `./dev bench --peers`: every row of bench_peers.def by Sinter, PyTorch, JAX and ONNX Runtime, in turn.

    peers.py --sinter BUILD [--quick] [--threads 1,2] [--rounds N] [--seconds S] [--minutes M] [--peers NAME,NAME] [--resume]
             [--no-inductor] [--table-only] [--minima] [--page] [--check] [ROW-PREFIX...]

All run on the same cores. Each peer has a process for each heap (as it comes; warm, which gives nothing back to the kernel),
which a crash or the end of --timeout replaces. What is measured is a line of --out/run.jsonl at once; --resume goes on from
there. The table (table.py) is written behind each row that is done.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import select
import signal
import subprocess
import sys
import time

import check
import rows
import table

HERE = pathlib.Path(__file__).resolve().parent
WARM_HEAP = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184",
             "MALLOC_TOP_PAD_": "268435456"}
HEAPS = {"fresh": {}, "warm": WARM_HEAP}
LARGE = 2 << 30
PEERS = {"torch": ("torch", "torch_peer.py"), "jax": ("jax", "jax_peer.py"), "onnx": ("onnxruntime", "onnx_peer.py")}
QUICK = ["eager/add16", "eager/chain100", "call/", "fuse/", "reduce/", "optim/", "gemm/", "conv/dw_", "conv/r18_1_cl", "conv/r18_4",
         "attn/causal_fwd_1024", "attn/decode_1024", "model/mlp_step", "model/gpt2_block_fwd"]


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def processor():
    """Its name as the kernel has it, with the numbers that tell generations of one name apart."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = {key: re.search(rf"^{key}\s*: (.*)$", text, re.M) for key in ("model name", "cpu family", "model")}
    word = {key: match.group(1) if match else "?" for key, match in found.items()}
    return f"{word['model name']}, family {word['cpu family']}, model {word['model']}"


class Worker:
    """A peer's process on some cores; started when it is first asked, and again when it has ended."""

    def __init__(self, command, cores, environment):
        self.command, self.cores, self.environment, self.process = command, cores, environment, None

    def start(self):
        cores = set(self.cores)
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env={**os.environ, **self.environment}, cwd=HERE,
                                        start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def end(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def lines(self, stop):
        """Of its stdout, until the time is over or the process has ended."""
        text = b""
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, stop - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not part:
                return
            *whole, text = (text + part).split(b"\n")
            yield from map(json.loads, whole)

    def ask(self, request, timeout):
        """What was answered, with an error where that is not all."""
        if not self.process or self.process.poll() is not None:
            self.start()
        stop, answer = time.monotonic() + timeout, {}
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            for line in self.lines(stop):
                if "done" in line:
                    return answer
                answer |= line
        except BrokenPipeError:
            pass
        over = time.monotonic() >= stop
        code = None if over else self.process.wait()
        self.end()
        return answer | {"error": f"no answer in {timeout:.0f} s" if over else f"the process ended ({code})"}

    def end_if_large(self):
        """What a row of many parameters leaves in a heap that gives nothing back."""
        if self.process and self.process.poll() is None:
            pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
            if pages * os.sysconf("SC_PAGE_SIZE") > LARGE:
                self.end()


class Sinter:
    """The tool, a process for each row and round."""

    def __init__(self, build, threads, cores):
        self.tool, self.threads, self.cores = build / "bin/sinter", threads, cores

    def run(self, arguments, timeout, **environment):
        cores = set(self.cores)
        command = [self.tool, "bench", "--json", f"--threads={self.threads}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment},
                              preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no word"])[-1])
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def ask(self, request, timeout):
        row = rows.ROWS[request["row"]]
        few = ["--repeats=2", "--warmup=1"] if row.flops > 5e9 else [f"--seconds={request['seconds']}", "--warmup=2"]
        try:
            found = [line for line in self.run([*few, row.name], timeout) if line["row"] == row.name]
        except subprocess.TimeoutExpired:
            return {"error": f"no answer in {timeout:.0f} s"}
        except (RuntimeError, OSError, json.JSONDecodeError) as error:
            return {"error": str(error)[:200]}
        return found[-1] if found else {"error": "no such row"}

    def end(self):
        """No process is left."""

    end_if_large = end


def has(name, worker, row):
    """Whether a system has the row, so that no process is started that would say that it has not."""
    if row.is_net:
        return name != "jax" and not isinstance(worker, Sinter) and (name != "onnx" or not row.sizes[-1])
    kind = rows.work_of(row).kind
    if name == "onnx":
        return kind == "forward"
    return isinstance(worker, Sinter) or name == "torch" or (name == "jax" and kind != "overhead")


def versions(names):
    """Of the peers that are installed; of the others says that they are left out."""
    found = {}
    for name in names:
        package = PEERS[name][0]
        try:
            found[name] = f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            say(f"{package} is not installed: its column is left out")
    return found


def systems_of(options, threads, found):
    """(system, heap, worker) in the order of their turns."""
    cores = options.cores[:threads]
    out = [("sinter", "fresh", Sinter(options.sinter, threads, cores))]
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(options.out / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1",
              "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    ours = check.sinter_environment(options.sinter)
    if "torch" in found:
        command = [sys.executable, HERE / "torch_peer.py", "--threads", str(threads), "--backend=sinter"]
        for more in ({}, {"SINTER_COMPILE": "0"}):  # compiled, eagerly
            out.append(("sinter", "fresh", Worker(command, cores, {**caches, **ours, **more})))
    for name in found:
        more = {"onnx": ["--models", options.out / "onnx"], "torch": ["--backend", options.backend]}.get(name, [])
        command = [sys.executable, HERE / PEERS[name][1], "--threads", str(threads), *more]
        out += [(name, heap, Worker(command, cores, {**caches, **HEAPS[heap]})) for heap in options.heaps]
    return out


def measure_row(options, row, threads, systems, write):
    """All rounds; a system that fails is not asked again."""
    left = [system for system in systems if has(system[0], system[2], row)]
    for turn in range(options.rounds):
        for system in list(left):
            name, heap, worker = system
            answer = worker.ask({"row": row.name, "seconds": options.seconds}, options.timeout)
            if "missing" in answer or "error" in answer:
                left.remove(system)
            if "missing" not in answer:
                write({"system": name, "heap": heap, "row": row.name, "threads": threads, "round": turn,
                       **{key: value for key, value in answer.items() if key not in ("peer", "row", "threads")}})
    for _, _, worker in systems:
        worker.end_if_large()


def probe(options, threads, write):
    tool = Sinter(options.sinter, threads, options.cores[:threads])
    write({"system": "probe", **tool.run(["--probes"], 120)[0]})


def done_rows(run):
    return {(line["row"], line["threads"]) for line in run if line["system"] == "done"}


def whole_rows(run):
    """Without those in whose midst a run was ended."""
    done = done_rows(run)
    return [line for line in run if "row" not in line or (line["row"], line["threads"]) in done]


def measure_rows(options, chosen, threads, systems, run, write):
    for i, row in enumerate(chosen):
        if (row.name, threads) in done_rows(run):
            continue
        if time.monotonic() > options.stop:
            say(f"{options.minutes:g} minutes are over at {row.name} on {threads} threads: --resume goes on from there")
            break
        measure_row(options, row, threads, systems, write)
        write({"system": "done", "row": row.name, "threads": threads})
        print(f"[{i + 1}/{len(chosen)}] {table.summary(run, row, threads)}", flush=True)
        table.write(options.out, run)


def measure_all(options, chosen, found, run):
    def write(line):
        run.append(line)
        with open(options.out / "run.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    options.stop = time.monotonic() + options.minutes * 60
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    for threads in options.threads:
        probe(options, threads, write)
        systems = systems_of(options, threads, found)
        try:
            measure_rows(options, chosen, threads, systems, run, write)
        finally:
            for _, _, worker in systems:
                worker.end()
        probe(options, threads, write)


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench --peers")
    parser.add_argument("--sinter", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="one thread, one round, one heap, rows that are soon done")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.1, help="of samples of each variant in each round")
    parser.add_argument("--minutes", type=float, default=30, help="begin no row behind them; --resume goes on")
    parser.add_argument("--timeout", type=float, default=240, help="seconds of one row of one peer, with its compile")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--no-inductor", dest="backend", action="store_const", const="none", default="inductor",
                        help="PyTorch eagerly alone: its compiles take most of the time")
    parser.add_argument("--cores", help="1,2,...: those that are used, the first ones that there are")
    parser.add_argument("--resume", action="store_true", help="keep what is measured")
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    parser.add_argument("--minima", action="store_true", help="compare the least samples: on a machine that others use, too")
    parser.add_argument("--page", action="store_true", help="put the table into samples/bench/results, its rows into README.md")
    parser.add_argument("--check", action="store_true", help="compare bits, and values with PyTorch's in f64, instead")
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    options.sinter = options.sinter.resolve()
    options.out = (options.out or options.sinter / "peers").resolve()
    options.heaps = ["warm"] if options.quick else list(HEAPS)
    if options.quick:
        options.threads, options.rounds, options.seconds = "1", 1, min(options.seconds, 0.05)
        options.rows = options.rows or QUICK
    cores = sorted(os.sched_getaffinity(0))
    options.cores = [int(core) for core in options.cores.split(",")] if options.cores else cores
    options.threads = [n for n in map(int, options.threads.split(",")) if n <= len(options.cores)]
    unknown = set(options.peers.split(",")) - set(PEERS) - {""}
    if unknown or not rows.chosen(options.rows):
        parser.error(f"no peer is {sorted(unknown)}" if unknown else f"no row begins with {options.rows}")
    return options


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen, path = rows.chosen(options.rows), options.out / "run.jsonl"
    if options.check:
        sys.exit(check.compare(options.sinter, chosen, options.out, options.cores, say))
    keep = options.resume or options.table_only
    run = [json.loads(line) for line in path.read_text().splitlines()] if keep and path.exists() else []
    run = whole_rows(run) if options.resume else run
    if not keep:
        path.unlink(missing_ok=True)
    if options.table_only:
        run += [{**table.machine_of(run), "minima": options.minima}]
    else:
        found = versions([name for name in PEERS if name in options.peers.split(",")])
        head = {"system": "machine", "processor": processor(), "kernel": platform.release(), "versions": found,
                "day": time.strftime("%Y-%m-%d"), "load": os.getloadavg()[0], "cores": len(options.cores), "minima": options.minima}
        run.append(head)
        with open(path, "a") as file:
            file.write(json.dumps(head) + "\n")
        measure_all(options, chosen, found, run)
    table.write(options.out, run)
    print(table.slower(run))
    if options.page:
        say(table.write_page(HERE.parents[2], run))
    say(f"{options.out}/table.md, table.svg, run.jsonl")


if __name__ == "__main__":
    main()
