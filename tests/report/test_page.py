"""The page, as Chromium shows it. One browser for all tests; each has a page of its own."""

import base64
import hashlib
import json
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import sqrt

import pytest

from abreast.files import locked
from abreast.report import make_page, page, read_comparison, read_run
from report.folders import NASTY, write_rollout, write_timeline, write_training

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in the extra dev")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("there is no chromium on the path: it is a package of the system, say apt-get install chromium")
    with driver.sync_playwright() as running:
        yield running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page of runs, or an address. Its console stays without errors, and nothing of a run's text is run."""
    pages, complaints = [], []

    def open_page(*folders, url=None):
        if url is None:
            (tmp_path / "report.html").write_text(make_page([read_run(folder) for folder in folders]))
            url = (tmp_path / "report.html").as_uri()
        found = browser.new_page(viewport={"width": 1200, "height": 900})
        found.set_default_timeout(10_000)
        found.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        found.on("pageerror", lambda error: complaints.append(str(error)))
        found.goto(url)
        pages.append(found)
        return found

    open_page.complaints = complaints
    yield open_page
    for each in pages:
        assert each.evaluate("window.hacked") is None and each.locator("img[src=x]").count() == 0
        each.close()
    assert not complaints


def labels(found, figure="run.reward"):
    return found.evaluate("key => plots.get(key).lines.map(line => line.label)", figure)


def values(found, figure="run.reward", line=0):
    return found.evaluate("([key, line]) => [...plots.get(key).lines[line].y]", [figure, line])


# ---- without a browser


def test_no_text_can_end_the_element_of_the_data(tmp_path):
    write_training(tmp_path, names=[NASTY, "bob"])
    text = make_page([read_run(tmp_path)])
    assert text.count("<script") == text.count("</script>") == 3 and "<img" not in text
    ((data,),) = [re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)]
    assert json.loads(data)[0]["agents"][0] == NASTY


@pytest.mark.parametrize("is_live", [False, True])
def test_the_policy_lets_only_the_scripts_of_the_page_run(is_live):
    text = make_page([], is_live)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy and "default-src 'none'" in policy
    assert f"connect-src {chr(39)}{'self' if is_live else 'none'}{chr(39)}" in policy
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", text)


def test_films_are_embedded_as_far_as_there_is_room(tmp_path, monkeypatch):
    write_training(tmp_path)
    (tmp_path / "replays").mkdir()
    (tmp_path / "replays" / "best.gif").write_bytes(b"B" * 50)
    (tmp_path / "replays" / "last.gif").write_bytes(b"L" * 60)
    (tmp_path / "replays" / "epoch_000000.gif").write_bytes(b"E" * 10)
    (tmp_path / "replays" / "epoch_000050.gif").symlink_to("/etc/hostname")
    monkeypatch.setattr(page, "MOST_EMBEDDED", 100)
    text = make_page([read_run(tmp_path)])
    kept = [base64.b64encode(letter * count).decode() in text for letter, count in ((b"B", 50), (b"L", 60), (b"E", 10))]
    assert kept == [True, False, True]
    assert "epoch_000050" not in text


# ---- training


def test_curves_are_drawn_and_their_controls_work(opened, tmp_path):
    write_training(tmp_path / "run", epochs=40)
    write_timeline(tmp_path / "run")
    found = opened(tmp_path / "run")
    assert labels(found) == ["agent 0", "agent 1"]
    shown = ["Reward", "Loss", "Epsilon", "game: gems", "Versions behind"]
    assert found.locator(".chart h3").first.inner_text() == "Reward of an epoch"
    assert all(found.locator(".chart h3", has_text=text).count() == 1 for text in shown)
    found.get_by_role("checkbox", name="learning: entropy", exact=True).check(force=True)
    assert labels(found, "learning.entropy") == ["agent 0", "agent 1"]

    ticks = "[...plots.get('run.reward').chart.axes[0]._values]"
    found.evaluate("zoomTo([3, 6])")
    assert found.evaluate(ticks) == ["3", "4", "5", "6"]  # no half epochs
    found.evaluate("zoomTo(null)")
    found.locator("#smooth").fill("0")
    assert values(found) == list(range(40)) and found.locator("#smoothed").inner_text() == "off"
    found.locator("#smooth").fill("2")
    assert values(found)[:4] == [1.0, 1.5, 2.0, 3.0]  # means over five points, of those that there are
    assert found.locator("#smoothed").inner_text() == "mean over 5 points"

    found.get_by_role("checkbox", name="agent 1", exact=True).uncheck(force=True)
    found.get_by_role("checkbox", name="all agents", exact=True).check(force=True)
    assert labels(found) == ["all agents", "agent 0"]
    found.get_by_role("radio", name="wall time", exact=True).check(force=True)
    assert found.evaluate("plots.get('run.reward').chart.data[0].at(-1)") == 80
    found.get_by_role("radio", name="agent-steps", exact=True).check(force=True)
    assert found.evaluate("plots.get('run.reward').chart.data[0].at(-1)") == 4000
    found.get_by_role("radio", name="epochs", exact=True).check(force=True)

    found.reload()  # what was chosen is kept
    assert (
        labels(found) == ["all agents", "agent 0"] and found.locator("#smoothed").inner_text() == "mean over 5 points"
    )


def test_hover_tells_values_and_a_drag_zooms_all_charts(opened, tmp_path):
    write_training(tmp_path / "run", epochs=41)
    found = opened(tmp_path / "run")
    found.locator("#smooth").fill("1")
    box = found.locator(".chart .u-over").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    found.mouse.move(box["x"] + box["width"] / 2, middle)
    told = found.locator("#tip").inner_text().splitlines()
    assert told == ["epoch 20", "agent 1: 30 (here 30)", "agent 0: 20 (here 20)"]
    found.mouse.move(box["x"] + box["width"] / 4, middle)
    found.mouse.down()
    found.mouse.move(box["x"] + box["width"] / 2, middle)
    found.mouse.up()
    ranges = "[...plots.values()].map(({chart}) => [Math.round(chart.scales.x.min), Math.round(chart.scales.x.max)])"
    assert set(map(tuple, found.evaluate(ranges))) == {(10, 20)}
    found.evaluate("zoomTo([10, 20])")
    for title, shown in (("Later", (15, 25)), ("Earlier", (10, 20)), ("Zoom in", (13, 18))):
        found.locator("#curves").get_by_title(title, exact=True).click()
        assert set(map(tuple, found.evaluate(ranges))) == {shown}
    for _ in range(9):
        found.locator("#curves").get_by_title("Later", exact=True).click()
    assert set(map(tuple, found.evaluate(ranges))) == {(35, 40)}  # not past the end
    found.locator(".chart .u-over").first.dblclick()
    assert set(map(tuple, found.evaluate(ranges))) == {(0, 40)}


def test_runs_that_differ_in_their_seed_are_a_mean_with_an_interval(opened, tmp_path):
    for seed, shift in enumerate((0.0, 1.0, 5.0)):
        write_training(tmp_path / f"seed{seed}", epochs=20, seed=seed, shift=shift)
    write_training(tmp_path / "other", epochs=10, game="tag", agents=3)
    found = opened(*(tmp_path / name for name in ("seed0", "seed1", "seed2", "other")))
    assert labels(found) == ["seed0 … (3 seeds: 0, 1, 2), all agents", "other, all agents"]
    found.locator("#smooth").fill("0")
    half = found.evaluate("plots.get('run.reward').lines.map(line => line.half ? line.half[0] : null)")
    assert values(found)[0] == pytest.approx(10 + 4) and half[1] is None  # sums of two agents: 10, 12, 20
    assert half[0] == pytest.approx(4.303 * sqrt((16 + 4 + 36) / 2) / sqrt(3))
    found.get_by_role("checkbox", name="seeds together", exact=True).uncheck(force=True)
    assert labels(found) == ["seed0, all agents", "seed1, all agents", "seed2, all agents", "other, all agents"]
    found.get_by_role("checkbox", name="seed1", exact=True).uncheck(force=True)
    assert len(labels(found)) == 3
    differing = found.locator("#settings tbody tr td:first-child").all_inner_texts()
    assert differing == ["experiment.epochs", "experiment.seed", "game"]
    found.get_by_role("checkbox", name="only differences", exact=True).uncheck(force=True)
    assert found.locator("#settings tbody tr").count() == 4


def test_timeline_plan_faults_and_settings_are_shown_as_text(opened, tmp_path):
    run = tmp_path / "run"
    write_training(run, names=[NASTY, "bob"])
    write_timeline(run)
    (run / "plan.json").write_text(json.dumps({"workers": NASTY, "reasons": ["two cores", NASTY], "timing": {"a": 1}}))
    found = opened(run)
    told = found.locator("#timeline").inner_text()
    assert "Advice: the actor works 80%, most of it in play (50%)" in told and "5 older spans" in told
    assert "actor\nworks 80.0 %, waits 20.0 %" in told and "play 50.0 %, wait 20.0 %, other 20.0 %, see 10.0 %" in told
    widths = "[...document.querySelectorAll('.shares .bar span')].map(part => part.style.width)"
    assert found.evaluate(widths) == ["50%", "20%", "20%", "10%"]
    found.locator("#timeline summary").click()
    row = found.locator("#timeline tbody tr", has_text="see").last.locator("td").all_inner_texts()
    assert row[1:5] == ["see", "2", "1 s", "500 ms"] and "your game's transition" in row[5]
    found.locator("#timeline summary").click()
    found.locator("canvas.timeline").scroll_into_view_if_needed()
    box = found.locator("canvas.timeline").bounding_box()
    found.evaluate("new Promise(requestAnimationFrame)")  # scrolling hides what is told
    found.mouse.move(box["x"] + 300, box["y"] + 10)
    assert found.locator("#tip").inner_text().startswith("actor: play\n3 s")
    found.mouse.down()
    found.mouse.move(box["x"] + 600, box["y"] + 10)
    found.mouse.up()
    low, high = found.evaluate("choice.span")
    assert 0 < low < high < 8e6
    for _ in range(20):
        found.locator("#timeline").get_by_title("Earlier", exact=True).click()
    assert found.evaluate("choice.span") == pytest.approx([0, high - low])
    assert "two cores" in found.locator("#plan").inner_text() and NASTY in found.locator("#plan").inner_text()
    faults = found.locator("#faults").inner_text()
    assert "3 restarts of processes; 1 warning and 0 errors" in faults and NASTY in faults
    found.get_by_label("Filter settings").fill("note")
    assert found.locator("#settings td").all_inner_texts() == ["world.note", NASTY]
    assert found.locator("#curves label", has_text=NASTY).count() == 1


def test_a_cut_line_and_a_run_without_epochs_are_told(opened, tmp_path):
    write_training(tmp_path / "cut", epochs=5, more='{"epoch": 5, "rew')
    found = opened(tmp_path / "cut")
    assert len(values(found)) == 5
    assert "line 6 of metrics.jsonl is cut off" in found.locator("#faults").inner_text()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.yaml").write_text("game: tag")
    found = opened(tmp_path / "new")
    assert "No epoch is recorded yet in new" in found.locator("#curves").inner_text()
    assert "has no timeline.json" in found.locator("#timeline").inner_text()
    assert "has no films" in found.locator("#films").inner_text()
    found = opened(tmp_path / "new", tmp_path / "cut")
    assert labels(found) == ["cut, all agents"]


def test_a_run_that_was_killed_and_one_under_way_are_told_apart(opened, tmp_path):
    write_training(tmp_path, epochs=2)
    (tmp_path / "log.txt").write_text("2026-01-02 03:04:05,678 INFO main: begins\n")
    state = "#overview tbody td:nth-child(3)"
    assert opened(tmp_path).locator(state).inner_text() == "killed, or copied while it ran"
    with locked(tmp_path):
        assert opened(tmp_path).locator(state).inner_text() == "under way, when this page was made"


# ---- rollouts


def test_episodes_are_filtered_sorted_and_opened(opened, tmp_path):
    write_rollout(tmp_path / "run", 300)
    found = opened(tmp_path / "run")
    lines = found.locator("#list tr.line")
    assert lines.count() < 60 and found.locator("#count").inner_text() == "300 of 300 episodes"
    found.locator("#list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    lines.filter(has_text="299").first.wait_for()
    found.locator("#list button", has_text="reward").click()
    found.locator("#list button", has_text="reward").click()
    assert lines.first.locator("td").first.inner_text() == "299"
    found.locator("#filter-tag").select_option("Lake")
    found.locator("#filter-low").fill("3")
    found.locator("#filter-high").fill("33")
    assert found.locator("#count").inner_text() == "16 of 300 episodes"
    found.locator("#filter-success").select_option("yes")
    assert found.locator("#count").inner_text() == "6 of 300 episodes"
    found.locator("#filter-text").fill("PLAN 21")
    found.locator("#count", has_text=re.compile("^1 of 300")).wait_for()
    lines.first.click()
    told = found.locator("#episode .turn").first
    told.wait_for()
    heading = told.locator("h3").inner_text()
    assert heading == "Turn 1 reward 21 · penalty -0.5 · tokens 40 + 7 · finish reason length"
    shown = told.locator("pre").all_text_contents()
    assert shown[:3] == [NASTY, "<think>plan 21</think><answer>Up</answer>", "Up"]
    assert f"State: {NASTY}" in shown and "'jump' was not executed" in told.inner_text()
    assert found.locator("#episode .turn").last.locator("pre").inner_text() == "the end"
    assert "Latencies are taken from timeline.json" in found.locator("#overview").inner_text()


def test_rollouts_are_compared_and_their_latencies_told(opened, tmp_path):
    write_rollout(tmp_path / "one", 6)
    write_rollout(tmp_path / "two", 4, silent="Lake", failed=[2, 3])
    write_timeline(tmp_path / "two")
    found = opened(tmp_path / "one", tmp_path / "two")
    rows = found.locator("#overview tbody tr").all_inner_texts()
    assert rows[0].split("\t")[4:] == ["6", "33.3 %", "2.5", "2", "282"] and rows[1].split("\t")[0] == "two"
    assert rows[1].split("\t")[5:7] == ["50.0 %", "1.5"], "one of two: Lake never says it; two could not go on"
    by_tag = [row.split("\t")[1:6] for row in rows if row.startswith("two\t") and row.count("\t") > 9]
    assert by_tag == [["Lake", "2", "1", "–", "2"], ["Sokoban", "2", "1", "50.0 %", "1"]]
    assert "two\tcalls of the model\t2\t3 s\t3 s\t3 s" in rows
    found.locator("#episodes select").first.select_option("1")
    assert found.locator("#count").inner_text() == "4 of 4 episodes"
    for _ in range(2):
        found.locator("#list button", has_text="success").click()
    cells = found.locator("#list tr.line td:nth-child(3)").all_inner_texts()
    assert cells == ["yes", "–", "no", "no"]


# ---- the live view


class Server:
    """What `abreast watch` serves, as far as the page asks."""

    def __init__(self):
        self.data, self.asked = "[]", []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self._answer(server.data if self.path.startswith("/data.json?token=t") else make_page([], is_live=True))

            def do_POST(self):
                server.asked.append((self.path, self.headers["X-Token"]))
                self._answer("")

            def _answer(self, text):
                self.send_response(204 if self.path == "/favicon.ico" else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/?token=t"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def test_the_live_view_follows_a_run_and_keeps_what_was_chosen(opened, tmp_path):
    write_training(tmp_path, epochs=10)
    log = (tmp_path / "log.txt").read_text()
    (tmp_path / "log.txt").write_text(log.partition("2026-01-02 03:05")[0])
    server = Server()
    server.data = page.as_json([read_run(tmp_path)])
    found = opened(url=server.url)
    found.locator(".chart").first.wait_for()
    found.get_by_role("checkbox", name="agent 1", exact=True).uncheck(force=True)
    found.evaluate("zoomTo([2, 5])")
    write_training(tmp_path, epochs=20)
    (tmp_path / "log.txt").write_text(log.partition("2026-01-02 03:05")[0])
    server.data = page.as_json([read_run(tmp_path)])
    found.evaluate("poll()")
    assert len(values(found)) == 20 and labels(found) == ["agent 0"]
    assert found.evaluate("Object.values(plots.get('run.reward').chart.scales.x).includes(5)")
    found.locator("#pause").click()
    found.locator("#banner", has_text="the run was asked").wait_for()
    assert server.asked == [("/control/pause?token=t", "t")]
    found.reload()
    found.locator(".chart").first.wait_for()
    assert labels(found) == ["agent 0"]

    (tmp_path / "log.txt").write_text(log)
    server.data = page.as_json([read_run(tmp_path)])
    found.evaluate("poll()")
    assert found.locator("#banner").inner_text().startswith("This run has ended: finished after 10 epochs.")
    assert found.locator("#stop").is_disabled()
    server.close()
    found.evaluate("poll()")
    assert "the server is gone" in found.locator("#banner").inner_text() and len(values(found)) == 20
    assert all("ERR_CONNECTION_REFUSED" in text for text in opened.complaints)
    opened.complaints.clear()


def test_a_comparison_is_shown_with_its_tables(opened, tmp_path):
    folder = tmp_path / "run"
    write_training(folder)
    row = {"who": "sum", "algorithm": NASTY, "low": None, "high": None}
    told = {
        "about": {"tasks": ["g"], "episodes": 2, "absolute_episodes": 20, "normalise": "none", "who": ["sum"]},
        "runs": [{"run": str(folder)}],
        "summary": [{**row, "mode": "explore", "runs": 2, "mean": 1.5, "interquartile_mean": 1.25}],
        "other_modes": [{**row, "mode": "greedy", "runs": 2, "mean": 0.5, "interquartile_mean": 0.375}],
        "improvement": [{**row, "over": "dqn", "probability": 0.75}],
        "notes": ["no interval, because it takes 3 runs"],
    }
    (tmp_path / "comparison.json").write_text(json.dumps(told))
    (tmp_path / "page.html").write_text(make_page(read_comparison(tmp_path)))
    section = opened(url=(tmp_path / "page.html").as_uri()).locator("#comparison")
    assert section.locator("tbody tr").count() == 3
    shown = section.inner_text()
    assert all(text in shown for text in ("1.25", "0.75", "no interval, because it takes 3 runs"))
    assert all(text in shown for text in ("explore", "greedy", "0.375"))  # both modes, with their numbers
