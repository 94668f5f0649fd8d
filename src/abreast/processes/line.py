"""The parent's end of the line to a child: whole messages, and never a wait for a child that does not read or write on.

A child may be stopped in the middle of a message, or write a long one while the parent writes to it; whoever blocks then
blocks for good. So what cannot be written at once is left to a thread, and what has come only in part is kept until the rest
is there.
"""

import os
import pickle
import queue
import socket
import struct
import threading
from multiprocessing.connection import Connection
from typing import Any

CHUNK = 1 << 17
_HEADER = struct.Struct("!i")
_LONG_HEADER = struct.Struct("!Q")


class Line:
    """Speaks as `multiprocessing.Connection` does; the child has one of those at its end."""

    def __init__(self, connection: Connection) -> None:
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        self._come = bytearray()
        self._part = memoryview(bytearray(CHUNK))  # kept: to make room for a long message at every look takes 50 µs
        self._unsent: queue.SimpleQueue[bytes | None] | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """Say something; OSError if nobody is there any more."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        is_long = len(data) > 0x7FFFFFFF
        frame = (_HEADER.pack(-1) + _LONG_HEADER.pack(len(data)) if is_long else _HEADER.pack(len(data))) + data
        if self._unsent is None:
            try:
                sent = self._socket.send(frame, socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            if sent == len(frame):
                return
            frame = frame[sent:]
            self._unsent = queue.SimpleQueue()
            threading.Thread(target=self._write_on, args=(self._unsent,), daemon=True).start()
        self._unsent.put(frame)

    def _write_on(self, unsent: "queue.SimpleQueue[bytes | None]") -> None:
        try:
            while (frame := unsent.get()) is not None:
                self._socket.sendall(frame)
        except OSError:
            pass  # the child is gone: whoever listens to it will notice

    def receive(self) -> list[Any]:
        """Every whole message that has come, perhaps none; EOFError when there is no more to come."""
        messages: list[Any] = []
        while True:
            try:
                size = self._socket.recv_into(self._part, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return messages
            except ConnectionError:
                size = 0
            if size:
                messages += self._whole_messages(self._part[:size])
            elif not messages:
                raise EOFError
            if size < CHUNK:
                return messages  # there is no more for now; if that is the end of the line, the next call will see it

    def _whole_messages(self, part: memoryview) -> list[Any]:
        """The messages that are whole with this part; what is left of it is kept."""
        come: bytearray | memoryview = part
        if self._come:
            self._come += part
            come = self._come
        messages, start = [], 0
        while (bounds := _next_message(come, start)) is not None:
            begin, end = bounds
            messages.append(pickle.loads(memoryview(come)[begin:end]))
            start = end
        if come is part:
            self._come += part[start:]
        else:
            del self._come[:start]
        return messages

    def close(self) -> None:
        """Hang up."""
        if self._unsent is not None:
            self._unsent.put(None)
        self._socket.close()


def _next_message(come: bytearray | memoryview, start: int) -> tuple[int, int] | None:
    """Where the next message begins and ends, if all of it has come."""
    begin = start + _HEADER.size
    if len(come) < begin:
        return None
    (size,) = _HEADER.unpack_from(come, start)
    if size == -1:
        begin += _LONG_HEADER.size
        if len(come) < begin:
            return None
        (size,) = _LONG_HEADER.unpack_from(come, start + _HEADER.size)
    return (begin, begin + size) if len(come) >= begin + size else None
