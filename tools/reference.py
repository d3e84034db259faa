"""The reference of the Python names and of the command line, as Markdown, for the site.

It is made when the site is built and kept nowhere else: what it says stands in docstrings and in the help of commands.
griffe reads the package without running it; which names are public is what the packages list in `__all__`.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import typer.main

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "hitl": "Agents, tools, questions, steps, runs and servers.",
    "hitl.client": "Talking to a server from Python.",
    "hitl.models": "What an agent asks its model by.",
    "hitl.testing": "A server, a scripted model and a person who answers as told, for tests.",
    "hitl.hooks": "Hooks and tools that interrupt, in the words of Strands.",
    "hitl.middleware": "Middleware and `Command(resume=...)`, in the words of LangChain and SpoonOS.",
    "hitl.planner": "A planner whose tools pause, in the words of PenguiFlow.",
}
_WIDTH = 88


@cache
def pages() -> dict[str, str]:
    """Every page of the reference by its path below `reference/`, without its ending."""
    package = griffe.load("hitl", search_paths=[ROOT / "python"], allow_inspection=False, resolve_aliases=True)
    assert isinstance(package, griffe.Module)
    made = {f"python/{name}": _package_page(package, name, about) for name, about in PACKAGES.items()}
    made["python/index"] = _index_page()
    made["command-line"] = _command_line_page()
    return made


def _index_page() -> str:
    rows = [f"| [`{name}`]({name}.md) | {about} |" for name, about in PACKAGES.items()]
    return "\n".join(
        [
            "# Python",
            "",
            "What these packages list in `__all__` is public. Signatures and texts are those of the code.",
            "",
            "| package | |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def _package_page(package: griffe.Module, name: str, about: str) -> str:
    runtime = importlib.import_module(name)
    module = package if name == "hitl" else package[name.removeprefix("hitl.")]
    public = [each for each in runtime.__all__ if each != "__version__"]
    entries = {each: _Entry(each, _final(module.members[each]), getattr(runtime, each)) for each in public}
    groups: dict[str, list[str]] = {"Functions and decorators": [], "Classes": [], "Types": [], "Errors": []}
    for each in sorted(entries, key=str.lower):
        groups[entries[each].group].append(each)
    lines = [f"# {name}", "", about, ""]
    for group, names in groups.items():
        if names:
            links = ", ".join(f"[`{each}`](#{_anchor(each)})" for each in names)
            lines += [f"**{group}**: {links}", ""]
    for names in groups.values():
        for each in names:
            lines += [*entries[each].lines(), ""]
    return "\n".join(lines)


def _anchor(heading: str) -> str:
    return "".join(letter for letter in heading.lower() if letter.isalnum() or letter in "_- ").replace(" ", "-")


def _final(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


class _Entry:
    """One public name: what griffe read of it, and the value, for what its docstring is made of when it is imported."""

    def __init__(self, name: str, read: griffe.Object, value: Any) -> None:
        self._name = name
        self._read = read
        self._value = value

    @property
    def group(self) -> str:
        if inspect.isclass(self._value):
            return "Errors" if issubclass(self._value, BaseException) else "Classes"
        return "Functions and decorators" if self._is_called else "Types"

    @property
    def _is_called(self) -> bool:
        return inspect.isfunction(self._value) or type(self._value).__module__.startswith("hitl")

    def lines(self) -> Iterator[str]:
        yield f"## {self._name}"
        yield ""
        yield from _fenced(self._signature())
        text = _text_of(self._value, self._read)
        yield from _docstring(text, self._read)
        if isinstance(self._read, griffe.Class):
            yield from self._members(self._read, text)

    def _signature(self) -> str:
        if isinstance(self._read, griffe.Function):
            return _call(self._name, self._read)
        if isinstance(self._read, griffe.Class):
            # What a class is made of inside is nobody's; what an error can be caught as is.
            bases = [str(base) for base in self._read.bases] if self.group == "Errors" else []
            head = f"class {self._name}({', '.join(bases)})" if bases else f"class {self._name}"
            made_by = self._read.all_members.get("__init__")
            made_by = None if made_by is None else _final(made_by)
            if isinstance(made_by, griffe.Function):
                return f"{head}\n\n{_call(self._name, made_by)}"
            return head
        if self._is_called:
            by = type(self._value).__name__
            folder = self._read.parent
            owner = folder.members.get(by) if folder is not None else None
            call = owner.members.get("__call__") if isinstance(owner, griffe.Class) else None
            if isinstance(call, griffe.Function):
                return _call(self._name, call)
            return self._name
        return f"{self._name} = {getattr(self._read, 'value', None)}"

    def _members(self, read: griffe.Class, text: str) -> Iterator[str]:
        own = {name: _final(member) for name, member in read.all_members.items() if not name.startswith("_")}
        # What stands in a base of ours is inherited; what stands in one of Python's everybody knows.
        members = {name: _method_of(member) for name, member in own.items() if member.path.startswith("hitl.")}
        fields = {name: member for name, member in members.items() if isinstance(member, griffe.Attribute)}
        shown = [
            f"- `{name}: {member.annotation}`{_inline(member)}"
            for name, member in fields.items()
            if member.annotation and not re.search(rf"^ *{name}: ", text, re.MULTILINE)
        ]
        if shown:
            yield from ("", *shown, "")
        for name, member in members.items():
            if isinstance(member, griffe.Function):
                yield from ("", f"### {self._name}.{name}", "")
                yield from _fenced(_call(name, member))
                if member.docstring is not None:
                    yield from _docstring(member.docstring.value, member)


def _method_of(member: griffe.Object) -> griffe.Object:
    """The function that says what a method of a client is, where the client has it as `name = _method(calls.name)`."""
    found = re.fullmatch(r"_method\(calls\.(\w+)\)", str(getattr(member, "value", "")))
    if found is None:
        return member
    package = member.package
    return _final(package[f"client.calls.{found[1]}"])


def _inline(member: griffe.Attribute) -> str:
    if member.docstring is None:
        return ""
    return ": " + " ".join(member.docstring.value.split())


def _text_of(value: Any, read: griffe.Object) -> str:
    """A docstring; of a class also that of its `__init__`, of an object that is called also that of the call."""
    parts: list[str | None] = []
    if inspect.isclass(value):
        parts.append(read.docstring.value if read.docstring else None)
        if "__init__" in value.__dict__:
            made_by = read.members.get("__init__")
            parts.append(made_by.docstring.value if made_by is not None and made_by.docstring else None)
    elif inspect.isfunction(value):
        parts.append(value.__doc__)
    elif type(value).__module__.startswith("hitl"):
        parts += [type(value).__call__.__doc__ if "see ``__call__``" in (value.__doc__ or "") else value.__doc__]
    else:
        parts.append(read.docstring.value if read.docstring else None)
    texts = [inspect.cleandoc(part) for part in parts if part]
    return "\n\n".join(dict.fromkeys(texts))


def _call(name: str, function: griffe.Function) -> str:
    """`name(parameters) -> result`, on one line or, where it does not fit, with a parameter a line."""
    parameters = [each for each in function.parameters if each.name not in ("self", "cls")]
    shown: list[str] = []
    star = False
    for each in parameters:
        kind = each.kind
        if kind is griffe.ParameterKind.keyword_only and not star:
            shown.append("*")
            star = True
        prefix = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        star = star or kind is griffe.ParameterKind.var_positional
        text = prefix + each.name + (f": {each.annotation}" if each.annotation else "")
        if each.default is not None and not prefix:
            text += f" = {each.default}" if each.annotation else f"={each.default}"
        shown.append(text)
    returns = re.sub(r"^(?:Call\[(.*)\]|Generator\[.*, (\w+)\])$", r"\1\2", str(function.returns))
    result = f" -> {returns}" if function.returns and function.name != "__init__" else ""
    word = "async " if "async" in function.labels else ""
    line = f"{word}{name}({', '.join(shown)}){result}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{word}{name}(", *(f"    {each}," for each in shown), f"){result}"])


def _fenced(text: str, language: str = "python") -> list[str]:
    return [f"```{language}", *text.splitlines(), "```", ""]


def _docstring(text: str, parent: griffe.Object) -> Iterator[str]:
    # Parameters without a type in the docstring have theirs in the signature, which griffe would ask for.
    parsed = griffe.Docstring(text, parent=parent).parse("google", warnings=False)
    for section in parsed:
        value = section.value
        match section.kind:
            case griffe.DocstringSectionKind.text:
                yield from (*_with_list(value, parent), "")
            case griffe.DocstringSectionKind.admonition:
                yield from _fenced(textwrap.dedent(value.description).strip("\n"))
            case griffe.DocstringSectionKind.parameters | griffe.DocstringSectionKind.attributes:
                yield from _named((each.name, each.description) for each in value)
            case griffe.DocstringSectionKind.raises:
                yield "Raises:"
                yield ""
                yield from _named((str(each.annotation), each.description) for each in value)
            case griffe.DocstringSectionKind.returns | griffe.DocstringSectionKind.yields:
                yield from ("Returns: " + " ".join(" ".join(each.description.split()) for each in value), "")
            case _:
                raise ValueError(
                    f"{parent.path}: a section of a docstring that the reference has no form for: {section}"
                )


def _with_list(text: str, parent: griffe.Object) -> Iterator[str]:
    """Lines of prose, those that begin with the name of a parameter and a colon as a list."""
    names = {each.name for each in getattr(parent, "parameters", ())}
    made_by = parent.members.get("__init__") if isinstance(parent, griffe.Class) else None
    names |= {each.name for each in getattr(made_by, "parameters", ())}
    in_list = False
    for line in text.splitlines():
        found = re.match(r"(\w+): ", line)
        if found is not None and found[1] in names:
            if not in_list:
                yield ""
            in_list = True
            yield f"- `{found[1]}`: {line[found.end() :]}"
        else:
            in_list = in_list and bool(line.strip())
            yield f"  {line}" if in_list else line


def _named(rows: Any) -> Iterator[str]:
    for name, description in rows:
        yield f"- `{name}`: {' '.join(description.split())}"
    yield ""


def _command_line_page() -> str:
    """Every command with its arguments and options, as its `--help` has them."""
    from hitl.cli.app import program

    root = typer.main.get_command(program())
    lines = [
        "# Command line",
        "",
        "`hitl COMMAND --help` says the same. Every option is also a variable: its name in capitals after `HITL_` and",
        "the command, as `HITL_SESSIONS_LIST_LIMIT`; options of `serve`, and `--url`, `--api-key` and `--json` of the",
        "others, without the command.",
        "",
        "A command that asks a server finds it by `--url` (`hitl chat` by its argument), else by `HITL_URL`, else",
        "where `hitl serve` with the same `HITL_HOST` and `HITL_PORT` listens, which without them is `http://127.0.0.1:8000`.",
        "One that can read a store in the place of a server does so only when `--store` is given.",
        "",
    ]
    for path, command in _commands(root, ["hitl"]):
        if hasattr(command, "commands"):
            continue
        lines += [f"## {' '.join(path)}", "", *_command(path, command), ""]
    return "\n".join(lines)


def _commands(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _commands(inner, [*path, name])


def _command(path: list[str], command: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = [*path, *(_metavar(each) for each in arguments)]
    yield from _fenced(" ".join([*usage, "[OPTIONS]"] if options else usage), "")
    yield inspect.cleandoc(command.help or "")
    yield ""
    rows = [(f"`{_metavar(each)}`", getattr(each, "help", None) or "") for each in arguments]
    for each in options:
        names = ", ".join(f"`{name}`" for name in [*each.opts, *each.secondary_opts])
        default = each.default
        said = each.help or ""
        if default not in (None, False, (), []) and not callable(default):
            said += f" (`{getattr(default, 'value', default)}`)"
        rows.append((names, said))
    if rows:
        yield "| | |"
        yield "|---|---|"
        for name, said in rows:
            yield f"| {name} | {' '.join(said.split()).replace('|', chr(92) + '|')} |"
        yield ""


def _metavar(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"
