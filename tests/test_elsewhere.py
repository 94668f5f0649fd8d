"""A user's own game and model, where the interpreter finds its libraries elsewhere, and where classes name each other."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import abreast

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


@pytest.fixture
def forest(tmp_path: Path) -> Path:
    (tmp_path / "forest.py").write_text(GAME)
    return tmp_path


def train(folder: Path, python: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    model = "model.algorithm=forest.py:Counting"
    command = [python, "-m", "abreast", "train", "forest.py:Forest", model, "--output", str(folder / "run"), *more]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize("more", [[], ["--parallel", "multiprocessing.num_workers=1"]])
@pytest.mark.parametrize("found_by", ["pth", "PYTHONPATH"])
def test_libraries_may_lie_elsewhere_than_the_interpreter(forest: Path, found_by: str, more: list[str]) -> None:
    venv.create(forest / "other", with_pip=False, symlinks=True)
    libraries = [str(Path(abreast.__file__).parents[1]), sysconfig.get_path("purelib")]
    python, environment = str(forest / "other" / "bin" / "python"), {}
    if found_by == "pth":
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        (forest / "other" / "lib" / version / "site-packages" / "more.pth").write_text("\n".join(libraries))
    else:
        environment = {"PYTHONPATH": os.pathsep.join(libraries)}
    done = train(forest, python, *more, **environment)
    assert done.returncode == 0, done.stderr
    assert (forest / "run" / "checkpoints" / "final").is_dir()
    assert "cannot be resumed" not in done.stderr


def test_classes_that_name_each_other(forest: Path) -> None:
    done = train(forest, sys.executable)
    assert done.returncode == 0, done.stderr
    assert "cannot be resumed" not in done.stderr


def test_code_that_a_run_folder_names_is_told_before_it_is_imported(forest: Path) -> None:
    assert train(forest, sys.executable).returncode == 0
    (forest / "forest.py").write_text("print('imported')\n" + GAME)
    command = [sys.executable, "-m", "abreast", "play", "run", "experiment.max_turns=1"]
    done = subprocess.run(
        command, cwd=forest, capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL
    )
    told = "config.yaml names code that is imported and run now: forest.py:Forest, forest.py:Counting"
    assert told in done.stderr, done.stderr
