"""Words and numbers of the command line."""

import pytest

from cli.render.text import age, cells, cut, duration, number, percent, plain, size, value, wrap


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (1.04, "1.0 s"),
        (59.96, "0:01:00"),
        (62, "0:01:02"),
        (86_399, "23:59:59"),
        (86_400, "1 day 00:00:00"),
        (857_595, "9 days 22:13:15"),
    ],
)
def test_a_duration_reads_as_days_and_a_clock(seconds: float, text: str) -> None:
    """C42: 857,595 s prints as days and hours."""
    assert duration(seconds) == text


def test_hostile_text_becomes_one_line_without_a_control_byte() -> None:
    """U19: control bytes, newlines, bidi marks, NUL and lone surrogates are shown, not obeyed."""
    hostile = "a\x1b[31m\n\x00\u202eb\ud800\x9b\u2028"

    assert plain(hostile) == r"a\x1b[31m\n\x00\u202eb\ud800\x9b\u2028"


def test_letters_of_every_script_and_emoji_stay_as_they_are() -> None:
    """C40: names are shown verbatim."""
    assert plain("损失 é 👩\u200d🔬") == "损失 é 👩\u200d🔬"


def test_wide_characters_take_two_columns_and_accents_none() -> None:
    """C53: tables stay straight."""
    assert cells("损失") == 4
    assert cells("e\u0301") == 1
    assert cut("损失损失损失", 7) == "损失..."


def test_a_word_is_never_torn() -> None:
    """U18: an id or a path can be copied as it stands."""
    long = "x" * 30

    assert list(wrap(f"one two {long} three", 10)) == ["one two", long, "three"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "-"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        (0.0, "0"),
        (1.797e308, "1.797e+308"),
        (0.09083290814890146, "0.0908329"),
    ],
)
def test_absent_and_not_finite_are_four_different_things(
    given: float | str | None, text: str
) -> None:
    """C35, U11: NaN, the infinities and "absent" are told apart."""
    assert number(given) == text


def test_only_the_whole_is_a_hundred_percent() -> None:
    """S9: 120 of 120 is 100 %, and 9,999 of 10,000 is not."""
    assert percent(1.0) == "100%"
    assert percent(0.9999) == "99.9%"


def test_sizes_ages_and_settings_read_as_people_write_them() -> None:
    """S18, S20: memory in binary units, settings without Python's words."""
    assert size(13_207_024_435) == "12.3 GiB"
    assert size(512) == "512 B"
    assert [age(each) for each in (5, 65, 7300, 90_000, -3)] == ["5s", "1m", "2h", "1d", "0s"]
    assert [value(each) for each in (None, True, ["a", "b"], [])] == ["none", "yes", "a b", "none"]
