"""What messages are made of."""

import pytest

from abreast.errors import nearest


@pytest.mark.parametrize(
    ("given", "known", "meant"),
    [
        ("model.epsilom", ["model.epsilon", "model.gamma"], "model.epsilon"),
        ("model.replay", ["model.epsilon", "model.gamma"], None),
        ("gymnasium_robotics.mamujoco_v1", ["gymnasium_robotics.core", "gymnasium_robotics.utils"], None),
        ("classic/chss_v6", ["classic/chess_v6", "classic/go_v5"], "classic/chess_v6"),
        ("classic/ludo-v3", ["classic/chess-v6", "classic/go-v5"], None),
        ("Ant-v9", ["Ant-v5", "Acrobot-v1"], "Ant-v5"),
        ("Foo-v1", ["Acrobot-v1", "CartPole-v1"], None),
        ("duel.py", ["duell.py", "main.py"], "duell.py"),
        ("ab.py", ["cd.py", "main.py"], None),
        ("epoch", ["epochs"], "epochs"),
        ("epoch", [], None),
    ],
)
def test_a_name_is_suggested_where_more_is_alike_than_what_its_neighbours_share(given, known, meant):
    assert nearest(given, known, "nothing") == (f"did you mean {meant!r}?" if meant else "nothing")
