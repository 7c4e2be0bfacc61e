"""Pages packed into columns are the pages that were put in."""

from hypothesis import given
from hypothesis import strategies as st

from crawld.model.page import Page, PageState
from crawld.model.shards import first_id
from crawld.pages import pages as packed_pages
from crawld.pages.pages import PackedPages
from tests.support.held_bytes import held_bytes

IDS = st.builds(lambda shard, number: first_id(shard) + number, st.integers(0, 3), st.integers(1, 20))
PAGES = st.builds(
    lambda page_id, host, path, scheme, weight: Page(page_id, f"{scheme}://{host}{path}", host, weight),
    IDS,
    st.sampled_from(["a.test", "b.test:8080", "[::1]:80"]),
    st.text(max_size=8).map(lambda rest: f"/{rest}"),
    st.sampled_from(["http", "https"]),
    st.floats(0.1, 9.0),
)
STATES = st.sampled_from([state for state in PageState if state is not PageState.RETIRED])
STEPS = st.one_of(
    st.lists(st.tuples(PAGES, STATES), max_size=6, unique_by=lambda put: put[0].id),
    st.sets(IDS),
    st.tuples(IDS, STATES),
)


@given(st.lists(STEPS, max_size=20))
def test_packed_pages_are_a_dictionary(steps: list[object]) -> None:
    """Pages come, change, go and come back, and what is read is what was written last."""
    packed, pages, states = PackedPages(), dict[int, Page](), dict[int, PageState]()
    for step in steps:
        match step:
            case list():
                packed.put([page for page, _ in step], [state for _, state in step])
                states = {page.id: state for page, state in step} | states
                pages |= {page.id: page for page, _ in step}
            case set():
                packed.remove(step)
                for page_id in step:
                    pages.pop(page_id, None)
                    states.pop(page_id, None)
            case (int(page_id), PageState() as state) if page_id in pages:
                packed.change_state(page_id, state)
                states[page_id] = state
        assert len(packed) == len(pages)
        assert {page.id: page for page in packed} == pages
        assert {page_id: packed.state(page_id) for page_id in packed.ids()} == states
        assert all((page_id in packed) == (page_id in pages) for page_id in range(25))


def test_urls_of_pages_that_went_take_no_room_for_long() -> None:
    """Once most of the buffer is nobody's, it is packed anew, and the other pages stay as they were."""
    packed, long = PackedPages(), "x" * 1000
    pages = [Page(number, f"https://a.test/{number}/{long}", "a.test") for number in range(1, 4001)]
    packed.put(pages, [PageState.LIVE] * len(pages))
    packed.remove(range(1, 3001))
    assert held_bytes(packed) < 1.1 * 1000 * 1010 + packed_pages.MAX_WASTE + 75 * len(pages)
    assert list(packed) == pages[3000:]
