import json
import os
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cudabench.report.timeline.html import Table, html
from cudabench.trace import Bar, Lane, Picture, Role, Span

EVIL = "<script>alert(1)</script> & \"'\x00\x1b[31m\ud800{{ 7 * 7 }}"
TABLE = Table("Iterations", ("mode", "read us"), (("both", "18.40"), ("neither", "8.20")))


def bar(start: float, end: float, label: str, role: Role) -> Bar:
    """In microseconds."""
    return Bar(Span(round(start * 1000), round(end * 1000)), label, role)


def iteration() -> Picture:
    """The clock stops before the kernel does."""
    host = (bar(0, 7, "first synchronize", Role.SYNCHRONIZE), bar(7, 15, "launch", Role.LAUNCH))
    clock = (bar(7, 15.2, "8.20 us", Role.TIMED),)
    device = (bar(-9, 3, "earlier", Role.OTHER), bar(16, 19.6, "add2", Role.KERNEL))
    lanes = (Lane("host", host), Lane("time.time", clock), Lane("device", device))
    return Picture("mode neither", "The clock stops first.", Span(-1_000, 24_000), lanes)


def crowd(count: int) -> Picture:
    bars = tuple(bar(i / 200, i / 200 + 0.004, f"add2 {i}", Role.KERNEL) for i in range(count))
    return Picture("many", "", Span(0, 20_000), (Lane("device", bars),))


class Page(HTMLParser):
    """What a page says, and its tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.said.append(data.strip())

    def styles(self, kind: str) -> list[str]:
        """The styles of the elements of a class."""
        found = (a for _, a in self.tags if kind in a.get("class", "").split())
        return [attributes["style"] for attributes in found if "style" in attributes]


def percents(style: str) -> tuple[float, float]:
    found = re.match(r"left: ([\d.]+)%; width: ([\d.]+)%", style)
    assert found
    return float(found[1]), float(found[2])


def test_all_that_is_said_is_there_as_text() -> None:
    page = Page(html([iteration()], [TABLE], "Title", ["A note.", "Another."]))
    labels = [one.label for lane in iteration().lanes for one in lane.bars]
    names = [lane.name for lane in iteration().lanes]
    cells = [*TABLE.header, *(cell for row in TABLE.rows for cell in row)]
    rest = ["mode neither", "The clock stops first.", "Title", "A note.", "Another.", "Iterations"]
    assert {*labels, *names, *cells, *rest} <= set(page.said)


def test_bars_stand_where_they_were() -> None:
    page = Page(html([iteration()], [], "Title", []))
    (start, width), (clock, read) = (percents(page.styles(kind)[0]) for kind in ("kernel", "timed"))
    assert start == pytest.approx(100 * 17 / 25)
    assert width == pytest.approx(100 * 3.6 / 25)
    assert clock + read < start


def test_what_reaches_out_is_clipped_and_marked() -> None:
    page = Page(html([iteration()], [], "Title", []))
    (style,) = page.styles("cut-left")
    assert percents(style) == pytest.approx((0, 100 * 4 / 25))


def test_a_tooltip_tells_the_label_the_start_and_the_length() -> None:
    page = Page(html([iteration()], [], "Title", []))
    tooltips = [attributes.get("title") for _, attributes in page.tags]
    assert "add2: from 17.0 us, for 3.60 us" in tooltips


def test_without_a_script_nothing_offers_to_zoom() -> None:
    page = Page(html([iteration()], [], "Title", []))
    buttons = [attributes for _, attributes in page.tags if attributes.get("class") == "buttons"]
    assert all("hidden" in attributes for attributes in buttons)
    assert "5 us" in page.said


def hostile() -> str:
    lane = Lane(EVIL, (bar(1, 2, EVIL, Role.LAUNCH), bar(3, 18, EVIL, Role.KERNEL)))
    picture = Picture(EVIL, EVIL, Span(0, 20_000), (lane,))
    return html([picture], [Table(EVIL, (EVIL,), ((EVIL,),))], EVIL, [EVIL])


def test_text_of_others_is_only_text() -> None:
    page = Page(hostile())
    hostile().encode()
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert sum("<script>alert(1)</script>" in said for said in page.said) >= 9
    assert "49" not in " ".join(page.said)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_it_loads_nothing() -> None:
    text = html([iteration()], [TABLE], "Title", [])
    page = Page(text)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    assert not any({"src", "href", "srcset"} & set(attributes) for _, attributes in page.tags)
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text


def test_the_text_grows_with_the_bars_and_no_faster() -> None:
    none, some, many = (len(html([crowd(n)], [], "Title", [])) for n in (0, 1000, 4000))
    assert many - none == pytest.approx(4 * (some - none), rel=0.1)


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), "")
browser = pytest.mark.skipif(not BROWSER, reason="needs Chromium")
# Posts the window's and the page's widths, and a timeline's at each step of a zoom.
PROBE = """
addEventListener("load", () => {
  const view = document.querySelector(".view"), width = () => view.scrollWidth;
  const press = key => view.parentElement.querySelector(`[data-key="${key}"]`).click();
  const widths = [width()];
  for (const key of "++-0") { press(key); widths.push(width()) }
  view.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
  widths.push(width());
  parent.postMessage({window: innerWidth, page: document.documentElement.scrollWidth, widths}, "*");
});
"""
FRAME = """<!DOCTYPE html><title></title>
<script>addEventListener("message", event => document.title = JSON.stringify(event.data))</script>
<iframe src="page.html" width="{width}" height="700" style="border: 0"></iframe>
"""


def browse(path: Path) -> tuple[str, list[str]]:
    """Return a page as the browser holds it once loaded, and what its console said."""
    ran = subprocess.run(
        [
            BROWSER,
            *("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000"),
            *("--window-size=1600,900", f"--user-data-dir={path.parent / 'profile'}"),
            path.as_uri(),
        ],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "HOME": str(path.parent)},
    )
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


def probed(page: str) -> str:
    """The page with the probe, which its policy then has to let run."""
    digest = b64encode(sha256(PROBE.encode()).digest()).decode()
    allowed = page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    return allowed.replace("</body>", f"<script>{PROBE}</script></body>")


@browser
def test_a_browser_has_nothing_to_complain_of(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(hostile(), encoding="utf-8")
    document, console = browse(page)
    assert console == []
    assert 'class="buttons" hidden' not in document


@browser
def test_no_script_but_its_own_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = html([iteration()], [], "Title", [])
    page.write_text(text.replace("</body>", "<script>document.title='ran'</script></body>"))
    document, console = browse(page)
    assert "<title>Title</title>" in document
    assert any("Content Security Policy" in line for line in console)


@browser
@pytest.mark.parametrize("width", [400, 1400])
def test_a_page_fits_its_window_and_its_timelines_zoom(width: int, tmp_path: Path) -> None:
    wide = Table("Wide", tuple(f"a long heading {i}" for i in range(30)), ())
    page = html([iteration(), crowd(1000)], [TABLE, wide], "Title " + "x" * 200, ["y" * 200])
    (tmp_path / "page.html").write_text(probed(page), encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(width=width), encoding="utf-8")
    document, console = browse(frame)
    found = re.search("<title>(.+)</title>", document)
    assert found, console
    seen = json.loads(found[1])
    assert seen["window"] == width
    assert seen["page"] <= width
    start, once, twice, back, whole, typed = seen["widths"]
    assert start < once < twice
    assert (back, whole, typed) == (once, start, once)
    assert console == []
