"""One big run: token shards, many processes, checkpoints that resume to the same curve.

labkit tokens DIR
labkit train --data DIR --out RUN --recipe 'hybrid*' --size 151M

Chapters train many small models (labkit.training, labkit.experiments); this trains one large one,
under torchrun where it is more than one process. Its loss, optimizer and schedule are theirs.
"""
