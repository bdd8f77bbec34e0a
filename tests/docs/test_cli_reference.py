"""The pages about the command line are what the command line says."""

import re
from pathlib import Path

from cli.errors import Exit
from cli.reference import page

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_reference_page_is_the_help_of_every_command() -> None:
    """D8: renew it with `python -m cli.reference > docs/cli.md`."""
    assert (DOCS / "cli.md").read_text() == page()


def test_every_exit_code_is_explained() -> None:
    """D8, U10: one published table, in the order of the codes."""
    rows = re.findall(r"^\| (\d+) \|", (DOCS / "exit-codes.md").read_text(), re.MULTILINE)

    assert [int(code) for code in rows] == [code.value for code in Exit]
