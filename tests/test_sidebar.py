"""The list of pages names the sections of the page that is open."""

from press.site.sidebar import list_sections

NAV = (
    '<li class="toctree-l1"><a href="03.html">3</a></li>\n'
    '<li class="toctree-l1 current active"><a class="current" href="#">4 · <i>QK</i></a></li>\n'
)
OTHER = "<h2> On this page </h2>"  # the theme's, without an address
HEADING = '<h2>Why <i>d</i> grows<a class="headerlink" href="#why" title="Link">#</a></h2>'


def test_the_open_page_has_its_sections_and_no_other_has():
    page = list_sections(f"{NAV}{OTHER}{HEADING}")
    listed = '<ul class="labkit-sections"><li><a href="#why">Why <i>d</i> grows</a></li></ul>'
    assert f'<a class="current" href="#">4 · <i>QK</i></a>{listed}</li>' in page
    assert page.replace(listed, "") == f"{NAV}{OTHER}{HEADING}"
    assert list_sections(page) == page  # the next build finishes the page again


def test_a_page_without_sections_or_outside_the_list_stays_as_it_is():
    for page in (NAV, HEADING, f"{NAV}<h2>Alone</h2>"):
        assert list_sections(page) == page
