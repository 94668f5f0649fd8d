"""Updates counted in rows of the agent, runs that end after so many steps, and settings that fall with a run."""

import pytest

from abreast.errors import ConfigError
from abreast.games import find_game
from abreast.models import DQN
from abreast.training import parse_config
from fakes import learned, live, make_model, small_game, timeless

SHAPES = "pettingzoo:shape_envs:AnyShape"
UNEVEN = [
    "world.agents=3",
    "world.random_lengths=true",
    "world.turns=12",
    "experiment.max_turns=50",
    "model.batch_size=4",
]
COUNTED = {
    "dqn": [
        "train_freq=5",
        "gradient_steps=2",
        "learning_starts=12",
        "exploration_fraction=0.5",
        "anneal=[learning_rate]",
    ],
    "ppo": ["n_steps=20", "anneal=[learning_rate,clip]", "hidden_size=16"],
}


def uneven(algorithm, *overrides):
    """A run of agents whose episodes have other lengths each time."""
    settings = [f"model.{each}" for each in ("algorithm=" + algorithm, *COUNTED[algorithm])]
    game = find_game(SHAPES)
    return game.build(game.configure(None, [*UNEVEN, *settings, "experiment.max_steps=150", *overrides]))


@pytest.mark.parametrize(("gradient_steps", "per_time"), [(1, 1), (3, 3), (-1, 4)])
def test_gradient_steps_are_due_in_proportion_to_new_rows_and_the_remainder_is_carried_over(gradient_steps, per_time):
    model = make_model("dqn", train_freq=4, gradient_steps=gradient_steps, learning_starts=10)
    done = []
    for number, turns in enumerate([9, 5, 3, 1, 3, 20]):  # 9, 14, 17, 18, 21, 41 rows
        live(model, turns=turns, seed=number)
        model.train_step()
        done.append(model.optimiser.steps // per_time)
    # the last row of the warm-up waits, as it was left over: 1 + 5, then 2 + 3, 1 + 1, 2 + 3, 1 + 20
    assert done == [0, 1, 2, 2, 3, 8]
    assert model.is_warming_up is False


def test_ppo_waits_for_its_rows_and_learns_from_each_once():
    model = make_model("ppo", n_steps=25)
    learned_from = []
    for number in range(5):
        live(model, turns=10, seed=number)
        before = model.rows_learned_from.sum()
        model.train_step()
        learned_from.append(int(model.rows_learned_from.sum() - before))
    assert learned_from == [0, 0, 30, 0, 0] and model.updates == 1


def test_agents_that_warm_up_act_at_random_and_then_by_their_policies():
    env = uneven("dqn", "model.epsilon=0.0", "model.exploration_fraction=null", "model.learning_starts=60")
    told = []
    for player in env.game.players:
        choose = player.model.choose
        player.model.choose = lambda *given, model=player.model, choose=choose: (
            told.append(model.epsilon) or choose(*given)
        )
    env.run_experiment(animate=False, logging=False)
    assert set(told) == {0.0, 1.0} and told.index(0.0) > 20 and all(each == 0.0 for each in told[-20:])
    assert all(player.model.epsilon == 0.0 for player in env.game.players)


@pytest.mark.parametrize(
    ("budget", "epochs"),
    [(["max_steps=25"], 3), (["max_steps=25", "epochs=2"], 2), (["max_steps=1000", "epochs=4"], 4)],
)
def test_a_run_ends_with_the_first_pass_that_reaches_its_steps_or_its_epochs(budget, epochs):
    env = small_game("model.epsilon=0.5")
    config = env.config.model_dump(exclude_unset=True)
    del config["experiment"]["epochs"]
    env = small_game()
    game = find_game("treasurehunt")
    env = game.build(game.configure(config, [f"experiment.{each}" for each in budget]))  # episodes of ten steps
    result = env.run_experiment(animate=False, logging=False)
    assert len(result.epochs) == epochs and [each["steps"] for each in result.epochs] == [
        10 * n for n in range(1, epochs + 1)
    ]


def test_what_falls_with_a_run_falls_with_the_budget_that_ends_first():
    settings = ["model.algorithm=dqn", "model.epsilon=0.9", "model.epsilon_min=0.1", "model.exploration_fraction=0.5"]
    env = small_game(*settings, "model.anneal=[learning_rate]", "experiment.max_steps=100", "experiment.epochs=40")
    rates = []
    for agent in env.agents:
        step = agent.model.train_step
        agent.model.train_step = lambda step=step, model=agent.model: (
            rates.append(model.optimiser.learning_rate) or step()
        )
    result = env.run_experiment(animate=False, logging=False)
    epsilons = [record["epsilon"] for record in result.epochs]
    assert epsilons == pytest.approx([0.9, 0.74, 0.58, 0.42, 0.26, *[0.1] * 5])
    rate = env.agents[0].model.config.learning_rate
    assert rates[::2] == pytest.approx([rate * (1 - number / 10) for number in range(10)])


class HearsOfProgress(DQN):
    """A user's, with a method of its own that has the name of a setting of ours."""

    def anneal(self):
        raise AssertionError("nobody but its user calls this")

    def set_progress(self, progress):
        super().set_progress(progress)
        self.heard = progress


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined", "free"])
def test_a_users_model_is_told_of_the_progress_of_the_run_wherever_it_learns(schedule):
    model = "model.algorithm=training.test_counted_steps:HearsOfProgress"
    where = [f"multiprocessing.schedule={schedule}", "multiprocessing.workers=threads", "experiment.epochs=40"]
    env = small_game(model, *where)
    env.run_experiment_mp(animate=False, logging=False)
    heard = [agent.model.heard for agent in env.agents]
    assert heard == [39 / 40] * 2 if schedule != "free" else all(0 <= each < 1 for each in heard)


@pytest.mark.parametrize("algorithm", [*COUNTED])
@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"])
def test_a_run_that_is_stopped_and_resumed_ends_as_it_would_have(algorithm, schedule, tmp_path):
    class Stops:
        def record_epoch(self, epoch, *rest, **more):
            if epoch == 9:
                raise KeyboardInterrupt

    settings = [
        "experiment.checkpoint_interval=4",
        f"multiprocessing.schedule={schedule}",
        "multiprocessing.workers=threads",
    ]
    whole = uneven(algorithm, *settings)
    expected = timeless(whole.run_experiment_mp(animate=False, logging=False).epochs)
    with pytest.raises(KeyboardInterrupt):
        uneven(algorithm, *settings).run_experiment_mp(animate=False, logger=Stops(), output_dir=tmp_path / "run")
    resumed = uneven(algorithm, *settings)
    assert timeless(resumed.run_experiment_mp(animate=False, resume=tmp_path / "run").epochs) == expected
    assert learned(resumed) == learned(whole) and expected[-1]["updates"] > 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["experiment.max_steps=0"], r"experiment\.max_steps is 0: expected .* 1"),
        (["model.train_freq=4", "experiment.train_interval=3"], "counted in rows or in epochs: leave one out"),
        (["model.learning_starts=900"], r"model\.learning_starts is 900, but the run has 30 steps at most"),
        (["model.train_freq=200000"], "train_freq is 200000, more rows than buffer_capacity .* holds"),
        (["model.gradient_steps=0"], "gradient_steps is 0: expected 1 or more"),
        (["model.gradient_steps=-1"], "gradient_steps is -1: expected 1 or more, or, with train_freq, -1"),
        (["model.train_freq=0"], r"model\.train_freq is 0: expected"),
        (["model.train_freq=2", "model.adaptive_batch=[8,16]"], "leave one out"),
        (["model.epsilon_decay=0.1", "model.exploration_fraction=0.1"], "epsilon falls in one way only: leave one out"),
        (["model.exploration_fraction=nan"], r"model\.exploration_fraction is \'nan\'"),
        (["model.anneal=[clip]"], r"model\.anneal"),
        (["model.algorithm=ppo", "model.n_steps=20000"], r"model\.n_steps 20000 rows .* raise it to 20010 or more"),
    ],
)
def test_what_cannot_be_counted_is_refused_before_anything_starts(settings, told):
    with pytest.raises(ConfigError, match=told):
        small_game("model.algorithm=dqn", *settings)


def test_settings_of_a_run_can_be_given_again():
    """As from its config.yaml, where all are given."""
    game = find_game(SHAPES)
    for given in (
        ["model.algorithm=ppo"],
        ["model.algorithm=dqn"],
        ["experiment.max_steps=500"],
        ["experiment.train_interval=2"],
    ):
        config = game.configure(None, given)
        assert parse_config(config.model_dump(), type(config.world)) == config
        assert game.configure(config.model_dump()).model_dump() == config.model_dump()
