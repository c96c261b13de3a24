"""The way from a clone to correct labels is short, and the README's links work wherever it is shown."""

import importlib.util
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_shortest_path_to_labels_has_at_most_250_words() -> None:
    path = README[README.index("## On your cluster") : README.index("[docs/install]")]
    assert "ballast doctor" in path
    assert "settings.publishing.mode=on" in path
    assert len(path.split()) <= 250


def test_it_is_read_in_two_minutes() -> None:
    assert len(README.split()) <= 500


def test_links_are_absolute_where_the_package_is_shown() -> None:
    loader = SourceFileLoader("dist", str(ROOT / "scripts" / "dist"))
    spec = importlib.util.spec_from_loader("dist", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    text = module.absolute(README)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets
    assert all(target.startswith("https://") for target in targets)
    assert f"]({module.FILES}docs/images/page-moving.webp)" in text
    assert module.absolute("[a](#b) ![c](d.svg) [e](https://f)") == (
        f"[a](#b) ![c]({module.FILES}d.svg) [e](https://f)"
    )


def test_no_page_names_a_distribution_that_is_not_there() -> None:
    for page in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md"):
        assert "pip install kube-ballast" not in page.read_text(encoding="utf-8"), page
        assert "'kube-ballast[" not in page.read_text(encoding="utf-8"), page
