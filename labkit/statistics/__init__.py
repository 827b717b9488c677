"""Statistics of a few runs: intervals, tests, verdicts, with one module for each.

criteria.py      "> 0", "in [0.9, 1.1]": the criterion of a claim
seeds.py         a mean over seeds: Student's t
proportions.py   k of n runs: Clopper and Pearson's interval; two proportions: Fisher's exact test
verdicts.py      holds, contradicted or not-seen; weak if one run decides
holm.py          p-values of many tests at once, adjusted
recorded.py      recorded claims: judged again; a chapter's findings that survive Holm
"""
