"""Our words into the engine's: a plan as the arguments of TRL and peft, and what they became."""

from pathlib import Path
from typing import Any

from engine.worker.trl.facts import versions
from ledger.plan import Config, Lora, Plan

_SCHEDULES = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}


def sft_arguments(
    plan: Plan, *, folder: Path, on_gpu: bool, base_step: int = 0, rank_seconds: float = 0.0
) -> dict[str, Any]:
    """The arguments of ``SFTConfig``; the run begins at the trainer's step ``base_step``."""
    config, execution = plan.config, plan.execution
    micro = execution.micro_batch_sequences or 1
    together = micro * execution.devices
    return {
        "output_dir": str(folder),
        "learning_rate": config.learning_rate,
        "num_train_epochs": config.epochs or 1.0,  # maxSteps, where stated, goes before it
        "max_steps": base_step + config.max_steps if config.max_steps else -1,
        "per_device_train_batch_size": micro,
        "per_device_eval_batch_size": micro,
        "gradient_accumulation_steps": config.sequences_per_update // together,
        "max_length": config.max_seq_length,
        "seed": config.seed,
        "data_seed": config.seed,  # stated, the order of rows depends on nothing else
        "max_grad_norm": config.max_grad_norm,
        "weight_decay": config.weight_decay,
        "lr_scheduler_type": _SCHEDULES[config.schedule.kind],
        "warmup_steps": config.schedule.warmup_ratio,  # below 1: a share of all steps
        "gradient_checkpointing": config.model.gradient_checkpointing,
        "bf16": on_gpu and config.model.dtype == "bfloat16",
        "fp16": on_gpu and config.model.dtype == "float16",
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
        "eval_strategy": "no" if plan.validation is None else "steps",
        "eval_steps": None if plan.validation is None else plan.validation.every,
        "save_strategy": "no",  # saving.py decides
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # on, it would replace a NaN loss by an average
        "report_to": "none",
        "disable_tqdm": True,
        "dataset_kwargs": {"skip_prepare_dataset": True},  # our rows are tokens already
        **(_over_ranks(rank_seconds, on_gpu=on_gpu) if execution.devices > 1 else {}),
    }


def _over_ranks(rank_seconds: float, *, on_gpu: bool) -> dict[str, Any]:
    """The arguments beside those, where several ranks train."""
    return {
        "ddp_backend": "nccl" if on_gpu else "gloo",
        "ddp_timeout": max(1, round(rank_seconds)),  # as ranks.py has it
        "ddp_find_unused_parameters": False,  # every adapter weight is in every pass
        "average_tokens_across_devices": True,  # the loss is over the targets of all ranks
    }


def lora_arguments(lora: Lora) -> dict[str, Any]:
    """The arguments of ``LoraConfig``."""
    targets, alpha = lora.target_modules, lora.alpha
    return {
        "r": lora.rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,  # other loaders want a count
        "lora_dropout": lora.dropout,
        "target_modules": targets if isinstance(targets, str) else list(targets),
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }


def resolved(args: Any, model: Any, optimizer: Any) -> dict[str, Any]:
    """Everything that the engine made of the arguments, under its own names."""
    trainable, total = model.get_nb_trainable_parameters()
    inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
    return {
        **args.to_dict(),
        "peft": {name: _sorted(each) for name, each in model.active_peft_config.to_dict().items()},
        "trainable_parameters": trainable,
        "total_parameters": total,
        "optimizer": type(inner).__name__,
        "optimizer_defaults": dict(inner.defaults),
        "versions": versions(),
    }


def hyperparameters(plan: Plan, args: Any, *, total_steps: int) -> dict[str, Any]:
    """The plan's configuration with what the engine added to it, as flat names."""
    return {
        **_flat(plan.config),
        "microBatchSequences": args.per_device_train_batch_size,
        "accumulation": args.gradient_accumulation_steps,
        "devices": args.world_size,
        "totalSteps": total_steps,
        "warmupSteps": args.get_warmup_steps(total_steps),
        "optimizer": str(getattr(args.optim, "value", args.optim)),
        "adamBeta1": args.adam_beta1,
        "adamBeta2": args.adam_beta2,
        "adamEpsilon": args.adam_epsilon,
    }


def _flat(config: Config) -> dict[str, Any]:
    """Every stated or default value under its dotted wire name; absent ones are left out."""
    flat: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json", by_alias=True, exclude_none=True).items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            flat[name] = value
    return flat


def _sorted(value: Any) -> Any:
    """A set in one order for all processes."""
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
