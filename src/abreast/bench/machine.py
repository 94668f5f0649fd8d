"""What is known of this machine and of the versions in use."""

import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from abreast import __version__
from abreast.processes.cores import allowed_cores, cores, quota

CPU_INFO = Path("/proc/cpuinfo")


def machine_facts() -> dict[str, Any]:
    """For the head of a report. Nothing that names the machine or its user."""
    return {
        "cores": cores(),
        "cores_by_affinity": allowed_cores(),
        "cores_by_quota": quota(),
        "cpu": cpu_model(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "abreast": __version__,
    }


def cpu_model() -> str:
    """The name of the processor, as far as the system tells it."""
    with suppress(OSError):  # Linux alone has it
        for line in CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or platform.machine()


def told(facts: dict[str, Any]) -> str:
    """The facts in a line."""
    share = f", quota {facts['cores_by_quota']:g}" if facts["cores_by_quota"] is not None else ""
    return (
        f"{facts['cores']} core{'' if facts['cores'] == 1 else 's'} (affinity {facts['cores_by_affinity']}{share}) of"
        f" {facts['cpu']}; abreast {facts['abreast']}, torch {facts['torch']}, Python {facts['python']}"
    )
