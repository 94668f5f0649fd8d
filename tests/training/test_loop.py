"""The loop: who waits for whom, and going on from where it was."""

import pytest

from abreast.games import Game
from abreast.state import copied, join, part_of
from abreast.training.actors.base import actor_state, models_of, set_actor_state
from abreast.training.actors.inline import InlineActors
from abreast.training.learners.base import RoundResult
from abreast.training.learners.inline import InlineLearners
from abreast.training.loop import LAGS, Loop
from abreast.training.run.record import RunOptions, RunRecord
from abreast.worlds.playable import Played
from fakes import small_game, timeless
from own_game import Garden


class Script:
    """Actors, learners and record that write down what they are asked for."""

    given_up, rounds, team, films, steps, first_epoch = {}, 0, None, None, 0, 0

    def __init__(self):
        self.lines = []

    def play(self, order, on_turn):
        self.lines.append(f"play {order.number}")
        return [Played(1, [0.0, 0.0])] * order.lanes

    def acting_versions(self):
        return [None, None]

    def submit(self, number, updates, written, progress):
        self.lines.append(f"order {number}: {updates}")

    def finish(self, number):
        self.lines.append(f"finish {number}")
        return [RoundResult(None, 0)] * 2

    def health(self):
        return {}

    def now(self, text, *parts):
        pass

    def check_rows(self, epoch):
        pass

    def warn_of_idle(self, given_up):
        pass

    def epoch(self, epoch, *rest):
        self.lines.append(f"record {epoch}")


def lines(schedule, *overrides):
    env, script = small_game("model.algorithm=random", *overrides), Script()
    Loop(env, script, script, LAGS[schedule], script).run(until=3)
    return script.lines


def test_in_lockstep_each_round_is_finished_before_the_next_pass():
    expected = [f"{word} {number}" for number in range(3) for word in ("play", "order", "finish", "record")]
    assert [line.partition(":")[0] for line in lines("lockstep")] == expected
    assert lines("free") == lines("lockstep")


def test_pipelined_plays_one_pass_ahead():
    assert [line for line in lines("pipelined") if not line.startswith(("order", "record"))] == [
        "play 0", "play 1", "finish 0", "play 2", "finish 1", "finish 2",
    ]  # fmt: skip


def test_lanes_play_several_epochs_a_pass_and_owe_as_many_updates():
    said = lines("lockstep", "multiprocessing.num_envs=2", "experiment.train_interval=1")
    assert said == ["play 0", "order 0: 2", "finish 0", "record 0", "record 1", "play 1", "order 1: 1", "finish 1",
                    "record 2"]  # fmt: skip
    assert "order 1: 1" in lines("lockstep", "multiprocessing.num_envs=2", "experiment.train_interval=3")


def test_the_state_of_a_loop_holds_the_figures_of_unfinished_passes():
    def fresh(record):
        env = Game(Garden).build(Game(Garden).configure())
        learners = InlineLearners(models_of(env.game), 0, slack=20)
        return env, Loop(env, InlineActors(env.game), learners, LAGS["pipelined"], record)

    with RunRecord(Game(Garden).build(Game(Garden).configure()), RunOptions(animate=False, logging=False)) as record:
        (env, loop), (other_env, other) = fresh(record), fresh(record)
        loop.play_pass(1)
        for model, theirs in zip(models_of(env.game), models_of(other_env.game), strict=True):
            theirs.memory.set_state(model.memory.state())
        other.go_on_from(1, loop.unfinished)
        assert other.unfinished == loop.unfinished
        assert {"eaten", "turns"} <= set(other.unfinished[0].played[0].metrics)


def state_of(env, loop):
    models = {f"learner{number}": model.learning_state() for number, model in enumerate(models_of(env.game))}
    memories = {f"replay{number}": model.memory.state() for number, model in enumerate(models_of(env.game))}
    return env.epochs_played, list(loop.unfinished), join(actor=actor_state(env.game), **models, **memories)


def set_state_of(env, loop, epochs_played, unfinished, state):
    for number, model in enumerate(models_of(env.game)):
        model.set_learning_state(part_of(state, f"learner{number}"))
        model.memory.set_state(part_of(state, f"replay{number}"))
    set_actor_state(env.game, part_of(state, "actor"))
    loop.go_on_from(epochs_played, unfinished)


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"])
@pytest.mark.parametrize("algorithm", ["iqn", "dqn", "ppo"])
def test_the_state_of_everything_put_into_fresh_parts_goes_on_bit_for_bit(algorithm, schedule):
    """Between two passes, the states of loop, actors, models and replay are all there is to know of a run."""
    settings = (f"model.algorithm={algorithm}", "multiprocessing.num_envs=2")

    def fresh(record):
        env = small_game(*settings)
        learners = InlineLearners(models_of(env.game), 0, slack=20)
        return env, Loop(env, InlineActors(env.game), learners, LAGS[schedule], record)

    with RunRecord(small_game(*settings), RunOptions(animate=False, logging=False)) as whole:
        env, loop = fresh(whole)
        for epochs in (6, 12):
            while env.epochs_played < epochs:  # as `run` does, but rounds stay unfinished at the end
                loop.play_pass(epochs)
            if epochs == 6:
                *kept, state = state_of(env, loop)
                state = copied(state)
        loop.run(12)
    with RunRecord(small_game(*settings), RunOptions(animate=False, logging=False)) as rest:
        other, again = fresh(rest)
        set_state_of(other, again, *kept, state)
        again.run(12)
    assert len(rest.epochs) == 12 - 6 + 2 * (len(kept[1]) if schedule else 0)
    skipped = len(whole.epochs) - len(rest.epochs)
    mine, theirs = timeless(whole.epochs[skipped:]), timeless(rest.epochs)
    for record in (*mine, *theirs):
        del (
            record["steps"],
            record["agent_steps"],
            record["updates_per_agent_step"],
        )  # these count from the beginning of a run
    assert mine == theirs
    for one, two in zip(models_of(env.game), models_of(other.game), strict=True):
        assert one.online_block.values.equal(two.online_block.values)
