"""Takes the pictures of docs/images from a running daemon: `scripts/screenshots.py [URL]`. Needs chromium."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ballast_lab.harness.browser import Tab, browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"
QUALITY = 80
MOST = 200_000
"""Bytes of one picture."""

WIDTH, HEIGHT = 1280, 860
PICTURES = {
    "page-overview": ("#overview", False),
    "page-overview-dark": ("#overview", True),
    "page-nodes": ("#nodes?group=zone", False),
    "page-plan": ("#plans", False),
    "page-evictions": ("#evictions", False),
}


def main() -> None:
    """One picture for each view, and one of the hottest node and a pod on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:2020/", help="address of the page of a daemon")
    url = f"{parser.parse_args().url.rstrip('/')}/"
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, browser(Path(profile)) as tab:
        tab.look(WIDTH, HEIGHT)
        tab.open(f"{url}#overview")
        for name, (view, dark) in PICTURES.items():
            tab.look(WIDTH, HEIGHT, dark=dark)
            tab.go(view)
            save(tab, name)
        tab.look(WIDTH, HEIGHT)
        tab.go("#nodes")
        node = tab.text("#nodes tbody th a")
        tab.go(f"#nodes/{node}")
        tab.await_("document.querySelector('#node-title')")
        save(tab, "page-node")
        pod = tab.run("document.querySelector('#node-page a[href^=\"#pods/\"]').getAttribute('href')")
        tab.go(pod)
        tab.await_("document.querySelector('#pod-body .checks')")
        save(tab, "page-pod")


def save(tab: Tab, name: str) -> None:
    """Raises SystemExit for a picture that is too large."""
    picture = tab.picture(kind="webp", quality=QUALITY)
    if len(picture) > MOST:
        raise SystemExit(f"{name}: {len(picture):,} bytes are more than {MOST:,}")
    (IMAGES / f"{name}.webp").write_bytes(picture)
    sys.stdout.write(f"{name}.webp: {len(picture):,} bytes\n")


if __name__ == "__main__":
    main()
