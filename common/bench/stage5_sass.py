#!/usr/bin/env python3
"""What the compiler makes of stage 5's steps: registers, spilled bytes, and the instructions that a
warp executes for a tile of keys, by kind.

    python3 common/bench/stage5_sass.py [--steps 4,5i | all] [--arch sm_90] [--nvcc nvcc]
        [--nvdisasm nvdisasm] [--json FILE]

Counted is a turn of the loop over key tiles, on the way of a tile that all queries see and whose
maxima don't move. Of all ways through the loop that is the one with the most mma, of those the one with
the most copies, of those the shortest; but nothing that is less than 16 instructions long is left out.
(A step with a fast lane, 6d, has two sets of mma in the turn. A jump back inside the turn is not
followed, so the slow lane, a loop over the stage's parts, has the mma of one part and the fast lane
those of the whole stage. In a ring, from 6c on, one warp of four asks for the copies; here each does.)
Of float16, rows without gaps, D = 64 and 128. Needs nvcc and nvdisasm, both of the CUDA Toolkit, and no GPU.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from stage5_counts import of_processor


ROOT = pathlib.Path(__file__).resolve().parents[2]
STEP = re.compile(r'^fa_step\((\S+)\s+(\S+)\s+"([^"]*)"(.*)\)', re.MULTILINE)
SHORT = 16  # jumps over fewer instructions are taken to be around what most scores need
# Kinds of instructions by the beginning of their names; what none has is "others".
KINDS = {
    "mma": ("HMMA",), "ex2": ("MUFU.EX2",), "ldmatrix": ("LDSM",), "copies": ("LDGSTS", "UTMALDG"),
    "multiply_adds": ("FFMA",), "fmul_fadd": ("FMUL", "FADD"), "max": ("FMNMX",),
    "round_pairs": ("F2F",), "shared_loads": ("LDS",), "special_reads": ("S2R", "S2UR"),
}


def stop(message):
    sys.exit(f"stage5_sass.py: {message}")


def steps():
    """The ladder: label, file, what it adds, and its flags."""
    text = (ROOT / "stage5_mma_pipeline" / "CMakeLists.txt").read_text()
    return {label: (file, adds, flags.split()) for label, file, adds, flags in STEP.findall(text)}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        stop(f"{command[0]} failed:\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def compiled(label, file, flags, args, folder):
    """Registers, spilled bytes and listing of both instances."""
    kernels = ", ".join("(void*)attention_kernel<float16, {}{}>".format(
        D, ", true" if "CONTIGUOUS" in flags else "") for D in (64, 128))
    source, cubin = folder / f"step{label}.cu", folder / f"step{label}.cubin"
    source.write_text(f'#include "stage5_mma_pipeline/{file}"\n'
                      f"namespace stage5::step{label} {{ inline namespace FA_TARGET {{\n"
                      f"void* instances[] = {{{kernels}}};\n}}}}\n")
    report = run([args.nvcc, "-std=c++17", "-O3", "-cubin", f"-arch={args.arch}", "-Xptxas", "-v",
                  "--diag-suppress=554", f"-I{ROOT}", "-o", str(cubin), str(source)])
    found = {}
    for part in report.split("Compiling entry function")[1:]:
        D = int(re.search(r"float16ELi(\d+)E", part).group(1))
        stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part).groups()
        found[D] = {"registers": int(re.search(r"Used (\d+) registers", part).group(1)),
                    "spilled": int(stores) + int(loads)}
    listing = run([args.nvdisasm, "-c", str(cubin)])
    for part in re.split(r"^\.text\.", listing, flags=re.MULTILINE)[1:]:
        kernel = re.search(r"float16ELi(\d+)E", part.split("\n", maxsplit=1)[0])
        if kernel:
            found[int(kernel.group(1))]["code"] = instructions(part)
    return found


def instructions(listing):
    """[(name, predicated?, where it may jump to or None)]"""
    code, labels = [], {}
    for line in listing.splitlines():
        label = re.match(r"(\.L_\S+):", line)
        if label:
            labels[label.group(1)] = len(code)
        found = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+ )?\s*([A-Z][A-Z0-9_.]*)(.*)", line)
        if not found:
            continue
        predicate, name, rest = found.groups()
        # A branch with a second condition in front of its goal is one with a condition.
        target = re.search(r"`\((\.L_\S+?)\)", rest) if name.startswith("BRA") else None
        conditional = bool(predicate) or bool(re.match(r"\s*!?U?P\d", rest)) or ".DIV" in name
        code.append((name, conditional, target.group(1) if target else None))
    return [(name, conditional, labels.get(target)) for name, conditional, target in code]


def loop(code):
    """The least [first, last] between a jump back and its goal that has the most mma."""
    loops = [(target, at) for at, (_, _, target) in enumerate(code)
             if target is not None and target <= at]
    mma = lambda span: sum(name.startswith("HMMA") for name, _, _ in code[span[0]:span[1] + 1])
    if not loops:
        stop("a kernel without a loop")
    return max(loops, key=lambda span: (mma(span), span[0] - span[1]))


def turn(code):
    """The names on the shortest way through the loop that has all its mma and copies."""
    first, last = loop(code)
    nothing = (-1, 0, 0)
    best, following = {last: (0, 0, -1)}, {}
    for at in range(last - 1, first - 1, -1):
        name, conditional, target = code[at]
        ways = []
        if target is not None and at < target <= last and not (conditional and target - at < SHORT):
            ways.append(target)
        if target is None or conditional:
            ways.append(at + 1)
        if name in ("EXIT", "RET") and not conditional or not ways:
            best[at] = nothing
            continue
        after = max(ways, key=lambda way: best[way])
        mma, copies, length = best[after]
        best[at] = nothing if mma < 0 else (mma + name.startswith("HMMA"),
                                            copies + name.startswith(KINDS["copies"]), length - 1)
        following[at] = after
    names, at = [], first
    while at != last:
        names.append(code[at][0])
        at = following[at]
    return [*names, code[last][0]]


def row_of(label, adds, D, facts):
    names = turn(facts["code"])
    kinds = collections.Counter(
        next((kind for kind, begins in KINDS.items() if name.startswith(begins)), "others")
        for name in names)
    row = {"step": label, "adds": adds, "D": D,
           "registers": facts["registers"], "spilled": facts["spilled"],
           **{kind: kinds[kind] for kind in [*KINDS, "others"]}, "instructions": len(names)}
    row["beside_an_mma"] = (len(names) - row["mma"]) / row["mma"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", default="all")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--nvdisasm",
                        default=shutil.which("nvdisasm") or "/usr/local/cuda/bin/nvdisasm")
    parser.add_argument("--json", help="write the table here too")
    args = parser.parse_args()
    for tool in (args.nvcc, args.nvdisasm):
        if not shutil.which(tool):
            stop(f"no {tool}: install the CUDA Toolkit")
    ladder = steps()
    wanted = list(ladder) if args.steps == "all" else args.steps.split(",")
    for label in wanted:
        if label not in ladder:
            stop(f"no step '{label}': {' '.join(ladder)}")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for label in wanted:
            file, adds, flags = ladder[label]
            found = compiled(label, file, flags, args, pathlib.Path(name))
            for D in (64, 128):
                rows.append(row_of(label, adds, D, found[D]))
                if len(rows) == 1:
                    print("  ".join(f"{key.replace('_', ' '):>{max(len(key), 5)}}"
                                    for key in rows[0] if key != "adds"))
                print("  ".join(
                    f"{value:>{max(len(key), 5)}{'.2f' if isinstance(value, float) else ''}}"
                    for key, value in rows[-1].items() if key != "adds"), flush=True)
    version = re.search(r"V([\d.]+)", run([args.nvcc, "--version"])).group(1)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"cpu": of_processor(), "cores": os.cpu_count()},
             "date": datetime.date.today().isoformat(),
             "command": "python3 " + " ".join(sys.argv), "nvcc": version, "arch": args.arch,
             "rows": rows,
             "by_step": {label: {str(row["D"]): row for row in rows if row["step"] == label}
                         for label in wanted},
             "last": {str(row["D"]): row for row in rows[-2:]}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
