"""Hand-written pages: their links lead somewhere, and their commands are ones that there are."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.main import app

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
GROUPS = "runs|snapshots|audit|tokens|config|datasets|import|server"
IN_CODE = re.compile(r"(?:^|[ (])trainledger ([^\n#|;<>)]*)", re.MULTILINE)
IN_PROSE = re.compile(rf"`(?:trainledger ([^`]+)|((?:{GROUPS}) [^`]+))`")


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(page: str) -> set[str]:
    """The headings of a page, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text(page)), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", each.lower()) for each in headings)
    return {each.replace(" ", "-") for each in plain}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: str) -> None:
    lost = []
    for link in LINK.findall(FENCE.sub("", text(page))):
        if link.startswith(("http://", "https://")):
            continue
        place, _, heading = link.partition("#")
        target = (ROOT / page).parent / place if place else ROOT / page
        name = target.resolve().relative_to(ROOT).as_posix()
        if not target.exists() or (heading and heading not in anchors(name)):
            lost.append(link)

    assert lost == []


def commands(page: str) -> Iterator[list[str]]:
    """What a page has after the name of the program: in code, and in sentences."""
    code = "\n".join(FENCE.findall(text(page)))
    prose = re.sub(r"\s*\n\s*", " ", FENCE.sub("", text(page)))
    lines = IN_CODE.findall(re.sub(r"\\\n\s*", "", code))
    lines += [one or other for one, other in IN_PROSE.findall(prose)]
    for line in lines:
        words = shlex.split(line.replace("'", "").replace('"', ""))
        if words and "[OPTIONS]" not in words:  # as help has it
            yield words


def faults(words: list[str]) -> Iterator[str]:
    """What the program would not understand of these words."""
    root: Any = typer.main.get_command(app)
    command, rest = root, list(words)
    while hasattr(command, "commands"):
        at = next((n for n, word in enumerate(rest) if word in command.commands), None)
        if at is None:
            named = rest[0].split("|") if rest else []  # several commands at once
            known = {"--help", *command.commands}
            yield from (each for each in named if each not in known)
            return
        command = command.commands[rest.pop(at)]
    known = {name for each in command.get_params(typer.Context(command)) for name in each.opts}
    known |= {"--help", *(name for each in root.params for name in each.opts)}
    said = (word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word))
    yield from (each for each in said if each not in known)


@pytest.mark.parametrize("page", PAGES)
def test_a_command_of_a_page_is_one_and_has_the_options_that_it_is_shown_with(page: str) -> None:
    """style.md 35: what a newcomer types is not answered with "no such option"."""
    found = {" ".join(words): list(faults(words)) for words in commands(page)}

    assert {line: wrong for line, wrong in found.items() if wrong} == {}


def test_a_slip_in_a_command_would_be_found() -> None:
    """So that the test above says something."""
    assert list(faults(["runs", "get", "RUN", "--as-off", "7"])) == ["--as-off"]
    assert list(faults(["runs", "gett", "RUN"])) == ["gett"]
    assert list(faults(["--context", "lab", "runs", "get", "RUN", "-o", "json"])) == []
