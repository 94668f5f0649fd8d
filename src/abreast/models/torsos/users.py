"""A `torch.nn.Module` of a user's as a torso, and what is asked of it.

    Class(input_shape)        input_shape = (n_frames, *shape of one frame)
    forward(frames)           (B, *input_shape) of float32, already scaled  ──▶  (B, features) of any number of features

Features of a row must follow from that row and the weights, and nothing else: rows are put together by lanes when choosing,
by chance when learning, and may be computed in another process. So a module that draws (Dropout), that keeps something from
one call to the next or mixes rows (BatchNorm) is refused by name; it is found by trying, not by a list.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from abreast.codec import digest
from abreast.errors import ConfigError, short, words
from abreast.models.torsos.base import Torso
from abreast.plugins import import_target
from abreast.streams import seeded_globals, shared_streams

DROPOUTS = nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout
ROWS = 3
"""In a trial."""


def users_class(name: str) -> type[nn.Module]:
    """The class that `module:Class` or `file.py:Class` points to."""
    found = import_target(name, "network", ConfigError, nn.Module, is_of_run=True)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(
            f"model.network is {name!r}, which is {short(found)}: expected a class derived from torch.nn.Module."
        )
    return found


def why_not_built(error: Exception) -> str:
    """What a user's module has raised while it was built, and what torch does not say of it."""
    told = f"it raised {words(error, Path(__file__).parent).rstrip('.')}"
    return (
        f"{told}: call super().__init__() first in its __init__." if "before Module.__init__()" in told else f"{told}."
    )


class UsersTorso(Torso):
    """A user's module. Its first weights are its own, drawn from torch's generator, which is seeded for each agent."""

    def __init__(self, kind: type[nn.Module], input_shape: tuple[int, ...], name: str) -> None:
        super().__init__()
        self._shape, self._name = input_shape, name
        try:
            self.module = kind(input_shape)
            with torch.no_grad():  # lazy layers find out their sizes
                found = self.module(torch.zeros(ROWS, *input_shape))
        except Exception as error:
            raise ConfigError(
                f"model.network {name} could not be built and tried with Class(input_shape={input_shape}) and rows of"
                f" frames: {why_not_built(error)}"
            ) from error
        self._check_output(found, ROWS)
        self.features = found.shape[1]

    def forward(self, frames_BI: Tensor) -> Tensor:
        found: Tensor = self.module(frames_BI.reshape(-1, *self._shape))
        self._check_output(found, len(frames_BI))
        return found

    def _check_output(self, found: Any, rows: int) -> None:
        is_tensor = isinstance(found, Tensor)
        if (
            not is_tensor
            or found.dtype != torch.float32
            or found.dim() != 2
            or len(found) != rows
            or not found.shape[1]
        ):
            returned = f"{found.dtype} of shape {tuple(found.shape)}" if is_tensor else short(found)
            raise ConfigError(
                f"model.network {self._name} returned {returned} for {rows} rows of frames: expected floats of 32 bits, of"
                f" shape ({rows}, features), a row for each."
            )


@functools.cache  # once in a process: where learners are threads, others draw while they build their models
def check_users_module(name: str, input_shape: tuple[int, ...]) -> None:
    """Refuse a module whose features depend on more than a row and its weights. Nothing else is changed."""
    kind = users_class(name)
    found = []
    for seed in (0, 1, 0):
        with seeded_globals(np.random.SeedSequence(seed)):
            found.append(UsersTorso(kind, input_shape, name))
    torso, other, same = found
    for path, parameter in torso.module.named_parameters():
        if not parameter.requires_grad or not parameter.is_floating_point():
            raise ConfigError(
                f"model.network {name} has a parameter {path} that is not to be learned (requires_grad is false, or it is"
                " not made of floats): make it a buffer, by register_buffer."
            )
    with seeded_globals(np.random.SeedSequence(0)), torch.no_grad():
        frames = torch.from_numpy(np.random.default_rng(0).random((ROWS, *input_shape), np.float32))
        torso(frames)  # what it keeps from its first call, such as a grid of positions, is no harm
        before, streams = _kept(torso.module), shared_streams()
        features = torso(frames)
        if shared_streams() != streams:
            drawing = [path for path, part in torso.module.named_modules() if isinstance(part, DROPOUTS)][:3]
            where = f" ({', '.join(drawing)})" if drawing else ""
            raise ConfigError(
                f"model.network {name} draws random numbers in forward{where}, so the same frames would have other"
                " features wherever they are computed again: leave that layer out."
            )
        if changed := [path for path, value in _kept(torso.module).items() if before.get(path, b"") != value]:
            raise ConfigError(
                f"model.network {name} changes {', '.join(changed[:3])} in forward (as BatchNorm does), but only parameters"
                " are learned, published and kept: use a layer without running figures, such as LayerNorm or GroupNorm."
            )
        if not torch.equal(torso(frames), features) or not torch.allclose(
            torso(frames[:2]), features[:2], rtol=1e-3, atol=1e-4
        ):
            raise ConfigError(
                f"model.network {name} gives a row other features when other rows are beside it, or when it is asked again"
                " (as a BatchNorm without running figures does): let each row of features follow from its row of frames."
            )
    first, again = ([each.data for each in built.module.parameters()] for built in (torso, same))
    if digest(first, {}) != digest(again, {}):
        raise ConfigError(
            f"model.network {name} has other first weights each time it is built with the same seed: draw them from the"
            " generator that torch has (torch.manual_seed), which is seeded for each agent."
        )
    with torch.no_grad():
        for theirs, mine in zip(other.module.parameters(), torso.module.parameters(), strict=False):
            theirs.data = mine.data
        if not torch.equal(other(frames), features):
            raise ConfigError(
                f"model.network {name} gives other features for the same weights and frames when it is built again: keep"
                " nothing in it that is drawn, or depends on the clock, but parameters; draw a buffer from a generator with"
                " a seed of its own."
            )


def _kept(module: nn.Module) -> dict[str, bytes | None]:
    """A digest of everything in it that is no parameter, by name."""
    found: dict[str, bytes | None] = {}
    for path, part in module.named_modules():
        own = {key: value for key, value in vars(part).items() if key not in ("_modules", "_parameters", "_buffers")}
        for key, value in {**own, **part._buffers}.items():
            found[f"{path}.{key}".lstrip(".")] = digest(value, {})
    return found
