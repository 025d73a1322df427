#!/usr/bin/env python3
"""The replay page: what it says, that it is self-contained, and that no input breaks it.

usage: report_page_test.py SCRIPT    (the path of report_page.py)
Runs itself again under an interpreter with matplotlib; without one, it says skipped and exits 77.
"""

import copy
import html.parser
import json
import os
import re
import subprocess
import sys
import unittest

SCRIPT = None
NO_BREAK = "\u202f"

DISTINCT = 182790
CAPACITIES = (1000, 3000, 5859, 10000, 18279, 50000, 97656)
BLOCK_RATIOS = {
    "leaf-lru": (.0445, .0653, .1361, .2116, .2789, .3546, .3635),
    "clock": (.0447, .0674, .1384, .2144, .2810, .3542, .3631),
    "min": (.1906, .2944, .3531, .3664, .3664, .3664, .3664),
}


def result(policy, index, ratios):
    blocks, ratio = CAPACITIES[index], ratios[index]
    low, high = BLOCK_RATIOS["leaf-lru"][index], BLOCK_RATIOS["min"][index]
    return {"policy": policy, "capacity_blocks": blocks, "capacity_share": blocks / DISTINCT,
            "lookups": 288500, "hit_blocks": round(288500 * ratio),
            "hit_tokens": round(147e6 * ratio), "hit_tokens_full_blocks": round(146e6 * ratio),
            "requests_with_hit": 12000, "evictions": DISTINCT - blocks, "rejected": 0,
            "resident_misses": 0, "seconds": 0.0125, "block_ratio": ratio,
            "token_ratio": 1.0196 * ratio, "prefill_seconds_saved": None,
            "gap_closed": None if high == low else (ratio - low) / (high - low)}


def sample():
    """A report as the program prints it, with numbers of a public conversation trace."""
    quantiles = {"p50": 1, "p90": 2, "p99": 7, "max": 43}
    return {
        "version": "0.1.0", "seed": 1, "hit_rule": "prefix",
        "options": {"--capacity": "1%,5%", "--policy": "leaf-lru,clock,min"},
        "trace": "conversation_trace.jsonl", "sha256": "b8cb" * 16, "format": "mooncake",
        "block_tokens": 512, "requests": 12031, "input_tokens": 144793823,
        "output_tokens": 4122048, "block_refs": 288500, "distinct_blocks": DISTINCT,
        "span_ms": 3536999, "skipped_lines": 0, "notes": ["times come in batches"],
        "lengths": {"input": {"mean": 12035.1, "p50": 6909, "p90": 30000, "p99": 85401,
                              "max": 126195},
                    "output": {"mean": 342.6, "p50": 350, "p90": 700, "p99": 1120, "max": 2000}},
        "infinite": {"hit_blocks": 105710, "hit_tokens": 54098411,
                     "hit_tokens_full_blocks": 54063104, "requests_with_hit": 12030,
                     "block_ratio": .3664, "token_ratio": .3736, "token_ratio_second_half": .3981},
        "reuse_ms": {"p10": 0, "p25": 54000, "p50": 114000, "p75": 264000, "p90": 522000,
                     "p99": 1578000, "max": 3030000},
        "reuse_requests": {"p10": 2, "p25": 150, "p50": 384, "p75": 800, "p90": 1748, "p99": 5527,
                           "max": 11000},
        "blocks_by_refs": {"1": 138646, "2": 25455, "3-9": 17348, "10-99": 1340, "100+": 1},
        "top1pct_share": .3165,
        "sessions": {"kind": "inferred", "count": 8076, "single": 6031, "turns": quantiles,
                     "gap_ms": {"p50": 123000, "p90": 474001, "p99": 1458000, "max": 3000000}},
        "arrivals": {"per_second": 3.4015, "gap_variation": 3.034, "distinct_timestamps": 1180,
                     "per_minute": {"p1": 144, "p50": 207, "p99": 247, "max": 247}},
        "results": [result(policy, index, ratios) for index in range(len(CAPACITIES))
                    for policy, ratios in BLOCK_RATIOS.items()],
        "definitions": {"results.hit_blocks": "EXACT WORDS OF THE PROGRAM"},
    }


def without_blocks():
    report = sample()
    report.update(format="azure", block_tokens=None, block_refs=None, distinct_blocks=None,
                  infinite=None, reuse_ms=None, reuse_requests=None, blocks_by_refs=None,
                  top1pct_share=None, results=[])
    report["sessions"] = {"kind": "none", "count": None, "single": None, "turns": None,
                          "gap_ms": None}
    return report


def run(raw=b"", arguments=(), options=()):
    """The script as a program."""
    return subprocess.run([sys.executable, *options, "-B", SCRIPT, *arguments], input=raw,
                          capture_output=True, timeout=300, check=False)


class DrawnOnce:
    """report_plots, which takes most of the time, with its answers kept."""

    def __init__(self, plots):
        self._plots, self._kept = plots, {}

    def __getattr__(self, name):
        def draw(*arguments):
            key = name + json.dumps(arguments, default=lambda looks: vars(looks), sort_keys=True)
            if key not in self._kept:
                self._kept[key] = getattr(self._plots, name)(*arguments)
            return self._kept[key]
        return draw


def draw(report):
    """The page of a report, drawn in this process."""
    return SCRIPT_MODULE.page(json.dumps(report).encode(), PLOTS)


class Reader(html.parser.HTMLParser):
    """Checks the nesting of tags and collects what a page loads, names and says."""

    VOID = {"meta", "br", "use", "path", "rect", "circle", "link", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references, self.tags, self.words = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID or tag in ("use",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href", "src", "srcset", "action", "data", "poster"):
                self.references.append(value)
            self.references += [f"#{target}" for target in
                                re.findall(r"url\(#([^)]*)\)", value or "")]
            assert not name.startswith("on"), f"handler {name}"

    def handle_endtag(self, tag):
        if tag in self.VOID and tag != "use":
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def read(page):
    reader = Reader()
    reader.feed(page.decode("utf-8"))
    reader.close()
    assert not reader.open, reader.open
    return reader


class ReportPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.good = draw(sample())

    def words(self, report):
        """What the page says, with one plain space where it has any."""
        return " ".join(" ".join(read(draw(report)).words).split())

    def test_is_complete_and_small(self):
        self.assertTrue(self.good.startswith(b"<!DOCTYPE html>\n"))
        self.assertTrue(self.good.endswith(b"</html>\n"))
        self.assertLess(len(self.good), 300_000)

    def test_same_input_gives_same_bytes(self):
        # Another process, so that nothing depends on its memory or the seed of its hashes.
        done = run(json.dumps(sample()).encode())
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(done.stdout, self.good)

    def test_loads_nothing_and_runs_nothing(self):
        reader = read(self.good)
        self.assertEqual([r for r in reader.references if not r.startswith("#")], [])
        self.assertTrue({"script", "link", "img", "iframe", "object"}.isdisjoint(reader.tags))
        self.assertNotIn(b"http:", self.good)
        self.assertNotIn(b"https:", self.good)
        self.assertNotIn(b"@import", self.good)
        self.assertIn(b"Content-Security-Policy", self.good)

    def test_ids_are_unique_and_links_lead_somewhere(self):
        reader = read(self.good)
        self.assertEqual(len(reader.ids), len(set(reader.ids)))
        self.assertEqual([r for r in reader.references if r[1:] not in reader.ids], [])

    def test_fits_a_phone_and_both_themes(self):
        self.assertIn(b'name="viewport"', self.good)
        self.assertIn(b"prefers-color-scheme: dark", self.good)
        page = self.good.decode()
        self.assertEqual(page.count('<svg class="wide"'), page.count('<svg class="narrow"'))
        # Colours of the plots are the page's, so that they follow the theme.
        plots = "".join(re.findall(r'<svg class="(?:wide|narrow)".*?</svg>', page, re.S))
        self.assertEqual(re.findall(r"#[0-9a-f]{6}", plots), [])

    def test_draws_every_plot(self):
        page = self.good.decode()
        for name in ("hit", "gap", "reuse", "refs"):
            self.assertIn(f'id="{name}-wide-', page)
            self.assertIn(f'id="{name}-narrow-', page)

    def test_every_point_has_its_value(self):
        page = self.good.decode()
        titles = re.findall(r"<title>(leaf-lru: [^<]*)</title>", page)
        self.assertEqual(len(titles), 2 * len(CAPACITIES))
        self.assertIn(f"leaf-lru: 27.89{NO_BREAK}% at 10{NO_BREAK}% of the distinct blocks "
                      "(18,279 blocks)", titles)

    def test_starts_with_the_answer(self):
        words = self.words(sample())
        self.assertIn("A cache of 10 % of the distinct blocks (18,279 blocks) would have saved "
                      "28.4 % of the prefill tokens under leaf-lru; 37.4 % is possible at any "
                      "size.", words)
        self.assertIn("Half of all reuses come within 114 s, 90 % within 8.7 min.",
                      words)

    def test_defines_every_number_and_quotes_the_program(self):
        words = self.words(sample())
        self.assertIn("EXACT WORDS OF THE PROGRAM", words)
        headings = set(re.findall(r'href="#d-([^"]*)"', self.good.decode()))
        self.assertGreater(len(headings), 15)
        for name in headings:
            self.assertIn(f'<dt id="d-{name}">', self.good.decode())

    def test_is_titled_by_file_names_without_folders(self):
        report = sample()
        report["trace"] = "/home/someone/a.jsonl + sessions/"
        self.assertIn("<title>a.jsonl + sessions · kvferry", draw(report).decode())

    def test_shows_the_exact_counts(self):
        words = self.words(sample())
        for value in ("12,031", "144,793,823", "182,790", "138,646", "80,463"):
            self.assertIn(value, words)

    def test_says_that_hits_are_not_defined_without_block_ids(self):
        words = self.words(without_blocks())
        self.assertIn("Hit ratios are not defined for this trace", words)
        self.assertNotIn("block hit ratio", words)
        self.assertIn("requests a second", words)

    def test_says_savings_where_a_rate_is_given(self):
        report = sample()
        for entry in report["results"]:
            entry["prefill_seconds_saved"] = entry["hit_tokens"] / 8000
        self.assertIn("At the given prefill rate, leaf-lru saves", self.words(report))

    def test_names_bytes_where_they_are_known(self):
        report = sample()
        for entry in report["results"]:
            entry["capacity_bytes"] = entry["capacity_blocks"] << 26
        self.assertIn("(18,279 blocks, 1.12 TiB)", self.words(report))

    def test_escapes_what_the_trace_says(self):
        evil = '</title><script>alert(1)</script><img src=x onerror=a()>"\'&\x00\x1b\u202eevil$x^2$'
        report = sample()
        report["trace"] = report["format"] = report["notes"][0] = report["sha256"] = evil
        report["hit_rule"] = report["version"] = report["sessions"]["kind"] = evil
        report["options"] = {evil: evil}
        report["definitions"] = {evil: evil}
        for entry in report["results"]:
            if entry["policy"] == "clock":
                entry["policy"] = evil
        page = draw(report).decode()

        self.assertTrue({"script", "img"}.isdisjoint(read(page.encode()).tags))
        self.assertEqual(re.findall("[\x00\x1b\u202e]", page), [])
        self.assertIn("&lt;script&gt;", page)

    def test_survives_lone_surrogates(self):
        report = sample()
        report["trace"] = "\ud800x"
        self.assertIn("<title>\ufffdx", draw(report).decode())

    def test_stays_below_a_megabyte(self):
        report = sample()
        capacities = range(100, 100 + 37 * 300, 37)
        entry = report["results"][0]
        report["results"] = []
        for number in range(30):
            for blocks in capacities:
                one = copy.copy(entry)
                one.update(policy=f"second-sight:policy-with-a-long-name-{number}",
                           capacity_blocks=blocks, capacity_share=blocks / DISTINCT)
                report["results"].append(one)
        report["notes"] = ["long " * 10_000] * 1000
        page = draw(report)
        self.assertLess(len(page), 1_000_000)
        self.assertIn("40 of 300 capacities are shown", page.decode())

    def test_draws_odd_reports(self):
        one = sample()
        one["results"] = [r for r in one["results"] if r["capacity_blocks"] == 5859]
        no_bound = sample()
        no_bound["results"] = [r for r in no_bound["results"] if r["policy"] == "clock"]
        nothing_hits = sample()
        for entry in nothing_hits["results"]:
            entry.update(block_ratio=0, token_ratio=0, hit_blocks=0, gap_closed=None)
        nothing_hits["infinite"].update(block_ratio=0, token_ratio=0, hit_blocks=0)
        nothing_hits.update(reuse_ms=None, reuse_requests=None)
        everything_hits = sample()
        for entry in everything_hits["results"]:
            entry.update(block_ratio=1, token_ratio=1)
        everything_hits["infinite"].update(block_ratio=1, token_ratio=1)
        at_once = sample()
        at_once["reuse_ms"] = dict.fromkeys(at_once["reuse_ms"], 0)
        far_below = sample()
        for entry in far_below["results"]:
            if entry["policy"] == "clock":
                entry["gap_closed"] = -5e4
        no_results = sample()
        no_results["results"] = []
        for name, report in locals().items():
            if name != "self":
                with self.subTest(name):
                    page = draw(report)
                    read(page)
                    self.assertEqual(re.findall(rb"\b(?:nan|inf)\b", page), [])

    def test_leaves_out_shares_of_a_gap_that_is_tiny(self):
        report = sample()
        for entry in report["results"]:
            if entry["capacity_blocks"] == 97656 and entry["policy"] != "leaf-lru":
                entry.update(block_ratio=.3639 if entry["policy"] == "min" else .36,
                             gap_closed=-12.34)
        self.assertNotIn(">-1234", draw(report).decode())
        report["results"][-1]["block_ratio"] = .3641
        self.assertIn(">-1234.0", draw(report).decode())

    def test_marks_a_best_policy_only_where_it_is_alone_best(self):
        report = sample()
        self.assertIn("<td><b>", draw(report).decode())
        for entry in report["results"]:
            entry.update(block_ratio=.25, token_ratio=.25, gap_closed=None)
        self.assertNotIn("<td><b>", draw(report).decode())

    def test_survives_any_absent_or_null_field(self):
        # A later program may leave fields out; all but the two that make a result are optional.
        for key in sample():
            for value in ("absent", None):
                report = sample()
                if value is None:
                    report[key] = None
                else:
                    del report[key]
                with self.subTest(f"{key} {value}"):
                    read(draw(report))

    def test_refuses_what_is_no_report(self):
        wrong_number = sample()
        wrong_number["results"][0]["block_ratio"] = "0.5"
        no_policy = sample()
        del no_policy["results"][2]["policy"]
        wrong_section = sample()
        wrong_section["infinite"] = [1]
        infinite_number = sample()
        infinite_number["span_ms"] = float("inf")
        for raw, reason in ((b"", "not JSON"), (b"{", "not JSON"), (b"[]", "not a JSON object"),
                            (b"\xff\xfe\x00", "not JSON"), (b"[" * 100_000, "not JSON"),
                            (wrong_number, "field block_ratio is not a number: '0.5'"),
                            (no_policy, "field results[2].policy is missing"),
                            (wrong_section, "field infinite is not an object"),
                            (infinite_number, "field span_ms is not finite")):
            with self.subTest(reason):
                raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
                with self.assertRaises(SCRIPT_MODULE.text.ReportError) as caught:
                    SCRIPT_MODULE.page(raw, PLOTS)
                self.assertIn(reason, str(caught.exception))

    def test_a_refusal_is_one_line_and_no_page(self):
        done = run(b"{")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_check_draws_nothing(self):
        done = run(b"", ["--check"])
        self.assertEqual((done.returncode, done.stdout), (0, b""))

    def test_tells_usage_from_failure(self):
        self.assertEqual(run(b"", ["--chekc"]).returncode, 2)

    def test_says_when_matplotlib_is_missing(self):
        # -S leaves out the folders of installed packages.
        done = run(b"", ["--check"], ["-S", "-E"])
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot import matplotlib", done.stderr.decode())


def find_python():
    for candidate in ("/usr/bin/python3", sys.executable, "python3"):
        try:
            done = subprocess.run([candidate, "-B", SCRIPT, "--check"], capture_output=True,
                                  timeout=300, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
        if done.returncode != 3:
            sys.exit(f"{candidate} {SCRIPT} --check failed: {done.stderr.decode()}")
    return None


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    if sys.argv[1] == "--under":
        SCRIPT = os.path.abspath(sys.argv[2])
        sys.path.insert(0, os.path.dirname(SCRIPT))
        import report_page as SCRIPT_MODULE
        PLOTS = DrawnOnce(SCRIPT_MODULE.import_plots())
        unittest.main(argv=sys.argv[:1] + sys.argv[3:])
    SCRIPT = sys.argv[1]
    PYTHON = find_python()
    if PYTHON is None:
        print("SKIPPED: no interpreter here has matplotlib; install python3-matplotlib")
        sys.exit(77)
    sys.exit(subprocess.call([PYTHON, "-B", __file__, "--under", *sys.argv[1:]]))
