"""What the book advises, row by row: situation, choice, what speaks for it, and what limits it.

Only ids of claims and reports of papers stand here. What the claims say, and which of them are
left, is in data/ledger; see evidence.py.
"""

from press.book.evidence import Advice, Report

FOR_A_LARGE_MODEL = (
    Advice(
        "LayerNorm or RMSNorm?",
        "RMSNorm",
        (
            "03-pre-layer-becomes-pre-rms",
            "03-rms-equals-layer-on-text",
            Report(
                "narang2021",
                "Of some forty changes RMSNorm is among the few that help.",
                "T5, 220 M parameters",
            ),
        ),
        ("03-an-offset-hurts-rms",),
    ),
    Advice(
        "On the branch or on the stream?",
        "Pre-Norm, and a final norm",
        ("02-warm-up-is-not-always-enough", "02-post-needs-warm-up"),
        ("02-each-at-its-own-rate-they-tie", "02-late-pre-blocks-are-cheaper-to-remove"),
    ),
    Advice(
        "You get one try at the learning rate:",
        "QK-Norm: RMSNorm per head, its gain before the rotation",
        (
            "04-rms-allows-sharp-attention",
            "04-gain-before-rotation-sees-distances-only",
            "04-qk-norm-helps-at-a-high-rate",
            "04-each-tuned-qk-norm-is-ahead",
            Report(
                "wortsman2024",
                "Norms on queries and keys lower the sensitivity to the learning rate.",
                "language models of several sizes, 100,000 steps",
            ),
            Report(
                "dehghani2023",
                "Attention logits grow until training diverges; norms on queries and keys end it.",
                "vision, 8 B parameters",
            ),
        ),
        ("04-bare-unit-vectors-cannot-focus",),
    ),
    Advice(
        "Half precision:",
        "sums in float32 or two passes; gains stored as 1 + w, or in float32",
        (
            "03-a-gain-near-one-cannot-move",
            "03-one-pass-bf16-breaks-training",
            "03-two-passes-and-rms-are-safe",
        ),
        ("03-bf16-layer-is-harmless-on-ordinary-activations",),
    ),
    Advice(
        "The learning rate comes from a smaller model:",
        "μP in width, branches divided by the depth",
        (
            Report(
                "yang2022",
                "With μP a rate tuned on a narrow model suits a wide one.",
                "tuned at 40 M, used at 6.7 B parameters",
            ),
            Report(
                "dey2025",
                "With branches divided by the depth it suits a deep one, too.",
                "language models, to about 1.5 B parameters",
            ),
        ),
        (
            Report(
                "shigida2026",
                "nGPT as published does not carry its rate to other widths and token counts.",
                "language models, several sizes",
            ),
        ),
    ),
)
OTHERWISE = (
    Advice(
        "A placement that promises a lower loss:",
        "first enlarge small embeddings; else HybridNorm, compared with QKV-Pre",
        (
            "06-a-norm-on-the-stream-saves-small-tokens",
            Report(
                "zhuo2025",
                "HybridNorm ends below Pre-Norm, at one rate for both.",
                "550 M parameters, 400 B tokens",
            ),
        ),
        ("06-hybrid-behind-from-xavier",),
    ),
    Advice(
        "Latent attention, which forms no full keys at inference:",
        "QK-Clip, or norms on its latents",
        (
            "04-clip-lands-on-the-threshold",
            Report("kimi2025", "Pre-training with QK-Clip had no loss spike.", "1 T parameters"),
        ),
    ),
    Advice(
        "Hundreds of blocks:",
        "small branches; DeepNorm's constants are those of gradient descent",
        (
            "05-bound-is-one",
            "05-update-is-bounded",
            Report("wang2022", "A thousand layers train.", "translation, 1,000 layers"),
        ),
        ("05-step-adam",),
    ),
    Advice(
        "Everything on the sphere:",
        "nGPT, but against a GPT with QK-Norm",
        (
            Report(
                "loshchilov2025",
                "nGPT needs 4 to 20 times fewer steps than a GPT without QK-Norm.",
                "0.5 B and 1 B parameters",
            ),
        ),
        ("08-ladder-against-qk-norm",),
    ),
    Advice(
        "No statistics at all:",
        "DyT, its first α chosen by width",
        (Report("zhu2025", "DyT ends level with RMSNorm.", "LLaMA, 7 B to 70 B parameters"),),
        ("07-dyt-beats-no-norm",),
    ),
    Advice(
        "No norm at all:",
        "small branches, and a careful rate",
        ("00-small-branches-need-no-norm",),
        ("00-norms-widen-the-range-of-rates",),
    ),
    Advice(
        "Images, in a perceptron at two examples a step:",
        "LayerNorm, not BatchNorm",
        ("01-bn-fails-at-batch-2",),
        ("01-bn-wins-in-a-cnn-at-batch-2",),
    ),
    Advice(
        "BatchNorm in a causal model:",
        "do not: it sees the future",
        ("01-batch-norm-leaks-the-future", "01-layer-norm-leaks-nothing"),
    ),
)
ADVICE = FOR_A_LARGE_MODEL + OTHERWISE
