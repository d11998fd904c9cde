"""Groups of tests that run in one process of pytest-xdist, because they share a cluster.

The marker says so: ``cluster("mini")`` shares the process of many jobs, ``cluster("standalone")`` the standalone
cluster, and a file with a bare ``cluster`` has one of its own. All other tests go to a process that has time. The rest
an underscore divides a group that would take longer than all else: ``standalone_restores`` has a cluster of its own.

``--dist loadgroup`` does not do it: pytest-xdist 3.8 marks groups in a field that pytest 9.2 no longer reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_LONGEST = "standalone"
_LONG = {"test_site.py"}
"""Files outside groups whose tests could run alone at the end, because collection comes to them late."""

_COMPILING = {"tests/experiments/test_nearest.py"}
"""Files whose tests all need code that nothing compiles ahead: two processes would compile it at the same time."""

_MARKER = re.compile(r"mark\.cluster\b(?:\(\"(\w+)\"\))?")


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out tests one by one, and each group as a whole."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._of_file: dict[str, str | None] = {}

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path not in self._of_file:
            self._of_file[path] = path if path in _COMPILING else group_of(self.config.rootpath / path)
        return self._of_file[path] or nodeid


def group_of(file: Path) -> str | None:
    """Return the group of a file's tests, read from its text: the scheduler knows only names of tests."""
    found = _MARKER.search(file.read_text(encoding="utf-8"))
    return found and (found[1] or str(file))


def order() -> Callable[[pytest.Item], tuple[bool, bool, str, bool]]:
    """Return the sort key of a test: groups first, since they mostly wait and the others run beside them."""
    known: dict[Path, str | None] = {}

    def key(item: pytest.Item) -> tuple[bool, bool, str, bool]:
        group = known[item.path] if item.path in known else known.setdefault(item.path, group_of(item.path))
        return group is None, not (group or "").startswith(_LONGEST), group or "", item.path.name not in _LONG

    return key
