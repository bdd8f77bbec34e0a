"""The base model: its tokenizer and its weights, or a refusal that names its folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.worker.trl.errors import RefusalError
from engine.worker.trl.targets import TokenRow
from ledger.plan import Config

_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    ImportError,
    RuntimeError,
    SafetensorError,
)
_NAMED = 3  # tensors that a refusal names; the rest it counts


def load_tokenizer(name: str) -> Any:
    """The tokenizer of the base model, with its chat template.

    Raises:
        RefusalError: it does not load, or it cannot do what the targets need.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except _UNREADABLE as error:
        raise _refusal(name, "tokenizer") from error
    if not tokenizer.chat_template:
        raise RefusalError(
            f"the tokenizer of the base model {name} has no chat template; take an instruction "
            "model, or put a chat_template.jinja into its folder"
        )
    if not tokenizer.is_fast:
        raise RefusalError(
            f"the tokenizer of the base model {name} does not say where its tokens are in the "
            "text; put a tokenizer.json into its folder"
        )
    return tokenizer


def load_model(name: str, config: Config) -> Any:
    """The base model, every tensor of it from its files.

    Raises:
        RefusalError: it does not load, lacks tensors, or has no module that the plan adapts.
    """
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            name, dtype=getattr(torch, config.model.dtype), output_loading_info=True
        )
    except _UNREADABLE as error:
        if _is_memory(error):
            raise
        raise _refusal(name, "weights") from error
    if missing := sorted(info["missing_keys"]):
        raise RefusalError(
            f"the base model {name} lacks {len(missing)} of its tensors ({_few(missing)}); "
            "copy the folder again, whole"
        )
    _check_targets(name, model, config.lora.target_modules)
    return model


def check_vocabulary(name: str, model: Any, rows: Iterable[TokenRow]) -> None:
    """Refuse rows with a token that the model has no embedding for."""
    known = model.get_input_embeddings().num_embeddings
    highest = max(max(row.input_ids) for row in rows)
    if highest >= known:
        raise RefusalError(
            f"the tokenizer of the base model {name} made token {highest}, and its weights know "
            f"{known} tokens; the folder mixes two models"
        )


def _check_targets(name: str, model: Any, targets: str | tuple[str, ...]) -> None:
    """Refuse modules that the adapter would miss, or that the engine would not train."""
    if isinstance(targets, str):
        return
    modules = [path for path, _ in model.named_modules()]
    unknown = [each for each in targets if not _matches(each, modules)]
    if unknown:
        raise RefusalError(
            f"config.lora.targetModules names {_few(unknown)}, which the base model {name} does "
            "not have; name modules such as q_proj, or state all-linear"
        )
    if any(each.split(".")[-1] == "lm_head" for each in targets):
        raise RefusalError("config.lora.targetModules names lm_head, which cannot be adapted")


def _matches(target: str, modules: list[str]) -> bool:
    return any(path == target or path.endswith(f".{target}") for path in modules)


def _is_memory(error: Exception) -> bool:
    """Whether the machine, and not the folder, was too small."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def _refusal(name: str, part: str) -> RefusalError:
    """The sentence for people; what the library said goes to the worker's log as its cause."""
    why = "" if Path(name).is_dir() else ": there is no such folder"
    return RefusalError(
        f"the {part} of the base model {name} cannot be loaded{why}; state in baseModel the folder "
        "of a complete causal language model in the form that transformers saves (config.json, "
        "tokenizer.json and *.safetensors)"
    )


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
