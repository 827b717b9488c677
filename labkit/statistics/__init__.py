"""Statistics of a handful of runs: intervals, tests, verdicts. One place for each of them.

criteria.py      "> 0", "in [0.9, 1.1]": what a claim promised
seeds.py         a mean over seeds: Student's t
proportions.py   k of n runs: Clopper and Pearson's interval; two such shares: Fisher's exact test
verdicts.py      holds, contradicted or not-seen; weak where one run decides
holm.py          p-values of many tests at once, adjusted
recorded.py      recorded claims: judged again; which of a chapter's findings survive Holm
"""
