"""Settings: what a worker's environment holds."""

import os
from collections.abc import Mapping

from engine.runner.job import Job

# What programs commonly need from the account that starts them. The runner's own settings and
# whatever else the server was started with stay outside.
_NAMES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"),
    *("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME"),
)
_PREFIXES = (
    *("LC_", "XDG_", "SSL_CERT_", "CUDA_", "NVIDIA_", "NCCL_", "GLOO_"),
    *("OMP_", "MKL_", "OPENBLAS_"),
    *("TORCH_", "PYTORCH_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "TOKENIZERS_", "ACCELERATE_"),
    *("HTTP_", "HTTPS_", "NO_", "http_", "https_", "no_"),  # proxies
)


def worker_environment(job: Job, *, rank: int = 0) -> dict[str, str]:
    """Everything that this rank of the worker of ``job`` finds in its environment."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }
    return {
        **(_among_others(job, rank) if job.ranks > 1 else {}),
        **passed,
        "PYTHONUNBUFFERED": "1",
        **job.environment,
        "TRAINLEDGER_RUN": job.run,
        f"TRAINLEDGER_{job.kind.upper()}": str(job.number),
        "TRAINLEDGER_RANK": str(rank),
        "TRAINLEDGER_SPOOL": str(job.spool_of(rank)),
        "TRAINLEDGER_PLAN": str(job.plan),
        "TRAINLEDGER_OUTPUT": str(job.output),
        "TRAINLEDGER_CONTROL": str(job.control),
        "TRAINLEDGER_SLOTS": ",".join(job.devices),
        "CUDA_VISIBLE_DEVICES": visible_devices(job.devices, job.uuids),
    }


def _among_others(job: Job, rank: int) -> dict[str, str]:
    """What a rank of several has to know beside that; its libraries know most of the names.

    The ranks meet in a file, so no port has to be chosen that somebody else might take meanwhile,
    and they listen on this machine's own interface alone: what they say to each other is not
    protected. Each has its share of the processors: with threads for all of them each, they would
    keep each other waiting.
    """
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(job.ranks),
        "LOCAL_WORLD_SIZE": str(job.ranks),
        "TRAINLEDGER_RENDEZVOUS": str(job.rendezvous),
        "TRAINLEDGER_RANK_SECONDS": str(job.rank_seconds),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // job.ranks)),
    }


def visible_devices(devices: tuple[str, ...], uuids: Mapping[str, str]) -> str:
    """The CUDA devices among ``devices``; none hides them all.

    Each by its UUID, where that is known: CUDA may number them otherwise than whoever found them.
    """
    cuda = [each for each in devices if each.startswith("cuda:")]
    return ",".join(uuids.get(each, each.split(":", 1)[1]) for each in cuda)
