"""The command ``crenel``.

It listens to signals before all else, as what it imports next takes a second; and it starts Java before that where the
command needs Flink, as that takes two.
"""

from __future__ import annotations

import sys

from crenel.jobs.local.stop import watch

_ON_FLINK = ("run", "demo", "check", "plan", "why", "regions", "forget")
"""Commands that need Flink where nothing is wrong with what they are given."""


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
