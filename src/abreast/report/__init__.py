"""Reports: run folders, as files, to one self-contained HTML page."""

from abreast.report.data import COMPARISON, read_comparison, read_run
from abreast.report.page import as_json, make_page

__all__ = ["COMPARISON", "as_json", "make_page", "read_comparison", "read_run"]
