"""Commands of tokens, and every command that reads with the token of a reader."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import apis, ledgers
from tests.answers import ROUTES
from tests.apis import Api
from tests.cli_server import CannedServer, Request, canned_server, here

MADE = ROUTES["create_token"].example
TOLD = ROUTES["list_tokens"].example["tokens"][0]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.listening(tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def context_of(live: Api, home: Path, *, role: str, name: str) -> None:
    """Make a home whose context has the server's URL and a file with a new token."""
    url = str(live.client.base_url).rstrip("/")
    operator = {"TRAINLEDGER_TOKEN": live.service.token}
    made = here("tokens", "create", name, "--role", role, url=url, **operator)
    assert made.returncode == 0, made.stderr
    home.mkdir()
    (home / "mine").write_text(made.stdout)
    at_home = {"TRAINLEDGER_HOME": str(home)}
    words = ("config", "set", "lab", "--url", url, "--token-file", "mine")
    assert here(*words, url=None, **at_home).returncode == 0
    assert here("config", "use", "lab", url=None, **at_home).returncode == 0


def ended(live: Api) -> str:
    """A run of four updates that has ended."""
    run_id = live.started()
    lines = ['{"kind": "training"}', *ledgers.step_lines(1, 4), apis.COMPLETED]
    live.deliver(run_id, lines, exit=apis.EXIT)
    return run_id


def test_a_reader_reads_with_every_command_that_reads(live: Api, tmp_path: Path) -> None:
    """I24: the context names a URL and a file with a token, and that is enough."""
    first, second = ended(live), ended(live)
    home = tmp_path / "rita"
    context_of(live, home, role="reader", name="rita")

    def read(*words: str) -> str:
        done = here(*words, url=None, TRAINLEDGER_HOME=str(home))
        assert (done.returncode, done.stderr) == (0, ""), words
        return done.stdout

    assert json.loads(read("tokens", "whoami", "--json", "principal,role")) == {
        "principal": "user/rita",
        "role": "reader",
    }
    assert json.loads(read("runs", "get", first, "-o", "json"))["phase"] == "COMPLETED"
    assert read("runs", "wait", first, "--jq", "select(.terminal) | .phase") == "COMPLETED\n"
    assert json.loads(read("runs", "metrics", first, "-o", "json"))["steps"][3]["step"] == 4
    assert read("sql", "SELECT count(*) AS n FROM metrics", "--fresh", "-o", "csv") == "n\n8\n"
    compared = read("runs", "compare", first, second, "-o", "json")
    assert json.loads(compared)["steps"]["compared"] == 4
    read("runs", "tensorboard", first, "--download-only", "--logdir", str(tmp_path / "tb"))
    assert list((tmp_path / "tb").rglob("*tfevents*"))
    for word in ("events", "logs", "snapshots", "branches", "tree", "ancestry"):
        read("runs", word, first)
    for words in (("runs", "list"), ("info",), ("audit", "verify"), ("audit", "log", first)):
        read(*words)


def test_who_lacks_a_role_hears_which_one_is_needed(live: Api, tmp_path: Path) -> None:
    """I24, I26, D8: exit 4, one sentence, and who can help."""
    run_id, home = ended(live), tmp_path / "rose"
    context_of(live, home, role="reader", name="rose")

    done = here("runs", "cancel", run_id, "--force", url=None, TRAINLEDGER_HOME=str(home))

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "error: POST /v1/runs/{run_id}:cancel needs the role submitter, and user/rose has the role "
        "reader\n"
        "hint: an operator makes one: trainledger tokens create NAME --role submitter\n"
    )


def test_who_is_not_known_hears_one_sentence(live: Api) -> None:
    """I24: the same for a token that is unknown, has expired or was revoked."""
    url = str(live.client.base_url).rstrip("/")

    done = here("runs", "list", url=url, TRAINLEDGER_TOKEN="nix")

    assert done.returncode == 4
    assert done.stderr == (
        "error: the request carries no token that is known here and counts\n"
        "hint: send the token of the server's home, or one that was made for you and has neither "
        "expired nor been revoked: Authorization: Bearer …, or --token and --context of "
        "trainledger\n"
    )


def asked(canned: CannedServer, *words: str) -> "subprocess.CompletedProcess[str]":
    canned.answer("POST", "/v1/tokens", MADE, 201)
    canned.answer("GET", "/v1/tokens", {"tokens": [TOLD]})
    canned.answer("POST", "/v1/tokens/ana:revoke", ROUTES["revoke_token"].example)
    canned.answer("GET", "/v1/whoami", ROUTES["whoami"].example)
    return here("tokens", *words, url=canned.url)


def test_a_new_token_alone_is_data(canned: CannedServer) -> None:
    """style.md 25: stdout can go into a file; what people should know is on stderr."""
    done = asked(canned, "create", "ana", "--role", "submitter", "--expires", "30d")

    (request,) = canned.asked("POST", "/v1/tokens")
    assert request.body == {"name": "ana", "role": "submitter", "expiresSeconds": 2_592_000.0}
    assert done.stdout == f"{MADE['token']}\n"
    assert done.stderr == (
        "token ana (1f0c9a3e) with the role submitter until 2026-12-29 18:00:00 UTC; it is shown "
        "this once\n"
    )
    assert asked(canned, "create", "ana", "--role", "reader", "--quiet").stderr == ""


def test_a_token_whose_answer_was_lost_can_be_taken_back(canned: CannedServer) -> None:
    """C12: nobody has it, and its name is taken."""

    def lost(_: Request) -> None:
        return None

    canned.answers["POST", "/v1/tokens"] = lost
    done = here("tokens", "create", "ana", "--role", "reader", url=canned.url)

    assert done.returncode == 5
    assert done.stderr.endswith(
        "hint: if it was made, nobody has it: trainledger tokens revoke ana\n"
    )


def test_tokens_are_listed_and_revoked(canned: CannedServer) -> None:
    assert asked(canned, "list").stdout == (
        "id        name  role       status  expires                  created                  by"
        "        revoked  by\n"
        "1f0c9a3e  ana   submitter  active  2026-12-29 18:00:00 UTC  2026-11-29 18:00:00 UTC  "
        "operator  -        -\n"
    )
    assert (
        asked(canned, "revoke", "ana", "--force").stdout == "token ana (1f0c9a3e) counts no more\n"
    )
    assert asked(canned, "whoami").stdout == (
        "user/ana\n  role     submitter\n  token    1f0c9a3e, until 2026-12-29 18:00:00 UTC\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", "ana"), "Missing option '--role'"),
        (("create", "ana", "--role", "admin"), "'admin' is not one of 'reader', 'submitter', "),
        (("create", "ana", "--role", "reader", "--expires", "soon"), "--expires is 'soon'"),
        (("revoke", ""), "a token is named by its name or its id"),
    ],
)
def test_a_command_that_cannot_be_meant_asks_nothing(
    canned: CannedServer, words: tuple[str, ...], sentence: str
) -> None:
    done = asked(canned, *words)

    assert done.returncode == 2
    assert sentence in done.stderr
    assert canned.requests == []
