#!/usr/bin/env python3
"""Are the emulator's counts the hardware's? Stage 4 in both, counter by counter.

    python3 common/bench/counts_ncu.py [--build build/release] [--ncu ncu] [--json FILE]

For each of three shapes the stage runs in the emulator, which counts, and on the GPU under Nsight
Compute, which reads the same counters off the hardware. Needs an NVIDIA GPU, ncu, and permission to
read performance counters. Exits with 1 where a count differs or could not be read.
"""

import argparse
import datetime
import json
import pathlib
import sys

import ncu

PROGRAM = "stage4_simple_cuda"
SHAPES = [
    ("N 256, H 4, d 64, float32", "-N 256 -H 4 -d 64 --dtype float32"),
    ("N 1021, H 2, d 64, causal, float16", "-N 1021 -H 2 -d 64 --causal --dtype float16"),
    ("200 queries, 300 keys, H 2, d 128, float32",
     "-N 200 --kv-len 300 -H 2 -d 128 --dtype float32"),
]
# The emulator's name of a count, and ncu's.
COUNTS = {
    "global_load_bytes": "smsp__sass_data_bytes_mem_global_op_ld.sum",
    "global_store_bytes": "smsp__sass_data_bytes_mem_global_op_st.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ncu.add_arguments(parser)
    args = parser.parse_args()
    program = str(pathlib.Path(args.build) / PROGRAM)
    profiler = ncu.Profiler(args.ncu)
    on_gpu = ncu.facts(program, "-N 64", "gpu")
    if on_gpu is None:
        sys.exit(1)

    rows, failed = [], False
    print(f"{on_gpu['device']}\n{'shape':<43} {'count':<24} {'emulator':>10} {'ncu':>10}")
    for name, flags in SHAPES:
        emulator = ncu.facts(program, flags, "simt")
        if emulator is None:
            failed = True
            continue
        hardware = profiler.read(program, flags, "attention_kernel", COUNTS)
        for count in hardware:
            counted = emulator["counts"][count]
            equal = counted == hardware[count]
            failed = failed or not equal
            rows.append({"shape": name, "count": count.replace("_", " "), "emulator": counted,
                         "ncu": hardware[count], "equal": equal})
            print(f"{name:<43} {count:<24} {counted:>10,} {hardware[count]:>10,}"
                  + ("" if equal else "  DIFFERENT"))
    if args.json and rows:
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"gpu": on_gpu["device"]}, "date": datetime.date.today().isoformat(),
             "command": "python3 " + " ".join(sys.argv), "ncu": profiler.version(),
             "equal": sum(row["equal"] for row in rows), "rows": rows}, indent=1) + "\n")
    sys.exit(1 if failed or profiler.failed else 0)


if __name__ == "__main__":
    main()
