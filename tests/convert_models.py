"""Small models of other libraries, built from configurations, for the conversion tests."""

import torch
from peers import hf, peer
from torch import nn

TOKENS = torch.randint(60, (2, 7), generator=torch.Generator().manual_seed(3))
SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
HEADS = {"intermediate_size": 48, "num_key_value_heads": 2, "head_dim": 8}


def gpt2():
    config = peer("transformers").GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4)
    return hf("gpt2").GPT2LMHeadModel(config)


def bert():
    return hf("bert").BertModel(peer("transformers").BertConfig(**SMALL, intermediate_size=48))


def llama():
    return hf("llama").LlamaForCausalLM(peer("transformers").LlamaConfig(**SMALL, **HEADS))


def gemma():
    return hf("gemma").GemmaForCausalLM(peer("transformers").GemmaConfig(**SMALL, **HEADS))


def t5():
    config = peer("transformers").T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4
    )
    return hf("t5").T5EncoderModel(config)


def vit():
    config = peer("transformers").ViTConfig(
        image_size=8, patch_size=4, hidden_size=32, intermediate_size=48,
        num_hidden_layers=2, num_attention_heads=4,
    )  # fmt: skip
    return hf("vit").ViTModel(config)


# model, class of its norms, how many, the norm of labkit that is the same function
MODELS = {
    "gpt2": (gpt2, "LayerNorm", 5, "layer"),
    "bert": (bert, "LayerNorm", 5, "layer"),
    "llama": (llama, "LlamaRMSNorm", 5, "rms-llama"),
    "gemma": (gemma, "GemmaRMSNorm", 5, "rms-gemma"),
    "t5": (t5, "T5LayerNorm", 5, "rms-t5"),
    "vit": (vit, "LayerNorm", 5, "layer"),
}


def run(model: nn.Module) -> torch.Tensor:
    """Run a Hugging Face model on a suitable input; return its first output."""
    if type(model).__name__ == "ViTModel":
        pixels = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(4))
        return model(pixel_values=pixels)[0]
    return model(input_ids=TOKENS)[0]


def draw(model: nn.Module, shifts: bool = True) -> nn.Module:
    """Assign distinct values to all gains and shifts; `shifts=False` leaves shifts at 0."""
    for module in model.modules():
        if "Norm" in type(module).__name__:
            for name, parameter in module.named_parameters(recurse=False):
                if shifts or name == "weight":
                    parameter.data += 0.3 * torch.rand_like(parameter)
    return model
