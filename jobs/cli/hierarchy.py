"""Implementation of ``crenel hierarchy``: writes a hierarchy of a policy as a hierarchy file."""

from __future__ import annotations

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.hierarchy import MISSING, csv_text
from crenel.anonymity.model.policy import Policy


class UnknownHierarchyError(InputError):
    """Error for an ambiguous or unknown hierarchy; the message lists the existing ones."""

    lead = " "


def hierarchy_text(policy: Policy, column: str | None = None) -> str:
    """Return the text of a hierarchy file that makes the same tree, without the leaf for missing values.

    Parameters
    ----------
    column : a categorical quasi-identifier; None: the only one

    Raises
    ------
    UnknownHierarchyError
        The policy has no such column, or no column is given and there is not exactly one.
    """
    trees = {attribute.name: attribute.hierarchy for attribute in policy.categorical}
    if not trees:
        raise UnknownHierarchyError("has no categorical quasi-identifier, so there is no hierarchy")
    if column is None and len(trees) > 1:
        raise UnknownHierarchyError(f"has several hierarchies; name a column: {', '.join(trees)}")
    tree = trees.get(column if column is not None else next(iter(trees)))
    if tree is None:
        raise UnknownHierarchyError(f"has no hierarchy of the column {column!r}; it has {', '.join(trees)}")
    return csv_text([path for path in tree.paths() if policy.missing == "reject" or path[0] != MISSING])
