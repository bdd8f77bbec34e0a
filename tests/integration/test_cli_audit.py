"""Commands of the audit: what they ask, what they show, and their exit codes."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.commands.audit import rebuild
from tests.answers import ROUTES
from tests.cli_server import RUN, CannedServer, canned_server, here, problem

WHOLE: dict[str, Any] = ROUTES["audit"].example | {"ok": True, "faults": []}
RECEIPT: dict[str, Any] = ROUTES["read_receipt"].example
LOG: dict[str, Any] = ROUTES["read_audit_log"].example


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def archive(**files: bytes) -> bytes:
    """A tar archive with files of these names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/").replace("_", "."))
            member.size = len(text)
            made.addfile(member, io.BytesIO(text))
    return content.getvalue()


def test_a_verdict_says_what_was_read_and_sealed(canned: CannedServer) -> None:
    canned.answer("POST", "/v1/audit", WHOLE)

    done = here("audit", "verify", url=canned.url)

    assert done.returncode == 0
    assert done.stdout == (
        "the ledger is whole: 23 events of 3 streams up to position 23 in 0.2 s\n"
        "  1 seal up to position 20\n"
        "  1 signed, by\n"
        "    281ae3b9…\n"
    )


def test_each_fault_is_one_line_with_its_place(canned: CannedServer) -> None:
    """Issue 7: verdict, stream, version and position; exit 1."""
    faults = [
        *ROUTES["audit"].example["faults"],
        {
            "verdict": "eventChanged",
            "stream": None,
            "version": None,
            "position": 7,
            "detail": "position 7 is empty: an event was removed",
        },
        {
            "verdict": "projectionDiffers",
            "projection": "warehouse",
            "runId": RUN,
            "detail": "table metric differs from the ledger in column loss",
        },
    ]
    canned.answer("POST", "/v1/audit", WHOLE | {"ok": False, "faults": faults, "runId": RUN})

    done = here("audit", "verify", RUN, url=canned.url)

    assert done.returncode == 1
    assert canned.asked("POST", "/v1/audit")[0].parameters == {"run": [RUN]}
    lines = done.stdout.splitlines()
    assert lines[0].startswith("3 faults found: 23 events")
    assert lines[-3].startswith("  eventChanged run/e95710117ddb67d5/a1 version 5 position 14: ver")
    assert lines[-2] == "  eventChanged position 7: position 7 is empty: an event was removed"
    assert lines[-1] == (
        f"  projectionDiffers warehouse run {RUN}: table metric differs from the ledger in column "
        "loss"
    )


@pytest.mark.parametrize(
    ("projections", "command"),
    [
        (["documents"], "trainledger audit rebuild --projection documents"),
        (["warehouse", "warehouse"], "trainledger audit rebuild --projection warehouse"),
        (["published copy"], "trainledger audit rebuild --projection warehouse"),
        (["documents", "warehouse"], "trainledger audit rebuild"),
    ],
)
def test_where_projections_differ_the_command_that_mends_them_is_named(
    canned: CannedServer, projections: list[str], command: str
) -> None:
    differs = {"verdict": "projectionDiffers", "runId": RUN, "detail": "phase differs"}
    faults = [differs | {"projection": each} for each in projections]
    canned.answer("POST", "/v1/audit", WHOLE | {"ok": False, "faults": faults})

    done = here("audit", "verify", url=canned.url)

    assert done.returncode == 1
    assert done.stderr == (
        "error: the audit found faults\n"
        f"hint: the ledger is whole; have made anew what differs: {command}\n"
    )


def test_no_command_is_named_that_would_make_projections_of_an_untrue_ledger(
    canned: CannedServer,
) -> None:
    canned.answer("POST", "/v1/audit", ROUTES["audit"].example)

    done = here("audit", "verify", url=canned.url)

    assert "rebuild" not in done.stderr
    assert "hint: docs/audit.md says what each fault means" in done.stderr


REBUILD = "/v1/audit/rebuild"
BUILT = ROUTES["rebuild_projections"].example


def lines(*told: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in told)


def test_what_was_made_anew_is_said(canned: CannedServer) -> None:
    on_the_way = {"projection": "documents", "position": 10, "upto": 23}
    canned.answer("POST", REBUILD, lines(on_the_way, BUILT))

    text = here("audit", "rebuild", url=canned.url)
    as_json = here("audit", "rebuild", "--projection", "warehouse", "-o", "json", url=canned.url)

    assert text.stdout == "made documents and warehouse anew, up to position 23, in 0.8 s\n"
    assert json.loads(as_json.stdout) == BUILT
    assert [each.parameters for each in canned.asked("POST", REBUILD)] == [
        {},
        {"projection": ["warehouse"]},
    ]


def test_how_far_it_has_come_is_said_now_and_then(
    canned: CannedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "SAY_SECONDS", 0)
    told = [
        {"projection": "documents", "position": 10, "upto": 40},
        {"projection": "warehouse", "position": 0, "upto": 40},
    ]
    canned.answer("POST", REBUILD, lines(*told, BUILT))

    done = here("audit", "rebuild", url=canned.url)
    quiet = here("audit", "rebuild", "--quiet", url=canned.url)

    assert done.stderr == "documents 25%\ndocuments 25%  warehouse 0%\n"
    assert quiet.stderr == ""


def test_a_fault_on_the_way_is_an_error_and_so_is_an_answer_that_breaks_off(
    canned: CannedServer,
) -> None:
    on_the_way = {"projection": "documents", "position": 10, "upto": 23}
    fault = problem("internal", "the process that built it ended in a fault", 500, hint="look")
    canned.answer("POST", REBUILD, lines(on_the_way, fault))
    failed = here("audit", "rebuild", url=canned.url)
    canned.answer("POST", REBUILD, lines(on_the_way))
    broken = here("audit", "rebuild", url=canned.url)

    assert (failed.returncode, failed.stderr) == (
        4,
        "error: the process that built it ended in a fault\nhint: look\n",
    )
    assert broken.returncode == 5
    assert "the answer broke off" in broken.stderr


def test_what_a_verdict_could_not_check_is_said(canned: CannedServer) -> None:
    seals = WHOLE["seals"] | {"signaturesChecked": False}
    answer = WHOLE | {"seals": seals, "unknownTopics": {"run.noted.v7": 2}}
    canned.answer("POST", "/v1/audit", answer)
    unsealed = WHOLE | {"seals": seals | {"count": 0, "signed": 0, "keys": []}}

    unchecked = here("audit", "verify", url=canned.url).stdout
    canned.answer("POST", "/v1/audit", unsealed)

    assert "  1 signed, which this server cannot check, by\n" in unchecked
    assert "  2 events of a later version: run.noted.v7\n" in unchecked
    assert "  nothing is sealed yet\n" in here("audit", "verify", url=canned.url).stdout


def test_the_log_is_a_table_or_json(canned: CannedServer) -> None:
    opened = LOG["events"][0] | {
        "kind": "attemptOpened",
        "principal": "dispatch",
        "facts": {"attempt": 2, "devices": ["cuda:0"], "snapshotId": "3f" * 32, "reason": "a\x1bb"},
    }
    answer = LOG | {"events": [LOG["events"][0], opened]}
    canned.answer("GET", f"/v1/runs/{RUN}/audit-log", answer)

    text = here("audit", "log", RUN, url=canned.url)
    as_json = here("audit", "log", RUN, "-o", "json", url=canned.url)

    assert [line.split() for line in text.stdout.splitlines()] == [
        ["position", "when", "(UTC)", "who", "what"],
        ["20", "2026-11-29", "17:58:05", "operator", "cancel", "requested"],
        [
            *("20", "2026-11-29", "17:58:05", "dispatch", "attempt", "opened:", "attempt", "2,"),
            *("snapshotId", "3f3f3f3f3f3f,", "reason", "a\\x1bb"),
        ],
    ]
    assert json.loads(as_json.stdout) == answer


def test_a_receipt_is_one_page_with_whole_digests(canned: CannedServer) -> None:
    """U18: whatever the width, what proves something is never cut."""
    digest = "76957fb462bfa620d8c3346ba712bde5f599105039abe3204c11d8b9b8161315"
    answer = RECEIPT | {"heads": [RECEIPT["heads"][0] | {"digest": digest}]}
    canned.answer("GET", f"/v1/runs/{RUN}/receipt", answer)

    text = here("audit", "receipt", RUN, url=canned.url, COLUMNS="40")
    as_json = here("audit", "receipt", RUN, "-o", "json", url=canned.url)

    assert digest in text.stdout
    assert RECEIPT["snapshots"][0]["snapshotId"] in text.stdout
    parts = [line for line in text.stdout.splitlines() if line and not line.startswith(" ")]
    assert parts == ["Run", "Bill", "Who did what", "Snapshots", "Newest events", "Seal"]
    assert len(text.stdout.splitlines()) <= 66
    assert json.loads(as_json.stdout) == answer


def test_a_receipt_without_a_seal_says_when_there_will_be_one(canned: CannedServer) -> None:
    canned.answer("GET", f"/v1/runs/{RUN}/receipt", RECEIPT | {"seal": None, "snapshots": []})

    done = here("audit", "receipt", RUN, url=canned.url)

    assert "none yet          the ledger is sealed every few minutes" in done.stdout


def test_the_key_stays_with_the_server_and_its_public_part_is_shown(canned: CannedServer) -> None:
    canned.answer("POST", "/v1/audit/key", ROUTES["make_seal_key"].example, 201)
    taken = problem("refused", "there is a key already: seal.key", 409, hint="move it away first")

    made = here("audit", "keygen", url=canned.url)
    canned.answer("POST", "/v1/audit/key", taken, 409)
    again = here("audit", "keygen", url=canned.url)

    assert made.stdout == "public key 281ae3b9…\nin /home/me/.trainledger/seal.key\n"
    assert again.returncode == 4
    assert again.stderr == "error: there is a key already: seal.key\nhint: move it away first\n"


# -- archives --------------------------------------------------------------------------------------


def test_a_replay_is_unpacked_into_a_new_folder(canned: CannedServer, tmp_path: Path) -> None:
    content = archive(documents_db=b"d", manifest_json=b'{"position": 9}')
    canned.answer("GET", "/v1/audit/replay", content)

    done = here("audit", "replay", "--to", "9", "--into", str(tmp_path / "then"), url=canned.url)

    assert done.returncode == 0, done.stderr
    assert canned.asked("GET", "/v1/audit/replay")[0].parameters == {"to": ["9"]}
    assert (tmp_path / "then" / "documents.db").read_bytes() == b"d"
    assert "is as of position 9" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["then"]


@pytest.mark.parametrize(
    ("name", "exit_code"), [("..__evil", 4), ("__tmp__evil-of-a-test", 4), ("a__..__..__b", 4)]
)
def test_an_archive_that_leads_out_of_its_folder_is_refused(
    canned: CannedServer, tmp_path: Path, name: str, exit_code: int
) -> None:
    """U21: nothing is written outside, and nothing is left inside."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        made.addfile(tarfile.TarInfo(name.replace("__", "/")), io.BytesIO(b""))
    canned.answer("GET", "/v1/export", content.getvalue())

    done = here("export", str(tmp_path / "in" / "x"), url=canned.url)

    assert done.returncode == exit_code
    assert "no archive of ours" in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["in"]
    assert not Path("/tmp/evil-of-a-test").exists()


def test_links_in_an_archive_are_refused(canned: CannedServer, tmp_path: Path) -> None:
    """U21."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        link = tarfile.TarInfo("views")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        made.addfile(link)
    canned.answer("GET", "/v1/export", content.getvalue())

    done = here("export", str(tmp_path / "x"), url=canned.url)

    assert done.returncode == 4
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_broke_off_leaves_nothing(canned: CannedServer, tmp_path: Path) -> None:
    canned.answer("GET", "/v1/export", archive(events_jsonl=b"{}\n"))

    done = here("export", str(tmp_path / "x"), url=canned.url)

    assert done.returncode == 5
    assert "broke off" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_export_says_what_is_in_it(canned: CannedServer, tmp_path: Path) -> None:
    manifest = {
        "events": 1_200,
        "position": 1_200,
        "views": ["runs", "metrics"],
        "snapshots": [
            {"snapshotId": "3f2a", "artifacts": ["weights"]},
            {"snapshotId": "9c1e", "artifacts": [], "leftOut": "a file is missing"},
        ],
    }
    canned.answer("GET", "/v1/export", archive(manifest_json=json.dumps(manifest).encode()))

    done = here("export", str(tmp_path / "x"), "--artifacts", url=canned.url)

    assert canned.asked("GET", "/v1/export")[0].parameters == {"artifacts": ["true"]}
    assert done.stdout == (
        f"exported 1,200 events, 2 views, 1 snapshot up to position 1,200 into {tmp_path}/x\n"
        "  left out snapshot 9c1e: a file is missing\n"
    )


def test_a_folder_that_is_not_empty_is_not_touched(canned: CannedServer, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    done = here("export", str(tmp_path), url=canned.url)

    assert (done.returncode, done.stderr) == (
        4,
        f"error: {tmp_path} is not empty\nhint: name a new folder\n",
    )
    assert canned.requests == []


def test_a_backup_is_one_new_file_for_its_owner(canned: CannedServer, tmp_path: Path) -> None:
    canned.answer("GET", "/v1/backup", b"x" * 2048)
    file = tmp_path / "backup.tar"

    done = here("backup", str(file), url=canned.url)
    again = here("backup", str(file), url=canned.url)

    assert done.stdout == f"wrote {file}, 2.0 KiB\n"
    assert file.read_bytes() == b"x" * 2048
    assert file.stat().st_mode & 0o777 == 0o600
    assert again.returncode == 4
    assert "exists already" in again.stderr
    assert list(tmp_path.iterdir()) == [file]


def test_a_backup_that_is_refused_leaves_nothing(canned: CannedServer, tmp_path: Path) -> None:
    canned.answer("GET", "/v1/backup", problem("storage", "the disk is full", 503), 503)

    done = here("backup", str(tmp_path / "backup.tar"), url=canned.url)

    assert done.returncode == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["import", "restore"])
def test_what_works_on_files_does_not_ask_a_service(
    canned: CannedServer, tmp_path: Path, command: str
) -> None:
    done = here(command, str(tmp_path), url=canned.url)

    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: {command} works on a home of this machine, not on {canned.url}\n"
    )
