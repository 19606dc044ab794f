"""The table of element types in docs/reference/dtypes.md is what the bindings do."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs/reference/dtypes.md"
OPERATIONS = {
    "numbers": {"Sum", "Average", "Min", "Max", "Product"},
    "bits": {"BitAnd", "BitOr", "BitXor"},
}

# Makes every call in a job of one rank. Prints, by binding and dtype, the operations that it has;
# "moves" where it has none, but a broadcast.
TRIES = """
import json, sys
import numpy as np
import ronde
from ronde import _core

ronde.init(settings={"RONDE_RANK": 0, "RONDE_SIZE": 1})
OPS = "Sum Average Min Max Product BitAnd BitOr BitXor Adasum".split()
NAMES = [*_core.dtypes(), "complex64", "complex128"]

def works(call):
    try:
        call()
    except (ronde.InvalidArgumentError, ValueError, TypeError):
        return False
    return True

def found(module, make, name):
    if not works(lambda: make(name)):
        return None
    value = make(name)
    had = [op for op in OPS if works(lambda: module.allreduce(value, op=getattr(ronde, op)))]
    return had or ("moves" if works(lambda: module.broadcast(value, 0)) else None)

def table(module, make):
    return {name: found(module, make, name) for name in NAMES}

if sys.argv[1] == "NumPy":
    print(json.dumps(table(ronde, lambda name: np.zeros(2, np.dtype(name)))))
elif sys.argv[1] == "PyTorch":
    import torch
    import ronde.torch as hvd
    kinds = {name: getattr(torch, name, None) for name in NAMES}
    print(json.dumps(table(hvd, lambda name: torch.zeros(2).to(kinds[name] or name))))
else:
    import tensorflow as tf
    import ronde.tensorflow as hvd
    kinds = {name: getattr(tf, name, None) for name in NAMES}
    print(json.dumps(table(hvd, lambda name: tf.zeros(2, kinds[name] or name))))
"""


def rows():
    """The table's cells by dtype and column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    header, _, *body = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return {cells[0]: dict(zip(header, cells)) for cells in body}


def operations(cell):
    """The operations that a cell of the table stands for."""
    parts = cell.split(", ")
    return set().union(*(OPERATIONS.get(part, {part}) for part in parts))


def tried(binding):
    done = subprocess.run(
        [sys.executable, "-c", TRIES, binding], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_table_lists_the_types_of_the_core():
    header = (ROOT / "bindings/c/ronde_c.h").read_text()
    in_c = re.search(r"typedef enum ronde_dtype \{(.*?)\}", header, re.DOTALL).group(1)
    names = re.findall(r"RONDE_\w+", in_c)
    listed = rows()
    assert [row["C"] for row in listed.values() if row["C"]] == names
    assert [name for name, row in listed.items() if row["C"]] == [
        name.removeprefix("RONDE_").lower() for name in names
    ]
    in_cpp = (ROOT / "bindings/cpp/ronde/tensor.h").read_text()
    own = [row["C++"] for row in listed.values() if row["C++"].startswith("ronde::")]
    structs = re.findall(r"^struct (Float\w+|Bfloat\w+)", in_cpp, re.MULTILINE)
    assert own == [f"ronde::{name}" for name in structs]


@pytest.mark.parametrize(
    ("binding", "module"),
    [("NumPy", "numpy"), ("PyTorch", "torch"), ("TensorFlow, Keras", "tensorflow")],
)
def test_each_binding_does_what_the_table_says(binding, module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    for name, had in tried(binding).items():
        row = rows()[name]
        if module == "torch" and name.startswith(("uint", "float8")) and had is None:
            continue  # an older torch does not have the type
        wanted = {"yes": operations(row["operations"]), "moves": "moves", "": None}[row[binding]]
        assert (set(had) if isinstance(had, list) else had) == wanted, (binding, name)
