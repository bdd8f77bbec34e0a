"""Names that somebody may have meant."""

from collections.abc import Iterable

_LEAST = 0.6  # of 1, that a name has to have in common with what was written


def nearest(written: str, names: Iterable[str]) -> str | None:
    """The name that is written most like ``written``, whatever its case; None: none is."""
    from difflib import get_close_matches  # noqa: PLC0415 (only who has mistaken a name needs it)

    by_letters = {each.lower(): each for each in names}
    found = get_close_matches(written.lower(), by_letters, n=1, cutoff=_LEAST)
    return by_letters[found[0]] if found else None
