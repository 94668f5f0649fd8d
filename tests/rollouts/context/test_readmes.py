"""The README of each environment shows a real prompt. After a change, ABREAST_WRITE=1 pytest <this file> writes them."""

import os
import re
from pathlib import Path

import pytest
import yaml

import abreast.rollouts.envs
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.parsing import Parser
from abreast.rollouts.context.preview import first_prompt

ENVS = Path(abreast.rollouts.envs.__file__).parent
TAGS = {
    "sokoban": "SimpleSokoban",
    "frozen_lake": "FrozenLake",
    "bandit": "Bandit",
    "countdown": "Countdown",
    "metamathqa": "MetaMathQA",
    "webshop": "WebShop",
    "gymnasium": "gymnasium",
}
SECTION = re.compile(r"## The first prompt\n.*?\n```text\n(.*?)\n```\n", re.DOTALL)


def test_every_environment_is_here():
    assert {path.parent.name for path in ENVS.glob("*/README.md")} == set(TAGS)


@pytest.mark.parametrize("env_type", TAGS)
def test_the_readme_shows_the_first_prompt(env_type):
    readme, prompt = ENVS / env_type / "README.md", first_prompt(TAGS[env_type])
    if os.environ.get("ABREAST_WRITE"):
        _write(readme, TAGS[env_type], prompt)
    shown = SECTION.search(readme.read_text(encoding="utf-8"))
    assert shown is not None and shown[1] == prompt


def _write(readme, tag, prompt):
    text = readme.read_text(encoding="utf-8")
    told = f"What a language model is told first, as `abreast envs {tag}` prints it:"
    section = f"## The first prompt\n\n{told}\n\n```text\n{prompt}\n```\n"
    if SECTION.search(text):
        text = SECTION.sub(lambda _: section, text)
    else:
        text = f"{text.rstrip()}\n\n{section}"
    readme.write_text(text, encoding="utf-8")


def test_the_page_on_prompts_shows_all_settings_as_they_are():
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "prompts.md").read_text(encoding="utf-8")
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])["context"]
    assert set(shown) == set(ContextConfig.model_fields) and ContextConfig.parse(shown) == ContextConfig()


def test_the_page_on_prompts_tells_how_answers_are_read():
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "prompts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*?)`(.*?) \| (.*?) \| (.*?) \|$", page.replace(r"\|\|", "||"), re.MULTILINE)
    assert len(rows) == 8
    for answer, remark, strict, lenient in rows:
        text = answer + "\n<answer>Down</answer>" * ("continuation" in remark)
        for form, told in (("strict", strict), ("lenient", lenient)):
            parsed = Parser(ContextConfig(answer_format=form), 5, are_free=False)(text)
            names = [] if told.startswith("no actions") else told.partition(", but")[0].split(", ")
            assert parsed.actions == names and parsed.is_valid == ("not valid" not in told), (text, form)
