"""Figures of the book: numbers in, a `Figure` with alt text and caption out; no torch."""

from .bars import share_bars
from .cube import axes_cube
from .figure import Figure
from .lines import curves
from .looks import choose_look, choose_looks
from .maps import grid_map
from .norm_curves import norm_curves
from .pairs import paired
from .placement import placement_diagram
from .points import dots
from .ranking import ranking
from .roof import roof
from .runs import by_depth, loss_curves
from .slider import Slider, explore, show_frames
from .spheres import sphere_paths, sphere_projection
from .table import Table, table
from .xor import xor_points

__all__ = [
    "Figure",
    "Slider",
    "Table",
    "axes_cube",
    "by_depth",
    "choose_look",
    "choose_looks",
    "curves",
    "dots",
    "explore",
    "grid_map",
    "loss_curves",
    "norm_curves",
    "paired",
    "placement_diagram",
    "ranking",
    "roof",
    "share_bars",
    "show_frames",
    "sphere_paths",
    "sphere_projection",
    "table",
    "xor_points",
]
