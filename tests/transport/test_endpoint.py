"""The URLs to which webhooks may be sent."""

from __future__ import annotations

import json
import string
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.exceptions import InvalidEndpointError
from webhooks_app.transport import parse_endpoint

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("urls.json").read_text())
LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]

REFUSED = {
    "scheme": [
        "http://example.com/",
        "HTTP://example.com/",
        "gopher://example.com/",
        "example.com/hook",
        "//example.com/hook",
        "https:/example.com/",
        "https:example.com",
        "https//example.com",
    ],
    "userinfo": ["https://user:pass@example.com/", "https://:@example.com/", "https://a@b@example.com/"],
    "fragment": ["https://example.com/#", "https://example.com/a?b#c"],
    "port": [
        "https://example.com:80/",
        "https://example.com:1/",
        "https://example.com:1023/",
        "https://example.com:0443/",
        "https://example.com:08443/",
        "https://example.com:-443/",
        "https://example.com:8443.0/",
        "https://example.com:1e4/",
        "https://example.com:6379x/",
        "https://[2606:4700:4700::1111]:22/",
        "https://[2606:4700:4700::1111]:/",
    ],
    "host": [
        "https://?a",
        "https://:443/",
        "https://com/",
        "https://example.com./hook",
        "https://a_b.example.com/",
        "https://example.c_m/",
        "https://exa%6dple.com/",
        "https://example.com%2f.evil.example/",
        "https://example.com;evil.example/",
        "https://example.com:443:443/",
        f"https://{'a' * 64}.example.com/",
        f"https://{'.'.join(['a' * 60] * 5)}.com/",
        "https://xn--.example.com/",
        "https://xn--a-.example.com/",
        "https://xn--0.example.com/",
        "https://xn--example.example.com/",
        "https://xn--zca.xn--0000000000000000h/",
        "https://xn--ls8h.example.com/",
        "https://xn--abc-.example.com/",
        "https://example.123/",
        "https://1.2.3/",
        "https://1.2.3.4.example.0x1/",
        "https://0x08080808/",
        "https://0x/",
        "https://8.8.8/",
        "https://8.8.8.8./",
        "https://8.8.8.08/",
        "https://8.8.8.256/",
        "https://08.8.8.8/",
        "https://[8.8.8.8]/",
        "https://[::ffff:8.8.8]/",
        "https://[2606:4700:4700::1111/",
        "https://2606:4700:4700::1111/",
        "https://[2606:4700:4700::1111]x/",
        "https://x[2606:4700:4700::1111]/",
        "https://[2606::4700::1111]/",
        "https://[2606:4700:4700::1111%25eth0]/",
        "https://[g::1]/",
    ],
    "local-name": [
        "https://localhost:8443/",
        "https://sub.LocalHost/",
        "https://localhost.localdomain:8443/",
        "https://printer.local/",
        "https://nas.lan/",
        "https://router.home.arpa/",
        "https://1.0.0.127.in-addr.arpa/",
        "https://db.corp/",
        "https://box.home/",
        "https://wiki.intranet/",
        "https://api.private/",
        "https://api.default.svc/",
        "https://api.default.svc.cluster.local/",
        "https://metadata.google.internal/",
        "https://gateway.docker.internal/",
        "https://facebookwkhpilnemxj7asaniu7vnjjbiltxjqhye3mhbshg7kx5tfyd.onion/",
        "https://name.alt/",
    ],
    "address": [
        "https://127.0.0.2:8443/",
        "https://10.0.0.0/",
        "https://172.16.0.1/",
        "https://100.64.0.0/",
        "https://169.254.170.2/",
        "https://168.63.129.16/",
        "https://255.255.255.255/",
        "https://224.0.0.1/",
        "https://[::1]:8443/",
        "https://[::ffff:8.8.8.8]/",
        "https://[64:ff9b:1::1]/",
        "https://[fec0::1]/",
        "https://[2001:db8::1]/",
        "https://[2002::1]/",
        "https://[2620:4f:8000::1]/",
        "https://[6000::1]/",
    ],
    "characters": [
        "https://example.com/a\\b",
        "https://example.com/\x7f",
        "https://example.com/é",
        "https://exämple.com/",
        "https://example.com/<script>",
        'https://example.com/"',
        "https://example.com/a|b",
        "https://example.com/a^b",
        "https://example.com/`id`",
        "https://example.com/a[0]",
        "https://example.com/?a[]=1",
        "https://example.com/%",
        "https://example.com/%4",
        "https://example.com/%4g",
        "https://example.com/?a=%GG",
        "https://example.com/\n",
        "\nhttps://example.com/",
        "https://example.com/\ufeff",
    ],
    "length": [f"https://example.com/?{'a' * 2048}"],
}

ALLOWED = {
    "https://example.com": ("example.com", 443, "/"),
    "HTTPS://Hooks.EXAMPLE.com/Path": ("hooks.example.com", 443, "/Path"),
    "https://example.com:443/": ("example.com", 443, "/"),
    "https://example.com:1024/a": ("example.com", 1024, "/a"),
    "https://example.com?a=1&b=/?": ("example.com", 443, "/?a=1&b=/?"),
    "https://example.com/a;b=c,d:e@f!$&'()*+~_-.": ("example.com", 443, "/a;b=c,d:e@f!$&'()*+~_-."),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443, "/"),
    "https://XN--BCHER-KVA.example/": ("xn--bcher-kva.example", 443, "/"),
    "https://example.xn--p1ai/": ("example.xn--p1ai", 443, "/"),
    "https://r3---sn-abc.example.com/": ("r3---sn-abc.example.com", 443, "/"),
    "https://1.example.com/": ("1.example.com", 443, "/"),
    "https://8.8.8.8.example.com/": ("8.8.8.8.example.com", 443, "/"),
    "https://localhost.example.com/": ("localhost.example.com", 443, "/"),
    "https://mylocal.example/": ("mylocal.example", 443, "/"),
    f"https://{'a' * 63}.example.com/": (f"{'a' * 63}.example.com", 443, "/"),
    "https://8.8.8.8:8443/": ("8.8.8.8", 8443, "/"),
    "https://[2606:4700:4700:0:0:0:0:1111]:8443/x": ("2606:4700:4700::1111", 8443, "/x"),
    "https://[2606:4700:4700::AAAA]/": ("2606:4700:4700::aaaa", 443, "/"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_url_is_accepted_or_refused_as_in_the_table(case: dict[str, Any]) -> None:
    if case["expect"] == "reject_at_create":
        with pytest.raises(InvalidEndpointError):
            parse_endpoint(case["url"])
    else:
        assert parse_endpoint(case["url"]).scheme == "https"


@pytest.mark.parametrize(
    ("rule", "url"), [(rule, url) for rule, urls in REFUSED.items() for url in urls], ids=lambda text: ascii(text)[:60]
)
def test_a_refusal_names_the_rule(rule: str, url: str) -> None:
    with pytest.raises(InvalidEndpointError) as refusal:
        parse_endpoint(url)

    assert refusal.value.rule == rule


@pytest.mark.parametrize("url", ALLOWED)
def test_an_accepted_url_is_split_into_its_parts(url: str) -> None:
    endpoint = parse_endpoint(url)

    assert (endpoint.host, endpoint.port, endpoint.target) == ALLOWED[url]


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://Example.com:443/", "example.com"),
        ("https://example.com:8443/", "example.com:8443"),
        ("https://[2606:4700:4700::1111]/", "[2606:4700:4700::1111]"),
        ("https://[2606:4700:4700::1111]:8443/", "[2606:4700:4700::1111]:8443"),
        ("http://example.com:80/", "example.com"),
    ],
)
def test_the_authority_is_the_value_of_the_host_header(url: str, authority: str) -> None:
    assert parse_endpoint(url, allow_http=True).authority == authority


def test_plain_http_must_be_allowed() -> None:
    assert parse_endpoint("http://example.com/hook", allow_http=True).port == 80


@pytest.mark.parametrize("url", ["http://example.com:443/", "http://example.com:22/"])
def test_plain_http_has_its_own_default_port(url: str) -> None:
    with pytest.raises(InvalidEndpointError, match="Use 80, or one from 1024"):
        parse_endpoint(url, allow_http=True)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/hook", "http://[::1]:8000/hook"])
def test_an_address_in_an_allowed_network_is_accepted(url: str) -> None:
    assert parse_endpoint(url, allow_http=True, allowed_networks=LOOPBACK).is_address


def test_allowed_networks_do_not_allow_a_name() -> None:
    with pytest.raises(InvalidEndpointError, match="'localhost' is a local name"):
        parse_endpoint("http://localhost:8000/hook", allow_http=True, allowed_networks=LOOPBACK)


@given(st.text() | st.text(string.printable).map("https://".__add__) | st.from_regex(r"https://[ -~]{1,30}/[ -~]{,9}"))
def test_any_text_is_either_refused_or_a_plain_url(url: str) -> None:
    try:
        endpoint = parse_endpoint(url)
    except InvalidEndpointError:
        return

    split = urlsplit(url)
    assert (split.hostname, split.port or 443) == (endpoint.host, endpoint.port)
    assert endpoint.target.endswith(split.path + (f"?{split.query}" if split.query else ""))


def test_the_message_shows_invisible_characters() -> None:
    with pytest.raises(InvalidEndpointError, match=r"U\+00AD"):
        parse_endpoint("https://exam\u00adple.com/")


OFFERED = {
    "https://b\u00fccher.example/hook?x=\u00e4": "https://xn--bcher-kva.example/hook?x=%C3%A4",
    "https://example.com/\u00fc%20": "https://example.com/%C3%BC%20",
    "https://caf\u00e9.example:8443": "https://xn--caf-dma.example:8443",
    "https://\u043c\u043e\u0441\u043a\u0432\u0430.\u0440\u0444/": "https://xn--80adxhks.xn--p1ai/",
    "https://\u65e5\u672c\u8a9e.jp/": "https://xn--wgv71a119e.jp/",
    "https://\ud55c\uad6d.kr/": "https://xn--3e0b707e.kr/",
}
"""International URLs, and the only ASCII form of each."""

NOT_OFFERED = {
    "mixed scripts": "https://\u0430pple.example/",
    "Cyrillic that looks Latin": "https://\u0430\u0440\u0440\u04cf\u0435.example/",
    "Greek that looks Latin": "https://\u03bf\u03ba.example/",
    "dotless i": "https://\u0131nfo.example/",
    "script g": "https://\u0261oogle.example/",
    "sharp s": "https://stra\u00dfe.example/",
    "final sigma": "https://\u03bf\u03b4\u03cc\u03c2.example/",
    "joiner": "https://a\u200d\u00fc.example/",
    "digits of another script": "https://\u0663\u0664.example/",
    "upper case": "https://B\u00dccher.example/",
    "not normalized": "https://cafe\u0301.example/",
    "full-width letters": "https://\uff41\u00fc.example/",
    "ideographic full stop": "https://b\u00fccher\u3002example/",
    "soft hyphen": "https://exam\u00adple.com/",
    "no-break space in the path": "https://example.com/\u00a0",
    "lone surrogate": "https://example.com/\ud800",
    "user name": "https://m\u00fc@example.com/",
    "local name": "https://b\u00fccher.local/",
    "forbidden port": "https://b\u00fccher.example:22/",
    "fragment": "https://b\u00fccher.example/#a",
    "http": "http://b\u00fccher.example/",
}


@pytest.mark.parametrize(("url", "ascii_form"), OFFERED.items(), ids=ascii)
def test_the_only_form_of_an_international_url_is_offered_but_not_used(url: str, ascii_form: str) -> None:
    with pytest.raises(InvalidEndpointError, match="its form in ASCII instead") as refused:
        parse_endpoint(url)

    assert (refused.value.rule, refused.value.suggestion) == ("characters", ascii_form)
    assert ascii_form in str(refused.value)
    assert parse_endpoint(ascii_form)


@pytest.mark.parametrize("url", NOT_OFFERED.values(), ids=NOT_OFFERED)
def test_no_form_is_offered_of_a_url_that_is_refused_or_can_be_mistaken(url: str) -> None:
    with pytest.raises(InvalidEndpointError) as refused:
        parse_endpoint(url)

    assert refused.value.suggestion == ""
