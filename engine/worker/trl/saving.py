"""The saving callback: which updates are saved, and how a pause ends the attempt.

A snapshot is taken when the trainer is done with an update: it was logged and, where that is due,
evaluated. Both are told to callbacks, so no member of the trainer is touched. A request to pause
does not wait for an evaluation that is still due; the snapshot then owes it, and the attempt that
goes on from there begins with it. So that this changes nothing else, the random numbers that an
evaluation draws are given back.
"""

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from transformers import TrainerCallback

from engine.client import Reporter
from engine.worker.trl import folders, rng, snapshots
from engine.worker.trl.errors import StoppedError
from engine.worker.trl.facts import Progress, Writer
from engine.worker.trl.ranks import Ranks
from engine.worker.trl.requests import Request, Requests
from ledger.plan import Execution

Artifact = Literal["weights", "trainingState"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Saver:
    """Writes snapshots and reports them."""

    def __init__(
        self,
        reporter: Reporter,
        folder: Path,
        *,
        beside: Mapping[str, bytes],
        writer: Writer,
        scaler: Any,
        ranks: Ranks,
    ) -> None:
        """``beside`` are the files that stand beside the weights, the same in every snapshot."""
        self._ranks = ranks
        self._reporter = reporter
        self._folder = folder
        self._beside = beside
        self._writer = writer
        self._scaler = scaler

    def save(
        self, state: Any, parts: Mapping[str, Any], *, progress: Progress, resumable: bool
    ) -> bool:
        """Save the newest update; false, and said so, where the disk does not take it.

        ``state`` is the trainer's, ``parts`` are its model, optimizer and lr_scheduler. All ranks
        call it, rank 0 writes, and all hear what became of it.
        """
        random = self._ranks.gather(rng.state()) if resumable else []
        is_saved = self._ranks.leads and self._write(state, parts, progress, random)
        return self._ranks.share(is_saved)

    def _write(
        self, state: Any, parts: Mapping[str, Any], progress: Progress, random: list[rng.State]
    ) -> bool:
        """Write and report a snapshot; one can go on from it where there are random numbers."""
        step, kinds = progress.step, artifacts(resumable=bool(random))
        try:
            folder = folders.write(
                self._folder / f"checkpoint-{step}", self._files(state, parts, progress, random)
            )
        except OSError as error:
            self._reporter.save_failed(step, reason(error))
            return False
        self._reporter.snapshot(
            step,
            folder,
            kinds,
            epoch=state.epoch,
            writer=self._writer.model_dump(mode="json", by_alias=True),
        )
        return True

    def _files(
        self, state: Any, parts: Mapping[str, Any], progress: Progress, random: list[rng.State]
    ) -> snapshots.Files:
        yield from snapshots.weights(parts["model"], self._beside)
        yield from snapshots.facts(self._writer)
        if random:
            yield from snapshots.training_state(
                state, parts, scaler=self._scaler, progress=progress, random=random
            )


class SaveSnapshots(TrainerCallback):  # type: ignore[misc]  # the library has no types
    """Saves when the plan says so and when somebody asks, and ends the training on request."""

    def __init__(
        self,
        saver: Saver,
        execution: Execution,
        *,
        requests: Requests,
        progress: Callable[[bool], Progress],
        begins: Progress,
    ) -> None:
        """``progress`` is called with whether a validation is still owed.

        ``begins`` is how far the run is already.
        """
        self.has_stopped = False
        self._saver = saver
        self._execution = execution
        self._requests = requests
        self._progress = progress
        self._begins = begins
        self._pause_failed = False
        self._random: rng.State = {}  # as of the newest update, while it is evaluated

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Nothing was made so far, so nothing needs saving."""
        self._end_if_asked()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The last moment before the first update."""
        if state.global_step == self._begins.engine_step:
            self._end_if_asked()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """An update was made and reported; maybe an evaluation follows."""
        if "loss" in logs:
            self._settle(state, control, kwargs, owes_validation=control.should_evaluate)
            self._random = rng.state() if control.should_evaluate else {}

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """An update was evaluated; the evaluation before the first update settles nothing."""
        if state.global_step > self._begins.engine_step:
            rng.put(self._random)
            self._settle(state, control, kwargs, owes_validation=False)

    def _settle(
        self, state: Any, control: Any, parts: Mapping[str, Any], *, owes_validation: bool
    ) -> None:
        """Do what is asked for, or save what is due and not to be evaluated first."""
        step = state.global_step - self._begins.base_step
        is_last = state.global_step >= state.max_steps
        request = None if is_last else self._request()
        is_due, resumable = due(step, self._execution, is_last=is_last)
        is_saved = False
        if request in ("pause", "end") or (request is None and is_due and not owes_validation):
            resumable |= request is not None
            progress = self._progress(owes_validation)
            is_saved = self._saver.save(state, parts, progress=progress, resumable=resumable)
        if request == "pause" and not is_saved:
            self._pause_failed = True  # the training goes on, whatever was asked for
        elif request or (is_saved and resumable and not is_last and self._request()):
            self.has_stopped = control.should_training_stop = True
            control.should_evaluate = False

    def _request(self) -> Request | None:
        """The newest request; a pause whose save failed is not tried again."""
        request = self._requests()
        self._pause_failed &= request == "pause"
        return None if self._pause_failed else request

    def _end_if_asked(self) -> None:
        if self._requests():
            raise StoppedError


def due(step: int, execution: Execution, *, is_last: bool) -> tuple[bool, bool]:
    """Whether ``step`` is to be saved, and if so, whether one can go on from there."""
    resumable = execution.resumable_save_every
    return (
        is_last or step % execution.save_every == 0,
        is_last or resumable is None or step % resumable == 0,
    )


def artifacts(*, resumable: bool) -> tuple[Artifact, ...]:
    """What a snapshot holds."""
    return ("weights", "trainingState") if resumable else ("weights",)


def reason(error: OSError) -> str:
    """Why a snapshot could not be written, for people."""
    if error.errno in _FULL:
        return "the disk that the snapshots are written to is full"
    return f"the files could not be written: {error.strerror or 'the disk did not take them'}"
