# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# A zoo of placements

**Question.** What for?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace

from labkit.experiments import Experiment, Lab, claim, ladder, minus

# %%
lab = Lab("C_zoo", size=size, seed=seed, memory={"kernel": "900M", "run": "850M"})
sizes = lab.sizes(
    # smoke, book
    rung=("smoke", "S"),
)
rung = sizes.rung

# %%
looks = ("validation", "test", "attention", "gradient-profile", "residual-rms")
hot = replace(ladder.configure_run(ladder.build_base_run(rung, "post"), 0.0316, seed), probes=looks)
layouts = {
    "Post-Norm": {"model.recipe": "post"},
    "Post-Norm with QK-Norm": {"model.recipe": "post", "model.qk_norm": "qk rms"},
    "KEEL": {"model.recipe": "keel"},
}
stressed = lab.run(Experiment(hot, {"arm": layouts, "seed": lab.seeds(5)}))
