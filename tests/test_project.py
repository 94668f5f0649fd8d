"""What surrounds the code: workflows, the citation, the pages for people who report and release."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
VERBS = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_call_verbs_of_the_makefile(workflow):
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands
    for command in commands:
        verb = re.fullmatch(r"make ([a-z]+)", command)
        assert verb, f"{workflow.name} runs {command!r}: expected a verb of the Makefile"
        assert verb[1] in VERBS, f"{workflow.name} runs {command!r}, which the Makefile does not have"


def test_the_workflow_of_tests_runs_every_python_that_is_declared():
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {text.rpartition(" ")[2] for text in project["classifiers"] if "Python :: 3." in text}
    assert declared <= set(matrix["python"])


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == project["version"]


def test_verbs_that_pages_name_exist():
    for page in ("RELEASING.md", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"):
        named = set(re.findall(r"`make ([a-z]+)", (ROOT / page).read_text()))
        assert named <= VERBS, f"{page} names {named - VERBS}"


def test_table_of_external_environments_matches_its_script(monkeypatch):
    spec = importlib.util.spec_from_file_location("external", ROOT / "benchmarks" / "external_environments.py")
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "external", script)
    spec.loader.exec_module(script)
    page = (ROOT / "docs" / "how-to" / "gymnasium-rollouts.md").read_text()
    table = page.partition(script.HEAD)[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert [(row[0], row[2]) for row in rows] == [(case.name, str(script.glue(case))) for case in script.CASES]
    monkeypatch.setattr(script, "find_spec", lambda module: None)
    for case in script.CASES:
        assert script.missing(case) == f"{case.package} is not installed"


@pytest.mark.xdist_group("kept together")
def test_groups_of_tests_are_kept_together(request, worker_id):
    """Else what they share is made in every worker of pytest, which takes twice the time. (xdist names the group there.)"""
    assert worker_id == "master" or request.node.nodeid.endswith("@kept together")
