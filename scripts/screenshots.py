"""Takes the pictures of docs/images from a running daemon: `scripts/screenshots.py [URL]`. Needs chromium."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from io import BytesIO
from pathlib import Path

from PIL import Image

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


MOVING, FRAMES, PERIOD = "page-moving", 25, 5.0
"""Frames of the moving picture, and seconds between them, from the start of the scene hotspot on."""


def moving(tab: Tab, url: str) -> None:
    """The wall cooling down, in a picture that moves; the reduced colours keep it small."""
    tab.look(960, 540)
    tab.open(f"{url}#wall?light")
    frames, never = [], threading.Event()
    for _ in range(FRAMES):
        frames.append(Image.open(BytesIO(tab.picture(kind="png"))).convert("RGB"))
        never.wait(PERIOD)
    body = BytesIO()
    frames[0].save(
        body,
        "WEBP",
        save_all=True,
        append_images=frames[1:],
        duration=[400] * (FRAMES - 1) + [2500],
        loop=0,
        quality=60,
    )
    store(MOVING, body.getvalue(), 4 * MOST)


def main() -> None:
    """One picture for each view, and one of the hottest node and a pod on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moving", action="store_true", help="the moving picture alone, of a demo that just began")
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:2020/", help="address of the page of a daemon")
    arguments = parser.parse_args()
    url = f"{arguments.url.rstrip('/')}/"
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, browser(Path(profile)) as tab:
        if arguments.moving:
            moving(tab, url)
            return
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
    store(name, tab.picture(kind="webp", quality=QUALITY), MOST)


def store(name: str, picture: bytes, most: int) -> None:
    """Raises SystemExit for more than `most` bytes."""
    if len(picture) > most:
        raise SystemExit(f"{name}: {len(picture):,} bytes are more than {most:,}")
    (IMAGES / f"{name}.webp").write_bytes(picture)
    sys.stdout.write(f"{name}.webp: {len(picture):,} bytes\n")


if __name__ == "__main__":
    main()
