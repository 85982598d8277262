#!/usr/bin/env python3
"""What each step of stage 5 asks of the hardware, counted by the emulator, in one table.

    python3 common/bench/stage5_counts.py [--build build/release] [--json FILE] [FLAGS …]

FLAGS are the program's (-N 1024 -d 64 --causal), one head unless they say more. Cycles are those of
the shared memory's banks, of all its uses: loads, stores, ldmatrix, the copies' writes. Needs no GPU.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import sys

import ncu

USES = ("shared_load", "shared_store", "ldmatrix", "async_copy")


def of_processor():
    """Its name, as the notes give it."""
    try:
        return re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    except (OSError, AttributeError):
        return os.uname().machine


def row_of(facts):
    counts = facts["counts"]
    cycles = sum(counts[f"{use}_wavefronts"] for use in USES)
    return {
        "step": facts["stage"]["step"], "adds": facts["stage"]["adds"],
        "read_bytes": counts["global_load_bytes"] + counts["async_copy_bytes"]
                      + counts.get("tma_bytes", 0),
        "async_bytes": counts["async_copy_bytes"], "tma_bytes": counts.get("tma_bytes", 0),
        "load_sectors": counts["global_load_sectors"] + counts["async_copy_sectors"]
                        + counts.get("tma_sectors", 0),
        "store_sectors": counts["global_store_sectors"] + counts.get("tma_store_sectors", 0),
        "ldmatrix": counts["ldmatrix_requests"], "shared_loads": counts["shared_load_requests"],
        "cycles": cycles, "conflicts": sum(counts[f"{use}_conflicts"] for use in USES),
        "mma": counts["mma"], "cycles_a_product": cycles / counts["mma"],
        "exponentials": counts["exponentials"], "shuffles": counts["shuffles"],
        "votes": counts["votes"], "barriers": counts["block_barriers"],
        "mbarrier_waits": counts.get("mbarrier_waits", 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build/release", help="where stage5_mma_pipeline is")
    parser.add_argument("--json", help="write the table here too")
    args, flags = parser.parse_known_args()
    facts = ncu.facts(str(pathlib.Path(args.build) / "stage5_mma_pipeline"),
                      " ".join(["--ladder", *flags]), "simt")
    if facts is None:
        sys.exit(1)
    rows = [row_of(step) for step in facts["steps"]]
    shown = [key for key in rows[0] if key != "adds"]
    print("  ".join(f"{key.replace('_', ' '):>{max(len(key), 9)}}" for key in shown))
    for row in rows:
        print("  ".join(f"{row[key]:>{max(len(key), 9)}{'.2f' if isinstance(row[key], float) else ''}}"
                        for key in shown))
    if args.json:
        words = [word for word in sys.argv if word not in ("--build", args.build)]
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"cpu": of_processor(), "cores": os.cpu_count()},
             "date": datetime.date.today().isoformat(), "command": "python3 " + " ".join(words),
             "problem": facts["steps"][0]["problem"], "rows": rows,
             "by_step": {row["step"]: row for row in rows}, "last": rows[-1]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
