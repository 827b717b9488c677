"""Configuration of a transformer, checked when it is made; it builds the model."""

from dataclasses import dataclass

from labkit.model.description import Description
from labkit.model.rules import check_config
from labkit.model.transformer import Transformer


@dataclass(frozen=True)
class ModelConfig(Description):
    """Configuration of a transformer; invalid values are refused when it is made."""

    def __post_init__(self) -> None:
        check_config(self)

    def build(self) -> Transformer:
        """Make the model, drawing its weights from torch's current random state."""
        return Transformer(self)
