"""The sections of the page that is open, below its name in the list of pages.

A chapter of the site has no list of its sections beside the text, whose place its figures need.
"""

import re

OPEN = re.compile(r'(<li class="toctree-l1 current active"><a [^>]*>(?:(?!</a>).)*</a>)(</li>)')
SECTION = re.compile(r'<h2[^>]*>((?:(?!</h2>).)*?)<a class="headerlink" href="(#[^"]+)"', re.S)


def list_sections(page: str) -> str:
    """Add to a finished page's list of pages the sections of this one.

    A page stays as it is if it has no sections, if the list does not have this page, or if an
    earlier build has listed its sections.
    """
    items = [f'<li><a href="{to}">{words}</a></li>' for words, to in SECTION.findall(page)]
    if not items:
        return page
    listed = f'<ul class="labkit-sections">{"".join(items)}</ul>'
    return OPEN.sub(lambda found: f"{found[1]}{listed}{found[2]}", page, count=1)
