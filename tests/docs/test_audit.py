"""docs/audit.md: what it says can be checked without us is checked so."""

import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature

from tests import apis, ledgers
from tests.apis import EXIT, Api
from tests.archives import unpack
from tests.product import eventually

DOCS = Path(__file__).parent.parent.parent / "docs"


def code(word: str) -> str:
    """The block of Python in the page that has ``word`` in it."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "audit.md").read_text("utf-8"), re.DOTALL)
    (block,) = [each for each in blocks if word in each]
    return str(block)


def receipt_of(api: Api) -> dict[str, Any]:
    """The receipt of a run, once it is sealed."""
    run_id = api.started()
    api.deliver(run_id, [*ledgers.step_lines(1, 3), apis.COMPLETED], exit=EXIT)
    return eventually(
        lambda: said if (said := api.get(f"/v1/runs/{run_id}/receipt"))["seal"] else None,
        "the run is sealed",
    )


def test_an_export_and_a_receipt_can_be_checked_with_the_lines_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """U15, issue 7: nothing of ours is needed."""
    with apis.sealing(tmp_path / "home") as api:
        api.post("/v1/audit/key", status=201)
        receipt = receipt_of(api)
        archive = api.client.get("/v1/export", headers=api.token).content
    unpack(archive, tmp_path / "export")
    monkeypatch.chdir(tmp_path / "export")

    exec(code("Ed25519PublicKey"), {"receipt": receipt})
    exec(code("events.jsonl").replace('open("events.jsonl", "rb")', "lines"), {"lines": lines()})

    assert capsys.readouterr().out.strip() in Path("manifest.json").read_text()
    forged = receipt | {"seal": receipt["seal"] | {"upto": 1}}
    with pytest.raises(InvalidSignature):
        exec(code("Ed25519PublicKey"), {"receipt": forged})


def lines() -> list[bytes]:
    return Path("events.jsonl").read_bytes().splitlines(keepends=True)
