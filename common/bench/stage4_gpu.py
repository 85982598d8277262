#!/usr/bin/env python3
"""Stage 4 on a GPU beside PyTorch's attention, unfused and fused, in one run.

    python3 common/bench/stage4_gpu.py [--build build/release] [--json FILE]

All compute the same arrays, taking turns round by round, because a GPU's clock drifts with its
temperature. Fused is PyTorch's FlashAttention-2 in float16, and its memory-efficient kernel in
float32, which the former doesn't take. A fourth in the round is a float32 product of PyTorch's library without tensor
cores: what those units of the chip do at best. TFLOP/s count 4·d a visible pair. Memory is what is
handed out beside Q, K, V and O. Needs an NVIDIA GPU, PyTorch, and a build with CUDA.
"""

import argparse
import ctypes
import datetime
import json
import math
import pathlib
import statistics
import subprocess
import sys

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    sys.exit(f"stage4_gpu.py: {error}: PyTorch 2.3 or newer is needed")

SHAPES = [(dtype, *shape, causal) for dtype in ("float32", "float16")
          for shape in ((4, 32, 4096, 64), (4, 16, 4096, 128)) for causal in (False, True)]
PRODUCT = 4096  # rows and columns of the float32 product


def stop(message):
    sys.exit(f"stage4_gpu.py: {message}")


def load_stage4(build):
    path = pathlib.Path(build, "libfa_bench_gpu.so").resolve()
    try:
        function = ctypes.CDLL(str(path)).fa_stage4
    except OSError as error:
        stop(f"{error}\nIs {build} a build with CUDA? CMake's summary says so")
    function.restype = ctypes.c_char_p

    def stage4(q, k, v, causal):
        o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device=q.device)
        problem = function(int(q.dtype == torch.float16),
                           *(ctypes.c_long(size) for size in q.shape), int(causal),
                           ctypes.c_float(1 / math.sqrt(q.shape[3])),
                           *(ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, o, lse)))
        if problem:
            stop(f"stage 4: {problem.decode()}")
        return o
    return stage4


def pytorch(*backends):
    def attention(q, k, v, causal):
        with sdpa_kernel(list(backends)):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return attention


def seconds_of(work):
    """Seconds by the GPU's clock, and what the work returned."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    result = work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3, result


def extra_bytes(work, result_bytes):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = work()
    torch.cuda.synchronize()
    del result
    return torch.cuda.max_memory_allocated() - before - result_bytes


def nvidia_smi(query):
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={query}",
                               "--format=csv,noheader,nounits"], capture_output=True, text=True,
                              check=True, timeout=20)
        return float(done.stdout.splitlines()[0])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        print(f"stage4_gpu.py: nvidia-smi {query}: {error}", file=sys.stderr)
        return None


def peak_tflops(properties, clock_mhz):
    """Multiply-adds in float32 without tensor cores: lanes · 2 · clock."""
    lanes = 64 if properties.major == 7 or (properties.major, properties.minor) == (8, 0) else 128
    return properties.multi_processor_count * lanes * 2 * clock_mhz / 1e6


def measure(contenders, shape, rounds):
    dtype, B, H, N, d, causal = shape
    q, k, v = (torch.randn(B, H, N, d, device="cuda", dtype=getattr(torch, dtype)) for _ in range(3))
    a, b = (torch.randn(PRODUCT, PRODUCT, device="cuda") for _ in range(2))
    works = {name: lambda work=work: work(q, k, v, causal) for name, work in contenders.items()}
    row = {"dtype": dtype, "shape": f"B {B}, H {H}, N {N:,}, d {d}", "causal": causal}
    results = {}
    for name, work in works.items():
        work()  # warm up, and libraries allocate their work space
        row[f"{name}_memory"] = extra_bytes(work, q.numel() * q.element_size())
        results[name] = work().float()
    differences = [float((results["stage4"] - results[name]).abs().max()) for name in results]
    del results
    row["max_difference"] = max(differences)
    if not row["max_difference"] < 5e-3:
        stop(f"stage 4 and PyTorch differ by {row['max_difference']} at {row['shape']}")
    works["product"] = lambda: a @ b
    works["product"]()
    times = {name: [] for name in works}
    for turn in range(rounds):
        for name in (works if turn % 2 else reversed(works)):
            times[name].append(seconds_of(works[name])[0])
    for _ in range(min(100, int(1 / statistics.median(times["stage4"])) + 1)):
        works["stage4"]()  # a second of work, in which the clock is read
    clock = nvidia_smi("clocks.sm")
    torch.cuda.synchronize()
    pairs = N * (N + 1) // 2 if causal else N * N
    flop = 4 * d * B * H * pairs
    for name in contenders:
        row[f"{name}_time"] = statistics.median(times[name])
        row[f"{name}_tflops"] = flop / row[f"{name}_time"] / 1e12
    for name in ("unfused", "fused"):
        row[f"speed_to_{name}"] = statistics.median(
            its / ours for ours, its in zip(times["stage4"], times[name]))
    product = [2 * PRODUCT**3 / seconds / 1e12 for seconds in times["product"]]
    row["product_tflops"] = statistics.median(product)
    row["share_of_product"] = statistics.median(
        flop / ours / 1e12 / its for ours, its in zip(times["stage4"], product))
    row["clock_mhz"] = clock if clock is not None else ""
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build/release", help="where libfa_bench_gpu.so is")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="write the table here too")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        stop("PyTorch sees no GPU")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    properties = torch.cuda.get_device_properties(0)
    contenders = {"stage4": load_stage4(args.build), "unfused": pytorch(SDPBackend.MATH),
                  "fused": pytorch(SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)}
    gpu = f"{properties.name} (cc {properties.major}.{properties.minor})"
    clock = nvidia_smi("clocks.max.sm") or getattr(properties, "clock_rate", 0) / 1e3
    peak = peak_tflops(properties, clock) if clock else None
    print(f"{gpu}, {properties.multi_processor_count} SMs; PyTorch {torch.__version__}, CUDA"
          f" {torch.version.cuda}; medians of {args.rounds} rounds"
          + (f"; float32 peak {peak:.1f} TFLOP/s at {clock:.0f} MHz" if peak else ""))
    print(f"{'':<34} | {'stage 4':>9} {'unfused':>9} {'fused':>9} ms |"
          f" {'stage 4':>7} {'unfused':>7} {'fused':>7} product TFLOP/s | extra MB")
    rows = []
    for shape in SHAPES:
        try:
            row = measure(contenders, shape, args.rounds)
        except RuntimeError as error:  # out of memory on a small GPU, say
            print(f"stage4_gpu.py: {shape}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        row["share_of_peak"] = row["stage4_tflops"] / peak if peak else ""
        rows.append(row)
        names = list(contenders)
        print(f"{row['dtype'] + ' ' + row['shape'] + (' causal' if row['causal'] else ''):<34} |"
              + "".join(f" {row[f'{name}_time'] * 1e3:>9.3f}" for name in names) + "    |"
              + "".join(f" {row[f'{name}_tflops']:>7.1f}" for name in names)
              + f" {row['product_tflops']:>7.1f}         |"
              + "".join(f" {row[f'{name}_memory'] / 1e6:>8.1f}" for name in names), flush=True)
    if not rows:
        stop("nothing could be measured")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"gpu": gpu, "sms": properties.multi_processor_count},
             "date": datetime.date.today().isoformat(),
             "command": "python3 " + " ".join(sys.argv), "pytorch": torch.__version__,
             "rounds": args.rounds, "peak_tflops": peak if peak else 0,
             "max_clock_mhz": clock if clock else 0, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
