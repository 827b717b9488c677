"""A block that is a module, with parameters of its own, as the subject of an exam."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from labkit.check.blocks.axes import first_axis, misfit, refuse, sees_nothing
from labkit.check.blocks.call import parameters, role_of
from labkit.check.blocks.design import Case, Design, Out, reference
from labkit.check.blocks.exam import Exam
from labkit.check.blocks.forward import call
from labkit.check.blocks.halves import unit
from labkit.check.blocks.modes import without_dropout
from labkit.check.blocks.names import find
from labkit.check.blocks.neutral import neutral_designs
from labkit.check.blocks.reading import Reading, flattened, readings, values
from labkit.check.blocks.search import Search
from labkit.check.blocks.slopes import COLUMNS, slopes, tangent
from labkit.check.case import Broken, Untested
from labkit.model.config import ModelConfig


class ModuleExam(Exam):
    """A copy of the module in float64, its parameters drawn at random, read as a design's slots."""

    form, has_modes = "module", True

    def __init__(
        self,
        given: nn.Module,
        recipe: str,
        config: ModelConfig | None,
        index: int | None,
        seed: int,
        tries: int = 3000,
        depth: int | None = None,
    ):
        super().__init__(recipe, seed, tries)
        self.original, self.free = given, config is None
        self.module = copy.deepcopy(given).to(device="cpu", dtype=torch.float64).eval()
        for p in self.module.parameters():
            p.requires_grad_(True)
        refuse(given)
        self.found = find(self.module)
        self.remembers = any(isinstance(m, _BatchNorm) for m in self.module.modules())
        self.initial = {
            n: p.detach().abs().mean().item() for n, p in self.module.named_parameters()
        }
        self.batch_first = True
        misfit(given, self.found.dim, config)
        listed = parameters(self.module.forward) or []
        known = {"context", "angles", "cos_sin", "cos", "prev", "second", "mask", "entry"}
        self.roles = {r for p in listed[1:] if (r := role_of(p.name, known))}
        designs = neutral_designs(self, recipe, config, index, depth)
        self.design = designs[0]
        self._fill(self.generator("weights"))
        self.weights: dict[str, Tensor] = {}
        self._settle(designs)

    # --- parameters ---

    @torch.no_grad()
    def _fill(self, draw: torch.Generator) -> None:
        """Draw every parameter, so that no two gains are alike and none is 1."""
        for name, p in self.module.named_parameters():
            noise = torch.randn(p.shape, generator=draw, dtype=p.dtype)
            last = name.rpartition(".")[2].lower()
            if name in self.found.loose:
                p.zero_()
            elif p.ndim >= 2 and p.numel() > max(p.shape):
                p.copy_(noise * 1.2 / max(self.found.dim, min(p.shape[-2:])) ** 0.5)
            elif name in self.found.biases.values() or last in ("bias", "beta", "b", "shift"):
                p.copy_(noise * 0.3)
            elif "alpha" in name and p.numel() > 1:
                p.copy_((0.5 + noise.abs()) * noise.sign())
            elif "alpha" in name:
                p.copy_(0.4 + 0.5 * noise.abs())
            else:
                p.copy_(0.5 + torch.rand(p.shape, generator=draw, dtype=p.dtype))

    @torch.no_grad()
    def write(self, slot: str, value: Tensor, reading: Reading | None = None) -> None:
        """Set one slot."""
        piece = (reading or self.reading).slots[slot]
        own, start = dict(self.module.named_parameters()), 0
        for name, index in piece.parts:
            part = value[start : start + len(index)] if len(piece.parts) > 1 else value
            flat = own[name].reshape(-1)
            flat[index.flatten()] = part.flatten()
            own[name].copy_(flat.view(own[name].shape))
            start += len(index)

    def _to_sphere(self, reading: Reading) -> None:
        for slot in ("q", "k", "v", "gate", "up", *COLUMNS):
            if slot in reading.slots:
                w = values(reading, flattened(self.module))[slot]
                self.write(slot, unit(w.T).T if slot in COLUMNS else unit(w), reading)

    def _settle(self, designs: list[Design]) -> None:
        """Choose, among what a recipe leaves open, the choice that fits what comes."""
        self.reading = next(readings(self.found, designs[0], 1))
        if self.design.inside.sphere:
            self._to_sphere(self.reading)
        self.weights = values(self.reading, flattened(self.module))
        try:
            search = Search(self, designs)
        except Broken as broken:
            self.refused = broken.message
            return
        match = search.right()
        if match is None and (told := sees_nothing(search) or first_axis(self, designs)):
            self._cause = told
            return
        match = match or search.wrong(self.tries)
        self._cause = ""
        if match is not None:
            self.design, self.reading, self._cause = match
            self.weights = values(self.reading, search.flat)
        if self.free and self.design.inside.causal != designs[0].inside.causal:
            self.notes.append(
                "it sees later tokens, as an encoder's block may; a config of kind decoder refuses "
                "that"
            )

    # --- runs ---

    def case(
        self, draw: torch.Generator, about: str = "ordinary numbers", *, batch: int = 2,
        time: int = 5, scale: float = 1.0, silent: tuple[str, ...] = (),
    ) -> Case:  # fmt: skip
        """Draw tokens that differ in size and in mean; on the sphere, unit vectors."""
        i = self.design.inside
        x = torch.randn(batch, time, self.found.dim, generator=draw, dtype=torch.float64)
        x = x * (0.6 + torch.rand(batch, time, 1, generator=draw, dtype=torch.float64)) + 0.3
        x = unit(x) if i.sphere else x * scale
        r = torch.randn(x.shape, generator=draw, dtype=x.dtype)
        prev = torch.randn(batch, i.heads, time, time, generator=draw, dtype=x.dtype)
        dual, chain = any(h.second for h in self.design.sides), bool(i.chain)
        takes = self.roles & {"context", "second"}
        return Case(
            x, about, r if dual and takes else None,
            prev if chain and self.roles & {"context", "prev"} else None, silent,
        )  # fmt: skip

    def run(self, case: Case) -> Out:
        """Run the module on a copy of the case."""
        with torch.no_grad():
            silenced = self._silence(case.silent)
            try:
                return self.call(self.module, case)
            finally:
                for p, before in silenced:
                    p.copy_(before)

    def _silence(self, silent: tuple[str, ...]) -> list[tuple[nn.Parameter, Tensor]]:
        kept = [(p, p.detach().clone()) for p in self.module.parameters()] if silent else []
        for side in silent:
            name = "out" if side == "attention" else "down"
            for slot in (name, f"{name}.bias"):
                if slot in self.reading.slots:
                    self.write(slot, torch.zeros_like(self.weights[slot]))
        return kept

    @contextmanager
    def in_training(self) -> Iterator[None]:
        """Run a copy in training mode meanwhile, without its dropout."""
        kept, self.module = self.module, copy.deepcopy(self.module).train()
        without_dropout(self.module)
        try:
            yield
        finally:
            self.module = kept

    def call(self, module: nn.Module, case: Case, x: Tensor | None = None) -> Out:
        """Call a copy of the module; `x` itself is passed where it is given."""
        return call(module, self.design, case, case.x.clone() if x is None else x, self.batch_first)

    def run_on(self, case: Case, x: Tensor) -> Out:
        """Run the module on this very tensor."""
        return self.call(self.module, case, x=x)

    def run_in(self, case: Case, dtype: torch.dtype) -> Tensor:
        """Run a copy in another precision."""
        module = copy.deepcopy(self.module).to(dtype)
        with torch.no_grad():
            return self.call(module, case, x=case.x.to(dtype)).stream

    def truth(self, case: Case, design: Design | None = None) -> Out:
        """Evaluate the reference on the module's own weights, with silenced ones at 0."""
        if not self.weights:
            raise Untested()
        return reference(design or self.design, self._silenced(self.weights, case), case)

    def _silenced(self, weights: Mapping[str, Tensor], case: Case) -> dict[str, Tensor]:
        names = {"attention": "out", "feed-forward": "down"}
        silent = [names[side] for side in case.silent]
        return {
            slot: w * 0 if slot.removesuffix(".bias") in silent else w
            for slot, w in weights.items()
        }

    def gradients(self, case: Case) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Differentiate all that comes by x, the other inputs and every slot."""
        own = dict(self.module.named_parameters())
        wanted, causal = self.truth(case), self.design.inside.causal
        made = slopes(
            lambda one: self.call(self.module, one, x=one.x), case, wanted, own,
            self.generator("slopes"), causal,
        )  # fmt: skip
        flat = {n: made[n].flatten() for n in own}
        actual = {n: g for n, g in made.items() if n not in own}
        actual |= {slot: piece.read(flat) for slot, piece in self.reading.slots.items()}
        leaves = {slot: w.clone().requires_grad_(True) for slot, w in self.weights.items()}
        expected = slopes(
            lambda one: reference(self.design, leaves, one), case, wanted, leaves,
            self.generator("slopes"), causal,
        )  # fmt: skip
        if self.design.inside.sphere:
            return tangent(actual, self.weights), tangent(expected, self.weights)
        return actual, expected
