"""A cloudy day under an absolute budget."""

from ballast_lab.bench.clouds import EACH, lived


def test_a_cloudy_morning_stays_within_the_feed_and_uses_it() -> None:
    run = lived(1, hours=3)
    assert run.over.share <= 0.01
    assert run.over.watt_hours <= 5
    assert run.unused / EACH / 3 <= 2
    assert run.actions <= 250
