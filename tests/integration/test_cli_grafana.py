"""``runs grafana``: the link alone on stdout, the rest on stderr, and whose Grafana it is of."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_server import RUN, CannedServer, Request, canned_server, here, problem

URL = "https://grafana.example/d/ab12cd?from=1&to=now&var-run=0123456789abcdef&auth_token=a.b.c"
VARIABLE = "TRAINLEDGER_PLATFORM_PROJECT"
WARNING = (
    "warning: whoever has this link can view the project's Grafana until "
    "2026-11-29 19:00:00 UTC; do not share it\n"
)


def answer(request: Request) -> tuple[int, Any]:
    """A link for whatever is asked."""
    body = {"runId": RUN, "url": URL, "expiresAt": "2026-11-29T19:00:00Z"}
    return 200, body | request.body


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        server.answers["POST", f"/v1/runs/{RUN}:grafana"] = answer
        yield server


def test_the_link_alone_is_on_stdout_and_the_warning_on_stderr(canned: CannedServer) -> None:
    """S109, S111, S112: the link can be piped on; project and expiry are printed."""
    done = here("runs", "grafana", RUN, "--platform-project", "research", url=canned.url)

    assert (done.returncode, done.stdout) == (0, f"{URL}\n")
    assert done.stderr == f"the platform project is research, said by --platform-project\n{WARNING}"
    assert canned.requests[-1].body == {"platformProject": "research", "attempt": None}


def test_quiet_leaves_the_warning(canned: CannedServer) -> None:
    """S111: what is given away is no hint."""
    done = here("runs", "grafana", RUN, "--platform-project", "shop", "-q", url=canned.url)

    assert (done.stdout, done.stderr) == (f"{URL}\n", WARNING)


def test_the_answer_can_be_had_as_json(canned: CannedServer) -> None:
    """S109, S113: with the attempt that was asked for."""
    done = here(
        "runs", "grafana", RUN, "--platform-project", "shop", "--attempt", "2", "-o", "json",
        url=canned.url,
    )  # fmt: skip

    assert json.loads(done.stdout) == {
        "runId": RUN,
        "platformProject": "shop",
        "attempt": 2,
        "url": URL,
        "expiresAt": "2026-11-29T19:00:00Z",
    }
    assert done.stderr.endswith(WARNING)


def test_the_project_is_of_the_option_before_the_environment_before_the_context(
    canned: CannedServer, tmp_path: Path
) -> None:
    """S112: and each time it is said which one was used, and by what."""
    home = {"TRAINLEDGER_HOME": str(tmp_path)}

    def config(*arguments: str) -> None:
        assert here("config", *arguments, url=None, **home).returncode == 0

    config("set", "lab", "--url", canned.url, "--platform-project", "of-lab")
    config("use", "lab")

    def used(*options: str, **variables: str) -> tuple[str, str]:
        done = here("runs", "grafana", RUN, *options, url=None, **home, **variables)
        assert done.returncode == 0, done.stderr
        return canned.requests[-1].body["platformProject"], done.stderr.splitlines()[0]

    said = "the platform project is {}, said by {}"
    assert used() == ("of-lab", said.format("of-lab", "the context"))
    assert used(**{VARIABLE: "of-env"}) == ("of-env", said.format("of-env", VARIABLE))
    assert used("--context", "lab", **{VARIABLE: "of-env"})[0] == "of-env"
    both = used("--platform-project", "mine", **{VARIABLE: "of-env"})
    assert both == ("mine", said.format("mine", "--platform-project"))
    config("set", "lab", "--platform-project", "")
    done = here("runs", "grafana", RUN, url=None, **home)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_service_that_is_named_otherwise_has_no_project_of_a_context(
    canned: CannedServer, tmp_path: Path
) -> None:
    """S112: a context's project goes with its service, as its token does."""
    home = {"TRAINLEDGER_HOME": str(tmp_path)}
    here("config", "set", "lab", "--url", "http://lab", "--platform-project", "x", url=None, **home)
    here("config", "use", "lab", url=None, **home)

    done = here("runs", "grafana", RUN, url=canned.url, **home)

    assert (done.returncode, done.stdout, canned.requests) == (2, "", [])
    assert done.stderr == (
        "error: no platform project is said\n"
        f"hint: say it with --platform-project, with {VARIABLE}, or for a context with "
        "`trainledger config set NAME --platform-project PROJECT`\n"
    )


def test_a_service_without_grafana_is_one_sentence(canned: CannedServer) -> None:
    """S109, D8: no link, no warning."""
    sentence = "this server makes no links to Grafana: its setting grafana_url is not set"
    refusal = problem("grafana-not-set-up", sentence, 501, hint="docs/grafana.md says how")
    canned.answer("POST", f"/v1/runs/{RUN}:grafana", refusal, 501)

    done = here("runs", "grafana", RUN, "--platform-project", "x", url=canned.url)

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"error: {sentence}\nhint: docs/grafana.md says how\n"
