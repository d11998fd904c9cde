"""Experiments of CASTLEGUARD (Sections V and VI): loss on taxi trips, and quality of Pima for classifiers.

Each figure, table or section of the paper has its command and its function here, in the order of the paper. The page is
docs/research/castleguard.md.
"""

EXPERIMENTS = {
    "castleguard-scatter": (
        "Figure 3, Section IV-D: sampled and perturbed trips.",
        "10 s",
        "castleguard.scatter.results",
    ),
    "castleguard-loss": (
        "Sections VI-A and VI-B: loss by clusters and noise, on taxi.",
        "15 s",
        "castleguard.loss.results",
    ),
    "castleguard-quality": ("Section VI-C: classifiers on releases of Pima.", "3 min", "castleguard.quality.results"),
    "castleguard-fares": (
        "Section VII-A: noise on the sensitive number, and its budget.",
        "10 s",
        "castleguard.fares.results",
    ),
}
"""As ``experiments.__main__.EXPERIMENTS``."""
