from .attention import attention_maps
from .books import bookshelf
from .cube import axes_cube
from .explorer import block_explorer
from .figure import Figure
from .groups import dots, histograms, paired, share_bars
from .kernels import roof
from .lines import by_depth, curves, loss_curves
from .maps import grid_map
from .norm_maps import norm_curves, xor_points
from .panels import panels
from .placement import placement_diagram
from .shadow import shadow
from .slider import ClosedForm, Slider, explore
from .spheres import sphere_paths
from .tables import Table, table
from .trips import trips
from .turns import turns

__all__ = [
    "ClosedForm",
    "Figure",
    "Slider",
    "Table",
    "attention_maps",
    "axes_cube",
    "block_explorer",
    "bookshelf",
    "by_depth",
    "curves",
    "dots",
    "explore",
    "grid_map",
    "histograms",
    "loss_curves",
    "norm_curves",
    "paired",
    "panels",
    "placement_diagram",
    "roof",
    "shadow",
    "share_bars",
    "sphere_paths",
    "table",
    "trips",
    "turns",
    "xor_points",
]
