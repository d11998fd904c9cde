"""Experiments of CASTLE (Section 5), beside nearest, SUHDSA windows, Mondrian and dynamicGroup.

Each figure, table or section of the paper has its command and its function here, in the order of the paper. The page is
docs/research/castle.md.
"""

EXPERIMENTS = {
    "castle-arrival": ("Theorem 3: re-identification by order of arrival.", "20 s", "castle.arrival.results"),
    "castle-loss": (
        "Section 5: loss of CASTLE by k, l, delay and clusters.",
        "30 s",
        "castle.parameters.results",
    ),
    "castle-streams": ("Section 5: loss by clusters on five streams.", "2 min", "castle.parameters.streams"),
    "castle-clusters": ("Figure 4: loss by clusters and recent releases.", "1 min", "castle.losses.clusters"),
    "castle-attributes": ("Figure 5: loss by attributes and k, beside others.", "3 min", "castle.losses.attributes"),
    "castle-skew": ("Figure 6: loss by skew of the stream, beside others.", "10 min", "castle.losses.skew"),
    "castle-persons": ("Figure 7: loss by tuples per person, beside others.", "20 min", "castle.losses.persons"),
    "castle-records": ("Figure 7: loss by the arrival of a person's tuples.", "30 s", "castle.losses.records"),
    "castle-queries": ("Figure 8: error of COUNT queries, beside others.", "10 min", "castle.queries.results"),
    "castle-condensation": (
        "Figures 9 and 10: loss and query error beside dynamicGroup.",
        "10 min",
        "castle.queries.condensation",
    ),
}
"""As ``experiments.__main__.EXPERIMENTS``."""
