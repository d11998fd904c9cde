"""Grids of noise and of published ends, derived from the types of the source's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isclose
from typing import TypeVar

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.jobs.pipeline.sql_types import INTEGERS, SqlType

AnyNumeric = TypeVar("AnyNumeric", bound=Numeric)

INTEGER_STEP = 1.0
"""Step of an integer column without a configured step."""


def fill_steps(policy: Policy, types: Mapping[str, SqlType], *, noise: bool) -> tuple[Policy, list[str]]:
    """Return the policy with a step for each noised attribute, and problems of configured steps.

    ``types`` are by column; missing columns are skipped. ``noise``: whether quasi-identifiers are noised as well.
    """
    problems: list[str] = []
    if not noise and not policy.noised:
        return policy, problems

    def filled(attribute: AnyNumeric, because: str) -> AnyNumeric:
        sql = types.get(attribute.name)
        if sql is None:
            return attribute
        where = f"{attribute.place}.step"
        if attribute.step is not None:
            problems.extend(f"{where}: {problem}" for problem in _unfit(attribute.step, sql))
        elif sql.name in INTEGERS:
            try:
                return replace(attribute, step=INTEGER_STEP)
            except PolicyError as error:
                problems.append(str(error))
        else:
            problems.append(
                f"{where}: is missing; {because} draws noise on a grid, and a column of type {sql.text} "
                "needs one: give the least difference that means something, such as 0.1"
            )
        return attribute

    attributes = tuple(
        filled(attribute, "sampling_and_noise") if noise and isinstance(attribute, Numeric) else attribute
        for attribute in policy.quasi_identifiers
    )
    noised = tuple(filled(attribute, "noise_within_release") for attribute in policy.noised)
    return replace(policy, quasi_identifiers=attributes, noised=noised), problems


def unfit_ends(policy: Policy, types: Mapping[str, SqlType]) -> list[str]:
    """Return problems with the grids of published ends (``Numeric.ends``), given the types by column."""
    problems: list[str] = []
    for attribute in policy.numeric:
        sql = types.get(attribute.name)
        if attribute.ends is not None and sql is not None:
            problems.extend(f"{attribute.place}.ends: {problem}" for problem in _unfit(attribute.ends, sql))
    return problems


def _unfit(step: float, sql: SqlType) -> list[str]:
    if sql.name in INTEGERS and step != round(step):
        return [f"is not a whole number, and the column's type is {sql.text}; give a whole number, or leave it out"]
    parts = step * 10**sql.scale
    if sql.name == "DECIMAL" and not (round(parts) and isclose(parts, round(parts), rel_tol=1e-9)):
        return [f"is finer than the column's type, {sql.text}; give a multiple of {10**-sql.scale:.15g}"]
    return []
