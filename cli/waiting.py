"""Waiting for a run to end: its events, its record, and the verdict as an exit code."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from cli import terminal
from cli.errors import CommandError, Exit, PassingError
from cli.follow import follow
from cli.options import Output
from cli.progress import TERMINAL, Progress, advance, of_record
from cli.render.progress import changes
from cli.render.run import detail
from cli.rhythm import Rhythm
from cli.settings import Settings
from cli.wire import Event, Json, run_path

if TYPE_CHECKING:
    from cli.client import Client

RECORD_SECONDS = 10.0  # the record may lag behind the event that ended the run


@dataclass(frozen=True)
class Wait:
    """What is waited for, and how it is told."""

    run_id: str
    output: Output
    limit_seconds: float | None
    exit_status: bool


def wait(client: "Client", settings: Settings, asked: Wait, *, record: Json) -> None:
    """Follow a run to its end and write its record; text output begins at ``record``.

    Raises:
        CommandError: with --exit-status when the run did not complete; when the time was over;
            after Ctrl-C. The run goes on in the last two cases.
    """
    try:
        with _limit(asked):
            ended = _to_the_end(client, settings, asked, record)
            final = _final_record(client, asked.run_id)
    except KeyboardInterrupt:
        raise CommandError(
            f"stopped following; run {asked.run_id} goes on", Exit.INTERRUPTED, hint=_again(asked)
        ) from None
    _write_record(final, asked)
    if asked.exit_status and ended != "COMPLETED":
        reason = (final.get("failure") or {}).get("reason")
        because = f": {reason}" if reason else ""
        raise CommandError(f"run {asked.run_id} ended {ended}{because}", Exit.RUN_FAILED)


def _again(asked: Wait) -> str:
    return f"follow it again with `trainledger runs wait {asked.run_id}`"


@contextmanager
def _limit(asked: Wait) -> Iterator[None]:
    """Raise once the time is over, wherever the wait then is."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise CommandError(
            f"the time is over; run {asked.run_id} goes on", Exit.TIMED_OUT, hint=_again(asked)
        )

    if asked.limit_seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(asked.limit_seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _to_the_end(client: "Client", settings: Settings, asked: Wait, record: Json) -> str:
    """Tell each event until the last; the phase that the run ended in."""
    if asked.output is not Output.TEXT:
        return _tell_json(follow(client, asked.run_id, after=0))
    if record["phase"] in TERMINAL:
        phase: str = record["phase"]
        return phase
    events = follow(client, asked.run_id, after=record["position"])
    if terminal.is_live() and settings.color:
        from cli.live import tell_live  # noqa: PLC0415 (only a terminal needs rich)

        return tell_live(events, of_record(record))
    return _tell_lines(events, of_record(record))


def _tell_json(events: Iterator[Event]) -> str:
    event: Event = {}
    for event in events:
        terminal.write_json(event, compact=True)
    phase: str = event["phase"]
    return phase


def _tell_lines(events: Iterator[Event], progress: Progress) -> str:
    for line in changes(Progress(phase=""), progress):
        terminal.write(line)
    rhythm = Rhythm(told=progress)
    for event in events:
        before, progress = progress, advance(progress, event)
        for line in rhythm.lines(before, progress, now=time.monotonic()):
            terminal.write(line)
    return progress.phase


def _final_record(client: "Client", run_id: str) -> Json:
    """The record once it says that the run has ended; the newest one if it stays behind."""
    deadline = time.monotonic() + RECORD_SECONDS
    while True:
        try:
            record = client.get(run_path(run_id))
            if record["phase"] in TERMINAL or time.monotonic() > deadline:
                return record
        except PassingError:
            if time.monotonic() > deadline:
                raise
            client.relocate()
        time.sleep(0.05)


def _write_record(record: Json, asked: Wait) -> None:
    if asked.output is Output.TEXT:
        text = detail(record, width=terminal.width(), with_settings=False)
        terminal.write(f"\n{text}", may_page=False)  # the end of what was followed
    else:
        terminal.write_json(record, compact=asked.output is Output.JSON_COMPACT)
