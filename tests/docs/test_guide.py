"""The guide: every file shows its fault and mends it, every page quotes its file, every picture is what the script draws."""

import re
import runpy
from pathlib import Path

import pytest

from forked_commands import Command

ROOT = Path(__file__).parent.parent.parent
GUIDE = ROOT / "docs" / "guide"
FILES = sorted(GUIDE.glob("[0-9]*.py"))
PAGES = sorted(GUIDE.glob("*.md"))
CHAPTERS = [page for page in PAGES if page.name != "index.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TERMS = GUIDE.parent / "terms.md"
SECTIONS = ["The code", "What it prints", "In abreast", "Questions"]
MOST_LINES, MOST_WORDS = 120, 1500


def sources_of(page):
    """What a page may quote: its own file, and modules that it names."""
    named = re.findall(r"`([\w/]+\.py)`", page.read_text())
    modules = [path for name in named if (path := ROOT / "src" / "abreast" / name).exists()]
    return [path.read_text() for path in (page.with_suffix(".py"), *modules)]


def is_quoted(block, source):
    """Whether a block stands in the source; lines may be broken otherwise, since blocks are indented less."""
    return without_layout(block) in without_layout(source)


def without_layout(code):
    return re.sub(r",([)\]}])", r"\1", "".join(code.split()))


def test_there_are_ten_chapters_each_with_a_file_and_a_picture():
    names = [page.stem for page in CHAPTERS]
    assert [name[:2] for name in names] == [f"{number:02}" for number in range(1, 11)]
    assert names == [path.stem for path in FILES]
    index = (GUIDE / "index.md").read_text()
    assert [name for name in names if f"({name}.md)" not in index] == []


@pytest.mark.xdist_group("forked commands")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_shows_its_fault_and_mends_it(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, shown, log = Command([], program=str(path)).wait()
    assert code == 0, log
    assert shown
    assert sorted(each.name for each in tmp_path.iterdir()) == ["stderr", "stdout"]  # nothing is left behind


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_asserts_that_the_fault_happens_and_then_that_it_is_mended(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    main = text.partition("\ndef main():")[2]
    fault, mended = re.split(r"# Mended", main)
    assert re.search(r"# (The pitfall|Pitfall 1)", fault)
    assert "assert " in fault and "assert " in mended


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_quotes_its_file(page):
    blocks = BLOCK.findall(page.read_text())
    assert {language for language, _ in blocks} == {"python", "text"}  # text: what was printed
    sources = sources_of(page)
    wrong = [
        block for language, block in blocks if language == "python" and not any(is_quoted(block, s) for s in sources)
    ]
    assert wrong == []


def test_a_changed_line_is_no_quotation():
    source = (GUIDE / "04_rows.py").read_text()
    block = "def idle(self):\n    return None\n"
    assert is_quoted(block, source)
    assert not is_quoted(block.replace("None", "True"), source)


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_has_all_its_parts_and_takes_ten_minutes(page):
    text = page.read_text()
    assert len(text.split()) <= MOST_WORDS
    title, reader, *_ = text.split("\n\n")
    assert title == f"# {int(page.name[:2])}. {title.partition('. ')[2]}"
    assert re.fullmatch(r"\*For [^*]+\. After this page you can [^*]+\.\*", reader)
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert [name for name in SECTIONS if name not in headings] == []
    assert any(name.startswith("The pitfall") for name in headings)
    assert f"](images/{page.stem}.svg)" in text
    questions, answers = text.partition("## Questions")[2].split('<details markdown="1">')
    for part in (questions, answers):
        assert re.findall(r"^(\d)\. ", part, re.MULTILINE) == ["1", "2", "3"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    terms = TERMS.read_text().lower() if TERMS.exists() else None
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", page.read_text()):
        path = (page.parent / target).resolve()
        if path == TERMS and terms is None:
            continue  # pages are written apart from it
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or f"# {anchor}\n" in terms, f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_modules_that_a_chapter_names_exist(page):
    told = page.read_text().partition("## In abreast")[2].partition("## Questions")[0]
    for name in re.findall(r"`((?:tests/)?[a-z_]+/[\w/]*(?:\.py)?)`", told):
        assert (ROOT / name).exists() or (ROOT / "src" / "abreast" / name).exists(), name


def test_pictures_are_as_the_script_draws_them():
    drawings = runpy.run_path(str(GUIDE / "drawings.py"))["DRAWINGS"]
    assert [*drawings] == [page.stem for page in CHAPTERS]
    for name, draw in drawings.items():
        assert (GUIDE / "images" / f"{name}.svg").read_text() == draw().svg(), "run docs/guide/drawings.py"
