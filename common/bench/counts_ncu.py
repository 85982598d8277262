#!/usr/bin/env python3
"""Are the emulator's counts the hardware's? Stage 4 in both, counter by counter.

    python3 common/bench/counts_ncu.py [--build build/release] [--ncu ncu] [--json FILE]

For each of three shapes the stage runs in the emulator, which counts, and on the GPU under Nsight
Compute, which reads the same counters off the hardware. Needs an NVIDIA GPU, ncu, and permission to
read performance counters. Exits with 1 where a count differs or could not be read.
"""

import argparse
import csv
import datetime
import io
import json
import pathlib
import shutil
import subprocess
import sys

PROGRAM = "stage4_simple_cuda"
SHAPES = [
    ("N 256, H 4, d 64, float32", "-N 256 -H 4 -d 64 --dtype float32"),
    ("N 1021, H 2, d 64, causal, float16", "-N 1021 -H 2 -d 64 --causal --dtype float16"),
    ("200 queries, 300 keys, H 2, d 128, float32",
     "-N 200 --kv-len 300 -H 2 -d 128 --dtype float32"),
]
# The emulator's name of a count, and ncu's.
COUNTS = {
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def complain(message):
    print(f"counts_ncu.py: {message}", file=sys.stderr)


def run(command, seconds=120):
    """What the command prints, or None with a complaint."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        complain(f"{command[0]}: {error}")
        return None
    if done.returncode != 0:
        complain(f"{' '.join(command)}\n  ended with exit code {done.returncode}:\n"
                 f"{(done.stdout + done.stderr)[-2000:]}")
        return None
    return done.stdout


def from_emulator(program, shape):
    """The counts by name, and whether the output was right; None if it could not run."""
    output = run([program, *shape.split(), "--device", "simt", "--json"])
    return json.loads(output)["counts"] if output else None


def number(text):
    """A count, or None for what ncu prints in place of one ("n/a")."""
    try:
        return int(round(float(text.replace(",", ""))))
    except ValueError:
        return None


def from_ncu(output):
    """The metrics of the first kernel in ncu's CSV, which comes in two forms: a line a metric, or a
    column a metric."""
    lines = output.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    if rows and "Metric Name" in rows[0]:
        return {row["Metric Name"]: number(row["Metric Value"]) for row in rows
                if row["Metric Name"] in COUNTS.values()}
    rows = [row for row in rows if row.get("ID")]  # the line below the heads has the units
    return {name: number(rows[0][name]) for name in COUNTS.values() if rows and rows[0].get(name)}


def from_gpu(ncu, program, shape):
    """The counts under the emulator's names; None if ncu could not read them."""
    output = run([ncu, "--csv", "--print-units", "base", "--clock-control", "none",
                  "--kernel-name", "regex:attention_kernel", "--launch-count", "1",
                  "--metrics", ",".join(COUNTS.values()),
                  program, *shape.split(), "--device", "gpu", "--repeats", "1", "--json"])
    if output is None:
        return None
    metrics = from_ncu(output)
    missing = [name for name in COUNTS.values() if metrics.get(name) is None]
    if missing:
        complain(f"ncu printed no {', '.join(missing)}:\n{output[-2000:]}")
        return None
    return {ours: metrics[theirs] for ours, theirs in COUNTS.items()}


def gpu_name(program):
    """The GPU as the stage's program names it."""
    output = run([program, "-N", "64", "--device", "gpu", "--json"])
    return json.loads(output)["device"] if output else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build/release", help="where the stage's program is")
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--json", help="write the table here too")
    args = parser.parse_args()
    program = str(pathlib.Path(args.build) / PROGRAM)
    gpu = gpu_name(program)
    if gpu is None:
        sys.exit(1)

    rows, failed = [], False
    print(f"{gpu}\n{'shape':<43} {'count':<24} {'emulator':>10} {'ncu':>10}")
    for name, flags in SHAPES:
        emulator, hardware = from_emulator(program, flags), from_gpu(args.ncu, program, flags)
        if emulator is None or hardware is None:
            failed = True
            continue
        for count in COUNTS:
            equal = emulator[count] == hardware[count]
            failed = failed or not equal
            rows.append({"shape": name, "count": count.replace("_", " "),
                         "emulator": emulator[count], "ncu": hardware[count], "equal": equal})
            print(f"{name:<43} {count:<24} {emulator[count]:>10,} {hardware[count]:>10,}"
                  + ("" if equal else "  DIFFERENT"))
    if args.json and rows:
        version = (run([args.ncu, "--version"]) or "").strip().splitlines()
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"gpu": gpu}, "date": datetime.date.today().isoformat(),
             "command": "python3 " + " ".join(sys.argv), "ncu": version[-1] if version else "",
             "equal": sum(row["equal"] for row in rows), "rows": rows}, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
