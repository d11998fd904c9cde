"""OLA: full-domain generalization of a window, with one level per attribute."""
