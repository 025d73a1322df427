#!/usr/bin/env python3
"""What a wrong command line is told: what is wrong with it, and which --help to read.

usage: usage_error_test.py BINARY
"""

import os
import subprocess
import sys
import unittest

BINARY = None


class UsageErrorTest(unittest.TestCase):
    def assert_told(self, line, message):
        done = subprocess.run([BINARY, *line.split()], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr.decode()),
                         (2, b"", f"kvferry: {message}\n"), line)

    def test_a_command_that_is_none_is_named_beside_those_that_are(self):
        done = subprocess.run([BINARY, "bench", "hosts"], capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(),
                         r"^kvferry: no command 'hosts': it is host, nvme,? .*"
                         r"; see kvferry bench --help\n$")
        self.assert_told("rpelay", "no command 'rpelay': it is replay, stress, trace, bench, "
                         "inspect or fsck; see kvferry --help")
        self.assert_told("trace conver a.jsonl", "no command 'conver': it is convert; "
                         "see kvferry trace --help")

    def test_a_missing_command_is_told_with_those_that_are(self):
        self.assert_told("trace", "no command is given: it is convert; see kvferry trace --help")
        self.assert_told("", "no command is given: it is replay, stress, trace, bench, inspect or "
                         "fsck; see kvferry --help")

    def test_what_is_left_over_is_in_its_order(self):
        self.assert_told("stress --sim --block-bytes 3", "these were not expected: --block-bytes "
                         "3; see kvferry stress --help")
        self.assert_told("trace convert a.jsonl --polcy",
                         "this was not expected: --polcy; see kvferry trace convert --help")

    def test_a_bad_value_names_the_help_of_its_command(self):
        self.assert_told("stress --sim --ops none", "--ops: 'none' is no whole number from 1 to "
                         "10,000,000; see kvferry stress --help")

    def test_stress_refuses_what_the_run_would_not_hear(self):
        for line, run, option, takers in (
                ("--sim --dir x", "--sim", "--dir", "--kills and --damage"),
                ("--sim --every 3", "--sim", "--every", "--nth-fault"),
                ("--nth-fault --ops 5", "--nth-fault", "--ops", "--sim"),
                ("--power-cuts 1 --faults rare", "--power-cuts", "--faults", "--sim"),
                ("--kills 1 --dir x --seeds 3", "--kills", "--seeds", "--sim"),
                ("--damage 1 --dir x --jobs 2", "--damage", "--jobs",
                 "--sim and --power-cuts and --nth-fault")):
            self.assert_told(f"stress {line}", f"{run} takes no {option}, which is for {takers}; "
                             "leave one of them out")
            self.assertFalse(os.path.exists("x"))


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
