"""Figures of the book: numbers in, a `Figure` with alt text and caption out; no torch."""

from .bars import share_bars
from .cube import axes_cube
from .depth import by_depth
from .explorer import Explorer, explore
from .figure import Figure
from .geometry import sphere_projection
from .lines import curves
from .looks import look, looks
from .losses import loss_curves
from .maps import grid_map
from .norm_curves import norm_curves
from .pairs import paired
from .placement import placement_diagram
from .points import dots
from .ranking import ranking
from .roof import roof
from .slider import Slider, frames
from .sphere import sphere_paths
from .table import Table, table
from .xor import xor_points

__all__ = [
    "Explorer",
    "Figure",
    "Slider",
    "Table",
    "axes_cube",
    "by_depth",
    "curves",
    "dots",
    "explore",
    "frames",
    "grid_map",
    "look",
    "looks",
    "loss_curves",
    "norm_curves",
    "paired",
    "placement_diagram",
    "ranking",
    "roof",
    "share_bars",
    "sphere_paths",
    "sphere_projection",
    "table",
    "xor_points",
]
