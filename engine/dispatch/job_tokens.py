"""Job tokens: what the runner of a job reports with, good for that job alone."""

import hashlib
import hmac

from ledger.events import Job
from ledger.ledger import Ledger


class JobTokens:
    """Tokens that follow from a secret and a job, so that nothing has to remember them."""

    def __init__(self, ledger: Ledger, secret: bytes) -> None:
        self._ledger = ledger
        self._secret = secret

    def of(self, run_id: str, job: Job) -> str:
        """The token of one job of a run."""
        name = str(job.number) if job.kind == "attempt" else job.name
        return hmac.new(self._secret, f"{run_id}/{name}".encode(), "sha256").hexdigest()

    def sha256(self, run_id: str, job: Job) -> str:
        """What is kept of a token."""
        return hashlib.sha256(self.of(run_id, job).encode()).hexdigest()

    def admits(self, run_id: str, job: Job, token: str) -> bool:
        """Whether ``token`` is the one of this job."""
        return hmac.compare_digest(self.of(run_id, job).encode(), token.encode())

    def reporter(self, token: str) -> tuple[str, Job] | None:
        """The run and the open job whose token this is; None where it is that of none."""
        for run_id in self._ledger.open_runs():
            current = self._ledger.run(run_id).open_job
            if current is not None and self.admits(run_id, current.job, token):
                return run_id, current.job
        return None
