"""Where POSIX is missing, as on Windows: everything can be imported, and what needs POSIX says so.

Windows is imitated: modules and names that Python has on POSIX alone are taken away before abreast is imported.
"""

from pathlib import Path

import pytest

from forked_commands import Command

IMITATED = """
import contextlib, faulthandler, importlib, os, pkgutil, select, signal, socket, subprocess, sys, typer

MODULES = "fcntl resource termios tty pwd grp pty readline curses syslog posix _posixshmem _posixsubprocess"
NAMES = {
    os: "fork register_at_fork memfd_create sched_getaffinity sched_setscheduler sched_param sched_yield getloadavg"
    " O_NOFOLLOW O_NONBLOCK O_DIRECTORY O_CLOEXEC WNOHANG pread pwrite getuid killpg setsid fchmod chown mkfifo nice",
    signal: "SIGUSR1 SIGUSR2 SIGKILL SIGCHLD SIGCONT SIGURG SIGSTOP SIGHUP SIGPIPE SIGALRM SIG_BLOCK SIG_UNBLOCK"
    " SIG_SETMASK pthread_sigmask pthread_kill setitimer alarm",
    socket: "AF_UNIX send_fds recv_fds MSG_DONTWAIT MSG_CMSG_CLOEXEC SCM_RIGHTS",
    select: "poll epoll",
    faulthandler: "register unregister",
}

def socketpair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return socket.create_connection(server.getsockname()), server.accept()[0]

for name in ("aiohttp", "gymnasium", "pettingzoo", "tensorboard"):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)  # which know Windows themselves
for name in [name for name in sys.modules if name.partition(".")[0] == "abreast"]:
    del sys.modules[name]
sys.modules |= dict.fromkeys(MODULES.split())
for module, names in NAMES.items():
    for name in names.split():
        vars(module).pop(name, None)
socket.socketpair, sys.platform = socketpair, "win32"

import abreast
from abreast.cli import run
from abreast.errors import AbreastError

for module in pkgutil.walk_packages(abreast.__path__, "abreast."):
    try:
        module.name.endswith("__main__") or importlib.import_module(module.name)
    except (ModuleNotFoundError, AbreastError) as error:  # a package of others that is not installed
        assert "halted" not in str(error), (module.name, error)
for number, command in enumerate(sys.argv[1:]):
    print(f"{number}: {run(command.split())}", file=sys.stderr)
"""
SMALL = "experiment.epochs=3 experiment.max_turns=4 model.hidden_size=8 model.batch_size=4 --agents 2 --no-animate -q"
PARALLEL = f"train treasurehunt {SMALL} --parallel"
LACKS = "POSIX, which win32 lacks: "
PROCESSES = f"abreast: worker processes need {LACKS}set multiprocessing.workers=threads (training) or es_manager."
COMMANDS = [
    (f"train treasurehunt {SMALL} --output one", 0, ""),
    (f"{PARALLEL} --output two", 0, ""),
    (f"{PARALLEL} multiprocessing.workers=threads multiprocessing.num_workers=2 --output three", 0, ""),
    ("rollout Bandit --episodes 4 --output four -q", 0, ""),
    (f"{PARALLEL} multiprocessing.workers=processes --output no", 2, PROCESSES),
    (f"{PARALLEL} multiprocessing.workers=ray --output no", 2, f"abreast: a Ray cluster needs {LACKS}leave it out"),
    ("sweep treasurehunt --output no", 2, f"abreast: many runs at once need {LACKS}train one by one"),
    ("rollout SimpleSokoban -q --episodes 4 --output no es_manager.use_multiprocessing=true", 2, PROCESSES),
    ("serve Bandit", 2, f"abreast: `abreast serve` needs {LACKS}step environments by EnvStateManager"),
]


@pytest.mark.xdist_group("forked commands")
def test_what_needs_posix_says_so_and_all_else_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("windows.py").write_text(IMITATED)
    ended, _, err = Command([command for command, _, _ in COMMANDS], program="windows.py").wait()
    assert ended == 0, err
    for number, (command, code, told) in enumerate(COMMANDS):
        said, found, err = err.partition(f"{number}: {code}\n")
        assert (found, told in said) == (f"{number}: {code}\n", True), (command, said, err)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"one", "two", "three", "four"}
