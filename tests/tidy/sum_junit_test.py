"""Tests of tools/dev/sum_junit.py: what ctest writes is counted as what it means."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "dev", "sum_junit.py"
)

# As ctest 3.25 writes them.
CASE = '<testcase name="{name}" status="{status}">{inside}</testcase>'
BY_ITSELF = '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
BY_CODE = '<skipped message="SKIP_RETURN_CODE=77"/>'
NOT_STARTED = '<skipped message="Unable to find executable"/>'
FIXTURE = '<skipped message="Fixture dependency failed"/>'


class SumJunitTest(unittest.TestCase):
    def run_script(self, *suites, options=()):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, cases in enumerate(suites):
                paths.append(os.path.join(folder, f"{number}.xml"))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write("<testsuite>" + "".join(cases) + "</testsuite>")
            command = [sys.executable, SCRIPT, *options, *paths]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_tells_skipped_from_not_started(self):
        cases = [
            CASE.format(name="A.Passes", status="run", inside=""),
            CASE.format(name="A.Fails", status="fail", inside="<failure/>"),
            CASE.format(name="A.SkipsItself", status="notrun", inside=BY_ITSELF),
            CASE.format(name="A.SkipsByCode", status="notrun", inside=BY_CODE),
            CASE.format(name="A.IsNotBuilt", status="notrun", inside=NOT_STARTED),
            CASE.format(name="A.LacksItsFixture", status="notrun", inside=FIXTURE),
        ]
        self.assertEqual(self.run_script(cases), "1 3 2\n")

    def test_sums_over_files(self):
        one = [CASE.format(name="A.Passes", status="run", inside="")]
        self.assertEqual(self.run_script(one, one, []), "2 0 0\n")

    def test_shows_the_end_of_what_a_failed_test_wrote(self):
        output = "<system-out>" + "\n".join(f"line {n}" for n in range(40)) + "</system-out>"
        cases = [
            CASE.format(name="A.Passes", status="run", inside=output),
            CASE.format(name="A.Fails", status="fail", inside="<failure/>" + output),
            CASE.format(name="A.IsNotBuilt", status="notrun", inside=NOT_STARTED),
        ]
        lines = self.run_script(cases, options=["--failed"]).splitlines()
        self.assertEqual(lines[:2], ["A.Fails", "    line 28"])
        self.assertEqual(lines[-2:], ["    line 39", "A.IsNotBuilt"])


if __name__ == "__main__":
    unittest.main()
