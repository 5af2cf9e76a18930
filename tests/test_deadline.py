"""What a deadline says about the time that is left."""

from monitor.boundary.deadline import Deadline


def test_a_deadline_that_has_passed_leaves_no_time():
    soon, past = Deadline.after(1e6), Deadline.after(-1)
    assert soon.remaining_s > 0 == past.remaining_s
    assert (soon.is_past, past.is_past) == (False, True)
