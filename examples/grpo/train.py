"""GRPO as a trainer of one's own: a small model learns to answer with a product, and briefly.

TRL trains; only the lines with ``report`` belong to the ledger. Its grader tells every rollout when
it has scored it, which is before the update, so that what led to a bad one can be read even if the
training dies in it.
"""

import random
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from engine.client import Reporter, output_folder, read_plan

GENERATIONS = 4  # rollouts of a question
NEW_TOKENS = 12
BRIEF = 12  # characters
WEIGHTS = {"correct": 1.0, "brief": 0.25}

report = Reporter.from_environment()
plan = read_plan()
config = plan["config"]


class Grader:
    """The only reward: the weighted sum of its terms, each of which is told with the rollout."""

    __name__ = "score"

    def __init__(self) -> None:
        self.means: dict[str, float] = {}  # of each term in the newest update

    def __call__(
        self, prompts: list[Any], completions: list[Any], *, trainer_state: Any, **columns: Any
    ) -> list[float]:
        """Score rollouts: one number for each."""
        scored = list(map(_scored, prompts, completions, columns["answer"]))
        report.rollouts(trainer_state.global_step + 1, scored)
        self.means = {
            name: sum(each["terms"][name] for each in scored) / len(scored) for name in WEIGHTS
        }
        return [each["score"] for each in scored]


def _scored(prompt: Any, completion: Any, right: str) -> dict[str, Any]:
    """A rollout with what it gets: the weighted share of each term, and their sum."""
    text = completion[-1]["content"]
    gets = {"correct": right in text.replace(".", " ").split(), "brief": 0 < len(text) <= BRIEF}
    terms = {name: weight * gets[name] for name, weight in WEIGHTS.items()}
    return {
        "prompt": prompt,
        "completion": completion,
        "score": sum(terms.values()),
        "terms": terms,
    }


class Telling(TrainerCallback):
    """Tells each update, and heeds whoever wants this to end."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader

    def on_log(self, _args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Tell what TRL measured, under its own names."""
        if "loss" in logs:  # not the summary of the whole training
            report.step(state.global_step, logs, reward_terms=self._grader.means)
        control.should_training_stop |= report.stop_requested()


def questions() -> Dataset:
    """Products of small numbers, with their answers."""
    numbers = random.Random(config["seed"])
    pairs = [(numbers.randint(2, 9), numbers.randint(2, 9)) for _ in range(64)]
    return Dataset.from_list(
        [
            {
                "prompt": [{"role": "user", "content": f"What is {a} times {b}? Only the number."}],
                "answer": str(a * b),
            }
            for a, b in pairs
        ]
    )


grader = Grader()
trainer = GRPOTrainer(
    model=plan["baseModel"],
    reward_funcs=grader,
    args=GRPOConfig(
        output_dir=str(output_folder() / "trl"),
        learning_rate=config["learningRate"],
        max_steps=config["maxSteps"],
        per_device_train_batch_size=config["sequencesPerUpdate"],
        num_generations=GENERATIONS,
        max_completion_length=NEW_TOKENS,
        beta=config["klBeta"] or 0.0,
        seed=config["seed"],
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        bf16=False,
        gradient_checkpointing=False,
    ),
    train_dataset=questions(),
    peft_config=LoraConfig(r=config["lora"]["rank"], lora_alpha=config["lora"]["alpha"]),
    callbacks=[Telling(grader)],
)
report.training(total_steps=config["maxSteps"])
trainer.train()
if report.stop_requested():
    raise SystemExit(143)
trainer.save_model(str(output_folder() / "model"))
report.model(output_folder() / "model", step=trainer.state.global_step)
report.completed()
