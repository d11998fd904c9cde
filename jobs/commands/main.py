"""The command ``crenel``. It listens to signals before all else, as what it imports next takes a second."""

from __future__ import annotations

from jobs.local.stop import watch


def main() -> None:
    """Run the command line."""
    watch()
    import jobs.commands.cli  # noqa: F401 - adds its commands
    from jobs.commands.shell import app

    app()


if __name__ == "__main__":
    main()
