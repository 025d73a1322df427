"""Plots of the replay page by matplotlib: inline SVG whose colours are the page's CSS variables."""

import io
import os
import re

os.environ.pop("MPLBACKEND", None)  # A user's choice of windows is none of a page's business.

import matplotlib  # noqa: E402
from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator  # noqa: E402

import report_text as text  # noqa: E402

SERIES_COLOURS = 12
POINTS_MAX = 60   # A line of more capacities is thinned; the eye sees no more.
MARKERS_MAX = 16  # Above it, points sit too close for markers.

# Stand-ins that become var(--name) in the SVG: the page then has one set of plots for both themes.
_NAMES = ["ink", "muted", "grid", "card"] + [f"s{index}" for index in range(SERIES_COLOURS)]
_STAND_IN = {name: f"#0a00{index:02x}" for index, name in enumerate(_NAMES)}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Two renderings of each plot: text keeps its size on a phone, where a scaled one would not.
SHAPES = {"wide": 11.6, "narrow": 4.7}


class Style:
    """How one policy's line looks, in every plot and in the legend."""

    def __init__(self, policy, index):
        self.policy = policy
        self.is_bound = policy == "min"
        self.colour = "ink" if self.is_bound else f"s{index % SERIES_COLOURS}"
        self.marker = None if self.is_bound else _MARKERS[index % len(_MARKERS)]
        self.dashes = (0, (5, 3)) if self.is_bound else (
            "solid" if index < SERIES_COLOURS else (0, (2, 2)))
        self.width = 2.2 if policy in ("leaf-lru", "auto") else 1.5


def styles(policies):
    """leaf-lru and auto have the first two colours on every page."""
    order = [p for p in ("leaf-lru", "auto") if p in policies]
    fixed = {"leaf-lru": 0, "auto": 1}
    order += [p for p in policies if p not in order and p != "min"]
    numbers, free = {}, 2
    for policy in order:
        if policy in fixed:
            numbers[policy] = fixed[policy]
        else:
            numbers[policy], free = free, free + 1
    return {policy: Style(policy, numbers.get(policy, 0)) for policy in policies}


def _reset():
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "kvferry", "font.size": 11,
        "font.family": "DejaVu Sans", "axes.facecolor": "none", "figure.facecolor": "none",
        "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": _STAND_IN["grid"], "axes.labelcolor": _STAND_IN["muted"],
        "axes.labelsize": 11, "text.color": _STAND_IN["ink"], "xtick.color": _STAND_IN["muted"],
        "ytick.color": _STAND_IN["muted"], "axes.grid": True, "grid.color": _STAND_IN["grid"],
        "grid.linewidth": 0.8, "xtick.major.size": 0, "ytick.major.size": 0,
        "xtick.major.pad": 6, "axes.axisbelow": True, "text.parse_math": False})


def _to_svg(figure, prefix, label, tooltips=None):
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(
        buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)  # The page has it.
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    for policy, titles in (tooltips or {}).items():
        svg = _add_titles(svg, policy, titles)
    # Several plots share a page, where an id may stand only once.
    svg = re.sub(r' id="([^"]*)"', rf' id="{prefix}-\1"', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", svg)
    svg = re.sub(r"#0a00([0-9a-f]{2})", lambda m: f"var(--{_NAMES[int(m.group(1), 16)]})", svg)
    svg = re.sub(r"font: (?:[a-z]+ )?([0-9.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    opening = re.match(r"<svg[^>]*viewBox=\"([^\"]*)\"[^>]*>", svg)
    return (f'<svg class="{prefix.rsplit("-", 1)[1]}" role="img" viewBox="{opening.group(1)}" '
            f'aria-label="{text.escaped(label)}">' + svg[opening.end():])


def _add_titles(svg, gid, titles):
    """Gives the markers of the line with id `gid` their tooltips, in order."""
    start = svg.find(f'<g id="{gid}"')
    if start < 0:
        return svg
    waiting = list(titles)
    depth, end = 0, start
    for tag in re.finditer(r"<g[ >]|</g>", svg[start:]):
        depth += 1 if tag.group(0) != "</g>" else -1
        if depth == 0:
            end = start + tag.end()
            break
    def add(match):
        if not waiting:
            return match.group(0)
        return f"<use{match.group(1)}><title>{text.escaped(waiting.pop(0))}</title></use>"
    return svg[:start] + re.sub(r"<use([^>]*)/>", add, svg[start:end]) + svg[end:]


def _ticks(low, high, wanted):
    """Round values (1, 2, 5 times a power of ten) in a range; only powers where those are many."""
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = [step * 10.0 ** power for power in range(-12, 16) for step in steps
                  if low <= step * 10.0 ** power <= high]
        if len(values) <= wanted:
            break
    while len(values) > wanted:
        values = values[::2]
    return values


def _thinned(points):
    if len(points) <= POINTS_MAX:
        return points
    last = len(points) - 1
    return [points[round(index * last / (POINTS_MAX - 1))] for index in range(POINTS_MAX)]


def _axes(shape, height, margins):
    """Axes with margins in inches: left, right, bottom, top. Fixed ones need no trial drawing."""
    width = SHAPES[shape]
    figure = Figure(figsize=(width, height))
    left, right, bottom, top = margins
    axes = figure.add_axes((left / width, bottom / height, 1 - (left + right) / width,
                            1 - (bottom + top) / height))
    return figure, axes


def _curve_axes(shape, height, capacities, distinct):
    figure, axes = _axes(shape, height, (0.82, 0.82, 0.56, 0.6))
    low, high = min(capacities), max(capacities)
    low, high = (low / 2, high * 2) if low == high else (low / 1.15, high * 1.15)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    wanted = 9 if shape == "wide" else 5
    _set_ticks(axes.xaxis, _ticks(low, high, wanted), text.short_count)
    axes.set_xlabel("capacity in blocks")
    if distinct:
        top = axes.secondary_xaxis("top", functions=(lambda x: 100 * x / distinct,
                                                     lambda x: x * distinct / 100))
        top.spines["top"].set_visible(False)
        _set_ticks(top.xaxis, _ticks(100 * low / distinct, 100 * high / distinct, wanted),
                   lambda value: text.short_percent(value / 100))
        top.set_xlabel("capacity in per cent of the distinct blocks")
    return figure, axes


def _set_ticks(axis, values, label):
    axis.set_major_locator(FixedLocator(values))
    axis.set_major_formatter(FixedFormatter([label(value) for value in values]))
    axis.set_minor_locator(NullLocator())


def _draw_line(axes, style, points, gid, zorder):
    axes.plot([x for x, _ in points], [y for _, y in points], color=_STAND_IN[style.colour],
              linestyle=style.dashes, linewidth=style.width, zorder=zorder, gid=gid,
              marker=(style.marker or ("_" if len(points) == 1 else None))
              if len(points) <= MARKERS_MAX else None,
              markersize=5.5, markeredgecolor=_STAND_IN["card"], markeredgewidth=0.7,
              solid_capstyle="round")


def _line_points(results, policy, key):
    points = [(text.number(r, "capacity_blocks"), text.number(r, key), r) for r in results
              if r["policy"] == policy]
    return _thinned(sorted((p for p in points if p[0] and p[0] > 0 and p[1] is not None),
                           key=lambda p: p[0]))


def hit_ratio_plot(results, looks, distinct, infinite_ratio):
    """Block hit ratio by capacity, one line a policy; both renderings, or "" without a point."""
    lines = {policy: _line_points(results, policy, "block_ratio") for policy in looks}
    drawn = [point for points in lines.values() for point in points]
    if not drawn:
        return ""
    top = max([ratio for _, ratio, _ in drawn] + [infinite_ratio or 0, 0.04])
    parts = []
    for shape in SHAPES:
        _reset()
        figure, axes = _curve_axes(shape, 5.0 if shape == "wide" else 4.5,
                                   [x for x, _, _ in drawn], distinct)
        axes.set_ylim(0, 112 * top)
        _set_ticks(axes.yaxis, [v for v in axes.get_yticks() if 0 <= v <= 100.01],
                   lambda value: f"{value:g}{text.NO_BREAK}%")
        axes.set_ylabel("block hit ratio")
        right = axes.secondary_yaxis("right", functions=(lambda y: 100 - y, lambda y: 100 - y))
        right.spines["right"].set_visible(False)
        _set_ticks(right.yaxis, [100 - v for v in axes.get_yticks()],
                   lambda value: f"{value:g}{text.NO_BREAK}%")
        right.set_ylabel("block miss ratio")
        if infinite_ratio is not None:
            axes.axhline(100 * infinite_ratio, color=_STAND_IN["muted"], linestyle=(0, (1, 2)),
                         linewidth=1.6, zorder=2)
            axes.annotate(f"infinite cache {text.percent(infinite_ratio)}",
                          (0.012, 100 * infinite_ratio), xytext=(0, 4), color=_STAND_IN["muted"],
                          xycoords=("axes fraction", "data"), textcoords="offset points")
        titles = {}
        for order, (policy, points) in enumerate(lines.items()):
            gid = f"line{order}"
            _draw_line(axes, looks[policy], [(x, 100 * y) for x, y, _ in points], gid, 3 + order)
            titles[gid] = [f"{policy}: {text.percent(y)} at {text.capacity_words(r)}"
                           for _, y, r in points]
        parts.append(_to_svg(figure, f"hit-{shape}", "Block hit ratio by capacity, a line a "
                             "policy; the table below has the values", titles))
    return "".join(parts)


def gap_points(results, grid, policy):
    """(capacity, gap closed, result); not where the gap is below a tenth of a point: noise."""
    points = []
    for x, closed, result in _line_points(results, policy, "gap_closed"):
        ends = [text.number(grid[x][name], "block_ratio") for name in ("leaf-lru", "min")
                if name in grid[x]]
        if len(ends) == 2 and None not in ends and ends[1] - ends[0] >= 0.001:
            points.append((x, closed, result))
    return points


def gap_plot(results, looks, distinct):
    """Share of the way from leaf-lru to min; "" where there is nothing between them."""
    grid = text.by_capacity(results)
    lines = {policy: gap_points(results, grid, policy) for policy in looks
             if policy not in ("leaf-lru", "min")}
    drawn = [point for points in lines.values() for point in points]
    if not drawn:
        return ""
    floor = max(-1.0, min([0.0] + [closed for _, closed, _ in drawn]))
    parts = []
    for shape in SHAPES:
        _reset()
        figure, axes = _curve_axes(shape, 4.2 if shape == "wide" else 4.2,
                                   [x for x, _, _ in drawn], distinct)
        axes.set_ylim(100 * floor - 6, 109)
        _set_ticks(axes.yaxis, [v for v in (-100, -75, -50, -25, 0, 25, 50, 75, 100)
                                if v >= 100 * floor - 6],
                   lambda value: f"{value:g}{text.NO_BREAK}%")
        axes.set_ylabel("gap closed")
        for level, name in ((0, "leaf-lru"), (100, "min")):
            axes.axhline(level, color=_STAND_IN["muted"], linewidth=1.2, linestyle=(0, (1, 2)))
            axes.annotate(name, (1, level), xytext=(6, 0), color=_STAND_IN["muted"], va="center",
                          xycoords=("axes fraction", "data"), textcoords="offset points")
        titles = {}
        for order, (policy, points) in enumerate(lines.items()):
            gid = f"line{order}"
            _draw_line(axes, looks[policy], [(x, 100 * max(y, floor)) for x, y, _ in points],
                       gid, 3 + order)
            titles[gid] = [f"{policy}: {text.percent(y, 1)} of the gap at "
                           f"{text.capacity_words(r)}" for _, y, r in points]
        parts.append(_to_svg(figure, f"gap-{shape}", "Share of the gap between leaf-lru and min "
                             "that each policy closes, by capacity", titles))
    return "".join(parts)


def _bar_axes(shape, bars):
    figure, axes = _axes(shape, 0.42 * bars + 0.5, (1.1, 0.1, 0.4, 0.1))
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.grid(False, axis="y")
    axes.invert_yaxis()
    axes.tick_params(axis="y", pad=9)
    return figure, axes


def reuse_plot(reuse):
    """How soon blocks are referenced again: one bar a quantile, on a logarithmic time axis."""
    names = (("p10", "10"), ("p25", "25"), ("p50", "50"), ("p75", "75"), ("p90", "90"),
             ("p99", "99"), ("max", "100"))
    rows = [(share, text.number(reuse, key)) for key, share in names
            if text.number(reuse, key) is not None]
    if not rows:
        return ""
    low, high = 1.0, max([value for _, value in rows] + [1000.0])
    positive = [value for _, value in rows if value > 0]
    if positive:
        low = max(1.0, min(positive) / 8)
    parts = []
    for shape in SHAPES:
        _reset()
        figure, axes = _bar_axes(shape, len(rows))
        axes.set_xscale("log")
        axes.set_xlim(low, high * (high / low) ** (0.16 if shape == "wide" else 0.42))
        marks = (1, 1e2, 1e3, 1e4, 6e4, 6e5, 36e5, 36e6, 864e5, 864e6)
        _set_ticks(axes.xaxis, [m for m in marks if low <= m <= high][-4 if shape == "narrow"
                                                                         else -8:], text.duration)
        _set_ticks(axes.yaxis, range(len(rows)), lambda i: f"{rows[i][0]}{text.NO_BREAK}%")
        axes.set_ylabel("of reuses come within")
        for row, (_, value) in enumerate(rows):
            axes.plot([low, max(value, low)], [row, row], color=_STAND_IN["s0"], linewidth=1.6,
                      solid_capstyle="butt")
            axes.plot([max(value, low)], [row], color=_STAND_IN["s0"], marker="o", markersize=7,
                      clip_on=False)
            axes.annotate(text.duration(value), (max(value, low), row), xytext=(9, 0),
                          textcoords="offset points", va="center")
        parts.append(_to_svg(figure, f"reuse-{shape}", "Time until a block is referenced again, by "
                             "quantile"))
    return "".join(parts)


def popularity_plot(by_refs):
    """Distinct blocks by how often they are referenced."""
    rows = [(name, text.number(by_refs, name)) for name in ("1", "2", "3-9", "10-99", "100+")
            if text.number(by_refs, name) is not None]
    total = sum(value for _, value in rows)
    if not total:
        return ""
    parts = []
    for shape in SHAPES:
        _reset()
        figure, axes = _bar_axes(shape, len(rows))
        axes.set_xlim(0, max(value for _, value in rows) * (1.2 if shape == "wide" else 1.62))
        axes.xaxis.set_major_locator(NullLocator())
        _set_ticks(axes.yaxis, range(len(rows)),
                   lambda i: "once" if rows[i][0] == "1" else
                   "twice" if rows[i][0] == "2" else rows[i][0].replace("-", "–") + " times")
        for row, (_, value) in enumerate(rows):
            axes.barh(row, value, height=0.62, color=_STAND_IN["s2"])
            axes.annotate(f"{text.count(value)} ({text.percent(value / total, 1)})", (value, row),
                          xytext=(6, 0), textcoords="offset points", va="center")
        parts.append(_to_svg(figure, f"refs-{shape}", "Distinct blocks by number of references"))
    return "".join(parts)
