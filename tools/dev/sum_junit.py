"""Sums ctest's JUnit files: prints "PASSED FAILED SKIPPED" for all files named on the command line.

A test that ctest could not start (its executable is missing, a fixture of it failed) is written as
"notrun", like one that skipped itself; only the latter counts as skipped here.
"""

import sys
import xml.etree.ElementTree as ElementTree

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


def main(paths):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in paths:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            counts[outcome(case)] += 1
    print(counts["passed"], counts["failed"], counts["skipped"])


if __name__ == "__main__":
    main(sys.argv[1:])
