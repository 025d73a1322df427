"""Words and numbers of the replay page: formatting, definitions and the summary in plain words."""

import html
import re

NO_BREAK = "\u202f"  # Narrow no-break space between a number and its unit.
TEXT_LENGTH_MAX = 300

# Controls, lone surrogates and the characters that reorder text: a trace's name is untrusted.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\uffff]")


class ReportError(Exception):
    """The input is not what `kvferry replay --json` prints."""


def plain(value, limit=TEXT_LENGTH_MAX):
    """A value of the input as harmless text, not yet escaped."""
    text = _UNSAFE.sub("\ufffd", str(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def escaped(value, limit=TEXT_LENGTH_MAX):
    return html.escape(plain(value, limit))


def section(container, key):
    """An object of the input; an absent or null one is empty."""
    value = container.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ReportError(f"field {key} is not an object")
    return value


def number(container, key):
    """A finite number, or None where it is absent or null."""
    value = container.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ReportError(f"field {key} is not a number: {plain(value, 40)!r}")
    if value != value or abs(value) > 1e300:
        raise ReportError(f"field {key} is not finite")
    return value


def count(value):
    if value is None:
        return "–"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.4g}"
    return f"{int(value):,}"


def percent(ratio, digits=2):
    return "–" if ratio is None else f"{100 * ratio:.{digits}f}{NO_BREAK}%"


def short_percent(ratio):
    """For sentences and axes: 10 %, 2.5 %, 0.02 %."""
    return "–" if ratio is None else f"{100 * ratio:.3g}{NO_BREAK}%"


def size(amount):
    if amount is None:
        return "–"
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    step = 0
    while amount >= 1024 and step + 1 < len(units):
        amount /= 1024
        step += 1
    return f"{amount:.3g}{NO_BREAK}{units[step]}"


def duration(ms):
    if ms is None:
        return "–"
    if 0 < ms < 1000:
        return f"{ms:.3g}{NO_BREAK}ms"
    for limit, unit_ms, unit in ((120e3, 1e3, "s"), (7200e3, 60e3, "min"),
                                 (48 * 3600e3, 3600e3, "h")):
        if ms < limit:
            return f"{round(ms / unit_ms, 1):g}{NO_BREAK}{unit}"
    return f"{ms / 86400e3:,.1f}{NO_BREAK}days"


def short_count(value):
    """Axis labels: 950, 1.5k, 2M."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def capacity_words(result):
    """10 % of the distinct blocks (18,279 blocks, 1.2 TiB)."""
    blocks = f"{count(number(result, 'capacity_blocks'))} blocks"
    amount = number(result, "capacity_bytes")
    if amount is not None:
        blocks += f", {size(amount)}"
    share = number(result, "capacity_share")
    return blocks if share is None else f"{short_percent(share)} of the distinct blocks ({blocks})"


# In plain words, by name of the JSON field or the heading. The report's own definitions, which are
# exact, stand beside them.
DEFINITIONS = (
    ("hit", "A reference that found its block in the cache, by the hit rule."),
    ("block", "The keys and values of a fixed number of consecutive tokens; the unit of caching."),
    ("requests", "Requests of the trace after --from, --to and --limit."),
    ("input_tokens", "Prompt tokens of all requests: what prefill computes without a cache."),
    ("output_tokens", "Generated tokens of all requests."),
    ("block_refs", "References to blocks: each request names each block of its prompt once."),
    ("distinct_blocks", "Different blocks that the trace names: a cache of this size never "
                        "evicts."),
    ("span_ms", "Time from the first to the last request."),
    ("hit_rule", "prefix: the hits of a request are the longest run of its first blocks that are "
                 "all in the cache, since later blocks are of no use without earlier ones. block: "
                 "every reference counts on its own, whatever comes before it."),
    ("infinite", "A cache that never evicts. What it misses is the first reference to a block; no "
                 "cache of any size, under any policy, has more hits."),
    ("token_ratio_second_half", "Infinite-cache token hit ratio of the later half of the requests, "
                                "where the cache has warmed up."),
    ("capacity_blocks", "Size of the cache in blocks; in per cent of the distinct blocks beside it "
                        "(rounded down), and in bytes where bytes a token are known."),
    ("lookups", "Block references counted: those after the warm-up."),
    ("hit_blocks", "References that found their block in the cache, by the hit rule."),
    ("block_ratio", "Block hits divided by lookups. The miss ratio is one minus it."),
    ("hit_tokens", "Tokens of the blocks hit: prefill tokens that need not be computed. A partly "
                   "filled last block counts with the tokens it holds."),
    ("token_ratio", "Token hits divided by the input tokens of the counted requests: the share of "
                    "prefill saved."),
    ("hit_tokens_full_blocks", "Token hits in completely filled blocks only, for engines that keep "
                               "no partial blocks."),
    ("requests_with_hit", "Requests with at least one block hit."),
    ("evictions", "Blocks that were in the cache before a request and not after it."),
    ("rejected", "Missed blocks that are not in the cache after their request: the policy did not "
                 "let them in, or they have already gone again."),
    ("resident_misses", "Missed blocks that were in the cache all the time, behind one that was "
                        "not: no hit under the prefix rule."),
    ("gap_closed", "Of the block hits that lie between leaf-lru and min at one capacity, the share "
                   "that a policy gets: 0 % is leaf-lru, 100 % is min, below 0 % is worse than "
                   "leaf-lru."),
    ("min", "Belady's offline optimum: it knows the future and keeps what is needed soonest. Not a "
            "policy that can be run; the bound for block hits of all that can."),
    ("seconds", "Time that this program took to replay one policy at one capacity."),
    ("prefill_seconds_saved", "Token hits divided by the given prefill rate."),
    ("reuse_ms", "For every reference to a block but its first: the time since the reference "
                 "before. Percentiles are nearest rank."),
    ("reuse_requests", "The same interval counted in requests: 1 is the next request."),
    ("blocks_by_refs", "Distinct blocks by how often the whole trace references them. Blocks "
                       "referenced once cannot hit."),
    ("top1pct_share", "Share of all re-references that go to the most referenced 1 % of blocks."),
    ("sessions", "given: the trace has session ids. inferred: a request continues the latest one "
                 "that holds its deepest hit block, if it reuses all but at most the last of that "
                 "one's blocks, and at least two; where two continue the same request, both count "
                 "its earlier turns."),
    ("turns", "Requests of one session."),
    ("gap_ms", "Time between a request of a session and the one before it."),
    ("per_minute", "Requests in each minute from the first request on, empty minutes included."),
    ("per_second", "Requests divided by the time from the first to the last."),
    ("gap_variation", "Standard deviation of the times between arrivals divided by their mean: 1 "
                      "for a Poisson process, more is burstier."),
    ("distinct_timestamps", "Different arrival times; far fewer than requests means that the trace "
                            "records them coarsely."),
)


def definitions(report):
    """(name, plain words, exact words) of every number, any of the two may be empty."""
    own = {plain(key, 60): plain(words, 2000)
           for key, words in list(section(report, "definitions").items())[:200]}
    entries = []
    for name, words in DEFINITIONS:
        exact = [own.pop(prefix + name) for prefix in ("", "results.", "infinite.", "sessions.",
                                                       "arrivals.") if prefix + name in own]
        entries.append((name, words, " ".join(exact)))
    return entries + [(name, "", words) for name, words in sorted(own.items())]


def is_bound(result):
    return result["policy"] == "min"


def by_capacity(results):
    """{capacity in blocks: {policy: result}}"""
    grid = {}
    for result in results:
        grid.setdefault(number(result, "capacity_blocks"), {})[result["policy"]] = result
    return grid


def reference_capacity(results):
    """The capacity the summary speaks of: the one nearest to 10 % of the distinct blocks."""
    shares = [(abs((number(r, "capacity_share") or 0) - 0.1), number(r, "capacity_blocks"))
              for r in results]
    return min(shares)[1]


def summary(report):
    """Sentences for the top of the page, not yet escaped; the first is the answer."""
    results, infinite = report["results"], section(report, "infinite")
    ceiling = number(infinite, "token_ratio")
    if ceiling is None:
        return [f"Hit ratios are not defined for this trace: its format "
                f"({plain(report.get('format', 'unknown'), 40)}) names no blocks, so nobody can "
                "tell which prompts share a prefix. It offers lengths and arrivals."]
    if not results:
        return [f"A cache of any size would save at most {percent(ceiling, 1)} of the prefill "
                "tokens."]
    sentences = []
    blocks = reference_capacity(results)
    here = by_capacity(results)[blocks]
    real = [r for r in here.values() if not is_bound(r) and number(r, "token_ratio") is not None]
    if real:
        main = here.get("leaf-lru", real[0])
        sentences.append(
            f"A cache of {capacity_words(main)} would have saved "
            f"{percent(number(main, 'token_ratio'), 1)} of the prefill tokens under "
            f"{plain(main['policy'], 60)}; {percent(ceiling, 1)} is possible at any size.")
        best = max(real, key=lambda r: number(r, "hit_blocks") or 0)
        if (number(best, "hit_blocks") or 0) > (number(main, "hit_blocks") or 0):
            sentences.append(f"{plain(best['policy'], 60)} would have saved "
                             f"{percent(number(best, 'token_ratio'), 1)} at the same size, the "
                             "most of the policies tried.")
        saved_s = number(main, "prefill_seconds_saved")
        if saved_s is not None:
            sentences.append(f"At the given prefill rate, {plain(main['policy'], 60)} saves "
                             f"{duration(1000 * saved_s)} of prefill.")
    bound = here.get("min")
    if bound is not None and number(bound, "block_ratio") is not None:
        gap = [number(r, "block_ratio") for r in real if number(r, "block_ratio") is not None]
        # Under the block rule min stores every miss, which a policy that bypasses may beat; and it
        # bounds the whole run, not what counts after a warm-up or with outputs stored on the side.
        options = section(report, "options")
        holds = (report.get("hit_rule") != "block" and options.get("warmup", "0") == "0"
                    and options.get("store-output", "false") == "false")
        hits = f"{percent(number(bound, 'block_ratio'), 1)} of the block references"
        words = (f"At that size, no policy can hit more than {hits} (min)" if holds else
                 f"At that size, min, which knows the future, hits {hits}")
        words += f"; the best one tried hits {percent(max(gap), 1)}." if gap else "."
        sentences.append(words)
    sentences.extend(_enough(results, infinite))
    reuse = section(report, "reuse_ms")
    if number(reuse, "p50") is not None and number(reuse, "p90") is not None:
        sentences.append(f"Half of all reuses come within {duration(number(reuse, 'p50'))}, "
                         f"90{NO_BREAK}% within {duration(number(reuse, 'p90'))}.")
    return sentences


def _enough(results, infinite):
    """The smallest capacity tried that gives most of what an infinite cache would."""
    total = number(infinite, "hit_blocks")
    good = [r for r in results
            if not is_bound(r) and total and (number(r, "hit_blocks") or 0) >= 0.9 * total]
    if not good:
        return []
    least = min(good, key=lambda r: (number(r, "capacity_blocks") or 0,
                                     -(number(r, "hit_blocks") or 0)))
    return [f"The smallest size tried that gives 90{NO_BREAK}% of an infinite cache's hits is "
            f"{capacity_words(least)}, under {plain(least['policy'], 60)}."]
