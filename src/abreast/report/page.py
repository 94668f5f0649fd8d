"""The page of a report: a template, a style, scripts and the data of runs, in one file that needs no network.

Text of environments, models, settings and logs is data: it is embedded so that nothing in it can end its element, and the
page's script shows it as text. The policy of the page (CSP) lets no other script run than ours and uPlot.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = ("tools", "sections", "curves", "timeline", "others", "comparison", "episodes", "live")
"""In one element, in this order: the last one begins."""
MOST_EMBEDDED = 8_000_000
"""Bytes of films and pictures that are put into a page; the others are named."""
TYPES = {".gif": "image/gif", ".png": "image/png", ".mp4": "video/mp4"}


def make_page(runs: Sequence[dict[str, Any]], is_live: bool = False) -> str:
    """One HTML page. With `is_live` it asks its server for `data.json` (`as_json`), again and again."""
    scripts = [_read("uplot/uPlot.iife.min.js"), "\n".join(_read(f"scripts/{name}.js") for name in SCRIPTS)]
    style = _read("uplot/uPlot.min.css") + _read("page.css")
    here = "'self'" if is_live else ""
    policy = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": _hash(style),
        "img-src": f"data: {here}",
        "media-src": f"data: {here}",
        "connect-src": here or "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    parts = {
        "policy": "; ".join(f"{key} {value}".strip() for key, value in policy.items()),
        "title": "abreast: live" if is_live else "abreast: report",
        "mode": "live" if is_live else "file",
        "style": style,
        "data": "[]" if is_live else as_json(_with_films(runs)),
        "chart": scripts[0],
        "script": scripts[1],
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html"))  # once: data may hold such names


def as_json(runs: Sequence[dict[str, Any]]) -> str:
    """The data of runs, as it can stand in a page: without any `<`."""
    return json.dumps(list(runs), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _with_films(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs with films, and pictures of episodes, as far as there is room: first the first film of each run."""
    left, sources = MOST_EMBEDDED, [dict[str, str]() for _ in runs]
    wanted = [
        (rank, number, path)
        for number, run in enumerate(runs)
        for rank, path in enumerate(_embeddable(Path(run["folder"]), run["films"]))
    ]
    for _, number, path in sorted(wanted):
        try:
            size = path.stat().st_size
            if size <= left and not path.is_symlink():
                data = base64.b64encode(path.read_bytes()).decode()
                sources[number][path.name] = f"data:{TYPES[path.suffix]};base64,{data}"
                left -= size
        except OSError:  # it is named, as one that is too large
            continue
    return [{**run, "sources": found} for run, found in zip(runs, sources, strict=True)]


def _embeddable(folder: Path, films: Sequence[dict[str, Any]]) -> list[Path]:
    return [folder / "replays" / film["name"] for film in films] + sorted((folder / "images").glob("*.png"))
