import itertools
from collections.abc import Iterator

import promql_parser
import pytest

from ballast.settings import Settings
from ballast.telemetry import presets
from tests.unit.telemetry.fake_prometheus import settings

MATCHERS = ['cluster="east"', 'job=~"node.*|exporter"']


def texts(chosen: Settings) -> dict[str, str]:
    pods = {f"pod {name}": text for name, text in presets.pod_queries(chosen).items()}
    return {
        **presets.queries(chosen),
        **pods,
        **{f"pod hour of {name}": text for name, text in presets.pod_hour_queries(chosen).items()},
        "freshness": presets.freshness(chosen),
        "pod freshness": presets.pod_freshness(chosen),
    }


def every_combination() -> Iterator[Settings]:
    kinds = ("node-exporter", "kube-prometheus")
    for preset, matchers, speed, label in itertools.product(kinds, ([], MATCHERS), ({}, "10Gbit"), (None, "node")):
        yield settings(
            {"network_speed": speed, "node_label": label, "interval": "7s"}, {"preset": preset, "matchers": matchers}
        )


@pytest.mark.parametrize("chosen", list(every_combination()))
def test_every_text_is_promql(chosen: Settings) -> None:
    for text in texts(chosen).values():
        promql_parser.parse(text)


@pytest.mark.parametrize("chosen", list(every_combination()))
def test_matchers_enter_every_selector(chosen: Settings) -> None:
    for text in texts(chosen).values():
        selectors = list(selectors_of(promql_parser.parse(text)))
        assert selectors
        for selector in selectors:
            rendered = selector.prettify().replace(" ", "")
            assert all(matcher in rendered for matcher in chosen.prometheus.matchers), rendered


def selectors_of(node: object) -> Iterator[promql_parser.VectorSelector]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "args"):
        child = getattr(node, name, None)
        for one in child if isinstance(child, list) else [child]:
            if one is not None and not isinstance(one, str):
                yield from selectors_of(one)


@pytest.mark.parametrize("preset", ["node-exporter", "kube-prometheus"])
def test_every_answer_is_aggregated_by_node_and_cluster(preset: str) -> None:
    chosen = settings({"node_label": "node"}, {"preset": preset})
    for text in (*presets.queries(chosen).values(), presets.freshness(chosen)):
        assert text.startswith("max by (node, cluster, prometheus_replica, replica) (")


def test_the_age_is_asked_of_the_raw_metric_for_both_presets() -> None:
    for preset in ("node-exporter", "kube-prometheus"):
        text = presets.freshness(settings(prometheus={"preset": preset}))
        assert text == "max by (instance, cluster, prometheus_replica, replica) (timestamp(node_memory_MemTotal_bytes))"


def test_kube_prometheus_asks_recording_rules() -> None:
    text = presets.queries(settings(prometheus={"preset": "kube-prometheus"}))
    rule = "max by (instance, cluster, prometheus_replica, replica) (instance:node_cpu:ratio)"
    assert f"({rule} / (1 - " in text["cpu"]
    assert f" or {rule}) or label_replace(" in text["cpu"]
    used = "max by (instance, cluster, prometheus_replica, replica) (instance:node_memory_utilisation:ratio)"
    assert text["memory"].startswith(f"{used} or label_replace(")


@pytest.mark.parametrize(("interval", "window"), [("1s", "120s"), ("30s", "120s"), ("2m", "240s")])
def test_rates_span_two_scrapes(interval: str, window: str) -> None:
    assert f"[{window}]" in presets.queries(settings({"interval": interval}))["cpu"]


def test_link_speeds_are_only_asked_for_where_configured() -> None:
    assert "ballast_unit" not in presets.queries(settings())["network"]
    assert "ballast_unit" in presets.queries(settings({"network_speed": "1Gbit"}))["network"]
