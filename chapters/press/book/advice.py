"""What the book advises, row by row: situation, choice, the claims for it, those that limit it.

Only ids stand here. What the claims say is in data/ledger; see evidence.py.
"""

from press.book.evidence import Advice

ADVICE = (
    Advice(
        "you start a language model of ordinary depth",
        "Pre-Norm",
        (
            "02-post-needs-warm-up",
            "02-warm-up-is-not-always-enough",
            "00-norms-widen-the-range-of-rates",
        ),
        ("02-each-at-its-own-rate-they-tie", "02-late-pre-blocks-are-cheaper-to-remove"),
    ),
    Advice(
        "LayerNorm or RMSNorm?",
        "RMSNorm: the loss does not care, a kernel may",
        (
            "03-rms-equals-layer-on-text",
            "03-only-recentring-is-lost",
            "03-saved-operations-are-few",
        ),
        ("03-torch-rms-is-no-faster-on-a-cpu", "03-an-offset-hurts-rms"),
    ),
    Advice(
        "half precision",
        "statistics in float32, or in two passes",
        ("03-one-pass-bf16-breaks-training", "03-two-passes-and-rms-are-safe"),
        ("03-bf16-layer-is-harmless-on-ordinary-activations",),
    ),
    Advice(
        "high rates, or attention logits in the hundreds",
        "QK-Norm, or a soft cap",
        (
            "04-qk-norm-helps-at-a-high-rate",
            "04-qk-norm-logits-lag-the-rate",
            "04-soft-cap-helps-too",
        ),
        ("04-qk-norm-beats-the-soft-cap", "04-each-tuned-qk-norm-is-ahead"),
    ),
    Advice(
        "you must use Post-Norm",
        "warm-up, or small branches",
        ("02-post-needs-warm-up", "05-alpha-is-not-needed-here"),
        ("02-warm-up-is-not-always-enough",),
    ),
    Advice(
        "hundreds of blocks",
        "small branches first; DeepNorm's constants where the step is gradient descent's",
        ("05-update-is-bounded", "05-thousand-blocks-level-gradients"),
        ("05-deepnorm-beats-pre-each-tuned", "05-step-adam", "05-very-deep-training"),
    ),
    Advice(
        "images",
        "BatchNorm in large batches; GroupNorm or LayerNorm at two examples",
        ("01-bn-first-at-batch-128", "01-bn-fails-at-batch-2"),
        ("01-bn-wins-in-a-cnn-at-batch-2",),
    ),
    Advice(
        "BatchNorm in a causal model",
        "do not: it sees the future",
        ("01-batch-norm-leaks-the-future", "01-layer-norm-leaks-nothing"),
        ("01-lm-uses-the-leak", "01-lm-gap-when-tuned"),
    ),
    Advice(
        "a placement that promises less loss",
        "HybridNorm",
        ("06-each-at-its-own",),
        ("06-qkv-pre-ahead-of-the-star", "06-small-embeddings-make-the-lead"),
    ),
    Advice(
        "no statistics at all",
        "DyT",
        ("07-dyt-equals-layer-norm-on-text",),
        ("07-dyt-beats-no-norm", "07-trained-dyt-is-saturated"),
    ),
    Advice(
        "everything on the sphere",
        "nGPT",
        ("08-ngpt-ends-lower", "08-fewer-steps"),
        ("08-ladder-against-gpt", "08-ladder-against-qk-norm", "08-starting-values-decide"),
    ),
    Advice(
        "no norm at all",
        "small branches, and a careful rate",
        ("00-small-branches-need-no-norm",),
        ("00-norms-widen-the-range-of-rates", "01-lm-needs-a-norm"),
    ),
)
