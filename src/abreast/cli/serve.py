"""`abreast serve`: text environments behind OpenEnv's protocol."""

import asyncio
import signal
from typing import Annotated

import typer

from abreast.cli.app import ROLLOUTS, ConfigFile, Quiet, Verbose, app, choose_volume, counted, look_here, out
from abreast.cli.rollout import configure
from abreast.display import QUIET, volume
from abreast.errors import ConfigError, need_posix
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers.descriptors import check_descriptors
from abreast.settings import merge

STATUS_S = 60.0
"""How often the status is printed, if something has happened."""


@app.command(rich_help_panel=ROLLOUTS)
def serve(
    tags: Annotated[
        list[str],
        typer.Argument(
            metavar="TAG_OR_ENV [TAG_OR_ENV | SECTION.KEY=VALUE]...",
            help="What is served, as for `abreast rollout`: the first at the address itself, each also under its name; and"
            " settings, e.g. es_manager.max_workers=4.",
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0: all of this machine. There is no access control.")
    ] = "127.0.0.1",
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions at the same time, of all tags together.")] = 256,
    idle_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds without a request after which a session is ended.")
    ] = 600.0,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Seconds for which a session waits for a client whose connection was lost.")
    ] = 60.0,
    config: ConfigFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Serve environments to trainers that speak OpenEnv, or to `abreast rollout openenv:http://HOST:PORT`."""
    choose_volume(quiet, verbose)
    look_here()
    names, overrides = [text for text in tags if "=" not in text], [text for text in tags if "=" in text]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"the tags are {', '.join(names) or 'none'}: give at least one, and each once.")
    chosen = configure(names, config, overrides)
    episodes = {"max": max_sessions, "when_full": "wait", "idle_timeout": None}
    given = merge(chosen.model_dump(exclude_unset=True), {"es_manager": {"episodes": episodes}})
    check_descriptors(chosen.es_manager, max_sessions, max_sessions, "--max-sessions")
    with EnvStateManager(given, tags=names) as manager:
        code = asyncio.run(_serve(manager, host, port, max_sessions, idle_timeout, grace))
    raise typer.Exit(code)


async def _serve(
    manager: EnvStateManager, host: str, port: int, max_sessions: int, idle_timeout: float, grace: float
) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code."""
    from abreast.integrations.openenv import Server

    need_posix("`abreast serve` needs", "step environments by EnvStateManager")
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    async with Server(manager, host, port, max_sessions, idle_timeout, grace) as server:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, 128 + number)
        loop.add_signal_handler(signal.SIGUSR1, lambda: out.print(server.status()))
        where = ", ".join(f"{server.url}/{name}" for name in list(manager.tags)[1:])
        out.print(
            f"Serving {', '.join(manager.tags)} at {server.url}{f' (also {where})' if where else ''}, at most"
            f" {counted(max_sessions, 'session')} at a time. Ctrl-C ends it; kill -USR1 prints its status."
        )
        told = server.status()
        while not ended.done():
            await asyncio.wait([ended], timeout=STATUS_S)
            if volume() != QUIET and told != (told := server.status()):
                out.print(told)
        for number in (signal.SIGINT, signal.SIGTERM):  # the second one ends it at once
            loop.remove_signal_handler(number)
    return ended.result()
