"""Prints a self-contained HTML page for the JSON of `kvferry replay --json` on standard input.

    kvferry replay --trace FILE --json | python3 report_page.py > page.html

Plots are inline SVG by matplotlib; the page has no scripts and loads nothing. The same input gives
the same bytes. Exit codes: 0 done (or, with --check, possible), 1 input that is no report, 2 usage,
3 this interpreter has no matplotlib.
"""

import json
import pathlib
import sys

import report_text as text

PAGE_BYTES_MAX = 1_000_000
TABLE_ROWS_MAX = 400      # Of the table with every number.
CAPACITY_ROWS_MAX = 40    # Of the tables by capacity.
POLICIES_MAX = 60
LIST_MAX = 100            # Notes and options.

NO_MATPLOTLIB = 3


def import_plots():
    try:
        import report_plots
    except ImportError as error:
        if (error.name or "").startswith("report_"):
            raise  # A missing part of ours is no missing matplotlib.
        sys.stderr.write(f"{sys.executable or 'this Python'} cannot import matplotlib: {error}\n")
        sys.exit(NO_MATPLOTLIB)
    return report_plots


def read_report(raw):
    try:
        report = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise text.ReportError(f"the input is not JSON: {error}") from error
    if not isinstance(report, dict):
        raise text.ReportError("the input is not a JSON object")
    results = report.get("results") or []
    if not isinstance(results, list):
        raise text.ReportError("field results is not a list")
    for index, result in enumerate(results):
        if not isinstance(result, dict) or not isinstance(result.get("policy"), str):
            raise text.ReportError(f"field results[{index}].policy is missing")
        if text.number(result, "capacity_blocks") is None:
            raise text.ReportError(f"field results[{index}].capacity_blocks is missing")
    given = list(dict.fromkeys(r["policy"] for r in results))
    # The ones that every reader looks for stand first, where a phone shows them.
    policies = [p for p in ("leaf-lru", "auto", "min") if p in given]
    policies += [p for p in given if p not in policies]
    if len(policies) > POLICIES_MAX:
        raise text.ReportError(f"{len(policies)} policies are more than the {POLICIES_MAX} that "
                               "one page can show")
    report["results"] = results
    return report, policies


def heading(name, label=None):
    return f'<a href="#d-{name}">{text.escaped(label or name)}</a>'


def table(headings, rows):
    """Headings and first cells are HTML already; the rest as well."""
    head = "".join(f"<th scope=\"col\">{cell}</th>" for cell in headings)
    body = "".join("<tr><th scope=\"row\">" + row[0] + "</th>"
                   + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>"
                             for cell in row[1:]) + "</tr>\n" for row in rows)
    start = f"<thead><tr>{head}</tr></thead>" if headings else ""
    dense = ' class="dense"' if len(headings) > 9 else ""
    # Scrollable, so it has to be reachable by keyboard.
    return (f'<div class="scroll" tabindex="0"><table{dense}>{start}<tbody>\n{body}</tbody></table>'
            "</div>")


def tiles(report):
    infinite = text.section(report, "infinite")
    shown = [("requests", text.count(text.number(report, "requests"))),
             ("input tokens", text.count(text.number(report, "input_tokens")))]
    if text.number(infinite, "token_ratio") is not None:
        shown += [("distinct blocks", text.count(text.number(report, "distinct_blocks"))),
                  ("prefill saved at most", text.percent(text.number(infinite, "token_ratio")))]
    else:
        shown.append(("output tokens", text.count(text.number(report, "output_tokens"))))
    shown.append(("time span", text.duration(text.number(report, "span_ms"))))
    return '<div class="tiles">' + "".join(
        f"<div><b>{value}</b><span>{label}</span></div>" for label, value in shown) + "</div>"


def summary_section(report):
    first, *others = text.summary(report)
    items = "".join(f"<li>{text.escaped(sentence, 1000)}</li>" for sentence in others)
    return (f'<section class="summary"><h2>In short</h2><p class="answer">'
            f"{text.escaped(first, 1000)}</p>" + (f"<ul>{items}</ul>" if items else "")
            + tiles(report) + "</section>")


def legend(looks, policies):
    items = []
    for policy in policies:
        look = looks[policy]
        dash = {True: ' stroke-dasharray="5 3"'}.get(
            look.is_bound, "" if look.dashes == "solid" else ' stroke-dasharray="2 2"')
        colour = f"var(--{look.colour})"
        dot = f'<circle cx="15" cy="6" r="3.2" fill="{colour}"/>' if look.marker else ""
        items.append('<li><svg viewBox="0 0 30 12" aria-hidden="true"><path d="M1 6h28" '
                     f'fill="none" stroke="{colour}" stroke-width="{look.width}"{dash}/>{dot}</svg>'
                     f"{text.escaped(policy, 60)}</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def shown_capacities(grid):
    capacities = sorted(grid)
    if len(capacities) <= CAPACITY_ROWS_MAX:
        return capacities, ""
    last = len(capacities) - 1
    some = sorted({capacities[round(i * last / (CAPACITY_ROWS_MAX - 1))]
                   for i in range(CAPACITY_ROWS_MAX)})
    return some, (f'<p class="note">{len(some)} of {len(capacities)} capacities are shown; '
                  "--json and --csv have all.</p>")


def capacity_heading(result):
    details = [text.short_percent(text.number(result, "capacity_share"))]
    if text.number(result, "capacity_bytes") is not None:
        details.append(text.size(text.number(result, "capacity_bytes")))
    blocks = text.count(text.number(result, "capacity_blocks"))
    return f'{blocks}<small>{" · ".join(details)}</small>'


def without_tiny_gaps(results):
    """The results, with no share of a gap from leaf-lru to min that is below 0.05 points: noise."""
    ratios = {(r["policy"], r["capacity_blocks"]): text.number(r, "block_ratio") for r in results}

    def is_tiny(blocks):
        ends = [ratios.get((policy, blocks)) for policy in ("leaf-lru", "min")]
        return None not in ends and ends[1] - ends[0] < 0.0005
    return [{**r, "gap_closed": None} if is_tiny(r["capacity_blocks"]) else r for r in results]


def ratio_table(results, policies, key, infinite_ratio=None):
    grid = text.by_capacity(results)
    capacities, remark = shown_capacities(grid)
    rows = []
    for blocks in capacities:
        here = grid[blocks]
        real = [text.number(r, key) or 0 for r in here.values() if not text.is_bound(r)]
        cells = []
        for policy in policies:
            value = text.number(here[policy], key) if policy in here else None
            cell = text.percent(value)
            is_best = (len(real) > 1 and value is not None and policy != "min"
                       and value == max(real) and real.count(value) == 1)
            cells.append(f"<b>{cell}</b>" if is_best else cell)
        rows.append([capacity_heading(next(iter(here.values())))] + cells)
    if infinite_ratio is not None:
        rows.append(["infinite"] + [text.percent(infinite_ratio)] * len(policies))
    return table([heading("capacity_blocks", "capacity in blocks")]
                 + [text.escaped(p, 60) for p in policies], rows) + remark


DETAIL_COLUMNS = (
    ("hit_blocks", text.count), ("hit_tokens", text.count), ("hit_tokens_full_blocks", text.count),
    ("requests_with_hit", text.count), ("lookups", text.count), ("evictions", text.count),
    ("rejected", text.count), ("resident_misses", text.count), ("block_ratio", text.percent),
    ("token_ratio", text.percent), ("gap_closed", lambda value: text.percent(value, 1)),
    ("prefill_seconds_saved", lambda value: text.duration(None if value is None else 1000 * value)),
    ("seconds", lambda value: "–" if value is None else f"{value:.4f}"))


def details_table(results):
    columns = [(key, show) for key, show in DETAIL_COLUMNS
               if any(text.number(r, key) is not None for r in results)]
    rows = [[text.escaped(r["policy"], 60)
             + f'<small>{text.count(text.number(r, "capacity_blocks"))}</small>']
            + [show(text.number(r, key)) for key, show in columns]
            for r in results[:TABLE_ROWS_MAX]]
    remark = "" if len(results) <= TABLE_ROWS_MAX else (
        f'<p class="note">The first {TABLE_ROWS_MAX} of {len(results)} results; --json and --csv '
        "have all.</p>")
    return ("<details><summary>Every number of every policy and capacity</summary>"
            + table(["policy<small>capacity in blocks</small>"]
                    + [heading(key) for key, _ in columns], rows) + remark + "</details>")


def hit_sections(report, policies, plots):
    results = without_tiny_gaps(report["results"])
    infinite = text.section(report, "infinite")
    if not results:
        return ""
    looks = plots.styles(policies)
    distinct = text.number(report, "distinct_blocks")
    ratio = text.number(infinite, "block_ratio")
    rule = text.escaped(report.get("hit_rule", "prefix"), 20)
    curve = plots.hit_ratio_plot(results, looks, distinct, ratio)
    parts = [f'<section><h2>Hits by cache size</h2><p class="note">Share of block references that '
             f"are hits under the <b>{rule}</b> rule; "
             "the axis on the right reads the same lines as miss ratios.</p>"
             f"<figure>{curve}{legend(looks, policies)}</figure>"
             # Side by side where both are narrow enough.
             f'<div class="{"pair" if len(policies) <= 4 else ""}"><div>',
             f"<h3>{heading('token_ratio', 'Token hit ratio: prefill saved')}</h3>",
             ratio_table(results, policies, "token_ratio", text.number(infinite, "token_ratio")),
             f"</div><div><h3>{heading('block_ratio', 'Block hit ratio')}</h3>",
             ratio_table(results, policies, "block_ratio", ratio),
             "</div></div>", details_table(results), "</section>\n"]
    gap = plots.gap_plot(results, looks, distinct)
    if gap:
        between = [p for p in policies if p not in ("leaf-lru", "min")]
        lowest = min(text.number(r, "gap_closed") or 0 for r in results)
        clipped = " Points below −100 % are drawn there." if lowest < -1 else ""
        parts.append(
            f'<section><h2>{heading("gap_closed", "Gap closed")}</h2><p class="note">How far each '
            "policy gets from leaf-lru (0 %) to the offline optimum min (100 %), drawn where the "
            f"two are at least 0.1 percentage points apart.{clipped}</p>"
            f"<figure>{gap}{legend(looks, between)}</figure>"
            + "<details><summary>Values</summary>" + ratio_table(results, between, "gap_closed")
            + "</details></section>\n")
    return "".join(parts)


def reuse_section(report, plots):
    reuse, by_refs = text.section(report, "reuse_ms"), text.section(report, "blocks_by_refs")
    times, popularity = plots.reuse_plot(reuse), plots.popularity_plot(by_refs)
    if not times and not popularity:
        return ""
    parts = ["<section><h2>Reuse of blocks</h2>"]
    if times:
        keys = ("p10", "p25", "p50", "p75", "p90", "p99", "max")
        in_requests = text.section(report, "reuse_requests")
        rows = [[heading("reuse_ms", "time since the last reference")]
                + [text.duration(text.number(reuse, key)) for key in keys]]
        if any(text.number(in_requests, key) is not None for key in keys):
            rows.append([heading("reuse_requests", "requests since then")]
                        + [text.count(text.number(in_requests, key)) for key in keys])
        parts.append(f"<figure>{times}</figure>" + table([""] + list(keys), rows))
    if popularity:
        parts.append(f"<h3>{heading('blocks_by_refs', 'Blocks by number of references')}</h3>"
                     f"<figure>{popularity}</figure>")
    share = text.number(report, "top1pct_share")
    if share is not None:
        parts.append(f'<p class="note">{text.percent(share)} of all re-references go to the most '
                     f'referenced 1{text.NO_BREAK}% of blocks ({heading("top1pct_share")}).</p>')
    return "".join(parts) + "</section>\n"


def requests_section(report):
    lengths = text.section(report, "lengths")
    keys = ("mean", "p50", "p90", "p99", "max")
    rows = [[f"{kind} tokens a request"] + [text.count(text.number(part, key)) for key in keys]
            for kind in ("input", "output") for part in [text.section(lengths, kind)] if part]
    parts = ["<section><h2>Requests</h2>"]
    if rows:
        parts.append(table([""] + list(keys), rows))
    sessions = text.section(report, "sessions")
    if text.number(sessions, "count") is not None:
        kind = text.escaped(sessions.get("kind", "unknown"), 20)
        parts.append(f"<h3>{heading('sessions', 'Sessions')} ({kind})</h3><p class=\"facts\">"
                     f'{text.count(text.number(sessions, "count"))} sessions, '
                     f'{text.count(text.number(sessions, "single"))} of a single turn.</p>')
        keys = ("p50", "p90", "p99", "max")
        rows = [[heading(name, label)] + [show(text.number(part, key)) for key in keys]
                for name, label, show in (("turns", "turns a session", text.count),
                                          ("gap_ms", "time between turns", text.duration))
                for part in [text.section(sessions, name)] if part]
        parts.append(table([""] + list(keys), rows) if rows else "")
    arrivals = text.section(report, "arrivals")
    if arrivals:
        minute = text.section(arrivals, "per_minute")
        rows = [[heading("per_second", "requests a second"),
                 text.count(text.number(arrivals, "per_second"))]]
        rows += [[heading("per_minute", f"a minute, {key}"), text.count(text.number(minute, key))]
                 for key in ("p1", "p50", "p99", "max") if text.number(minute, key) is not None]
        rows += [[heading(name, label), text.count(text.number(arrivals, name))]
                 for name, label in (("gap_variation", "variation of the gaps"),
                                     ("distinct_timestamps", "distinct timestamps"))]
        parts.append("<h3>Arrivals</h3>" + table([], rows))
    return "".join(parts) + "</section>\n"


def origin_section(report):
    notes = report.get("notes") or []
    if not isinstance(notes, list):
        raise text.ReportError("field notes is not a list")
    rows = [["trace", report.get("trace")], ["sha256", report.get("sha256")],
            ["format", report.get("format")], ["tokens a block", report.get("block_tokens")],
            ["hit rule", report.get("hit_rule")], ["seed", report.get("seed")],
            ["skipped lines", report.get("skipped_lines")], ["kvferry", report.get("version")]]
    rows += [[f"option {key}", value if isinstance(value, str) else json.dumps(value)]
             for key, value in list(text.section(report, "options").items())[:LIST_MAX]
             if key not in ("trace", "hit-rule", "seed")]  # They stand above.
    cells = [[text.escaped(name, 60),
              f'<td class="text"><code><bdi>{text.escaped(value, 2000)}</bdi></code></td>']
             for name, value in rows if value is not None]
    items = "".join(f"<li>{text.escaped(note, 1000)}</li>" for note in notes[:LIST_MAX])
    return ("<section><h2>Where these numbers come from</h2>"
            + (f"<h3>Notes</h3><ul>{items}</ul>" if items else "") + table([], cells)
            + "</section>\n")


def definitions_section(report):
    entries = []
    for name, words, exact in text.definitions(report):
        both = [text.escaped(words, 2000)] if words else []
        if exact:
            both.append(f'<span class="exact">{text.escaped(exact, 2000)}</span>')
        anchor = text.escaped(name.replace(" ", "-"), 60)
        entries.append(f'<dt id="d-{anchor}">{text.escaped(name, 60)}</dt>'
                       f"<dd>{' '.join(both)}</dd>\n")
    return ('<section><h2>What each number means</h2><p class="note">In plain words, and exactly '
            f"as the program defines it.</p><dl>\n{''.join(entries)}</dl></section>\n")


def page(raw, plots):
    report, policies = read_report(raw)
    style = pathlib.Path(__file__).with_name("report_page.css").read_text(encoding="utf-8")
    # Folders are of no interest to who gets the page; the table of origins has them.
    name = text.escaped(" + ".join(part.rstrip("/").rsplit("/", 1)[-1] for part in
                                   str(report.get("trace") or "trace").split(" + ")))
    html = "".join((
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        # Nothing is loaded and nothing runs, even if a name of the input were to slip through.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; ',
        'style-src \'unsafe-inline\'">\n',
        f"<title>{name} · kvferry replay</title>\n<style>\n{style}</style>\n</head>\n",
        "<body><main>\n",
        f'<header><div class="kicker">kvferry replay</div><h1><bdi>{name}</bdi></h1></header>\n',
        summary_section(report), "\n", hit_sections(report, policies, plots),
        reuse_section(report, plots), requests_section(report), origin_section(report),
        definitions_section(report),
        f'<footer>Made by kvferry {text.escaped(report.get("version") or "", 40)} with ',
        "matplotlib. This file is complete: it loads nothing and runs no script.</footer>\n",
        "</main></body>\n</html>\n"))
    encoded = html.encode("utf-8")
    if len(encoded) > PAGE_BYTES_MAX:
        raise text.ReportError(f"the page would have {len(encoded):,} bytes, more than "
                               f"{PAGE_BYTES_MAX:,}; replay fewer policies or capacities")
    return encoded


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.stderr.write(__doc__)
        return 2
    plots = import_plots()
    if arguments:
        return 0
    try:
        output = page(sys.stdin.buffer.read(), plots)
    except text.ReportError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
