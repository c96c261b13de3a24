from typing import Any, cast

from ballast.cluster.watch import stop_all


def test_all_watches_are_told_to_end_before_any_is_waited_for() -> None:
    calls: list[str] = []

    class Watch:
        def end(self) -> None:
            calls.append("end")

        def join(self, patience: float) -> None:
            calls.append("join")
            assert 0 <= patience <= 1

    stop_all(cast(Any, [Watch(), Watch(), Watch()]))
    assert calls == ["end"] * 3 + ["join"] * 3
