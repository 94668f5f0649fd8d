"""A user's own game and model, where the interpreter finds its libraries elsewhere, and where classes name each other."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import abreast
from abreast.cli import run

GAME = """
from abreast import DQN, ActionSpec, Entity, Environment, MovingAgent, OneHotObservationSpec

class Leaf(Entity):
    passable, value = True, 1.0

class Tree(Entity):
    child = Leaf

Leaf.parent = Tree

class Forest(Environment):
    defaults = {"experiment": {"epochs": 3, "max_turns": 6}, "model": {"hidden_size": 8, "batch_size": 8, "n_frames": 1}}

    def setup_agents(self):
        view = OneHotObservationSpec(["EmptyEntity", "Leaf", "MovingAgent", "Wall"], vision_radius=1)
        actions = ActionSpec(["up", "down", "left", "right"])
        self.agents = [MovingAgent(view, actions, self.make_model(view, 4, number)) for number in range(2)]

    def populate_environment(self):
        self.world.scatter([Leaf() for _ in range(8)], onto="EmptyEntity")
        self.world.scatter(self.agents, onto="EmptyEntity")

class Counting(DQN):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.trained = 0

    def train_step(self):
        self.trained += 1
        return super().train_step()
"""


ARGUMENTS = ["train", "forest.py:Forest", "model.algorithm=forest.py:Counting", "--output", "run"]


@pytest.mark.parametrize(
    ("found_by", "more"),
    [
        ("pth", []),
        pytest.param(
            "PYTHONPATH",
            ["--parallel", "multiprocessing.workers=processes", "multiprocessing.num_workers=1"],
            marks=pytest.mark.chaos,
        ),
    ],
)
def test_libraries_may_lie_elsewhere_than_the_interpreter(tmp_path: Path, found_by: str, more: list[str]) -> None:
    """Also where classes of the game name each other, as these do."""
    (tmp_path / "forest.py").write_text(GAME)
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    libraries = [str(Path(abreast.__file__).parents[1]), sysconfig.get_path("purelib")]
    environment = dict(os.environ)
    if found_by == "pth":
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        (tmp_path / "other" / "lib" / version / "site-packages" / "more.pth").write_text("\n".join(libraries))
    else:
        environment["PYTHONPATH"] = os.pathsep.join(libraries)
    command = [tmp_path / "other" / "bin" / "python", "-m", "abreast", *ARGUMENTS, *more]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "checkpoints" / "final").is_dir()
    assert "cannot be resumed" not in done.stderr


def test_code_that_a_run_folder_names_is_told_before_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "forest.py").write_text(GAME)
    assert run(ARGUMENTS) == 0
    (tmp_path / "forest.py").write_text("import logging\nlogging.getLogger('abreast').warning('here it is')\n" + GAME)
    del sys.modules["forest"]
    caplog.clear()
    try:
        assert run(["play", "run", "experiment.max_turns=1"]) == 0
    finally:
        del sys.modules["forest"]
    told = "run/config.yaml names code that is imported and run now: forest.py:Forest, forest.py:Counting"
    assert [each.message for each in caplog.records if each.levelname == "WARNING"][:2] == [told, "here it is"]
