#!/usr/bin/env python3
"""A small API server for tests: GET /api/v1/nodes in pages, over TLS, with the errors that a real one gives.
usage: server.py CERT KEY TOKEN_FILE LOG; prints its port. Asks for the token that TOKEN_FILE holds now; ?limit and ?continue page by two.
Modes by the file LOG.mode: ok, forbidden, busy (429 once), gone (410 once), down (503 always), old-token (401 once), cut (half an answer)."""
import http.server, json, ssl, sys, urllib.parse

cert, key, token_file, log = sys.argv[1:5]
NODES = [{"kind": "Node", "metadata": {"name": "k%d" % i, "labels": {"fabric.topograph.run/tier-0": "leaf%d" % (i // 2), "fabric.topograph.run/tier-1": "spine"}},
          "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}} for i in range(5)]
seen = {}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, status, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for k, v in headers:
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(data)

    def status(self, code, reason, message, headers=()):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}, headers)

    def do_GET(self):
        mode = open(log + ".mode").read().strip()
        url = urllib.parse.urlparse(self.path)
        query = urllib.parse.parse_qs(url.query)
        with open(log, "a") as f:
            f.write("%s %s\n" % (mode, self.path))
        first = seen.setdefault(mode, 0) == 0
        seen[mode] += 1
        if self.headers.get("Authorization") != "Bearer " + open(token_file).read().strip() or (mode == "old-token" and first):
            return self.status(401, "Unauthorized", "Unauthorized")
        if mode == "forbidden":
            return self.status(403, "Forbidden", 'nodes is forbidden: User "system:serviceaccount:train:default" cannot list resource "nodes"')
        if mode == "down":
            return self.status(503, "ServiceUnavailable", "etcd is away", [("Retry-After", "1")])
        if mode == "busy" and first:
            return self.status(429, "TooManyRequests", "later", [("Retry-After", "1")])
        if url.path != "/api/v1/nodes":
            return self.status(404, "NotFound", "the server could not find the requested resource")
        at = int(query.get("continue", ["0"])[0])
        if mode == "gone" and at and seen[mode] == 2:
            return self.status(410, "Expired", "The provided continue parameter is too old")
        if mode == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b'{"kind": "NodeList", "items": [')
            return self.connection.close()
        more = at + 2 < len(NODES)
        self.answer(200, {"kind": "NodeList", "metadata": {"continue": str(at + 2)} if more else {}, "items": NODES[at:at + 2]})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
