"""Following a run's events: each one once and in order, however often the stream breaks off."""

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cli.errors import PassingError
from cli.wire import Event, run_path

if TYPE_CHECKING:
    from cli.client import Client

TRIES = 8  # in a row, without a single new event


def pause_seconds(tries: int) -> float:
    """Seconds before reopening for the ``tries``-th time in a row: 0.5, 1, 2 … 32, 60."""
    return min(60.0, 0.5 * float(2 ** (tries - 1)))


def follow(
    client: "Client",
    run_id: str,
    *,
    after: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Event]:
    """Events of a run from ``after`` on, up to and with the one that ends it.

    Raises:
        PassingError: the stream could not be reopened; it has the position to go on from.
        CommandError: the service refused.
    """
    position, tries = after, 0
    while True:
        lost: PassingError | None = None
        try:
            for event in _opened(client, run_id, position):
                position, tries = event["position"], 0
                yield event
                if event.get("terminal"):
                    return
        except PassingError as error:
            lost = error
        tries += 1
        if tries > TRIES:
            raise _gave_up(client, run_id, lost)
        sleep(pause_seconds(tries))
        client.relocate()


def so_far(client: "Client", run_id: str, *, after: int) -> Iterator[Event]:
    """Events of a run from ``after`` to now."""
    yield from _events(client.lines(run_path(run_id, "/events"), after=after), after)


def _opened(client: "Client", run_id: str, after: int) -> Iterator[Event]:
    lines = client.lines(run_path(run_id, "/events"), after=after, follow="true")
    yield from _events(lines, after)


def _events(lines: Iterator[str], after: int) -> Iterator[Event]:
    """The events of ``lines`` later than ``after``; beats are skipped, an error line ends them."""
    for line in lines:
        if not line.strip():
            continue
        event = _event(line)
        if event["position"] > after:
            after = event["position"]
            yield event


def _event(line: str) -> Event:
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise PassingError(f"a line of the stream is not JSON: {line[:80]}", sent=True)
    if "position" not in said:  # a problem document: the service cannot go on
        raise PassingError(str(said.get("detail") or "the stream ended early"), sent=True)
    return said


def _gave_up(client: "Client", run_id: str, lost: PassingError | None) -> PassingError:
    reason = lost.message if lost else f"the service at {client.url} closes the stream each time"
    return PassingError(
        f"gave up following run {run_id} after {TRIES} tries: {reason}",
        hint=f"the run goes on; follow it again with `trainledger runs wait {run_id}`",
    )
