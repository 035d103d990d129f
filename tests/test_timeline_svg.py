import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from cudabench.report.timeline.svg import svg
from cudabench.trace import Bar, Lane, Picture, Role, Span

NAMESPACE = "{http://www.w3.org/2000/svg}"
EVIL = "<script>alert(1)</script> & \"'\x00\x08\x1b[31m\ud800\uffff"


def bar(start: float, end: float, label: str, role: Role) -> Bar:
    """In microseconds."""
    return Bar(Span(round(start * 1000), round(end * 1000)), label, role)


def pictured(*bars: Bar, caption: str = "") -> Picture:
    return Picture("A title", caption, Span(0, 20_000), (Lane("device", bars),))


def parsed(*pictures: Picture) -> Element:
    return ElementTree.fromstring(svg(pictures, "Title of all"))


def bars_of(root: Element) -> Iterator[tuple[str, str]]:
    """Yield the path and the tooltip of each bar."""
    for path in root.iter(f"{NAMESPACE}path"):
        title = path.find(f"{NAMESPACE}title")
        if title is not None:
            yield path.attrib["d"], title.text or ""


def texts(root: Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{NAMESPACE}text")]


def extent(path: str) -> tuple[float, float]:
    """Where a bracket's line starts and ends."""
    start, end = path.split("H")[:2]
    return float(start[1:].split()[0]), float(end.split("M")[0])


def test_bars_are_proportional_to_what_they_last() -> None:
    root = parsed(pictured(bar(0, 5, "a", Role.TIMED), bar(5, 20, "b", Role.TIMED)))
    (start, middle), (also_middle, end) = sorted(extent(path) for path, _ in bars_of(root))
    assert middle == also_middle
    assert (middle - start) * 3 == pytest.approx(end - middle, abs=0.5)


def test_a_tooltip_tells_the_label_the_start_and_the_length() -> None:
    root = parsed(pictured(bar(9, 12.6, "add2", Role.KERNEL)))
    assert [tooltip for _, tooltip in bars_of(root)] == ["add2: from 9.00 us, for 3.60 us"]


def test_all_that_is_said_is_there_as_text() -> None:
    pictures = [pictured(bar(2, 4, f"label {i}", Role.LAUNCH), caption=f"c{i}") for i in range(3)]
    said = texts(parsed(*pictures))
    for i in range(3):
        assert f"label {i}" in said
        assert f"c{i}" in said
    assert said.count("A title") == 3
    assert "Title of all" in said


def test_pictures_stand_below_one_another() -> None:
    root = parsed(*(pictured(bar(1, 2, f"label {i}", Role.LAUNCH)) for i in range(3)))
    heights = [
        float(text.attrib["y"])
        for text in root.iter(f"{NAMESPACE}text")
        if (text.text or "").startswith("label")
    ]
    assert heights == sorted(set(heights))
    assert float(root.attrib["height"]) > heights[-1]


def test_text_of_others_is_only_text() -> None:
    hostile = Picture(EVIL, EVIL, Span(0, 20_000), (Lane(EVIL, (bar(1, 2, EVIL, Role.LAUNCH),)),))
    document = svg([hostile], EVIL)
    document.encode()
    root = ElementTree.fromstring(document)
    assert not list(root.iter(f"{NAMESPACE}script"))
    assert sum("<script>alert(1)</script>" in text for text in texts(root)) >= 3


def test_it_needs_nothing_from_elsewhere_and_has_a_dark_side() -> None:
    document = svg([pictured(bar(1, 2, "add2", Role.KERNEL))], "Title")
    assert "prefers-color-scheme: dark" in document
    assert document.count("http") == 1  # the name space
    assert not any(word in document for word in ("url(", "@import", "@font-face", "href="))


def test_all_that_is_drawn_is_within_the_sheet() -> None:
    root = parsed(pictured(bar(-5, 30, "long", Role.LAUNCH), bar(19.99, 20, "end", Role.KERNEL)))
    numbers = [
        float(text)
        for path, _ in bars_of(root)
        for command in path.replace("Z", "").replace("L", "M").replace("H", "M").split("M")
        if (text := command.split()[0] if command else "")
    ]
    assert min(numbers) >= 0
    assert max(numbers) <= float(root.attrib["width"])


def test_the_text_grows_with_the_bars_and_no_faster() -> None:
    def length(count: int) -> int:
        bars = (bar(i / 200, i / 200 + 0.003, "add2", Role.KERNEL) for i in range(count))
        return len(svg([pictured(*bars)], "Title"))

    none, some, many = length(0), length(1000), length(4000)
    assert (many - none) == pytest.approx(4 * (some - none), rel=0.1)


def test_nothing_is_drawn_without_pictures() -> None:
    assert texts(parsed())[0] == "Title of all"


def test_a_long_name_of_a_lane_is_cut_and_does_not_reach_the_bars() -> None:
    lane = Lane("NVIDIA_H200_stream_of_another_context", (bar(1, 2, "add2", Role.KERNEL),))
    said = texts(parsed(Picture("A title", "", Span(0, 20_000), (lane,))))
    assert any(re.fullmatch("NVIDIA_H200_stre.?…", text) for text in said)
