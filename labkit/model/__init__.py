"""The transformer that every chapter trains: its description, its blocks and the whole model."""

from labkit.model.block import Block
from labkit.model.config import ModelConfig
from labkit.model.departures import DEPARTURES, Departure
from labkit.model.perturbed import Perturbed
from labkit.model.scaled_gradients import ScaledGradients
from labkit.model.transformer import Transformer
