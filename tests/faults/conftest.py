"""A bench for each test, and the count of all faults at the end."""

import pytest

from tests.faults.bench import Bench


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    counts = [
        value
        for report in reports
        if report.when == "call"
        for key, value in report.user_properties
        if key == "faults"
    ]
    if counts:
        injected, lost, repeated, wrong = map(sum, zip(*counts, strict=True))
        terminalreporter.write_line(
            f"faults: {injected} injected, {lost} finished runs lost, {repeated} repeated, "
            f"{wrong} wrong records accepted"
        )
