"""Tokens as people have them: the command line of a guest against somebody else's server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.product import PATIENCE_SECONDS, Product, eventually

SHORT = [{"training": 5}, {"steps": 5, "seconds": 0.01}]
UNKNOWN = "error: the request carries no token that is known here and counts\n"


class Guest(NamedTuple):
    """Somebody with a home, a context and a token of their own."""

    product: Product
    token: str

    def hears(self, *words: str) -> tuple[int, str]:
        """How a command ends, and what it says on stderr."""
        process = self.product.popen(*words)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, err


def guest(host: Product, folder: Path, role: str, *options: str) -> Guest:
    """A guest to whom the host gave a token."""
    token = host.run("tokens", "create", folder.name, "--role", role, *options).rstrip("\n")
    folder.mkdir()
    (folder / "token-of-mine").write_text(f"{token}\n")
    url = json.loads((host.home / "server.json").read_text())["url"]
    (folder / "config.toml").write_text(
        f'current = "host"\n[contexts.host]\nurl = "{url}"\ntoken_file = "token-of-mine"\n'
    )
    return Guest(Product(folder), token)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A home whose server works."""
    product = Product(tmp_path_factory.mktemp("tokens") / "home")
    product.run("server", "start")
    yield product
    product.close()


def test_what_a_submitter_did_is_said_to_be_theirs(host: Product, tmp_path: Path) -> None:
    """I24: every event carries the principal."""
    sven = guest(host, tmp_path / "sven", "submitter")
    made = sven.product.start(SHORT)
    sven.product.wait_for_phase(made, "COMPLETED")

    log = host.json("audit", "log", made)["events"]

    who = {each["kind"]: each["principal"] for each in log}
    assert (who["runSubmitted"], who["attemptOpened"]) == ("user/sven", "dispatch")
    assert sven.hears("snapshots", "sweep", made, "--force")[0] == 4


def test_a_token_that_was_revoked_or_has_expired_is_like_one_that_never_was(
    host: Product, tmp_path: Path
) -> None:
    """I24: one sentence for all of them, which tells nothing."""
    gone = guest(host, tmp_path / "gone", "operator")
    late = guest(host, tmp_path / "late", "reader", "--expires", "1s")

    said = gone.product.run("tokens", "revoke", "gone", "--force")

    assert said.startswith("token gone (")
    code, err = gone.hears("tokens", "whoami")
    assert code == 4
    assert err.startswith(UNKNOWN)
    eventually(lambda: late.hears("tokens", "whoami") == (code, err), "the token expires")
    (late.product.home / "token-of-mine").write_text("never was\n")
    assert late.hears("tokens", "whoami") == (code, err)
    table = host.run("tokens", "list").splitlines()
    assert [line.split()[1:4] for line in table if line.split()[1] in ("gone", "late")] == [
        ["gone", "operator", "revoked"],
        ["late", "reader", "expired"],
    ]


def test_tokens_outlive_the_server_and_lie_nowhere_in_its_home(
    host: Product, tmp_path: Path
) -> None:
    """I24, U20: hashed in the ledger; what is in clear is shown once and kept by nobody."""
    ana = guest(host, tmp_path / "ana", "operator")
    ana.product.run("tokens", "create", "other", "--role", "reader")
    host.run("server", "stop")
    host.run("server", "start")

    rows = ana.product.json("tokens", "list")["tokens"]
    found = [
        file
        for file in host.home.rglob("*")
        if file.is_file() and ana.token.removeprefix("tlk_").encode() in file.read_bytes()
    ]

    assert {
        each["name"]: each["createdBy"] for each in rows if each["name"] in ("ana", "other")
    } == {
        "ana": "operator",
        "other": "user/ana",
    }
    assert found == []
    assert ana.token not in json.dumps(rows)
    assert (host.home / "token").read_text().strip() != ana.token
