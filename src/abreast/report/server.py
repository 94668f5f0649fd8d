"""The live view of a run: a server for the browsers of this machine.

    GET   /?token=…                         the page (page.py)
    GET   /data.json?token=…                {"condition": running, paused or ended, "runs": [what data.py reads]}
    GET   /film/NAME?token=…                a film in replays/, or a picture in images/
    POST  /control/REQUEST, with X-Token    asks the run (control.py)

What cannot be answered is a sentence, with a status of 400 or more. The page shows it.

Who knows the token may read what the run folder says, and stop the run. A page of another site does not know it, and cannot
ask under a name of its own for this machine either: the Host of every request has to be one that always means this machine.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from urllib.parse import parse_qs, unquote, urlsplit

from abreast.control import ask, condition_of
from abreast.errors import AbreastError, ConfigError, RunFolderError
from abreast.report.data import read_run
from abreast.report.page import TYPES, as_json, make_page

HOSTS = ("127.0.0.1", "localhost")
"""Names that always mean this machine. The port is not compared: that of a forwarded connection (ssh -L) is another."""
SHARE = 0.1
"""Share of a core that reading may take, which the run needs more: 10,000 epochs of five agents take 1 to 2 s."""
SAFE = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LiveView(ThreadingTCPServer):
    """Serves one run: `with LiveView(run) as view: view.serve_forever()`."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, run: Path, port: int = 0) -> None:
        """`port`: 0 for any that is free."""
        self.run, self.token = run, secrets.token_urlsafe(24)
        self._reading = threading.Lock()
        self._data, self._next_read = "", 0.0
        """What was read, and when it may be read again."""
        self._seen: list[tuple[str, int, int]] | None = None
        """What the files looked like then."""
        self.data()  # a folder that is no run is refused now
        try:
            super().__init__((HOSTS[0], port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used ({error.strerror}): give another --port, or none for any that is free."
            ) from None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOSTS[0]}:{self.server_address[1]}/?token={self.token}"

    def data(self) -> str:
        """What the page shows. Files that have not changed are not read again, others as often as their size allows."""
        with self._reading:
            seen = _files(self.run)
            if seen != self._seen and time.monotonic() >= self._next_read:
                started = time.thread_time()
                self._data, self._seen = as_json([read_run(self.run)]), seen
                self._next_read = time.monotonic() + (time.thread_time() - started) / SHARE
            return f'{{"condition": "{condition_of(self.run)}", "runs": {self._data}}}'

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that has gone is no news."""


def _files(run: Path) -> list[tuple[str, int, int]]:
    """What changes with the files of a run."""
    facts = []
    for path in (*run.glob("*"), *(run / "replays").glob("*")):
        with suppress(OSError):  # it is gone by now
            facts.append((path.name, path.stat().st_mtime_ns, path.stat().st_size))
    return sorted(facts)


class _Handler(BaseHTTPRequestHandler):
    server: LiveView
    timeout = 30.0

    def do_GET(self) -> None:
        self._answer(parse_qs(urlsplit(self.path).query).get("token", [""])[0], 404, self._found)

    def do_POST(self) -> None:
        self._answer(self.headers.get("X-Token", ""), 409, self._asked)

    def _answer(self, token: str, if_not: int, answer: Callable[[str], tuple[str, bytes]]) -> None:
        """Send the type and the text that `answer` has for a path; `if_not`: the status of what it refuses."""
        status, kind = 200, "text/plain"
        try:
            if fault := self._fault(token):
                status, body = 403, f"{fault}: use the whole address that `abreast watch` has printed.".encode()
            else:
                kind, body = answer(unquote(urlsplit(self.path).path))
        except AbreastError as error:
            status, body = if_not, str(error).encode()
        except Exception as error:  # the page says so, and asks again
            status, body = 500, f"the run folder cannot be read: {type(error).__name__}: {error}.".encode()
        self.send_response(status)
        for name, value in {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": len(body), **SAFE}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def _fault(self, token: str) -> str:
        """Return why a request cannot come from the page that was printed, or nothing."""
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if host not in HOSTS:
            return f"{host!r} is no name of this machine's"
        is_token = hmac.compare_digest(token.encode(), self.server.token.encode())
        return "" if is_token else "the token is missing or wrong"

    def _found(self, path: str) -> tuple[str, bytes]:
        if path == "/":
            return "text/html", make_page([], is_live=True).encode()
        if path == "/data.json":
            return "application/json", self.server.data().encode()
        for film in (each for folder in ("replays", "images") for each in (self.server.run / folder).glob("*")):
            # Found by its name in the folder: one that leads out of it is not.
            if path == f"/film/{film.name}" and film.suffix in TYPES and film.is_file() and not film.is_symlink():
                return TYPES[film.suffix], film.read_bytes()
        raise RunFolderError("there is nothing of this name: use the address that `abreast watch` has printed.")

    def _asked(self, path: str) -> tuple[str, bytes]:
        ask(self.server.run, path.removeprefix("/control/"))
        return "text/plain", b""

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not shown."""
