"""A bench for each test."""

import pytest

from tests.faults.bench import Bench


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)
