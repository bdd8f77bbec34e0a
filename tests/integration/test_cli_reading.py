"""Commands that read a run in full: compare, hparams, engine-config, metrics in every form."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_server import RUN, CannedServer, Request, canned_server, here, problem, trainledger
from tests.unit.test_cli_reading import BASELINE, BEYOND, FALLING, comparison, window

PATH = f"/v1/runs/{RUN}"


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


# -- compare -------------------------------------------------------------------------------------


def test_compare_asks_for_what_the_options_say(canned: CannedServer) -> None:
    """S94, S100 to S103: the defaults of the product are stated."""
    canned.answer("GET", f"{PATH}/compare", comparison(window(1, 10, 0.0)))
    options = ["--window", "5", "--margin", "0.1", "--spike-factor", "3", "--across-plans"]

    plain = here("runs", "compare", RUN, BASELINE, url=canned.url)
    chosen = here("runs", "compare", RUN, BASELINE, *options, "--jq", ".windows[0].difference",
        url=canned.url)  # fmt: skip

    assert (plain.returncode, chosen.stdout) == (0, "0\n")
    asked = [each.parameters for each in canned.requests]
    assert asked == [
        {
            "baseline": [BASELINE],
            "window": ["10"],
            "margin": ["0.03"],
            "spikeFactor": ["10.0"],
        },
        {
            "baseline": [BASELINE],
            "window": ["5"],
            "margin": ["0.1"],
            "spikeFactor": ["3.0"],
            "acrossPlans": ["true"],
        },
    ]


def test_the_exit_status_says_whether_a_window_is_reported(canned: CannedServer) -> None:
    """D8: only where it is asked for; the text is the same."""
    canned.answer("GET", f"{PATH}/compare", comparison(window(1, 10, 0.0)))
    same = here("runs", "compare", RUN, BASELINE, "--exit-status", url=canned.url)
    canned.answer("GET", f"{PATH}/compare", comparison(BEYOND, reported=BEYOND))
    unasked = here("runs", "compare", RUN, BASELINE, url=canned.url)
    differs = here("runs", "compare", RUN, BASELINE, "--exit-status", "-o", "json", url=canned.url)

    assert (same.returncode, unasked.returncode, differs.returncode) == (0, 0, 1)
    assert json.loads(differs.stdout)["reported"] == BEYOND
    assert differs.stderr == (
        "error: the first full window that differs by more than 0.03: steps 11-20, by +0.05\n"
    )


def test_plans_that_differ_are_listed_with_the_way_to_compare_them(canned: CannedServer) -> None:
    """S104, S105: field, here, in the baseline."""
    faults = ["config.seed: 1 here, 0 in the baseline", "dataset: a here, b in the baseline"]
    refused = problem("not-comparable", "the plans of run x and of the baseline y differ", 409,
        faults=faults, hint="--across-plans")  # fmt: skip
    canned.answer("GET", f"{PATH}/compare", refused, 409)

    done = here("runs", "compare", RUN, BASELINE, url=canned.url)

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.split("\n")[1:4] == [
        f"  {faults[0]}",
        f"  {faults[1]}",
        "hint: --across-plans",
    ]


@pytest.mark.parametrize(
    "options", [["--window", "0"], ["--margin", "-1"], ["--spike-factor", "0"]]
)
def test_a_limit_that_cannot_be_is_wrong_use(canned: CannedServer, options: list[str]) -> None:
    """D8."""
    done = here("runs", "compare", RUN, BASELINE, *options, url=canned.url)

    assert (done.returncode, canned.requests) == (2, [])


# -- settings of a run ---------------------------------------------------------------------------


def test_a_default_that_nobody_stated_is_read_from_the_engines_configuration(
    canned: CannedServer,
) -> None:
    """S120: with a JSON path."""
    resolved = {"adam_beta1": 0.9, "learning_rate": 2e-4}
    answer = {"runId": RUN, "attempt": 1, "requested": {"learning_rate": 2e-4}}
    canned.answer("GET", f"{PATH}/engine-config", answer | {"resolved": resolved})

    path = ["--attempt", "1", "--jq", ".resolved.adam_beta1"]
    done = here("runs", "engine-config", RUN, *path, url=canned.url)
    table = here("runs", "engine-config", RUN, url=canned.url)

    assert done.stdout == "0.9\n"
    assert canned.requests[0].parameters == {"attempt": ["1"]}
    assert [line.split() for line in table.stdout.splitlines()[1:]] == [["learning_rate", "0.0002"]]


def test_hyperparameters_that_are_not_written_yet_are_not_found(canned: CannedServer) -> None:
    """S115, D8: exit 3."""
    absent = problem("hyperparameters-not-found", "run x has no hyperparameters yet", 404)
    canned.answer("GET", f"{PATH}/hparams", absent, 404)

    done = here("runs", "hparams", RUN, url=canned.url)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: run x has no hyperparameters yet\n"


def test_words_are_put_to_a_run(canned: CannedServer) -> None:
    """I23: what is not stated is not sent as a change."""
    words = {"runId": RUN, "name": "x", "description": None, "labels": {"a": "b=c"}}
    canned.answer("POST", f"{PATH}:annotate", words)
    labels = ["--label", "a=b=c", "--label", "old="]

    done = here("runs", "annotate", RUN, "--name", "x", *labels, url=canned.url)
    nothing = here("runs", "annotate", RUN, url=canned.url)
    wrong = here("runs", "annotate", RUN, "--label", "a", url=canned.url)

    assert (done.returncode, nothing.returncode, wrong.returncode) == (0, 2, 2)
    assert [each.body for each in canned.requests] == [
        {"name": "x", "description": None, "labels": {"a": "b=c", "old": ""}}
    ]


# -- metrics -------------------------------------------------------------------------------------


def pages(request: Request) -> tuple[int, Any]:
    """Three pages of two steps, and validations on two of them."""
    first = int(request.parameters.get("from", ["1"])[0])
    steps = [{"step": n, "attempt": 1, "measured": {"loss": 1 / n}} for n in (first, first + 1)]
    validation = {"step": first, "attempt": 1, "dataset": None, "measured": {"loss": 0.5}}
    return 200, {
        "runId": RUN,
        "position": 9,
        "steps": steps,
        "validations": [validation] if first != 3 else [],
        "next": first + 2 if first < 5 else None,
    }


def test_a_long_series_is_read_from_as_many_pages_as_it_takes(canned: CannedServer) -> None:
    """U7: every step once, in order, and the limit is asked for once."""
    canned.answers["GET", f"{PATH}/metrics"] = pages

    limit = ["--limit", "6", "--fields", "loss"]
    answer = json.loads(here("runs", "metrics", RUN, *limit, "-o", "json", url=canned.url).stdout)

    assert [row["step"] for row in answer["steps"]] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in answer["validations"]] == [1, 5]
    assert answer["next"] is None
    asked = [
        (each.parameters.get("from"), each.parameters.get("limit")) for each in canned.requests
    ]
    assert asked == [(None, ["6"]), (["3"], None), (["5"], None)]
    assert all(each.parameters["fields"] == ["loss"] for each in canned.requests)


def test_buckets_are_made_by_the_service(canned: CannedServer) -> None:
    """U7: text is of the loss where no field is named; JSON is the answer as it is."""
    canned.answer("GET", f"{PATH}/metrics/buckets", {"runId": RUN, "buckets": FALLING[:2]})

    text = here("runs", "metrics", RUN, "--buckets", "2", "--to", "20", url=canned.url)
    rows = here("runs", "metrics", RUN, "--buckets", "2", "--json", "from,to", "-o", "json-compact",
        url=canned.url)  # fmt: skip

    assert text.stdout.split("\n")[0].split() == ["steps", "loss", "loss", "min", "loss", "max"]
    assert rows.stdout == '[{"from":1,"to":10},{"from":11,"to":20}]\n'
    assert canned.requests[0].parameters == {"fields": ["loss"], "buckets": ["2"], "to": ["20"]}
    assert canned.requests[1].parameters == {"buckets": ["2"]}


def test_a_field_is_drawn_from_as_many_buckets_as_the_chart_has_dots(canned: CannedServer) -> None:
    """S166: and in letters where the locale has no others."""
    canned.answer("GET", f"{PATH}/metrics/buckets", {"runId": RUN, "buckets": FALLING})
    c_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "70"}

    dots = here("runs", "metrics", RUN, "--plot", "loss", url=canned.url)
    letters = trainledger("runs", "metrics", RUN, "--plot", "loss", url=canned.url, **c_locale)

    assert not dots.stdout.isascii()
    assert letters.stdout.isascii()
    assert "*" in letters.stdout
    assert [each.parameters["buckets"] for each in canned.requests] == [["112"], ["92"]]


def test_a_file_is_written_whole_or_goes_to_stdout(canned: CannedServer, tmp_path: Path) -> None:
    """S83: CSV and Parquet, as the service makes them."""
    content = b"step,attempt,loss\n1,1,0.5\n"
    canned.answer("GET", f"{PATH}/metrics/file", content)
    file = tmp_path / "metrics.csv"

    piped = here("runs", "metrics", RUN, "-o", "csv", "--limit", "3", url=canned.url)
    saved = here("runs", "metrics", RUN, "-o", "parquet", "--file", str(file), url=canned.url)
    refused = here("runs", "metrics", "ffff", "-o", "csv", "--file", f"{file}2", url=canned.url)

    assert piped.stdout.encode() == content
    assert (saved.stdout, file.read_bytes()) == ("", content)
    assert canned.requests[0].parameters == {"limit": ["3"], "format": ["csv"]}
    assert canned.requests[1].parameters == {"format": ["parquet"]}
    assert refused.returncode == 3
    assert [each.name for each in tmp_path.iterdir()] == ["metrics.csv"]


def test_a_chart_without_a_name_is_of_the_first_field_or_of_the_loss(canned: CannedServer) -> None:
    """S166: runs metrics RUN --plot is enough."""
    canned.answer("GET", f"{PATH}/metrics/buckets", {"runId": RUN, "buckets": FALLING})

    alone = here("runs", "metrics", RUN, "--plot", url=canned.url)
    named = here("runs", "metrics", RUN, "--plot", "--fields", "loss,entropy", url=canned.url)

    assert alone.stdout == named.stdout != ""
    assert [each.parameters["fields"] for each in canned.requests] == [["loss"], ["loss"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--file", "x"], "--file needs -o csv or -o parquet"),
        (["--buckets", "3", "--limit", "3"], "--buckets is of the current series: leave --limit"),
        (["--plot", "loss", "--superseded"], "--plot is of the current series"),
        (["--plot", "loss", "-o", "json"], "--plot draws a text"),
        (["--buckets", "3", "-o", "csv"], "--buckets is text or JSON"),
        (["-o", "csv", "--jq", ".x"], "--json and --jq write JSON, and -o asks for csv"),
        (["--buckets", "0"], "'--buckets'"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_use(
    canned: CannedServer, options: list[str], words: str
) -> None:
    """D8: and nothing is asked of the service."""
    done = here("runs", "metrics", RUN, *options, url=canned.url)

    assert (done.returncode, done.stdout, canned.requests) == (2, "", [])
    assert words in done.stderr
