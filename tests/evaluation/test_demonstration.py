"""The demonstration: everything arrives within its tolerance, and both ends agree on what passed."""

from thinwire.evaluation.demonstration import Demonstration
from thinwire.ledger import from_document, to_document


def test_all_lanes_keep_their_promise_and_the_coarser_send_less():
    show = Demonstration(tolerances=(0.0, 0.5, 1.0), sources=2)
    show.run(400)
    show.finish()
    for lane in show.lanes:
        sent, taken = lane.rows
        assert lane.checker.kept
        assert sent.events == taken.events == 400
        assert sent.raw_bytes == show.raw_bytes
        assert sent.messages == taken.messages == sent.frames
        assert 0 < sent.frame_bytes < sent.link_bytes < show.raw_link_bytes
        assert (taken.error_max or 0) <= 1
    assert show.lanes[0].checker.worst == 0
    assert show.lanes[2].rows[0].frame_bytes < show.lanes[0].rows[0].frame_bytes


def test_the_ledger_can_be_read_back():
    show = Demonstration(tolerances=(1.0,), sources=1, run="night")
    show.run(30)
    show.finish()
    for row in show.rows:
        assert row.run == "night"
        assert from_document(to_document(row)) == row
