"""OpenAI's image edits, `POST /v1/images/edits`: a form with a picture and a prompt, JSON with a picture back.

vLLM-Omni and SGLang serve open editors by it, and take `seed` and `num_inference_steps` besides. OpenAI's own models
take neither, nor `response_format`: an empty value in `fields` leaves one out.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import quote, urljoin, urlsplit

from .exchange import Exchange, PictureRefusedError, multipart

# What an address begins with that holds the file itself: "data:image/png;base64,iVBO...".
_DATA = "data:"


class OpenAiEdits:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        # As OpenAI's own clients take it, an address ends in /v1; most people leave that out.
        self._path = f"{exchange.base or '/v1'}/images/edits"

    def edit(self, picture: bytes, size: tuple[int, int], instruction: str, seed: int) -> bytes:
        """The file of an edited picture, of a PNG file of `size` (height, width). Raises as `Exchange.ask` does."""
        exchange = self._exchange
        settings = exchange.settings
        fields = {"model": settings.model or "", "prompt": instruction, "n": "1", "size": f"{size[1]}x{size[0]}"}
        fields |= {"response_format": "b64_json", "seed": str(seed), **(settings.fields or {})}
        answer = exchange.ask(self._path, *multipart({k: v for k, v in fields.items() if v}, "image.png", picture))
        if answer.kind.startswith("image/"):
            return answer.body
        match exchange.read_json(answer):
            case {"data": [{"b64_json": str(text)}, *_]} if text:
                return self._decode(text)
            case {"data": [{"url": str(address)}, *_]} if address:
                return self._fetch(address)
        raise PictureRefusedError(f"{exchange.told(answer)}, without a picture")

    def _fetch(self, address: str) -> bytes:
        """The file at an address of the same server, which has the key; no other is asked."""
        exchange = self._exchange
        if address.startswith(_DATA):
            return self._decode(address)
        try:
            parts = urlsplit(urljoin(f"{exchange.origin}{self._path}", address))
            whole = f"{parts.scheme}://{parts.netloc}"
        except ValueError:
            whole = ""
        if whole.casefold() != exchange.origin.casefold():
            where = exchange.words(whole.rpartition("@")[2])
            raise PictureRefusedError(
                f'{exchange.origin} names a picture at {where}, and no other server is asked: have it answer "b64_json"'
            )
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        return exchange.ask(quote(path, safe="!#$%&'()*+,/:;=?@[]~", errors="replace"), fatal=()).body

    def _decode(self, text: str) -> bytes:
        if text.startswith(_DATA):
            text = text.partition(",")[2]
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise PictureRefusedError(f"{self._exchange.origin} answered a b64_json that is no base64") from error
