"""A sample that is changed in one quasi-identifier and in nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from crenel.anonymity.model.policy import Shards
from crenel.evidence.replay import replay_outputs
from crenel.evidence.why.changed import one_level_up, without
from tests.evidence.test_replay import contains, sample_of, setting_of
from tests.support.example_counts import FEW
from tests.support.strategies import Case, cases


@FEW
@given(case=cases(), shards=st.sampled_from((1, 3)), data=st.data())
def test_without_an_attribute_all_others_and_the_shards_stay(case: Case, shards: int, data: st.DataObject) -> None:
    sample = sample_of(case.setting, case)
    names = [attribute.name for attribute in sample.policy.attributes]
    assume(len(names) > 1)
    name = data.draw(st.sampled_from(names))
    left = without(sample, name, Shards(shards))
    assert [a.name for a in left.policy.attributes] == [other for other in names if other != name]
    np.testing.assert_array_equal(left.shards(Shards(shards)), sample.shards(Shards(shards)))
    replayed = replay_outputs(left, setting_of(case, shards))
    contains(left, replayed)
    assert name not in replayed.outputs.released.column_names
    assert replayed.totals.tuples == len(sample)


@FEW
@given(case=cases())
def test_one_level_up_each_value_is_the_node_above_it(case: Case) -> None:
    sample = sample_of(case.setting, case)
    for i, attribute in enumerate(sample.policy.categorical):
        changed = one_level_up(sample, attribute.name, Shards())
        if changed is None:
            continue
        tree, coarse = attribute.hierarchy, changed.policy.categorical[i].hierarchy
        assert coarse.leaves < tree.leaves
        for leaf, node in zip(sample.tuples.categorical[:, i], changed.tuples.categorical[:, i], strict=True):
            label = coarse.labels[node]
            assert label in tree.paths()[leaf][:2]
            assert label != tree.labels[tree.root]
        contains(changed, replay_outputs(changed, setting_of(case)))
