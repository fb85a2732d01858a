"""Who hears of events: any callable, and one that wants the detail says so."""

from __future__ import annotations

from disciple_ext.records.events import Event, Observer, ProgramPrinted, as_observer
from disciple_ext.trace.record import Recorder


def test_a_plain_callable_is_adapted_and_wants_no_detail() -> None:
    heard: list[Event] = []
    observer = as_observer(heard.append)
    observer(ProgramPrinted("hi"))
    assert heard == [ProgramPrinted("hi")]
    assert isinstance(observer, Observer) and not observer.detail


def test_an_observer_stays_what_it_is() -> None:
    recorder = Recorder()
    assert as_observer(recorder) is recorder and recorder.detail
    observer = as_observer(print)
    assert as_observer(observer) is observer


def test_an_object_with_the_attribute_is_an_observer_of_whatever_class() -> None:
    class Curious:
        detail = True

        def __call__(self, event: Event) -> None: ...

    curious = Curious()
    assert as_observer(curious) is curious
