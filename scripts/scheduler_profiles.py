"""Writes charts/ballast/profiles/*.yaml: what `ballast profile` prints, with places that the chart fills in.

With `--check` it only tells whether the files are in step.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ballast.publishing.scheduler_profiles import (
    bin_packing_profile,
    crane_profile,
    extender_profile,
    labels_profile,
    trimaran_profile,
)

TARGET = Path(__file__).resolve().parent.parent / "charts" / "ballast" / "profiles"
SCHEDULER, PREFIX, URL, ZONE = "SCHEDULER-NAME", "LABEL-PREFIX", "http://BALLAST-ADDRESS", "CRANE-TIMEZONE"


def profiles() -> dict[str, str]:
    return {
        "labels": labels_profile(PREFIX, SCHEDULER),
        "extender": extender_profile(URL, SCHEDULER),
        "trimaran": trimaran_profile(URL, SCHEDULER),
        "crane": crane_profile(SCHEDULER, ZONE),
        "bin-packing": bin_packing_profile(SCHEDULER),
    }


def main() -> None:
    files = {TARGET / f"{name}.yaml": text for name, text in profiles().items()}
    if "--check" not in sys.argv[1:]:
        TARGET.mkdir(exist_ok=True)
        for path, text in files.items():
            path.write_text(text)
    elif any(not path.exists() or path.read_text() != text for path, text in files.items()):
        sys.exit("charts/ballast/profiles are out of step: run .venv/bin/python scripts/scheduler_profiles.py")


if __name__ == "__main__":
    main()
