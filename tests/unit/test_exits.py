"""How a worker of several ranks ended, and which of them is why."""

import signal
from pathlib import Path

import pytest

from engine.runner.exits import FAULTS, End, exit_of, last_word

REFUSED = '{"kind":"refused","reason":"no row fits"}'
MEMORY = '{"kind":"failed","cause":"deviceMemory"}'


def end(rank: int, code: int, at: float, *, told: bool = False, word: str | None = None) -> End:
    return End(rank, code, at, oom_killed=False, was_told=told, word=word)


@pytest.mark.parametrize(
    ("ends", "rank", "code", "number"),
    [
        # The partner of a killed rank fails by itself, or only because we told it to.
        ([end(1, -9, 1.0), end(0, 70, 1.1)], 1, None, 9),
        ([end(1, -9, 1.0), end(0, -15, 1.1, told=True)], 1, None, 9),
        ([end(1, -9, 1.0), end(0, 143, 1.1, told=True)], 1, None, 9),
        ([end(1, -9, 1.0), end(0, -9, 31.0, told=True)], 1, None, 9),
        # ... and may be seen first, on a busy machine.
        ([end(0, 70, 1.0), end(1, -9, 1.1)], 1, None, 9),
        # A library that loses its partner may abort, which is a signal too.
        ([end(0, -signal.SIGABRT, 1.0), end(1, -9, 1.1)], 1, None, 9),
        ([end(0, -signal.SIGABRT, 1.0), end(1, 70, 1.1)], 0, None, 6),
        # Of two that failed alike, the first.
        ([end(0, 70, 1.1), end(1, 70, 1.0)], 1, 70, None),
        # Why it ended counts for more than how.
        ([end(0, -9, 1.0), end(1, 70, 1.1, word=MEMORY)], 1, 70, None),
    ],
)
def test_the_rank_that_ended_the_others_is_named(
    ends: list[End], rank: int, code: int | None, number: int | None
) -> None:
    """cluster.md section 4 rule 1: the first failing rank is often collateral."""
    ended, _ = exit_of(ends)

    assert (ended.rank, ended.code, ended.signal) == (rank, code, number)
    assert ended.at == max(each.at for each in ends)  # until then the devices were in use


def test_a_rank_that_the_system_killed_for_memory_is_why() -> None:
    """S74: proof of the kernel, whatever happened to the others first."""
    killed = end(1, -9, 2.0)._replace(oom_killed=True)

    ended, _ = exit_of([end(0, -9, 1.0), killed])

    assert (ended.rank, ended.oomKilled) == (1, True)


@pytest.mark.parametrize("code", [0, 65, 143])
def test_no_rank_is_named_where_all_ended_as_they_should(code: int) -> None:
    ended, _ = exit_of([end(0, code, 1.0), end(1, code, 1.1)])

    assert (ended.rank, ended.code) == (None, code)
    assert "rank" not in ended.said()


@pytest.mark.parametrize(
    ("ends", "rank"),
    [
        # One stands still: the others give it up, and it does not end until it is killed.
        ([end(0, 75, 1.0), end(1, -9, 31.0, told=True)], 1),
        ([end(1, 75, 1.0), end(0, -9, 31.0, told=True)], 0),
        # ... or lose the first that has given it up, told to end or not.
        ([end(0, 75, 1.0), end(2, 70, 1.1), end(1, -9, 31.0, told=True)], 1),
        ([end(0, 75, 1.0), end(2, 70, 1.1, told=True), end(1, -9, 31.0, told=True)], 1),
        # One was slow: it comes last, and finds nobody, or sees that it is to end.
        ([end(0, 75, 1.0), end(2, 70, 1.1, told=True), end(1, 70, 5.0, told=True)], 1),
        ([end(0, 75, 1.0), end(1, 143, 5.0, told=True)], 1),
        # Each has waited for another.
        ([end(0, 75, 1.0), end(1, 75, 1.1)], None),
    ],
)
def test_a_rank_that_the_others_have_given_up_is_why(ends: list[End], rank: int | None) -> None:
    """Waiting in vain is no fault of who waits, though it ends first."""
    ended, _ = exit_of(ends)

    assert (ended.hung, ended.rank) == (True, rank)
    assert ended.said()["hung"] is True


def test_what_is_certain_of_a_rank_counts_for_more_than_that_others_waited() -> None:
    """A partner may be waited for while it dies."""
    killed, _ = exit_of([end(0, 75, 1.0), end(1, -9, 1.1)])
    memory, _ = exit_of([end(0, 75, 1.0), end(1, 70, 1.1, word=MEMORY)])

    assert [(each.hung, each.rank) for each in (killed, memory)] == [(False, 1), (False, 1)]
    assert "hung" not in killed.said()


def test_a_worker_of_one_rank_hangs_for_nobody() -> None:
    """A program of somebody's own may end with any code."""
    ended, _ = exit_of([end(0, 75, 1.0)])

    assert (ended.hung, ended.code) == (False, 75)


def test_a_worker_of_one_rank_names_none() -> None:
    ended, _ = exit_of([end(0, -9, 1.0)])

    assert (ended.rank, ended.signal) == (None, 9)


def test_a_last_word_is_the_last_line_and_nothing_else(tmp_path: Path) -> None:
    """S66: a refusal; a step is none, nor is a line that was cut, or no spool at all."""
    spool = tmp_path / "rank1.jsonl"
    found = [last_word(spool, *FAULTS)]
    for text in ("", '{"kind":"step"}\n', f"{REFUSED}\n", f"{REFUSED}\n[1]\n", f"1\n{REFUSED}"):
        spool.write_text(text)
        found.append(last_word(spool, *FAULTS))

    assert found == [None, None, None, REFUSED, None, None]
