"""No file restates the core's tables of collectives, reduce operations and element types.

The tables are in core/base/collective.h and core/base/dtype.h. Other code asks them, or the
extension module. A map from another system's names to the core's is no restatement.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("core", "ops", "backends", "bindings", "timeline")
TABLES = ("core/base/collective.h", "core/base/dtype.h")
# TensorFlow's graph operations and their types, in the language in which it registers them; and
# the collectives that a two-level algorithm has.
EXEMPT = (
    "bindings/tensorflow/ops.cc",
    "ops/hierarchical/communicator.cc",
    "ops/selection/selector.cc",
)
EVENT = re.compile(r'"(?:NEGOTIATE_)?[A-Z]{4,}"')
MOST = 3  # names of one table in a row; docstrings and __all__ may have more

ROW = re.compile(r'(?:\.name = |Traits\{\w+::\w+, )"(\w+)"')
COMMENT = re.compile(r"//[^\n]*")
CPP_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
BETWEEN = re.compile(r"[\s,:{}()\d]*")
COMPARED = r"[!=]= *Collective::k\w+"
COMPARISONS = re.compile(COMPARED + r"[^;{}?]*?(?:\|\||&&)[^;{}?]*?" + COMPARED)


def table_names() -> list[set[str]]:
    """The names of each table."""
    collectives, types = ((ROOT / table).read_text() for table in TABLES)
    operations = types[types.index("kReduceOps") :]
    return [
        set(ROW.findall(collectives)),
        set(ROW.findall(operations)),
        set(ROW.findall(types)) - set(ROW.findall(operations)),
    ]


NAMES = table_names()


def lists_too_many(words: list[str]) -> bool:
    return any(sum(word.lower() in names for word in words) > MOST for names in NAMES)


def in_text(text: str) -> bool:
    """True if the text lists names, as "allreduce, allgather, ..." does."""
    runs = re.findall(r"\w+(?:(?:, | or | and |/|\|)\w+)+", text)
    return any(lists_too_many(re.findall(r"\w+", run)) for run in runs)


def restated_events(source: str) -> list[str]:
    """Names of collectives' events, which the table has."""
    events = {name.replace("_", "").upper() for name in NAMES[0]}
    found = EVENT.findall(COMMENT.sub("", source))
    return [text for text in found if text.strip('"').removeprefix("NEGOTIATE_") in events]


def restated_in_cpp(source: str) -> list[str]:
    """Lists of names in C++: strings one after another, or one string."""
    found = []
    texts = list(CPP_TEXT.finditer(COMMENT.sub("", source)))
    run: list[str] = []
    for i, text in enumerate(texts):
        gap = texts[i].string[texts[i - 1].end() : text.start()] if i else ";"
        run = [*run, text[1]] if BETWEEN.fullmatch(gap) else [text[1]]
        if lists_too_many(run) or in_text(text[1]):
            found.append(text[1])
    return found


def restated_in_python(source: str) -> list[str]:
    """Lists and strings of names, dictionaries from names to numbers, and numbers by range()."""
    tree = ast.parse(source)
    public = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AugAssign)) and "__all__" in ast.unparse(node)
        for part in ast.walk(node)
    }
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in public or id(node) in documents:
            continue
        if is_restated(node):
            found.append(ast.unparse(node))
    return found


def is_restated(node: ast.AST) -> bool:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return lists_too_many(texts_of(node.elts))
    if isinstance(node, ast.Dict):
        numbered = all(is_number(value) for value in node.values)
        return numbered and lists_too_many(texts_of(node.keys))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return in_text(node.value)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        names = [ast.unparse(target) for target in node.targets[0].elts]
        return "range(" in ast.unparse(node.value) and lists_too_many(names)
    return False


def texts_of(nodes: list[ast.expr | None] | list[ast.expr]) -> list[str]:
    """Strings, and the last parts of dotted names such as tf.float32."""
    texts = []
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
        if isinstance(node, ast.Attribute):
            texts.append(node.attr)
    return texts


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def sources(*suffixes: str) -> list[str]:
    found = [
        path.relative_to(ROOT).as_posix()
        for part in PARTS
        for path in sorted((ROOT / part).rglob("*"))
        if path.suffix in suffixes
    ]
    return [path for path in found if path not in (*TABLES, *EXEMPT)]


def test_the_tables_are_read():
    collectives, operations, types = NAMES
    assert {"allreduce", "reduce_scatter", "join"} <= collectives
    assert {"sum", "bitxor"} <= operations
    assert {"uint8", "float8_e5m2"} <= types
    assert not types & operations


@pytest.mark.parametrize(
    "source",
    [
        '{"allreduce", "allgather", "broadcast", "reduce_scatter"}',
        '"one of allreduce, allgather, broadcast, reduce or gather"',
        '"uint8",\n  "int8", "int16",\n "int32"',
    ],
)
def test_a_list_in_cpp_is_found(source):
    assert restated_in_cpp(source)


@pytest.mark.parametrize(
    "source",
    [
        "SUM, AVERAGE, MIN, MAX, PRODUCT = range(5)",
        "x = ('allreduce', 'allgather', 'broadcast', 'reduce_scatter')",
        "codes = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3}",
        "types = (tf.uint8, tf.int8, tf.int16, tf.int32)",
        "names = 'Average, Sum, Min, Max or Product'",
    ],
)
def test_a_list_in_python_is_found(source):
    assert restated_in_python(source)


@pytest.mark.parametrize(
    "source",
    [
        "__all__ = ['allreduce', 'allgather', 'broadcast', 'reduce_scatter']",
        "'''Sum, Average, Min, Max, or on integers BitAnd.'''",
        "kinds = {'uint8': (1, 8), 'int8': (0, 8), 'int16': (0, 16), 'int32': (0, 32)}",
        "SUM = ops['sum']",
    ],
)
def test_what_is_no_list_in_python_is_left_alone(source):
    assert restated_in_python(source) == []


def test_an_event_name_is_found():
    assert restated_events('path.starts_with("ALLREDUCE") || name == "NEGOTIATE_JOIN"') == [
        '"ALLREDUCE"',
        '"NEGOTIATE_JOIN"',
    ]
    assert restated_events('Phase phase(events, "PACK")') == []


def test_a_chain_of_comparisons_is_found():
    assert COMPARISONS.search("k == Collective::kReduce ||\n  k == Collective::kAllreduce;")
    assert not COMPARISONS.search("a == Collective::kReduce; b == Collective::kAllreduce;")


def test_no_cpp_file_restates_a_table():
    found = {}
    for path in sources(".h", ".cc", ".cu"):
        source = (ROOT / path).read_text()
        found[path] = restated_in_cpp(source) + restated_events(source)
        found[path] += COMPARISONS.findall(source)
    assert {path: lists for path, lists in found.items() if lists} == {}


def test_no_python_file_restates_a_table():
    found = {path: restated_in_python((ROOT / path).read_text()) for path in sources(".py")}
    assert {path: lists for path, lists in found.items() if lists} == {}
