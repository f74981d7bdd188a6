"""The report in a real browser."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from report_folder import fill, installed

from solvable.reproduce.report import write_report

pytestmark = pytest.mark.slow

NAMES = ("chromium", "chromium-browser", "google-chrome")
LOOKS = {
    "desktop": {"viewport": {"width": 1200, "height": 900}},
    "tablet": {"viewport": {"width": 760, "height": 1000}},
    "phone": {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "dark phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"},
    "print": {"viewport": {"width": 680, "height": 1000}, "color_scheme": "dark"},
}
# Contrast of every text with its ground, by the formula of WCAG 2.
CONTRAST = """() => {
  const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const parse = colour => {
    paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
    return {rgb: [r, g, b], a};
  };
  const light = rgb => rgb.map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const found = parse(getComputedStyle(node).backgroundColor);
      if (found.a) return found.rgb;
    }
    return [255, 255, 255];
  };
  let worst = [99, ''];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode, node = text.parentElement;
    if (!text.data.trim()) continue;
    const [a, b] = [parse(getComputedStyle(node).color).rgb, ground(node)].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, text.data];
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reason = f"no browser is installed: none of {', '.join(NAMES)} is on the path"
        allowed = "SOLVABLE_NO_BROWSER" in os.environ  # .ci/run could not install one, and says so
        if os.environ.get("CI") == "true" and not allowed:  # it must not go unnoticed
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = fill(tmp_path_factory.mktemp("report in a browser"))
    with installed():
        write_report(out)
    return (out / "index.html").as_uri()


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def seen(browser: Browser, address: str, look: str) -> Iterator[tuple[Page, list[str]]]:
    """The page, and all that it should not have said or asked for."""
    trouble: list[str] = []
    context = browser.new_context(**LOOKS[look], offline=True)
    page = context.new_page()
    page.on("console", lambda message: trouble.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("requestfailed", lambda request: trouble.append(f"failed: {request.url[:80]}"))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith("data:") or request.url == address
            else trouble.append(f"request: {request.url}")
        ),
    )
    if look == "print":
        page.emulate_media(media="print")
    page.goto(address)
    yield page, trouble
    context.close()


def test_it_loads_in_silence_and_shows_every_picture(seen: tuple[Page, list[str]]):
    page, trouble = seen
    images = page.evaluate(
        """[...document.images]
        .map(i => [i.complete, i.naturalWidth, i.getBoundingClientRect().width])"""
    )
    assert len(images) == 6
    for complete, natural, shown in images:
        assert complete
        assert natural > 0
        assert shown > 200
    assert page.locator("main h2").first.is_visible()
    assert trouble == []


def test_it_never_scrolls_sideways(seen: tuple[Page, list[str]]):
    page, _ = seen
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window
    # Nor is anything cut off, except in what scrolls within itself.
    outside = page.evaluate(
        """[...document.querySelectorAll('main *, header *')]
        .filter(e => !e.closest('.picture, pre, caption, .command'))
        .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
        .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []


def test_every_text_can_be_told_from_its_ground(seen: tuple[Page, list[str]]):
    page, _ = seen
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, text


def test_pictures_have_a_white_ground(seen: tuple[Page, list[str]], look: str):
    page, _ = seen
    ground = "getComputedStyle(document.querySelector('.picture img')).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == look.startswith("dark")


def test_claims_are_cards_on_a_phone_and_a_table_elsewhere(seen: tuple[Page, list[str]], look: str):
    page, _ = seen
    shown = page.evaluate("getComputedStyle(document.querySelector('.claims td')).display")
    assert shown == ("grid" if "phone" in look else "table-cell")
    heads = page.evaluate(
        """[...document.querySelectorAll('.claims tbody th')]
        .map(e => e.getBoundingClientRect().width)"""
    )
    assert min(heads) > 120  # a sentence fits in


def test_no_picture_is_cut_by_the_end_of_a_sheet(browser: Browser, address: str, tmp_path: Path):
    page = browser.new_page()
    page.goto(address)
    page.emulate_media(media="print")
    broken = page.evaluate(
        """[...document.querySelectorAll('figure, tr, pre')]
        .filter(e => getComputedStyle(e).breakInside !== 'avoid').length"""
    )
    assert broken == 0
    sheet = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert sheet.startswith(b"%PDF")
    page.close()
