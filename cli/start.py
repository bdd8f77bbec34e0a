"""Where the command ``trainledger`` begins; loading the rest takes a moment, and can be ended."""


def main() -> int:
    """Run one command and answer its exit code."""
    try:
        from cli.main import main as run  # noqa: PLC0415 (Ctrl-C while it loads is no failure)

        return run()
    except KeyboardInterrupt:
        from cli.errors import Exit  # noqa: PLC0415

        return Exit.INTERRUPTED
