"""The command `abreast serve`, in a process of its own, and the example."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from chaos.leftovers import descendants
from forked_commands import Command
from integrations.openenv.serving import connected

EXAMPLE = Path(__file__).parents[3] / "examples" / "openenv_client.py"


@pytest.mark.xdist_group("forked commands")
def test_it_serves_says_its_status_and_ends_with_ctrl_c(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = Command(
        ["serve", "FrozenLake", "Bandit", "--port", "0", "--max-sessions", "2", "es_manager.max_workers=1"]
    )
    server.wait_for_lines(Path("stdout"), 1)
    told = Path("stdout").read_text()
    url = re.search(r"http://127\.0\.0\.1:\d+", told)[0]
    assert told.startswith(f"Serving FrozenLake, Bandit at {url} (also {url}/Bandit), at most 2 sessions at a time.")

    async def play():
        async with connected(url) as client:
            await client.ask("reset", {"seed": 1})
            server.send(signal.SIGUSR1)
            server.wait_for_lines(Path("stdout"), 2)

    asyncio.run(play())
    (tmp_path / "client").mkdir()
    monkeypatch.chdir(tmp_path / "client")
    code, out, err = Command([url], str(EXAMPLE)).wait()
    assert (code, err) == (0, "")
    assert "reward:" in out
    monkeypatch.chdir(tmp_path)
    children = descendants(server.pid)
    code, out, err = server.end(signal.SIGINT)
    assert (code, err) == (130, "")
    assert "1 of 2 sessions open (1 begun)" in out
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
