"""Prints "PASSED FAILED" of a JUnit report (ctest's or pytest's). A test that was skipped, disabled or not run counts as
failed; the names of all such tests go to stderr.

    python scripts/junit_counts.py REPORT
"""

import sys
import xml.etree.ElementTree


def has_passed(case: xml.etree.ElementTree.Element) -> bool:
    # ctest says how it went in an attribute as well, and for a disabled test only there.
    return case.get("status", "run") == "run" and all(case.find(tag) is None for tag in ("failure", "error", "skipped"))


def main() -> None:
    cases = list(xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"))
    bad = [case for case in cases if not has_passed(case)]
    for case in bad:
        print(f"not passed: {case.get('classname')} {case.get('name')}", file=sys.stderr)
    print(len(cases) - len(bad), len(bad))


if __name__ == "__main__":
    main()
