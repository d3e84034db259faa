"""Check that every crate we link may be shipped under Apache-2.0: `python tools/check_licences.py`.

Reads `cargo metadata` for this platform, evaluates each crate's SPDX expression against `ALLOWED`, and lists every
crate that offers no allowed choice. Exits 1 if there is one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "Unicode-3.0",
        "Unlicense",
        "Zlib",
    }
)

_TOKEN = re.compile(r"\s*([()]|[A-Za-z0-9.+-]+)")


def is_allowed(expression: str) -> bool:
    """Whether an SPDX expression (`MIT OR Apache-2.0`; old crates write `MIT/Apache-2.0`) leaves an allowed choice."""
    tokens = _Tokens(expression.replace("/", " OR "))
    allowed = _any_of(tokens)
    if tokens.next is not None:
        raise ValueError(f"{tokens.next!r} is unexpected in {expression!r}")
    return allowed


class _Tokens:
    def __init__(self, text: str) -> None:
        self._words: Iterator[str] = iter(_TOKEN.findall(text))
        self.next: str | None = next(self._words, None)

    def take(self) -> str:
        if self.next is None:
            raise ValueError("the expression ends too early")
        word, self.next = self.next, next(self._words, None)
        return word


def _any_of(tokens: _Tokens) -> bool:
    allowed = _all_of(tokens)
    while tokens.next == "OR":
        tokens.take()
        # Evaluated first: the right side must be read whatever the left one says.
        allowed = _all_of(tokens) or allowed
    return allowed


def _all_of(tokens: _Tokens) -> bool:
    allowed = _one(tokens)
    while tokens.next == "AND":
        tokens.take()
        allowed = _one(tokens) and allowed
    return allowed


def _one(tokens: _Tokens) -> bool:
    word = tokens.take()
    if word == "(":
        allowed = _any_of(tokens)
        if tokens.take() != ")":
            raise ValueError("a parenthesis is not closed")
        return allowed
    if tokens.next == "WITH":
        tokens.take()
        word = f"{word} WITH {tokens.take()}"
    return word in ALLOWED


def linked_packages() -> list[dict[str, str | None]]:
    """Every crate of the dependency graph on this platform, our own left out."""
    host = next(
        line.removeprefix("host: ")
        for line in subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
        if line.startswith("host: ")
    )
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return [package for package in metadata["packages"] if package["source"] is not None]


def main() -> int:
    """The process's exit code."""
    packages = linked_packages()
    refused = []
    for package in packages:
        licence = package["license"]
        if licence is None or not is_allowed(licence):
            refused.append(f"{package['name']} {package['version']}: {licence or 'no licence named'}")
    for line in refused:
        print(line, file=sys.stderr)
    if refused:
        print(f"\nhint: see ALLOWED in {__file__}", file=sys.stderr)
        return 1
    print(f"{len(packages)} crates, all under an allowed licence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
