"""Following a run over a real connection that breaks off."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cli.client import Client
from cli.errors import CommandError, Exit, PassingError
from cli.follow import TRIES, follow, pause_seconds, so_far
from cli.settings import Settings
from tests.cli_answers import event, story
from tests.cli_server import RUN, TOKEN, CannedServer, Opening, canned_server, problem


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


@pytest.fixture
def client(canned: CannedServer) -> Iterator[Client]:
    settings = Settings(
        url=canned.url,
        token=TOKEN,
        home=Path("/nonexistent"),
        request_timeout=5,
        quiet=False,
        color=False,
        prompts=False,
        verbose=False,
    )
    with closing(Client(settings)) as made:
        yield made


def positions(client: Client, pauses: list[float]) -> list[int]:
    """The positions that a follower sees; the pauses that it makes are noted, not made."""
    events = follow(client, RUN, after=0, sleep=pauses.append)
    return [each["position"] for each in events]


def test_the_pauses_grow_and_add_up_to_about_two_minutes() -> None:
    """S59: eight tries in a row over about two minutes."""
    pauses = [pause_seconds(tries) for tries in range(1, TRIES + 1)]

    assert TRIES == 8
    assert pauses == sorted(pauses)
    assert 110 <= sum(pauses) <= 130


@pytest.mark.parametrize("end", ["close", "cut"])
def test_a_broken_stream_goes_on_after_the_last_event(
    canned: CannedServer, client: Client, end: str
) -> None:
    """S59, C51: no event twice, none lost, half a line is not taken for one."""
    events = story()
    canned.stream(
        RUN, Opening(tuple(events[:4]), end), Opening((), end), Opening(tuple(events[4:]))
    )
    pauses: list[float] = []

    seen = positions(client, pauses)

    assert seen == list(range(1, 11))
    asked = canned.asked("GET", f"/v1/runs/{RUN}/events")
    assert [each.parameters["after"] for each in asked] == [["0"], ["4"], ["4"]]
    assert pauses == [0.5, 1.0]


def test_an_event_that_comes_again_is_not_told_again(canned: CannedServer, client: Client) -> None:
    """C51: a service that starts over does not double anything."""
    events = tuple(story())
    canned.stream(RUN, Opening(events[:6], "cut"), Opening(events))

    assert positions(client, []) == list(range(1, 11))


def test_beats_are_no_events_and_text_keeps_its_odd_line_ends(
    canned: CannedServer, client: Client
) -> None:
    """C51, U19: an empty line is a sign of life; U+2028 inside a text ends no line."""
    odd = event(1, "phaseChanged", phase="WAITING", waitingFor="a\u2028b\x85c")
    canned.stream(RUN, Opening(("", odd, "", story()[-1])))

    waiting, _ = follow(client, RUN, after=0)

    assert waiting["waitingFor"] == "a\u2028b\x85c"


def test_after_eight_tries_in_a_row_it_says_what_it_could_not_reach(
    canned: CannedServer, client: Client
) -> None:
    """S59, D8: exit 5, with the way to follow again."""
    canned.stream(RUN, Opening((story()[0],)))
    pauses: list[float] = []

    with pytest.raises(PassingError) as gave_up:
        positions(client, pauses)

    assert len(pauses) == TRIES
    assert gave_up.value.code is Exit.UNREACHABLE
    assert canned.url in gave_up.value.message
    assert f"runs wait {RUN}" in str(gave_up.value.hint)


def test_every_new_event_starts_the_count_of_tries_again(
    canned: CannedServer, client: Client
) -> None:
    """S59: the tries are those in a row."""
    openings = [Opening((each,)) for each in story()]
    canned.stream(RUN, *openings)
    pauses: list[float] = []

    assert positions(client, pauses) == list(range(1, 11))
    assert set(pauses) == {0.5}


def test_a_service_that_comes_back_is_waited_for(canned: CannedServer, client: Client) -> None:
    """S59: 503 while it starts is as good as no answer."""
    canned.answer("GET", f"/v1/runs/{RUN}/events", problem("starting", "not yet", 503), 503)

    def back(_seconds: float) -> None:
        canned.stream(RUN, Opening(tuple(story())))

    seen = [each["position"] for each in follow(client, RUN, after=0, sleep=back)]

    assert seen == list(range(1, 11))


def test_an_error_as_the_last_line_of_a_stream_is_a_break_not_an_event(
    canned: CannedServer,
    client: Client,
) -> None:
    """C51: once a stream has begun, an error is its last line."""
    last = problem("stopping", "the service is stopping", 503)
    canned.stream(RUN, Opening((story()[0], last)), Opening(tuple(story())))

    assert positions(client, []) == list(range(1, 11))


def test_a_refusal_is_not_tried_again(client: Client) -> None:
    """D8: a run that does not exist is exit 3 at once."""
    pauses: list[float] = []

    with pytest.raises(CommandError) as refused:
        positions(client, pauses)

    assert refused.value.code is Exit.NOT_FOUND
    assert pauses == []


def test_events_so_far_end_with_the_newest(canned: CannedServer, client: Client) -> None:
    """S50: without following, the end of the stream is the end."""
    canned.stream(RUN, Opening(tuple(story()[:3])))

    events = list(so_far(client, RUN, after=1))

    assert [each["position"] for each in events] == [2, 3]
    assert "follow" not in canned.requests[-1].parameters


def test_the_token_is_shown_to_the_service(canned: CannedServer, client: Client) -> None:
    """I24: a bearer token with every request."""
    canned.stream(RUN, Opening(tuple(story())))
    positions(client, [])

    assert canned.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
