"""Privacy models: conditions that every release must satisfy, and the counts of persons that they need.

k-anonymity has code of its own, because algorithms form equivalence classes by it. All other models (``l`` and those
that a job adds) use a ``Tally``: the number of persons with each value of a sensitive column. A ``PrivacyModel`` record
describes a model. Compiled code uses ``checks`` to test a set of tuples, to measure its shortfall, and for the final
check before a release.
"""
