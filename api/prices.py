"""The price book: what an hour of a device costs, by its profile and by date.

``prices.toml`` in the home is read again whenever it changes. A book with a fault prices nothing,
and the fault is said where the server says how it is.
"""

import threading
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

SECONDS_PER_HOUR = 3600
MONEY_DIGITS = 6  # behind the point


def _moment(value: Any) -> Any:
    """The moment that a date of TOML means: midnight of a day, and UTC where no zone is said."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    raise ValueError("expected a date, for example 2026-01-01")


class Price(BaseModel):
    """What an hour of one device costs from a moment on, until a later price."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    profile: Annotated[str, Field(min_length=1)]
    per_hour: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    begins: Annotated[datetime, BeforeValidator(_moment), Field(alias="from")]


class _Book(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prices: tuple[Price, ...] = ()


class FaultError(Exception):
    """The price book cannot be read; the message is one sentence with the line or the field."""


class PriceBook:
    """The prices of one file, as it is now; safe to ask from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None  # what the file was like when it was read
        self._prices: tuple[Price, ...] = ()
        self._fault: str | None = None

    def prices(self) -> tuple[Price, ...]:
        """Every price; none where there is no book, or where it has a fault."""
        with self._lock:
            self._refresh()
            return self._prices

    def fault(self) -> str | None:
        """What is wrong with the book, as a sentence; None when nothing is."""
        with self._lock:
            self._refresh()
            return self._fault

    def _refresh(self) -> None:
        """Read the file if it is not the one that was read last."""
        seen = _looks(self._path)
        if seen == self._seen:
            return
        self._prices, self._fault = (), None
        try:
            self._prices = _read(self._path) if seen is not None else ()
        except FaultError as fault:
            self._fault = f"{self._path.name}: {fault}"
        self._seen = seen


def _looks(path: Path) -> tuple[int, ...] | None:
    """What tells a file from what it was before; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def _read(path: Path) -> tuple[Price, ...]:
    """The prices that a file says.

    Raises:
        FaultError: it cannot be read, or a field is wrong.
    """
    try:
        said = tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
        prices = _Book.model_validate(said).prices
    except OSError as error:
        raise FaultError(error.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise FaultError("it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise FaultError(str(error)) from None
    except ValidationError as error:
        raise FaultError(_sentence(error)) from None
    for profile in {each.profile for each in prices}:
        currencies = sorted({each.currency for each in prices if each.profile == profile})
        if len(currencies) > 1:  # there is no sum of both
            raise FaultError(f"profile {profile!r:.80} has prices in {' and '.join(currencies)}")
    return prices


def _sentence(error: ValidationError) -> str:
    """The first fault, with the number of its price and the name of its field."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = [f"price {part + 1}" if isinstance(part, int) else part for part in first["loc"]]
    place = ", ".join(str(part)[:80] for part in where if part != "prices") or "prices"
    if first["type"] == "extra_forbidden":
        return f"{place} is not known here"
    if first["type"] == "missing":
        return f"{place} is missing"
    if first["type"] in ("tuple_type", "model_type"):
        return f"{place}: expected tables that begin with [[prices]]"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


def money(
    record: Mapping[str, Any], prices: Sequence[Price], *, profile: str = ""
) -> dict[str, Any] | None:
    """What all attempts of a run cost; None where the price or time of one of them is not known.

    An attempt has the price that was valid when its devices were claimed. ``profile`` is that of
    the devices, their kind where it is empty.
    """
    name = profile or record["cost"]["deviceKind"]
    ours = [each for each in prices if each.profile == name]
    amounts, parts = [], []
    for attempt in record["attempts"]:
        price = _valid(ours, datetime.fromisoformat(attempt["openedAt"]))
        seconds = attempt["cost"]["deviceSeconds"]
        if price is None or seconds is None:
            return None
        amounts.append(Decimal(str(seconds)) / SECONDS_PER_HOUR * price.per_hour)
        parts.append(
            {
                "attempt": attempt["attempt"],
                "deviceSeconds": seconds,
                "perHour": float(price.per_hour),
                "amount": _rounded(amounts[-1]),
            }
        )
    if not parts:
        return None
    return {
        "amount": _rounded(sum(amounts, Decimal())),
        "currency": ours[0].currency,
        "profile": name,
        "estimate": record["cost"]["estimate"],
        "perAttempt": parts,
    }


def _valid(prices: Sequence[Price], moment: datetime) -> Price | None:
    """The price at a moment; of two that begin together the later one in the book."""
    begun = [each for each in prices if each.begins <= moment]
    return max(reversed(begun), key=lambda each: each.begins, default=None)


def _rounded(amount: Decimal) -> float:
    return float(round(amount, MONEY_DIGITS))
