"""Pages in a browser, on demand: no text is cut or lies on other text at two widths, and no serious barrier is found.

pytest -m thorough tests/report/test_layout.py          # needs Chromium; AXE_CORE=.../axe.min.js for the last one
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from adversary.report.kit import PAGE
from tests import commands
from tests.tables import DATA

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = os.environ.get("AXE_CORE", "")
WIDTHS = (1200, 390)
QUESTIONS = {
    "audit of one adversary": ("audit", f"{DATA}/granville_1940.toml"),
    "audit of several, exact totals": ("audit", f"{DATA}/districts_1940_total.toml"),
    "audit with a profile": ("audit", f"{DATA}/clinic_patients.toml"),
    "compare": ("compare", f"{DATA}/granville_1940.toml", f"{DATA}/granville_1940_bounded.toml"),
    "epsilon": ("epsilon", f"{DATA}/durham_infant_mortality.toml"),
    "invariants": ("invariants", f"{DATA}/town_table.toml"),
    "bounds": ("bounds", "--rho", "2.63"),
    "census": ("census", "scenario", "C"),
    "infer": ("infer", f"{DATA}/blood_lead.toml"),
}
pytestmark = [pytest.mark.thorough, pytest.mark.skipif(BROWSER is None, reason="no Chromium")]
MEASURE = """
const seen = [], page = frame.contentDocument, width = frame.clientWidth;
for (const one of page.querySelectorAll("details")) one.open = true;
const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode;
  if (!text.data.trim()) continue;
  const range = page.createRange();
  range.selectNodeContents(text);
  for (const box of range.getClientRects()) {
    if (box.width < 1 || box.height < 1) continue;
    const scrolls = text.parentElement.closest(".scroll") !== null;
    seen.push({text: text.data.trim().slice(0, 60), scrolls, left: box.left, right: box.right, top: box.top,
               bottom: box.bottom});
  }
}
const cut = seen.filter(one => !one.scrolls && (one.left < -1 || one.right > width + 1)).map(one => one.text);
const over = [];
seen.sort((a, b) => a.top - b.top);
for (let i = 0; i < seen.length; i++)
  for (let j = i + 1; j < seen.length && seen[j].top < seen[i].bottom - 4; j++)
    if (Math.min(seen[i].right, seen[j].right) - Math.max(seen[i].left, seen[j].left) > 3 &&
        Math.min(seen[i].bottom, seen[j].bottom) - Math.max(seen[i].top, seen[j].top) > 4 &&
        !(seen[i].scrolls || seen[j].scrolls))
      over.push(seen[i].text + " | " + seen[j].text);
const found = {wide: page.documentElement.scrollWidth - width, cut, over};
"""
BARRIERS = """
const script = frame.contentDocument.createElement("script");
script.textContent = document.getElementById("axe").textContent;
frame.contentDocument.head.append(script);
const all = await frame.contentWindow.axe.run(frame.contentDocument);
const found = all.violations.filter(one => ["serious", "critical"].includes(one.impact)).map(
  one => one.id + ": " + one.nodes.map(node => node.html).slice(0, 3).join(" "));
"""


@pytest.fixture(scope="module", params=QUESTIONS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("page")
    result = commands.run(*QUESTIONS[request.param], "--out", str(out), "--quiet")
    assert result.exit_code == 0, result.stderr
    return (out / PAGE).read_text(encoding="utf-8")


def asked(page: str, width: int, script: str, folder: Path, more: str = "") -> Any:
    """What a script finds in a page that is shown so wide."""
    shown = folder / "shown.html"
    frame = f'<iframe id="frame" style="border:0;width:{width}px;height:30000px" srcdoc="{html.escape(page)}"></iframe>'
    write = 'document.getElementById("found").textContent = JSON.stringify(found);'
    shown.write_text(
        f'<!DOCTYPE html><body style="margin:0">{more}<pre id="found"></pre>{frame}'
        f"<script>frame.onload = async () => {{ {script} {write} }}</script></body>",
        encoding="utf-8",
    )
    command = [
        str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000",
        "--window-size=1300,2000", "--dump-dom", shown.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=True)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found
    assert found[1], done.stderr[-500:]
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_is_cut_or_lies_on_other_text(page: str, width: int, tmp_path: Path) -> None:
    found = asked(page, width, MEASURE, tmp_path)
    assert found == {"wide": found["wide"], "cut": [], "over": []}
    assert found["wide"] <= 0


@pytest.mark.skipif(not AXE, reason="AXE_CORE names no file")
def test_no_serious_barrier_is_found(page: str, tmp_path: Path) -> None:
    library = Path(AXE).read_text(encoding="utf-8").replace("</script", "<\\/script")
    assert asked(page, 1200, BARRIERS, tmp_path, f'<script type="text/plain" id="axe">{library}</script>') == []
