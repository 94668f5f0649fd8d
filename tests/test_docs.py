"""Every code block in README and docs runs, in order, in one namespace per page and an empty folder."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from abreast.cli import run
from abreast.rollouts import RolloutConfig
from abreast.rollouts.config import ManagerConfig, TagConfig
from abreast.training import parse_config

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MOST_EPOCHS = 16
"""Of runs in code: what is shown may take longer."""
QUICK = ["experiment.epochs=2", "experiment.max_turns=5"]


def run_shell_line(line):
    words = shlex.split(line, comments=True)
    if not words:
        return
    if words[0] == "make":
        verbs = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(verbs), f"the Makefile has no verb {words[1:]}"
    elif words[0] == "abreast":
        quick = QUICK if words[1] == "train" else []
        assert run(words[1:] + quick) == 0, line
    else:
        pytest.fail(f"the documentation shows {line!r}, which this test does not know how to check")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_code_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garden").mkdir()
    (tmp_path / "garden" / "config.yaml").touch()
    namespace = {"__name__": "__main__"}
    blocks = BLOCK.findall(page.read_text())
    assert blocks, f"{page.name} has no code block any more"
    for language, text in blocks:
        if language == "python":
            short = re.sub(r'"epochs": (\d+)', lambda found: f'"epochs": {min(int(found[1]), MOST_EPOCHS)}', text)
            exec(compile(short, f"{page.name}", "exec"), namespace)
        elif language == "sh":
            for line in text.splitlines():
                run_shell_line(line)
        elif language == "bibtex":
            assert text.startswith("@software{")
        elif language == "toml":
            tomllib.loads(text)
        elif language == "yaml":
            values = yaml.safe_load(text)
            parse = parse_config if "model" in values else RolloutConfig.parse
            parse(values)
        else:
            pytest.fail(f"{page.name} has a block in {language!r}, which this test does not know how to check")


def test_the_settings_of_rollouts_are_all_shown_as_they_are():
    blocks = BLOCK.findall((ROOT / "docs" / "rollouts.md").read_text())
    shown = yaml.safe_load(next(text for language, text in blocks if language == "yaml"))
    assert set(shown["es_manager"]) == set(ManagerConfig.model_fields)
    assert set(next(iter(shown.pop("custom_envs").values()))) == set(TagConfig.model_fields)
    assert RolloutConfig.parse(shown) == RolloutConfig.parse({})


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"], ids=lambda page: page.name
)
def test_links_and_pictures_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_own_game_in_the_readme_is_short():
    code = next(text for language, text in BLOCK.findall((ROOT / "README.md").read_text()) if language == "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 16
