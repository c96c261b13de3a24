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


CHANGING = re.compile(
    r"\b(rand\w+|gen(CA|Signed|SelfSigned|PrivateKey)\w*|uuidv4|now|lookup|IsInstall|IsUpgrade|Revision)\b"
)


def test_no_template_renders_what_differs_from_time_to_time() -> None:
    """A lookup decides about a hook that cleans up, and about words, but about no name, prefix or token."""
    found = {}
    for path in sorted((ROOT / "charts" / "ballast" / "templates").rglob("*.*")):
        code = re.sub(r"\{\{-? ?/\*.*?\*/ ?-?\}\}", "", path.read_text(), flags=re.DOTALL)
        actions = " ".join(re.findall(r"\{\{.*?\}\}", code, re.DOTALL))
        if words := {match[0] for match in CHANGING.finditer(re.sub(r'"[^"]*"', "", actions))}:
            found[path.name] = words
    assert found == {"cleanup.yaml": {"lookup"}, "NOTES.txt": {"lookup"}}


@pytest.mark.parametrize("page", PAGES)
def test_a_recipe_renders_alike_twice_and_for_an_upgrade(helm4: Helm, page: str) -> None:
    first = helm4.template(values(page), *MONITORING, "--kube-version", "1.36.3")
    assert helm4.template(values(page), *MONITORING, "--kube-version", "1.36.3", "--is-upgrade") == first
