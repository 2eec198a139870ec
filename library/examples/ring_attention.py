#!/usr/bin/env python3
"""Attention by a plan of zeppelin, forward and backward, on as many processes as the plan has devices, without zeppelin's own runtime.

    mpirun -n 4 python3 ring_attention.py [--source 'synthetic:nodes:2 dev:2 nic:2'] [--capacity 600] [--method NAME] [--model NAME --device NAME] [LENGTH...]

Process 0 makes the plan through ctypes and exports it; every process then reads nothing but its own folder, does what stands there, and the output and the gradients of all are compared with those
of plain attention in one process. Prints the largest differences; exit status 0: all below 1e-5. Needs NumPy and mpi4py. ZEPPELIN_LIBRARY: libzeppelin.so, where the system's loader does not find it.
"""
import argparse
import collections
import ctypes
import json
import math
import os
import shutil
import sys
import tempfile

import numpy as np
from mpi4py import MPI

HEADS, HEADS_KV, HEAD_DIM = 4, 2, 8
LENGTHS = [901, 64, 63, 1, 300, 75, 17, 128]


class Failed(Exception):
    pass


class Library:
    """libzeppelin: each call raises Failed with the library's own text."""

    def __init__(self):
        try:
            self.c = ctypes.CDLL(os.environ.get("ZEPPELIN_LIBRARY", "libzeppelin.so.0"))
        except OSError as error:
            raise Failed(f"{error}: expected the library where the loader looks (LD_LIBRARY_PATH), or its path in ZEPPELIN_LIBRARY") from error
        for name in "zep_version", "zep_error_text", "zep_plan_method":
            getattr(self.c, name).restype = ctypes.c_char_p
        for name in "zep_error_new", "zep_options_new":
            getattr(self.c, name).restype = ctypes.c_void_p
        self.c.zep_error_new.argtypes = self.c.zep_options_new.argtypes = []
        self.error = ctypes.c_void_p(self.c.zep_error_new())

    def call(self, name, *args):
        if getattr(self.c, name)(*args) < 0:
            raise Failed(self.c.zep_error_text(self.error).decode())

    def export(self, source, lengths, options, folder):
        """Plans the lengths on a cluster and writes what each rank has to do. Returns the number of devices and the method's name."""
        cluster, plan, opts = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(self.c.zep_options_new())
        try:
            self.call("zep_cluster_open", (ctypes.c_char_p * 1)(source.encode()), 1, 0, 0, 1, self.error, ctypes.byref(cluster))
            for key, value in options.items():
                self.call("zep_options_set", opts, key.encode(), str(value).encode(), self.error)
            self.call("zep_plan_make", cluster, (ctypes.c_int64 * len(lengths))(*lengths), len(lengths), opts, self.error, ctypes.byref(plan))
            self.call("zep_plan_export", plan, os.fsencode(folder), self.error)
            return self.c.zep_plan_devices(plan), self.c.zep_plan_method(plan).decode()
        finally:
            self.c.zep_plan_free(plan)
            self.c.zep_options_free(opts)
            self.c.zep_cluster_free(cluster)


class Rank:
    """One rank of an export: its buffers, and its operations."""

    def __init__(self, folder, comm):
        self.comm = comm
        own = os.path.join(folder, json.load(open(os.path.join(folder, "export.json")))["rank"][comm.rank]["folder"])
        self.what = json.load(open(os.path.join(own, "rank.json")))
        if not self.what["format"].startswith("zeppelin-ranks/1."):
            raise Failed(f"{self.what['format']}: expected zeppelin-ranks/1.x")
        self.array = {f"{layout}.{name}": np.load(os.path.join(own, f"{layout}.{name}.npy")) for layout in ("attention", "linear") for name in ("tokens", "positions", "sequences", "cu_seqlens")}
        self.ring_cu = {r["ring"]: np.load(os.path.join(folder, f"ring-{r['ring']:04d}.cu_seqlens.npy")) for r in self.what["rings"]}
        self.buffer = {name: np.zeros((b["slots"], b["rows"]) + ((2, HEADS_KV, HEAD_DIM) if "kv" in name else (HEADS, HEAD_DIM))) for name, b in self.what["buffers"].items()}
        n = self.what["attention_tokens"]
        self.lse = np.full((n, HEADS), -np.inf)
        self.delta = np.zeros((n, HEADS))
        self.n_transfer = 0

    def buf(self, name):
        """Slot 0 of a buffer; nothing where the rank has no rows of it."""
        return self.buffer[name][0] if name in self.buffer else np.zeros((0,) + ((2, HEADS_KV, HEAD_DIM) if "kv" in name else (HEADS, HEAD_DIM)))

    def at(self, ref, rows):
        name, slot, row = ref
        return self.buffer[name][slot, row:row + rows]

    def begin_attention(self, backward):
        if not backward:
            self.buf("att_o")[:] = 0
            self.lse[:] = -np.inf
            return
        self.buf("att_dq")[:] = 0
        self.buf("att_dkv")[:] = 0
        self.delta[:] = (self.buf("att_o") * self.buf("att_do")).sum(-1)

    def advance(self):
        """A lane has one group under way; the next one is posted when that is complete and what it names is done. Between two ranks the transfers of a lane match in their order."""
        for lane, (name, queue) in enumerate(self.queued.items()):
            if queue and self.under_way[name] is None and self.ready(queue[0]) and all(self.computed[q] >= n for q, n in queue[0]["after"].items()):
                self.under_way[name] = []
                for t in queue[0]["transfers"]:
                    data = self.at(t["at"], t["rows"])
                    self.under_way[name].append(self.comm.Isend(data, t["to"], lane) if "to" in t else self.comm.Irecv(data, t["from"], lane))
            if self.under_way[name] is not None and MPI.Request.Testall(self.under_way[name]):
                self.n_transfer += len(queue.popleft()["transfers"])
                self.under_way[name] = None
                self.complete[name] += 1

    def ready(self, op):
        return all(self.complete[lane] >= n for lane, n in op["wait"].items())

    def attention(self, op, backward):
        kv = self.at(op["kv"], op["rows"])
        dkv = self.at(op["dkv"], op["rows"]) if backward else None
        if backward and op["clear"]:
            dkv[:] = 0
        for q_row, n_q, q_pos, k_row, n_k, k_pos in op["blocks"]:
            qs, ks = slice(q_row, q_row + n_q), slice(k_row, k_row + n_k)
            assert (self.array["attention.positions"][qs] == q_pos + np.arange(n_q)).all()
            k, v = (np.repeat(kv[ks, i], HEADS // HEADS_KV, axis=1) for i in (0, 1))
            s = np.einsum("qhd,khd->qhk", self.buf("att_q")[qs], k) / math.sqrt(HEAD_DIM)
            s[np.broadcast_to((q_pos + np.arange(n_q)[:, None] < k_pos + np.arange(n_k)[None, :])[:, None, :], s.shape)] = -np.inf
            if backward:
                self.block_backward(s, qs, k, v, dkv[ks])
            else:
                self.block_forward(s, qs, v)

    def block_forward(self, s, qs, v):
        """Merged with what the rows have seen by log-sum-exp; a row that sees nothing stays as it is."""
        top = np.maximum(s.max(-1), self.lse[qs])
        sees = np.isfinite(top)
        top = np.where(sees, top, 0)
        p, before = np.exp(s - top[..., None]), np.exp(self.lse[qs] - top)
        total = p.sum(-1) + before
        safe = np.where(sees, total, 1)
        self.buf("att_o")[qs] = (self.buf("att_o")[qs] * before[..., None] + np.einsum("qhk,khd->qhd", p, v)) / safe[..., None]
        self.lse[qs] = np.where(sees, top + np.log(safe), -np.inf)

    def block_backward(self, s, qs, k, v, dkv):
        q, do = self.buf("att_q")[qs], self.buf("att_do")[qs]
        p = np.exp(s - self.lse[qs][..., None])
        ds = p * (np.einsum("qhd,khd->qhk", do, v) - self.delta[qs][..., None]) / math.sqrt(HEAD_DIM)
        self.buf("att_dq")[qs] += np.einsum("qhk,khd->qhd", ds, k)
        for i, grad in enumerate((np.einsum("qhk,qhd->khd", ds, q), np.einsum("qhk,qhd->khd", p, do))):
            dkv[:, i] += grad.reshape(len(grad), HEADS_KV, HEADS // HEADS_KV, HEAD_DIM).sum(2)

    def run(self, name):
        """One pass. Groups go into the queues of their lanes, all else is done in the order of the list: right, but little is overlapped."""
        backward, barriers = name == "backward", 0
        lanes = ("world", "node", "grid")
        self.queued = {lane: collections.deque() for lane in lanes}
        self.under_way, self.complete = dict.fromkeys(lanes), dict.fromkeys(lanes, 0)
        self.computed = {"inter": 0, "intra": 0, "local": 0}
        for op in self.what[name] + [{"op": "barrier"}]:
            if op["op"] == "group":
                self.queued[op["lane"]].append(op)
                self.advance()
            elif op["op"] in ("attention", "add"):
                while not self.ready(op):
                    self.advance()
                if op["op"] == "attention":
                    self.attention(op, backward)
                else:
                    self.at(op["dst"], op["rows"])[:] += self.at(op["src"], op["rows"])
                self.computed[op["queue"]] += 1
            elif op["op"] == "copy":
                self.at(op["dst"], op["rows"])[:] = self.at(op["src"], op["rows"])
            elif op["op"] == "barrier":
                while any(self.queued.values()):
                    self.advance()
                barriers += 1
                if barriers == 1:
                    self.begin_attention(backward)
            else:
                raise Failed(f"operation '{op['op']}'")

    def check_layouts(self):
        """What is said twice is said alike: pieces, chunks, and remapping by one all-to-all."""
        for layout in "attention", "linear":
            cu, sequences, positions = (self.array[f"{layout}.{x}"] for x in ("cu_seqlens", "sequences", "positions"))
            assert cu[0] == 0 and cu[-1] == self.what[f"{layout}_tokens"] == len(sequences)
            for a, b in zip(cu[:-1], cu[1:]):
                assert (sequences[a:b] == sequences[a]).all() and (positions[a:b] == positions[a] + np.arange(b - a)).all()
        for ring in self.what["rings"]:
            cu = self.ring_cu[ring["ring"]]
            chunks = [c for s in ring["sequences"] for c in s["chunks"]]
            assert len(cu) == len(ring["members"]) and ring["members"][ring["position"]] == self.comm.rank
            assert (np.diff(cu[ring["position"]]) == [e - b for b, e in chunks]).all() and cu[ring["position"]][-1] == ring["rows"]
            want = np.concatenate([np.arange(b, e) for b, e in chunks])
            assert (self.array["attention.positions"][ring["row"]:ring["row"] + ring["rows"]] == want).all()
        kept, send, receive = (self.what["remap"][x] for x in ("kept", "send", "receive"))
        moved = np.zeros(sum(receive), dtype=np.int64)
        self.comm.Alltoallv([np.ascontiguousarray(self.array["attention.tokens"][kept:]), send], [moved, receive])
        assert (np.concatenate([self.array["attention.tokens"][:kept], moved]) == self.array["linear.tokens"]).all()


def plain(lengths, q, kv, do):
    """Attention of one process: output and gradients of each sequence on its own."""
    o, dq, dkv, at = np.zeros_like(q), np.zeros_like(q), np.zeros_like(kv), 0
    for n in lengths:
        rows = slice(at, at + n)
        k, v = (np.repeat(kv[rows, i], HEADS // HEADS_KV, axis=1) for i in (0, 1))
        s = np.einsum("qhd,khd->hqk", q[rows], k) / math.sqrt(HEAD_DIM)
        s = np.where(np.tril(np.ones((n, n), dtype=bool)), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        o[rows] = np.einsum("hqk,khd->qhd", p, v)
        dp = np.einsum("qhd,khd->hqk", do[rows], v)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / math.sqrt(HEAD_DIM)
        dq[rows] = np.einsum("hqk,khd->qhd", ds, k)
        for i, grad in enumerate((np.einsum("hqk,qhd->khd", ds, q[rows]), np.einsum("hqk,qhd->khd", p, do[rows]))):
            dkv[rows, i] = grad.reshape(n, HEADS_KV, HEADS // HEADS_KV, HEAD_DIM).sum(2)
        at += n
    return o, dq, dkv


def work(args, comm, folder):
    if comm.rank == 0:
        options = {key: getattr(args, key) for key in ("capacity", "method", "model", "device") if getattr(args, key)}
        devices, method = Library().export(args.source, args.lengths, options, folder)
        if devices != comm.size:
            raise Failed(f"the plan is for {devices} devices, {comm.size} processes were started: mpirun -n {devices}")
    comm.Barrier()
    rank = Rank(folder, comm)
    rank.check_layouts()
    random, n = np.random.default_rng(1), sum(args.lengths)
    q, do = random.standard_normal((2, n, HEADS, HEAD_DIM))
    kv = random.standard_normal((n, 2, HEADS_KV, HEAD_DIM))
    mine = rank.array["linear.tokens"]
    rank.buf("lin_q")[:], rank.buf("lin_kv")[:], rank.buf("lin_do")[:] = q[mine], kv[mine], do[mine]
    rank.run("forward")
    rank.run("backward")
    got = comm.gather((mine, [rank.buf(x) for x in ("lin_o", "lin_dq", "lin_dkv")]))
    transfers = comm.reduce(rank.n_transfer)
    forms = comm.gather({r["form"] + " " + r["zone"] for r in rank.what["rings"]})
    if comm.rank:
        return True
    good = True
    for i, (name, want) in enumerate(zip(("output", "dQ", "dK and dV"), plain(args.lengths, q, kv, do))):
        have = np.full_like(want, np.nan)
        for tokens, arrays in got:
            have[tokens] = arrays[i]
        worst = float(np.abs(have - want).max())
        good = good and worst < 1e-5
        print(f"{name}: largest difference {worst:.1e}, of values up to {np.abs(want).max():.2g}")
    print(f"{n} tokens on {comm.size} processes by {method}, {transfers} transfers, rings: {', '.join(sorted(set.union(*forms)))}: {'the same' if good else 'NOT the same'}")
    return good


def main():
    parser = argparse.ArgumentParser(description="attention by a plan of zeppelin, compared with that of one process")
    parser.add_argument("--source", default="synthetic:nodes:2 dev:2 nic:2")
    parser.add_argument("--capacity", default="600")
    parser.add_argument("--method")
    parser.add_argument("--model")
    parser.add_argument("--device")
    parser.add_argument("lengths", metavar="LENGTH", type=int, nargs="*", default=LENGTHS)
    args = parser.parse_args()
    comm = MPI.COMM_WORLD
    top = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    try:
        good = work(args, comm, os.path.join(top, "ranks"))
    except (Failed, OSError, AssertionError) as error:
        print(f"ring_attention.py: process {comm.rank}: {error!r}" if isinstance(error, AssertionError) else f"ring_attention.py: {error}", file=sys.stderr, flush=True)
        comm.Abort(1)
    comm.Barrier()
    if comm.rank == 0:
        shutil.rmtree(top)
    return not good


if __name__ == "__main__":
    sys.exit(main())
