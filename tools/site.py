"""The site: what is in docs, the README, the files that they link to, and the reference, as pages that need no network.

`python -m tools.site` builds it into target/site. The pages stay where they are; what leads out of docs leads to a copy
on the site. `python -m tools.site --links` asks whether the addresses elsewhere that pages link to answer.
"""

from __future__ import annotations

import argparse
import html
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote, urlsplit

from tools import reference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CONFIGURATION = DOCS / "zensical.toml"
AT_THE_ROOT = {
    f"{name}.md": f"{page}.md"
    for name, page in {
        "README": "index",
        "CHANGELOG": "changelog",
        "CONTRIBUTING": "contributing",
        "SECURITY": "reporting",
    }.items()
}
"""Pages that are not in docs, by their place on the site."""
# The text is there only where it is words: where it is code, or a picture, what is left of it begins at its bracket.
_LINK = re.compile(r"(?:(?<=\[)([^\[\]`]*))?(\]\()([^)#\s]*)((?:#[^)\s]*)?)(?=\))")
_FENCED = re.compile(r"^(```+)[^\n]*\n.*?^\1$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_SCRIPT = re.compile(r"<(script|style)\b([^>]*)>.*?</\1>", re.DOTALL)
_LOADED = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")
_MARK = re.compile(r"^<!-- (?:test|file): [\w.-]+ -->\n", re.MULTILINE)
# Addresses that the theme's script would fetch from where a page asks for it, and none does: a diagram, an editor.
_FETCHED = re.compile(r"https://(?=(?:unpkg\.com|cdn\.jsdelivr\.net|api\.github\.com)\b)")
_LANGUAGES = {".py": "python", ".rs": "rust", ".toml": "toml", ".yaml": "yaml", ".sh": "bash"}

# It is shown under any address of a site that may lie below any path: so it holds all that it needs, and looks for the
# start from the folder of the address up.
NOT_THERE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>No such page - hitl</title>
<style>
:root { color-scheme: light dark }
body { font: 1.1rem/1.6 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto 0; padding: 0 1rem }
</style>
<h1>There is no such page</h1>
<p>It may have another name in this version.
<a hidden>The start of these pages</a> lists all of them, and has a search.</p>
<script>
(async () => {
  const folders = location.pathname.split("/").slice(0, -1).filter(Boolean);
  for (let depth = folders.length; depth >= 0; depth--) {
    const start = ["", ...folders.slice(0, depth), ""].join("/");
    const found = await fetch(start + "search.json", { method: "HEAD" }).catch(() => null);
    if (found && found.ok) {
      const link = document.querySelector("a");
      link.href = start + "index.html";
      link.hidden = false;
      return;
    }
  }
})();
</script>
</html>
"""


class SiteError(Exception):
    """The site cannot be built: its text says which page, and what is wrong with it."""


def build(work: Path, site: Path) -> list[str]:
    """Build the site, `work` being for what is made on the way; what is wrong with it, a line each."""
    shutil.rmtree(work, ignore_errors=True)
    stage(work / "pages")
    # Beside the pages, so that what the generator keeps for the next time is in target as well.
    shutil.copy(CONFIGURATION, work)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=work,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if built.returncode != 0:
        return [re.sub(r"\x1b\[[\d;]*m", "", built.stdout)]
    shutil.rmtree(site, ignore_errors=True)
    shutil.move(work / "site", site)
    for script in (site / "assets").rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(_FETCHED.sub("about:invalid#", text), encoding="utf-8")
    (site / "404.html").write_text(NOT_THERE, encoding="utf-8")
    return list(wrong_with(site))


def stage(pages: Path) -> None:
    """Write every page of the site, its links made to lead to pages of the site."""
    sources = {f"docs/{path.relative_to(DOCS).as_posix()}": path for path in sorted(DOCS.rglob("*.md"))}
    sources |= {name: ROOT / name for name in AT_THE_ROOT}
    texts = {name: path.read_text(encoding="utf-8") for name, path in sources.items()}
    titles = {name: title(text) for name, text in texts.items()}
    listed = set(navigation())
    made = {f"reference/{path}.md": text for path, text in reference.pages().items()}
    there = {_place(name) for name in texts} | made.keys()
    # What is decided about the inside is reached by its own list.
    left_out = sorted(page for page in there - listed if not page.startswith("decisions/"))
    if left_out or listed - there:
        raise SiteError(f"{CONFIGURATION}: not in the navigation: {left_out}; no page: {sorted(listed - there)}")
    linked: set[str] = set()
    for name, text in texts.items():
        _write(pages / _place(name), with_links(_MARK.sub("", text), name, titles, linked))
    for place, text in made.items():
        _write(pages / place, text)
    for name in sorted(linked):
        _write(pages / _place(name), _source_page(name))
    shutil.copytree(DOCS / "images", pages / "images")


def navigation() -> Iterator[str]:
    """The pages in the navigation, in its order."""

    def within(entries: list[dict[str, object]]) -> Iterator[str]:
        for entry in entries:
            for below in entry.values():
                if isinstance(below, str):
                    yield below
                elif isinstance(below, list):
                    yield from within(below)

    yield from within(tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["project"]["nav"])


def _place(name: str) -> str:
    """Where a file of the repository stands on the site."""
    if name in AT_THE_ROOT:
        return AT_THE_ROOT[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return f"source/{name}.md"


def title(text: str) -> str:
    """The heading of a page, up to a colon and without its signs."""
    found = re.search(r"^# ([^:\n]+)", text, re.MULTILINE)
    return found[1].replace("`", "") if found else ""


def with_links(text: str, name: str, titles: dict[str, str], linked: set[str]) -> str:
    """The text of a page whose links lead to pages of the site, called by their titles where they were by their files.

    Files elsewhere in the repository that it leads to are put into `linked`. SiteError for one that is not there.
    """
    here = posixpath.dirname(_place(name))

    def led(found: re.Match[str]) -> str:
        words, between, target, anchor = found.groups(default="")
        if not target or re.match(r"\w+:", target):
            return found[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if not (ROOT / there).is_file():
            raise SiteError(f"{name} links to {target}, which is no file")
        place = _place(there)
        if place.startswith("source/"):
            linked.add(there)
        if there in titles and posixpath.basename(words) == posixpath.basename(there):
            words = titles[there]
        return f"{words}{between}{posixpath.relpath(place, here or '.')}{anchor}"

    parts, end = [], 0
    for code in _FENCED.finditer(text):
        parts += [_LINK.sub(led, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(led, text[end:])])


def _source_page(name: str) -> str:
    text = (ROOT / name).read_text(encoding="utf-8")
    fence = "`" * max(3, *(len(found) + 1 for found in re.findall(r"`{3,}", text + "```")))
    head = "---\nsearch:\n  exclude: true\n---\n"
    opening = fence + _LANGUAGES.get(Path(name).suffix, "")
    return f"{head}# {posixpath.basename(name)}\n\n`{name}`\n\n{opening}\n{text}{fence}\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def wrong_with(site: Path) -> Iterator[str]:
    """What is wrong with a built site: links and anchors that lead nowhere, lists that are none, and what it would
    fetch from elsewhere."""
    texts = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {page: set(re.findall(r"\s(?:id|name)=\"?([^\s\">]+)", text)) for page, text in texts.items()}
    for page, text in sorted(texts.items()):
        for tag, attribute, target in _targets(_SCRIPT.sub(r"<\1\2>", text)):
            split = urlsplit(target)
            if split.scheme or split.netloc:
                if tag != "a" and split.scheme != "data":
                    yield f"{page}: <{tag} {attribute}> fetches {target}"
                continue
            there = page
            if split.path:
                there = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(split.path)))
            if not (site / there).is_file():
                yield f"{page}: {target} leads to no file"
            elif split.fragment and unquote(split.fragment) not in anchors.get(there, set()):
                yield f"{page}: {target} leads to no anchor"
        for words in re.findall(r"<p>(.*?)</p>", text, re.DOTALL):
            if (item := words.find("\n- ")) >= 0:
                yield f"{page}: no item of a list, for want of an empty line before it: {words[item + 1 :][:60]!r}"
    for path in sorted(site.rglob("*.js")):
        for address in _addresses(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} names {address}"
    for path in sorted(site.rglob("*.css")):
        for address in _LOADED.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} fetches {address}"


def _targets(text: str) -> Iterator[tuple[str, str, str]]:
    for tag, attributes in re.findall(r"<(\w+)((?:\s[^<>]*)?)>", text):
        for attribute, target in re.findall(r"\s(href|src|srcset|poster|action)=\"([^\"]*)\"", attributes):
            if not target.startswith("#__") and target != ".":
                yield tag, attribute, html.unescape(target)


def _addresses(text: str) -> set[str]:
    """Addresses in a script, but for the names of formats and those in comments."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found: set[str] = set(re.findall(r"https?://[\w.-]+\.[a-z]+", code))
    return {address for address in found if not address.endswith("//www.w3.org")}


def outer_links(site: Path) -> dict[str, list[str]]:
    """Addresses elsewhere that pages link to, each with the pages."""
    found: dict[str, list[str]] = {}
    for path in sorted(site.rglob("*.html")):
        for tag, _, target in _targets(path.read_text(encoding="utf-8")):
            if tag == "a" and target.startswith("https://"):
                found.setdefault(target.partition("#")[0], []).append(path.relative_to(site).as_posix())
    return found


def dead(address: str) -> str | None:
    """Why an address does not answer, or None."""
    request = urllib.request.Request(address, headers={"User-Agent": "hitl-docs"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return None
    except (URLError, OSError, ValueError) as error:
        return str(error)


def main() -> int:
    """1 where something is wrong with the site."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--links", action="store_true", help="ask the addresses elsewhere, which wants a network")
    asked = options.parse_args()
    site = ROOT / "target" / "site"
    try:
        wrong = build(ROOT / "target" / "site-work", site)
    except SiteError as error:
        wrong = [str(error)]
    if asked.links and not wrong:
        for address, on in outer_links(site).items():
            if (reason := dead(address)) is not None:
                wrong.append(f"{address} ({', '.join(sorted(set(on)))}): {reason}")
    print("\n".join(wrong) or f"target/site: {sum(1 for _ in site.rglob('*.html'))} pages; open target/site/index.html")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
