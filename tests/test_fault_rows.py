"""The rows of docs/faults.md that the tests name, and that their check can fail."""

from __future__ import annotations

import pathlib

import fault_rows
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

TABLE = """| # | fault | tested in | not over both, because |
|---|---|---|---|
| 1 | bytes | faults/test_requests, server | – |
| 2 | names | server/core (their length), base | no caller can name one |
| 12 | a lost device | planned | – |
| 31 | masks | server and base | masks are made up |
"""
ASKED = """def helper():
    return {}(1)

def test_row_1_is_refused(grpc_caller):
    helper()
"""
GOOD = {
    "faults/test_requests.py": ASKED.format("HttpCaller"),
    "server/core/name_test.cc": "// docs/faults.md, rows 1, 2 and 7.\n",
    "server/masks/mask_test.cc": "TEST(Mask, Row31IsRefused) {}\n",
    "base/mask_test.cc": "// Rows 2 and 31.\n",
}


def findings(folder: pathlib.Path, files: dict[str, str]) -> list[str]:
    (folder / "docs").mkdir()
    (folder / "docs" / "faults.md").write_text(TABLE)
    for name, text in files.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(fault_rows.findings(folder))


def test_our_own_rows_are_named():
    assert list(fault_rows.findings(ROOT)) == []


def test_rows_that_are_named_or_planned_are_no_finding(tmp_path):
    assert findings(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("faults/test_requests.py", "# rows 2 to 9\n", "names row 1"),
        ("base/mask_test.cc", "// row 310, arrows 31, row 2\n", "no test in base names row 31"),
        ("server/core/name_test.cc", "// two rows, row 1\n", "no test in server/core names row 2"),
    ],
)  # fmt: skip
def test_a_row_that_nothing_names_is_a_finding(name, text, says, tmp_path):
    assert any(
        finding.endswith(says) for finding in findings(tmp_path, {**GOOD, name: text})
    )


@pytest.mark.parametrize(
    ("test", "missing"),
    [
        (ASKED.format("HttpCaller"), None),
        (ASKED.format("Caller"), "http"),
        ("def test_row_1_x(http_caller): pass\n", "grpc"),
        ("def test_row_1_x(caller): pass\n", None),
        ("def test_rows_0_to_2_x(connect): pass\n", None),
        ("def test_row_1_x(server): both(server)\n", None),
        ("# row 1\ndef test_of_another(caller): pass\n", "grpc and http"),
        ('CASES = {"row 1: x": 2}\ndef test_x(caller): CASES[0]\n', None),
        (
            'S = pytest.fixture(params=["grpc", "http"])\ndef test_row_1_x(S): pass\n',
            None,
        ),
    ],
)
def test_a_row_is_tested_over_both_protocols(test, missing, tmp_path):
    found = findings(tmp_path, {**GOOD, "faults/test_requests.py": test})
    expected = f"row 1 is not tested over {missing}, and does not say why"
    assert found == ([] if missing is None else [f"docs/faults.md: {expected}"])


def test_cpp_tests_speak_the_protocol_of_their_folder(tmp_path):
    files = {**GOOD, "faults/test_requests.py": "def test_row_1_x(grpc_caller): pass\n"}
    del files["server/core/name_test.cc"]
    files["server/transport/http/name_test.cc"] = "// rows 1 and 2\n"
    files["server/core/other_test.cc"] = "// rows 1 and 2\n"
    assert findings(tmp_path, files) == []


def test_a_reason_that_is_not_needed_is_a_finding(tmp_path):
    files = {**GOOD, "server/transport/grpc/x.cc": "// row 31\n"}
    files["server/transport/http/x.cc"] = "// row 31\n"
    (finding,) = findings(tmp_path, files)
    assert finding.endswith(
        "row 31 is tested over both protocols, and says why it is not"
    )


def test_a_place_that_is_not_there_is_a_finding(tmp_path):
    files = {name: text for name, text in GOOD.items() if not name.startswith("faults")}
    missing = "docs/faults.md: there is no tests/faults/test_requests"
    assert missing in findings(tmp_path, files)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("Rows 14-18, 24, 58, and 63 of docs/faults.md", {14, 15, 16, 17, 18, 24, 58, 63}),
        ("Rows 51 to 53 and 60", {51, 52, 53, 60}),
        ("def test_row_63_a_thousand_objects", {63}),
        ("TEST_F(Executor, Row61EverySize)", {61}),
        ('"row 24: 1x20000"', {24}),
        ("the rows of a table, 12 of them", set()),
    ],
)  # fmt: skip
def test_rows_are_read_as_tests_write_them(text, rows):
    assert fault_rows.numbers(text) == rows
