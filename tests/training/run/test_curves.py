import logging
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

import own_game
from abreast import report
from abreast.games import Game
from abreast.training.run import curves, record
from abreast.worlds.painting import AGENT_COLOURS
from report.folders import write_training


def run(folder, epochs):
    """A real run, which draws."""
    game = Game(own_game.Garden)
    experiment = game.build(game.configure(None, [f"experiment.epochs={epochs}"]))
    return experiment.run_experiment(animate=False, output_dir=folder)


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_run_leaves_its_curves(tmp_path, monkeypatch, epochs):
    monkeypatch.setattr(record, "draw_curves", curves.draw_curves)
    run(tmp_path / "run", epochs)
    with Image.open(tmp_path / "run" / "curves.png") as image:
        assert image.format == "PNG" and image.width >= 800
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
    assert {(0x2E, 0x6F, 0x95), (0xD1, 0x49, 0x5B)} <= colours  # a curve, or a point, of each agent
    assert "curves.png" not in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize(("agents", "names"), [(2, ["$x_{", "_hidden"]), (12, None)])
def test_odd_names_and_many_agents_are_drawn(tmp_path, caplog, agents, names):
    write_training(tmp_path, epochs=50, agents=agents, names=names)
    curves.draw_curves(tmp_path, 50)
    assert (tmp_path / "curves.png").stat().st_size > 5_000 and not caplog.records


def test_films_curves_and_reports_have_one_colour_for_each_agent():
    style = (Path(report.__file__).parent / "page.css").read_text()
    light = style[: style.index("@media")]
    assert tuple(re.findall(r"--c\d+: (#\w+)", light)) == AGENT_COLOURS


def test_a_run_goes_on_without_matplotlib_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "draw_curves", curves.draw_curves)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert len(run(tmp_path / "run", 1).epochs) == 1
    assert (tmp_path / "run" / "log.txt").read_text().count(
        "curves.png is left out: it needs the package matplotlib"
    ) == 1
    assert not (tmp_path / "run" / "curves.png").exists()


def test_what_goes_wrong_is_one_line_in_the_log(tmp_path, monkeypatch, caplog):
    write_training(tmp_path, epochs=2)
    (tmp_path / "curves.png").mkdir()
    with caplog.at_level(logging.WARNING, "abreast"):
        curves.draw_curves(tmp_path, 2)
    (told,) = caplog.records
    assert told.getMessage().startswith("curves.png could not be drawn: IsADirectoryError")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "curves.png", "log.txt", "metrics.jsonl"]
