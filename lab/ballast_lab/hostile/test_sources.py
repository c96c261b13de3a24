"""A source of telemetry that means harm takes neither memory nor time from those who ask the daemon."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ballast_lab.hostile.measuring import LIVEZ, P99, SLACK, attacked_by
from ballast_lab.hostile.source import MODES, source
from ballast_lab.hostile.victim import Victim

LASTS = 6.0


@pytest.mark.parametrize("mode", MODES)
def test_no_answer_of_a_source_takes_more_than_its_share(
    mode: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    with source(environment["BALLAST_PROMETHEUS__URL"]) as (server, url):

        def attack(of: Victim) -> None:
            server.mode = mode
            time.sleep(LASTS)
            server.mode = ""

        found = attacked_by(
            attack, {**environment, "BALLAST_PROMETHEUS__URL": url}, tmp_path, BALLAST_PROMETHEUS__TIMEOUT="2s"
        )
    told = f"{mode}: {found}"
    print(told)
    assert found.given_back, told
    assert found.bounded, told
    assert not found.failed, (told, found.failed[:5])
    assert found.p99 <= SLACK * P99, told
    assert found.livez <= SLACK * LIVEZ, told
