"""Answer one held-out message with the base model and with a trained adapter.

    python examples/answer.py --adapter PATH [--row 1]

PATH is the folder that a run registered as its model (``trainledger runs get RUN`` shows it).
"""

import argparse
import json
import logging
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / ".cache" / "models" / "smollm2-135m-instruct"
DATA = ROOT / "examples" / "triage" / "heldout.jsonl"
LONGEST_ANSWER = 48  # tokens


def main() -> None:
    """Print the message, its label, and one answer of each model."""
    options = parse_options()
    *asked, expected = json.loads(options.data.read_text().splitlines()[options.row - 1])[
        "messages"
    ]
    disable_progress_bar()
    logging.captureWarnings(capture=True)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)

    print(f"message         {asked[-1]['content']}")
    print(f"expected        {expected['content']}")
    print(f"base model      {reply(model, tokenizer, asked)}")
    if options.adapter is not None:
        adapted = PeftModel.from_pretrained(model, options.adapter)
        print(f"with adapter    {reply(adapted, tokenizer, asked)}")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=MODEL, help="folder of the base model")
    parser.add_argument("--adapter", type=Path, help="folder of a trained adapter")
    parser.add_argument("--data", type=Path, default=DATA, help="JSON lines of chat rows")
    parser.add_argument("--row", type=int, default=1, help="which row, from 1")
    return parser.parse_args()


def reply(model: Any, tokenizer: Any, asked: list[dict[str, str]]) -> str:
    """What ``model`` says, without chance, on one line."""
    prompt = tokenizer.apply_chat_template(
        asked, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    said = model.generate(**prompt, max_new_tokens=LONGEST_ANSWER, do_sample=False)
    text = tokenizer.decode(said[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    return " ".join(text.split())


if __name__ == "__main__":
    main()
