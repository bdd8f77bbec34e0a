"""The worker that trains with TRL: ``python -m engine.worker.trl`` inside an attempt."""
