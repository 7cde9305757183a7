"""The site of docs/, as `make docs` builds it: nothing missing, nothing broken, and no other host asked."""

from __future__ import annotations

import dataclasses
import html.parser
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import urllib.parse

import pytest
from documents import ROOT

# What a browser fetches by itself; a link that one follows is none of it.
FETCHED = {
    ("img", "src"),
    ("img", "srcset"),
    ("script", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("video", "src"),
    ("audio", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("image", "href"),
    ("use", "href"),
    ("link", "href"),
}
NOT_FETCHED = {"canonical", "next", "prev", "alternate"}  # rel of <link>


@dataclasses.dataclass
class Page(html.parser.HTMLParser):
    """What is of interest on a page of the site."""

    links: list[str] = dataclasses.field(default_factory=list)
    fetched: list[str] = dataclasses.field(default_factory=list)
    ids: set[str] = dataclasses.field(default_factory=set)
    policy: str = ""
    math: list[str] = dataclasses.field(default_factory=list)
    paragraphs: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        if "id" in of:
            self.ids.add(of["id"])
        if tag == "a" and "href" in of:
            self.links.append(of["href"])
        if tag == "meta" and of.get("http-equiv") == "Content-Security-Policy":
            self.policy = of["content"]
        for name, value in of.items():
            if name == "style":
                self.fetched += re.findall(r"url\(['\"]?([^)'\"]+)", value)
            if (tag, name) not in FETCHED:
                continue
            if tag == "link" and NOT_FETCHED & set(of.get("rel", "").split()):
                continue
            parts = value.split(",") if name == "srcset" else [value]
            self.fetched += [part.split()[0] for part in parts if part.strip()]
        if tag in ("math", "p", "style"):
            self._open.append(tag)
            if tag == "math":
                self.math.append("")
            if tag == "p":
                self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "math" in self._open:
            self.math[-1] += data
        elif "p" in self._open:
            self.paragraphs[-1] += data
        elif "style" in self._open:
            self.fetched += of_style(data)


def of_style(sheet: str) -> list[str]:
    """What a style sheet fetches."""
    return re.findall(r"url\(\s*['\"]?([^)'\"]+)", sheet) + re.findall(
        r"@import\s+['\"]([^'\"]+)", sheet
    )


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    return page


def build(
    checkout: pathlib.Path, out: pathlib.Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "deploy/setup/docs.sh", "--site-dir", out],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: pathlib.Path) -> dict[str, Page]:
    return {
        file.relative_to(site).as_posix(): read(file.read_text())
        for file in site.rglob("*.html")
    }


def broken(pages: dict[str, Page], files: set[str]) -> list[str]:
    """Links of pages that lead to no file of `files`, or to no place on its page."""
    found = []
    for name, page in pages.items():
        if name == "404.html":  # is shown at any path
            continue
        for link in page.links + page.fetched:
            target = urllib.parse.urlsplit(link)
            if target.scheme or target.netloc:
                continue
            path = urllib.parse.unquote(target.path)
            file = posixpath.normpath(
                posixpath.join(posixpath.dirname(name), path) if path else name
            )
            anchor = urllib.parse.unquote(target.fragment)
            if file not in files:
                found.append(f"{name}: there is no {link}")
            elif anchor and file in pages and anchor not in pages[file].ids:
                found.append(f"{name}: {file} has no place #{anchor}")
    return found


def foreign(fetched: list[str]) -> list[str]:
    return [one for one in fetched if re.match(r"(https?:)?//", one.strip())]


def test_links_of_the_site_lead_somewhere(
    site: pathlib.Path, pages: dict[str, Page]
) -> None:
    files = {
        file.relative_to(site).as_posix() for file in site.rglob("*") if file.is_file()
    }
    assert broken(pages, files) == []
    assert sum(len(page.links) for page in pages.values()) > 5000


def test_a_broken_link_of_the_site_is_found() -> None:
    pages = {
        "a/one.html": read('<a href="../two.html#here"></a><img src="../x.png">'),
        "two.html": read(
            '<p id="there"></p><a href="#there"></a><a href="three.html">'
        ),
    }
    assert broken(pages, set(pages)) == [
        "a/one.html: two.html has no place #here",
        "a/one.html: there is no ../x.png",
        "two.html: there is no three.html",
    ]


def test_no_page_asks_another_host(site: pathlib.Path, pages: dict[str, Page]) -> None:
    asked = {name: foreign(page.fetched) for name, page in pages.items()}
    assert {name: hosts for name, hosts in asked.items() if hosts} == {}
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert foreign(of_style(sheet.read_text())) == [], sheet
    # Material's script would fetch more for a diagram; what it may ask at all, the browser is told by each page.
    for name, page in pages.items():
        assert page.policy.startswith("default-src 'self'; "), name
        assert "//" not in page.policy and "*" not in page.policy
        scripts = [one for one in page.fetched if one.endswith(".js")]
        assert all("assets/javascripts/" in one for one in scripts), name
        assert 'class="mermaid"' not in (site / name).read_text()


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://example.org/x.js"></script>',
        '<link rel="preconnect" href="https://fonts.example.org">',
        '<img srcset="a.png 1x, //example.org/a.png 2x">',
        "<style>@import 'http://example.org/x.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_another_host_is_found(page: str) -> None:
    assert len(foreign(read(page).fetched)) == 1


def test_the_guessed_pages_are_there(pages: dict[str, Page]) -> None:
    assert {
        "first-steps.html",
        "tasks/detection.html",
        "models/index.html",
        "attentions/knn.html",
        "protocol/index.html",
        "operations/index.html",
        "extending/attention.html",
        "results/index.html",
        "decisions/index.html",
        "repository/ARCHITECTURE.html",
        "repository/proto/fovea/v1/model_spec.proto.html",
    } <= set(pages)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("read the answers (CORS).", ["read", "the", "answers", "CORS"]),
        ('"mTLS", [quoted]: `code`!', ["mTLS", "quoted", "code"]),
        ("image.truncated and 0.5.", ["image.truncated", "and", "0.5"]),
        ("--http-allow-origin=X|Y", ["http", "allow", "origin", "X", "Y"]),
        ("fovea_requests_total{model}", ["fovea_requests_total", "model"]),
    ],
)
def test_the_search_finds_words_beside_punctuation(text: str, words: list[str]) -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    separator = re.search(r"^ +separator: '(.*)'$", settings, re.MULTILINE)[1]
    found = re.split(separator.replace("''", "'"), text)
    assert [word for word in found if word] == words


def test_site_and_playground_have_one_mark_and_one_colour() -> None:
    mark = ROOT / "docs/site/mark.svg"
    assert mark.read_bytes() == (ROOT / "client/web/icon.svg").read_bytes()
    sheet = (ROOT / "client/web/style.css").read_text()
    accents = re.findall(r"--accent: (#\w+);", sheet)
    links = re.findall(
        r"--md-typeset-a-color: (#\w+);", (ROOT / "docs/site/site.css").read_text()
    )
    assert links == list(dict.fromkeys(accents))


def test_formulas_are_drawn(site: pathlib.Path, pages: dict[str, Page]) -> None:
    sheet = (site / "site/site.css").read_text()  # the reader may have no font for them
    (font,) = re.findall(r'src: url\("([^"]+)"\)', sheet)
    assert (site / "site" / font).read_bytes().startswith(b"wOF2")
    names = [
        file.stem
        for file in (ROOT / "docs/attentions").glob("*.md")
        if file.stem != "README"
    ]
    for name in names:
        page = pages[f"attentions/{name}.html"]
        assert len(page.math) > 2, name
    for name, page in pages.items():
        # A command that the converter does not know stays as it was written.
        assert [one for one in page.math if "\\" in one or not one.strip()] == [], name
        assert [one for one in page.paragraphs if "$$" in one or "\\(" in one] == [], (
            name
        )


def test_lists_and_tables_read_as_on_github(
    site: pathlib.Path, pages: dict[str, Page]
) -> None:
    """MkDocs wants an empty line before a list and a table, and takes `\\|` for two characters; GitHub does not."""
    attention = (site / "repository/model_zoo/attention/overview.html").read_text()
    assert "<td><code>conv|cska|dense|dense</code></td>" in attention
    lost = [
        f"{name}: {text[:80]!r}"
        for name, page in pages.items()
        for text in page.paragraphs
        if re.search(r"^(- |\d+\. |\|.*\|$)", text, re.MULTILINE)
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("[x](nothing.md)", "contains a link 'nothing.md'"),
        ("[x](#nowhere)", "contains a link '#nowhere'"),
        ("[x](site/mark.svg)", None),
        ("[x](../deploy/setup/docs.sh) [y](../deploy/setup)", None),
    ],
)
def test_a_page_with_a_link_to_nothing_fails_the_build(
    tmp_path: pathlib.Path, page: str, says: str | None
) -> None:
    checkout = tmp_path / "checkout"
    for name in ("deploy/setup/docs.sh", "requirements-docs.txt"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    shutil.copytree(ROOT / "docs/site", checkout / "docs/site")
    (checkout / "docs/README.md").write_text(f"# A page\n\n{page}\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    head, nav, _ = settings.partition("\nnav:\n")
    assert nav
    (checkout / "mkdocs.yml").write_text(head + "\nnav: [README.md]\n")
    done = build(checkout, tmp_path / "out")
    if says is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert says in done.stderr


def test_each_section_begins_with_a_page_of_its_own(
    site: pathlib.Path, pages: dict[str, Page]
) -> None:
    """Material takes a README that a section names for the section's front page."""
    front = (site / "index.html").read_text()
    tabs = re.findall(r'<a href="([^"]+)" class="md-tabs__link">', front)
    assert len(tabs) > 8
    assert [one for one in tabs if one.startswith("repository/")] == []
