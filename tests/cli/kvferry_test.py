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
import signal
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
MODEL = {"model_type": "mistral", "num_hidden_layers": 4, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 64, "hidden_size": 512, "sliding_window": 4096}
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
    COMMANDS = ((), ("replay",), ("stress",), ("bench",), ("bench", "host"), ("bench", "nvme"),
                ("bench", "decode"),
                ("inspect",), ("fsck",), ("trace",), ("trace", "convert"))

    def test_every_command_explains_itself(self):
        for command in self.COMMANDS:
            with self.subTest(command):
                done = kvferry(*command, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertIn("--help", done.stdout.decode())

    def test_names_its_commands_and_exit_codes(self):
        words = kvferry("--help").stdout.decode()
        for word in ("replay", "stress", "trace", "bench", "inspect", "fsck", "2 usage"):
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

    def test_convert_says_where_the_formats_are_listed(self):
        self.assertIn("--list-formats", kvferry("trace", "convert", "--help").stdout.decode())

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
        self.assert_usage((*trace, "--prefill-rate", "-1"), "--prefill-rate", "above 0")
        for rate in ("0", "nan", "inf", "1e300"):
            self.assert_usage((*trace, "--prefill-rate", rate), "--prefill-rate",
                              "above 0 and up to 1,000,000,000,000")
        self.assert_usage((*trace, "--bytes-per-token", "0"), "--bytes-per-token", "above 0")

    def test_numbers_that_no_integer_holds(self):
        # Read as another number they would change what is replayed without a word.
        for option in ("--seed", "--limit", "--skip-bad-lines", "--jobs", "--block-tokens"):
            for value in ("-1", "99999999999999999999999", "1.5", "0x10", "1e3", ""):
                self.assert_usage(("replay", "--trace", self.trace, option, value), option,
                                  "whole number")
        self.assert_usage(("trace", "convert", self.trace, "--seed", "-1"), "--seed")
        self.assert_usage(("replay", "--trace", self.trace, "--block-tokens", "0"),
                          "--block-tokens", "from 1 to")

    def test_lists_with_nothing_in_an_item(self):
        trace = ("replay", "--trace", self.trace, "--block-tokens", "16")
        for value in (",", "1,,2", "1,", ",1", ""):
            self.assert_usage((*trace, "--capacity", value), "--capacity", f"'{value}'", "comma")
        self.assert_usage((*trace, "--policy", ",", "-c", "1"), "--policy", "','", "comma")
        self.assert_usage((*trace, "--policy", "leaf-lru,,arc"), "--policy", "leaf-lru,,arc")

    def test_capacities_say_what_is_wrong_with_them(self):
        trace = ("replay", "--trace", self.trace, "--block-tokens", "16")
        self.assert_usage((*trace, "--capacity", "1.5"), "blocks are whole numbers")
        self.assert_usage((*trace, "--capacity", "0"), "holds nothing")
        self.assert_usage((*trace, "--capacity", "0%"), "holds nothing")
        self.assert_usage((*trace, "--capacity", "10B", "--bytes-per-token", "1"),
                          "less than one block of 16 B")

    def test_times_say_what_is_wrong_with_them(self):
        trace = ("replay", "--trace", self.trace, "--block-tokens", "16")
        self.assert_usage((*trace, "--to", "0"), "--to", "leaves no request", "--from")
        self.assert_usage((*trace, "--warmup", "99999999999d"), "--warmup", "too long")
        self.assert_usage((*trace, "--warmup", "9" * 19), "--warmup", "18 digits")
        self.assert_usage((*trace, "--warmup", "1.5"), "--warmup", "10min")

    def test_options_about_a_trace_without_one(self):
        for option in (("--format", "mooncake"), ("--skip-bad-lines", "3"), ("--shared-ids",)):
            self.assert_usage(("replay", "--limit", "5", *option), option[0], "--trace")

    def test_the_page_has_a_name(self):
        self.assert_usage(("replay", "--limit", "5", "--html", "-"), "--html", "page.html")

    def test_a_folder_is_in_a_format_of_folders(self):
        self.assert_usage(("replay", "--trace", self.folder.name, "--format", "mooncake"),
                          "mooncake", "sessions")
        self.assert_usage(("replay", "--trace", self.trace, "--format", "ragpulse"), "one file",
                          "folder")

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

    def test_stress_says_what_it_needs(self):
        self.assert_usage(("stress",), "--sim", "--kills", "--power-cuts", "--nth-fault")
        self.assert_usage(("stress", "--sim", "--kills", "1", "--dir", "x"), "one of", "--kills")
        self.assert_usage(("stress", "--kills", "1"), "--kills", "--dir", "empty folder")
        for value in ("0", "-1", "many"):
            self.assert_usage(("stress", "--kills", value, "--dir", "x"), "--kills",
                              "whole number")
            self.assert_usage(("stress", "--power-cuts", value), "--power-cuts", "whole number")
            self.assert_usage(("stress", "--nth-fault", "--every", value), "--every",
                              "whole number")
        self.assert_usage(("stress", "--sim", "--faults", "evil"), "--faults", "evil", "hostile")
        for option in ("--seeds", "--ops", "--jobs"):
            for value in ("0", "-1", "1.5", "99999999999999999999999", ""):
                self.assert_usage(("stress", "--sim", option, value), option, "whole number")
        self.assert_usage(("stress", "--sim", "--seed", "-1"), "--seed", "whole number")
        self.assert_usage(("stress", "--sim", "--seed", "18446744073709551615"), "--seed",
                          "last seed")


class InputAsOutputTest(CommandTest):
    """An output that is an input is refused before anything is written, whatever its name."""

    def setUp(self):
        self.input = self.write("input.jsonl", LINES)
        self.names = [self.input, self.path("link"), self.path("hard"),
                      os.path.join(self.folder.name, ".", "input.jsonl")]
        os.symlink("input.jsonl", self.names[1])
        os.link(self.input, self.names[2])

    def tearDown(self):
        for name in self.names[:3]:
            os.unlink(name)

    def assert_refused(self, arguments, stdin=None, stdout=subprocess.PIPE):
        done = subprocess.run([BINARY, *arguments], stdin=stdin, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 2, f"{arguments}: {message}")
        self.assertIn("itself", message)
        self.assertIn("another file", message)
        with open(self.input, encoding="utf-8") as file:
            self.assertEqual(file.read(), LINES)
        self.assertEqual([n for n in os.listdir(self.folder.name) if ".part-" in n], [])

    def test_a_converted_trace(self):
        for name in self.names:
            self.assert_refused(("trace", "convert", self.input, "--block-tokens", "16",
                                 "-o", name))
            self.assert_refused(("trace", "convert", name, "--block-tokens", "16",
                                 "-o", self.input))

    def test_a_page(self):
        for name in self.names:
            self.assert_refused(("replay", "--trace", self.input, "--block-tokens", "16",
                                 "--html", name))

    def test_the_models_config(self):
        config = self.write("config.json", json.dumps(MODEL))
        done = kvferry("replay", "--limit", "5", "--model", config, "--html", config)
        self.assertEqual(done.returncode, 2)
        self.assertIn("itself", done.stderr.decode())
        with open(config, encoding="utf-8") as file:
            self.assertEqual(json.load(file), MODEL)

    def test_a_file_of_a_folder(self):
        self.assert_refused(("replay", "--trace", self.folder.name, "--html", self.input))

    def test_standard_input(self):
        with open(self.input, "rb") as file:
            self.assert_refused(("trace", "convert", "-", "--block-tokens", "16", "-o",
                                 self.names[2]), stdin=file)

    def test_standard_output(self):
        for form in ((), ("--json",), ("--csv",)):
            with open(self.input, "ab") as file:
                self.assert_refused(("replay", "--trace", self.names[1], "--block-tokens", "16",
                                     *form), stdout=file)
        with open(self.input, "ab") as file:
            self.assert_refused(("trace", "convert", self.input, "--block-tokens", "16"),
                                stdout=file)


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
            schema = file.read().split("## JSON", 1)[1].split("## CSV", 1)[0]
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

    def test_csv_has_the_columns_of_the_guide(self):
        with open(os.path.join(DOCS, "replay.md"), encoding="utf-8") as file:
            guide = file.read().split("## CSV", 1)[1]
        documented = [name for cell in re.findall(r"^\| ((?:`[^`|]+`(?:, )?)+) \|", guide, re.M)
                      for name in re.findall(r"`([^`]+)`", cell)]
        done = kvferry("replay", "--trace", self.trace, "--block-tokens", "16", "--csv")
        self.assertEqual(done.stdout.decode().splitlines()[0].split(","), documented)
        bad = self.write("bad3.jsonl", LINES + "nothing\n")
        done = kvferry("replay", "--trace", bad, "--block-tokens", "16", "--csv",
                       "--skip-bad-lines", "1")
        self.assertIn("1 bad line was skipped", done.stderr.decode())
        self.assertNotIn("skipped", done.stdout.decode())

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

    def test_a_model_says_what_its_bytes_leave_out(self):
        model = self.write("model.json", json.dumps(MODEL))
        report = self.small("--model", model, "--capacity", "5")
        self.assertTrue([note for note in report["notes"] if "sliding window" in note],
                        report["notes"])

    def test_bytes_of_a_trace_without_block_ids_are_no_failure(self):
        trace = self.write("azure3.csv", AZURE)
        done = kvferry("replay", "--trace", trace, "-c", "64GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no block ids", done.stdout.decode())

    def test_checks_are_those_that_had_something_to_check(self):
        words = kvferry("replay", "--trace", self.trace, "--block-tokens", "16", "-p", "fifo", "-c",
                        "1").stdout.decode()
        self.assertIn("Checked: hits", words)
        self.assertNotIn("LRU never", words)
        self.assertNotIn("or min", words)

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

    def test_spares_files_with_names_like_its_own(self):
        # A neighbour may be a user's file, or a link to one.
        out = self.path("spared.jsonl")
        victim = self.write("victim", "mine")
        partial = self.write("spared.jsonl.partial", "mine")
        os.symlink("victim", self.path("spared.jsonl.part-1-0"))
        done = kvferry("trace", "convert", self.trace, "--block-tokens", "16", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in (victim, partial):
            with open(name, encoding="utf-8") as file:
                self.assertEqual(file.read(), "mine")
        self.assertFalse(os.path.islink(out))

    def test_errors_name_what_was_asked_for(self):
        done = kvferry("trace", "convert", self.trace, "--block-tokens", "16", "-o",
                       self.path("absent/out.jsonl"))
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 2, message)
        self.assertIn('absent/out.jsonl"', message)
        self.assertNotIn(".part", message)

    def test_a_signal_while_writing_leaves_nothing_behind(self):
        # An output of some 50 MB takes longer to write than the sight of its temporary file; when
        # it is done before the signal comes, the round counts for nothing and another one begins.
        big = self.write("big.jsonl", "".join(
            '{"timestamp": 0, "input_length": 64000, "output_length": 1, "hash_ids": [%s]}\n'
            % ",".join(str(1000 * line + i) for i in range(1000)) for line in range(2000)))
        out = self.path("interrupted.jsonl")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            interrupted = any(self.interrupt(big, out, number) for _ in range(20))
            self.assertTrue(interrupted, f"signal {number} never came in time")

    def interrupt(self, trace, out, number):
        """Whether the signal ended the conversion; it must leave the folder as it was then."""
        before = set(os.listdir(self.folder.name)) - {"interrupted.jsonl"}
        process = subprocess.Popen([BINARY, "trace", "convert", trace, "--block-tokens", "64", "-q",
                                    "-o", out], stderr=subprocess.PIPE)
        while process.poll() is None:
            if any(".part-" in name for name in os.listdir(self.folder.name)):
                process.send_signal(number)
                break
        message = process.communicate(timeout=60)[1]
        now = set(os.listdir(self.folder.name))
        if process.returncode == 0:
            self.assertEqual(now, before | {"interrupted.jsonl"})
            os.unlink(out)
            return False
        self.assertEqual((process.returncode, message), (-number, b""))
        self.assertEqual(now, before)
        return True


class StressTest(CommandTest):
    """The simulation of the engine; tests/stress runs it in earnest."""

    COUNTS = ("seed", "seeds", "operations", "steps", "blocks_compared", "hits_nvme", "offloads",
              "evictions", "coalesced_reads", "failed_checks", "cancelled", "deadlines_missed",
              "other_namespace", "violations")

    def stress(self, *arguments):
        """What a run that finds nothing prints, and not a word on stderr."""
        done = kvferry("stress", "--sim", *arguments)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""), arguments)
        return done.stdout.decode()

    def test_json_counts_what_was_done(self):
        report = json.loads(self.stress("--seeds", "20", "--ops", "300", "--seed", "7", "--json"))
        self.assertEqual(list(report), ["stress", *self.COUNTS, "faults", "failing_seed"])
        self.assertEqual(report["stress"], "sim")
        self.assertEqual([report[name] for name in ("seed", "seeds", "operations", "violations")],
                         [7, 20, 20 * 300, 0])
        self.assertIsNone(report["failing_seed"])
        for name in self.COUNTS:
            self.assertIsInstance(report[name], int, name)
        self.assertGreater(report["blocks_compared"], 0)
        self.assertGreater(report["hits_nvme"], 0)
        self.assertGreater(sum(report["faults"].values()), 0)
        self.assertIn("torn write", report["faults"])

    def test_a_seed_tells_everything(self):
        # The number of processes included: a run does not depend on its neighbours.
        volume = ("--seeds", "10", "--ops", "200", "--json", "--seed")
        first = self.stress(*volume, "7", "--jobs", "1")
        self.assertEqual(self.stress(*volume, "7", "--jobs", "1"), first)
        self.assertEqual(self.stress(*volume, "7", "--jobs", "3"), first)
        other = json.loads(self.stress(*volume, "8"))
        self.assertNotEqual(other["steps"], json.loads(first)["steps"])

    def test_without_faults_none_happens(self):
        report = json.loads(self.stress("--seeds", "10", "--ops", "200", "--faults", "none",
                                        "--json"))
        self.assertEqual(set(report["faults"].values()), {0})
        self.assertEqual(report["failed_checks"], 0)
        self.assertGreater(report["hits_nvme"], 0)

    def test_text_has_the_same_numbers(self):
        volume = ("--seeds", "10", "--ops", "200", "--seed", "7")
        report = json.loads(self.stress(*volume, "--json"))
        text = self.stress(*volume)
        rows = dict(re.findall(r"(?m)^(\w[\w ]*?) +(\d+)$", text))
        for name in self.COUNTS[1:]:
            self.assertEqual(int(rows[name.replace("_", " ")]), report[name], name)
        faults = dict(re.findall(r"(?m)^  (\w[\w -]*?) +(\d+)$", text))
        self.assertEqual({name: int(count) for name, count in faults.items()}, report["faults"])


class StressKillsTest(CommandTest):
    """Processes that are killed over real files; tests/stress runs them in earnest."""

    COUNTS = ("seed", "kills", "operations", "acknowledged", "blocks_compared", "blocks_found",
              "segments_reused", "violations")

    def test_json_and_a_store_that_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            done = kvferry("stress", "--kills", "20", "--dir", store, "--seed", "7", "--json")
            self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
            report = json.loads(done.stdout)
            self.assertEqual(list(report), ["stress", *self.COUNTS, "faults", "failing_seed"])
            self.assertEqual([report[name] for name in ("stress", "seed", "kills", "violations")],
                             ["kills", 7, 20, 0])
            self.assertIsNone(report["failing_seed"])
            self.assertGreater(report["acknowledged"], 0)
            self.assertGreater(report["blocks_found"], 0)
            self.assertEqual(sum(report["faults"].values()), 20)
            self.assertIn("batch written", report["faults"])
            for command in ("fsck", "inspect"):
                self.assertEqual(kvferry(command, store).returncode, 0, command)

    def test_a_folder_that_holds_something_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "file"), "w", encoding="utf-8") as file:
                file.write("mine")
            done = kvferry("stress", "--kills", "1", "--dir", folder)
            self.assertEqual(done.returncode, 2)
            self.assertIn("not an empty folder", done.stderr.decode())
            self.assertEqual(os.listdir(folder), ["file"])


class StressDamageTest(CommandTest):
    """Stores on real files that are damaged; tests/stress damages them in earnest."""

    COUNTS = ("seed", "damaged_stores", "operations", "blocks_compared", "blocks_lost",
              "stores_refused", "violations")

    def test_json_and_a_sound_store_that_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            done = kvferry("stress", "--damage", "30", "--dir", store, "--seed", "7", "--json")
            self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
            report = json.loads(done.stdout)
            self.assertEqual(list(report), ["stress", *self.COUNTS, "faults", "failing_seed"])
            self.assertEqual(
                [report[name] for name in ("stress", "seed", "damaged_stores", "violations")],
                ["damage", 7, 30, 0])
            self.assertIsNone(report["failing_seed"])
            self.assertGreater(report["blocks_compared"], 0)
            self.assertEqual(sum(report["faults"].values()), 30)
            self.assertEqual(report["faults"]["swapped in payload"], 1)
            for command in ("fsck", "inspect"):
                self.assertEqual(kvferry(command, store).returncode, 0, command)

    def test_a_folder_is_needed(self):
        done = kvferry("stress", "--damage", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--damage needs --dir", done.stderr.decode())


class StressNthFaultTest(CommandTest):
    """Each operation of a script fails in turn; tests/stress runs more of them."""

    def test_json_counts_the_runs(self):
        volume = ("stress", "--nth-fault", "--seed", "1", "--every", "307", "--json")
        done = kvferry(*volume)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        report = json.loads(done.stdout)
        self.assertEqual(list(report), ["stress", "seed", "runs", "drive_operations", "batches",
                                        "operations", "acknowledged", "blocks_compared",
                                        "times_off", "violations", "faults", "failing_seed"])
        self.assertEqual([report["stress"], report["seed"], report["violations"]],
                         ["nth_fault", 1, 0])
        self.assertGreaterEqual(report["drive_operations"], 300)
        self.assertGreater(report["runs"], 20)
        self.assertIn("sync error", report["faults"])
        self.assertEqual(kvferry(*volume).stdout, done.stdout)


class StressPowerCutsTest(CommandTest):
    """Power cuts under the real manifest; tests/stress runs them in earnest."""

    def test_json_counts_the_cuts(self):
        done = kvferry("stress", "--power-cuts", "60", "--seed", "7", "--json")
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        report = json.loads(done.stdout)
        self.assertEqual(list(report), ["stress", "seed", "power_cuts", "operations",
                                        "acknowledged", "blocks_compared", "blocks_found",
                                        "violations", "faults", "failing_seed"])
        self.assertEqual([report["stress"], report["seed"], report["violations"]],
                         ["power_cuts", 7, 0])
        self.assertGreaterEqual(report["power_cuts"], 60)
        self.assertGreater(report["acknowledged"], 0)
        self.assertGreater(report["faults"]["cut within a change"], 0)
        self.assertGreater(report["faults"]["cut between changes"], 0)


class BenchTest(CommandTest):
    """The shape of what is measured, with inputs too small for any number to mean something."""

    SMALL = ("--host-bytes", "32MiB", "--block", "64KiB,1MiB", "--blocks", "16384",
             "--seconds", "0.05")
    CASES = ("get", "put", "match_8192", "match_8192_swept", "put_metadata",
             "index_bytes_per_block")

    def bench(self, *arguments):
        done = kvferry("bench", "host", *self.SMALL, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def assert_usage(self, arguments, *words):
        done = kvferry("bench", "host", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
        for word in words:
            self.assertIn(word, done.stderr.decode())

    def test_measures_every_case_beside_its_bound(self):
        done = self.bench("--json", "--quiet")
        self.assertEqual(done.stderr, b"")
        report = json.loads(done.stdout)
        self.assertEqual(report["bench"], "host")
        self.assertEqual(set(report["machine"]), {"cpu", "cores", "kernel"})
        seen = [(result["case"], result.get("block_bytes")) for result in report["results"]]
        copies = [(case, size) for size in (65536, 1048576) for case in ("get", "put")]
        self.assertEqual(seen, copies + [("match_8192", None), ("match_8192_swept", None),
                                         ("put_metadata", 4096), ("index_bytes_per_block", None)])
        for result in report["results"]:
            for field in ("value", "unit", "bound", "bound_value", "ratio", "checksum"):
                self.assertIn(field, result)
            self.assertGreater(result["bound_value"], 0, result)

    def test_tables_take_no_more_than_promised(self):
        # Counted, not timed: the one figure that no machine changes.
        report = json.loads(self.bench("--json", "--case", "index_bytes_per_block").stdout)
        self.assertLessEqual(report["results"][0]["value"], 100)

    def test_prints_a_table_and_tells_its_steps(self):
        done = kvferry("bench", "host", "--case", "get", "--block", "64KiB", "--seconds", "0.05",
                       "--host-bytes", "32MiB")
        lines = done.stdout.decode().splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertTrue(lines[1].startswith("case"), lines)
        self.assertTrue(lines[2].startswith("get, 64.0 KiB"), lines)
        self.assertIn("filling 32.0 MiB", done.stderr.decode())

    def test_help_names_every_case(self):
        words = kvferry("bench", "host", "--help").stdout.decode()
        for case in self.CASES:
            self.assertIn(case, words)

    def test_refuses_what_means_nothing(self):
        self.assert_usage(("--case", "got"), "--case", "got", "match_8192")
        self.assert_usage(("--block", "64Ki"), "--block", "64Ki")
        self.assert_usage(("--block", "1KiB"), "--block", "4.00 KiB")
        self.assert_usage(("--block", "128MiB"), "--block", "64.0 MiB")
        self.assert_usage(("--host-bytes", "much"), "--host-bytes", "much")
        self.assert_usage(("--host-bytes", "1MiB"), "--host-bytes", "16 blocks")
        self.assert_usage(("--seconds", "0"), "--seconds")
        self.assert_usage(("--seconds", "nan"), "--seconds")
        self.assert_usage(("--blocks", "100"), "--blocks", "16,384")
        self.assert_usage(("--copy-threads", "0"), "--copy-threads")


class ReopenBenchTest(CommandTest):
    """The shape of what `bench reopen` measures, and that it cleans up."""

    def test_measures_a_small_store(self):
        with tempfile.TemporaryDirectory() as folder:
            done = kvferry("bench", "reopen", "--dir", folder, "--blocks", "2000", "--json", "-q")
            self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
            self.assertEqual(os.listdir(folder), [])
        report = json.loads(done.stdout)
        self.assertEqual(report["bench"], "reopen")
        results = {each["case"]: each for each in report["results"]}
        self.assertEqual(list(results), ["open", "first_answer", "first_hit", "scan", "found",
                                         "read", "index"])
        self.assertEqual(results["found"]["value"], results["found"]["bound_value"])
        self.assertGreaterEqual(results["found"]["value"], 1900)
        self.assertLess(results["read"]["value"], results["read"]["bound_value"])

    def test_refuses_what_means_nothing(self):
        done = kvferry("bench", "reopen", "--dir", "/no/such/folder")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn("/no/such/folder", done.stderr.decode())
        done = kvferry("bench", "reopen", "--dir", "/", "--blocks", "10")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn("--blocks", done.stderr.decode())


class DecodeBenchTest(CommandTest):
    """What `bench decode` finds on the simulated runtime, and what it refuses."""

    CASES = ("step_resident", "step_staged", "stall_share", "max_relative_error", "bytes_h2d",
             "bytes_d2h", "bytes_nvme_read", "wasted_prefetch_share")
    # 30 sessions come to have 5 full blocks, 150 in all; host memory has room for 128.
    SMALL = ("--sessions", "30", "--context", "79", "--hbm-blocks", "24", "--steps", "18",
             "--turn-steps", "1", "--check-rows", "50")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = kvferry("bench", "decode", *cls.SMALL, "-q")
        if b"this build has no GPU parts" in done.stderr:
            raise unittest.SkipTest(done.stderr.decode())

    def decode(self, *arguments):
        done = kvferry("bench", "decode", *self.SMALL, "--json", "-q", *arguments)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""), arguments)
        report = json.loads(done.stdout)
        self.assertEqual(report["bench"], "decode")
        digests = report["output_sha256"]
        self.assertRegex(digests["resident"], "^[0-9a-f]{64}$")
        self.assertEqual(digests["resident"], digests["staged"])
        values = {result["case"]: result["value"] for result in report["results"]}
        for case in self.CASES:
            self.assertIn(case, values)
        self.assertGreater(values["step_resident"], 0)
        self.assertLess(values["max_relative_error"], 0.01)
        self.assertGreater(values["max_relative_error"], 0)
        return report, values

    def refuse(self, arguments, *words):
        done = kvferry("bench", "decode", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
        for word in words:
            self.assertIn(word, done.stderr.decode())

    def test_staged_blocks_make_the_outputs_of_resident_ones(self):
        report, values = self.decode()
        self.assertIn("simulated", report["device"])
        self.assertTrue(any("say nothing about a GPU" in note for note in report["notes"]))
        self.assertGreater(values["bytes_h2d"], 0)
        self.assertGreater(values["bytes_d2h"], 0)
        self.assertEqual(values["bytes_nvme_read"], 0)
        self.assertEqual(values["blocks_recomputed"], 0)
        # Other values for another seed; the same ones without hints.
        again, _ = self.decode("--hint-turns", "0", "--schedule", "eager")
        self.assertEqual(again["output_sha256"], report["output_sha256"])
        other, _ = self.decode("--seed", "2")
        self.assertNotEqual(other["output_sha256"], report["output_sha256"])

    def test_blocks_come_from_a_drive_too(self):
        with tempfile.TemporaryDirectory() as folder:
            _, values = self.decode("--nvme-dir", folder, "--host-blocks", "128")
            self.assertEqual(os.listdir(folder), [])
        self.assertGreater(values["bytes_nvme_read"], 0)
        self.assertGreater(values["bytes_h2d"], 0)

    def test_reads_a_model_and_says_what_is_left_out(self):
        model = self.write("config.json", json.dumps({
            "model_type": "llama", "num_hidden_layers": 8, "num_attention_heads": 4,
            "num_key_value_heads": 2, "hidden_size": 256}))
        report, _ = self.decode("--model", model, "--layers", "2")
        self.assertIn("--layers leaves 2 of 8 layers", report["notes"])

    def test_prints_a_table_and_tells_its_steps(self):
        done = kvferry("bench", "decode", *self.SMALL)
        self.assertEqual(done.returncode, 0)
        words = done.stdout.decode()
        for case in self.CASES:
            self.assertRegex(words, rf"(?m)^{case} +[0-9]")
        self.assertIn("output_sha256", words)
        self.assertIn("everything resident", done.stderr.decode())

    def test_help_names_every_case(self):
        words = kvferry("bench", "decode", "--help").stdout.decode()
        for case in self.CASES:
            self.assertIn(case, words)

    def test_says_why_there_is_no_gpu(self):
        done = kvferry("bench", "decode", "--device", "cuda", *self.SMALL)
        if done.returncode == 0:
            self.skipTest("there is a GPU")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr.decode(), "^kvferry: --device cuda: .+")

    def test_refuses_what_means_nothing(self):
        for option in ("--sessions", "--context", "--hbm-blocks", "--steps", "--turn-steps",
                       "--block-tokens", "--check-rows"):
            for value in ("0", "x", "-1", "99999999999"):
                self.refuse((option, value), option, f"'{value}'")
        for option in ("--layers", "--host-blocks", "--hint-turns", "--seed", "--gpu"):
            for value in ("x", "-1", "99999999999999999999999"):
                self.refuse((option, value), option, f"'{value}'")
        self.refuse(("--device", "gpu"), "--device", "gpu", "sim", "cuda")
        self.refuse(("--schedule", "late"), "--schedule", "late", "lazy")
        self.refuse(("--sessions", "2"), "--sessions 2")
        self.refuse(("--sessions", "4"), "--sessions 4", "give more sessions")
        self.refuse(("--hbm-blocks", "20"), "--hbm-blocks 20", "give 26 or more")
        self.refuse(("--host-blocks", "10"), "--host-blocks 10", "give 128 or more")
        self.refuse(("--host-blocks", "150"), "--host-blocks 150", "--nvme-dir")
        self.refuse(("--block-tokens", "1"), "--block-tokens 1", "4.00 KiB")
        self.refuse(("--nvme-dir", "/no/such/folder"), "--nvme-dir", "/no/such/folder")
        self.refuse(("--model", self.write("bad.json", "{}")), "--model", "bad.json",
                    "choose another model")
        done = kvferry("bench", "decode", "--model", "/no/such/config.json")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn("/no/such/config.json", done.stderr.decode())


class NvmeBenchTest(CommandTest):
    """The shape of what `bench nvme` measures, what it refuses, and that it cleans up."""

    CASES = ("offload", "onboard", "mixed", "mixed_unlimited")

    def refuse(self, code, arguments, *words):
        with tempfile.TemporaryDirectory() as folder:
            done = kvferry("bench", "nvme", "--dir", folder, *arguments)
            self.assertEqual((done.returncode, done.stdout), (code, b""), arguments)
            for word in words:
                self.assertIn(word, done.stderr.decode())
            self.assertEqual(os.listdir(folder), [])

    def test_help_names_every_case(self):
        words = kvferry("bench", "nvme", "--help").stdout.decode()
        for case in self.CASES:
            self.assertIn(case, words)

    def test_refuses_what_means_nothing(self):
        self.refuse(2, ("--case", "get"), "--case", "get", "mixed_unlimited")
        self.refuse(2, ("--block", "1Mi"), "--block", "1Mi")
        self.refuse(2, ("--block", "5000"), "--block", "4 KiB")
        self.refuse(2, ("--block", "32MiB"), "--host-bytes", "32 blocks")
        self.refuse(2, ("--host-bytes", "much"), "--host-bytes", "much")
        self.refuse(2, ("--store-bytes", "1GiB"), "--store-bytes", "four times")
        self.refuse(2, ("--seconds", "0"), "--seconds")
        self.refuse(2, ("--copy-threads", "0"), "--copy-threads")

    def test_refuses_a_folder_that_is_none(self):
        done = kvferry("bench", "nvme")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn("--dir", done.stderr.decode())
        done = kvferry("bench", "nvme", "--dir", "/no/such/folder")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn("/no/such/folder", done.stderr.decode())

    def test_says_what_room_it_needs_and_takes_none_where_there_is_too_little(self):
        self.refuse(1, ("--store-bytes", "900TiB"), "files of 1.76 PiB", "are free",
                    "lower --store-bytes")

    def test_measures_every_case_beside_its_bound(self):
        sizes = (65536, 262144)
        with tempfile.TemporaryDirectory() as folder:
            done = kvferry("bench", "nvme", "--dir", folder, "--store-bytes", "128MiB",
                           "--host-bytes", "16MiB", "--block", "64KiB,256KiB", "--seconds", "0.1",
                           "--json", "--quiet")
            self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
            self.assertEqual(os.listdir(folder), [])
        report = json.loads(done.stdout)
        self.assertEqual(report["bench"], "nvme")
        self.assertIn(report["io"], ("io_uring", "threads"))
        self.assertEqual([(case["name"], case["block_bytes"]) for case in report["cases"]],
                         [(name, size) for size in sizes for name in self.CASES])
        for case in report["cases"]:
            self.assertGreaterEqual(case["pairs"], 3, case)
            for name in ("gbps", "bound_gbps", "ratio", "p50_us", "p99_us", "cpu_us_per_mib",
                         "bound_cpu_us_per_mib"):
                self.assertGreater(case[name], 0, case)

    def test_leaves_nothing_when_it_is_ended_early(self):
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(ending), tempfile.TemporaryDirectory() as folder:
                bench = subprocess.Popen(
                    [BINARY, "bench", "nvme", "--dir", folder, "--store-bytes", "1GiB",
                     "--host-bytes", "64MiB", "--block", "256KiB"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                told = bench.stderr.readline() + bench.stderr.readline()
                self.assertIn(b"writing a file of 1.00 GiB", told)
                self.assertEqual(len(os.listdir(folder)), 1)
                bench.send_signal(ending)
                # Who removes has these ends open until it is done.
                bench.communicate(timeout=60)
                self.assertEqual(bench.returncode, -ending)
                self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    BINARY, DOCS, SHARED = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
