"""Films: the last pass and the best are always there, they change nothing, and nothing that fails in them ends a run."""

import json
import shutil

import pytest
from PIL import Image

import own_game
from abreast.games import Game
from abreast.training.run import films, record
from abreast.worlds.playable import Playable, Played
from fakes import small_game, timeless
from matrix_game import build


def garden(*overrides, kind=own_game.Garden):
    return Game(kind).build(Game(kind).configure(None, ["experiment.epochs=6", "model.epsilon_decay=0.1", *overrides]))


def told(folder):
    return json.loads((folder / "replays" / "films.json").read_text())


def frames(path):
    with Image.open(path) as film:
        return film.n_frames, film.size


@pytest.fixture(autouse=True)
def without_ffmpeg(monkeypatch, tmp_path):
    """Unless a test wants it: it takes a fifth of a second a film."""
    monkeypatch.setattr(films.shutil, "which", lambda name: None)
    monkeypatch.chdir(tmp_path)


class Blue(own_game.Gatherer):
    kind = "Gatherer"  # what others see
    colour = "#1d4ed8"


class Teams(own_game.Garden):
    """Its agents are of two classes."""

    def setup_agents(self):
        super().setup_agents()
        spec, actions, model = (getattr(self.agents[1], name) for name in ("observation_spec", "action_spec", "model"))
        self.agents[1] = Blue(spec, actions, model)


def test_agents_of_different_classes_are_called_by_them(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(films, "badge", lambda *given: drawn.append(given) or Image.new("RGBA", (given[1], given[1])))
    epochs = garden(kind=Teams).run_experiment(output_dir=tmp_path / "run").epochs
    assert (
        epochs[-1]["agents"] == ["Gatherer 0", "Blue 1"]
        and "agents" not in garden().run_experiment(animate=False).epochs[-1]
    )
    assert {(number, colour) for number, _, colour in drawn} == {(0, None), (1, "#1d4ed8")}
    given = []
    monkeypatch.setattr(record, "draw_curves", lambda *arguments: given.append(arguments))
    garden(kind=Teams).run_experiment(output_dir=tmp_path / "again")
    assert given[0][2] == [None, "#1d4ed8"], "curves have the colours of films"


# ---- which ones


@pytest.mark.parametrize(("how", "lanes"), [("run_experiment", 2), ("run_experiment_mp", 1)])
def test_the_last_pass_and_the_best_are_filmed(how, lanes, tmp_path):
    env = garden(f"multiprocessing.num_envs={lanes}", "multiprocessing.workers=threads")
    epochs = getattr(env, how)(output_dir=tmp_path / "run").epochs
    rewards = {epoch["epoch"]: epoch["reward"] for epoch in epochs[::lanes]}  # those of the first lane
    best = max(rewards, key=rewards.get)
    last = max(rewards)
    assert told(tmp_path / "run") == {
        "best.gif": {"epoch": best, "reward": rewards[best]},
        "last.gif": {"epoch": last, "reward": rewards[last]},
        "epoch_000000.gif": {"epoch": 0, "reward": rewards[0]},
    }
    for name in told(tmp_path / "run"):
        count, (width, _) = frames(tmp_path / "run" / "replays" / name)
        assert count == 7 and width >= 480


def test_a_run_that_is_interrupted_has_its_last_pass(tmp_path):
    class Interrupts:
        def record_epoch(self, epoch, *rest, **more):
            if epoch == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        garden().run_experiment(logger=Interrupts(), output_dir=tmp_path / "run")
    assert told(tmp_path / "run")["last.gif"]["epoch"] == 3


def test_a_run_that_goes_on_keeps_the_best_so_far(tmp_path):
    garden("experiment.epochs=2").run_experiment(output_dir=tmp_path / "run")
    best = {"epoch": 1, "reward": 1000.0}
    (tmp_path / "run" / "replays" / "films.json").write_text(json.dumps({**told(tmp_path / "run"), "best.gif": best}))
    before = (tmp_path / "run" / "replays" / "best.gif").read_bytes()
    garden("experiment.epochs=4").run_experiment(resume=tmp_path / "run")
    assert told(tmp_path / "run")["best.gif"] == best
    assert (tmp_path / "run" / "replays" / "best.gif").read_bytes() == before
    assert told(tmp_path / "run")["last.gif"]["epoch"] == 3


@pytest.mark.parametrize("damage", ["{", "[]", '{"best.gif": 3}', '{"best.gif": {"epoch": 0}}'])
def test_a_list_of_films_that_cannot_be_read_is_told_and_made_anew(damage, tmp_path, caplog):
    (tmp_path / "films.json").write_text(damage)
    kept, (played,) = films.Films(garden().game, tmp_path, 50, 1), [Played(2, [-5.0, 1.0])]
    kept.go_on_from(2)
    assert "the best film from before the resume is not known" in caplog.text
    camera = kept.camera(2, is_last=True)
    camera()
    kept.keep(camera, [played])
    kept.close()
    assert json.loads((tmp_path / "films.json").read_text())["best.gif"] == {"epoch": 2, "reward": -4.0}


def keep_passes(kept, folder, passes):
    """Film these passes, one epoch each, by the rewards of their agents."""
    for epoch, rewards in enumerate(passes):
        camera = kept.camera(epoch, is_last=epoch == len(passes) - 1)
        camera()
        kept.keep(camera, [Played(2, rewards)])
    kept.close()
    return json.loads((folder / "films.json").read_text())


def test_where_agents_have_sides_the_best_film_is_the_newest(tmp_path):
    kept = films.Films(garden().game, tmp_path, 50, 1)
    found = keep_passes(kept, tmp_path, [[2.0, -2.0], [5.0, -5.0], [-4.0, 4.0]])
    assert found["best.gif"] == found["last.gif"] == {"epoch": 2, "reward": None}
    kept = films.Films(garden().game, tmp_path, 50, 1)
    kept.go_on_from(3)
    assert keep_passes(kept, tmp_path, [[2.0, 1.0], [5.0, -1.0], [1.0, 0.0]])["best.gif"] == {"epoch": 1, "reward": 4.0}


def test_films_are_drawn_with_a_checkpoint_and_after_the_run_and_at_once_where_many_wait(tmp_path, monkeypatch):
    drawn, really = [], films.as_gif
    monkeypatch.setattr(films, "as_gif", lambda pages: drawn.append(True) or really(pages))
    kept = films.Films(garden().game, tmp_path, 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(kept, "close", lambda: (tmp_path / "films.json").write_text("{}"))
        keep_passes(kept, tmp_path, [[1.0, 2.0], [3.0, 0.5]])
        assert not drawn
        kept.draw()  # as a checkpoint does
        assert len(drawn) == 2 and (tmp_path / "best.gif").is_file() and (tmp_path / "epoch_000001.gif").is_file()
        patch.setattr(films, "WAITING_FRAMES", 1)
        keep_passes(kept, tmp_path, [[1.0, 2.0], [3.0, 0.5]])
        assert len(drawn) == 4
    kept.close()
    assert (tmp_path / "last.gif").is_file() and len(drawn) == 4


def test_films_change_nothing_and_are_left_out_where_they_are_not_wanted(tmp_path):
    settings = ("experiment.record_period=2", "experiment.max_turns=4", "multiprocessing.workers=inline")
    runs = [small_game(*settings).run_experiment_mp(output_dir=tmp_path / f"{on}", animate=on) for on in (True, False)]
    assert timeless(runs[0].epochs) == timeless(runs[1].epochs)
    assert (tmp_path / "True" / "replays" / "best.gif").is_file() and not (tmp_path / "False" / "replays").exists()


# ---- games that draw themselves


@pytest.fixture
def drawn(monkeypatch):
    """A game of another kind, and how often it was drawn."""
    count = []
    picture = Image.new("RGB", (30, 20), "red")
    monkeypatch.setattr(Playable, "picture", lambda self: count.append(1) or picture)
    return count


def test_of_a_long_name_there_is_room_for_the_reward(monkeypatch):
    pages = []
    monkeypatch.setattr(films, "_page", lambda *page: pages.append(page))
    game = garden().game
    game.reset(1)
    monkeypatch.setattr(type(game), "agent_names", ["a" * 70, "bob"], raising=False)
    camera = films.Camera(game, 0)
    camera()
    list(films.compose(game, camera))
    _, _, legend, column = pages[0]
    assert [label for _, label in legend[:2]] == [f"{'a' * 23}…: 0", "bob: 0"] and column <= films.WIDTH


def test_pictures_that_take_long_are_taken_of_the_last_pass_and_few_others(drawn, tmp_path):
    env = build({"epochs": 6, "max_turns": 4, "record_period": 3})
    env.run_experiment(output_dir=tmp_path / "run")
    assert len(drawn) == 3 * 5, "of epochs 0, 3 and 5"
    assert frames(tmp_path / "run" / "replays" / "last.gif")[1][0] >= 480


def test_the_best_so_far_is_written_before_the_end(tmp_path):
    seen = []

    class Looks:
        def record_epoch(self, epoch, *rest, **more):
            seen.append(told(tmp_path / "run").get("best.gif"))

    garden("experiment.epochs=2").run_experiment(logger=Looks(), output_dir=tmp_path / "run")
    assert seen[0]["epoch"] == 0


class Long(Playable):
    """A game of which nothing is played but turns."""

    reset = decisions = step = finish = state = set_state = None
    has_cheap_snapshots = True

    def snapshot(self):
        return self.turns


Long.__abstractmethods__ = frozenset()


def test_of_a_long_epoch_the_end_is_shown():
    game = Long()
    camera = films.Camera(game, 0)
    for game.turns in range(1234):
        camera()
    turns = [turn for _, turn, _ in camera.frames]
    assert turns == list(range(1234 - films.MOST_FRAMES, 1234))
    game.turns = 0  # the pass is played again
    camera()
    assert [turn for _, turn, _ in camera.frames] == [0]


# ---- what fails


class NoSuchSprite(own_game.Garden):
    """Has a sprite that cannot be read."""

    def populate_environment(self):
        super().populate_environment()
        self.bushes[0].sprite = "nowhere.png"


def test_a_sprite_that_cannot_be_read_is_told_once_and_the_run_goes_on(tmp_path, caplog):
    result = garden("experiment.record_period=2", kind=NoSuchSprite).run_experiment(output_dir=tmp_path / "run")
    assert len(result.epochs) == 6 and not (tmp_path / "run" / "replays").exists()
    lines = [record.getMessage() for record in caplog.records if "film" in record.getMessage()]
    assert len(lines) == 1 and "cannot read the sprite nowhere.png" in lines[0]


def test_a_game_whose_pictures_fail_is_played_on(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(Playable, "picture", lambda self: 1 / 0)
    result = build({"epochs": 4, "max_turns": 4}).run_experiment(output_dir=tmp_path / "run")
    assert len(result.epochs) == 4 and caplog.text.count("ZeroDivisionError") == 1


# ---- files


PICTURES = [Image.new("RGB", (481, 201), colour) for colour in ("red", "green", "blue")]


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_a_film_is_an_mp4_too_where_ffmpeg_is_there(monkeypatch, tmp_path):
    monkeypatch.undo()
    (tmp_path / "film.gif").write_bytes(films.as_gif(PICTURES))
    assert (
        films.write_mp4(shutil.which("ffmpeg"), tmp_path / "film.gif")
        and (tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"
    )


@pytest.mark.parametrize(
    ("script", "says"), [("echo no >&2; exit 1", "ffmpeg failed: no"), ("exec sleep 60", "timed out after 0.1 seconds")]
)
def test_an_encoder_that_fails_or_hangs_leaves_the_gif(script, says, monkeypatch, tmp_path, caplog):
    program = tmp_path / "ffmpeg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(films.shutil, "which", lambda name: str(program))
    monkeypatch.setattr(films, "ENCODER_SECONDS", 0.1)
    garden("experiment.epochs=1").run_experiment(output_dir=tmp_path / "run")
    assert {path.name for path in (tmp_path / "run" / "replays").iterdir()} == {
        "last.gif", "best.gif", "epoch_000000.gif", "films.json",
    }  # fmt: skip
    assert caplog.text.count(says) == 1
