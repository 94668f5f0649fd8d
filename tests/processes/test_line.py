"""The parent's end of a line: whole messages in order, and no waiting."""

import multiprocessing
import threading
import time
from multiprocessing.connection import wait

import pytest

from abreast.processes.line import Line


@pytest.fixture
def ends():
    ours, theirs = multiprocessing.Pipe()
    line = Line(ours)
    yield line, theirs
    line.close()
    theirs.close()


def all_of(line, count):
    said = []
    while len(said) < count:
        assert wait([line.fileno()], 10)
        said += line.receive()
    return said


def test_messages_come_whole_and_in_order_whatever_their_length(ends):
    line, theirs = ends
    messages = ["short", "x" * 3_000_000, 7, b"", ["y" * 100_000] * 3]
    thread = threading.Thread(target=lambda: [theirs.send(message) for message in messages])
    thread.start()
    assert all_of(line, len(messages)) == messages
    thread.join()


def test_half_a_message_is_kept_until_the_rest_is_there(ends):
    line, theirs = ends
    assert line.receive() == []
    big = "z" * 50_000_000
    thread = threading.Thread(target=theirs.send, args=(big,))
    thread.start()
    time.sleep(0.1)
    assert line.receive() == []
    assert all_of(line, 1) == [big]
    thread.join()


def test_nobody_waits_for_one_who_does_not_read(ends):
    line, theirs = ends
    started = time.monotonic()
    messages = ["x" * 5_000_000, *range(100), "y" * 5_000_000, "last"]
    for message in messages:
        line.send(message)
    assert time.monotonic() - started < 5
    assert [theirs.recv() for _ in messages] == messages


def test_the_end_comes_after_the_last_words(ends):
    line, theirs = ends
    theirs.send("last words")
    theirs.close()
    assert line.receive() == ["last words"]
    with pytest.raises(EOFError):
        line.receive()
    with pytest.raises(OSError):
        for _ in range(3):
            line.send("is anybody there?")
