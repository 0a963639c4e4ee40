"""table.py: a run of peers.py as Markdown and SVG: each row's best of each system, times the fastest peer's over Sinter's.

Of a system a figure is the median of its rounds, in the heap that is faster; the ratio is taken round by round. A row that is
measured by what it moves has its share of the probe of the memory in which its data lies, one of products of the FMA probe.
"""
import html
import math
import re
import statistics

import rows

UNITS = {"eager_ns": "ns", "call_ns": "ns", "eager_ms": "ms", "compiled_ms": "ms"}
NAMES = {"torch": "PyTorch", "jax": "JAX", "onnx": "ONNX Runtime", "sinter": "Sinter"}
LEVELS = {"l2": "L2", "l3": "L3", "memory": "memory"}
TITLES = {"eager_ns": "eager", "eager_ms": "eager", "compiled_ms": "compiled", "call_ns": "compiled"}


class Figure:
    """What one system takes in one way: the better heap. suffix: "", or "_min", the least of each round's samples."""

    def __init__(self, system, key, by_heap, suffix):
        self.system, self.key = system, key
        value = lambda line: line.get(key + suffix, line[key])  # noqa: E731
        self.heap, lines = min(by_heap.items(), key=lambda item: statistics.median(map(value, item[1])))
        self.by_round = {line["round"]: value(line) for line in lines}
        self.value = statistics.median(self.by_round.values())
        self.spread = max(line.get(key + "_spread", 0) for line in lines)

    @property
    def title(self):
        return NAMES[self.system] + (f" {TITLES[self.key]}" if self.system in ("torch", "sinter") else "")


def figures(run, row, threads):
    """By (system, key)."""
    found = {}
    for line in run:
        if line.get("row") != row.name or line["threads"] != threads:
            continue
        for key in UNITS:
            if line.get(key, 0) > 0:
                found.setdefault((line["system"], key), {}).setdefault(line["heap"], []).append(line)
    suffix = "_min" if machine_of(run).get("minima") else ""
    return {at: Figure(*at, by_heap, suffix) for at, by_heap in found.items()}


class Compared:
    """A row on so many threads."""

    def __init__(self, run, row, threads):
        self.row, self.threads, self.all = row, threads, figures(run, row, threads)
        mine = [f for (system, _), f in self.all.items() if system == "sinter"]
        theirs = [f for (system, _), f in self.all.items() if system != "sinter"]
        self.mine = min(mine, key=lambda f: f.value, default=None)
        self.best = min(theirs, key=lambda f: f.value, default=None)
        self.ratios = []
        if self.mine and self.best:
            rounds = self.mine.by_round.keys() & self.best.by_round.keys()
            self.ratios = sorted(self.best.by_round[i] / self.mine.by_round[i] for i in rounds)
        self.errors = {(line["system"], value) for line in run for key, value in line.items()
                       if line.get("row") == row.name and line["threads"] == threads and key.endswith("error")}

    @property
    def times(self):
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def eager_times(self):
        for key in ("eager_ms", "eager_ns"):
            ours, theirs = self.all.get(("sinter", key)), self.all.get(("torch", key))
            if ours and theirs:
                return theirs.value / ours.value
        return None


def probe_of(run, threads):
    """The best of what was found before the rows and behind them."""
    found = [line for line in run if line["system"] == "probe" and line["threads"] == threads]
    return {key: value if isinstance(value, str) else max(line[key] for line in found)
            for key, value in found[-1].items()} if found else None


def share(compared, probe):
    """The row's share of its probe, and which one: of products by fma, of what is moved by the level and the kind of pass."""
    row, mine = compared.row, compared.mine
    if not mine or not probe or UNITS[mine.key] != "ms":
        return ""
    moved = 4 * (row.reads + row.writes)
    level = "l2" if moved <= probe["l2_bytes"] / 2 else "l3" if moved <= probe["l3_bytes"] / 2 else "memory"
    kind = "read" if row.writes < 0.1 * row.reads else "copy" if row.reads < 1.5 * row.writes else "add"
    by_bytes = moved / probe[f"{level}_{kind}_gbs"] * 1e-6
    by_flops = row.flops / probe["fma_gflops"] * 1e-6
    if not max(by_bytes, by_flops):
        return ""
    word = f"{LEVELS[level]} {kind}" if by_bytes > by_flops else "FMA"
    return f"{100 * max(by_bytes, by_flops) / mine.value:.0f} % {word}"


def shown(figure):
    if figure is None:
        return ""
    return f"{figure.value:.0f}" + " " + UNITS[figure.key] if figure.value >= 100 else f"{figure.value:.3g} {UNITS[figure.key]}"


COLUMNS = [("sinter", ("eager_ms", "eager_ns")), ("sinter", ("compiled_ms", "call_ns")), ("torch", ("eager_ms", "eager_ns")),
           ("torch", ("compiled_ms", "call_ns")), ("jax", ("compiled_ms", "call_ns")), ("onnx", ("compiled_ms",))]


def table_line(compared, probe):
    cells = [compared.row.name]
    for system, keys in COLUMNS:
        cells.append(shown(next((compared.all[system, key] for key in keys if (system, key) in compared.all), None)))
    times = compared.times
    bold = "**" if times is not None and times < 1 else ""
    around = f" ({compared.ratios[0]:.2f}-{compared.ratios[-1]:.2f})" if len(compared.ratios) > 1 else ""
    cells.append(f"{bold}{times:.2f}{bold}{around}" if times is not None else "")
    cells.append(f"{compared.eager_times:.2f}" if compared.eager_times else "")
    spreads = [f.spread for f in (compared.mine, compared.best) if f]
    cells.append(f"{100 * max(spreads):.0f} %" if spreads else "")
    cells.append(share(compared, probe))
    return "| " + " | ".join(cells) + " |"


def compared_rows(run):
    """Those that are measured, in the order of the definition, on 1 thread first."""
    names = {(line["threads"], line["row"]) for line in run if "round" in line}
    return [Compared(run, row, threads) for threads in sorted({t for t, _ in names}) for row in rows.ROWS.values()
            if (threads, row.name) in names]


def machine_of(run):
    found = [line for line in run if line["system"] == "machine"]
    return found[-1] if found else {"processor": "?", "versions": {}, "day": "?", "load": 0, "cores": 0}


def probe_text(probe):
    levels = [f"{word} {' / '.join(format(probe[f'{level}_{kind}_gbs'], '.0f') for kind in ('read', 'copy', 'add'))}"
              for level, word in LEVELS.items()]
    return (f"Probes on {probe['threads']} thread{'s' * (probe['threads'] > 1)}: FMA {probe['fma_gflops']:.0f} GFLOP/s; read / "
            f"copy / add in GB/s: {', '.join(levels)}.")


def markdown(run):
    machine, everything = machine_of(run), compared_rows(run)
    out = [f"# {machine['processor']}", "",
           f"By `./dev bench --peers`, {machine['day']}, on {machine['cores']} cores, load {machine['load']:.1f} when it began: "
           f"{', '.join(machine['versions'].values())}. {'Least samples' if machine.get('minima') else 'Medians'} of rounds in "
           "turn; peers in the faster of both heaps. Times: the fastest peer's over Sinter's (least and most of a round); eager: "
           "PyTorch's eager over Sinter's.", ""]
    for threads in sorted({c.threads for c in everything}):
        probe = probe_of(run, threads)
        out += [probe_text(probe), ""] if probe else []
        heads = ["row"] + [f"{NAMES[system]}{' ' + TITLES[keys[0]] if system in ('sinter', 'torch') else ''}"
                           for system, keys in COLUMNS] + ["times", "eager", "spread", "of probe"]
        out += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        out += [table_line(c, probe) for c in everything if c.threads == threads] + [""]
    out += [slower(run), ""]
    errors = [f"- {c.row.name}, {c.threads}: {NAMES[system]}: {text}" for c in everything for system, text in sorted(c.errors)]
    return "\n".join(out + (["What failed:", "", *errors, ""] if errors else []))


def slower(run):
    """Rows on which a peer is faster, the worst first."""
    found = sorted((c for c in compared_rows(run) if c.times is not None and c.times < 1), key=lambda c: c.times)
    lines = [f"- {c.times:.2f} {c.row.name}, {c.threads} thread{'s' * (c.threads > 1)}: {shown(c.mine)}, {c.best.title} "
             f"{shown(c.best)}" for c in found]
    return "\n".join([f"A peer is faster on {len(found)} rows:", "", *lines])


def summary(run, row, threads):
    c = Compared(run, row, threads)
    line = f"{row.name:30} {threads}  sinter {shown(c.mine) or '-':>10}"
    if c.times is not None:
        line += f"  {c.best.title:>16} {shown(c.best):>10}  {c.times:.2f}  {share(c, probe_of(run, threads))}"
    return line + "".join(f"\n    {NAMES[system]}: {text}" for system, text in sorted(c.errors))


# The picture ---------------------------------------------------------------------------------------------------------

LEFT, WIDTH, LINE, TOP, LEAST, MOST = 250, 500, 15, 60, 0.25, 8


def x_of(times):
    at = math.log(min(max(times, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + at * WIDTH


def bar(c, y):
    x, one = x_of(c.times), x_of(1)
    colour = "#2a7" if c.times >= 1 else "#c33"
    name = html.escape(f"{c.row.name}" + (f", {c.threads} threads" if c.threads > 1 else ""))
    ends = [x_of(c.ratios[0]), x_of(c.ratios[-1])]
    return (f'<text x="{LEFT - 6}" y="{y + 10}" text-anchor="end">{name}</text>'
            f'<rect x="{min(x, one):.1f}" y="{y + 2}" width="{abs(x - one):.1f}" height="{LINE - 5}" fill="{colour}"/>'
            f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y + 7}" y2="{y + 7}" stroke="#000"/>'
            f'<text x="{max(x, one) + 5:.1f}" y="{y + 10}">{c.times:.2f} {html.escape(c.best.title)}</text>')


def svg(run):
    found, machine = [c for c in compared_rows(run) if c.times is not None], machine_of(run)
    height = TOP + LINE * len(found) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 190}" height="{height}" font-family="sans-serif" '
           'font-size="11">', '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="10" y="20" font-size="14">The fastest peer\'s time over Sinter\'s: {html.escape(machine["processor"])}, '
           f'{machine["day"]}</text>']
    for times in (0.25, 0.5, 1, 2, 4, 8):
        out.append(f'<line x1="{x_of(times):.1f}" x2="{x_of(times):.1f}" y1="{TOP - 8}" y2="{height - 20}" '
                   f'stroke="{"#000" if times == 1 else "#ddd"}"/><text x="{x_of(times):.1f}" y="{TOP - 14}" '
                   f'text-anchor="middle">{times:g}</text>')
    out += [bar(c, TOP + LINE * i) for i, c in enumerate(found)]
    return "\n".join(out + ["</svg>", ""])


def write_page(root, run):
    """The table and the picture under the CPU's name; in the root README the lines of rows that it has. Where they are."""
    name = re.sub("[^a-z0-9]+", "_", machine_of(run)["processor"].lower()).strip("_")
    folder = root / "samples/bench/results"
    (folder / f"{name}.svg").write_text(svg(run))
    head, *rest = markdown(run).split("\n")
    (folder / f"{name}.md").write_text("\n".join([head, "", f"![times by row]({name}.svg)", *rest]))
    readme = root / "README.md"
    readme.write_text(with_measured_rows(readme.read_text(), run))
    return f"{folder / name}.md, {readme}"


def with_measured_rows(text, run):
    """Lines "| row | ours | fastest peer | times |" of rows on one thread."""
    out = []
    for line in text.split("\n"):
        found = re.match(r"\| ([a-z0-9]+/[a-z0-9_]+) \|", line)
        c = Compared(run, rows.ROWS[found[1]], 1) if found and found[1] in rows.ROWS else None
        if c and c.times is not None:
            of = share(c, probe_of(run, 1))
            line = f"| {found[1]} | {shown(c.mine)}{', ' + of if of else ''} | {shown(c.best)} ({c.best.title}) | {c.times:.1f} |"
        out.append(line)
    return "\n".join(out)


def write(folder, run):
    (folder / "table.md").write_text(markdown(run))
    (folder / "table.svg").write_text(svg(run))
