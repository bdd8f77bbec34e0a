"""Settings: what a worker's environment holds."""

import os

from engine.runner.job import Job

# What programs commonly need from the account that starts them. The runner's own settings and
# whatever else the server was started with stay outside.
_NAMES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"),
    *("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME"),
)
_PREFIXES = (
    *("LC_", "XDG_", "SSL_CERT_", "CUDA_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "OPENBLAS_"),
    *("TORCH_", "PYTORCH_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "TOKENIZERS_", "ACCELERATE_"),
    *("HTTP_", "HTTPS_", "NO_", "http_", "https_", "no_"),  # proxies
)


def worker_environment(job: Job) -> dict[str, str]:
    """Everything that the worker of ``job`` finds in its environment."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }
    return {
        **passed,
        "PYTHONUNBUFFERED": "1",
        **job.environment,
        "TRAINLEDGER_RUN": job.run,
        "TRAINLEDGER_ATTEMPT": str(job.attempt),
        "TRAINLEDGER_RANK": "0",
        "TRAINLEDGER_SPOOL": str(job.spool),
        "TRAINLEDGER_PLAN": str(job.plan),
        "TRAINLEDGER_OUTPUT": str(job.output),
        "TRAINLEDGER_CONTROL": str(job.control),
        "CUDA_VISIBLE_DEVICES": visible_devices(job.devices),
    }


def visible_devices(devices: tuple[str, ...]) -> str:
    """The numbers of the CUDA devices among ``devices``; none hides them all."""
    return ",".join(each.split(":", 1)[1] for each in devices if each.startswith("cuda:"))
