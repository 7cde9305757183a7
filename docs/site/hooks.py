"""What MkDocs does not do by itself for the site of docs/.

- Pages and files that lie outside docs/ and are linked to become pages below repository/: documents as they are, sources
  as their text. So a link that works in the repository works in the site, and the site asks no other host.
- A pattern in mkdocs.yml's `nav` stands for the pages that no other line names.
- Formulas ($...$, as GitHub has them) become MathML, which browsers draw without a script.
"""

from __future__ import annotations

import fnmatch
import html
import pathlib
import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any

import latex2mathml.converter
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where documents lie outside docs/, and those of the root. NEXT.md is for who works on the project.
FOLDERS = ("base", "client", "deploy", "kernels", "model_zoo", "proto", "server")
OMITTED = {"NEXT.md"}
FOLDER_PAGE = "overview.md"  # what a README outside docs/ is called in the site
OTHERS = {"build", "vendor", "third_party"}  # folders of what is not ours
PICTURES = {".png", ".jpg", ".svg", ".webp"}
LANGUAGES = {
    ".cc": "cpp",
    ".h": "cpp",
    ".cu": "cpp",
    ".proto": "protobuf",
    ".py": "python",
    ".sh": "bash",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".toml": "toml",
    ".textproto": "text",
}
LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
FENCE = re.compile(r"^ *(```+|~~~+)")


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """`markdown` with `change` made to each line that stands in no fenced block."""
    lines, fence = [], ""
    for line in markdown.split("\n"):
        found = FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and line.strip() == fence:
            fence = ""
        elif not fence:
            line = change(line)
        lines.append(line)
    return "\n".join(lines)


def place_in_site(path: str) -> str:
    """The site's name of a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if pathlib.PurePosixPath(path).name == "README.md":
        # Under another name: a README would be the front page of the section that names it.
        return f"repository/{path.removesuffix('README.md')}{FOLDER_PAGE}"
    if is_page_or_picture(path):
        return f"repository/{path}"
    return f"repository/{path}.md"  # its text, or a folder's files, on a page


def is_page_or_picture(path: str) -> bool:
    return path.endswith(".md") or pathlib.PurePosixPath(path).suffix in PICTURES


def place_in_repository(src_uri: str) -> str:
    if src_uri.startswith("repository/"):
        path = src_uri.removeprefix("repository/")
        if pathlib.PurePosixPath(path).name == FOLDER_PAGE:
            return path.removesuffix(FOLDER_PAGE) + "README.md"
        return path
    return f"docs/{src_uri}"


def linked_to(path: str, markdown: str) -> Iterator[tuple[str, str, str]]:
    """Of each link to a file of the repository: as it stands there, the file, and what follows `#`."""
    found: list[str] = []
    outside_code(markdown, lambda line: found.extend(LINK.findall(line)) or line)
    for link in found:
        target, _, anchor = link.partition("#")
        if not target or "://" in target or target.startswith(("/", "mailto:")):
            continue
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if (ROOT / file / "README.md").is_file():
            file = posixpath.normpath(f"{file}/README.md")
        if not file.startswith("..") and (ROOT / file).exists():
            yield link, file, anchor


def documents() -> list[str]:
    """Every document of the repository that the site has, by its path there."""
    outside = [file.name for file in ROOT.glob("*.md") if file.name not in OMITTED]
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.md"):
            parts = file.relative_to(ROOT).parts
            if not any(part in OTHERS or part.startswith(".") for part in parts):
                outside.append("/".join(parts))
    inside = [
        file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*.md")
    ]
    return sorted(outside) + sorted(inside)


def source_page(path: str) -> str:
    """The text of a file, or the names of a folder's files."""
    if (ROOT / path).is_dir():
        names = sorted(one.relative_to(ROOT / path) for one in (ROOT / path).rglob("*"))
        text = "\n".join(str(one) for one in names if (ROOT / path / one).is_file())
    else:
        text = (ROOT / path).read_text()
    fence = "`" * (
        max([2, *(len(run) for run in re.findall(r"^`+", text, re.MULTILINE))]) + 1
    )
    language = LANGUAGES.get(pathlib.PurePosixPath(path).suffix, "text")
    return (
        f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n# {path}\n\n"
        f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    wanted = documents()
    for path in list(wanted):
        markdown = (ROOT / path).read_text()
        wanted += [file for _, file, _ in linked_to(path, markdown)]
    for path in dict.fromkeys(wanted):
        name = place_in_site(path)
        if path.startswith("docs/") or files.get_file_from_path(name):
            continue
        if is_page_or_picture(path):
            file = File.generated(config, name, abs_src_path=str(ROOT / path))
        else:
            file = File.generated(config, name, content=source_page(path))
            file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    pages = [
        file.src_uri
        for file in files.documentation_pages()
        if file.inclusion.is_in_nav()
    ]
    config.nav = fill_in(config.nav, pages)
    return files


def named(nav: Any) -> Iterator[str]:
    """The lines of a nav that name a page or a pattern."""
    if isinstance(nav, str):
        yield nav
    elif nav:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from named(part)


def fill_in(nav: list[Any], pages: list[str]) -> list[Any]:
    """`nav` with pages in place of its patterns; each page goes to the first that finds it."""
    left = [page for page in pages if page not in set(named(nav))]

    def filled(part: Any) -> list[Any]:
        if isinstance(part, dict):
            ((title, inner),) = part.items()
            if isinstance(inner, str):
                return [part]
            inner = [one for entry in inner for one in filled(entry)]
            return [{title: inner}] if inner else []
        if "*" not in part:
            return [part]
        deep = part.endswith("**")
        found = [
            page
            for page in sorted(left)
            if fnmatch.fnmatch(page, part)
            and (deep or page.count("/") == part.count("/"))
        ]
        left[:] = [page for page in left if page not in found]
        return found

    return [one for part in nav for one in filled(part)]


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    here = page.file.src_uri
    links = {
        link: posixpath.relpath(place_in_site(file), posixpath.dirname(here) or ".")
        + (f"#{anchor}" if anchor else "")
        for link, file, anchor in linked_to(place_in_repository(here), markdown)
    }

    def change(line: str) -> str:
        line = LINK.sub(lambda found: links.get(found[1], found[1]), line)
        if line.startswith("|"):  # GitHub takes `\|` in a table's code for `|`
            line = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line)
        return line

    return outside_code(markdown, change)


def on_page_content(
    content: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    def drawn(display: str) -> Callable[[re.Match[str]], str]:
        return lambda found: latex2mathml.converter.convert(
            html.unescape(found[1]).strip(), display=display
        )

    content = re.sub(
        r'<div class="arithmatex">\\\[(.*?)\\\]</div>',
        lambda found: f'<div class="formula">{drawn("block")(found)}</div>',
        content,
        flags=re.DOTALL,
    )
    return re.sub(
        r'<span class="arithmatex">\\\((.*?)\\\)</span>',
        drawn("inline"),
        content,
        flags=re.DOTALL,
    )
