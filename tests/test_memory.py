"""What does not fit into memory is refused with the number of bytes."""

import pytest

from solvable import memory


def test_there_is_some_memory_and_not_more_than_machines_have():
    assert 1e7 < memory.available() < 1e14


def test_what_is_larger_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2.5e9)
    memory.refuse("num_tasks", 10**6, 2.4e9)
    with pytest.raises(ValueError, match=r"num_tasks must be smaller than 1000000000: that takes"):
        memory.refuse("num_tasks", 10**9, 7.2e10)
    with pytest.raises(
        ValueError, match=r"about 7\.2e\+10 bytes of memory, and there are 2\.5e\+09"
    ):
        memory.refuse("num_tasks", 10**9, 7.2e10)


@pytest.mark.parametrize(("text", "limit"), [("max\n", float("inf")), ("1000\n", 1000.0)])
def test_the_limit_of_a_container_counts(monkeypatch, tmp_path, text, limit):
    (tmp_path / "memory.max").write_text(text)
    monkeypatch.setattr(memory, "_LIMITS", (str(tmp_path / "memory.max"),))
    assert memory.available() <= limit
    assert (memory.available() == limit) == (limit == 1000.0)
