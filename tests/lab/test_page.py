"""The page in a real browser: curves, switches, no error, and no request that leaves it."""

from __future__ import annotations

import html
import json
import shutil
import time
import urllib.request

import pytest

from dsba.lab import run
from dsba.lab.live import Live
from dsba.lab.page import contents, page
from dsba.lab.runner import check

EXPERIMENT = {
    "title": "A <b>page</b> </script> to look at",
    "seeds": [0, 1],
    "stop": {"max_passes": 10},
    "tune": {"passes": 4},
    "data": [{"name": "breast-cancer"}],
    "problem": [{"operator": "ridge"}, {"operator": "auc"}],
    "network": [{"graph": "ring", "n_nodes": 5}],
    "method": [{"algorithm": "dsba"}, {"algorithm": "dsa", "step_size": "auto"}],
}
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(EXPERIMENT, tmp_path_factory.mktemp("page"), workers=1)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no Chromium with its driver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.set_page_load_timeout(60)
    started.set_script_timeout(30)
    yield started
    started.quit()


def requests_of(browser):
    """Addresses asked for since the last look, but for what a page carries in itself."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [a for a in addresses if not a.startswith(("data:", "blob:"))]


def open_page(browser, address):
    """Only what this page does is in the logs."""
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(address)


def press(browser, key):
    browser.execute_script("document.querySelector(`button[data-key='${arguments[0]}']`).click()", key)


def chart(browser):
    """What the library has drawn: names, axis titles, points of the first named curve."""
    return browser.execute_script(
        "const c = document.getElementById('chart'); const named = c.data.filter((t) => t.name);"
        "return {names: named.map((t) => t.name), visible: named.map((t) => t.visible), x: c.layout.xaxis.title.text,"
        " y: c.layout.yaxis.title?.text, title: c.layout.title.text,"
        " drawn: c.querySelectorAll('.scatterlayer .trace path.js-line').length,"
        " points: named[0].x.length, last: named[0].x.at(-1)}"
    )


def test_the_page_works_offline_in_a_browser(results, browser):
    browser.set_window_size(1200, 900)
    open_page(browser, results.page.as_uri())
    first = chart(browser)
    assert first["names"] == ["DSBA", "DSA"]
    assert first["drawn"] >= 2
    assert first["points"] == 15  # a pass apart, and four before the first
    assert "passes" in first["x"]
    assert "breast cancer" in first["title"]
    assert "ring, N = 5" in first["title"]
    assert browser.title == EXPERIMENT["title"]

    press(browser, "doubles_max")
    assert "DOUBLEs" in chart(browser)["x"]
    assert chart(browser)["last"] == pytest.approx(results.histories[results.runs[0].id]["doubles_max"][-1], rel=1e-5)
    press(browser, "consensus")
    assert "consensus" in chart(browser)["y"]
    assert browser.execute_script("return document.querySelectorAll('#results td.win').length") >= 2
    press(browser, "auc")  # the problem; then the metric of the same name
    browser.execute_script("document.querySelector(\"#pick-axes button[data-key='auc']\").click()")
    assert "AUC" in chart(browser)["y"]

    rows = browser.execute_script("return [...document.querySelectorAll('#results tbody tr')].map((r) => r.innerText)")
    assert len(rows) == 2
    assert browser.execute_script("return document.querySelectorAll('#network circle').length") == 5
    assert "γ" in browser.find_element("id", "network-note").text
    assert "dsba.lab.run" in browser.find_element("id", "command").text
    assert "max_passes = 10" in browser.execute_script("return document.getElementById('config').textContent")

    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []
    assert requests_of(browser) == [results.page.as_uri()]


def test_time_on_a_network_follows_the_sliders(results, browser):
    """seconds / N + rounds x latency + 8 bytes / bandwidth, in the chart, in the table and on the map."""
    open_page(browser, results.page.as_uri())
    press(browser, "time")
    assert chart(browser)["x"] == "seconds on the network"
    history = results.histories[results.runs[0].id]

    def slide(name, exponent):
        browser.execute_script(
            "const s = document.getElementById(arguments[0]);"
            " s.value = arguments[1]; s.dispatchEvent(new Event('input'))",
            name, exponent,
        )  # fmt: skip

    for latency, bandwidth in ((-3, 7), (0, 5)):
        slide("latency", latency)
        slide("bandwidth", bandwidth)
        mid = [results.curves(results.cases[0])["DSBA"].mid[c][-1] for c in ("seconds", "rounds", "bytes_max")]
        wanted = mid[0] / 5 + mid[1] * 10**latency + 8 * mid[2] / 10**bandwidth
        assert chart(browser)["last"] == pytest.approx(wanted, rel=1e-4)
    assert len(history["time"]) == len(history["seconds"])
    drawn = browser.execute_script(
        "const m = document.getElementById('map'); return {kind: m.data[0].type, wide: m.data[0].z[0].length,"
        " place: [m.data.at(-1).x[0], m.data.at(-1).y[0]], output: document.querySelector('#latency + output').value}"
    )
    assert drawn == {"kind": "heatmap", "wide": 57, "place": [1e5, 1], "output": "1 s"}
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_printed_page_says_data_and_network(results, browser):
    browser.get(results.page.as_uri())
    assert not browser.find_element("id", "shown").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    line = browser.find_element("id", "shown")
    assert line.is_displayed()
    assert "breast cancer" in line.text
    assert "ring, N = 5, laplacian" in line.text
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_curve_can_be_hidden(results, browser):
    browser.get(results.page.as_uri())
    browser.execute_script("document.querySelector('.legendtoggle').dispatchEvent(new MouseEvent('mousedown'))")
    browser.execute_script("document.querySelector('.legendtoggle').dispatchEvent(new MouseEvent('mouseup'))")
    end = time.monotonic() + 60
    while chart(browser)["visible"][0] is True and time.monotonic() < end:
        time.sleep(0.1)  # the library waits whether a second click follows
    assert chart(browser)["visible"] == ["legendonly", True]


def test_nothing_overflows_on_a_phone(results, browser):
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(results.page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dark_mode_is_dark(results, browser):
    def ground():
        color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in color.strip("rgba()").split(",")[:3])

    browser.get(results.page.as_uri())
    light = ground()
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    assert ground() < 150 < light
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_curves_grow_while_runs_go_on(results, browser, tmp_path):
    """The live page takes up records as they come, from its own server only."""
    index = check(EXPERIMENT).index()
    run(EXPERIMENT, tmp_path, workers=1, tune_only=True)  # references are there, no run is finished
    job = index.runs[0]
    with Live(tmp_path) as live:
        open_page(browser, live.address)
        records = results.histories[job.id].to_dict()
        for k in range(3):
            live.record(job.id, {name: values[k] for name, values in records.items()})
        end = time.monotonic() + 60
        count = "return document.getElementById('chart').data?.find((t) => t.name)?.x.length ?? 0"
        while browser.execute_script(count) != 3 and time.monotonic() < end:
            time.sleep(0.1)
        assert browser.execute_script(count) == 3
        assert "0 of 8 runs finished" in browser.find_element("id", "live").text
        assert all(address.startswith(live.address) for address in requests_of(browser))
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_live_server_answers_its_own_paths_only(results):
    with Live(results.folder.root) as live:
        content = json.load(urllib.request.urlopen(live.address + "report.json", timeout=10))
        assert content["finished"] == content["planned"] == 8
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(live.address + "../experiment.toml", timeout=10)
        foreign = urllib.request.Request(live.address, headers={"Host": "attacker.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(foreign, timeout=10)


def test_the_live_page_waits_for_its_files(tmp_path):
    with Live(tmp_path) as live, pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(live.address, timeout=10)


def test_names_cannot_break_the_page(results):
    text = page(contents(results))
    assert html.escape(EXPERIMENT["title"]) in text
    start = text.index('id="data">') + len('id="data">')
    content = json.loads(text[start : text.index("</script>", start)])  # the title's </script> does not end it
    assert content["title"] == EXPERIMENT["title"]
    assert [c["low"] is not None for c in content["cases"][0]["curves"]] == [True, True]  # two seeds: a band
