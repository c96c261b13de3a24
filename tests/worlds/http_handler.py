"""A handler of HTTP requests whose answers are one line, and which logs nothing."""

from http.server import BaseHTTPRequestHandler


class AnsweringHandler(BaseHTTPRequestHandler):
    """The base of small servers in tests."""

    def answer(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        """Sends a whole response."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def exposition(self, text: str | None) -> None:
        """Answers with metrics as Prometheus reads them; None is an exporter that is down."""
        kind = "text/plain; version=0.0.4"
        self.answer(b"", 503, kind) if text is None else self.answer(text.encode(), 200, kind)

    def log_message(self, *_: object) -> None:
        pass
