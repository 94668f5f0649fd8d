"""Generators that a process shares are seeded while users' code runs, and are as they were afterwards."""

import math
import random
import threading

import numpy as np
import pytest
import torch

from abreast.streams import Draws, Drew, own_globals, seeded_globals


def draws():
    return random.random(), np.random.rand(), np.random.normal(), torch.rand(()).item()  # noqa: NPY002


def begin():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    np.random.normal()  # noqa: NPY002 (one of a pair)


def test_threads_that_come_meanwhile_leave_it_alone():
    begin()
    expected = draws()
    begin()
    inside, over = threading.Event(), threading.Event()

    def elsewhere():
        with seeded_globals(np.random.SeedSequence(1)):
            inside.set()
            over.wait(10)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    inside.wait(10)
    with seeded_globals(np.random.SeedSequence(2)):
        over.set()
        thread.join()
    assert draws() == expected


def test_the_same_seed_and_path_give_the_same_numbers_and_nothing_is_left_behind():
    seed = np.random.SeedSequence(3)
    begin()
    expected = draws()
    begin()
    with seeded_globals(seed, 2, 5):
        inside = draws()
    assert draws() == expected
    with seeded_globals(seed, 2, 5):
        assert draws() == inside
    for other in (np.random.SeedSequence(4), seed.spawn(1)[0]):
        with seeded_globals(other, 2, 5):
            assert not {*draws()} & {*inside}
    with seeded_globals(seed, 2, 6):
        assert not {*draws()} & {*inside}
    assert seed.n_children_spawned == 1  # only by this test


def test_what_draws_is_noticed_and_has_generators_of_its_own_that_go_on_where_they_were():
    begin()
    expected, found = draws(), Draws()
    begin()
    with found.compare("turn"):
        pass
    assert not found.names
    with pytest.raises(Drew), found.compare("turn"):
        torch.rand(())
    assert found.names == "torch" and found.left["turn"] == math.inf
    played = []
    for _ in range(2):
        states = {}
        with own_globals(5, states):
            once = [draws()]
        with own_globals(5, states):
            played.append([*once, draws()])
    assert played[0] == played[1] and played[0][0] != played[0][1]
    with own_globals(5, {}):
        assert [draws(), draws()] == played[0]
    assert draws() == expected


def test_threads_that_are_compared_and_threads_with_generators_of_their_own_do_not_meet():
    inside, over, order = threading.Event(), threading.Event(), []

    def compared():
        with Draws().compare("turn"):
            inside.set()
            over.wait(10)
            order.append("compared")

    def swapped():
        with own_globals(1, {}):
            order.append("swapped")

    threads = [threading.Thread(target=each) for each in (compared, swapped)]
    threads[0].start()
    inside.wait(10)
    threads[1].start()
    threads[1].join(0.02)
    over.set()
    for thread in threads:
        thread.join()
    assert order == ["compared", "swapped"]
