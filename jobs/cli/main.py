"""Entry point of the command ``crenel``.

It installs signal handlers first, because the following imports take a second. Where the command needs Flink, it starts
Java before these imports, because that takes two seconds.
"""

from __future__ import annotations

import sys

from crenel.jobs.local.stop import watch

_ON_FLINK = ("run", "demo", "check", "plan", "why", "regions", "forget")
"""Commands that need Flink if their arguments are valid."""


def main() -> None:
    """Run the command line."""
    watch()
    if sys.argv[1:2] and sys.argv[1] in _ON_FLINK and "--help" not in sys.argv:
        from crenel.jobs.local.preload import begin_java

        begin_java()
    import crenel.jobs.cli.app  # noqa: F401 - adds its commands
    from crenel.jobs.cli.cli_common import app

    app()


if __name__ == "__main__":
    main()
