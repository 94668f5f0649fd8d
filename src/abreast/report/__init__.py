"""Reports: run folders, as files, to one self-contained HTML page."""

from abreast.report.data import read_run
from abreast.report.page import as_json, make_page

__all__ = ["as_json", "make_page", "read_run"]
