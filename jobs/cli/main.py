"""Entry point of the command ``crenel``.

It installs signal handlers first, because the following imports take a second. Where the command needs Flink, it starts
Java before these imports, because that takes two seconds.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

_ON_FLINK = ("run", "demo", "check", "plan", "why", "regions", "forget")
"""Commands that need Flink if their arguments are valid."""

_NEEDED = ("pyflink", "psutil", "rich", "typer")
"""Packages that the extra 'flink' brings and the library works without."""

_NEWEST_PYTHON = (3, 12)
"""The newest Python for which the extra brings Flink (``pyproject.toml``)."""


def main() -> None:
    """Run the command line."""
    if not all(map(find_spec, _NEEDED)):
        is_newer = sys.version_info[:2] > _NEWEST_PYTHON
        remedy = ", and Flink needs Python 3.12 or older" if is_newer else ": install crenel with its extra 'flink'"
        print(f"crenel: the command needs Flink{remedy}", file=sys.stderr)
        sys.exit(2)  # 1 would be a verdict of ``verify``
    from crenel.jobs.local.stop import watch

    watch()
    if sys.argv[1:2] and sys.argv[1] in _ON_FLINK and "--help" not in sys.argv:
        from crenel.jobs.local.preload import begin_java

        begin_java()
    import crenel.jobs.cli.app  # noqa: F401 - adds its commands
    from crenel.jobs.cli.cli_common import app

    app()


if __name__ == "__main__":
    main()
