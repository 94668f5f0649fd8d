"""What the site has beside the pages in docs/: other pages of the repository, and the reference, made from the code.

README.md, ARCHITECTURE.md …          pages of the site, with their links led to where they are there
<!-- generated: settings MODULE:CLASS PREFIX -->    in a page: every setting of a section, its default and its meaning
<!-- generated: commands -->                        every command and its options
<!-- generated: environments -->                    the settings of every text environment
<!-- generated: api MODULE [NAMES] -->              public names of a module, by their docstrings
"""

import os
import re
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
import yaml
from mkdocs.structure.files import File
from pydantic.fields import FieldInfo

import abreast.cli  # noqa: F401 (defines the commands)
from abreast.cli.app import app
from abreast.models import ALGORITHMS, ModelConfig
from abreast.rollouts import find_kind, list_kinds
from abreast.settings import ANY, Section

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
MARKER = re.compile(r"<!-- generated: (\w+) ?(.*?) -->")


def pages_elsewhere() -> dict[Path, str]:
    """Pages of the repository that are not in docs/, and where they are in the site."""
    pages = {ROOT / "README.md": "index.md", ROOT / "benchmarks" / "README.md": "project/benchmarks.md"}
    for path in (ROOT / "CITATION.cff", *(ROOT / "examples").glob("*.py")):
        pages[path] = str(path.relative_to(ROOT))
    for name in ("ARCHITECTURE", "CONTRIBUTING", "SECURITY", "RELEASING", "CHANGELOG"):
        pages[ROOT / f"{name}.md"] = f"project/{name}.md"
    for folder, section in (("games", "games"), ("rollouts/envs", "environments")):
        for page in sorted((ROOT / "src" / "abreast" / folder).glob("*/README.md")):
            pages[page] = f"reference/{section}/{page.parent.name}.md"
    return pages


def on_config(config: Any) -> Any:
    """A folder in the navigation stands for its pages."""
    known = [*pages_elsewhere().values(), *(str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md")))]
    config.nav = unfolded(config.nav, sorted(known, key=lambda page: (not page.endswith("index.md"), page)))
    return config


def unfolded(nav: Any, known: list[str]) -> Any:
    """The navigation with pages in the place of folders; one without pages is left out."""
    if isinstance(nav, list):
        return [each for each in (unfolded(each, known) for each in nav) if each not in ([], {})]
    if isinstance(nav, dict):
        return {title: inside for title, each in nav.items() if (inside := unfolded(each, known))}
    return [page for page in known if page.startswith(nav)] if nav.endswith("/") else nav


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are elsewhere."""
    for path, place in pages_elsewhere().items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **more: Any) -> str:
    """Write what is generated, and lead links to where pages are in the site."""
    if page.file.src_uri in BOOST:
        page.meta["search"] = {"boost": BOOST[page.file.src_uri]}
    made = MARKER.sub(lambda found: "\n".join(GENERATED[found[1]](*found[2].split())), markdown)
    source, elsewhere = Path(page.file.abs_src_path), pages_elsewhere()

    def led(found: re.Match[str]) -> str:
        target = (source.parent / found[1]).resolve()
        place = elsewhere.get(target, os.path.relpath(target, DOCS) if target.is_relative_to(DOCS) else None)
        return found[1] if place is None else os.path.relpath(place, Path(page.file.src_uri).parent)

    return LINK.sub(led, made)


def settings(place: str, prefix: str = "") -> Iterator[str]:
    """Every setting of a section, as entries of a definition list."""
    module, _, name = place.partition(":")
    return described(getattr(import_module(module), name), prefix)


def described(
    section: type[Section], prefix: str = "", anchor: str = "", left_out: Collection[str] = ()
) -> Iterator[str]:
    """Key, kind, default and meaning of each setting, and of those of the sections inside."""
    for name, field in section.model_fields.items():
        key = f"{prefix}.{name}" if prefix else name
        inside = [each for each in (field.annotation, *get_args(field.annotation)) if is_section(each)]
        for each in inside:
            yield from described(each, key if each is field.annotation else f"{key}.{ANY}", anchor)
        if not inside and name not in left_out:
            limits = [
                f"{word} {getattr(rule, kind):,}"
                for rule in field.metadata
                for kind, word in LIMITS
                if hasattr(rule, kind)
            ]
            default = "no default" if field.is_required() else f"default {code(as_yaml(default_of(field)))}"
            about = ", ".join([kind_of(field.annotation), *limits, default])
            yield entry(code(key), anchor + key, f"*{about}*<br>\n    {one_line(field.description)}")


def commands() -> Iterator[str]:
    """Every command with its arguments and options, in the order and the groups of `abreast --help`."""
    group = typer.main.get_command(app)
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        usage = " ".join(["abreast", name, "[OPTIONS]", *(each.metavar or each.name.upper() for each in arguments)])
        yield f"\n## abreast {name}\n\n```text\n{usage}\n```\n\n{command.help}\n"
        for each in command.params:
            if each.name != "help" and not getattr(each, "hidden", False):
                words = [each.metavar or each.name.upper()] if each in arguments else [*each.opts, *each.secondary_opts]
                has_default = each not in arguments and each.default not in (None, False, (), [])
                told = f"{each.help or ''}{f' Default: {code(each.default)}.' if has_default else ''}"
                yield entry(", ".join(map(code, words)), f"{name}-{each.name}", one_line(told))


def algorithms() -> Iterator[str]:
    """What each algorithm has beside the settings of every model, and those that it begins with another value of."""
    common = ModelConfig.model_fields
    for name, model in ALGORITHMS.items():
        fields = model.Config.model_fields.items()
        same = {key for key, field in fields if key in common and field.default == common[key].default}
        yield f"\n## {name}\n" + ("\nIt has no others." if len(same) == len(fields) else "")
        yield from described(model.Config, "model", f"{name}-", same)


def environments() -> Iterator[str]:
    """The settings of every text environment that ships."""
    for kind in map(find_kind, list_kinds()):
        where = f"src/abreast/rollouts/envs/{kind.name}/README.md"
        more = f" Rules, rewards and prompts: [{kind.name}](../../{where})." if (ROOT / where).exists() else ""
        yield f"\n## {kind.name}\n\n{kind.summary}{more}\n"
        yield from described(kind.config, "env", f"{kind.name}-")


def api(module: str, *names: str) -> Iterator[str]:
    """Public names of a module, all of them unless some are named, each from its own docstrings."""
    for name in names or import_module(module).__all__:
        found = getattr(import_module(module), name)
        yield f"\n::: {found.__module__}.{found.__qualname__}"


def entry(term: str, anchor: str, text: str) -> str:
    """An entry of a definition list."""
    return f"\n{term} {{: #{anchor} }}\n:   {text}"


def code(text: object) -> str:
    return f"`{text}`"


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def as_yaml(value: object) -> str:
    """A value as it is written in a file."""
    plain = value if isinstance(value, bool | int | float | str | list | dict | None) else str(value)
    return yaml.safe_dump(plain, default_flow_style=True, width=10_000, allow_unicode=True).splitlines()[0]


def default_of(field: FieldInfo) -> object:
    return field.get_default(call_default_factory=True, validated_data={})


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def kind_of(annotation: Any) -> str:
    """What a setting may be, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return "any value"
    if annotation is type(None):
        return "null"
    if origin is Literal:
        return " or ".join(map(code, inner))
    if origin is Annotated:
        return kind_of(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(map(kind_of, inner))
    if inner:
        name = {dict: "mapping of", list: "list of", tuple: "tuple of"}.get(origin, "of")
        return f"{name} {' to '.join(kind_of(each) for each in inner if each is not ...)}"
    return {int: "integer", float: "number", bool: "`true` or `false`", str: "text"}.get(
        annotation, annotation.__name__
    )


BOOST = {"terms.md": 4, "reference/api.md": 0.3, "project/CHANGELOG.md": 0.1}
"""How much more, or less, a page counts in search."""
LIMITS = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
GENERATED = {each.__name__: each for each in (settings, commands, algorithms, environments, api)}
