"""The documentation site: it is whole, its reference has everything, and it asks no other server for anything."""

import json
import re
from pathlib import Path

import pytest
import typer

import abreast
from abreast.cli.app import COMMANDS, app
from abreast.models import ALGORITHMS
from abreast.rollouts import RolloutConfig, find_kind, list_kinds
from abreast.settings import explain
from abreast.training import parse_config
from abreast.training.run.metrics import EpochRecord

reason = "the site is built by mkdocs-material, mkdocstrings: pip install 'abreast[docs]'"
pytest.importorskip("material", reason=reason)
pytest.importorskip("mkdocstrings", reason=reason)

from mkdocs.commands.build import build  # noqa: E402
from mkdocs.config import load_config  # noqa: E402
from mkdocs.exceptions import Abort  # noqa: E402

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it: a broken link, or a page that the navigation leaves out, ends that."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


def anchors(site, page):
    return set(re.findall(r'id="([^"]+)"', (site / page).read_text()))


def test_every_setting_is_in_the_reference(site):
    training, models = (anchors(site, f"reference/{name}-settings.html") for name in ("training", "algorithm"))
    for key, *_ in explain(parse_config({})):
        assert key == "game" or key.startswith("model.") or key in training, key
    for name, model in ALGORITHMS.items():
        for key in model.Config.model_fields:
            assert {f"model.{key}", f"{name}-model.{key}"} & models, f"{key} of {name}"
    rollouts = anchors(site, "reference/rollout-settings.html")
    assert {key for key, *_ in explain(RolloutConfig.parse({}))} - {"custom_envs"} <= rollouts
    assert "custom_envs.NAME.env_type" in rollouts
    environments = anchors(site, "reference/environment-settings.html")
    for kind in map(find_kind, list_kinds()):
        assert {f"{kind.name}-env.{key}" for key in kind.config.model_fields} <= environments, kind.name


def test_every_command_and_option_is_in_the_reference(site):
    shown = anchors(site, "reference/commands.html")
    for name in COMMANDS:
        options = typer.main.get_command(app).get_command(None, name).params
        assert {f"abreast-{name}", *(f"{name}-{each.name}" for each in options if each.name != "help")} <= shown, name


def test_every_public_name_is_in_the_reference(site):
    documented = {anchor.rpartition(".")[2] for anchor in anchors(site, "reference/api.html")}
    assert set(abreast.__all__) <= documented


def test_every_figure_of_an_epoch_is_in_the_reference():
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert [key for key in EpochRecord.__annotations__ if f"`{key}`" not in page] == []


def test_nothing_is_asked_of_other_servers(site):
    loaded = re.compile(r'<(?:script|img|iframe|link)[^>]+(?:src|href)="?(?:https?:)?//[^" >]+')
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text()) == [], page.name
    assert not re.search(r"url\((https?:)?//", "".join(path.read_text() for path in site.rglob("*.css")))


def test_search_finds_terms_without_a_server(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert "terms.html#lane" in [entry["location"] for entry in index["docs"]]
    assert (site / "search" / "search_index.js").exists()
    home = (site / "index.html").read_text()
    worker = re.search(r'"search": ?"([^"]+)"', home)[1]
    assert (site / worker).exists() and "assets/iframe-worker.js" in home


@pytest.mark.parametrize("target", ["missing.md", "index.md#missing", "/index.md"])
def test_a_broken_link_ends_the_build(target, tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text(f"# A page\n\n[Somewhere]({target})\n")
    small = {
        "docs_dir": str(pages),
        "site_dir": str(tmp_path / "built"),
        "plugins": [],
        "hooks": [],
        "nav": ["index.md"],
    }
    options = {**small, "theme": "mkdocs", "extra_css": []}
    with pytest.raises(Abort):
        build(load_config(str(ROOT / "mkdocs.yml"), **options))
    (pages / "index.md").write_text("# A page\n\n[Here](index.md#a-page)\n")
    build(load_config(str(ROOT / "mkdocs.yml"), **options))
