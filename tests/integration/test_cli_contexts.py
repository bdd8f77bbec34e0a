"""Contexts: services that have a name, and what goes before what."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_answers import record
from tests.cli_server import RUN, CannedServer, canned_server, here


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answer("GET", f"/v1/runs/{RUN}", record())
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def config(home: Path, *arguments: str, code: int = 0, **more: str) -> str:
    done = here("config", *arguments, url=None, TRAINLEDGER_HOME=str(home), **more)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_options_go_before_the_environment_before_the_context_before_the_default(
    canned: CannedServer, home: Path
) -> None:
    """S167: url and token, from the same source where it is a context."""
    (home / "tokens").mkdir(parents=True)
    (home / "tokens" / "a").write_text("token-of-a\n")
    config(home, "set", "a", "--url", f"{canned.url}/a", "--token-file", "tokens/a")
    config(home, "set", "b", "--url", f"{canned.url}/b")
    config(home, "use", "b")

    def asked(*options: str, **variables: str) -> tuple[str, str | None]:
        variables = {"TRAINLEDGER_HOME": str(home), **variables}
        here(*options, "runs", "get", RUN, url=None, **variables)
        request = canned.requests[-1]
        return request.path.removesuffix(f"/v1/runs/{RUN}"), request.headers.get("authorization")

    here_too = {"TRAINLEDGER_URL": f"{canned.url}/env", "TRAINLEDGER_TOKEN": "token-of-env"}
    assert asked() == ("/b", None)
    assert asked(TRAINLEDGER_CONTEXT="a") == ("/a", "Bearer token-of-a")
    assert asked(**here_too, TRAINLEDGER_CONTEXT="a") == ("/env", "Bearer token-of-env")
    assert asked("--context", "a", **here_too) == ("/a", "Bearer token-of-a")
    assert asked("--url", f"{canned.url}/opt", TRAINLEDGER_CONTEXT="a") == ("/opt", None)
    assert asked("--url", f"{canned.url}/opt", "--context", "a")[1] is None
    assert asked("--token", "mine", "--context", "a") == ("/a", "Bearer mine")


def test_contexts_are_added_changed_used_and_listed(home: Path) -> None:
    """S167: what a person wrote into the file stays there."""
    home.mkdir()
    (home / "config.toml").write_text('# mine\n[contexts.a]\nurl = "http://a" # keep\n')

    config(home, "set", "b", "--url", "https://b.example/", "--token-file", "/tokens/b")
    config(home, "set", "b", "--token-file", "/tokens/new", "--platform-project", "research")
    config(home, "use", "a")

    text = (home / "config.toml").read_text()
    assert "# mine" in text
    assert '"http://a" # keep' in text
    assert (home / "config.toml").stat().st_mode & 0o777 == 0o600
    assert config(home, "list") == (
        "   name   url                      token file   platform project\n"
        "   local  the server of this home  -            -\n"
        "*  a      http://a                 -            -\n"
        "   b      https://b.example        /tokens/new  research\n"
    )
    rows = json.loads(config(home, "list", "--json", "name,current"))
    assert rows[1] == {"name": "a", "current": True}
    config(home, "use", "local")
    assert config(home, "list").split("\n")[1].startswith("*  local")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["use", "nobody"], "there is no context 'nobody'"),
        (["set", "x"], "the context x needs --url"),
        (["set", "local", "--url", "http://a"], "local is the server of this home"),
        (["set", "x", "--url", "ftp://a"], "expected http:// or https://"),
    ],
)
def test_a_context_that_cannot_be_is_wrong_use(
    home: Path, arguments: list[str], words: str
) -> None:
    """S167, D8."""
    assert words in config(home, *arguments, code=2)
    assert not (home / "config.toml").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("current = ", "is not TOML"),
        ('curent = "a"', "'curent' in "),
        ('[contexts.a]\nurll = "http://a"', "'urll' in "),
        ("contexts = 3", "contexts in "),
        ("[contexts.a]\nurl = 3", "url of the context a"),
        ('current = "gone"', "there is no context 'gone'"),
    ],
)
def test_a_file_of_contexts_that_is_wrong_is_named_and_help_still_works(
    home: Path, text: str, words: str
) -> None:
    """S167, D8: a slip is noticed, and never by a traceback."""
    home.mkdir()
    (home / "config.toml").write_text(text)

    done = here("runs", "list", url=None, TRAINLEDGER_HOME=str(home))

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert here("runs", "list", "--help", url=None, TRAINLEDGER_HOME=str(home)).returncode == 0


def test_a_token_file_that_is_not_there_is_a_sentence(canned: CannedServer, home: Path) -> None:
    """S167, D8."""
    config(home, "set", "a", "--url", canned.url, "--token-file", "gone")

    done = here("--context", "a", "runs", "list", url=None, TRAINLEDGER_HOME=str(home))

    assert (done.returncode, canned.requests) == (2, [])
    assert f"the token file {home}/gone of the context cannot be read" in done.stderr
