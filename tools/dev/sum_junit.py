"""Sums ctest's JUnit files: prints "PASSED FAILED SKIPPED" for all files named on the command line.

With --failed it prints the names of the tests that failed, each with the end of its output.

A test that ctest could not start (its executable is missing, a fixture of it failed) is written as
"notrun", like one that skipped itself; only the latter counts as skipped here.
"""

import sys
import xml.etree.ElementTree as ElementTree

OUTPUT_LINES = 12  # Of each failed test: what is at the end tells most.
SKIPPED_BY_ITSELF = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")


def outcome(case):
    """One of "passed", "failed" and "skipped" for a testcase element."""
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    if status == "notrun":
        reason = case.find("skipped")
        message = reason.get("message", "") if reason is not None else ""
        if any(name in message for name in SKIPPED_BY_ITSELF):
            return "skipped"
    return "failed"


def print_failed(case):
    """The name of a failed testcase element, and the last lines that it wrote."""
    print(case.get("name"))
    output = (case.findtext("system-out") or "").strip().splitlines()
    for line in output[-OUTPUT_LINES:]:
        print("    " + line)


def main(arguments):
    is_list = arguments[:1] == ["--failed"]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in arguments[is_list:]:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            counts[outcome(case)] += 1
            if is_list and outcome(case) == "failed":
                print_failed(case)
    if not is_list:
        print(counts["passed"], counts["failed"], counts["skipped"])


if __name__ == "__main__":
    main(sys.argv[1:])
