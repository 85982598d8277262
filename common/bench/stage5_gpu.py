#!/usr/bin/env python3
"""Stage 5's steps on a GPU beside PyTorch's attention and what the tensor cores can do at best.

    python3 common/bench/stage5_gpu.py [grid | more | ladder | model] [--steps 4,5i | all]
        [--rounds 15] [--shapes d128,causal,N4096 …] [--build build/release] [--library FILE …]
        [--json FILE]

    grid    d 64 and 128, causal or not, N from 512 to 16384, in float16 (the default)
    more    bfloat16, grouped heads, heads of a token beside each other (BNHd), a window, lengths
            off the tile grid, other d: a step against itself on the plain case
    ladder  all steps at eight shapes, and what each gained over the step before
    model   a step on the Q, K and V of a language model (common/data) against itself on random
            numbers. Those never send a row of an optimistic step (5m and later) through its second
            pass; a model's do where m comes from the first tile alone. fa2, which has no such pass,
            tells what the numbers cost by themselves. Has one shape: not with --shapes

B·N is 16384 and H·d 2048; model's are those of its files, with a batch that fills a GPU. All
compute the same arrays in one process and take turns round by round, because a GPU's clock drifts
with its temperature; ratios are medians of the rounds' ratios. fa2 is PyTorch's FlashAttention-2,
cudnn its other fused kernel, mma one of nothing but mma.sync. TFLOP/s count 4·d a visible pair.
Before anything is timed its output is compared: with fa2's, of a window with the definition's in
some rows. Needs an NVIDIA GPU, PyTorch, and a build with CUDA.
"""

import argparse
import contextlib
import ctypes
import datetime
import json
import math
import pathlib
import statistics
import sys
import warnings
from typing import NamedTuple

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    sys.exit(f"stage5_gpu.py: {error}: PyTorch 2.5 or newer is needed")

TOKENS, WIDTH = 16384, 2048  # B·N and H·d
SAMPLE_S = 5e-3              # a sample is so many calls in a row that it takes about this long
CEILING_ITERATIONS = 5000    # about a millisecond on a large GPU
ROUNDOFF = {"float16": 2**-11, "bfloat16": 2**-8}
DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
LAYERS = (2, 27)             # of the model: one that spreads its weight, one with a sink
REPEATS = 48                 # of its one sequence, along the batch axis


def stop(message):
    sys.exit(f"stage5_gpu.py: {message}")


class Point(NamedTuple):
    """A problem: self-attention of N queries and keys."""
    d: int
    N: int
    causal: bool = False
    dtype: str = "float16"
    group: int = 1         # queries' heads that share a head of K and V
    window: tuple = (-1, -1)
    batch: int = 0         # 0: what makes up TOKENS
    heads: int = 0         # 0: what makes up WIDTH
    layout: str = "BHNd"   # or BNHd: in memory

    @property
    def B(self):
        return self.batch or max(1, round(TOKENS / self.N))

    @property
    def H(self):
        return self.heads or round(WIDTH / self.d)

    @property
    def flop(self):
        left, right = self.window[0], 0 if self.causal else self.window[1]
        pairs = sum((self.N if right < 0 else min(self.N, i + right + 1))
                    - (0 if left < 0 else max(0, i - left)) for i in range(self.N))
        return 4 * self.B * self.H * self.d * pairs

    @property
    def words(self):
        """What --shapes can name."""
        return {f"d{self.d}", f"N{self.N}", self.dtype, self.mask, self.layout,
                "grouped" if self.group > 1 else "ungrouped"}

    @property
    def mask(self):
        return "window" if self.window != (-1, -1) else "causal" if self.causal else "full"

    @property
    def sets(self):
        """How many Q, K and V take turns: several, where one would stay in the GPU's L2 cache."""
        cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or 60e6
        one = 2 * self.B * self.N * self.d * (self.H + 2 * self.H // self.group)
        return 1 if one > cache else 2 + int(cache / one)

    def inputs(self):
        """Sets of random Q, K and V, [B, H, N, d] whatever the layout."""
        def array(heads):
            shape = (self.B, heads, self.N, self.d)
            if self.layout == "BNHd":
                shape = (self.B, self.N, heads, self.d)
            X = torch.randn(shape, device="cuda", dtype=getattr(torch, self.dtype))
            return X if self.layout == "BHNd" else X.transpose(1, 2)
        return [(array(self.H), array(self.H // self.group), array(self.H // self.group))
                for _ in range(self.sets)]

    def facts(self):
        return {"d": self.d, "N": self.N, "B": self.B, "H": self.H,
                "kv_heads": self.H // self.group, "mask": self.mask, "dtype": self.dtype,
                "layout": self.layout}


class Refused(Exception):
    """What a step says instead of computing."""


class Library:
    """The C functions of a libfa_bench_gpu.so."""

    def __init__(self, path, prefix=""):
        try:
            library = ctypes.CDLL(str(pathlib.Path(path).resolve()))
            self._attention, self._ceiling = library.fa_stage5, library.fa_mma_ceiling
            library.fa_stage5_steps.restype = ctypes.c_char_p
            self.labels = library.fa_stage5_steps().decode().split()
        except (OSError, AttributeError) as error:
            stop(f"{error}\nIs that of a build with CUDA and stage 5? CMake's summary says so")
        self.prefix = prefix
        self._attention.restype = self._ceiling.restype = ctypes.c_char_p
        self._attention.argtypes = [ctypes.c_char_p, *[ctypes.c_int] * 2, *[ctypes.c_long] * 6,
                                    ctypes.c_int, *[ctypes.c_long] * 2, ctypes.c_float,
                                    *[ctypes.c_void_p] * 5]
        self._ceiling.argtypes = [ctypes.c_long, ctypes.POINTER(ctypes.c_double)]

    def step(self, label, point, o, lse):
        """The step as a function of q, k and v, which writes into o and lse."""
        before = (label.encode(), int(point.dtype == "bfloat16"), int(point.layout == "BNHd"),
                  point.B, point.H, point.H // point.group, point.N, point.N, point.d,
                  int(point.causal), *point.window, 1 / math.sqrt(point.d))

        def attention(q, k, v):
            problem = self._attention(*before, q.data_ptr(), k.data_ptr(), v.data_ptr(),
                                      o.data_ptr(), lse.data_ptr())
            if problem:
                raise Refused(problem.decode())
        return attention

    def ceiling(self):
        """Launches the kernel of nothing but mma; returns its FLOP."""
        flop = ctypes.c_double()
        problem = self._ceiling(CEILING_ITERATIONS, flop)
        if problem:
            stop(f"mma ceiling: {problem.decode()}")
        return flop.value


class Work:
    """A call that is timed: on the next of its inputs each time, in a context."""

    def __init__(self, call, inputs, flop, context=contextlib.nullcontext):
        self.call, self.inputs, self.flop, self.context = call, inputs, flop, context
        self.repeats = max(1, math.ceil(SAMPLE_S / self.seconds(1)))

    def seconds(self, repeats=None):
        """Of a call, by the GPU's clock."""
        repeats = repeats or self.repeats
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with self.context():
            self.call(*self.inputs[-1])  # while the GPU does this one the others queue up
            start.record()
            for n in range(repeats):
                self.call(*self.inputs[n % len(self.inputs)])
            end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / repeats


def pytorch(backend, point, inputs):
    """PyTorch's attention as Work, and its output for the first input; None where it can't."""
    more = {"enable_gqa": True} if point.group > 1 else {}

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=point.causal, **more)

    def context():
        return sdpa_kernel([backend])
    if point.mask == "window":
        return None, None
    try:
        with warnings.catch_warnings(), context():
            warnings.simplefilter("ignore")  # they say why a kernel can't
            output = attention(*inputs[0])
            torch.cuda.synchronize()
    except RuntimeError as error:
        print(f"stage5_gpu.py: {backend} at {text(point)}: {str(error).splitlines()[0]}",
              file=sys.stderr)
        return None, None
    return Work(attention, inputs, point.flop, context), output


def definition(point, q, k, v, b, h, rows):
    """Some rows of O, in float64."""
    scores = q[b, h, rows].double() @ k[b, h // point.group].double().T / math.sqrt(point.d)
    i, j = rows[:, None], torch.arange(point.N, device=q.device)[None, :]
    left, right = point.window[0], 0 if point.causal else point.window[1]
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if left >= 0:
        hidden |= j < i - left
    if right >= 0:
        hidden |= j > i + right
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v[b, h // point.group].double()


def check(name, point, inputs, o, lse, expected):
    """Stops where the output isn't attention. Poisoned with NaN before, it is all written now."""
    if expected is not None:
        pairs = [(o, expected)]
    else:
        rows = torch.tensor(sorted({*range(64), point.N // 2, *range(point.N - 64, point.N)}),
                            device=o.device)
        pairs = [(o[b, h, rows], definition(point, *inputs, b, h, rows))
                 for b, h in ((0, 0), (point.B - 1, point.H - 1))]
    worst = max(((ours.float() - its.float()).abs() / its.float().abs().clamp(min=1)).max().item()
                for ours, its in pairs)
    if not worst <= 6 * ROUNDOFF[point.dtype] or not torch.isfinite(o).all():
        stop(f"step {name} is off by {worst} at {text(point)}")
    if not torch.isfinite(lse).all():
        stop(f"step {name} leaves a LSE that is not finite at {text(point)}")


def prepared(point, steps, peers=("fa2", "cudnn"), inputs=None):
    """All that computes the point: Work by name, and what a step that refuses says by its name."""
    inputs, works, refused = inputs or point.inputs(), {}, {}
    fa2, expected = pytorch(SDPBackend.FLASH_ATTENTION, point, inputs)
    cudnn, _ = pytorch(SDPBackend.CUDNN_ATTENTION, point, inputs) if "cudnn" in peers else (None, 0)
    works.update((name, work) for name, work in (("fa2", fa2), ("cudnn", cudnn))
                 if work and name in peers)
    for name, (library, label) in steps.items():
        o = torch.full_like(inputs[0][0], math.nan)
        lse = torch.full(o.shape[:3], math.nan, device="cuda")
        call = library.step(label, point, o, lse)
        try:
            call(*inputs[0])
        except Refused as error:
            refused[name] = str(error)
            continue
        check(name, point, inputs[0], o, lse, expected)
        works[name] = Work(call, inputs, point.flop)
    return works, refused


def rates(works, rounds):
    """FLOP/s of each in every round, one after the other, in turn forwards and backwards."""
    results = {name: [] for name in works}
    for turn in range(rounds):
        for name in (works if turn % 2 else reversed(works)):
            results[name].append(works[name].flop / works[name].seconds())
    return results


def ratio(these, those):
    return statistics.median(a / b for a, b in zip(these, those))


def tflops(values):
    return statistics.median(values) / 1e12


def text(point):
    return (f"d {point.d:<3} N {point.N:<5} {point.mask:<6}"
            + (" bf16" if point.dtype == "bfloat16" else "")
            + (f" {point.H}:{point.H // point.group} heads" if point.group > 1 else "")
            + (f" {point.layout}" if point.layout != "BHNd" else ""))


def selected(points, shapes):
    """Those that have all words of one of the filters."""
    filters = [set(shape.split(",")) for shape in shapes or [""]]
    known = set().union(*(point.words for point in points))
    for word in set().union(*filters) - known - {""}:
        stop(f"no point here is '{word}': {', '.join(sorted(known))}")
    kept = [point for point in points if any(f - {""} <= point.words for f in filters)]
    return kept or stop("no point is all of that")


def figures(name, results, peers=True):
    """What a row says of a step."""
    row = {"tflops": tflops(results[name]), "share_of_mma": ratio(results[name], results["mma"])}
    if peers and "fa2" in results:
        row["to_fa2"] = ratio(results[name], results["fa2"])
    return row


def complain_of(refused):
    for name, message in refused.items():
        print(f"    step {name}: {message}")


def grid(steps, mma, args):
    points = selected([Point(d, N, causal) for d in (64, 128) for causal in (False, True)
                       for N in (512, 1024, 2048, 4096, 8192, 16384)], args.shapes)
    print(f"{'TFLOP/s':<20} |    fa2  cudnn    mma |"
          + " |".join(f" {'step ' + name:>7}  x fa2  % mma" for name in steps))
    rows, to_fa2 = [], {name: {} for name in steps}
    for point in points:
        works, refused = prepared(point, steps)
        results = rates({**works, "mma": mma}, args.rounds)
        row = {**point.facts(), "refused": refused}
        cells = []
        for name in ("fa2", "cudnn", "mma"):
            row[f"{name}_tflops"] = tflops(results[name]) if name in results else ""
        for name in steps:
            if name not in results:
                cells.append(f" {'refused':>21}")
                continue
            ours = figures(name, results)
            row.update((f"step{name}_{key}", value) for key, value in ours.items())
            if "to_fa2" in ours:
                to_fa2[name][text(point).strip()] = ours["to_fa2"]
            cells.append(f" {ours['tflops']:>7.1f} {ours.get('to_fa2', math.nan):>6.3f}"
                         f" {100 * ours['share_of_mma']:>6.1f}")
        rows.append(row)
        print(f"{text(point):<20} |" + "".join(
            f" {row[f'{name}_tflops'] or math.nan:>6.1f}" for name in ("fa2", "cudnn", "mma"))
            + " |" + " |".join(cells), flush=True)
        complain_of(refused)
    summary = []
    for name, by_point in to_fa2.items():
        if by_point:
            least = min(by_point, key=by_point.get)
            fastest = max((row for row in rows if f"step{name}_tflops" in row),
                          key=lambda row, key=f"step{name}_tflops": row[key])
            summary.append({"step": name, "points": len(by_point), "least": by_point[least],
                            "geometric_mean": statistics.geometric_mean(by_point.values()),
                            "least_at": least,
                            "most_tflops": fastest[f"step{name}_tflops"]})
            print(f"step {name}: {summary[-1]['geometric_mean']:.3f} x fa2 in the geometric mean of"
                  f" {len(by_point)} points, at least {by_point[least]:.3f} ({least})")
    return {"rows": rows, "summary": summary}


def cases():
    """What is measured, and the plain case that the same step is held against."""
    for d in (64, 128):
        for causal in (False, True):
            plain = Point(d, 4096, causal)
            yield plain._replace(dtype="bfloat16"), plain
            yield plain._replace(group=8), plain
            yield plain._replace(layout="BNHd"), plain
            yield plain._replace(N=4095), plain
            yield plain._replace(N=4097), plain
        plain = Point(d, 16384)
        yield plain._replace(window=(1024, 0)), plain
    for d in (32, 80, 96, 192, 256):
        for causal in (False, True):
            yield Point(d, 4096, causal), Point(128, 4096, causal)


def more(steps, mma, args):
    plain_of = dict(cases())
    print(f"{'':<32} | step | TFLOP/s  plain  x plain | {'time':>6} {'FLOP':>6} x plain |"
          "    fa2  x fa2 | % mma")
    rows = []
    for point in selected(list(plain_of), args.shapes):
        plain = plain_of[point]
        works, refused = prepared(point, steps, peers=("fa2",))
        plain_works, plain_refused = prepared(plain, steps, peers=())
        results = rates({**works, "mma": mma,
                         **{("plain", name): work for name, work in plain_works.items()}},
                        args.rounds)
        for name in steps:
            row = {**point.facts(), "step": name, "plain": text(plain).strip()}
            row["fa2_tflops"] = tflops(results["fa2"]) if "fa2" in results else ""
            rows.append(row)
            if name not in works:
                row["refused"] = refused[name]
                print(f"{text(point):<32} | {name:>4} | {refused[name]}")
                continue
            row.update(figures(name, results))
            row["flop_to_plain"] = point.flop / plain.flop
            if name in plain_works:
                row["plain_tflops"] = tflops(results["plain", name])
                row["to_plain"] = ratio(results[name], results["plain", name])
                row["time_to_plain"] = row["flop_to_plain"] / row["to_plain"]
            nothing = math.nan
            print(f"{text(point):<32} | {name:>4} | {row['tflops']:>7.1f}"
                  f" {row.get('plain_tflops', nothing):>6.1f}"
                  f" {row.get('to_plain', nothing):>8.3f} |"
                  f" {row.get('time_to_plain', nothing):>6.3f} {row['flop_to_plain']:>6.3f}"
                  f" {'':>7} | {row['fa2_tflops'] or nothing:>6.1f}"
                  f" {row.get('to_fa2', nothing):>6.3f} | {100 * row['share_of_mma']:>5.1f}",
                  flush=True)
        complain_of({f"{name} on the plain case": why for name, why in plain_refused.items()
                     if name not in refused})
    return {"rows": rows}


def ladder(steps, mma, args):
    rows = []
    for point in selected([Point(d, N, causal) for d in (64, 128) for causal in (False, True)
                           for N in (4096, 16384)], args.shapes):
        works, refused = prepared(point, steps, peers=("fa2",))
        results = rates({**works, "mma": mma}, args.rounds)
        peers = {name: tflops(results[name]) if name in results else "" for name in ("fa2", "mma")}
        print(f"{text(point).strip()}: fa2 {peers['fa2'] or math.nan:.1f}, mma {peers['mma']:.1f}"
              f" TFLOP/s\n    step TFLOP/s  % mma  x fa2  x step before")
        before = None
        for name in steps:
            row = {**point.facts(), "step": name}
            rows.append(row)
            if name not in works:
                row["refused"] = refused[name]
                continue
            row.update(figures(name, results), **{f"{peer}_tflops": value
                                                  for peer, value in peers.items()})
            row["gain"] = ratio(results[name], results[before]) if before else ""
            print(f"    {name:>4} {row['tflops']:>7.1f} {100 * row['share_of_mma']:>6.1f}"
                  f" {row.get('to_fa2', math.nan):>6.3f}"
                  + (f" {row['gain']:>7.3f}" if before else ""))
            before = name
        complain_of(refused)
        sys.stdout.flush()
    return {"rows": rows}


def read_qkv(path):
    """Q, K and V of a safetensors file: the length of a header in JSON, the header, the numbers."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        stop(error)
    begin = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:begin])
    arrays = []
    for entry in (header[name] for name in "qkv"):
        if entry["dtype"] != "F16":
            stop(f"{path} is not in float16")
        first, end = (begin + offset for offset in entry["data_offsets"])
        arrays.append(torch.frombuffer(bytearray(raw[first:end]), dtype=torch.float16)
                      .reshape(entry["shape"]))
    return arrays


def of_layer(layer):
    """The problem of a layer of the model, and its inputs."""
    arrays = read_qkv(DATA / f"smollm2_layer{layer:02}.safetensors")
    _, heads, N, d = arrays[0].shape
    point = Point(d, N, causal=True, group=heads // arrays[1].shape[1], batch=REPEATS, heads=heads)
    return point, [tuple(array.cuda().repeat(REPEATS, 1, 1, 1) for array in arrays)
                   for _ in range(point.sets)]


def model(steps, mma, args):
    rows = []
    for layer in LAYERS:
        point, inputs = of_layer(layer)
        works, refused = prepared(point, steps, ("fa2",), inputs)
        random_works, _ = prepared(point, steps, ("fa2",))
        timed = {"mma": mma}
        for name, work in works.items():
            timed.update({name: work, ("random", name): random_works[name]})
        results = rates(timed, args.rounds)
        print(f"layer {layer}, {point.B} times: {text(point).strip()}\n"
              f"    step  µs model  random  ratio | TFLOP/s  x fa2  % mma")
        for name in ("fa2", *steps):
            row = {**point.facts(), "layer": layer, "step": name}
            if name not in works:
                if name in refused:
                    rows.append({**row, "refused": refused[name]})
                continue
            for key, those in (("us_model", name), ("us_random", ("random", name))):
                row[key] = 1e6 * point.flop / statistics.median(results[those])
            row["model_to_random"] = ratio(results["random", name], results[name])  # of the times
            row.update(figures(name, results))
            rows.append(row)
            print(f"    {name:>4} {row['us_model']:>9.1f} {row['us_random']:>7.1f}"
                  f" {row['model_to_random']:>6.3f} | {row['tflops']:>7.1f}"
                  f" {row.get('to_fa2', math.nan):>6.3f} {100 * row['share_of_mma']:>6.1f}")
        complain_of(refused)
        sys.stdout.flush()
    return {"rows": rows}


def chosen(libraries, wanted, first):
    """The steps by name: those that were asked for, or the first ones and the last one."""
    steps = {library.prefix + label: (library, label) for library in libraries
             for label in library.labels
             if wanted == "all" or label in (wanted or f"{first},{library.labels[-1]}").split(",")}
    for label in (wanted or "").split(","):
        if label not in ("", "all", *(label for _, label in steps.values())):
            stop(f"no step '{label}': {' '.join(libraries[0].labels)}")
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", nargs="?", default="grid",
                        choices=["grid", "more", "ladder", "model"])
    parser.add_argument("--steps", help="labels with commas between them, or all; step 4 and the"
                        " last one unless said, all of them for the ladder, 5p, 5q, 5r and the last"
                        " one for the model")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shapes", action="append", metavar="WORDS",
                        help="only points that are all of this: d128,causal,N4096; may be repeated;"
                        " not with model")
    parser.add_argument("--build", default="build/release", help="where libfa_bench_gpu.so is")
    parser.add_argument("--library", action="append", metavar="FILE",
                        help="this one instead; of several, all take part")
    parser.add_argument("--json", help="write the table here too")
    args = parser.parse_args()
    if args.rounds < 1:
        stop("--rounds: at least 1")
    if args.what == "model" and args.shapes:
        stop("--shapes: model has one shape, that of its files")
    if not torch.cuda.is_available():
        stop("PyTorch sees no GPU")
    torch.manual_seed(1)
    paths = args.library or [pathlib.Path(args.build, "libfa_bench_gpu.so")]
    libraries = [Library(path, f"{n}:" if n else "") for n, path in enumerate(paths)]
    steps = chosen(libraries, args.steps or ("all" if args.what == "ladder" else None),
                   "5p,5q,5r" if args.what == "model" else "4")
    properties = torch.cuda.get_device_properties(0)
    gpu = f"{properties.name} (cc {properties.major}.{properties.minor})"
    print(f"{gpu}, {properties.multi_processor_count} SMs; PyTorch {torch.__version__}, CUDA"
          f" {torch.version.cuda}; medians of {args.rounds} rounds", flush=True)
    mma = Work(libraries[0].ceiling, [()], libraries[0].ceiling())
    mma.seconds(max(1, int(2 / mma.seconds())))  # two seconds, after which the chip is warm
    modes = {"grid": grid, "more": more, "ladder": ladder, "model": model}
    results = modes[args.what](steps, mma, args)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"gpu": gpu, "sms": properties.multi_processor_count},
             "date": datetime.date.today().isoformat(),
             "command": "python3 " + " ".join(sys.argv), "pytorch": torch.__version__,
             "rounds": args.rounds, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
