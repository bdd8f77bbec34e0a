"""The runner: starts the worker of one job, forwards what it says and sees how it ends.

``python -m engine.runner JOB_FOLDER`` is a small process of its own, so that a run goes on while
the server restarts. ``docs/reports.md`` describes what a worker may say.
"""
