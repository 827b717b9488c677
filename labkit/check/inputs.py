"""Draw the inputs of the laws: what shape, how large, with which parameters, from which seed."""

import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from labkit.check.case import Case
from labkit.check.spec import Shape, Spec
from labkit.check.subject import Subject


class Inputs:
    """Draw cases that the subject takes, with parameters that it has."""

    def __init__(self, subject: Subject, spec: Spec, seed: int):
        self.subject, self.spec, self.seed = subject, spec, seed
        self.dim = subject.dim or spec.dim
        takes = subject.ranks(self.dim)
        self.shapes = tuple(s for s in spec.shapes(self.dim) if takes(s))
        self.learned = subject.learned
        self.usual = {
            role: subject.given.get(role, values[0])
            for role, values in spec.settings.items()
            if role in subject.sets
        }
        self.groups = subject.groups or 3
        # A batch norm's state is float32, as in mixed precision; the two norms of a sum are not.
        self.mixed = spec.runs and bool(spec.learned)

    def generator(self, law: str) -> torch.Generator:
        """Make the law's own random stream, whatever ran before it."""
        return torch.Generator().manual_seed(zlib.crc32(f"{law} {self.seed}".encode()))

    def case(
        self,
        draw: torch.Generator,
        shape: Shape | None = None,
        about: str = "ordinary numbers",
        *,
        learned: Sequence[str] = (),
        scale: float = 1.0,
        offset: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> Case:
        """Draw an input whose statistics differ along every axis, and parameters to go with it."""
        shape = self.shapes[0] if shape is None else shape
        x = torch.randn(shape, generator=draw, dtype=torch.float64)
        for axis in range(x.ndim):
            along = [1] * x.ndim
            along[axis] = x.shape[axis]
            x = x * (0.6 + 0.8 * torch.rand(along, generator=draw, dtype=torch.float64))
            x = x + 0.5 * torch.randn(along, generator=draw, dtype=torch.float64)
        given: dict[str, Any] = dict(self.usual)
        for role, one in self.spec.learned.items():
            size = (shape[self.spec.formula.features],) if one.each else ()
            value = torch.randn(size, generator=draw, dtype=torch.float64) + one.centre
            if role in learned and role in self.learned:
                given[role] = value.to(self.parameter_dtype(dtype))
        if "num_groups" in self.spec.roles:
            given["num_groups"] = self.groups
        return Case((x * scale + offset).to(dtype), about, given)

    def large(self, draw: torch.Generator, dtype: torch.dtype = torch.float32) -> Case:
        """Draw more values than a fast path for small inputs takes, each unit well spread."""
        first, *rest = self.shapes[0] if len(self.shapes[0]) > 1 else (1, *self.shapes[0])
        shape = (-(-40_000 * first // math.prod(self.shapes[0])), *rest)
        plain = self.case(draw, shape, "many values", learned=self.learned, dtype=dtype)
        signs = sum(torch.meshgrid(*(torch.arange(n) for n in shape), indexing="ij")) % 2 * 2 - 1
        x = 0.3 * torch.randn(shape, generator=draw, dtype=torch.float64) + signs
        return replace(plain, x=x.to(dtype))

    @contextmanager
    def parameters(self, mixed: bool) -> Iterator[None]:
        """Hold parameters in float32 beside half-precision inputs for a while, or in theirs."""
        before, self.mixed = self.mixed, mixed
        try:
            yield
        finally:
            self.mixed = before

    def parameter_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Return which dtype parameters and running statistics have beside an input."""
        return torch.promote_types(dtype, torch.float32) if self.mixed else dtype
