"""Who is answered: the token, sessions, names of hosts, pages of other sites. Without a daemon."""

import asyncio
import os
import time
from http.cookies import SimpleCookie

import pytest
from starlette.responses import PlainTextResponse

from backfill.queue.words import Unreadable
from backfill.web import safety
from backfill.web.problems import Refusal
from backfill.web.safety import FAILURES, HEADERS, SESSION_S, Failures, Guarded, Safety, Token
from tests.patience import completed


@pytest.fixture
def token(tmp_path):
    found = Token(tmp_path / "web.token")
    found.make()
    return found


def text(token):
    return token.path.read_text().strip()


class Browser:
    """Sends requests to an application behind a Safety."""

    def __init__(self, safe):
        self.safety, self.reached = safe, []

        async def app(scope, receive, send):
            self.reached.append(scope["path"])
            while (await receive()).get("more_body"):
                pass
            await PlainTextResponse("inside")(scope, receive, send)

        self._app = Guarded(app, safe)

    def ask(self, path="/v1/jobs", method="GET", client="127.0.0.1", body=(b"",), **headers):
        """Return the status and the headers of an answer."""
        pairs = [("host", "localhost:8765"), *((name.replace("_", "-"), value) for name, value in headers.items())]
        if "host" in headers:
            pairs = pairs[1:]
        scope = {
            "type": "http", "method": method, "path": path, "query_string": b"", "scheme": "http",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in pairs], "client": (client, 1),
        }  # fmt: skip
        sent, parts = [], [{"type": "http.request", "body": part, "more_body": True} for part in body]

        async def receive():
            return parts.pop(0) if parts else {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        asyncio.run(self._app(scope, receive, send))
        return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.fixture
def browser(token):
    return Browser(Safety(token, frozenset({"queue.example.org"})))


def bearer(token):
    return {"authorization": f"Bearer {text(token)}"}


def test_a_token_has_32_random_bytes_in_a_file_of_its_owner(token):
    assert len(bytes.fromhex(text(token))) == 32
    assert os.stat(token.path).st_mode & 0o777 == 0o600
    before = text(token)
    token.make()
    assert text(token) != before
    assert not token.accepts(before)
    assert token.accepts(text(token))


def test_a_token_that_others_may_read_is_not_used(token):
    os.chmod(token.path, 0o640)
    with pytest.raises(Unreadable, match="mode 640; expected 600"):
        _ = token.text


@pytest.mark.parametrize("given", ["", " ", "x", "ä", "\udcff", "0" * 64])
def test_another_text_is_not_the_token(token, given):
    assert not token.accepts(given)


def test_the_comparison_does_not_depend_on_how_much_is_right(token, monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((len(one), len(other)))
        return False

    monkeypatch.setattr("backfill.web.safety.hmac.compare_digest", compare)
    for given in ("", text(token)[:63], text(token) + "0", "x" * 100_000):
        assert not token.accepts(given)
    assert {*compared} == {(32, 32)}  # hashes, in constant time


def test_only_the_token_opens(browser, token):
    assert browser.ask()[0] == 401
    assert browser.ask(authorization="Bearer wrong")[0] == 401
    assert browser.ask(authorization=f"Basic {text(token)}")[0] == 401
    assert browser.reached == []
    assert browser.ask(**bearer(token))[0] == 200


def test_a_browser_is_led_to_the_login(browser):
    status, headers = browser.ask("/jobs/1", accept="text/html,*/*")
    assert (status, headers["location"]) == (303, "/login?next=%2Fjobs%2F1")
    assert browser.ask("/login")[0] == 200
    assert browser.ask("/static/page.js")[0] == 200
    assert browser.ask("/loginx")[0] == 401


def test_wrong_tokens_are_slowed_down_and_the_right_one_is_not(browser, token):
    found = [browser.ask(authorization="Bearer wrong")[0] for _ in range(FAILURES + 5)]
    assert found == [401] * FAILURES + [429] * 5
    status, headers = browser.ask(authorization="Bearer wrong")
    assert (status, int(headers["retry-after"]) > 0) == (429, True)
    assert browser.ask(client="192.0.2.1", authorization="Bearer wrong")[0] == 401
    assert browser.ask(**bearer(token))[0] == 200


def test_failures_are_forgiven_slowly_and_their_record_is_bounded():
    now = [0.0]
    failures = Failures(lambda: now[0])
    assert [failures.too_many("a") for _ in range(FAILURES)] == [0] * FAILURES
    assert failures.too_many("a") > 0
    now[0] += 60
    assert failures.too_many("a") == 0
    for client in range(5000):
        failures.too_many(str(client))
    assert len(failures._left) <= 1000


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("localhost:9999", 200), ("127.0.0.1:8765", 200), ("[::1]:8765", 200),
        ("queue.example.org", 200), ("QUEUE.example.org:443", 200),
        ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.nip.io", 421), ("", 421),
        ("localhost@evil.example", 421), ("evil.example:80@localhost", 421), ("[::1", 421), ("localhost:x y", 421),
    ],
)  # fmt: skip
def test_only_names_of_this_server_are_answered(browser, token, host, status):
    assert browser.ask(host=host, **bearer(token))[0] == status


def test_a_request_without_a_host_or_with_two_is_refused(browser, token):
    scope_with = [("host", "localhost"), ("host", "localhost")]
    for pairs in ([], scope_with):
        scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http", "client": None,
                 "headers": [(name.encode(), value.encode()) for name, value in pairs]}  # fmt: skip
        with pytest.raises(Refusal) as refusal:
            browser.safety.admit(scope)
        assert refusal.value.status == 421


def cookie(browser, scheme="http"):
    response = PlainTextResponse("")
    browser.safety.session({"scheme": scheme, "headers": []}, response)
    return response.headers["set-cookie"]


def test_a_session_is_a_cookie_that_no_script_and_no_other_site_gets(browser, token):
    line = cookie(browser)
    assert "HttpOnly" in line
    assert "SameSite=strict" in line
    assert "Secure" not in line
    assert "Secure" in cookie(browser, "https")
    assert text(token) not in line
    assert browser.ask(cookie=line.partition(";")[0])[0] == 200


def test_a_session_ends_with_its_time_and_with_its_token(browser, token):
    begun = token.session(time.time())
    now = time.time()
    assert token.proves(begun, now)
    assert not token.proves(begun, now + SESSION_S + 5)
    until, _, proof = begun.partition(".")
    for forged in (f"{int(until) + 1}.{proof}", f"{until}.{'0' * 64}", "", ".", "x.y", f"{until}.ä", f"ä.{proof}"):
        assert not token.proves(forged, now)
    token.make()
    assert not token.proves(begun, now)


FORM = {"content_type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost:8765"}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:1"}, 403),  # another server of this machine
        ({"origin": "http://localhost:8765.evil.example"}, 403),
        ({"origin": "http://[broken"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
    ],
)
def test_a_form_counts_only_from_a_page_of_this_server(browser, headers, status):
    session = cookie(browser).partition(";")[0]
    assert browser.ask("/jobs", "POST", cookie=session, **FORM, **headers)[0] == status
    assert browser.reached == ["/jobs"] * (status == 200)


def test_a_page_of_another_site_cannot_read_either(browser, token):
    assert browser.ask(origin="http://evil.example", **bearer(token))[0] == 403
    assert "access-control-allow-origin" not in browser.ask(**bearer(token))[1]


def test_a_program_with_the_token_needs_no_origin(browser, token):
    assert browser.ask(method="POST", **bearer(token))[0] == 200


def test_every_answer_has_the_headers_of_a_careful_page(browser, token):
    for _, headers in (browser.ask(), browser.ask(**bearer(token)), browser.ask(host="evil.example")):
        assert HEADERS.items() <= headers.items()
        assert headers["cache-control"] == "no-store"
        assert "unsafe" not in headers["content-security-policy"]


def test_a_body_that_never_ends_is_cut(browser, token):
    with pytest.raises(Refusal) as refusal:
        browser.ask(method="POST", body=[b"x" * (1 << 20)] * 9, **bearer(token))
    assert refusal.value.status == 413


def test_a_body_that_does_not_come_is_waited_for_so_long_only(monkeypatch):
    monkeypatch.setattr(safety, "BODY_S", 0.01)

    async def never():
        await asyncio.Event().wait()

    with pytest.raises(Refusal) as refusal:
        completed(safety._bounded(never)())
    assert refusal.value.status == 408


def test_a_hostile_cookie_is_no_session(browser):
    for hostile in ("backfill=a\x00b", "=", ";;;", "backfill=" + "9" * 10_000, "a b=c", "backfill=1.é"):
        assert browser.ask(cookie=hostile)[0] == 401
    assert SimpleCookie("backfill=x")["backfill"].value == "x"
