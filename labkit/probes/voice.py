"""A language model's own texts during training, continuing one fixed beginning.

    p(next character) = softmax(logits / 0.7)        drawn with the probe's own seed

Every run continues the same beginning with the same seed, so two texts differ only by the models
that wrote them. No text is chosen. The training is the same with this probe as without it.
"""

from collections.abc import Callable

import torch
from torch import nn

from labkit.corpora import Corpus
from labkit.corpora.text import decode_tokens, encode_text
from labkit.model import Transformer
from labkit.probes.look import Watcher, require_transformer, untouched
from labkit.training import Observer

BEGINNING = "The state of the Union is"
CHARACTERS, TEMPERATURE, SEED = 110, 0.7, 1
STEPS = (0, 20, 100, 300, 800, 1600, 2400)  # updates before a text is written
LAST = "last"  # the trained model's text


def continue_text(model: Transformer, beginning: str, characters: int, seed: int = SEED) -> str:
    """Continue a text with the model's predictions; stop if a logit is not finite."""
    tokens = encode_text(beginning)
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    with untouched(model, training=False):
        for _ in range(characters):
            window = tokens[None, -model.config.context :].to(device)
            logits = model(window)[0, -1].float().cpu()
            if not logits.isfinite().all():
                break
            chosen = torch.multinomial((logits / TEMPERATURE).softmax(-1), 1, generator=generator)
            tokens = torch.cat([tokens, chosen])
    return decode_tokens(tokens[len(beginning) :])


class Voice(Watcher):
    """The model's texts by step of training: {"0": text, "20": text, …, "last": text}.

    Steps that were not reached are missing.
    """

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Let the model write a text at the chosen steps."""
        if step in self.steps:
            self.seen[str(step)] = self._write(model)

    def result(self, model: nn.Module) -> dict[str, str]:
        """Let the trained model write a last text."""
        return self.seen | {LAST: self._write(model)}

    def _write(self, model: nn.Module) -> str:
        return continue_text(require_transformer(model, self.name), BEGINNING, CHARACTERS)


PROBES: dict[str, Callable[[Corpus], Observer]] = {"voice": lambda corpus: Voice("voice", STEPS)}
