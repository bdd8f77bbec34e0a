"""A one-file client for trainers: it appends report lines to the spool of an attempt.

It needs nothing but Python, so it may be copied next to any training script:

    report = Reporter.from_environment()
    report.training(total_steps=100)
    report.step(1, {"loss": 2.5, "grad_norm": 0.7})
    report.completed()

No call waits for anybody, and none raises because of the ledger: a line that could not be written
is counted in ``lost_lines`` and the training goes on.
"""

from __future__ import annotations

import json
import math
import operator
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

_TAIL_BYTES = 65_536  # read at once when the end of the last whole line is looked for
_PART_BYTES = 500_000  # of rollouts in one line, far below what a line may hold

_settings = os.environ  # noqa: TID251 - this module is where a worker reads its settings


def read_plan() -> dict[str, Any]:
    """The resolved plan of this worker's run.

    Raises:
        KeyError: this program was not started by a run.
    """
    plan: dict[str, Any] = json.loads(Path(_settings["TRAINLEDGER_PLAN"]).read_bytes())
    return plan


def attempt_number() -> int:
    """Number of this worker's attempt, from 1.

    Raises:
        KeyError: this program was not started by a run.
    """
    return int(_settings["TRAINLEDGER_ATTEMPT"])


def output_folder() -> Path:
    """Where this worker leaves what it makes.

    Raises:
        KeyError: this program was not started by a run.
    """
    return Path(_settings["TRAINLEDGER_OUTPUT"])


def restore_folder() -> Path | None:
    """The files of the snapshot that this worker goes on from; None: it begins from the start.

    The folder is a copy for this worker alone.
    """
    named = _settings.get("TRAINLEDGER_RESTORE")
    return Path(named) if named else None


def branch_kind() -> Literal["weights", "trainingState"] | None:
    """What this worker's run takes from the snapshot that it began from; None: it is no branch.

    Raises:
        ValueError: it takes something that this client does not know.
    """
    named = _settings.get("TRAINLEDGER_BRANCH")
    if not named:
        return None
    kinds: tuple[Literal["weights", "trainingState"], ...] = ("weights", "trainingState")
    for kind in kinds:
        if named == kind:
            return kind
    raise ValueError(f"TRAINLEDGER_BRANCH is {named!r}, expected weights or trainingState")


def origin_folder() -> Path | None:
    """The files of another run's snapshot, which this worker's branch begins from.

    None: it is no branch, or has a snapshot of its own to go on from (``restore_folder``). The
    folder is a copy for this worker alone.
    """
    named = _settings.get("TRAINLEDGER_ORIGIN")
    return Path(named) if named else None


class Reporter:
    """Says what a training program does, one JSON object a line.

    Every call is one write of one whole line, so a process that is killed straight after it has
    lost nothing. Calls from several threads, and from a signal handler, do not mix their lines.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        control: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,  # noqa: TID251 - the default of an argument
    ) -> None:
        """Open the spool at ``path`` and cut a torn last line, which nobody has taken.

        Raises:
            OSError: the spool cannot be opened.
        """
        self.lost_lines = 0
        self._control = control
        self._clock = clock
        self._seen_control: tuple[int, int] | None = None
        self._request: Literal["stop", "pause"] | None = None
        self._torn = False
        self._lock = threading.RLock()  # a signal handler may interrupt a call of its own thread
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._is_kept = S_ISREG(os.fstat(self._file).st_mode)  # a device keeps nothing
        if self._is_kept:
            _cut_torn_line(self._file)

    @classmethod
    def from_environment(cls) -> Reporter:
        """The reporter of this worker; outside of a run, the reports go nowhere."""
        return cls(
            _settings.get("TRAINLEDGER_SPOOL", os.devnull),
            control=_settings.get("TRAINLEDGER_CONTROL"),
        )

    def training(self, total_steps: int | None = None) -> None:
        """Preparation is over and the first update is being computed."""
        self._append("training", totalSteps=total_steps)

    def stage(self, name: str, *, completed: int | None = None, total: int | None = None) -> None:
        """The current action inside a phase, with its rows done where they can be counted."""
        self._append("stage", stage=name[:200], completed=completed, total=total)

    def step(
        self,
        step: int,
        measured: Mapping[str, object],
        *,
        reward_terms: Mapping[str, object] | None = None,
        step_seconds: float | None = None,
    ) -> None:
        """The optimizer made update ``step``; ``measured`` keeps the engine's own names."""
        self._append(
            "step",
            step=step,
            stepSeconds=step_seconds,
            measured=_numbers(measured),
            rewardTerms=None if reward_terms is None else _numbers(reward_terms),
        )

    def validation(
        self, step: int, measured: Mapping[str, object], *, dataset: str | None = None
    ) -> None:
        """The model was evaluated after update ``step``; 0 is before the first."""
        self._append("validation", step=step, dataset=dataset, measured=_numbers(measured))

    def rollouts(self, step: int, scored: Iterable[Mapping[str, object]]) -> None:
        """Rollouts for update ``step`` were scored, in this order.

        Each has ``prompt`` and ``completion``, a text or messages with role and content, its
        ``score``, and by choice ``terms``, the weighted share of each term of the reward by name.
        Those of one update may be said in several calls.
        """
        part: list[bytes] = []
        size = 0
        for each in scored:
            rollout = _encode(_rollout(each)).encode("utf-8", "replace")
            if part and size + len(rollout) > _PART_BYTES:
                self._append_rollouts(step, part)
                part, size = [], 0
            part.append(rollout)
            size += len(rollout)
        if part:
            self._append_rollouts(step, part)

    def _append_rollouts(self, step: int, rollouts: list[bytes]) -> None:
        """Write a report of rollouts that are JSON already, since they are long."""
        head = _encode({"kind": "rollouts", "at": self._clock(), "step": step})
        line = b'%s,"rollouts":[%s]}\n' % (head[:-1].encode(), b",".join(rollouts))
        self._write(line, durable=False)

    def restore(self, step: int) -> None:
        """The trainer went back to update ``step``: what it said of later ones no longer counts."""
        self._append("restore", step=step)

    def restore_check(
        self,
        step: int,
        verdict: Literal["exact", "within", "differs"],
        *,
        within: float | None = None,
        parts: Mapping[str, str],
    ) -> None:
        """What was restored of update ``step``, compared with what was saved.

        ``parts`` has a verdict for each part, ``within`` is the largest difference.
        """
        self._append("restoreCheck", step=step, verdict=verdict, within=within, parts=dict(parts))

    def snapshot(
        self,
        step: int,
        path: str | os.PathLike[str],
        artifacts: Iterable[str],
        *,
        epoch: float | None = None,
        writer: Mapping[str, object] | None = None,
    ) -> None:
        """Files of update ``step`` are complete in the folder ``path``; leave it alone after this.

        ``artifacts`` are weights, trainingState or both; ``writer`` says what wrote them.
        """
        self._append(
            "snapshot",
            durable=True,
            step=step,
            path=os.fspath(path),
            artifacts=list(artifacts),
            epoch=epoch,
            writer=None if writer is None else _plain(writer),
        )

    def save_failed(self, step: int, reason: str) -> None:
        """A snapshot of update ``step`` could not be written, and the training goes on."""
        self._append("saveFailed", durable=True, step=step, reason=reason[:4000])

    def model(
        self,
        path: str | os.PathLike[str],
        *,
        step: int | None = None,
        sha256: str | None = None,
        size_bytes: int | None = None,
    ) -> None:
        """The trained model, to be registered as what the run made."""
        self._append(
            "model",
            durable=True,
            path=os.fspath(path),
            step=step,
            sha256=sha256,
            sizeBytes=size_bytes,
        )

    def hparams(self, values: Mapping[str, object]) -> None:
        """The resolved hyperparameters, every default included."""
        self._append("hparams", values=_plain(values))

    def engine_config(
        self, requested: Mapping[str, object], resolved: Mapping[str, object]
    ) -> None:
        """What the engine was asked for and what it made of it."""
        self._append("engineConfig", requested=_plain(requested), resolved=_plain(resolved))

    def dataset(
        self,
        rows: int,
        *,
        validation_rows: int | None = None,
        identity: str | None = None,
        validation_identity: str | None = None,
    ) -> None:
        """Rows that were read, before anything was dropped.

        Args:
            rows: how many.
            validation_rows: how many of them, or of another data set, are measured on.
            identity: a SHA-256 over the rows, 64 hexadecimal digits, by which runs are compared.
            validation_identity: the same of another data set.
        """
        self._append(
            "dataset",
            rows=rows,
            validationRows=validation_rows,
            identity=identity,
            validationIdentity=validation_identity,
        )

    def data_fit(
        self,
        *,
        rows: int,
        reached: int,
        lost_end: int,
        dropped: int,
        padding_share: float | None = None,
    ) -> None:
        """How the rows fit the maximum sequence length."""
        self._append(
            "dataFit",
            rows=rows,
            reached=reached,
            lostEnd=lost_end,
            dropped=dropped,
            paddingShare=padding_share,
        )

    def memory(
        self,
        peak_bytes: Mapping[str, int],
        *,
        step: int | None = None,
        breakdown: Mapping[str, object] | None = None,
    ) -> None:
        """Peak bytes of each device so far; a device that was not measured is left out.

        ``breakdown`` says what held the device in ``step``, which reserved the most so far.
        """
        self._append("memory", step=step, peakBytes=dict(peak_bytes), breakdown=breakdown)

    def start_check(
        self,
        name: str,
        value: float,
        *,
        warn: float,
        refuse: float,
        unit: str | None = None,
        seconds: float = 0.0,
    ) -> Literal["passed", "warned", "refused"]:
        """Something was checked before the first update; what comes of it by its limits.

        ``value`` may be as far as a limit. Where ``warn`` is above ``refuse``, less is worse, else
        more is. A value that is no number is refused. Whoever gets ``refused`` ends the worker.
        """
        sign = -1 if warn > refuse else 1
        verdict: Literal["passed", "warned", "refused"] = "refused"
        if sign * value <= sign * refuse:
            verdict = "passed" if sign * value <= sign * warn else "warned"
        self._append(
            "startCheck",
            name=name[:200],
            value=_number(value),
            warnLimit=_number(warn),
            refuseLimit=_number(refuse),
            unit=unit,
            seconds=seconds,
            verdict=verdict,
        )
        return verdict

    def refused(self, reason: str) -> None:
        """The inputs were read and will not be trained on; exit with 65 after it."""
        self._append("refused", durable=True, reason=reason[:4000])

    def failed(self, cause: str = "unknown") -> None:
        """The worker failed; exit with 70 after it.

        ``cause`` is deviceMemory, rolloutMemory, handoverMemory, hostMemory or unknown.
        """
        self._append("failed", durable=True, cause=cause)

    def completed(self) -> None:
        """Everything that was asked for is done; exit with 0 after it."""
        self._append("completed", durable=True)

    def line(self, text: str) -> None:
        """Append these very characters, whatever they are."""
        self._write(text.encode("utf-8", "surrogateescape") + b"\n", durable=False)

    def request(self) -> Literal["stop", "pause"] | None:
        """What this worker is asked for now; cheap enough for every micro-batch.

        stop: end. pause: save the newest update, then end; go on where it cannot be saved.
        A request can be withdrawn.
        """
        if self._control is None:
            return None
        try:
            found = os.stat(self._control)  # noqa: PTH116 - called often; Path would double its cost
            if (found.st_ino, found.st_mtime_ns) != self._seen_control:
                said = json.loads(Path(self._control).read_bytes())["request"]
                self._request = said if said in ("stop", "pause") else None
                self._seen_control = (found.st_ino, found.st_mtime_ns)
        except (OSError, ValueError, LookupError, TypeError):
            pass  # no file, or none of ours: what was read last stands
        return self._request

    def stop_requested(self) -> bool:
        """Whether this worker is asked to end, be it for good or for a pause."""
        return self.request() is not None

    def _append(self, kind: str, *, durable: bool = False, **fields: object) -> None:
        """Write one report; absent fields are left out."""
        said: dict[str, object] = {"kind": kind, "at": self._clock()}
        said.update({name: value for name, value in fields.items() if value is not None})
        try:
            text = _encode(said)
        except ValueError:  # a number outside ``measured`` that is not finite
            text = _encode(_plain(said))
        # Half a character (a file name that is not UTF-8) becomes a question mark.
        self._write(text.encode("utf-8", "replace") + b"\n", durable=durable)

    def _write(self, line: bytes, *, durable: bool) -> None:
        """Append ``line`` whole or not at all."""
        with self._lock:
            written = 0
            try:
                if self._torn:
                    os.write(self._file, b"\n")
                    self._torn = False
                while written < len(line):
                    written += os.write(self._file, line[written:])
                if durable and self._is_kept:
                    os.fsync(self._file)
            except OSError:
                self.lost_lines += 1
                if 0 < written < len(line):
                    self._take_back(written)

    def _take_back(self, written: int) -> None:
        """Remove the beginning of a line that did not fit; else the next one starts anew."""
        try:
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
        except OSError:
            self._torn = True


def _cut_torn_line(file: int) -> None:
    """Shorten ``file`` to its last whole line."""
    end = size = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)


def _numbers(measured: Mapping[str, object]) -> dict[str, object]:
    """Every name with its number, in words where it is not finite; an absent one is left out."""
    said: dict[str, object] = {}
    for name, value in measured.items():
        if type(value) is float and value - value == 0.0:  # finite
            said[name] = value
        elif value is not None:
            said[name] = _number(value)
    return said


def _rollout(scored: Mapping[str, object]) -> dict[str, object]:
    """A rollout as a line says it; what it lacks the ledger will name."""
    said: dict[str, object] = {name: _plain(value) for name, value in scored.items()}
    if "score" in said:
        said["score"] = _number(scored["score"])
    terms = scored.get("terms")
    if isinstance(terms, Mapping):
        said["terms"] = _numbers(terms)
    return said


def _number(value: object) -> object:
    """The number that ``value`` holds; where it holds none, words that the ledger rejects."""
    try:
        return _finite_or_words(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):  # torch raises the last one
        return str(value)[:80]


def _finite_or_words(value: float) -> float | str:
    if value - value == 0.0:
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _plain(value: object) -> object:
    """``value`` with nothing in it that JSON has no words for."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return _finite_or_words(value) if isinstance(value, float) else _plain(_foreign(value))


def _foreign(value: object) -> object:
    """What a value of another library says: a count, a number or its text."""
    for read in (operator.index, float):
        try:
            return read(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, RuntimeError):
            continue
    return str(value)


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_foreign
).encode
