"""Histories of Hugging Face's Trainer: its state, and the log that LLaMA-Factory writes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.histories.history import History, broken, digest, is_validation, wire_number
from cli.wire import Json

SETTINGS = (
    *("max_steps", "num_train_epochs", "train_batch_size", "logging_steps", "eval_steps"),
    "save_steps",
)  # of a trainer state: what the trainer was told, in its own words
RUNTIME = "train_runtime"  # seconds; is in the last row of a training that came to its end
RESULTS = ("all_results.json", "train_results.json")  # beside a history, the first that there is
_PROGRESS = ("current_steps", "total_steps", "percentage", "elapsed_time", "remaining_time")
_SET = re.compile(r"eval_(.+)_(?:loss|runtime|samples_per_second)")
_ELAPSED = re.compile(r"(?:(\d+) days?, )?(\d+):(\d{2}):(\d{2})")


def read_state(file: Path) -> History:
    """What a trainer_state.json says.

    Raises:
        CommandError: it is none, or a row of it is wrong.
    """
    content = file.read_bytes()
    state = _json(_text(content, file.name), file.name)
    rows = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(rows, list):
        raise broken(
            f"{file.name} has no list log_history",
            "the trainer_state.json of a checkpoint or an output folder has one",
        )
    history = History("trainer-state", file.name, digest(content))
    for number, row in enumerate(rows, 1):
        place = f"row {number} of log_history"
        step = _step(row, "step", f"{file.name}, {place}")
        _add(history, place, step, {name: row[name] for name in row if name != "step"})
    made, planned = (_count(state, each, file.name) for each in ("global_step", "max_steps"))
    closing: Json = next((row for row in reversed(rows) if RUNTIME in row), {})
    history.facts = {
        "totalSteps": planned or None,
        "observedStep": made,
        "trainingSeconds": _seconds(closing.get(RUNTIME)),
        "hyperparameters": _settings(state),
        "isComplete": bool(closing) or not planned or (made or 0) >= planned,
    }
    _add_results(history, file)
    return history


def read_log(file: Path) -> History:
    """What a trainer_log.jsonl says.

    Raises:
        CommandError: it is none, or a line of it is wrong.
    """
    content = file.read_bytes()
    history = History("trainer-log", file.name, digest(content))
    last: Json = {}
    for number, line in enumerate(_text(content, file.name).split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        last = _json(line, f"{file.name}, {place}")
        step = _step(last, "current_steps", f"{file.name}, {place}")
        _add(history, place, step, {each: last[each] for each in last if each not in _PROGRESS})
    name = f"{file.name}, its last line"
    made, planned = (_count(last, each, name) for each in ("current_steps", "total_steps"))
    history.facts = {
        "totalSteps": planned or None,
        "observedStep": made,
        "trainingSeconds": _elapsed(last.get("elapsed_time")),
        "isComplete": not planned or (made or 0) >= planned,
    }
    _add_results(history, file)
    return history


def _add_results(history: History, file: Path) -> None:
    """Add what was measured after a training that came to its end, and is in a file beside it."""
    found = next((each for each in map(file.with_name, RESULTS) if each.is_file()), None)
    step = history.facts["observedStep"]
    if found is None or step is None or not history.facts["isComplete"]:
        return
    content = found.read_bytes()
    said = _json(_text(content, found.name), found.name)
    if not isinstance(said, dict):
        raise broken(f"{found.name} is {said!r:.60}, expected an object", "nothing was imported")
    evaluated = {name: said[name] for name in said if is_validation(name)}
    _add(history, found.name, step, {name: said[name] for name in said if name not in evaluated})
    _add(history, found.name, step, evaluated)
    history.facts["trainingSeconds"] = (
        _seconds(said.get(RUNTIME)) or history.facts["trainingSeconds"]
    )
    history.facts["beside"] = {"file": found.name, "sha256": digest(content)}


def _add(history: History, place: str, step: int, values: Json) -> None:
    """A row is a validation if any of its numbers is; what else it has was measured then."""
    names = [name for name in values if is_validation(name)]
    dataset = next(_sets(names), None)
    history.add(place, step, values, validation=bool(names), dataset=dataset)


def _sets(names: list[str]) -> Iterator[str]:
    """The validation set that all the names are of, where there are several sets."""
    if any(name in ("eval_loss", "eval_runtime") for name in names):
        return
    for name in names:
        found = _SET.fullmatch(name)
        if found and all(each.startswith(f"eval_{found[1]}_") for each in names):
            yield found[1]


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise broken(
            f"{name} is no UTF-8 text: byte {error.start + 1:,} is not", "name another file"
        ) from None


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise broken(
            f"{place} is no JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            "it may have been cut off; nothing was imported",
        ) from None
    except RecursionError:
        raise broken(f"{place} is no JSON of a trainer: it is nested too deeply", "") from None


def _step(row: Any, name: str, place: str) -> int:
    """The update that a row is of."""
    if not isinstance(row, dict):
        raise broken(f"{place} is {row!r:.60}, expected an object", "nothing was imported")
    step = _count(row, name, place)
    if step is None:
        raise broken(f"{place} has no {name}", "every row needs one; nothing was imported")
    return step


def _count(said: Json, name: str, place: str) -> int | None:
    value = said.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise broken(
            f"{place}: {name} is {value!r:.60}, expected a whole number from 0",
            "correct it; nothing was imported",
        )
    return value


def _settings(state: Json) -> Json | None:
    """What the trainer was told, as far as the state has it."""
    said = {name: state[name] for name in SETTINGS if name in state}
    return {
        name: wire_number(value) if isinstance(value, float) else value
        for name, value in said.items()
    } or None


def _seconds(value: Any) -> float | None:
    """A length that a row has; None where it has none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None


def _elapsed(text: Any) -> float | None:
    """Seconds of a length such as ``9 days, 22:13:15``."""
    found = _ELAPSED.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
