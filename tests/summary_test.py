"""The summary line counts what it should, and fails when it should."""

import summary

REPORT = """<testsuite><testcase name="a"><system-out>
[doctest] test cases:  7 |  5 passed | 2 failed | 1 skipped
</system-out>{a}</testcase><testcase name="b">{b}</testcase></testsuite>"""


def write(tmp_path, a="", b=""):
    path = tmp_path / "report.xml"
    path.write_text(REPORT.format(a=a, b=b))
    return path


def test_doctest_cases_are_added_to_plain_tests(tmp_path):
    assert summary.count_report(write(tmp_path, a="<failure/>")) == (6, 2, 0)


def test_a_skipped_test_is_neither_passed_nor_failed(tmp_path):
    assert summary.count_report(write(tmp_path, b="<skipped/>")) == (5, 2, 1)


def test_a_program_that_crashes_after_its_cases_counts_as_failed(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(
        "<testsuite><testcase><failure/><system-out>"
        "[doctest] test cases: 3 | 3 passed | 0 failed | 0 skipped"
        "</system-out></testcase></testsuite>"
    )
    assert summary.count_report(path) == (3, 1, 0)


def test_a_missing_report_is_a_failure(tmp_path, capsys):
    assert summary.main([str(tmp_path / "none.xml")]) == 1
    assert capsys.readouterr().out == "0 passed, 1 failed\n"


def test_nothing_run_is_a_failure(tmp_path, capsys):
    path = tmp_path / "report.xml"
    path.write_text("<testsuite/>")
    assert summary.main([str(path)]) == 1
    assert capsys.readouterr().out.strip() == "0 passed, 0 failed"


def test_all_passed_is_success(tmp_path, capsys):
    path = tmp_path / "report.xml"
    path.write_text("<testsuite><testcase/><testcase/></testsuite>")
    assert summary.main([str(path)]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"
