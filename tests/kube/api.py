#!/usr/bin/env python3
"""An API server for tests, over TLS: MPIJobs, pods and their logs, events, 5,000 nodes in pages. Objects are files KIND.NAMESPACE.NAME.json in DIR, as tests/kube/kubectl keeps them.
usage: api.py CERT KEY DIR; prints its port. DIR/token: what it asks for. DIR/log: requests. DIR/mode: words of ok, forbidden, unauthorized (always), rotate (the first request with the old token gets 401,
after which DIR/new-token counts), busy (429 once), gone (410 once while paging), down (503 always), slow (answers in drips), cut-log (a log that breaks off), cut (an answer that breaks off, always)."""
import http.server, json, os, ssl, sys, time, urllib.parse

cert, key, d = sys.argv[1:4]
done = set()


def once(mode, word):
    if word in mode and word not in done:
        done.add(word)
        return True
    return False


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

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
        if "cut" in self.mode:
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        step = max(1, len(data) // 5) if "slow" in self.mode else len(data)
        for i in range(0, len(data), step):
            self.wfile.write(data[i : i + step])
            self.wfile.flush()
            if "slow" in self.mode:
                time.sleep(0.2)

    def refuse(self, code, reason, message, headers=()):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}, headers)

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.mode = open(d + "/mode").read().split()
        url = urllib.parse.urlparse(self.path)
        query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        with open(d + "/log", "a") as f:
            f.write("%s %s %s\n" % (self.command, self.path, body.decode()[:200].replace("\n", " ")))
        if once(self.mode, "rotate"):
            os.replace(d + "/new-token", d + "/token")
            return self.refuse(401, "Unauthorized", "Unauthorized")
        if "unauthorized" in self.mode or self.headers.get("Authorization") != "Bearer " + open(d + "/token").read().strip():
            return self.refuse(401, "Unauthorized", "Unauthorized")
        if "forbidden" in self.mode:
            return self.refuse(403, "Forbidden", 'mpijobs.kubeflow.org is forbidden: User "system:serviceaccount:train:sa" cannot do this')
        if "down" in self.mode:
            return self.refuse(503, "ServiceUnavailable", "etcd is away", [("Retry-After", "1")])
        if once(self.mode, "busy"):
            return self.refuse(429, "TooManyRequests", "later", [("Retry-After", "1")])
        parts = url.path.strip("/").split("/")
        if url.path == "/api/v1/nodes":
            at, limit = int(query.get("continue", "0")), int(query["limit"])
            if at and once(self.mode, "gone"):
                return self.refuse(410, "Expired", "The provided continue parameter is too old")
            items = [{"metadata": {"name": "n%d" % i, "labels": {"fabric.topograph.run/tier-0": "leaf%d" % (i // 20)}}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}} for i in range(at, min(5000, at + limit))]
            return self.answer(200, {"kind": "NodeList", "metadata": {"continue": str(at + limit)} if at + limit < 5000 else {}, "items": items})
        if "namespaces" not in parts:
            return self.refuse(404, "NotFound", "the server could not find the requested resource")
        rest = parts[parts.index("namespaces") + 1 :] + [""]
        ns, kind, name = rest[0], rest[1], rest[2] if len(rest) > 2 else ""
        path = "%s/%s.%s.%s.json" % (d, kind, ns, name)
        if self.command == "POST":
            o = json.loads(body)
            p = path.replace("..json", ".%s.json" % o["metadata"]["name"])
            if os.path.exists(p):
                return self.refuse(409, "AlreadyExists", 'mpijobs.kubeflow.org "%s" already exists' % o["metadata"]["name"])
            o["metadata"].update(namespace=ns, uid="u-1", creationTimestamp="2026-12-02T18:00:00Z")
            json.dump(o, open(p, "w"))
            return self.answer(201, o)
        if name and not os.path.exists(path):
            return self.refuse(404, "NotFound", '%s "%s" not found' % (kind if kind != "mpijobs" else "mpijobs.kubeflow.org", name))
        if self.command == "DELETE":
            os.unlink(path)
            return self.answer(200, {"kind": "Status", "status": "Success"})
        if len(rest) > 3 and rest[3] == "log":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(3):
                line = b"line %d of %s\n" % (i, name.encode())
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
                time.sleep(0.1)
                if "cut-log" in self.mode and i == 1:
                    self.close_connection = True
                    return
            return self.wfile.write(b"0\r\n\r\n")
        if name:
            return self.answer(200, json.load(open(path)))
        items = [json.load(open(d + "/" + f)) for f in sorted(os.listdir(d)) if f.startswith("%s.%s." % (kind, ns)) and f.endswith(".json")]
        want = dict(w.split("=", 1) for w in query.get("labelSelector", "").split(",") if w)
        items = [i for i in items if all(i["metadata"].get("labels", {}).get(k) == v for k, v in want.items())]
        return self.answer(200, {"kind": "List", "metadata": {}, "items": items})

    do_GET = do_POST = do_DELETE = handle_one


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
