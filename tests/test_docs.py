"""Every code block in README and docs runs, in order, in one namespace per page and an empty folder.

What cannot run says so: `text` is output or a drawing, `console` a command for another machine, a server or a run of the
reader's, of which the command and its options have to exist.
"""

import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from markdown_it import MarkdownIt

from abreast.cli import run
from abreast.cli.app import app
from abreast.rollouts import RolloutConfig
from abreast.rollouts.config import ManagerConfig, TagConfig
from abreast.sweeps import Asked
from abreast.training import parse_config
from nodes import nodes

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BESIDE = [
    *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "RELEASING", "SECURITY")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "src" / "abreast" / "games").glob("*/README.md")),
    *sorted((ROOT / "src" / "abreast" / "rollouts" / "envs").glob("*/README.md")),
]
"""Pages of the site that are elsewhere; their blocks are marked, but not run here."""
WHO = re.compile(r"# .+\n\n\*For [^*]+\. After this page you can [^*]+\.\*\n")
"""How every page begins: its title, who it is for, and what they can do then."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MOST = {"epochs": 8, "max_turns": 10}
"""Of runs in code: what is shown may take longer."""
QUICK = ["experiment.epochs=2", "experiment.max_turns=5"]
SMALL = '"gradient_steps": 1, "batch_size": 8'
"""Settings of models where a page does not say otherwise: what stands behind them counts."""
BEGUN = [*QUICK, "model.gradient_steps=1", "model.batch_size=8"]
"""Of runs that are begun; one that is resumed goes on as it was."""
ADDED = {"train": BEGUN, "sweep": [*BEGUN, "--seeds", "1"]}
LOCAL = "cluster.address=local"
"""Where a command starts a Ray of its own, which takes long; here it joins that of the tests. (cluster/ has such a one.)"""
ALONE = re.compile(r"abreast (check|games|envs|settings|bench)\b(?!.*(\.py|RUN|runs/))")
"""Commands that need nothing of their page: each runs once, though several pages show it."""


def name_of(page):
    return str(page.relative_to(ROOT))


def marked(page):
    return pytest.param(page, marks=pytest.mark.xdist_group("ray")) if LOCAL in page.read_text() else page


def words_of(line):
    return shlex.split(line, comments=True)


def alone():
    """All such commands, without their comments."""
    shells = [text for page in PAGES for language, text in BLOCK.findall(page.read_text()) if language == "sh"]
    commands = [shlex.join(words_of(line)) for text in shells for line in text.splitlines()]
    return sorted({command for command in commands if ALONE.match(command)})


def shortened(code):
    code = code.replace('"model": {', f'"model": {{{SMALL}, ')
    return re.sub(
        r'"(epochs|max_turns)": (\d+)', lambda found: f'"{found[1]}": {min(int(found[2]), MOST[found[1]])}', code
    )


def run_shell_line(line):
    words = words_of(line)
    if not words or ALONE.match(shlex.join(words)):
        return
    if words[0] == "make":
        verbs = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(verbs), f"the Makefile has no verb {words[1:]}"
    elif words[0] == "abreast":
        quick = QUICK if "--resume" in words else ADDED.get(words[1], [])
        if LOCAL in line:
            words = [word.replace(LOCAL, f"cluster.address={nodes().address}") for word in words]
        assert run([*words[1:], *quick]) == 0, line
    else:
        pytest.fail(f"the documentation shows {line!r}, which this test does not know how to check")


def check_console(text):
    """A command of ours has to exist, and its options too."""
    commands = typer.main.get_command(app)
    for line in text.replace("\\\n", " ").splitlines():
        words = words_of(line)
        if words[:1] == ["abreast"]:
            command = commands.get_command(None, words[1])
            assert command, f"there is no command {words[1]!r}: {line}"
            known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
            assert {word for word in words if word.startswith("--")} <= known, f"an option does not exist: {line}"


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=name_of)
def test_every_page_says_who_it_is_for_and_marks_its_blocks(page):
    text = page.read_text()
    assert WHO.match(text), f"{page.name} does not begin as {WHO.pattern}"
    for token in MarkdownIt("commonmark").parse(text):
        unmarked = token.type == "code_block" or (token.type == "fence" and not token.info)
        assert not unmarked, f"{page.name}:{token.map[0] + 1} is a block without a language: {token.content[:60]!r}"
        if token.type == "fence" and token.info == "console":
            check_console(token.content)


@pytest.mark.parametrize("command", alone())
def test_every_command_that_stands_alone_works(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(words_of(command)[1:]) == 0


@pytest.mark.parametrize("page", map(marked, PAGES), ids=name_of)
def test_every_code_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garden").mkdir()
    (tmp_path / "garden" / "config.yaml").touch()
    namespace = {"__name__": "__main__"}
    blocks = BLOCK.findall(page.read_text())
    assert blocks or page.parent.name != "how-to", f"{page.name} has no code block any more"
    for language, text in blocks:
        if language == "python" and page.parent.name == "guide":
            continue  # part of a program: tests/docs/test_guide.py runs it, and finds the block in it
        if language == "python":
            exec(compile(shortened(text), f"{page.name}", "exec"), namespace)
        elif language == "sh":
            for line in text.splitlines():
                run_shell_line(line)
        elif language == "console":
            check_console(text)
        elif language == "bibtex":
            assert text.startswith("@software{")
        elif language == "toml":
            tomllib.loads(text)
        elif language == "yaml":
            values = yaml.safe_load(text)
            parse = Asked.read if "games" in values else parse_config if "model" in values else RolloutConfig.parse
            parse(values)
        elif language != "text":
            pytest.fail(f"{page.name} has a block in {language!r}, which this test does not know how to check")


def test_the_settings_of_rollouts_are_all_shown_as_they_are():
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / "rollouts.md").read_text())
    shown = yaml.safe_load(next(text for language, text in blocks if language == "yaml"))
    assert set(shown["es_manager"]) == set(ManagerConfig.model_fields)
    assert set(next(iter(shown.pop("custom_envs").values()))) == set(TagConfig.model_fields)
    assert RolloutConfig.parse(shown) == RolloutConfig.parse({})


@pytest.mark.parametrize(
    "page",
    [*PAGES, *BESIDE],
    ids=name_of,
)
def test_links_and_pictures_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_run_that_is_resumed_with_more_epochs_was_begun_with_fewer(page):
    begun = {}
    for words in map(words_of, re.findall(r"^abreast train .*", page.read_text(), re.MULTILINE)):
        given = dict(pairwise(words))
        epochs = int(given.get("--epochs", given.get("--episodes", 0)))
        begun.setdefault(given.get("--output"), epochs)
        if "--resume" in given and epochs:
            assert 0 < begun.get(given["--resume"], 0) < epochs, words


def test_the_own_game_in_the_readme_is_short():
    code = [text for language, text in BLOCK.findall((ROOT / "README.md").read_text()) if language == "python"]
    own_game = next(text for text in code if "Environment" in text)
    assert len([line for line in own_game.splitlines() if line.strip()]) <= 16


def test_the_readme_is_read_in_five_minutes():
    assert len((ROOT / "README.md").read_text().split()) <= 1300
