#!/usr/bin/env python3
r"""The course's pictures. Needs matplotlib (with numpy); writes .png or .svg by the file's ending.

    plot.py attention --stage build/release/stage3_tiled_cpu --out map.png FILE:HEAD [FILE:HEAD …]
        Attention maps of heads of a .safetensors file, with its tokens as labels. Chapter 01's:
        notes/pictures/attention.svg, of head 1 of both files in common/data.

        The weights P come out of the stage itself. It never shows them, but for V = identity it
        must: O = P V = P. The causal mask lets the first d tokens see each other only, so the
        first d rows of Q and K and a d x d identity are all that it takes.

    plot.py scaling --input scaling.json --out scaling.png
        Time and extra memory of the stages over N, as `./learn tour` or `./learn record` measured
        them. The README's picture:
        plot.py scaling --input notes/results/cpu.json --speed notes/results/stage5_grid.json \
            --out notes/pictures/time_and_memory.svg
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# One colour a stage in every picture (Okabe and Ito's palette: distinguishable when colour-blind).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
MARKERS = "osD^v"


def read_safetensors(path):
    """Tensors as float32 arrays, and the metadata."""
    try:
        raw = pathlib.Path(path).read_bytes()
    except OSError as error:
        sys.exit(f"plot.py: {path}: {error.strerror}")
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if entry["dtype"] not in ("F16", "F32"):
            continue
        kind = "<f2" if entry["dtype"] == "F16" else "<f4"
        tensors[name] = np.frombuffer(raw[begin:end], kind).reshape(entry["shape"]).astype("f4")
    return tensors, metadata


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        part = np.ascontiguousarray(array, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": array.shape,
                        "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def attention_weights(stage, path, head):
    """P [d, d] of the first d tokens of one head, computed by the stage; the file's metadata."""
    tensors, metadata = read_safetensors(path)
    q, k = tensors["q"], tensors["k"]
    heads, d = q.shape[1], q.shape[3]
    if not 0 <= head < heads:
        sys.exit(f"plot.py: {path} has heads 0 to {heads - 1}, not {head}")
    kv_head = head // (heads // k.shape[1])
    few = {"q": q[:, head:head + 1, :d], "k": k[:, kv_head:kv_head + 1, :d],
           "v": np.eye(d, dtype="f4")[None, None]}
    with tempfile.TemporaryDirectory() as folder:
        source, result = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
        write_safetensors(source, few, {"causal": "true", "scale": metadata["scale"]})
        run = subprocess.run([stage, "--input", source, "--output", result, "--json"],
                             stdout=subprocess.PIPE, check=False)
        if run.returncode != 0:
            sys.exit(f"plot.py: {stage} ended with exit code {run.returncode}")
        return read_safetensors(result)[0]["o"][0, 0], metadata


def label(token):
    """A token as an axis label: line ends and spaces must be seen."""
    return token.replace("\n", "\\n").strip() or "␣"


def draw_attention(arguments):
    count = arguments.tokens
    figure, axes = plt.subplots(1, len(arguments.heads), squeeze=False, layout="constrained",
                                figsize=(7.4 * len(arguments.heads), 7.4))
    for axis, chosen in zip(axes[0], arguments.heads):
        path, _, head = chosen.rpartition(":")
        weights, metadata = attention_weights(arguments.stage, path, int(head))
        shown = weights[:count, :count]
        tokens = [label(token) for token in json.loads(metadata["token_strings"])[:len(shown)]]
        # The square root brings small weights out; hidden keys stay blank.
        blank = np.triu(np.ones(shown.shape, bool), 1)
        image = axis.imshow(np.ma.masked_array(np.sqrt(np.maximum(shown, 0)), blank), vmin=0,
                            vmax=1, cmap="viridis", interpolation="nearest")
        axis.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=7)
        axis.set_yticks(range(len(tokens)), tokens, fontsize=7)
        axis.set_title(f"layer {metadata['layer']}, head {head}")
        axis.set_xlabel("key")
        axis.set_ylabel("query")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    bar = figure.colorbar(image, ax=axes[0], shrink=0.6, pad=0.01)
    bar.set_ticks(np.sqrt([0, 0.01, 0.05, 0.1, 0.25, 0.5, 1]),
                  labels=["0", "0.01", "0.05", "0.1", "0.25", "0.5", "1"])
    bar.set_label("weight P")
    save(figure, arguments.out)


def on_device(run):
    """Behind a stage's name: nothing for the CPU and float32, else what differs (older records name
    neither)."""
    device, dtype = run.get("device", "CPU"), run.get("dtype", "float32")
    return ("" if device == "CPU" else f", {device}") + ("" if dtype == "float32" else f", {dtype}")


def draw_speed(axis, recorded):
    """TFLOP/s over N at d = 64 without a mask: the first and the last step of the record, PyTorch's
    kernels, and the tensor cores with nothing else to do."""
    rows = [row for row in recorded["rows"] if row["d"] == 64 and row["mask"] == "full"]
    steps = [entry["step"] for entry in recorded["summary"]]
    lines = [("mma_tflops", "mma.sync alone", {"color": "0.6", "linestyle": ":"}),
             ("cudnn_tflops", "PyTorch's cuDNN", {"color": "0.6", "marker": "x"}),
             ("fa2_tflops", "PyTorch's FlashAttention-2", {"color": "0.3", "marker": "+"})]
    lines += [(f"step{step}_tflops", f"stage 5, step {step}", style)
              for step, style in ((steps[0], {"color": COLOURS[4], "marker": "^", "alpha": 0.5}),
                                  (steps[-1], {"color": COLOURS[4], "marker": MARKERS[4]}))]
    for key, name, style in lines:
        points = [(row["N"], row[key]) for row in rows if isinstance(row.get(key), float)]
        axis.plot(*zip(*points), label=name, markersize=5, **style)
    axis.set_xscale("log", base=2)
    axis.set_ylim(bottom=0, top=1.35 * axis.get_ylim()[1])  # the legend stands above the lines
    axis.set_xticks([row["N"] for row in rows], [str(row["N"]) for row in rows])
    axis.set_xlabel("N; B · N = 16384, 32 heads")
    gpu = recorded["machine"]["gpu"].split(" (")[0]
    axis.set_title(f"TFLOP/s, d = 64, float16; {gpu}, {recorded['date']}", fontsize=9)
    axis.legend(frameon=False, fontsize=8)
    axis.grid(True, which="major", alpha=0.3)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def draw_scaling(arguments):
    recorded = json.loads(pathlib.Path(arguments.input).read_text())
    runs = [run for name, run in recorded["runs"].items() if re.fullmatch(r"N\d+", name)]
    lengths = [run["N"] for run in runs]
    stages = sorted(key for key in runs[0] if key.startswith("stage"))
    speed = arguments.speed and pathlib.Path(arguments.speed)
    panels = 3 if speed and speed.exists() else 2
    figure, (left, right, *last) = plt.subplots(1, panels, figsize=(5.5 * panels, 4.4),
                                                layout="constrained")
    if last:
        draw_speed(last[0], json.loads(speed.read_text()))
    for stage, colour, marker in zip(stages, COLOURS, MARKERS):
        style = {"color": colour, "marker": marker, "markersize": 5,
                 "label": f"{stage[-1]} {runs[0][stage]['title']}{on_device(runs[0][stage])}"}
        left.plot(lengths, [run[stage]["seconds"] * 1e3 for run in runs], **style)
        right.plot(lengths, [run[stage]["extra_bytes"] for run in runs], **style)
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(lengths, [str(length) for length in lengths])
        axis.set_xlabel("N, queries and keys")
        axis.grid(True, which="major", alpha=0.3)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    left.set_title("time, ms")
    without = [stage[-1] for stage in stages if not any(run[stage]["extra_bytes"] for run in runs)]
    right.set_title("extra memory, bytes" + (f" ({', '.join(without)}: none)" if without else ""))
    left.legend(frameon=False)
    machine = recorded["machine"]
    other = any(runs[0][stage].get("dtype", "float32") != "float32" for stage in stages)
    figure.suptitle(f"one head, d = 64, float32{' where nothing else is said' if other else ''},"
                    f" one thread; {machine['cpu']}, {recorded['date']}", fontsize=9)
    save(figure, arguments.out)


def save(figure, path):
    # The same input gives the same file: no date, and ids from a fixed salt.
    metadata = {"Date": None} if str(path).endswith(".svg") else {"Software": None}
    figure.savefig(path, dpi=110, metadata=metadata)


def main():
    plt.rcParams["svg.hashsalt"] = "flash attention"
    plt.rcParams["svg.fonttype"] = "none"
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    pictures = parser.add_subparsers(required=True)
    attention = pictures.add_parser("attention")
    attention.add_argument("--stage", required=True, help="a stage's program")
    attention.add_argument("--tokens", type=int, default=40, help="how many to show (default 40)")
    attention.add_argument("heads", nargs="+", metavar="FILE:HEAD")
    attention.set_defaults(draw=draw_attention)
    scaling = pictures.add_parser("scaling")
    scaling.add_argument("--input", required=True, help="the measured numbers")
    scaling.add_argument("--speed", help="stage5_gpu.py's grid; left out where there is no such file")
    scaling.set_defaults(draw=draw_scaling)
    for picture in (attention, scaling):
        picture.add_argument("--out", required=True, help="a .png or .svg file")
    arguments = parser.parse_args()
    arguments.draw(arguments)


if __name__ == "__main__":
    main()
