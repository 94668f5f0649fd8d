"""How many cores are ours: affinity masks, and quotas of control groups inside each other."""

import os

import pytest

from abreast.processes import cores as module
from abreast.processes.cores import allowed_cores, cores, quota


def groups(path, monkeypatch, lines, files):
    """A machine with these control groups."""
    (path / "self").write_text("\n".join(lines))
    for name, text in files.items():
        (path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "groups" / name).write_text(text)
    monkeypatch.setattr(module, "CGROUPS_OF_PROCESS", path / "self")
    monkeypatch.setattr(module, "CGROUP_ROOT", path / "groups")


V1 = ["4:memory:/a", "3:cpu,cpuacct:/a/b", "0::/"]


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        ([], {}, None),
        (["0::/"], {"cpu.max": "max 100000\n"}, None),
        (["0::/"], {"cpu.max": "50000 100000\n"}, 0.5),
        (["0::/a/b"], {"cpu.max": "max 100000", "a/cpu.max": "150000 100000", "a/b/cpu.max": "400000 100000"}, 1.5),
        (["0::/a/b"], {"a/b/cpu.max": "200000 100000"}, 2.0),
        (["0::/not/there"], {"cpu.max": "300000 100000"}, 3.0),  # a container sees its own group as the root
        (["0::/"], {"cpu.max": "nonsense"}, None),
        (["0::/"], {"cpu.max": "0 100000"}, None),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "-1", "cpu/a/b/cpu.cfs_period_us": "100000"}, None),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "250000", "cpu/a/b/cpu.cfs_period_us": "100000"}, 2.5),
        (
            V1,
            {f"cpu/{group}cpu.cfs_{name}_us": value for group, most in (("", "100000"), ("a/b/", "250000"))
             for name, value in (("quota", most), ("period", "100000"))},
            1.0,
        ),
        (["nonsense", "", "3:cpu"], {"cpu.max": "50000 100000"}, None),
    ],
)  # fmt: skip
def test_the_smallest_quota_counts(lines, files, expected, tmp_path, monkeypatch):
    groups(tmp_path, monkeypatch, lines, files)
    assert quota() == expected


@pytest.mark.parametrize(("share", "expected"), [(0.5, 1), (1.9, 1), (2.0, 2), (3.5, 3), (64, 4), (None, 4)])
def test_cores_are_whole_and_at_least_one(share, expected, monkeypatch):
    monkeypatch.setattr(module, "allowed_cores", lambda: 4)
    monkeypatch.setattr(module, "quota", lambda: share)
    assert cores() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this platform has no affinity masks")
def test_an_affinity_mask_that_changes_is_seen():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert allowed_cores() == cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert allowed_cores() == len(before)
