"""Experiments of (k, epsilon)-anonymity (Sections III, V, VI and VII), and the same noise on a stream.

Each figure, table or section of the paper has its command and its function here, in the order of the paper. The page is
docs/research/kepsilon.md.
"""

EXPERIMENTS = {
    "kepsilon-loss": ("Figure 1: loss with one more attribute.", "1 min", "kepsilon.loss.results"),
    "kepsilon-distribution": ("Figure 2: errors by kind of noise.", "1 min", "kepsilon.distribution.results"),
    "kepsilon-noise": (
        "Figures 3 to 6, Table IV: error, linking, suppression; kept in --out.",
        "20 min",
        "kepsilon.noise.results",
    ),
    "kepsilon-confidence": (
        "Figure 6: suppression by confidence, 70 to 99.999 %.",
        "2 min",
        "kepsilon.noise.confidences",
    ),
    "kepsilon-speed": ("Figures 7 and 8: run time of generalization and of noise.", "3 min", "kepsilon.speed.results"),
    "kepsilon-parts": (
        "Figures 7 and 8: search and program in the speed of OLA.",
        "2 min",
        "kepsilon.decomposition.results",
    ),
    "kepsilon-causes": ("Causes of differences from the paper.", "1 min", "kepsilon.causes.results"),
    "kepsilon-stream": ("Not in the paper: noise within releases on a stream.", "4 min", "kepsilon.stream.results"),
}
"""As ``experiments.__main__.EXPERIMENTS``."""
