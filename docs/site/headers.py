"""Writes the reference of C and C++ headers: Doxygen reads them, this makes Markdown of its XML.

A line `{{ header PATH }}` of a page becomes all declarations of that header.
"""

from __future__ import annotations

import functools
import html
import re
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
HEADERS = (
    "bindings/cpp/ronde/ronde.h",
    "bindings/cpp/ronde/tensor.h",
    "bindings/cpp/ronde/elastic.h",
    "bindings/cpp/ronde/sharded.h",
    "bindings/cpp/ronde/error.h",
    "core/base/dtype.h",
    "core/base/status.h",
    "bindings/c/ronde_c.h",
)
MARK = re.compile(r"^\{\{ header (\S+)([^}]*) \}\}$", re.MULTILINE)
# The C header's comments are plain: those after code on a line belong to what is before them.
NOLINT = re.compile(r"NOLINT\w*(\([^)]*\))?(:[^\n]*)?")
# Names that are of no use to callers.
INTERNAL = re.compile(
    r"@|\b(Impl|impl|Rep|DTypeTraits|ReduceOpTraits|traits_of|k\w*(Count|Types|Ops))\b"
)
FILTER = r"""sed -E 's#^( *)/\* #\1/** #; s#([^ ] +)/\* #\1/**< #'"""
SETTINGS = """
QUIET = YES
WARNINGS = NO
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = RONDE_API= RONDE_EXPORT= __cplusplus=202002L
ENABLE_PREPROCESSING = YES
SEARCH_INCLUDES = NO
EXTRACT_ANON_NSPACES = NO
"""


class Declaration(NamedTuple):
    """One name of a header; `inside` is the type that it is a member of, or ""."""

    line: int
    inside: str
    name: str
    kind: str
    code: str
    text: str


def text_of(element: ElementTree.Element | None) -> str:
    """Returns a description as Markdown."""
    if element is None:
        return ""
    parts = [escaped(element.text)]
    for child in element:
        inner = text_of(child)
        if child.tag == "computeroutput":
            inner = f"`{''.join(child.itertext())}`"
        elif child.tag == "para":
            inner = f"\n\n{inner}"
        elif child.tag == "listitem":
            inner = f"\n- {inner.strip()}"
        elif child.tag == "verbatim":
            inner = f"\n```\n{''.join(child.itertext())}```\n"
        parts += [inner, escaped(child.tail)]
    return "".join(parts)


def escaped(text: str | None) -> str:
    """Returns text without what Markdown or HTML would take for markup."""
    return re.sub(r"([*\[\]])", r"\\\1", (text or "").replace("&", "&amp;").replace("<", "&lt;"))


def described(element: ElementTree.Element) -> str:
    """Returns all that the header says of a declaration."""
    kinds = ("briefdescription", "detaileddescription", "inbodydescription")
    texts = (NOLINT.sub("", text_of(element.find(kind))).strip() for kind in kinds)
    return "\n\n".join(filter(None, texts))


def plain(element: ElementTree.Element, tag: str) -> str:
    """Returns the text below `tag`, on one line."""
    found = element.find(tag)
    return "" if found is None else " ".join("".join(found.itertext()).split())


def code_of(member: ElementTree.Element) -> str:
    """Returns a member's declaration as C++ has it."""
    kind, name = member.get("kind"), plain(member, "name")
    if kind == "define":
        return f"#define {name} {plain(member, 'initializer')}".rstrip()
    if kind == "enum":
        values = [enumerator(value) for value in member.iter("enumvalue")]
        return f"enum {name} {{\n" + "".join(f"  {value}\n" for value in values) + "}"
    if kind == "typedef" and "=" in plain(member, "definition"):
        return f"using {name} = {plain(member, 'type').removeprefix('typedef ')}"
    start = plain(member, "initializer") if kind == "variable" else ""
    whole = f"{plain(member, 'type')} {name}{plain(member, 'argsstring')} {start}".strip()
    return template_of(member) + spaced("typedef " * (kind == "typedef") + whole)


def template_of(member: ElementTree.Element) -> str:
    """Returns "template <...>" and a new line, or nothing."""
    template = member.find("templateparamlist")
    if template is None:
        return ""
    names = [f"{plain(p, 'type')} {plain(p, 'declname')}".strip() for p in template.iter("param")]
    return f"template <{', '.join(names)}>\n"


def spaced(code: str) -> str:
    """Returns code with spaces where the headers have them."""
    code = code.replace("< ", "<").replace(" >", ">").replace("(* ", "(*")
    code = re.sub(r"(?<=\w)\(\*", " (*", code).replace(" *(*", "* (*")
    return re.sub(r" ([&*]+) ?(?=\w)", r"\1 ", code)


def enumerator(value: ElementTree.Element) -> str:
    """Returns a value of an enumeration with its comment."""
    start = plain(value, "initializer")
    text = " ".join(described(value).split())
    code = f"{plain(value, 'name')} {start}".strip() + ","
    return f"{code}  // {text}" if text else code


def member_of(member: ElementTree.Element, inside: str) -> tuple[str, Declaration] | None:
    """Returns a member's header and declaration; None for what is private."""
    place = member.find("location")
    if place is None or member.get("prot") not in ("public", None):
        return None
    line = int(place.get("line", "0"))
    name = plain(member, "name")
    kind = member.get("kind", "")
    made = Declaration(line, inside, name, kind, code_of(member), described(member))
    return place.get("file", ""), made


@functools.cache
def declarations() -> dict[str, list[Declaration]]:
    """Returns the declarations of each header, in their order."""
    found: dict[str, list[Declaration]] = {name: [] for name in HEADERS}
    with tempfile.TemporaryDirectory() as folder:
        settings = f"{SETTINGS}INPUT = {' '.join(HEADERS)}\nOUTPUT_DIRECTORY = {folder}\n"
        settings += f'FILTER_PATTERNS = "*/ronde_c.h={FILTER}"\n'
        subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=ROOT, check=True)
        for file in sorted(Path(folder, "xml").glob("*.xml")):
            for compound in ElementTree.parse(file).iter("compounddef"):
                read(compound, found)
    return {name: sorted(set(all_of)) for name, all_of in found.items()}


def read(compound: ElementTree.Element, found: dict[str, list[Declaration]]) -> None:
    """Adds what one class, namespace or file declares."""
    kind = compound.get("kind", "")
    if kind not in ("class", "struct", "union", "namespace", "file", "concept"):
        return
    inside = ""
    if kind not in ("namespace", "file"):
        inside = plain(compound, "compoundname").removeprefix("ronde::")
        place = compound.find("location")
        assert place is not None
        code = plain(compound, "initializer") or f"{kind} {inside}"
        line = int(place.get("line", "0"))
        entry = Declaration(line, "", inside, "type", code, described(compound))
        found.setdefault(place.get("file", ""), []).append(entry)
    for member in compound.iter("memberdef"):
        made = member_of(member, inside)
        if made:
            found.setdefault(made[0], []).append(made[1])


def page_of(header: str, only: list[str]) -> str:
    """Returns a header's reference as Markdown; of the names `only`, where there are any."""
    parts: list[str] = []
    known = [one for one in declarations()[header] if not is_internal(one)]
    heading = ""
    for one in known:
        if only and not {one.name, one.inside} & set(only):
            continue
        if one.inside and one.kind == "variable":
            continue  # stands in its type's code
        if not one.inside and one.name != heading:
            heading = one.name
            parts.append(f"### {one.name} {{ #{one.name} }}\n")
        fields = [f for f in known if f.inside == one.name and f.kind == "variable"]
        parts.append(entry_of(one, fields if one.kind == "type" else []))
    return "\n".join(parts)


def is_internal(one: Declaration) -> bool:
    """True for what only Ronde itself uses, and for C's second name of a struct."""
    repeated = re.fullmatch(r"typedef (enum|struct) (\w+) \2", one.code)
    text = f"{one.inside} {one.name} {'Impl' if 'Impl>' in one.code else ''}"
    return bool(repeated) or bool(INTERNAL.search(text))


def entry_of(one: Declaration, fields: list[Declaration]) -> str:
    """Returns one declaration with its text; `fields` of a struct stand inside."""
    lines = [f"  {spaced(field.code)};{comment_of(field)}" for field in fields]
    code = "\n".join([one.code + (" {" if lines else ""), *lines, *(["};"] if lines else [])])
    names = [f"{one.inside}.{one.name}"] if one.inside else []
    names += [f"{one.name}.{field.name}" for field in fields]
    anchors = "".join(f'<a id="{name}"></a>' for name in dict.fromkeys(names))
    return f"{anchors}\n\n```cpp\n{code}\n```\n\n{one.text}\n"


def comment_of(field: Declaration) -> str:
    """Returns a field's text as a comment; a long one begins on the next line."""
    text = " ".join(html.unescape(field.text).replace("\\", "").split())
    if len(text) < 60:
        return f"  // {text}" if text else ""
    return "\n" + textwrap.fill(text, 88, initial_indent="      // ", subsequent_indent="      // ")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""
    return MARK.sub(lambda found: page_of(found[1], found[2].split()), markdown)
