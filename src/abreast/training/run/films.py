"""Films of a run: which passes are filmed, and what is written of them.

    <run folder>/replays/  epoch_000050.gif   the first lane of a pass, every `experiment.record_period` epochs
                           last.gif           of the newest pass
                           best.gif           of the pass in which the agents of the first lane got most together; where they
                                              have sides (`headline.groups_of`), of the newest
                           films.json         {"best.gif": {"epoch": 40, "reward": 7.0}, …}
                           best.mp4, last.mp4 where ffmpeg is on the path (which takes 0.2 s a film)

Which pass was the best is known afterwards. So a camera takes snapshots of every pass, where they cost little
(`Playable.has_cheap_snapshots`): 3.5 µs a turn in treasure hunt when nothing else runs, 29 µs, with cold caches, in a run on
two busy cores. That is 1.2 % of the CPU time of a sequential run with one lane, 0.3 % with eight (cleanup 0.9 %, README's
orchard 0.3 %, 40×40 cells with twelve kinds and agents 0.4 %). Films are drawn later (51 frames: 0.1 s): with the next
checkpoint, after the run, or when many frames wait. Where a snapshot is a whole picture (an environment of another library),
the passes of every `experiment.record_period`-th epoch are filmed, and the last one; the best is the best of these.

Of two passes that are as good, the earlier is the best. Films draw no random numbers, and a run whose films cannot be made
goes on without them.
"""

import io
import json
import math
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from abreast.errors import log
from abreast.files import write_whole
from abreast.headline import SUM, groups_of
from abreast.worlds.painting import ICON, OUTLINE, WIDTH, badge, font
from abreast.worlds.playable import Playable, Played

MILLISECONDS_A_TURN = 120
MOST_FRAMES, MOST_PICTURES = 300, 150
"""Of a film, which shows the end of longer epochs. The second, where snapshots are pictures: those of up to three passes are
300 MB.
"""
WAITING_FRAMES = 10 * MOST_FRAMES
"""Frames that wait to be drawn; a film more, and all are drawn at once. (Of pictures, MOST_PICTURES.)"""
H264 = (
    "-vf pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white -c:v libx264 -preset veryfast -pix_fmt yuv420p -threads 1"
    " -fflags +bitexact -movflags +faststart"
)
"""Sides are even: it has no others."""
ENCODER_SECONDS = 60
"""ffmpeg is given up after so long."""
MARGIN, SPACE, TEXT, LINE = 8, 6, 15, 28
"""Pixels: around everything, between an icon and its label, of letters, from line to line."""
NUMBER = ": -000.00"
"""As wide as rewards are."""
MOST_NAMED, LONGEST_NAME = 40, 24
"""Agents in a legend; letters of a name, so that there is room for the reward."""


class Camera:
    """Takes a snapshot of a game's first lane whenever it is called: before each turn of a pass, and at its end."""

    def __init__(self, game: Playable, epoch: int) -> None:
        self._game, self.epoch = game, epoch
        self.reward: float | None = 0.0
        """What the agents of the first lane got together; None where they have sides."""
        most = MOST_FRAMES if game.has_cheap_snapshots else MOST_PICTURES
        self.frames: deque[tuple[Any, int, Any]] = deque(maxlen=most)
        """Snapshots, with their turns and what each agent had got by then."""
        self.error: Exception | None = None
        self.gif = b""
        """The film, once it was made: it may have several names."""

    def __call__(self) -> None:
        turn = self._game.turns
        try:
            if not turn:  # a pass may be played again from its beginning
                self.frames.clear()
            if (seen := self._game.snapshot()) is not None:
                self.frames.append((seen, turn, self._game.rewards_so_far()))
        except Exception as error:  # of a game's own pictures
            self.error = error


class Films:
    """Keeps the films of a run in a folder."""

    def __init__(self, game: Playable, folder: Path, period: int, lanes: int, is_logged: bool = False) -> None:
        """`is_logged`: films are drawn at once, because loggers are given the film of an epoch along with it."""
        self._is_logged = is_logged
        self._game, self._folder, self._period, self._lanes = game, folder, period, lanes
        self._about: dict[str, dict[str, Any]] = {}
        """What films.json says."""
        self._last: Camera | None = None
        self._best: Camera | None = None
        """As long as it is not written."""
        self._waiting: list[Camera] = []
        """Films of every `experiment.record_period`-th epoch that are not drawn yet."""
        self._rewards: deque[list[float]] = deque(maxlen=MOST_FRAMES)
        """Rewards of the newest films, by agent."""
        self._best_reward, self._is_over, self._ffmpeg = -math.inf, False, shutil.which("ffmpeg")

    def go_on_from(self, epochs: int) -> None:
        """Keep what films.json says of the epochs before; what was filmed later is played again."""
        path = self._folder / "films.json"
        try:
            about = json.loads(path.read_bytes()) if path.is_file() else {}
            self._about = {name: each for name, each in about.items() if each["epoch"] < epochs}
            best = self._about.get("best.gif", {"reward": None})["reward"]  # None: agents have sides
            self._best_reward = -math.inf if best is None else float(best)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("the best film from before the resume is not known: %s cannot be read (%r).", path, error)

    def camera(self, epoch: int, is_last: bool) -> Camera | None:
        """What films the first lane of the pass that begins with this epoch, if it is to be filmed."""
        is_wanted = is_last or self._is_periodic(epoch) or self._game.has_cheap_snapshots
        return Camera(self._game, epoch) if is_wanted and not self._is_over else None

    def _is_periodic(self, epoch: int) -> bool:
        """Whether a multiple of the period is in the pass."""
        return -epoch % self._period < self._lanes

    def keep(self, camera: Camera, played: Sequence[Played]) -> None:
        """Keep the film of a pass that was played, as long as it is due, the last one or the best."""
        with self._or_without_films():
            if camera.error is not None:
                raise camera.error
            if not camera.frames:
                return
            reward = float(sum(played[0].reward_per_agent))
            self._last, camera.reward = camera, reward
            self._rewards.append([float(each) for each in played[0].reward_per_agent])
            if reward > self._best_reward:
                self._best, self._best_reward = camera, reward
            if self._is_periodic(camera.epoch):
                self._waiting.append(camera)
        most = WAITING_FRAMES if self._game.has_cheap_snapshots else MOST_PICTURES
        if self._waiting and (self._is_logged or sum(len(each.frames) for each in self._waiting) > most):
            self.draw()

    def draw(self, is_over: bool = False) -> None:
        """Draw and write what waits: with each checkpoint, so that a run that is killed and resumed lacks nothing.

        `is_over`: the last pass, too.
        """
        with self._or_without_films():
            has_sides = SUM not in groups_of(self._rewards, self._game.agent_names)
            films: dict[str, Camera | None] = {f"epoch_{each.epoch:06d}": each for each in self._waiting}
            films |= {"best": self._last if has_sides else self._best, "last": self._last if is_over else None}
            for name, camera in films.items():
                if camera is not None and not self._is_over:
                    camera.reward = None if has_sides else camera.reward
                    self._write(name, camera)
            self._waiting, self._best = [], None

    def close(self) -> None:
        """Draw all that is left: the run has ended."""
        self.draw(is_over=True)

    @contextmanager
    def _or_without_films(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._is_over = True
            log.warning("there are no more films of this run, because one could not be made: %r.", error)

    def _write(self, name: str, camera: Camera) -> None:
        camera.gif = camera.gif or as_gif(compose(self._game, camera))
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{name}.gif"
        write_whole(path, camera.gif)
        self._about[path.name] = {"epoch": camera.epoch, "reward": camera.reward}
        write_whole(self._folder / "films.json", json.dumps(self._about, indent=1, sort_keys=True).encode())
        if name in ("last", "best") and self._ffmpeg and not write_mp4(self._ffmpeg, path):
            self._ffmpeg = None


# ---- pictures


def compose(game: Playable, camera: Camera) -> Iterator[Image.Image]:
    """The pages of a film: pictures, each with its turn, what agents have got so far, and a legend."""
    pictures, kinds = game.paint([seen for seen, _, _ in camera.frames])
    names = [*(game.agent_names or (f"agent {number}" for number in range(len(game.players))))][:MOST_NAMED]
    names = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in names]
    colours = game.agent_colours or [None] * len(names)
    badges = [badge(number, ICON, colours[number]) for number in range(len(names))]
    widest = max(
        font(TEXT).getlength(text) for text in [*(name + NUMBER for name in names), *(kind for _, kind in kinds)]
    )
    for (_, turn, rewards), picture in zip(camera.frames, pictures, strict=True):
        title, labels = f"epoch {camera.epoch}   turn {turn} of {camera.frames[-1][1]}", names
        if scores := [float(reward) for reward in rewards]:
            title += "" if camera.reward is None else f"   reward {sum(scores):g} in training"
            labels = [f"{name}: {score:g}" for name, score in zip(names, scores, strict=False)]
        legend = [*zip(badges, labels, strict=True), *kinds]
        yield _page(picture, title, legend, ICON + SPACE + math.ceil(widest) + MARGIN)


def _page(picture: Image.Image, title: str, legend: Sequence[tuple[Image.Image, str]], column: int) -> Image.Image:
    """A picture below its title, and above icons with labels, in columns so wide."""
    picture = ImageOps.scale(picture, math.ceil(WIDTH / max(picture.size)), Image.Resampling.NEAREST)
    width, below = max(WIDTH, picture.width), LINE + picture.height + MARGIN
    columns = max(1, width // column)
    page = Image.new("RGB", (width + 2 * MARGIN, below + math.ceil(len(legend) / columns) * LINE), "white")
    page.paste(picture, ((page.width - picture.width) // 2, LINE))
    ImageDraw.Draw(page).text((MARGIN, LINE / 2), title, OUTLINE, font(TEXT), "lm")
    for number, (icon, text) in enumerate(legend):
        left, top = MARGIN + number % columns * column, below + number // columns * LINE
        page.paste(icon, (left, top), icon)
        page.paste(_label(text), (left + ICON + SPACE, top))
    return page


@lru_cache(512)
def _label(text: str) -> Image.Image:
    """Return a text on white; most texts of a film are on many of its pages."""
    image = Image.new("RGB", (math.ceil(font(TEXT).getlength(text)) + 1, ICON), "white")
    ImageDraw.Draw(image).text((0, ICON / 2), text, OUTLINE, font(TEXT), "lm")
    return image


# ---- files


def as_gif(pictures: Iterable[Image.Image]) -> bytes:
    """An animated GIF: one palette for all pictures, and of each only what has changed."""
    pages, film = list(pictures), io.BytesIO()
    seen = {colour for page in (pages[0], pages[-1]) for _, colour in page.getcolors(page.width * page.height) or ()}
    palette = Image.fromarray(np.array([sorted(seen)], np.uint8)).quantize(255)  # and one for what has not changed
    first, *others = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    first.save(film, "GIF", save_all=True, append_images=others, duration=MILLISECONDS_A_TURN, loop=0, optimize=True)
    return film.getvalue()


def write_mp4(ffmpeg: str, gif: Path) -> bool:
    """Write the same beside it as H.264; returns whether that is possible."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "film.mp4"
        command = [ffmpeg, "-nostdin", "-loglevel", "error", "-i", str(gif), *H264.split(), str(made)]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=ENCODER_SECONDS)
            write_whole(gif.with_suffix(".mp4"), made.read_bytes())
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("films are there as GIF alone: ffmpeg failed: %s", getattr(error, "stderr", None) or error)
            return False
    return True
