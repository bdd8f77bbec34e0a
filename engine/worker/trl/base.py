"""The base model: its weights, or a refusal that names its folder."""

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM

from engine.errors import RefusalError
from engine.prepare.base_model import unloadable
from engine.prepare.tokens import TokenRows
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
_VALUES = 4096  # of each tensor, at least, that its digest is made of


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
        raise unloadable(name, "weights") from error
    if missing := sorted(info["missing_keys"]):
        raise RefusalError(
            f"the base model {name} lacks {len(missing)} of its tensors ({few(missing)}); "
            "copy the folder again, whole"
        )
    _check_targets(name, model, config.lora.target_modules)
    return model


def check_vocabulary(name: str, model: Any, parts: Iterable[TokenRows]) -> None:
    """Refuse rows with a token that the model has no embedding for."""
    known = model.get_input_embeddings().num_embeddings
    highest = max(rows.highest() for rows in parts)
    if highest >= known:
        raise RefusalError(
            f"the tokenizer of the base model {name} made token {highest}, and its weights know "
            f"{known} tokens; the folder mixes two models"
        )


def digest(model: Any) -> str:
    """SHA-256 over name, kind and some values of every tensor; another model has another one.

    Some thousand values a tensor tell any two trainings of one architecture apart, and cost no
    time; where the files lie, and under which name, does not count.
    """
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // _VALUES)].cpu().contiguous()
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        found.update(some.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def few(names: list[str]) -> str:
    """The first few of ``names``, and how many more there are."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _check_targets(name: str, model: Any, targets: str | tuple[str, ...]) -> None:
    """Refuse modules that the adapter would miss, or that the engine would not train."""
    if isinstance(targets, str):
        return
    modules = [path for path, _ in model.named_modules()]
    unknown = [each for each in targets if not _matches(each, modules)]
    if unknown:
        raise RefusalError(
            f"config.lora.targetModules names {few(unknown)}, which the base model {name} does "
            "not have; name modules such as q_proj, or state all-linear"
        )
    if any(each.split(".")[-1] == "lm_head" for each in targets):
        raise RefusalError("config.lora.targetModules names lm_head, which cannot be adapted")


def _matches(target: str, modules: list[str]) -> bool:
    return any(path == target or path.endswith(f".{target}") for path in modules)


def _is_memory(error: Exception) -> bool:
    """Whether the machine, and not the folder, was too small."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)
