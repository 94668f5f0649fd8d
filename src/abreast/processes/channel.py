"""Messages through a socket, whole and in order, and descriptors before them.

A child may be stopped in the middle of a message, or write a long one while the parent writes to it; a parent that blocks
then blocks for good. So what the parent cannot write at once is left to a thread, and a message received in part is kept
until the rest has arrived. The child may block: it writes with `sendall`.
"""

import pickle
import queue
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

CHUNK = 1 << 17
MOST_DESCRIPTORS = 253
"""So many are sent at once at most."""
CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_LENGTH = struct.Struct("!Q")


def frame(message: Any) -> bytes:
    """A message as it is sent: its length, and its pickle."""
    return framed(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def framed(data: bytes) -> bytes:
    """The pickle of a message as it is sent."""
    return _LENGTH.pack(len(data)) + data


class PipeChannel:
    """One end of the socket. `decode` is given the bytes of each message, which are valid during the call alone."""

    def __init__(self, end: socket.socket, decode: Callable[[memoryview], Any] = pickle.loads) -> None:
        self._socket, self._decode = end, decode
        self._partial = bytearray()
        self._part = memoryview(bytearray(CHUNK))  # kept: to make room for a long message at every look takes 50 µs
        self._unsent: queue.SimpleQueue[bytes | None] | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """Send a message, without waiting; OSError if the other side is gone."""
        self.send_framed(frame(message))

    def send_framed(self, data: bytes) -> None:
        """Send what `frame` has returned."""
        if self._unsent is None:
            try:
                sent = self._socket.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
            self._unsent = queue.SimpleQueue()
            threading.Thread(target=self._write_queued, args=(self._unsent,), daemon=True).start()
        self._unsent.put(data)

    def _write_queued(self, unsent: "queue.SimpleQueue[bytes | None]") -> None:
        try:
            while (data := unsent.get()) is not None:
                self._socket.sendall(data)
        except OSError:
            pass  # the child is gone: `receive` reports it

    def receive(self) -> list[Any]:
        """Every whole message that has arrived, perhaps none, without waiting; EOFError when the other end is closed."""
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
        while (begin := start + _LENGTH.size) <= len(data):
            end = begin + _LENGTH.unpack_from(data, start)[0]
            if end > len(data):
                break
            messages.append(self._decode(memoryview(data)[begin:end]))
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


def receive_descriptors(end: socket.socket) -> list[int]:
    """What `socket.send_fds` has sent before the first message; EOFError when the other end is closed."""
    sent, descriptors, *_ = socket.recv_fds(end, 1, MOST_DESCRIPTORS, CLOSE_ON_EXEC)
    if not sent:
        raise EOFError
    return descriptors
