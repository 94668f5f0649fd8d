"""The parent's end of a pipe: whole messages in order, and no waiting."""

import os
import select
import socket
import threading
import time

import pytest

from abreast.processes.channel import PipeChannel, frame, receive_descriptors


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    channel = PipeChannel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def all_of(channel, count):
    received = []
    while len(received) < count:
        assert select.select([channel], [], [], 10)[0]
        received += channel.receive()
    return received


def test_messages_come_whole_and_in_order_whatever_their_length(ends):
    channel, theirs = ends
    messages = ["short", "x" * 3_000_000, 7, b"", ["y" * 100_000] * 3]
    thread = threading.Thread(target=lambda: [theirs.sendall(frame(message)) for message in messages])
    thread.start()
    assert all_of(channel, len(messages)) == messages
    thread.join()


def test_half_a_message_is_kept_until_the_rest_is_there(ends):
    channel, theirs = ends
    assert channel.receive() == []
    big = "z" * 50_000_000
    thread = threading.Thread(target=theirs.sendall, args=(frame(big),))
    thread.start()
    time.sleep(0.1)
    assert channel.receive() == []
    assert all_of(channel, 1) == [big]
    thread.join()


def test_sending_does_not_wait_for_a_child_that_does_not_read(ends):
    channel, theirs = ends
    started = time.monotonic()
    messages = ["x" * 5_000_000, *range(100), "y" * 5_000_000, "last"]
    for message in messages:
        channel.send(message)
    assert time.monotonic() - started < 5
    assert all_of(PipeChannel(theirs), len(messages)) == messages


def test_the_end_comes_after_the_last_message(ends):
    channel, theirs = ends
    theirs.sendall(frame("last message"))
    theirs.close()
    assert channel.receive() == ["last message"]
    with pytest.raises(EOFError):
        channel.receive()
    with pytest.raises(OSError):
        for _ in range(3):
            channel.send("too late")


def test_descriptors_come_before_the_first_message(ends):
    channel, theirs = ends
    ours = socket.socket(fileno=os.dup(channel.fileno()))
    with ours, open(os.devnull) as first, open(__file__) as second:  # noqa: PTH123
        sent = [first.fileno(), *[second.fileno()] * 200]
        socket.send_fds(ours, [b"\0"], sent)
        channel.send("message")
        received = receive_descriptors(theirs)
        assert [os.fstat(each).st_ino for each in received] == [os.fstat(each).st_ino for each in sent]
    for descriptor in received:
        os.close(descriptor)
    assert all_of(PipeChannel(theirs), 1) == ["message"]
    channel.close()
    with pytest.raises(EOFError):
        receive_descriptors(theirs)
