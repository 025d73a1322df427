#!/usr/bin/env python3
"""The kvferry command from outside: exit codes, messages, output formats, help.

usage: kvferry_test.py BINARY DOCS SHARED
BINARY is the command, DOCS the folder with replay.md, SHARED a folder with public traces, which may
be absent.
"""

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

BINARY = DOCS = SHARED = None

# Three requests of 16-token blocks; the last block of the last one holds 8 tokens. Without
# evictions: 2 + 2 hits of 16 tokens in 9 references to 5 blocks.
LINES = (
    '{"timestamp": 0, "input_length": 48, "output_length": 7, "hash_ids": [1, 2, 3]}\n'
    '{"timestamp": 1000, "input_length": 48, "output_length": 9, "hash_ids": [1, 2, 4]}\n'
    '{"timestamp": 3000, "input_length": 40, "output_length": 11, "hash_ids": [1, 2, 5]}\n')
AZURE = ("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
         "2023-11-16 18:15:46.6805900,374,44\r\n"
         "2023-11-16 18:15:50.9951690,396,109")


def kvferry(*arguments, stdin=b"", stdout=subprocess.PIPE):
    return subprocess.run([BINARY, *arguments], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                          timeout=300, check=False)


class CommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kvferry-cli-")
        cls.trace = cls.write("trace.jsonl", LINES)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, content):
        with open(cls.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return cls.path(name)

    def report(self, *arguments, stdin=b""):
        """The JSON of a replay that must succeed without a word on stderr."""
        done = kvferry("replay", "--json", "--quiet", *arguments, stdin=stdin)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""), arguments)
        return json.loads(done.stdout)

    def small(self, *arguments):
        return self.report("--trace", self.trace, "--block-tokens", "16", *arguments)


class HelpTest(CommandTest):
    COMMANDS = ((), ("replay",), ("trace",), ("trace", "convert"))

    def test_every_command_explains_itself(self):
        for command in self.COMMANDS:
            with self.subTest(command):
                done = kvferry(*command, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertIn("--help", done.stdout.decode())

    def test_names_its_commands_and_exit_codes(self):
        words = kvferry("--help").stdout.decode()
        for word in ("replay", "trace", "2 usage"):
            self.assertIn(word, words)

    def test_options_and_guide_agree(self):
        # Read from both sides: an option without a word in the guide, a word without its option.
        with open(os.path.join(DOCS, "replay.md"), encoding="utf-8") as file:
            guide = file.read()
        words = kvferry("replay", "--help").stdout.decode()
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", words))
        table = set(re.findall(r"^\|[^|]*`(--[a-z][a-z-]+)", guide, re.M))
        self.assertEqual(options - {"--help"} - table, set(), "not in the table of docs/replay.md")
        self.assertEqual(table - options, set(), "in docs/replay.md and no option")

    def test_every_option_says_what_it_does(self):
        for command in self.COMMANDS:
            lines = kvferry(*command, "--help").stdout.decode().splitlines()
            for number, line in enumerate(lines):
                if re.match(r"\s+(-\w,)?--", line):
                    below = lines[number + 1] if number + 1 < len(lines) else ""
                    text = re.split(r"\s{2,}", line.strip(), maxsplit=1)[1:] or [below.strip()]
                    self.assertGreater(len(text[0]), 8, line)

    def test_version(self):
        done = kvferry("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout.decode(), r"^kvferry \d+\.\d+\.\d+\n$")

    def test_lists_formats(self):
        words = kvferry("replay", "--list-formats").stdout.decode()
        for name in ("mooncake", "sessions", "ragpulse", "azure", "bailian", "aiperf"):
            self.assertRegex(words, rf"(?m)^{name}\s+\w")


class UsageTest(CommandTest):
    def assert_usage(self, arguments, *words):
        done = kvferry(*arguments)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 2, f"{arguments}: {message}")
        self.assertEqual(done.stdout, b"")
        self.assertTrue(message.startswith("kvferry: "), message)
        for word in words:
            self.assertIn(word, message)

    def test_no_command(self):
        self.assert_usage((), "--help")

    def test_unknown_command_and_option(self):
        self.assert_usage(("rpelay",), "--help")
        self.assert_usage(("replay", "--polcy", "fifo"), "--polcy")

    def test_values_that_mean_nothing(self):
        trace = ("replay", "--trace", self.trace, "--block-tokens", "16")
        self.assert_usage((*trace, "--policy", "lrru"), "--policy", "lrru", "leaf-lru")
        self.assert_usage((*trace, "--policy", "second-sight:lrru"), "lrru", "leaf-lru")
        self.assert_usage((*trace, "--capacity", "5x"), "--capacity", "5x")
        self.assert_usage((*trace, "--capacity", "101%"), "--capacity", "101%")
        self.assert_usage((*trace, "--capacity", "64GiB"), "--model", "--bytes-per-token")
        self.assert_usage((*trace, "--hit-rule", "suffix"), "--hit-rule", "prefix")
        self.assert_usage((*trace, "--mode", "nothing"), "--mode")
        self.assert_usage((*trace, "--format", "nope"), "--format", "mooncake")
        self.assert_usage((*trace, "--warmup", "soon"), "--warmup", "10min")
        self.assert_usage((*trace, "--from", "2h", "--to", "1h"), "--from")
        self.assert_usage((*trace, "--from", "-5"), "--from")
        self.assert_usage((*trace, "--limit", "0"), "--limit")
        self.assert_usage((*trace, "--jobs", "0"), "--jobs")
        self.assert_usage((*trace, "--memory", "much"), "--memory", "much")
        self.assert_usage((*trace, "--seed", "x"), "--seed")
        self.assert_usage((*trace, "--prefill-rate", "-1"), "--prefill-rate")

    def test_options_that_contradict_each_other(self):
        self.assert_usage(("replay", "--trace", self.trace, "--json", "--csv"), "--json", "--csv")
        model = self.write("config.json", "{}")
        self.assert_usage(("replay", "--trace", self.trace, "--model", model,
                           "--bytes-per-token", "10"), "--model", "--bytes-per-token")

    def test_block_size_that_cannot_be_told(self):
        # One id for five tokens: blocks of 4 tokens, rounded down, or of 8 and more, rounded up.
        several = self.write("several.jsonl", '{"timestamp": 0, "input_length": 5, '
                             '"output_length": 1, "hash_ids": [1]}\n')
        self.assert_usage(("replay", "--trace", several), "--block-tokens")

    def test_a_page_that_could_not_be_written_is_refused_before_the_work(self):
        self.assert_usage(("replay", "--trace", self.trace, "--block-tokens", "16", "--html",
                           self.path("absent/page.html")), "--html", "absent/page.html")
        self.assert_usage(("replay", "--trace", self.trace, "--block-tokens", "16", "--html",
                           self.folder.name), "--html")

    def test_convert_needs_a_trace(self):
        self.assert_usage(("trace", "convert"), "trace")
        self.assert_usage(("trace",))


class FailureTest(CommandTest):
    def assert_fails(self, arguments, *words, stdin=b"", stdout=subprocess.PIPE):
        done = kvferry(*arguments, stdin=stdin, stdout=stdout)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 1, f"{arguments}: {message}")
        self.assertIn("kvferry: ", message)
        for word in words:
            self.assertIn(word, message)

    def test_a_file_that_is_not_there(self):
        self.assert_fails(("replay", "--trace", self.path("absent.jsonl")), "absent.jsonl")

    def test_a_bad_line_has_file_line_field_and_reason(self):
        bad = self.write("bad.jsonl", LINES + '{"timestamp": 4000, "input_length": -3, '
                         '"output_length": 1, "hash_ids": [1]}\n')
        self.assert_fails(("replay", "--trace", bad, "--block-tokens", "16"), "bad.jsonl", "4",
                          "input_length", "--skip-bad-lines")

    def test_skips_as_many_bad_lines_as_allowed(self):
        bad = self.write("bad2.jsonl", "{\n" + LINES + "nothing\n")
        self.assert_fails(("replay", "--trace", bad, "--block-tokens", "16",
                           "--skip-bad-lines", "1"), "bad2.jsonl")
        report = self.report("--trace", bad, "--block-tokens", "16", "--skip-bad-lines", "2")
        self.assertEqual((report["skipped_lines"], report["requests"]), (2, 3))

    def test_empty_input(self):
        self.assert_fails(("replay", "--trace", "-"))

    def test_a_full_disk_is_no_success(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "wb") as full:
            self.assert_fails(("replay", "--trace", self.trace, "--block-tokens", "16", "--json"),
                              "No space left", stdout=full)
            self.assert_fails(("trace", "convert", self.trace, "--block-tokens", "16"),
                              stdout=full)

    def test_memory_is_told_before_it_is_taken(self):
        self.assert_fails(("replay", "--trace", self.trace, "--block-tokens", "16", "--memory",
                           "1KiB"), "--memory")


class PipeTest(CommandTest):
    def test_a_reader_that_went_away_is_a_quiet_end(self):
        for arguments in (("replay", "--trace", self.trace, "--block-tokens", "16", "--json"),
                          ("replay", "--trace", self.trace, "--block-tokens", "16", "--csv"),
                          ("replay", "--trace", self.trace, "--block-tokens", "16"),
                          ("trace", "convert", self.trace, "--block-tokens", "16"),
                          ("replay", "--help"), ("replay", "--list-formats"), ("--version",)):
            with self.subTest(arguments):
                read_end, write_end = os.pipe()
                os.close(read_end)
                done = kvferry(*arguments, stdout=write_end)
                os.close(write_end)
                self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_no_progress_bar_in_a_pipe(self):
        done = kvferry("replay", "--trace", self.trace, "--block-tokens", "16")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(b"\r", done.stderr)
        self.assertNotIn(b"\x1b", done.stderr + done.stdout)


class ReplayTest(CommandTest):
    def test_counts_by_hand(self):
        report = self.small("--policy", "leaf-lru,min", "--capacity", "5,3")
        for key, value in (("requests", 3), ("input_tokens", 136), ("output_tokens", 27),
                           ("block_refs", 9), ("distinct_blocks", 5), ("block_tokens", 16),
                           ("format", "mooncake"), ("span_ms", 3000), ("hit_rule", "prefix")):
            self.assertEqual(report[key], value, key)
        self.assertEqual({key: report["infinite"][key] for key in
                          ("hit_blocks", "hit_tokens", "requests_with_hit")},
                         {"hit_blocks": 4, "hit_tokens": 64, "requests_with_hit": 2})
        self.assertEqual(report["blocks_by_refs"],
                         {"1": 3, "2": 0, "3-9": 2, "10-99": 0, "100+": 0})
        cells = {(r["policy"], r["capacity_blocks"]): r for r in report["results"]}
        self.assertEqual(set(cells), {("leaf-lru", 5), ("leaf-lru", 3), ("min", 5), ("min", 3)})
        for cell in cells.values():
            self.assertEqual((cell["hit_blocks"], cell["hit_tokens"], cell["lookups"]), (4, 64, 9))
        self.assertEqual(cells["leaf-lru", 5]["evictions"], 0)
        self.assertEqual(cells["leaf-lru", 3]["evictions"], 2)

    def test_json_has_every_key_of_the_guide(self):
        with open(os.path.join(DOCS, "replay.md"), encoding="utf-8") as file:
            schema = file.read().split("## JSON", 1)[1]
        report = self.small()
        flat = set()

        def walk(prefix, value):
            if isinstance(value, dict) and prefix not in ("options.", "definitions."):
                for key, inner in value.items():
                    flat.add(prefix + key)
                    walk(f"{prefix}{key}.", inner)
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                walk(prefix, value[0])
        walk("", report)
        # Percentiles and the like stand in the text.
        flat = {key for key in flat
                if not re.fullmatch(r"(p\d+|max|mean|\d.*)", key.split(".")[-1])}
        documented = {key for cell in re.findall(r"^\| ((?:`[^`|]+`(?:, )?)+) \|", schema, re.M)
                      for key in re.findall(r"`([^`]+)`", cell)}
        self.assertGreater(len(documented), 50)
        self.assertEqual(documented - flat, set(), "documented and not there")
        optional = {"results.capacity_bytes"}  # Only with bytes a token.
        self.assertEqual(flat - documented - optional, set(), "there and not documented")

    def test_sha256_is_of_the_file(self):
        import hashlib
        self.assertEqual(self.small()["sha256"], hashlib.sha256(LINES.encode()).hexdigest())

    def test_same_seed_same_output(self):
        def once():
            done = kvferry("replay", "--limit", "300", "--json", "--quiet", "--seed", "7")
            self.assertEqual(done.returncode, 0, done.stderr)
            return re.sub(rb'"seconds": [^,\n]*', b"", done.stdout)
        self.assertEqual(once(), once())

    def test_without_a_trace_a_workload_is_replayed(self):
        report = self.report("--limit", "300")
        self.assertEqual(report["requests"], 300)
        self.assertGreater(report["infinite"]["hit_blocks"], 0)
        other = self.report("--limit", "300", "--seed", "2")
        self.assertNotEqual(other["infinite"], report["infinite"])

    def test_every_policy_reconciles(self):
        report = self.report("--limit", "200", "--policy", "all", "--capacity", "1%,10%")
        self.assertGreaterEqual(len({r["policy"] for r in report["results"]}), 14)
        for cell in report["results"]:
            self.assertLessEqual(cell["hit_blocks"], report["infinite"]["hit_blocks"])
            self.assertGreater(cell["lookups"], cell["hit_blocks"])
            self.assertAlmostEqual(cell["block_ratio"], cell["hit_blocks"] / cell["lookups"])

    def test_reads_standard_input_and_gzip_alike(self):
        expected = self.small()
        packed = self.write("packed.txt", gzip.compress(LINES[:100].encode())
                            + gzip.compress(LINES[100:].encode()))
        for report in (self.report("--trace", "-", "--block-tokens", "16", stdin=LINES.encode()),
                       self.report("--trace", packed, "--block-tokens", "16")):
            for key in ("requests", "block_refs", "infinite", "reuse_ms", "sessions"):
                self.assertEqual(report[key], expected[key], key)

    def test_csv_says_what_json_says(self):
        arguments = ("replay", "--trace", self.trace, "--block-tokens", "16", "--quiet",
                     "--policy", "leaf-lru,fifo,min", "--capacity", "2,4")
        done = kvferry(*arguments, "--csv")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        rows = list(csv.DictReader(io.StringIO(done.stdout.decode(), newline="")))
        results = json.loads(kvferry(*arguments, "--json").stdout)["results"]
        self.assertEqual(len(rows), 6)
        for row, result in zip(rows, results):
            for key in ("policy", "capacity_blocks", "hit_blocks", "hit_tokens", "evictions",
                        "rejected", "requests_with_hit"):
                self.assertEqual(row[key], str(result[key]), key)

    def test_bytes_and_seconds_where_they_are_known(self):
        report = self.small("--bytes-per-token", "1024", "--capacity", "64KiB", "--policy", "fifo",
                            "--prefill-rate", "8")
        cell = report["results"][0]
        self.assertEqual((cell["capacity_blocks"], cell["capacity_bytes"]), (4, 65536))
        self.assertAlmostEqual(cell["prefill_seconds_saved"], cell["hit_tokens"] / 8)

    def test_warm_up_is_not_counted(self):
        cell = self.small("--warmup", "1", "--policy", "fifo", "--capacity", "5")["results"][0]
        self.assertEqual((cell["lookups"], cell["hit_blocks"]), (6, 4))
        later = self.small("--warmup", "2s", "--policy", "fifo", "--capacity", "5")["results"][0]
        self.assertEqual((later["lookups"], later["hit_blocks"]), (3, 2))

    def test_a_trace_without_block_ids_has_no_hits_and_says_so(self):
        trace = self.write("azure.csv", AZURE)
        report = self.report("--trace", trace)
        self.assertEqual((report["requests"], report["results"], report["infinite"]), (2, [], None))
        self.assertEqual(report["lengths"]["input"]["max"], 396)
        self.assertIn("not defined", kvferry("replay", "--trace", trace).stdout.decode())

    def test_a_person_gets_a_table(self):
        words = kvferry("replay", "--trace", self.trace, "--block-tokens", "16", "--quiet")
        self.assertEqual((words.returncode, words.stderr), (0, b""))
        for word in ("leaf-lru", "min", "distinct", "trace.jsonl"):
            self.assertIn(word, words.stdout.decode())

    def test_public_trace_gives_its_published_hits(self):
        trace = os.path.join(SHARED, "traces/mooncake-conversation/conversation_trace.jsonl")
        if not os.path.exists(trace):
            self.skipTest(f"no {trace}")
        report = self.report("--trace", trace, "--policy", "leaf-lru", "--capacity", "10%")
        cell = report["results"][0]
        self.assertEqual((cell["capacity_blocks"], cell["hit_blocks"]), (18279, 80466))
        self.assertEqual(report["infinite"]["hit_blocks"], 105710)


class PageTest(CommandTest):
    def test_writes_a_small_self_contained_page(self):
        page = self.path("page.html")
        done = kvferry("replay", "--limit", "300", "--quiet", "--html", page)
        if done.returncode == 2 and b"python3-matplotlib" in done.stderr:
            self.skipTest("no matplotlib here")
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        self.assertIn("leaf-lru", done.stdout.decode())
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertLess(len(text.encode()), 1_000_000)
        self.assertTrue(text.endswith("</html>\n"))
        self.assertNotRegex(text, r"<(script|link|img|iframe)|https?:|@import")
        self.assertIn("would have saved", text)
        self.assertEqual(os.listdir(os.path.dirname(page)).count("page.html"), 1)
        self.assertEqual([n for n in os.listdir(os.path.dirname(page)) if ".part-" in n], [])


class ConvertTest(CommandTest):
    def test_what_was_converted_replays_the_same(self):
        out = self.path("converted.jsonl")
        done = kvferry("trace", "convert", self.trace, "--block-tokens", "16", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        again = self.report("--trace", out, "--block-tokens", "16")
        for key in ("requests", "block_refs", "distinct_blocks", "infinite", "reuse_ms", "lengths"):
            self.assertEqual(again[key], self.small()[key], key)

    def test_prints_lines_of_json(self):
        done = kvferry("trace", "convert", "-", "--block-tokens", "16", stdin=LINES.encode())
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual([line["timestamp"] for line in lines], [0, 1000, 3000])
        self.assertEqual([line["input_length"] for line in lines], [48, 48, 40])
        self.assertEqual(len({line["hash_ids"][0] for line in lines}), 1)

    def test_refuses_a_trace_without_block_ids(self):
        trace = self.write("azure2.csv", AZURE)
        out = self.path("never.jsonl")
        done = kvferry("trace", "convert", trace, "-o", out)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("block ids", done.stderr.decode())
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    BINARY, DOCS, SHARED = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
