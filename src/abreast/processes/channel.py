"""The parent's end of the pipe to a child process: whole messages, and no call that blocks.

A child may be stopped in the middle of a message, or write a long one while the parent writes to it; a parent that blocks
then blocks for good. So what cannot be written at once is left to a thread, and a message received in part is kept until
the rest has arrived.
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


class PipeChannel:
    """Uses the framing of `multiprocessing.Connection`, which the child has at its end."""

    def __init__(self, connection: Connection) -> None:
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        self._partial = bytearray()
        self._part = memoryview(bytearray(CHUNK))  # kept: to make room for a long message at every look takes 50 µs
        self._unsent: queue.SimpleQueue[bytes | None] | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """Send a message; OSError if the child is gone."""
        self.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def send_bytes(self, data: bytes) -> None:
        """Send a message that is pickled already."""
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
            pass  # the child is gone: `receive` reports it

    def receive(self) -> list[Any]:
        """Every whole message that has arrived, perhaps none; EOFError when the child has closed its end."""
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
                return messages  # no more for now; if this was the end, the next call raises

    def _whole_messages(self, part: memoryview) -> list[Any]:
        """The messages completed by this part; the rest of it is kept."""
        data: bytearray | memoryview = part
        if self._partial:
            self._partial += part
            data = self._partial
        messages, start = [], 0
        while (bounds := _next_message(data, start)) is not None:
            begin, end = bounds
            messages.append(pickle.loads(memoryview(data)[begin:end]))
            start = end
        if data is part:
            self._partial += part[start:]
        else:
            del self._partial[:start]
        return messages

    def close(self) -> None:
        """Close this end."""
        if self._unsent is not None:
            self._unsent.put(None)
        self._socket.close()


def _next_message(data: bytearray | memoryview, start: int) -> tuple[int, int] | None:
    """Where the next message begins and ends, if all of it has arrived."""
    begin = start + _HEADER.size
    if len(data) < begin:
        return None
    (size,) = _HEADER.unpack_from(data, start)
    if size == -1:
        begin += _LONG_HEADER.size
        if len(data) < begin:
            return None
        (size,) = _LONG_HEADER.unpack_from(data, start + _HEADER.size)
    return (begin, begin + size) if len(data) >= begin + size else None
