"""Dispatch: starts the job of an attempt on a machine and sees what became of it."""
