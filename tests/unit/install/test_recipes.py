"""The values of each installation page are what the chart takes, and what Ballast understands."""

import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.unit.install.test_values import loaded
from tests.worlds.chart import MONITORING, ROOT, Helm, one

pytestmark = pytest.mark.slow

PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "install").glob("*.md")) if path.stem != "README"}
WANTED = {"eks", "gke", "aks", "openshift", "k3s", "kubeadm", "talos", "karpenter", "cluster-autoscaler", "argo-cd"}
WANTED |= {"flux", "keda", "kube-prometheus-stack", "victoriametrics", "grafana-cloud"}
OURS = ("monitoring.coreos.com/v1", "cert-manager.io/v1")


def values(page: str) -> dict[str, object]:
    [block] = re.findall(r"^```yaml\n(.*?)^```$", PAGES[page].read_text(), re.MULTILINE | re.DOTALL)
    found = yaml.safe_load(block)
    assert isinstance(found, dict)
    return found


def test_every_platform_and_neighbour_has_a_page_in_the_list() -> None:
    assert set(PAGES) == WANTED
    listed = (ROOT / "docs" / "install" / "README.md").read_text()
    assert [page for page in PAGES if f"({page}.md)" not in listed] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_chart_takes_the_values_of_the_page(helm4: Helm, page: str, tmp_path: Path) -> None:
    manifests = helm4.template(values(page), *MONITORING, "--kube-version", "1.36.3")
    for manifest in manifests:
        if manifest["apiVersion"] not in OURS:
            kubernetes_validate.validate(manifest, "1.36", strict=True)
    box = one(manifests, "Deployment", "ballast")["spec"]["template"]["spec"]["containers"][0]
    tokens = [each for each in box["env"] if "/var/run/secrets/" not in str(each.get("value"))]
    loaded({**box, "env": tokens}, tmp_path, manifests)
