"""An attack that knows why a class was formed, checked by hand."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.attack.attack_data import Scene, groups
from crenel.evidence.attack.minimality import minimality
from crenel.evidence.attack.result import Tries
from crenel.evidence.replay import replay_outputs
from crenel.evidence.sample import ReplaySetting
from tests.evidence.attack.test_attacks import sample


def test_who_knows_why_a_group_was_formed_knows_more_of_its_members() -> None:
    """Return a stream with one possible cut, four to three, not made: one side lacks a second value."""
    people = sample([[1]] * 4 + [[99]] * 3, illness=["a", "b", "b", "b", "a", "a", "a"])
    setting = ReplaySetting(Mondrian(Window(7)), Privacy(2, 2))
    assert len(groups(Scene.of_replay(replay_outputs(people, setting), people)).size) == 1
    found = minimality(people, setting, 0, 1500, 10, np.random.default_rng(0))
    assert found.usual == Tries(7, 4.0)
    assert found.guessed == Tries(7, 6.0)
    assert found.deduced.count == 0  # the three have another value in four of five assignments
