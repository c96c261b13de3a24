from __future__ import annotations

import pytest

from ballast.errors import SettingsError
from ballast.settings import check_run, load

PROMETHEUS = {"BALLAST_PROMETHEUS__URL": "http://prometheus:9090"}


def test_the_defaults_can_run() -> None:
    check_run(load(PROMETHEUS))


def test_a_rewrite_is_a_map_of_patterns() -> None:
    settings = load({"BALLAST_TELEMETRY__NODE_REWRITE": '{"(.+)-metal": "$1"}'})
    assert settings.telemetry.node_rewrite == {"(.+)-metal": "$1"}
    with pytest.raises(SettingsError, match=r"NODE_REWRITE.*regular expressions"):
        load({"BALLAST_TELEMETRY__NODE_REWRITE": '{"(": "x"}'})
