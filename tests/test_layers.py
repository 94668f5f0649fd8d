"""Imports point one way: cli → bench, runs → games → training | rollouts → agents → models, worlds → replay → … → errors."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "abreast"

# Each layer, and the layers it may import from (itself always).
MAY_IMPORT = {
    "errors": set(),
    "headline": set(),
    "files": {"errors"},
    "control": {"files", "errors"},
    "settings": {"errors"},
    "plugins": {"errors"},
    "state": {"errors"},
    "state_file": {"state", "errors"},
    "streams": set(),
    "processes": {"files", "errors"},
    "display": {"processes", "files", "errors"},
    "cluster": {"processes", "settings", "errors"},
    "checking": {"processes", "streams"},
    "codec": {"errors"},
    "attributes": {"codec", "errors"},
    "replay": {"processes", "state", "state_file", "files", "errors"},
    "worlds": {"attributes", "codec", "state", "errors"},
    "models": {
        "replay",
        "processes",
        "codec",
        "attributes",
        "streams",
        "state",
        "state_file",
        "settings",
        "plugins",
        "files",
        "errors",
    },
    "agents": {"models", "worlds", "replay", "attributes", "state", "errors"},
    "training": {
        "headline",
        "display",
        "cluster",
        "checking",
        "codec",
        "attributes",
        "streams",
        "plugins",
        "agents",
        "models",
        "worlds",
        "replay",
        "processes",
        "state",
        "state_file",
        "settings",
        "control",
        "files",
        "errors",
    },
    "rollouts": {
        "display",
        "cluster",
        "codec",
        "checking",
        "processes",
        "streams",
        "plugins",
        "settings",
        "files",
        "errors",
    },
    "integrations": {
        "training",
        "rollouts",  # servers and trainers for text environments
        "agents",
        "models",
        "worlds",
        "replay",
        "processes",
        "attributes",
        "codec",
        "streams",
        "state",
        "plugins",
        "settings",
        "files",
        "checking",
        "errors",
    },
    "games": {
        "integrations",
        "checking",
        "attributes",
        "streams",
        "training",
        "agents",
        "models",
        "worlds",
        "plugins",
        "state",
        "settings",
        "files",
        "errors",
    },
    "runs": {"headline", "games", "training", "cluster", "processes", "display", "files", "errors"},
    "evaluations": {"headline", "games", "training", "files", "errors"},
    "comparison": {"headline", "sweeps", "evaluations", "games", "training", "settings", "files", "errors"},
    "sweeps": {"headline", "runs", "evaluations", "games", "training", "display", "settings", "files", "errors"},
    "bench": {"games", "rollouts", "training", "models", "processes", "files", "errors"},
    "report": {"headline", "files", "errors", "control", "settings"},
    "cli": {
        "headline",
        "bench",
        "report",
        "runs",
        "sweeps",
        "comparison",
        "evaluations",
        "display",
        "control",
        "checking",
        "games",
        "integrations",
        "rollouts",
        "training",
        "models",
        "processes",
        "plugins",
        "state",
        "settings",
        "files",
        "errors",
    },
    "__main__": {"cli"},
    "__init__": {"agents", "models", "replay", "rollouts", "training", "worlds"},
}


def layer_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_layers(tree):
    """The layers a module imports, those for type checking included."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if name.startswith("abreast."):
                yield name.split(".")[1]


def test_no_import_points_back():
    found = {(layer_of(path), path): set(imported_layers(ast.parse(path.read_text()))) for path in SOURCE.rglob("*.py")}
    new = {layer for layer, _ in found} - MAY_IMPORT.keys()
    assert not new, "say in MAY_IMPORT what these layers may import"
    back = {path: imported - {layer} - MAY_IMPORT[layer] for (layer, path), imported in found.items()}
    assert not {str(path): layers for path, layers in back.items() if layers}


def test_a_back_edge_would_be_seen():
    hidden = "if TYPE_CHECKING:\n    from abreast.training import Config"
    assert list(imported_layers(ast.parse(hidden))) == ["training"]
    assert "training" not in MAY_IMPORT["models"]


# ---- no two modules import each other

MUTUAL = ("models", "worlds", "integrations", "rollouts")
"""Layers in which some modules still do, for type checking."""


def imports_of(source, known):
    """The modules that a module imports, those for type checking included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)


def mutual_imports(sources):
    """Pairs of modules, of sources by name, that import each other."""
    imports = {name: set(imports_of(source, sources)) for name, source in sources.items()}
    pairs = ((name, other) for name, found in imports.items() for other in found & imports.keys() if name < other)
    return [(name, other) for name, other in pairs if name in imports[other]]


def test_no_module_imports_one_that_imports_it():
    paths = [path for path in SOURCE.rglob("*.py") if layer_of(path) not in MUTUAL]
    names = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in paths}
    assert not mutual_imports({name.removesuffix(".__init__"): path.read_text() for name, path in names.items()})


def test_an_import_for_type_checking_alone_would_be_seen():
    parts = {
        "a.experiment": "from a.loop import Loop",
        "a.loop": "if TYPE_CHECKING:\n    from a.experiment import Experiment",
        "a.run": "from a import loop",
    }
    assert mutual_imports(parts) == [("a.experiment", "a.loop")]


def test_games_do_not_know_each_other():
    for path in (SOURCE / "games").glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("abreast.games."):
                part = node.module.split(".")[2]
                assert part == path.parent.name or not (SOURCE / "games" / part).is_dir(), f"{path} imports {part}"
