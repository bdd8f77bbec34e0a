"""The base model as far as rows need it: which revision it is, its tokenizer and its template.

Only ``load_tokenizer`` loads a library. The rest reads files, so that it takes a moment to know
that rows were tokenised before.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import RefusalError
from engine.prepare.prepared import Vocabulary
from engine.prepare.settings import hub_folder

_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*",
)
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
_SAMPLES, _SAMPLE_BYTES = 16, 4096  # of each file of weights
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    ImportError,
    RuntimeError,
)


class Revision(NamedTuple):
    """What identifies a base model and how it writes text."""

    commit: str  # of the hub, or a digest over the files of a folder
    tokenizer: dict[str, str]  # SHA-256 of each file of the tokenizer, the chat template's too


def revision(name: str) -> Revision | None:
    """The revision of a base model; None where it cannot be told from another.

    A folder is identified by its configuration and by size and samples of its weights, a name of
    the hub by the commit that the local cache has.
    """
    folder = Path(name)
    try:
        found = (folder, _folder_digest(folder)) if folder.is_dir() else _of_hub(name)
        if found is None or found[1] is None:
            return None
        return Revision(found[1], _tokenizer_files(found[0]))
    except (OSError, ValueError):  # a file that goes away meanwhile, a name that no file can have
        return None


def load_tokenizer(name: str) -> Any:
    """The tokenizer of the base model, with its chat template.

    Raises:
        RefusalError: it does not load, or it cannot do what the targets need.
    """
    from transformers import AutoTokenizer  # noqa: PLC0415 - takes seconds

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except _UNREADABLE as error:
        raise unloadable(name, "tokenizer") from error
    if not tokenizer.chat_template or not isinstance(tokenizer.chat_template, str):
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


def vocabulary(name: str, tokenizer: Any) -> Vocabulary:
    """What prepared rows are compared with."""
    known = revision(name)
    template = tokenizer.chat_template.encode()
    return Vocabulary(
        name=name,
        size=max(tokenizer.get_vocab().values()) + 1,
        start=tokenizer.bos_token_id,
        tokenizer=known.tokenizer.get("tokenizer.json") if known else None,
        chat_template=hashlib.sha256(template).hexdigest(),
    )


def unloadable(name: str, part: str) -> RefusalError:
    """The sentence for people; what the library said goes to the worker's log as its cause."""
    why = "" if Path(name).is_dir() else ": there is no such folder"
    return RefusalError(
        f"the {part} of the base model {name} cannot be loaded{why}; state in baseModel the folder "
        "of a complete causal language model in the form that transformers saves (config.json, "
        "tokenizer.json and *.safetensors)"
    )


def _of_hub(name: str) -> tuple[Path, str] | None:
    """The folder and the commit of a model that the hub's client has downloaded."""
    kept = hub_folder() / f"models--{name.replace('/', '--')}"
    main = kept / "refs" / "main"
    if not main.is_file():
        return None
    commit = main.read_text().strip()
    folder = kept / "snapshots" / commit
    return (folder, commit) if folder.is_dir() else None


def _folder_digest(folder: Path) -> str | None:
    """SHA-256 over what tells one model's folder from another's; None where that is not there."""
    weights = _files(folder, _WEIGHTS)
    if not weights or not (folder / "config.json").is_file():
        return None
    found = hashlib.sha256((folder / "config.json").read_bytes())
    for path in weights:
        found.update(f"\n{path.name} {path.stat().st_size}\n".encode())
        found.update(_sampled(path))
    return found.hexdigest()


def _sampled(path: Path) -> bytes:
    """Some parts of a large file, spread evenly: its weights change in all of them at once."""
    step = max(path.stat().st_size // _SAMPLES, _SAMPLE_BYTES)
    with path.open("rb") as file:
        parts = []
        for number in range(_SAMPLES):
            file.seek(number * step)
            parts.append(file.read(_SAMPLE_BYTES))
    return b"".join(parts)


def _tokenizer_files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in _files(folder, _TOKENIZER)
    }


def _files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for each in patterns for path in folder.glob(each) if path.is_file())
