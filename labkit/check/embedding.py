"""Use an embedding whose rows are normalized at each lookup: FixNorm."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.spec import Spec
from labkit.check.subject import Runner, Subject, names_of
from labkit.check.tensors import constructor_names


class Embedding(Subject):
    """An embedding, or its class; what the laws call x is its table, looked up row by row."""

    is_module = True
    has_running = takes_mask = False
    learned = ()

    def __init__(self, handed: Any, spec: Spec, given: Mapping[str, float]):
        self.handed, self.spec, self.given, self.missing = handed, spec, given, {}
        self.is_class = isinstance(handed, type)
        takes = constructor_names(handed) if self.is_class else []
        self.eps_name = next((n for n in names_of("eps", spec) if n in takes), "")
        self.sets = frozenset({"eps"} if self.eps_name else ())
        self.dim = None if self.is_class else handed.embedding_dim

    def expected(self, role: str, asked: Any, dtype: torch.dtype) -> Any:
        """Expect a module's own eps, as of other modules."""
        if self.is_class:
            return super().expected(role, asked, dtype)
        own = getattr(self.handed, role, None)
        return self.given.get(role, self.spec.settings[role][0] if own is None else own)

    def open(self, dim: int, dtype: torch.dtype, given: Mapping[str, Any]) -> "Lookup":
        """Keep what is needed to make an embedding for each table."""
        return Lookup(self, given)


class Lookup(Runner):
    """Put the rows of x into the table, then look each of them up."""

    def __init__(self, subject: Embedding, given: Mapping[str, Any]):
        self.subject, self.given, self.parameters = subject, given, {}

    def __call__(self, x: Tensor, training: bool = True, mask: Tensor | None = None) -> Any:
        """Run the embedding on the numbers of all its rows."""
        rows = x.reshape(-1, x.shape[-1])
        subject = self.subject
        if subject.is_class:
            named = {subject.eps_name: self.given["eps"]} if "eps" in self.given else {}
            module = subject.handed(*rows.shape, **named if subject.eps_name else {})
        else:
            module = subject.handed
        assert isinstance(module, nn.Module)
        module.train(training) if subject.is_class else None
        ids = torch.arange(len(rows)).reshape(x.shape[:-1])
        return torch.func.functional_call(module, {"weight": rows}, (ids,))

    def running(self) -> None:
        """Have none."""
        return None
