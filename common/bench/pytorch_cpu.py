#!/usr/bin/env python3
"""Stage 3 beside PyTorch's fused CPU attention and a large Eigen product, in one run.

    python3 common/bench/pytorch_cpu.py [--build build/release] [--json FILE]

Both sides compute the same arrays in float32, taking turns round by round, because a machine's
clock drifts by more than the difference between them. What counts is the median of the rounds'
ratios; the GFLOP/s (visible pairs only) are medians too. Needs PyTorch.
"""

import argparse
import ctypes
import datetime
import json
import os
import platform
import statistics
import sys
import time

import numpy as np

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("pytorch_cpu.py: PyTorch is not installed: python3 -m pip install torch")


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


class Stages:
    """The C functions of libfa_bench and libfa_eigen_product."""

    def __init__(self, build):
        self.lib = ctypes.CDLL(os.path.abspath(os.path.join(build, "libfa_bench.so")))
        self.lib.fa_run.restype = ctypes.c_double
        self.eigen = ctypes.CDLL(os.path.abspath(os.path.join(build, "libfa_eigen_product.so")))
        self.eigen.fa_eigen_product.restype = ctypes.c_double
        self.eigen.fa_tile_products.restype = ctypes.c_double

    def run(self, stage, q, k, v, o, lse, causal, threads, tile):
        """Seconds of one run; q, k, v, o [B, H, N, d] and lse [B, H, N] are float32 arrays."""
        B, H, N, d = (ctypes.c_long(size) for size in q.shape)
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (q, k, v, o, lse)]
        seconds = self.lib.fa_run(stage, B, H, N, d, int(causal), threads,
                                  ctypes.c_long(tile[0]), ctypes.c_long(tile[1]), *pointers)
        if seconds < 0:
            sys.exit(f"pytorch_cpu.py: stage {stage} failed")
        return seconds

    def product(self, n, threads):
        """Seconds of one n x n x n product."""
        return self.eigen.fa_eigen_product(ctypes.c_long(n), threads)

    def tile_products(self, H, N, d, tile):
        """Seconds of the products of stage 3's tiles, packed by Eigen, no mask, one thread."""
        return self.eigen.fa_tile_products(*(ctypes.c_long(size) for size in (H, N, d, *tile)))

    def default_tile(self, queries):
        Br, Bc = ctypes.c_long(), ctypes.c_long()
        self.lib.fa_default_tile(ctypes.c_long(queries), ctypes.byref(Br), ctypes.byref(Bc))
        return Br.value, Bc.value


def visible_pairs(N, causal):
    return N * (N + 1) // 2 if causal else N * N


def measure(stages, N, d, causal, threads, rounds, seed, tile=(0, 0), B=1, H=8):
    """One row: stage 3 and PyTorch in turn, with an Eigen product of the same FLOP between them."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((B, H, N, d), dtype=np.float32) for _ in range(3))
    o, lse = np.full_like(q, np.nan), np.full((B, H, N), np.nan, np.float32)
    tq, tk, tv = (torch.from_numpy(x) for x in (q, k, v))
    torch.set_num_threads(threads)

    def pytorch():
        start = time.perf_counter()
        result = F.scaled_dot_product_attention(tq, tk, tv, is_causal=causal)
        return time.perf_counter() - start, result

    used = tile if tile[0] else stages.default_tile(B * H * N)
    ours, theirs, product, alone = [], [], [], []
    product_n = 2048
    for turn in range(rounds + 2):
        for name in (("ours", "theirs", "product") if turn % 2 else ("theirs", "ours", "product")):
            time.sleep(0.002)  # lets the other side's idle threads stop spinning
            if name == "ours":
                seconds = stages.run(3, q, k, v, o, lse, causal, threads, tile)
                bucket = ours
            elif name == "theirs":
                seconds, result = pytorch()
                bucket = theirs
            else:
                seconds = stages.product(product_n, threads)
                bucket = product
            if turn >= 2:  # the first two rounds warm up
                bucket.append(seconds)
        if threads == 1 and not causal and turn >= 2:
            alone.append(stages.tile_products(B * H, N, d, used))
    flop = 4 * d * B * H * visible_pairs(N, causal)
    difference = float(np.abs(result.numpy() - o).max())
    if not difference < 1e-4:
        sys.exit(f"pytorch_cpu.py: stage 3 and PyTorch differ by {difference} at N={N} d={d} causal={causal}")
    return {
        "N": N, "d": d, "causal": causal, "threads": threads, "Br": used[0], "Bc": used[1],
        "stage3_gflops": flop / statistics.median(ours) / 1e9,
        "pytorch_gflops": flop / statistics.median(theirs) / 1e9,
        "eigen_gflops": 2 * product_n**3 / statistics.median(product) / 1e9,
        "products_alone_gflops": flop / statistics.median(alone) / 1e9 if alone else "",
        "products_alone_ratio": statistics.median(t / s for s, t in zip(alone, theirs)) if alone else "",
        "ratio": statistics.median(t / s for s, t in zip(ours, theirs)),
        "ratio_spread": [round(float(x), 3) for x in np.quantile([t / s for s, t in zip(ours, theirs)], [0.25, 0.75])],
        "share_of_eigen": statistics.median(flop / s / (2 * product_n**3 / p) for s, p in zip(ours, product)),
        "max_difference": difference,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release", help="where libfa_bench.so is")
    parser.add_argument("--threads", default="", help="comma-separated; default: 1 and all cores")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tiles", default="", help="BrxBc,BrxBc,…: sweep instead of the default tile")
    parser.add_argument("--full-only", action="store_true", help="only the shapes without a mask")
    parser.add_argument("--json", help="write the table here too")
    args = parser.parse_args()

    stages = Stages(args.build)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = [int(t) for t in args.threads.split(",")] if args.threads else sorted({1, cores})
    tiles = [tuple(int(x) for x in t.split("x")) for t in args.tiles.split(",")] if args.tiles else [(0, 0)]
    shapes = [(2048, 64, False), (2048, 128, False), (1024, 64, True), (1024, 128, True),
              (2048, 64, True), (2048, 128, True)]
    if args.full_only:
        shapes = shapes[:2]

    print(f"{cpu_name()}, {cores} cores; PyTorch {torch.__version__}; float32, B1 H8; medians of {args.rounds} rounds")
    print(f"{'threads':>7} {'N':>5} {'d':>4} {'causal':>6} {'tile':>9} | {'stage 3':>8} {'PyTorch':>8} {'Eigen':>8} GFLOP/s"
          f" | {'x PyTorch':>9} {'quartiles':>13} {'x Eigen':>7}")
    rows = []
    for t in threads:
        for N, d, causal in shapes:
            for tile in tiles:
                row = measure(stages, N, d, causal, t, args.rounds, seed=len(rows), tile=tile)
                rows.append(row)
                print(f"{t:7} {N:5} {d:4} {str(causal):>6} {row['Br']:4}x{row['Bc']:<4} | {row['stage3_gflops']:8.1f}"
                      f" {row['pytorch_gflops']:8.1f} {row['eigen_gflops']:8.1f}         | {row['ratio']:9.2f}"
                      f"   {row['ratio_spread'][0]:.2f} … {row['ratio_spread'][1]:.2f} {row['share_of_eigen']:7.2f}"
                      + (f"  products alone {row['products_alone_ratio']:.2f} x" if row["products_alone_ratio"] else ""),
                      flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"machine": {"cpu": cpu_name(), "cores": cores}, "date": datetime.date.today().isoformat(),
                       "command": "python3 " + " ".join(sys.argv),
                       "pytorch": torch.__version__, "rounds": args.rounds, "rows": rows}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
