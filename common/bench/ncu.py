"""A stage's program in the emulator, which counts, and on the GPU under Nsight Compute, which reads
the hardware's counters: for counts_ncu.py and conflicts_ncu.py."""

import csv
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys


def complain(message):
    print(f"{pathlib.Path(sys.argv[0]).name}: {message}", file=sys.stderr)


def run(command, seconds=300):
    """The finished command; None with a complaint where it could not run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        complain(f"{command[0]}: {error}")
        return None


def output_of(command):
    """What the command prints, or None with a complaint."""
    done = run(command)
    if done is None or done.returncode == 0:
        return done and done.stdout
    complain(f"{' '.join(command)}\n  ended with exit code {done.returncode}:\n"
             f"{(done.stdout + done.stderr)[-2000:]}")
    return None


def facts(program, flags, device):
    """What the program says of its run with --json; None if it could not run."""
    output = output_of([program, *flags.split(), "--device", device, "--json"])
    return json.loads(output) if output else None


def number(text):
    """A count or a percentage, or None for what ncu prints in place of one ("n/a")."""
    try:
        value = float(text.replace(",", ""))
        return int(value) if value == int(value) else value
    except (ValueError, OverflowError):
        return None


def metrics_in(output):
    """The metrics of the first kernel in ncu's CSV, which comes in two forms: a line a metric, or a
    column a metric."""
    lines = output.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    rows = [row for row in rows if row.get("ID")]  # a line below the heads may have the units
    rows = [row for row in rows if row["ID"] == rows[0]["ID"]]
    if rows and "Metric Name" in rows[0]:
        found = {row["Metric Name"]: number(row["Metric Value"] or "") for row in rows}
    else:
        found = {name: number(text or "") for row in rows for name, text in row.items() if name}
    return {name: value for name, value in found.items() if value is not None}


class Profiler:
    """Nsight Compute. What it doesn't know is complained of once, and left out from then on."""

    def __init__(self, path):
        self.path = path
        self.unknown = set()
        self.failed = False  # was there anything that it could not read?

    def version(self):
        lines = (output_of([self.path, "--version"]) or "").strip().splitlines()
        return lines[-1] if lines else ""

    def _profile(self, program, flags, kernel, metrics):
        return run([self.path, "--csv", "--print-units", "base", "--clock-control", "none",
                    "--kernel-name-base", "demangled", "--kernel-name", f"regex:{kernel}",
                    "--launch-count", "1", "--metrics", ",".join(metrics),
                    program, *flags.split(), "--device", "gpu", "--repeats", "1", "--json"])

    def _not_known(self, program, flags, kernel, metrics, said):
        """Which of these metrics this ncu or this GPU doesn't have; asked one by one, where it
        doesn't say."""
        named = set(re.findall(r"[Ff]ailed to find metric:? *(?:regex:)?([\w.]+)", said))
        if named & set(metrics):
            return named & set(metrics)
        alone = {metric: self._profile(program, flags, kernel, [metric]) for metric in metrics}
        return {metric for metric, done in alone.items() if not done or not metrics_in(done.stdout)}

    def read(self, program, flags, kernel, counts):
        """`counts`: the metric of each count, or several names of it with spaces between, of which
        the first that is known counts. Reads them off the first launch of a kernel whose name fits
        the regular expression; what can't be read is left out."""
        metrics = sorted({metric for names in counts.values() for metric in names.split()}
                         - self.unknown)
        done = self._profile(program, flags, kernel, metrics)
        if done is None:
            self.failed = True
            return {}
        said, found = done.stdout + done.stderr, metrics_in(done.stdout)
        if not found:
            unknown = self._not_known(program, flags, kernel, metrics, said)
            if unknown == set(metrics):
                complain(f"{self.path} read nothing of {program} {flags}:\n{said[-2000:]}")
                self.failed = True
                return {}
            self.unknown |= unknown
            for count, names in counts.items():
                if unknown & set(names.split()) and set(names.split()) <= self.unknown:
                    complain(f"{self.path} doesn't know {' or '.join(names.split())}: no {count}")
                    self.failed = True
            return self.read(program, flags, kernel, counts)
        if done.returncode != 0:
            complain(f"{program} {flags} ended with exit code {done.returncode}:\n{said[-2000:]}")
            self.failed = True
        values = {}
        for count, names in counts.items():
            values.update({count: found[name] for name in reversed(names.split()) if name in found})
            if count not in values and not set(names.split()) <= self.unknown:
                complain(f"{self.path} printed no {names} of {program} {flags}")
                self.failed = True
        return values


def add_arguments(parser):
    parser.add_argument("--build", default="build/release", help="where the stage's program is")
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--json", help="write the table here too")
