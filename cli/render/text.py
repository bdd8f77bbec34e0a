"""Words and numbers as people read them; nothing here passes a control character on."""

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

from cli.wire import Number

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_JOINER = "\u200d"  # holds an emoji together and cannot reorder or hide text


def plain(value: object) -> str:
    """``value`` on one line, with control, bidi and other invisible characters escaped."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(each) for each in text)


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN or character == _JOINER:
        return character
    return character.encode("unicode_escape").decode()


def printed(line: str) -> str:
    """A line that a program printed, without what it overwrote itself by going back."""
    return plain(line.rstrip("\r").rpartition("\r")[2].expandtabs())


def short(long_id: str) -> str:
    """As much of the id of a snapshot or a data set as tells it from others, and commands take."""
    return plain(long_id[:12])


def moment(text: str | None) -> str:
    """A moment of the wire (ISO 8601, UTC) without its fractions."""
    if not text:
        return "-"
    day, _, clock = plain(text).partition("T")
    return f"{day} {clock[:8]} UTC"


def cells(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    return len(text) if text.isascii() else sum(_cells(each) for each in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns, with three dots where something is missing."""
    if cells(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _cells(character)
        if used > width - 3:
            break
        kept += character
    return f"{kept}..."[:width]


def wrap(text: str, width: int, indent: str = "") -> Iterator[str]:
    """Lines of ``text`` of at most ``width`` columns; a single word is never torn.

    ``indent`` stands before each line but the first.
    """
    line = ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) > width:
            yield line
            line = f"{indent}{word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def number(value: Number) -> str:
    """A measured number in six significant digits; ``-`` when there is none."""
    if value is None:
        return "-"
    return plain(value) if isinstance(value, str) else f"{value:.6g}"


def count(value: int) -> str:
    """A count with its thousands apart."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """A count with its noun, in the plural where it must be."""
    return f"{count(value)} {noun}" if value == 1 else f"{count(value)} {noun}s"


def duration(seconds: float) -> str:
    """A duration as ``12.3 s``, ``0:01:02`` or ``9 days 22:13:15``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    days, rest = divmod(round(seconds), 86400)
    clock = f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{counted(days, 'day')} {clock:0>8}" if days else clock


def age(seconds: float) -> str:
    """How long ago, in one unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def device_seconds(seconds: float, kind: str | None) -> str:
    """Time that devices were held, in the unit that is paid for."""
    return f"{seconds:,.1f} {'device seconds' if kind == 'cpu' else 'GPU-seconds'}"


def money(amount: float, currency: str) -> str:
    """An amount of money, with more digits where two would show nothing."""
    said = f"{amount:,.2f}" if amount == 0 or amount >= 0.1 else number(amount)
    return f"{said} {plain(currency)}"


def size(value: int) -> str:
    """Bytes in the largest binary unit that leaves at least one."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def percent(share: float) -> str:
    """A share in percent; 100% is said only of the whole."""
    if share < 1:
        return f"{min(share * 100, 99.9):.1f}%"
    return "100%"


def value(any_value: Any) -> str:
    """A setting as people write it."""
    if any_value is None:
        return "none"
    if isinstance(any_value, bool):
        return "yes" if any_value else "no"
    if isinstance(any_value, list) and not any(isinstance(each, dict | list) for each in any_value):
        return " ".join(plain(each) for each in any_value) or "none"
    return fact(any_value)


def fact(any_value: Any) -> str:
    """A value as JSON says it, and text as it is, on one line."""
    if isinstance(any_value, str):
        return plain(any_value)
    return plain(json.dumps(any_value, ensure_ascii=False))
