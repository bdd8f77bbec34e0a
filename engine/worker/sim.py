"""Sim: a scripted trainer without a model, for tests and for trying the product out.

``python -m engine.worker.sim`` carries out the instructions of its plan (``ledger.plan.SimStep``
lists them) one after the other and says ``completed`` after the last. Two runs of one plan say the
same numbers: loss is made up from step and seed.
"""

import hashlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from engine.client import Reporter, output_folder, read_plan

REFUSED, FAILED, STOPPED = 65, 70, 143

_LOOK_SECONDS = 0.02  # between two looks at the control file during a pause
_FIRST_LOSS = 2.0
_LOSS_DECAY_STEPS = 50.0

Instruction = dict[str, Any]


class Sim:
    """Carries out instructions; keeps which update was the last."""

    def __init__(self, plan: dict[str, Any], report: Reporter) -> None:
        self._config: dict[str, Any] = plan["config"]
        self._report = report
        self._last_step = 0

    def carry_out(self, instruction: Instruction) -> None:
        """Do what one instruction says."""
        action = next(name for name in _ACTIONS if instruction.get(name) is not None)
        if action != "steps":
            self._pause(instruction.get("seconds", 0.0))
        _ACTIONS[action](self, instruction)

    def _pause(self, seconds: float) -> None:
        """Wait, but end at once when a stop is requested."""
        end = time.monotonic() + seconds
        while True:
            if self._report.stop_requested():
                sys.exit(STOPPED)
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _LOOK_SECONDS))

    def _stage(self, said: Instruction) -> None:
        self._report.stage(said["stage"], completed=said.get("completed"), total=said.get("total"))

    def _training(self, said: Instruction) -> None:
        self._report.training(total_steps=said["training"] or None)

    def _steps(self, said: Instruction) -> None:
        for _ in range(said["steps"]):
            self._pause(said.get("seconds", 0.0))
            self._update(self._last_step + 1, said)

    def _step(self, said: Instruction) -> None:
        self._update(said["step"], said)

    def _update(self, step: int, said: Instruction) -> None:
        self._last_step = step
        self._report.step(
            step,
            self._made_up(step) | said.get("measured", {}),
            step_seconds=said.get("seconds", 0.0),
        )

    def _validation(self, said: Instruction) -> None:
        step = said["validation"]
        loss = _loss(step, self._config["seed"]) + 0.05
        self._report.validation(step, {"eval_loss": loss} | said.get("measured", {}))

    def _restore(self, said: Instruction) -> None:
        self._last_step = said["restore"]
        self._report.restore(said["restore"])

    def _snapshot(self, said: Instruction) -> None:
        folder = output_folder() / f"checkpoint-{said['snapshot']}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "adapter_model.safetensors").write_bytes(_tensors(said["snapshot"]))
        self._report.snapshot(said["snapshot"], folder, ["weights", "trainingState"])

    def _model(self, said: Instruction) -> None:
        if not said["model"]:
            return
        file = output_folder() / "model" / "adapter_model.safetensors"
        file.parent.mkdir(parents=True, exist_ok=True)
        content = _tensors(self._last_step)
        file.write_bytes(content)
        self._report.model(
            file,
            step=self._last_step,
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
        )

    def _silence(self, said: Instruction) -> None:
        self._pause(said["silence"])

    def _line(self, said: Instruction) -> None:
        self._report.line(said["line"])

    def _refuse(self, said: Instruction) -> NoReturn:
        self._report.refused(said["refuse"])
        sys.exit(REFUSED)

    def _crash(self, said: Instruction) -> NoReturn:
        how = said["crash"]
        if how in ("SIGKILL", "SIGTERM"):
            os.kill(os.getpid(), signal.Signals[how])
            signal.pause()  # the signal ends this process
        if how == "exit0":
            sys.exit(0)
        if how in ("deviceMemory", "hostMemory"):
            self._report.failed(how)
            sys.exit(FAILED)
        raise RuntimeError("the script of this run says that its trainer crashes here")

    def _made_up(self, step: int) -> dict[str, float]:
        """What an engine would have measured at ``step``."""
        seed, most = self._config["seed"], self._config["maxGradNorm"]
        grad_norm = 0.5 + 2.0 * math.exp(-step / 30.0) + 0.2 * _noise(step, seed, "grad_norm")
        adapter_norm = 1.0 + 0.01 * step
        learning_rate = self._config["learningRate"]
        return {
            "loss": _loss(step, seed),
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
    "model": Sim._model,
    "silence": Sim._silence,
    "line": Sim._line,
    "refuse": Sim._refuse,
    "crash": Sim._crash,
}


def _loss(step: int, seed: int) -> float:
    """A curve that falls as a loss does."""
    return _FIRST_LOSS * math.exp(-step / _LOSS_DECAY_STEPS) + 0.02 * _noise(step, seed, "loss")


def _noise(step: int, seed: int, name: str) -> float:
    """A number from 0 to 1 that depends on nothing but its arguments."""
    digest = hashlib.blake2b(f"{name} {seed} {step}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


def _tensors(step: int) -> bytes:
    """A safetensors file without tensors: the length of its header in 8 bytes, then the header."""
    header = json.dumps({"__metadata__": {"format": "pt", "step": str(step)}}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def main() -> None:
    """Carry out the plan; the exit code says how it ended."""
    report = Reporter.from_environment()
    plan = read_plan()
    sim = Sim(plan, report)
    try:
        for instruction in plan["engine"]["sim"]:
            sim.carry_out(instruction)
    except Exception:  # noqa: BLE001 - the outermost frame of a worker
        sys.excepthook(*sys.exc_info())
        report.failed()
        sys.exit(FAILED)
    report.completed()


if __name__ == "__main__":
    main()
