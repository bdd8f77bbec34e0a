"""Sim: a scripted trainer without a model, for tests and for trying the product out.

``python -m engine.worker.sim`` carries out the instructions of its plan (``ledger.plan.SimStep``
lists them) one after the other and says ``completed`` after the last. Loss is made up from step and
seed: two runs of one plan say the same numbers, and so do two attempts of one run.

A snapshot keeps the place in the script, so an attempt that goes on from it carries out what comes
after that place and nothing before it.

The script is the story of the run that it was written for, so a branch does not play it. A branch
makes the updates of its budget, at the pace of the script's first ones, saves them as its plan
says, evaluates the last one and leaves a model. What depends on the weights (loss, adapter_norm)
goes on where the origin's was. All else begins anew in a branch of weights, and goes on as well in
one of training state, whose updates also say their ``engine_step``.
"""

import hashlib
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NoReturn

from engine.client import Reporter, attempt_number, branch_kind, output_folder, read_plan
from engine.worker import sim_state
from engine.worker.sim_state import State, UnfitError
from engine.worker.start import Start, start

REFUSED, FAILED, STOPPED = 65, 70, 143

_LOOK_SECONDS = 0.02  # between two looks at requests during a pause
_FIRST_LOSS = 2.0
_LOSS_DECAY_STEPS = 50.0
_AS_SCRIPTED = "the script of this run says that its trainer cannot save here"

Instruction = dict[str, Any]


class Sim:
    """Carries out a script, and does what this worker is asked for in between."""

    def __init__(
        self, plan: dict[str, Any], report: Reporter, *, attempt: int, is_branch: bool
    ) -> None:
        self._plan = plan
        self._config: dict[str, Any] = plan["config"]
        self._script: list[Instruction] = (
            _script_of_branch(plan) if is_branch else plan["engine"]["sim"]
        )
        self._report = report
        self._attempt = attempt
        self._state = State()
        self._is_saved = True  # the newest update; true as well where there is none
        self._saved_steps: list[int] = []
        self._next_pause_fails = self._pause_failed = self._is_terminated = False

    def terminate(self) -> None:
        """Save and end; safe inside a signal handler."""
        self._is_terminated = True

    def begin_from(self, begins: Start) -> None:
        """Take up what the snapshot holds.

        Raises:
            UnfitError: there is none of ours.
        """
        weights = sim_state.read_weights(begins.folder)
        parts: dict[str, Literal["exact", "differs"]] = {"adapter": "exact"}
        if begins.takes == "weights":
            self._state = State(learned=sim_state.updates_in(weights))
        else:
            saved = sim_state.read_state(begins.folder)
            if weights != saved.weights():
                parts["adapter"] = "differs"
            parts["dataPosition"] = "exact"
            self._state = saved if begins.takes == "resume" else saved.branch()
        self._report.restore_check(self._state.step, parts["adapter"], parts=parts)
        if self._state.training is not None:
            self._report.training(total_steps=self._state.training or None)

    def carry_out(self) -> None:
        """Do what is left of the script."""
        while self._state.instruction < len(self._script):
            instruction = self._script[self._state.instruction]
            if instruction.get("attempt") in (None, self._attempt):
                action = next(name for name in _ACTIONS if instruction.get(name) is not None)
                if action != "steps":
                    self._pause(instruction.get("seconds", 0.0))
                _ACTIONS[action](self, instruction)
            self._state = self._after_this()

    def _after_this(self) -> State:
        """The state with the present instruction done."""
        return replace(self._state, instruction=self._state.instruction + 1, updates=0)

    def _pause(self, seconds: float) -> None:
        """Wait, and answer requests at once."""
        end = time.monotonic() + seconds
        while True:
            self._heed_requests()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _LOOK_SECONDS))

    def _heed_requests(self) -> None:
        """End where that is asked for; a pause whose save fails is not tried again."""
        request = self._report.request()
        if request == "stop":
            sys.exit(STOPPED)
        if self._is_terminated:
            self._save_newest()
            sys.exit(STOPPED)
        if request is None:
            self._pause_failed = False
        elif not self._pause_failed:
            if self._save_newest():
                sys.exit(STOPPED)
            self._pause_failed = True

    def _save_newest(self) -> bool:
        """Save the newest update, unless it is saved; whether it is now."""
        if self._is_saved:
            return True
        if self._next_pause_fails:
            self._next_pause_fails = False
            self._report.save_failed(self._state.step, _AS_SCRIPTED)
            return False
        return self._save(self._state, is_resumable=True)

    def _save(self, state: State, *, is_resumable: bool) -> bool:
        """Write a snapshot that goes on from ``state``; false, and said so, where that fails."""
        again = self._saved_steps.count(state.step)  # a folder is the server's once it was named
        name = f"checkpoint-{state.step}" + (f"-{again + 1}" if again else "")
        partial = output_folder() / f"{name}.partial"
        try:
            sim_state.write(partial, state, is_resumable=is_resumable)
            folder = partial.rename(output_folder() / name)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            reason = error.strerror or "unknown"
            self._report.save_failed(state.step, f"the files could not be written: {reason}")
            return False
        self._saved_steps.append(state.step)
        self._report.snapshot(
            state.step,
            folder,
            ["weights", "trainingState"] if is_resumable else ["weights"],
            epoch=self._epoch(state),
            writer={
                "engine": "sim",
                "engineVersion": str(sim_state.FORMAT),
                "worldSize": self._plan["execution"]["devices"],
                "baseModel": self._plan["baseModel"],
            },
        )
        self._is_saved |= is_resumable and state.step == self._state.step
        return True

    def _is_resumable(self, step: int) -> bool:
        """Whether the plan wants training state in a snapshot of ``step``."""
        every = self._plan["execution"].get("resumableSaveEvery")
        return every is None or step % every == 0 or step == self._state.training

    def _epoch(self, state: State) -> float | None:
        """How often the rows were seen; None where nothing says how long the training is."""
        epochs: float | None = self._config["epochs"]
        if epochs is None or not state.training:
            return None
        return epochs * state.step / state.training

    def _stage(self, said: Instruction) -> None:
        self._report.stage(said["stage"], completed=said.get("completed"), total=said.get("total"))

    def _training(self, said: Instruction) -> None:
        self._state = replace(self._state, training=said["training"])
        self._report.training(total_steps=said["training"] or None)

    def _steps(self, said: Instruction) -> None:
        while self._state.updates < said["steps"]:
            self._pause(said.get("seconds", 0.0))
            self._state = replace(self._state, updates=self._state.updates + 1)
            self._update(self._state.step + 1, said)
            if self._state.step % said.get("saveEvery", math.inf) == 0:
                self._save(self._state, is_resumable=self._is_resumable(self._state.step))

    def _step(self, said: Instruction) -> None:
        self._update(said["step"], said)

    def _update(self, step: int, said: Instruction) -> None:
        self._state = replace(self._state, step=step)
        self._is_saved = False
        scored = [self._rollout(step, place) for place in range(said.get("rollouts", 0))]
        self._report.rollouts(step, scored)
        self._report.step(
            step,
            self._made_up(step) | said.get("measured", {}),
            reward_terms=_means(scored) if scored else None,
            step_seconds=said.get("seconds", 0.0),
        )

    def _rollout(self, step: int, place: int) -> dict[str, Any]:
        """What a model would have made of a prompt at ``step``: better ones the more it learned."""
        seed, learned = self._config["seed"], self._state.of_weights(step)
        luck = _noise(1_000 * learned + place, seed, "rollout")
        terms = {"correct": 1 - math.exp(-learned / _LOSS_DECAY_STEPS) * luck, "format": 0.1 * luck}
        question = f"What is {place + 1} times {step}?"
        return {
            "prompt": [{"role": "user", "content": question}],
            "completion": f"It is {(place + 1) * step}.",
            "score": sum(terms.values()),
            "terms": terms,
        }

    def _validation(self, said: Instruction) -> None:
        step = said["validation"]
        loss = _loss(self._state.of_weights(step), self._config["seed"]) + 0.05
        self._report.validation(step, {"eval_loss": loss} | said.get("measured", {}))

    def _restore(self, said: Instruction) -> None:
        self._state = replace(self._state, step=said["restore"])
        self._is_saved = said["restore"] == 0
        self._report.restore(said["restore"])

    def _snapshot(self, said: Instruction) -> None:
        step = said["snapshot"]
        self._save(replace(self._after_this(), step=step), is_resumable=self._is_resumable(step))

    def _partial(self, said: Instruction) -> None:
        folder = output_folder() / f"checkpoint-{said['partial']}.partial"
        folder.mkdir(parents=True)
        (folder / sim_state.WEIGHTS).write_bytes(sim_state.tensors(said["partial"])[:10])

    def _save_fails(self, said: Instruction) -> None:
        if said["saveFails"]:
            self._next_pause_fails = True
            self._report.save_failed(self._state.step, _AS_SCRIPTED)

    def _model(self, said: Instruction) -> None:
        if not said["model"]:
            return
        file = output_folder() / "model" / sim_state.WEIGHTS
        file.parent.mkdir(parents=True, exist_ok=True)
        content = self._state.weights()
        file.write_bytes(content)
        self._report.model(
            file,
            step=self._state.step,
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
        )

    def _silence(self, said: Instruction) -> None:
        self._pause(said["silence"])

    def _line(self, said: Instruction) -> None:
        self._report.line(said["line"])

    def _start_check(self, said: Instruction) -> None:
        if not self._plan["execution"].get("startChecks", True):  # older plans have no such field
            return
        check = said["startCheck"]
        verdict = self._report.start_check(
            check["name"],
            float(check["value"]),
            warn=float(check["warnLimit"]),
            refuse=float(check["refuseLimit"]),
            unit=check.get("unit"),
            seconds=said.get("seconds", 0.0),
        )
        if verdict == "refused":
            self._report.refused(
                f"the start check {check['name']} found {check['value']}, and its limit is "
                f"{check['refuseLimit']}; the script of this run says so"
            )
            sys.exit(REFUSED)

    def _refuse(self, said: Instruction) -> NoReturn:
        self._report.refused(said["refuse"])
        sys.exit(REFUSED)

    def _crash(self, said: Instruction) -> NoReturn:
        how = said["crash"]
        if how in ("SIGKILL", "SIGTERM"):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.Signals[how])
            signal.pause()  # the signal ends this process
        if how == "exit0":
            sys.exit(0)
        if how.endswith("Memory"):
            self._report.failed(how)
            sys.exit(FAILED)
        raise RuntimeError("the script of this run says that its trainer crashes here")

    def _made_up(self, step: int) -> dict[str, float]:
        """What an engine would have measured at ``step``."""
        seed, most = self._config["seed"], self._config["maxGradNorm"]
        engine_step, learned = self._state.of_engine(step), self._state.of_weights(step)
        noise = 0.2 * _noise(engine_step, seed, "grad_norm")
        grad_norm = 0.5 + 2.0 * math.exp(-engine_step / 30.0) + noise
        adapter_norm = 1.0 + 0.01 * learned
        learning_rate = self._config["learningRate"]
        counted = {"engine_step": engine_step} if self._state.base_step else {}
        return counted | {
            "loss": _loss(learned, seed),
            "grad_norm": grad_norm,
            "grad_clip_factor": min(1.0, most / grad_norm),
            "adapter_norm": adapter_norm,
            "update_ratio": learning_rate * grad_norm / adapter_norm,
            "learning_rate": learning_rate,
        }


_ACTIONS: dict[str, Callable[[Sim, Instruction], None]] = {
    "stage": Sim._stage,
    "training": Sim._training,
    "steps": Sim._steps,
    "step": Sim._step,
    "validation": Sim._validation,
    "restore": Sim._restore,
    "snapshot": Sim._snapshot,
    "partial": Sim._partial,
    "saveFails": Sim._save_fails,
    "model": Sim._model,
    "silence": Sim._silence,
    "line": Sim._line,
    "startCheck": Sim._start_check,
    "refuse": Sim._refuse,
    "crash": Sim._crash,
}


def _script_of_branch(plan: dict[str, Any]) -> list[Instruction]:
    """What a branch does instead of its plan's script."""
    total, every = plan["config"]["maxSteps"], plan["execution"]["saveEvery"]
    script: list[Instruction] = plan["engine"]["sim"]
    pace = next((each.get("seconds", 0.0) for each in script if "steps" in each), 0.0)
    return [
        {"training": total},
        {"steps": total, "saveEvery": every, "seconds": pace},
        {"validation": total},
        *([{"snapshot": total}] if total % every else []),
        {"model": True},
    ]


def _means(scored: list[dict[str, Any]]) -> dict[str, float]:
    """What each term gave to the reward, on average."""
    every = [each["terms"] for each in scored]
    return {name: sum(terms[name] for terms in every) / len(every) for name in every[0]}


def _loss(step: int, seed: int) -> float:
    """A curve that falls as a loss does."""
    return _FIRST_LOSS * math.exp(-step / _LOSS_DECAY_STEPS) + 0.02 * _noise(step, seed, "loss")


def _noise(step: int, seed: int, name: str) -> float:
    """A number from 0 to 1 that depends on nothing but its arguments."""
    digest = hashlib.blake2b(f"{name} {seed} {step}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


def main() -> None:
    """Carry out the plan; the exit code says how it ended."""
    report = Reporter.from_environment()
    try:
        _work(report)
    except UnfitError as error:
        report.refused(str(error))
        sys.exit(REFUSED)
    except Exception:  # noqa: BLE001 - the outermost frame of a worker
        sys.excepthook(*sys.exc_info())
        report.failed()
        sys.exit(FAILED)
    report.completed()


def _work(report: Reporter) -> None:
    """Carry out the plan."""
    sim = Sim(read_plan(), report, attempt=attempt_number(), is_branch=branch_kind() is not None)
    signal.signal(signal.SIGTERM, lambda *_: sim.terminate())
    begins = start()
    if begins is not None:
        sim.begin_from(begins)
    sim.carry_out()


if __name__ == "__main__":
    main()
