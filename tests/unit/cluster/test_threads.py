import threading

from ballast.cluster.threads import going


def test_only_a_thread_that_ended_without_being_told_is_not_going() -> None:
    stop, release = threading.Event(), threading.Event()
    thread = threading.Thread(target=release.wait)
    assert going(None, stop)
    assert going(thread, stop)
    thread.start()
    assert going(thread, stop)
    release.set()
    thread.join()
    assert not going(thread, stop)
    stop.set()
    assert going(thread, stop)
