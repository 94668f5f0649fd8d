"""Draws the pictures of the guide, all in one style: `python docs/guide/drawings.py` writes images/*.svg."""

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH = 480
INK, PAPER, LINE = "#1d2733", "#fbfaf6", "#d5d2c8"
COLOURS = {
    "actor": ("#d7e6f3", "#2f6fa7"),
    "learner": ("#f8e2cf", "#b8571b"),
    "memory": ("#d9ebdf", "#3c7a57"),
    "bad": ("#f6d5d2", "#b3261e"),
    "plain": ("#ecebe6", "#777c84"),
}


class Drawing:
    """Shapes on a sheet that has its own background, so that it can be read on light and dark pages."""

    def __init__(self, height, title):
        self.height, self.title, self.parts = height, title, []

    def box(self, x, y, width, height, label="", colour="plain", size=14):
        """A box with text in its middle, one line or several."""
        fill, edge = COLOURS[colour]
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{edge}"'
            ' stroke-width="1.5"/>'
        )
        lines = label.split("\n")
        for number, line in enumerate(lines):
            below = (number - (len(lines) - 1) / 2) * (size + 3) + size * 0.35
            self.text(x + width / 2, y + height / 2 + below, line, size, "middle")

    def text(self, x, y, text, size=14, anchor="start", colour=INK, weight="normal"):
        if text:
            self.parts.append(
                f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
                f' font-weight="{weight}">{escape(text)}</text>'
            )

    def head(self, y, text):
        self.text(16, y, text, 15, weight="bold")

    def arrow(self, x1, y1, x2, y2, colour=INK, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.8"{dash}'
            ' marker-end="url(#tip)"/>'
        )

    def cross(self, x, y, size=9):
        edge = COLOURS["bad"][1]
        for dy in (size, -size):
            self.parts.append(
                f'<line x1="{x - size}" y1="{y - dy}" x2="{x + size}" y2="{y + dy}" stroke="{edge}" stroke-width="3.5"/>'
            )

    def svg(self):
        style = 'font-family="system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif"'
        tip = (
            '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker>'
        )
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}"'
            f' height="{self.height}" role="img" {style}>',
            f"<title>{escape(self.title)}</title>",
            f"<defs>{tip}</defs>",
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="8" fill="{PAPER}" stroke="{LINE}"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def the_loop():
    d = Drawing(250, "The sequential loop: five parts of a turn, then learning; and the share of the time of each")
    d.head(28, "One turn of five agents, then the next")
    for number, name in enumerate(("world", "see", "choose", "act", "remember")):
        d.box(16 + 91 * number, 44, 78, 36, name, "actor", 12)
        if number:
            d.arrow(16 + 91 * number - 13, 62, 16 + 91 * number - 1, 62)
    d.parts.append(
        f'<path d="M420 80 V104 H55 V84" fill="none" stroke="{INK}" stroke-width="1.8" marker-end="url(#tip)"/>'
    )
    d.text(238, 99, "20 turns", 13, "middle")
    d.box(16, 124, 448, 32, "learn: an update of agent 0, 1, 2, 3, 4", "learner", 13)
    d.head(186, "Where the time goes (one run of the file)")
    x = 16.0
    for name, share, colour in (
        ("game", 23, "actor"),
        ("choose", 27, "memory"),
        ("learn", 47, "learner"),
        ("", 3, "plain"),
    ):
        width = 4.48 * share
        d.box(round(x, 1), 198, round(width, 1), 34, f"{name} {share} %" if name else "", colour, 13)
        x += width
    return d


def threads():
    d = Drawing(330, "Threads that compute take turns; threads that wait overlap; processes run side by side")
    d.head(26, "Threads that compute: one at a time")
    for row in range(3):
        d.text(16, 53 + 22 * row, f"thread {row}", 12)
        for slot in range(row, 9, 3):
            d.box(86 + 42 * slot, 40 + 22 * row, 42, 18, "", "bad")
    d.head(136, "Threads that wait: all at once")
    for row in range(3):
        d.text(16, 163 + 22 * row, f"thread {row}", 12)
        d.box(86, 150 + 22 * row, 20, 18, "", "actor")
        d.box(106, 150 + 22 * row, 106, 18, "waits", "plain", 12)
        d.box(212, 150 + 22 * row, 20, 18, "", "actor")
    d.head(246, "Processes: an interpreter each")
    for row in range(3):
        d.text(16, 273 + 18 * row, f"process {row}", 12)
        d.box(86, 261 + 18 * row, 126, 14, "", "memory")
    d.text(226, 291, "done in a third of the time,", 13)
    d.text(226, 308, "where there are three cores", 13)
    return d


def processes():
    d = Drawing(330, "A model that is given to a process is a copy; shared memory is the same in both processes")
    d.head(26, "Given to a process: two models")
    d.box(16, 40, 150, 70, "actor\nmodel: nothing\nlearned", "actor", 13)
    d.box(314, 40, 150, 70, "learner\nits copy\nlearns", "learner", 13)
    d.arrow(166, 60, 312, 60)
    d.text(239, 53, "copied once", 12, "middle")
    d.arrow(314, 94, 168, 94, dashed=True)
    d.cross(240, 94)
    d.head(146, "Shared: rows go, weights come back")
    d.box(16, 166, 112, 140, "actor\nwrites rows,\nreads weights", "actor", 13)
    d.box(352, 166, 112, 140, "learner\nreads rows,\nwrites weights", "learner", 13)
    d.box(176, 166, 128, 60, "replay\nrows 0, 1, 2 …", "memory", 13)
    d.box(176, 246, 128, 60, "newest weights,\nepsilon, version", "memory", 13)
    d.arrow(128, 196, 174, 196)
    d.arrow(304, 196, 350, 196)
    d.arrow(352, 276, 306, 276)
    d.arrow(176, 276, 130, 276)
    return d


def rows():
    d = Drawing(330, "A ring of four rows: the cursor moves before the row is whole, or after")
    for top, title in (
        (0, "Cursor first: a reader takes half a row"),
        (160, "Row first: a reader takes whole rows only"),
    ):
        bad = top == 0
        d.head(top + 26, title)
        for number in range(4):
            d.box(
                16 + 114 * number, top + 70, 104, 46, f"row {(4, 5, 2, 3)[number]}" if number != 1 else "", "memory", 13
            )
        d.box(130, top + 70, 52, 46, "5", "bad", 13)
        d.box(182, top + 70, 52, 46, "of 1", "plain", 13)
        at = 239 if bad else 125
        d.text(at, top + 51, "cursor: 6" if bad else "cursor: 5", 13, "middle", weight="bold")
        d.arrow(at, top + 55, at, top + 68)
        d.text(
            16,
            top + 137,
            "The learner reads row 5: new state, old reward."
            if bad
            else "The learner reads rows 2, 3, 4. Row 5 is not there yet.",
            13,
        )
    d.text(16, 319, "The row at the cursor is being written in both.", 12, colour="#55595f")
    return d


def weights():
    d = Drawing(350, "Loading in place mixes two versions; slots keep them apart")
    d.head(26, "load_state_dict in place")
    d.box(16, 40, 110, 40, "layer 1: new", "bad", 13)
    d.box(132, 40, 110, 40, "layer 2: old", "plain", 13)
    d.arrow(296, 60, 246, 60)
    d.text(302, 56, "the actor chooses now,", 13)
    d.text(302, 73, "with neither version", 13)
    d.head(120, "Three slots: newest, held, free")
    for number, (label, colour) in enumerate(
        (
            ("version 7\nwhole", "memory"),
            ("version 6\nheld by the actor", "actor"),
            ("version 8\nbeing written", "learner"),
        )
    ):
        d.box(16 + 152 * number, 170, 144, 54, label, colour, 13)
    d.text(88, 146, "newest", 13, "middle", weight="bold")
    d.arrow(88, 151, 88, 168)
    d.text(392, 146, "learner", 13, "middle", weight="bold")
    d.arrow(392, 151, 392, 168)
    d.text(16, 252, "When version 8 is whole, one store moves “newest” there.", 13)
    d.text(16, 284, "snapshot:", 13, weight="bold")
    d.text(112, 284, "copy the newest slot, then look whether", 13)
    d.text(112, 301, "its version is still the same", 13)
    d.text(16, 326, "double_buffer:", 13, weight="bold")
    d.text(128, 326, "pin a slot and read it where it lies", 13)
    return d


def who_waits():
    d = Drawing(
        430, "Passes and rounds in the schedules lockstep, pipelined and free, with the version each pass plays with"
    )

    def bars(y, name, items, colour, unit=56):
        d.text(16, y + 18, name, 13)
        for start, length, label in items:
            d.box(72 + unit * start, y, unit * length - 3, 26, label, colour, 12)

    d.head(26, "lockstep: pass k plays with version k")
    bars(38, "actor", [(0, 1, "0: v0"), (2, 1, "1: v1"), (4, 1, "2: v2"), (6, 1, "3: v3")], "actor")
    bars(68, "learner", [(1, 1, "0"), (3, 1, "1"), (5, 1, "2")], "learner")
    d.head(130, "pipelined: pass k plays with version k − 1")
    bars(142, "actor", [(k, 1, f"{k}: v{max(0, k - 1)}") for k in range(7)], "actor")
    bars(172, "learner", [(k + 1, 1, f"{k}") for k in range(6)], "learner")
    d.text(72, 217, "Pass 3 plays while round 2 is trained: it has rounds 0 and 1.", 12, colour="#55595f")
    d.head(252, "free: whatever is newest")
    bars(264, "actor", [(k, 1, f"{k}: v{v}") for k, v in enumerate((0, 0, 0, 1, 1, 2, 4))], "actor")
    bars(294, "learner", [(1, 2, "0"), (3, 2, "1"), (5, 0.5, "2"), (5.5, 0.5, "3"), (6, 1, "4")], "learner")
    d.text(72, 340, "How old the weights are depends on the machine.", 12, colour="#55595f")
    d.head(376, "Boxes")
    d.box(72, 386, 120, 26, "pass: its version", "actor", 12)
    d.box(200, 386, 120, 26, "round", "learner", 12)
    return d


def determinism():
    d = Drawing(336, "One stream of random numbers for all agents, and a stream for each")
    d.head(26, "One generator: a draw more moves all others")
    for row, (label, names) in enumerate((("before", "0 0 1 2 3 4 0 0 1"), ("after", "0 1 2 3 4 0 1 2 3"))):
        y = 40 + 44 * row
        d.text(16, y + 22, label, 13)
        for number, name in enumerate(names.split()):
            d.box(72 + 43 * number, y, 39, 32, name, "plain" if name == "0" or not row else "bad", 13)
    d.text(72, 146, "Each box is a number drawn, and the agent that draws it.", 12, colour="#55595f")
    d.head(182, "A stream each: nothing moves")
    for agent in range(3):
        y = 196 + 36 * agent
        d.text(16, y + 20, f"agent {agent}", 13)
        for number in range(9 if agent else 5):
            d.box(72 + 43 * number, y, 39, 28, str(number), "memory" if agent else "plain", 13)
    d.text(296, 216, "fewer draws of agent 0", 12)
    d.text(72, 320, "A seed for each: from the experiment’s and its number.", 12, colour="#55595f")
    return d


def death():
    d = Drawing(
        330, "A parent that waits for data alone waits forever; one that waits for deaths too starts a successor"
    )
    d.head(26, "Waiting for data alone")
    d.box(16, 40, 120, 44, "parent: get()", "actor", 13)
    d.box(330, 40, 134, 44, "worker: killed", "bad", 13)
    d.arrow(330, 62, 140, 62, dashed=True)
    d.cross(238, 62)
    d.text(16, 106, "No answer, no error, no end.", 13)
    d.head(142, "A team: answers and deaths are events")
    d.box(16, 158, 104, 42, "STARTING", "plain", 13)
    d.box(188, 158, 104, 42, "UP", "memory", 13)
    d.box(360, 158, 104, 42, "PAUSED", "bad", 13)
    d.arrow(120, 179, 186, 179)
    d.text(153, 172, "ready", 12, "middle")
    d.arrow(292, 179, 358, 179)
    d.text(325, 172, "death", 12, "middle")
    d.parts.append(
        f'<path d="M412 200 V228 H68 V204" fill="none" stroke="{INK}" stroke-width="1.8" marker-end="url(#tip)"/>'
    )
    d.text(240, 222, "a successor, from the last whole state", 12, "middle")
    d.text(16, 262, "Died:", 13, weight="bold")
    for number, line in enumerate(
        ("the cause (SIGKILL, an exception, silence)", "the agent it was at", "orders to give again")
    ):
        d.text(64, 262 + 22 * number, line, 13)
    return d


def cores():
    d = Drawing(300, "Ten threads on two cores, and as many as there are cores")
    d.head(26, "Five learners with two threads each, two cores")
    for core in range(2):
        d.text(16, 56 + 34 * core, f"core {core}", 13)
        for slot in range(24):
            d.box(72 + 16.4 * slot, 40 + 34 * core, 15, 24, "", ("bad", "learner", "plain")[(slot * 2 + core) % 3])
    d.text(72, 126, "Threads of one product wait for each other, off the core.", 12, colour="#55595f")
    d.head(162, "One thread each, as many at once as there are cores")
    for core, labels in enumerate((("learner 0", "learner 2", "learner 4"), ("learner 1", "learner 3", "actor"))):
        d.text(16, 192 + 34 * core, f"core {core}", 13)
        for number, label in enumerate(labels):
            d.box(72 + 80 * number, 176 + 34 * core, 77, 24, label, "actor" if label == "actor" else "learner", 12)
    d.text(72, 266, "The plan: measure two rounds, predict each split,", 12, colour="#55595f")
    d.text(72, 283, "take the fastest; stay in one thread where that is it.", 12, colour="#55595f")
    return d


def text_environments():
    d = Drawing(370, "A step that goes to any worker finds another board; an environment stays in its worker")
    for top, title, first, second in (
        (0, "Any worker: two boards of hunter 3", "hunter 3:\nsteps 1, 3, 5", "hunter 3:\nsteps 2, 4, 6"),
        (
            150,
            "Its worker: one board of each hunter",
            "hunters 0, 2, 4:\nall their steps",
            "hunters 1, 3:\nall their steps",
        ),
    ):
        d.head(top + 26, title)
        d.box(16, top + 58, 110, 52, "main process", "actor", 13)
        d.box(300, top + 40, 164, 42, first, "memory" if top else "bad", 13)
        d.box(300, top + 90, 164, 42, second, "memory" if top else "bad", 13)
        d.arrow(126, top + 78, 298, top + 61)
        d.arrow(126, top + 92, 298, top + 111)
        d.text(212, top + 58, "worker 0", 12, "middle")
        d.text(212, top + 122, "worker 1", 12, "middle")
    d.head(314, "A worker dies: type, configuration, seed, actions")
    d.box(16, 326, 100, 30, "reset(seed)", "plain", 13)
    for number, label in enumerate(("step 1", "step 2", "step 3")):
        d.arrow(116 + 88 * number, 341, 126 + 88 * number, 341)
        d.box(128 + 88 * number, 326, 76, 30, label, "plain", 13)
    d.arrow(380, 341, 390, 341)
    d.box(392, 326, 72, 30, "step 4", "memory", 13)
    return d


DRAWINGS = {
    "01_the_loop": the_loop,
    "02_threads": threads,
    "03_processes": processes,
    "04_rows": rows,
    "05_weights": weights,
    "06_who_waits": who_waits,
    "07_determinism": determinism,
    "08_death": death,
    "09_cores": cores,
    "10_text_environments": text_environments,
}


def main():
    folder = Path(__file__).parent / "images"
    folder.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
