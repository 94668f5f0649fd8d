"""The names that every logger uses."""

import pytest

from abreast.integrations.loggers.scalars import scalars, settings_of

COUNTED = {"agent_steps": 20, "updates": 4, "updates_per_agent_step": 0.2}
EPOCH = {
    "reward_per_agent": [1.0, 2.0],
    "learning": [{"loss": 0.5, "entropy": None}, {}],
    "metrics": {"eaten": 3.0, "undefined": None},
    "time": {"elapsed_s": 1.5, "restarts": 0, "lag_per_agent": [0, 2]},
    **COUNTED,
}


@pytest.mark.parametrize(
    ("agents", "names"),
    [((), ["agent_0", "agent_1"]), (("cat", "dog"), ["cat", "dog"]), (("cat", "cat"), ["agent_0", "agent_1"])],
)
def test_every_figure_has_a_name_and_what_is_no_number_is_left_out(agents, names):
    one, two = names
    assert scalars(3.0, 0.1, {**EPOCH, **({"agents": agents} if agents else {})}) == {
        "reward/total": 3.0, f"reward/{one}": 1.0, f"reward/{two}": 2.0, f"loss/{one}": 0.5, "game/eaten": 3.0,
        "train/epsilon": 0.1, "train/agent_steps": 20.0, "train/updates": 4.0, "train/updates_per_agent_step": 0.2,
        "time/elapsed_s": 1.5, "time/restarts": 0.0, f"lag/{one}": 0.0, f"lag/{two}": 2.0,
    }  # fmt: skip


def test_settings_have_their_dotted_names(tmp_path):
    (tmp_path / "config.yaml").write_text(
        "model: {gamma: 0.9, per_agent: {1: {algorithm: ppo}}, device: null}\nfreeze: [0, 3]"
    )
    assert settings_of(tmp_path) == {"model.gamma": 0.9, "model.per_agent.1.algorithm": "ppo", "freeze": "[0, 3]"}
