#!/usr/bin/env python3
"""Do the kernel's views cost anything on a GPU? Stage 4 with them, and with plain pointers.

    python3 common/bench/plain_pointers.py [--nvcc nvcc] [--arch sm_90] [--json FILE]

Writes a copy of stage4_simple_cuda/kernel.cuh in which every access through a view is index
arithmetic on a plain pointer (the substitutions are below; one that no longer fits is an error),
compiles both for the same GPU, and compares instance by instance: registers and spilled bytes, as
ptxas reports them, and the instructions in the compiled file, multiply-adds and memory accesses
apart. Needs nvcc and no GPU.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTRUCTION_BYTES = 16  # of every GPU since cc 7.0

# The low 12 bits of an instruction say what it does and where its operands are. The names are
# nvdisasm's.
NOP = 0x918
FFMA = {0x223, 0x423, 0x623, 0x823, 0xa23, 0xc23}
MEMORY = {0x981: "LDG", 0x986: "STG", 0x984: "LDS", 0x388: "STS", 0x988: "STS"}

# What a view says, and the same with a pointer. Tensor<T> stays as the bare struct that carries a
# pointer, sizes and strides into the kernel; none of its functions is called.
SUBSTITUTIONS = [
    # global memory
    ("GlobalTensor<const T>", "fa::Tensor<const T>"),
    ("GlobalTensor<T>", "fa::Tensor<T>"),
    ("Global<float> LSE", "float* LSE"),
    ("const GlobalMatrix<const T>& M,\n", "const T* M,\n                          "
     "Index M_cols,\n                          Index M_row_stride,\n"),
    ("x < M.cols ? M[first + i][x]", "x < M_cols ? (M + (first + i) * M_row_stride)[x]"),
    ("sQ, Q.head(b, h), i0, i1",
     "sQ, Q.data + b * Q.batch_stride + h * Q.head_stride, Q.d, Q.row_stride, i0, i1"),
    ("const GlobalMatrix<const T> gK = K.head(b, h / (Q.H / K.H)),"
     " gV = V.head(b, h / (Q.H / K.H));",
     "const T* const gK = K.data + b * K.batch_stride + h / (Q.H / K.H) * K.head_stride;\n"
     "  const T* const gV = V.data + b * V.batch_stride + h / (Q.H / K.H) * V.head_stride;"),
    ("sK, gK, j0, j1", "sK, gK, K.d, K.row_stride, j0, j1"),
    ("sV, gV, j0, j1", "sV, gV, V.d, V.row_stride, j0, j1"),
    ("O.head(b, h)[i][tx + x * kAcross]",
     "(O.data + b * O.batch_stride + h * O.head_stride + i * O.row_stride)[tx + x * kAcross]"),
    # shared memory
    ("SharedTile<float, D + 1> tile,", "float* tile,"),
    ("tile[i][x]", "tile[i * (D + 1) + x]"),
    ("SharedMemory memory = shared_memory();",
     "extern __shared__ __align__(1024) unsigned char bytes[];"),
    ('const SharedTile<float, D + 1> sQ = memory.tile<float, D + 1>("sQ", Br);',
     "float* const sQ = reinterpret_cast<float*>(bytes);"),
    ('const SharedTile<float, D + 1> sK = memory.tile<float, D + 1>("sK", Bc);',
     "float* const sK = sQ + tile_bytes<float, D + 1>(Br) / 4;"),
    ('const SharedTile<float, D + 1> sV = memory.tile<float, D + 1>("sV", Bc);',
     "float* const sV = sK + tile_bytes<float, D + 1>(Bc) / 4;"),
    ('const SharedTile<float, Bc + 1> sP = memory.tile<float, Bc + 1>("sP", Br);',
     "float* const sP = sV + tile_bytes<float, D + 1>(Bc) / 4;"),
    ("sQ[ty + a * apart][x]", "sQ[(ty + a * apart) * (D + 1) + x]"),
    ("sK[tx + c * kAcross][x]", "sK[(tx + c * kAcross) * (D + 1) + x]"),
    ("sP[ty + a * apart][tx + c * kAcross]", "sP[(ty + a * apart) * (Bc + 1) + tx + c * kAcross]"),
    ("sP[ty + a * apart][j]", "sP[(ty + a * apart) * (Bc + 1) + j]"),
    ("sV[j][tx + x * kAcross]", "sV[j * (D + 1) + tx + x * kAcross]"),
]
VIEWS_LEFT = r"\b(Global|GlobalMatrix|GlobalTensor|Shared|SharedTile|SharedMemory)\b|\.head\("

INSTANCES = """
#include "{kernel}"
namespace stage4 {{
inline namespace FA_TARGET {{
#define INSTANCE(T, D) \\
  template __global__ void attention_kernel<T, D>(Tensor<const T>, Tensor<const T>, \\
                                                  Tensor<const T>, Tensor<T>, float*, float, Mask);
#define EVERY(T) INSTANCE(T, 64) INSTANCE(T, 128) INSTANCE(T, 256)
EVERY(float)
EVERY(float16)
EVERY(bfloat16)
}}
}}
"""


def stop(message):
    sys.exit(f"plain_pointers.py: {message}")


def plain(text):
    for old, new in SUBSTITUTIONS:
        if old not in text:
            stop(f"kernel.cuh has no '{old}' any more: change the substitution")
        text = text.replace(old, new)
    code = re.sub(r"//.*", "", text)
    left = re.search(VIEWS_LEFT, code)
    if left:
        stop(f"a view is left after the substitutions: {left.group(0)}")
    return text


def name_of(symbol):
    """_ZN6stage43gpu16attention_kernelIN2fa7float16ELi64EE…: ("float16", 64)."""
    found = re.search(r"attention_kernelI(?:f|N\w*?\d(b?float16)\w*?E)Li(\d+)E", symbol)
    return (found.group(1) or "float32", int(found.group(2))) if found else None


def machine_code(cubin):
    """The .text section of each kernel in an ELF file of 64 bits."""
    data = cubin.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        stop(f"{cubin.name} is no 64-bit ELF file")
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    names = sections[names_at][4]
    code = {}
    for name, _, _, _, start, length in sections:
        text = data[names + name:data.index(b"\0", names + name)].decode()
        if text.startswith(".text.") and name_of(text):
            code[name_of(text)] = data[start:start + length]
    return code


def instructions(code):
    """What the code consists of, by opcode, without the NOPs that align its end."""
    opcodes = collections.Counter(int.from_bytes(code[at:at + 2], "little") & 0xfff
                                  for at in range(0, len(code), INSTRUCTION_BYTES))
    del opcodes[NOP]
    return opcodes


def work(opcodes):
    """Multiply-adds, and memory accesses by kind."""
    counts = collections.Counter(FFMA=sum(opcodes[op] for op in FFMA))
    for op, name in MEMORY.items():
        counts[name] += opcodes[op]
    return counts


def compile_kernel(nvcc, arch, folder, name, kernel):
    """Registers and spills by instance, from ptxas, and the machine code."""
    source, cubin = folder / f"{name}.cu", folder / f"{name}.cubin"
    source.write_text(INSTANCES.format(kernel=kernel))
    run = subprocess.run([nvcc, "-std=c++17", "-O3", "-cubin", f"-arch={arch}", "-Xptxas", "-v",
                          "--diag-suppress=554", f"-I{ROOT}", "-o", cubin, source],
                         capture_output=True, text=True, check=False)
    if run.returncode != 0:
        stop(f"nvcc failed on the {name} kernel:\n{run.stderr}")
    facts, instance = {}, None
    for line in run.stderr.splitlines():
        if "Compiling entry function" in line:
            instance = name_of(line)
            facts[instance] = {}
        elif "spill stores" in line and instance:
            stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads",
                                      line).groups()
            facts[instance]["spilled"] = int(stores) + int(loads)
        elif "Used" in line and "registers" in line and instance:
            facts[instance]["registers"] = int(re.search(r"Used (\d+) registers", line).group(1))
    code = machine_code(cubin)
    if not facts or set(facts) != set(code):
        stop(f"ptxas names {sorted(facts)}, the compiled file holds {sorted(code)}")
    return facts, code


def cpu():
    try:
        info = pathlib.Path("/proc/cpuinfo").read_text()
        return re.search(r"model name\s*: (.*)", info).group(1)
    except (OSError, AttributeError):
        return os.uname().machine


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--json", help="write the table here too")
    args = parser.parse_args()
    if not shutil.which(args.nvcc):
        stop(f"no {args.nvcc}: install the CUDA Toolkit, or name its nvcc with --nvcc")
    version = re.search(r"V([\d.]+)", subprocess.run([args.nvcc, "--version"], capture_output=True,
                                                     text=True, check=True).stdout).group(1)
    kernel = ROOT / "stage4_simple_cuda" / "kernel.cuh"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy = folder / "plain_kernel.cuh"
        copy.write_text(plain(kernel.read_text()))
        views, views_code = compile_kernel(args.nvcc, args.arch, folder, "views", kernel)
        pointers, pointers_code = compile_kernel(args.nvcc, args.arch, folder, "pointers", copy)

    rows = []
    print(f"nvcc {version}, {args.arch}; {len(SUBSTITUTIONS)} substitutions; the kernel's and then"
          " the plain figures")
    print(f"{'type':>8} {'D':>4} | {'registers':>9} {'':>4} | {'spilled':>7} {'':>4} |"
          f" {'instructions':>12} {'':>6} | {'multiply-adds':>13} {'':>6} | memory accesses")
    for key in sorted(views, key=lambda k: (["float32", "float16", "bfloat16"].index(k[0]), k[1])):
        ours, plains = instructions(views_code[key]), instructions(pointers_code[key])
        accesses = [sum(work(code).values()) - work(code)["FFMA"] for code in (ours, plains)]
        row = {"type": key[0], "D": key[1],
               "registers": views[key]["registers"], "plain_registers": pointers[key]["registers"],
               "spilled": views[key]["spilled"], "plain_spilled": pointers[key]["spilled"],
               "instructions": sum(ours.values()), "plain_instructions": sum(plains.values()),
               "multiply_adds": work(ours)["FFMA"], "plain_multiply_adds": work(plains)["FFMA"],
               "accesses": accesses[0], "plain_accesses": accesses[1],
               "same_work": work(ours) == work(plains)}
        rows.append(row)
        print(f"{row['type']:>8} {row['D']:>4} | {row['registers']:>9} {row['plain_registers']:>4} |"
              f" {row['spilled']:>7} {row['plain_spilled']:>4} | {row['instructions']:>12}"
              f" {row['plain_instructions']:>6} | {row['multiply_adds']:>13}"
              f" {row['plain_multiply_adds']:>6} |"
              f" {row['accesses']:>6} {row['plain_accesses']:>6}"
              + ("" if row["same_work"] else "  DIFFERENT"))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"machine": {"cpu": cpu(), "cores": os.cpu_count()},
             "date": datetime.date.today().isoformat(),
             "command": "python3 " + " ".join(sys.argv), "nvcc": version, "arch": args.arch,
             "substitutions": len(SUBSTITUTIONS), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
