"""Experiments of l-diversity-enhanced SUHDSA (Sensors 2026, Section 4), with baselines.

Each figure, table or section of the paper has its command and its function here, in the order of the paper. The page is
docs/research/suhdsa.md.
"""

EXPERIMENTS = {
    "suhdsa-runtime": ("Table 2: run time of windows and baselines.", "1 min", "suhdsa.tables.results:runtime"),
    "suhdsa-loss": ("Table 3: loss in windows of 10 tuples.", "1 min", "suhdsa.tables.results:loss"),
    "suhdsa-grid": ("Section 4: loss of repair over k and window, with tests.", "2 min", "suhdsa.tables.results:grid"),
    "suhdsa-buffer": ("Table 3: loss by the tuples that a window holds.", "1 min", "suhdsa.tables.results:buffer"),
    "suhdsa-privacy": ("Table 4: releases with l values, and entropy.", "1 min", "suhdsa.tables.results:privacy"),
    "suhdsa-l": ("Table 5: cost of l = 2, 3 and 5.", "1 min", "suhdsa.tables.results:l"),
    "suhdsa-skew": ("Table 6: streams with one common income.", "1 min", "suhdsa.tables.results:skew"),
    "suhdsa-latency": (
        "Table 7: time from the end of a window to its releases.",
        "1 min",
        "suhdsa.tables.results:latency",
    ),
    "suhdsa-repair-cost": (
        "Table 7: time of a repair relative to grouping.",
        "1 min",
        "suhdsa.tables.results:repair-cost",
    ),
    "suhdsa-stress": ("Tables 8 and 9: skew, bursts and drift.", "1 min", "suhdsa.tables.results:stress"),
    "suhdsa-controller": ("Table 10: the repair controller.", "1 min", "suhdsa.tables.results:controller"),
    "suhdsa-target": ("Table 11: the adaptive target.", "1 min", "suhdsa.tables.results:target"),
    "suhdsa-window": ("Section 3.2: the adaptive window.", "1 min", "suhdsa.tables.results:window"),
    "suhdsa-policies": ("Algorithms 1 and A1: l_t by window and by group.", "2 min", "suhdsa.controllers.policies"),
    "suhdsa-delay": ("Section 3.2: windows by the p95 of the delay.", "1 min", "suhdsa.controllers.delays"),
    "suhdsa-disclosure": ("Table 12: readings of attribute disclosure.", "5 min", "suhdsa.disclosure.results"),
    "suhdsa-downstream": (
        "Sections 5.2 and 5.4: downstream tasks, and repairs by sex and race.",
        "3 min",
        "suhdsa.downstream.results",
    ),
    "suhdsa-sensitivity": ("Appendix A: repairs and time of windows.", "2 min", "suhdsa.sensitivity.results"),
}
"""As ``experiments.__main__.EXPERIMENTS``."""
