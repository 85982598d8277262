#!/usr/bin/env python3
"""Stage 5's steps under Nsight Compute: bank conflicts, bytes, how busy the tensor cores are, and what
warps wait for.

    python3 common/bench/conflicts_ncu.py [--steps 2,5i] [--build build/release] [--ncu ncu]
        [--json FILE]

Every step at d 64 and 128, in two shapes: one that the emulator counts too, and whose counts stand
beside its own, and one with blocks enough to fill a large GPU, for what depends on that. From step
2 on less than 1 % of the shared memory's cycles may be conflicts. Needs an NVIDIA GPU, ncu, and
permission to read performance counters. Exits with 1 where there are more, where a step's output
was wrong, or something could not be read; a count that differs from the emulator's is only shown.
"""

import argparse
import concurrent.futures
import datetime
import json
import pathlib
import sys

import ncu

PROGRAM = "stage5_mma_pipeline"
COUNTED, FILLED = "-N 1024 -H 4 --dtype float16", "-N 1024 -H 66 --dtype float16"
MOST_CONFLICTS = 0.01  # of the wavefronts, from step 2 on

# The emulator's name of a count, and ncu's names of it.
COUNTS = {
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "ldmatrix_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"
                           " smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "ldmatrix_conflicts": "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum"
                          " smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "async_copy_wavefronts":
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
        " sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_bypass.sum",
    "async_copy_conflicts":
        "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"
        " sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts_cache_bypass.sum",
    "global_load_bytes": "smsp__sass_data_bytes_mem_global_op_ld.sum",
    "global_store_bytes": "smsp__sass_data_bytes_mem_global_op_st.sum",
    "async_copy_bytes": "smsp__sass_data_bytes_mem_global_op_ldgsts.sum"
                        " sm__sass_data_bytes_mem_global_op_ldgsts.sum",
    "mma": "sm__inst_executed_pipe_tensor_op_hmma.sum smsp__inst_executed_pipe_tensor_op_hmma.sum",
}
# What the emulator doesn't know, and ncu's names of it.
USE = {
    "tensor_percent": "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"
                      " sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active",
    "issued_instructions": "smsp__inst_issued.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "spilled_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "shared_bytes": "launch__shared_mem_per_block_dynamic launch__shared_mem_per_block",
}
# For how many of the cycles between two instructions a warp waits, and for what.
WAITS = {reason: f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for reason, name in {
    "global memory": "long_scoreboard", "shared memory, exp": "short_scoreboard",
    "other instructions": "wait", "the tensor cores": "math_pipe_throttle",
    "the shared memory's queue": "mio_throttle", "the global memory's queue": "lg_throttle",
    "a barrier": "barrier", "code": "no_instruction", "its turn": "not_selected",
}.items()}


def conflicts(counts, emulated):
    """The share of conflicts among the cycles of shared memory; None where a count is missing. The
    emulator counts ldmatrix apart, ncu among the loads."""
    def total(kind):
        ldmatrix, others = counts.get(f"ldmatrix_{kind}", 0), counts[f"shared_load_{kind}"]
        return ((ldmatrix + others if emulated else max(ldmatrix, others))
                + counts[f"shared_store_{kind}"] + counts.get(f"async_copy_{kind}", 0))
    try:
        return total("conflicts") / max(1, total("wavefronts"))
    except KeyError:
        return None


def most_waits(waits):
    """The two reasons that warps wait for longest, with the cycles for each instruction."""
    longest = sorted(((cycles, reason) for reason, cycles in waits.items()), reverse=True)[:2]
    return ", ".join(f"{reason} {cycles:.1f}" for cycles, reason in longest)


def cell(value, width, form="", scale=1):
    return f" {'?' if value is None else format(value / scale, form):>{width}}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ncu.add_arguments(parser)
    parser.add_argument("--steps", help="labels with commas between them; all unless said")
    args = parser.parse_args()
    program = str(pathlib.Path(args.build) / PROGRAM)
    profiler = ncu.Profiler(args.ncu)
    on_gpu = ncu.facts(program, "-N 64 --dtype float16", "gpu")
    ladder = ncu.facts(program, "-N 16 --dtype float16 --ladder", "simt")
    if on_gpu is None or ladder is None:
        sys.exit(1)
    labels = [facts["stage"]["step"] for facts in ladder["steps"]]
    wanted = args.steps.split(",") if args.steps else labels
    if set(wanted) - set(labels):
        parser.error(f"--steps: there are {', '.join(labels)}")
    runs = [(label, d, f"-d {d} --step {label}") for d in (64, 128) for label in wanted]

    print(f"{on_gpu['device']}\n"
          "         |      conflicts      |  tensor  |         |           |      |  shared | instructions |"
          "    DRAM MB    | spilled |\n"
          "  d step |     ncu    emulator |    pipe  |  issue  | occupancy | regs |     KiB |     millions |"
          "  read written | sectors | cycles a warp waits for")
    rows, counts, failed = [], [], False
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # meanwhile: the emulator needs no GPU
        emulated = {flags: pool.submit(ncu.facts, program, f"{COUNTED} {flags}", "simt")
                    for _, _, flags in runs}
        for label, d, flags in runs:
            kernel = f"step{label}::"
            hardware = profiler.read(program, f"{COUNTED} {flags}", kernel, COUNTS)
            row = {"step": label, "d": d,
                   **profiler.read(program, f"{FILLED} {flags}", kernel, USE)}
            facts = emulated[flags].result()
            row["waits"] = most_waits(profiler.read(program, f"{FILLED} {flags}", kernel, WAITS))
            row["conflicts"] = conflicts(hardware, False)
            row["emulator_conflicts"] = facts and conflicts(facts["counts"], True)
            too_many = label != "1" and not (row["conflicts"] or 0) < MOST_CONFLICTS
            failed = failed or too_many or facts is None
            for count, value in hardware.items():
                counted = facts["counts"][count] if facts else None
                counts.append({"step": label, "d": d, "count": count.replace("_", " "),
                               "emulator": counted, "ncu": value, "equal": counted == value})
            rows.append(row)
            print(f"{d:>3} {label:>4} |" + cell(row["conflicts"], 7, ".2%")
                  + cell(row["emulator_conflicts"], 11, ".2%")
                  + " |" + cell(row.get("tensor_percent"), 6, ".1f") + " %"
                  + " |" + cell(row.get("issue_percent"), 5, ".1f") + " %"
                  + " |" + cell(row.get("occupancy_percent"), 7, ".1f") + " %"
                  + " |" + cell(row.get("registers"), 4)
                  + " |" + cell(row.get("shared_bytes"), 7, ".1f", 1024)
                  + " |" + cell(row.get("issued_instructions"), 12, ".2f", 1e6)
                  + " |" + cell(row.get("dram_read_bytes"), 6, ".1f", 1e6)
                  + cell(row.get("dram_write_bytes"), 7, ".1f", 1e6)
                  + " |" + cell(row.get("spilled_load_sectors"), 7) + " | " + row["waits"]
                  + ("  TOO MANY CONFLICTS" if too_many else ""), flush=True)
    print(f"\nCounts of both that differ, of {len(counts)}:\n  d step {'count':<24}"
          f" {'emulator':>11} {'ncu':>11}")
    for row in counts:
        if not row["equal"]:
            print(f"{row['d']:>3} {row['step']:>4} {row['count']:<24}"
                  + cell(row["emulator"], 11, ",") + cell(row["ncu"], 11, ","))
    if args.json and rows:
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"gpu": on_gpu["device"]}, "date": datetime.date.today().isoformat(),
             "command": "python3 " + " ".join(sys.argv), "ncu": profiler.version(),
             "counted": COUNTED, "filled": FILLED, "rows": rows, "counts": counts},
            indent=1) + "\n")
    sys.exit(1 if failed or profiler.failed else 0)


if __name__ == "__main__":
    main()
