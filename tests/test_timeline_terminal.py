import random
import re
from itertools import pairwise

import pytest
from rich.cells import cell_len
from rich.console import Console

from cudabench.report.timeline.terminal import legend, picture
from cudabench.trace import Bar, Lane, Picture, Role, Span

WIDTHS = pytest.mark.parametrize("width", [80, 140])
NAME = len("device ")


def bar(start: float, end: float, label: str, role: Role) -> Bar:
    """In microseconds."""
    return Bar(Span(round(start * 1000), round(end * 1000)), label, role)


def pictured(*lanes: tuple[Bar, ...], start: float = 0, end: float = 20) -> Picture:
    names = ("host", "clock", "device")
    named = tuple(Lane(name, bars) for name, bars in zip(names, lanes, strict=False))
    return Picture("A title", "A caption.", Span(round(start * 1000), round(end * 1000)), named)


def iteration(clock_end: float, kernel_end: float) -> Picture:
    return pictured(
        (bar(1, 8, "launch", Role.LAUNCH),),
        (bar(1, clock_end, "read", Role.TIMED),),
        (bar(9, kernel_end, "add2", Role.KERNEL),),
    )


def lines(shown: Picture, width: int) -> list[str]:
    console = Console(width=width, markup=False, highlight=False, color_system=None)
    with console.capture() as capture:
        for renderable in picture(shown, width):
            console.print(renderable)
    return capture.get().splitlines()


def line(shown: Picture, name: str, width: int = 80) -> str:
    return next(text for text in lines(shown, width) if text.startswith(f"{name} "))


@WIDTHS
def test_lengths_and_starts_are_proportional(width: int) -> None:
    shown = pictured((), (), (bar(5, 10, "", Role.KERNEL), bar(15, 17.5, "", Role.KERNEL)))
    device = line(shown, "device", width)[NAME:]
    first, second = map(len, re.findall("█+", device))
    assert device.index("█") == pytest.approx((width - NAME) / 4, abs=0.5)
    assert first == pytest.approx((width - NAME) / 4, abs=1)
    assert second == pytest.approx(first / 2, abs=1)


@WIDTHS
def test_ticks_stand_over_what_happens_then(width: int) -> None:
    shown = pictured((), (), (bar(10, 12, "", Role.KERNEL),))
    scale, rule, *_ = lines(shown, width)[1:]
    assert line(shown, "device", width).index("█") == scale.index("10 us")
    assert rule[scale.index("10 us")] == "┬"


@pytest.mark.parametrize(
    ("length", "unit"), [(400e-3, "ns"), (15.0, "us"), (8_000.0, "ms"), (9e6, "s")]
)
def test_the_scale_is_round_and_from_the_windows_start(length: float, unit: str) -> None:
    scale = lines(pictured((), start=1234.567, end=1234.567 + length), 80)[1].split()
    assert scale[0] == "0"
    assert set(scale[2::2]) == {unit}
    steps = {float(b) - float(a) for a, b in zip(scale[1::2], scale[3::2], strict=False)}
    assert len(steps) == 1
    assert f"{steps.pop():e}"[0] in "125"


@WIDTHS
@pytest.mark.parametrize("kernel_end", [9.001, 9.4, 12, 12.001, 12.05, 12.3, 14.9, 19.99])
@pytest.mark.parametrize("clock_end", [8.1, 9.01, 12, 12.04, 12.31, 14.899, 19.995])
def test_the_bracket_ends_left_of_the_kernels_end_exactly_when_the_clock_did(
    clock_end: float, kernel_end: float, width: int
) -> None:
    shown = iteration(clock_end, kernel_end)
    bracket = line(shown, "clock", width).index("┤") + 1
    device = line(shown, "device", width).replace("┊", " ")
    last = max(device.rindex(c) for c in "▏▎▍▌▋▊▉█" if c in device)
    kernel = last + "▏▎▍▌▋▊▉█".index(device[last]) / 8 + 1 / 8
    assert (bracket < kernel) == (clock_end < kernel_end)


def test_what_the_clock_read_is_followed_through_all_lanes() -> None:
    shown = iteration(12, 18)
    start, end = (line(shown, "clock").index(corner) for corner in "├┤")
    device = line(shown, "device")
    assert device[start] == device[end] == "┊"
    assert device[end - 1] == device[end + 1] == "█"


def test_a_label_in_a_bar_leaves_the_guide_to_be_seen() -> None:
    shown = iteration(13.5, 18)
    device = line(shown, "device")
    assert device[line(shown, "clock").index("┤")] == "┊"
    assert " add2 " in device


@WIDTHS
def test_roles_differ_without_colour(width: int) -> None:
    drawn = {
        role: line(pictured((bar(2, 8, "", role),)), "host", width)[NAME:].split("┊")[0].strip()
        for role in Role
    }
    assert len({marks[0] for marks in drawn.values()}) == len(Role)
    assert all(marks[0] in legend().plain for marks in drawn.values())
    assert cell_len(legend().plain) < 80


@WIDTHS
def test_the_shortest_bar_is_seen(width: int) -> None:
    shown = pictured(
        (bar(3, 12, "launch", Role.LAUNCH), bar(12, 12.001, "synchronize", Role.SYNCHRONIZE)),
        (bar(20, 20, "", Role.TIMED),),
        (bar(7, 7, "add2", Role.KERNEL),),
    )
    text = lines(shown, width)
    assert any("▓" in row for row in text)
    assert any("█" in row for row in text)
    assert line(shown, "clock", width).endswith("│")


def test_of_two_short_bars_in_one_cell_both_are_seen() -> None:
    short = (bar(9, 9.01, "one", Role.SYNCHRONIZE), bar(9.02, 9.03, "two", Role.LAUNCH))
    assert "▓▒" in line(pictured(short), "host")


def test_what_reaches_out_of_the_window_is_clipped_with_an_arrow() -> None:
    shown = pictured(
        (bar(-5, 3, "", Role.LAUNCH), bar(18, 30, "", Role.SYNCHRONIZE)),
        (bar(-1, 21, "", Role.TIMED),),
    )
    host, clock = line(shown, "host"), line(shown, "clock")
    assert host[NAME - 1 :].startswith("◀▒")
    assert host.endswith("▓▶")
    assert (clock.split()[1][0], clock[-1]) == ("◀", "▶")
    assert "├" not in clock


def test_what_is_outside_of_the_window_is_not_shown() -> None:
    shown = pictured((bar(-9, 0, "before", Role.LAUNCH), bar(20, 30, "after", Role.LAUNCH)))
    assert line(shown, "host").strip() == "host"


@WIDTHS
def test_bars_that_overlap_stand_below_one_another(width: int) -> None:
    shown = pictured((bar(2, 12, "one", Role.KERNEL), bar(5, 18, "two", Role.KERNEL)))
    text = lines(shown, width)
    rows = [i for i, row in enumerate(text) if "█" in row]
    assert len(rows) == 2
    assert "one" in text[rows[0]]
    assert "two" in text[rows[1]]


def crowded() -> Picture:
    """Steps so short that hardly a label fits into its bar."""
    return pictured(
        (
            bar(40, 42, "first synchronize", Role.SYNCHRONIZE),
            bar(42, 50, "launch", Role.LAUNCH),
            bar(50, 60, "second synchronize", Role.SYNCHRONIZE),
            bar(380, 384, "first synchronize of the next", Role.SYNCHRONIZE),
            bar(384, 393, "launch of the next", Role.LAUNCH),
            bar(394, 399, "second synchronize of the next", Role.SYNCHRONIZE),
        ),
        (bar(42, 60, "18.0 us", Role.TIMED), bar(384, 399, "15.0 us", Role.TIMED)),
        (bar(50, 53.6, "add2 (3.6 us)", Role.KERNEL), bar(394, 398, "add2 again", Role.KERNEL)),
        end=400,
    )


@WIDTHS
def test_no_label_is_dropped_where_bars_are_short(width: int) -> None:
    text = "\n".join(lines(crowded(), width))
    for lane in crowded().lanes:
        for one in lane.bars:
            assert one.label[: width // 2 - 12] in text


@WIDTHS
def test_a_label_under_its_bar_hangs_from_it(width: int) -> None:
    shown = pictured(
        (
            bar(1, 4, "synchronize", Role.SYNCHRONIZE),
            bar(4, 5, "an important launch", Role.LAUNCH),
            bar(5, 9, "synchronize", Role.SYNCHRONIZE),
        )
    )
    text = lines(shown, width)
    host = next(i for i, row in enumerate(text) if row.startswith("host"))
    column = text[host].index("▒")
    below = [row[column] for row in text[host + 1 :] if len(row) > column]
    assert "└" in below
    assert set(below[: below.index("└")]) <= {"│"}


def test_labels_that_find_no_place_are_counted() -> None:
    many = tuple(bar(i / 10, i / 10 + 0.05, "add2", Role.KERNEL) for i in range(190))
    assert "not labelled: 190 x add2" in "\n".join(lines(pictured(many), 80))


def test_a_long_label_shows_that_it_was_cut() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
    text = "\n".join(lines(pictured((bar(2, 3, name, Role.KERNEL),)), 80))
    assert name[:20] in text
    assert "…" in text


LABELS = ("add2", "加算カーネル", "a\x1b[31m\nb\x00", "", "x" * 300)


@WIDTHS
@pytest.mark.parametrize("label", LABELS)
def test_no_line_is_wider_than_asked(label: str, width: int) -> None:
    for start in range(0, 400, 37):
        host = tuple(bar(start + i, start + i + 0.9, label, Role.LAUNCH) for i in range(4))
        shown = pictured(host, (bar(start, 380, label, Role.TIMED),), host, end=400)
        for row in lines(Picture(label, label, shown.window, shown.lanes), width):
            assert cell_len(row) <= width
            assert "\x1b" not in row


def test_a_pipe_gets_a_line_that_can_be_read() -> None:
    shown = iteration(12, 18)
    assert max(map(len, lines(shown, 100_000))) <= 120


def test_a_title_and_a_caption_frame_it() -> None:
    text = lines(iteration(12, 18), 80)
    assert (text[0].rstrip(), text[-1].rstrip()) == ("A title", "A caption.")


def test_an_empty_picture_is_drawn() -> None:
    assert lines(Picture("nothing", "", Span(5, 5), (Lane("host", ()),)), 80)[-1].strip() == "host"


def jumble(seed: int) -> Picture:
    """Up to eight bars, mostly short, and labels of any length, each only once."""
    chance = random.Random(seed)
    at, bars = chance.uniform(0, 200), []
    for number in range(chance.randint(1, 8)):
        end = at + chance.uniform(0.1, 20)
        role = chance.choice([Role.LAUNCH, Role.SYNCHRONIZE, Role.KERNEL, Role.TIMED])
        bars.append(bar(at, end, f"<{number}{'abc' * chance.randint(0, 5)}>", role))
        at = end + chance.uniform(0, 5)
    return pictured(tuple(bars), end=401)


def unbroken(rows: list[str]) -> bool:
    """Whether each corner and line under the bars has a line, or its bar, above it."""
    return all(
        above[column : column + 1] in tuple("│▒▓█▏▎▍▌▋▊▉├┤─")
        for above, below in pairwise(rows)
        for column, character in enumerate(below)
        if character in "└┘│"
    )


@WIDTHS
@pytest.mark.parametrize("seed", range(100))
def test_no_label_is_written_over_another_or_a_line_to_one(seed: int, width: int) -> None:
    shown = jumble(seed)
    text = lines(shown, width)
    missing = [one for one in shown.lanes[0].bars if one.label not in "\n".join(text)]
    assert not missing or any("not labelled" in row for row in text)
    assert unbroken(text[3:-1])


@WIDTHS
def test_few_jumbles_leave_a_label_without_a_place(width: int) -> None:
    left = [seed for seed in range(100) if "not labelled" in "".join(lines(jumble(seed), width))]
    assert len(left) <= 15
