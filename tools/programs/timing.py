#!/usr/bin/env python3
"""Writes the programs whose simulated time is compared with published times.

    tools/programs/timing.py DIRECTORY [NAME ...]

Each is the course of a kernel whose source the vendor published, at the published size: the same
instructions, shapes, buffers and waits. Values are not computed (run with --timing-only).
"""

import sys
from pathlib import Path

TILE = 128
WIDE = 512
BANK = 2048
STATES = 16

PE = "num_active_rows=128 num_active_cols=128 row_grp=15 col_grp=15"


def header(generation):
    return [f".generation {generation}"]


# ------------------------------------------------------------------------------------ state scan


def mamba(channels, sequence, variant):
    """The state scan. Five DVE instructions a step in variant 1, which loads its operands in every
    step; variant 2 multiplies delta by u once a tile and keeps its operands; variant 3 also cuts
    the sequence by 512 and carries the scan over."""
    tiles, cuts = channels // TILE, sequence // WIDE
    per_step_loads = variant == 1
    # buffers of the result: the long one does not fit twice
    outs = 1 if variant == 3 else 2
    out = header("v2")
    out += [
        f".tensor delta hbm fp32[{channels}, {sequence}]",
        f".tensor u hbm fp32[{channels}, {sequence}]",
        f".tensor a hbm fp32[{channels}, {STATES}]",
        f".tensor b hbm fp32[{STATES}, {sequence}]",
        f".tensor c hbm fp32[{STATES}, {sequence}]",
        f".tensor out hbm fp32[{channels}, {sequence}]",
        ".tensor ones_sb sbuf fp32[1, 128]",
        ".tensor da_sb sbuf fp32[128, 2, 512]",
        ".tensor dbu_sb sbuf fp32[128, 512]",
        ".tensor scan_sb sbuf fp32[128, 512]",
        ".tensor sc_sb sbuf fp32[128, 512]",
        f".tensor out_sb sbuf fp32[128, {outs}, {sequence}]",
        ".tensor bc_ps psum fp32[128, 4, 512] bank 0",
        ".semaphore loaded, ones_done, act_done, pe_done, steps_done, tiles_done, stored",
        ".queue q_in engine=SP semaphore=loaded kind=in",
        ".queue q_out engine=POOL semaphore=stored kind=out",
    ]
    # two buffers of what a load block brings
    length = sequence if not per_step_loads else WIDE
    out += [
        f".tensor delta_sb sbuf fp32[128, 2, {length}]",
        f".tensor u_sb sbuf fp32[128, 2, {length}]",
        ".tensor a_sb sbuf fp32[128, 2, 16]",
        ".tensor bc_sb sbuf fp32[1, 2, 2, 512]",
        ".tensor du_sb sbuf fp32[128, 512]",
    ]
    blocks, sp, pe, act, dve, pool = [], [], [], [], [], []
    span = length * 4

    def block(name, copies):
        blocks.append(f".block q_in {name}")
        blocks.extend("  copy " + c for c in copies)
        blocks.append(".end")

    pe += [
        "  NOP $S[ones_done]>=1",
        "  LDWEIGHTS src=fp32@ones_sb+508[-1][128] fp32_mode=LOW_HIGH num_active_rows=1 "
        "num_active_cols=128 row_grp=15 col_grp=15 xbus_sel=0x10",
    ]
    dve.append(
        "  MEMSET dst=fp32@ones_sb[1][128] dst_element_count=128 set_value=0x3f800000 "
        "num_active_channels=1 $S[ones_done]++@complete"
    )

    step = loads = 0
    for t in range(tiles):
        r = f"{t * TILE}:{(t + 1) * TILE}"
        buf = t % 2
        if not per_step_loads:
            block(
                f"tile{t}",
                [
                    f"dst=delta_sb[:, {buf}, :] src=delta[{r}, :]",
                    f"dst=u_sb[:, {buf}, :] src=u[{r}, :]",
                    f"dst=a_sb[:, {buf}, :] src=a[{r}, :]",
                ],
            )
            sp.append(f"  DMA_TRIGGER q_in tile{t} $S[tiles_done]>={max(0, t - 1)}")
            loads += 1
            dve.append(f"  NOP $S[loaded]>={loads}")
            for j in range(cuts):
                at = j * BANK
                dve.append(
                    f"  TENSOR_TENSOR_ARITH_OP src0=fp32@delta_sb+{buf * span + at}[1][512] "
                    f"src1=fp32@u_sb+{buf * span + at}[1][512] dst=fp32@u_sb+{buf * span + at}[1][512] "
                    "op=MULT num_active_channels=128"
                )
        out_at = t % outs * sequence * 4
        dve.append(f"  NOP $S[stored]>={max(0, t - outs + 1)}")
        for j in range(cuts):
            dve.append(
                f"  MEMSET dst=fp32@out_sb+{out_at + j * BANK}[1][512] dst_element_count=512 set_value=0 "
                "num_active_channels=128"
            )
        for i in range(STATES):
            n = t * STATES + i
            at_buf = n % 2
            d_at = (at_buf if per_step_loads else buf) * span
            u_at = at_buf * span
            a_at = (at_buf * 64) if per_step_loads else buf * 64 + i * 4
            for j in range(cuts):
                at, two = j * BANK, step % 2
                free = max(0, step - 1)
                cut = f"{j * WIDE}:{(j + 1) * WIDE}"
                copies = []
                if per_step_loads:
                    copies += [
                        f"dst=delta_sb[:, {at_buf}, :] src=delta[{r}, :]",
                        f"dst=u_sb[:, {at_buf}, :] src=u[{r}, :]",
                        f"dst=a_sb[:, {at_buf}, 0:1] src=a[{r}, {i}:{i + 1}]",
                    ]
                copies += [
                    f"dst=bc_sb[0, {two}, 0, :] src=b[{i}, {cut}]",
                    f"dst=bc_sb[0, {two}, 1, :] src=c[{i}, {cut}]",
                ]
                block(f"step{step}", copies)
                sp.append(f"  DMA_TRIGGER q_in step{step} $S[steps_done]>={free}")
                loads += 1
                pe.append(f"  NOP $S[loaded]>={loads}")
                if per_step_loads or step % (STATES * cuts) == 0:
                    act.append(f"  NOP $S[loaded]>={loads}")
                if per_step_loads:
                    dve.append(f"  NOP $S[loaded]>={loads}")
                for k in range(2):
                    sync = f"$S[steps_done]>={free}" if k == 0 else "$S[pe_done]++@complete"
                    pe.append(
                        f"  MATMUL src=fp32@bc_sb+{(two * 2 + k) * BANK}[1][512] "
                        f"dst=@bc_ps+{(two * 2 + k) * BANK}[1][512] fp32_mode=LOW_HIGH num_active_rows=1 "
                        "num_active_cols=128 row_grp=15 col_grp=15 xbus_sel=0x10 psum_accumulate_flags=3 "
                        + sync
                    )
                act.append(
                    f"  ACTIVATE src=fp32@delta_sb+{d_at + at}[1][512] dst=fp32@da_sb+{two * BANK}[1][512] "
                    f"activation_func=7 scale_value=@a_sb+{a_at} bias=0.0 in_bias_dtype=fp32/fp32 "
                    f"num_active_channels=128 $S[steps_done]>={free} $S[act_done]++@complete"
                )
                tensor = "num_active_channels=128"
                du = "du_sb" if per_step_loads else f"u_sb+{buf * span + at}"
                if per_step_loads:
                    dve.append(
                        f"  TENSOR_TENSOR_ARITH_OP src0=fp32@delta_sb+{d_at}[1][512] "
                        f"src1=fp32@u_sb+{u_at}[1][512] dst=fp32@du_sb[1][512] op=MULT {tensor}"
                    )
                dve.append(
                    f"  TENSOR_TENSOR_ARITH_OP src0=fp32@{du}[1][512] src1=fp32@bc_ps+{two * 2 * BANK}[1][512] "
                    f"dst=fp32@dbu_sb[1][512] op=MULT {tensor} $S[pe_done]>={step + 1}"
                )
                start = "imm0=0.0" if j == 0 else "imm0=@scan_sb+2044"
                dve.append(
                    f"  TENSOR_TENSOR_SCAN_ARITH src0=fp32@da_sb+{two * BANK}[1][512] src1=fp32@dbu_sb[1][512] "
                    f"dst=fp32@scan_sb[1][512] op0=MULT op1=ADD {start} imm0_dtype=fp32 {tensor} "
                    f"$S[act_done]>={step + 1}"
                )
                dve.append(
                    f"  TENSOR_TENSOR_ARITH_OP src0=fp32@scan_sb[1][512] "
                    f"src1=fp32@bc_ps+{(two * 2 + 1) * BANK}[1][512] dst=fp32@sc_sb[1][512] op=MULT {tensor} "
                    "$S[steps_done]++@complete"
                )
                last = i == STATES - 1 and j == cuts - 1
                done = " $S[tiles_done]++@complete" if last else ""
                dve.append(
                    f"  TENSOR_TENSOR_ARITH_OP src0=fp32@out_sb+{out_at + at}[1][512] src1=fp32@sc_sb[1][512] "
                    f"dst=fp32@out_sb+{out_at + at}[1][512] op=ADD {tensor}{done}"
                )
                step += 1
        blocks += [f".block q_out out{t}", f"  copy dst=out[{r}, :] src=out_sb[:, {t % outs}, :]", ".end"]
        pool.append(f"  DMA_TRIGGER q_out out{t} $S[tiles_done]>={t + 1}")
    pool.append(f"  NOP $S[stored]>={tiles}")
    return out + blocks + streams(SP=sp, PE=pe, ACT=act, DVE=dve, POOL=pool)


def streams(**of):
    out = []
    for engine, lines in of.items():
        if lines:
            out.append(f".stream {engine}")
            out += lines
    return out


# ------------------------------------------------------------------------------------ single rows


def act_chain(n):
    """One-element activations, each of which waits for the one before."""
    out = header("v2") + [
        ".tensor x sbuf fp32[128, 1]",
        ".tensor scale sbuf fp32[128, 1]",
        ".semaphore done",
    ]
    act = [f".repeat {n} i"]
    act.append(
        "  ACTIVATE src=fp32@x[1][1] dst=fp32@x[1][1] activation_func=1 scale_value=1.0 bias=0.0 "
        "in_bias_dtype=fp32/fp32 num_active_channels=128 $S[done]>=i $S[done]++@complete"
    )
    return out + [".stream ACT"] + act + [".end"]


def peak(generation, kind, n):
    """Weight load and matmul of 128x128 by 128x512, n times."""
    out = header(generation)
    xbus = " xbus_sel=0x10" if generation == "v2" else ""
    dtype = {"bf16": "bf16", "fp8": "fp8e4", "fp32": "fp32", "mx": "fp8e4"}[kind]
    # elements of one column, for the modes that take several of a row at once
    lanes = {"bf16": 1, "fp8": 2, "fp32": 1, "mx": 4}[kind]
    out += [
        f".tensor w sbuf {dtype}[128, {128 * lanes}]",
        f".tensor x sbuf {dtype}[128, {512 * lanes}]",
        ".tensor s sbuf uint8[128, 1024]",
        ".tensor acc psum fp32[128, 512] bank 0",
    ]
    tail = f"psum_accumulate_flags=0 {PE}"
    if kind == "mx":
        body = [
            f"  LDWEIGHTS_MX src=@w[1][512]mx(s, 0) in_dtype=FP8_EXP4 {PE}",
            f"  MATMUL_MX src=@x[1][2048]mx(s, 0) in_dtype=FP8_EXP4 dst=fp32@acc[1][512] {tail}",
        ]
    else:
        size = {"bf16": 2, "fp8": 1, "fp32": 4}[kind]
        width = 128 * lanes
        load = f"src={dtype}@w+{(width - 1) * size}[-1][{width}] {PE}{xbus}"
        mode = {"fp8": " perf_opt=DOUBLE_ROW", "fp32": " fp32_mode=LOW_HIGH"}.get(kind, "")
        body = [
            f"  LDWEIGHTS {load}{mode}",
            f"  MATMUL src={dtype}@x[1][{512 * lanes}] dst=@acc[1][512] {tail}{xbus}{mode}",
        ]
        if kind == "fp32":
            body *= 2
    return out + [".stream PE", f".repeat {n} i"] + body + [".end"]


def dma_row():
    """32 KiB into four partitions, which is one engine."""
    out = header("v3") + [
        ".tensor a hbm bf16[4, 4096]",
        ".tensor a_sb sbuf bf16[4, 4096]",
        ".semaphore loaded",
        ".queue q engine=SP semaphore=loaded kind=in",
        ".block q one",
        "  copy dst=a_sb src=a",
        ".end",
    ]
    return out + streams(SP=["  DMA_TRIGGER q one", "  NOP $S[loaded]>=1"])


def dve_row():
    """One TENSOR_TENSOR of 8192 elements."""
    out = header("v2") + [
        ".tensor a sbuf fp32[128, 8192]",
        ".tensor b sbuf fp32[128, 8192]",
        ".tensor c sbuf fp32[128, 8192]",
    ]
    dve = (
        "  TENSOR_TENSOR_ARITH_OP src0=fp32@a[1][8192] src1=fp32@b[1][8192] dst=fp32@c[1][8192] "
        "op=MULT num_active_channels=128"
    )
    return out + streams(DVE=[dve])


# ------------------------------------------------------------------------------------ matmuls


class Matmul:
    """C = A B with A given transposed. Keeps count of what has been issued, so that every wait is
    a plain count of a semaphore."""

    def __init__(self, m, k, n, dtype, by_read):
        # whether a product that does not end a sum counts in pe_read, when its sources are read
        self.by_read = by_read
        self.m, self.k, self.n = m // TILE, k // TILE, n // WIDE
        self.dtype, self.size = dtype, {"bf16": 2, "fp32": 4}[dtype]
        self.halves = 2 if dtype == "fp32" else 1
        self.rows = (m, k, n)
        self.head = header("v3") + [
            f".tensor a_t hbm {dtype}[{k}, {m}]",
            f".tensor b hbm {dtype}[{k}, {n}]",
            f".tensor c hbm {dtype}[{m}, {n}]",
            ".semaphore a_in, b_in, pe_read, pe_done, drained, stored",
        ]
        self.blocks, self.pe, self.dve, self.pool, self.sp, self.act = [], [], [], [], [], []
        self.count = dict(a_in=0, b_in=0, pe_read=0, pe_done=0, drained=0, stored=0)

    def tensor(self, text):
        self.head.append(".tensor " + text)

    def bump(self, name):
        self.count[name] += 1
        return self.count[name]

    # loads by static rings, triggered by SP
    def ring_load(self, name, copies, semaphore, wait):
        queue = {"a_in": "q_a", "b_in": "q_b", "stored": "q_c"}[semaphore]
        self.blocks.append(f".block {queue} {name}")
        self.blocks += ["  copy " + c for c in copies]
        self.blocks.append(".end")
        self.sp.append(f"  DMA_TRIGGER {queue} {name} {wait}")
        return self.bump(semaphore)

    # loads whose descriptors POOL makes
    def soft_load(self, source, row_bytes, step_bytes, target, semaphore, wait):
        number = {"a_in": "a_in", "b_in": "b_in"}[semaphore]
        self.pool.append(
            f"  DMAMEMCPY {wait} semaphore={number} sem_increment=1 src_start_addr={source} "
            f"src_step_elem=[{step_bytes // row_bytes},0] src_num_elem=[128,1] src_elem_size={row_bytes} "
            f"dst_start_addr=0x2000000000+{target} dst_step_elem=[{262144 // row_bytes},0] "
            f"dst_num_elem=[128,1] dst_elem_size={row_bytes} in_dtype={self.dtype} out_dtype={self.dtype}"
        )
        return self.bump(semaphore)

    def product(self, weights, moving, bank, first, last, waits, read=True):
        """One 128x128 by 128x512 product; `waits` are (semaphore, count)."""
        mode = " fp32_mode=LOW_HIGH" if self.halves == 2 else ""
        for name, value in waits:
            self.pe.append(f"  NOP $S[{name}]>={value}")
        for half in range(self.halves):
            flags = (1 if first and half == 0 else 0) | (2 if last and half == self.halves - 1 else 0)
            end = half == self.halves - 1
            sync = ""
            if end and read:
                sync = " $S[pe_read]++@read" if self.by_read and not last else " $S[pe_done]++@complete"
            self.pe.append(f"  LDWEIGHTS src={self.dtype}@{weights}+{127 * self.size}[-1][128] {PE}{mode}")
            self.pe.append(
                f"  MATMUL src={self.dtype}@{moving}[1][512] dst=@{bank}[1][512] {PE}{mode} "
                f"psum_accumulate_flags={flags}{sync}"
            )
        if read:
            self.bump("pe_read" if self.by_read and not last else "pe_done")

    def text(self, owner):
        queues = [
            f".queue q_a engine={owner['q_a']} semaphore=a_in kind=in",
            f".queue q_b engine={owner['q_b']} semaphore=b_in kind=in",
            f".queue q_c engine={owner['q_c']} semaphore=stored kind=out",
        ]
        return (
            self.head
            + queues
            + self.blocks
            + streams(SP=self.sp, PE=self.pe, ACT=self.act, DVE=self.dve, POOL=self.pool)
        )

    def drain(self, bank, target, wait):
        """DVE copies a sum out of PSUM."""
        if wait:
            self.dve.append(f"  NOP {wait}")
        op = "COPY" if self.dtype == "fp32" else "CAST"
        self.dve.append(
            f"  {op} src=fp32@{bank}[1][512] dst={self.dtype}@{target}[1][512] num_active_channels=128 "
            f"$S[pe_done]>={self.count['pe_done']} $S[drained]++@complete"
        )
        return self.bump("drained")

    def add(self, bank, target):
        """DVE adds a sum in PSUM to one in SBUF."""
        self.dve.append(
            f"  TENSOR_TENSOR_ARITH_OP src0=fp32@{target}[1][512] src1=fp32@{bank}[1][512] "
            f"dst=fp32@{target}[1][512] op=ADD num_active_channels=128 "
            f"$S[pe_done]>={self.count['pe_done']} $S[drained]++@complete"
        )
        return self.bump("drained")

    def store(self, m, n, source):
        copy = f"dst=c[{m * TILE}:{(m + 1) * TILE}, {n * WIDE}:{(n + 1) * WIDE}] src={source}"
        return self.ring_load(f"c{m}_{n}", [copy], "stored", f"$S[drained]>={self.count['drained']}")


def matmul_2048(kind):
    """The bf16 product of 2048^3, by static rings.

    naive      one buffer for each operand, loaded for every product
    hoisted    everything loaded ahead, B before A; one accumulator
    resident   the same with two accumulators
    streaming  columns of B and blocks of four row tiles of A loaded in the loop, into two buffers
               each; two accumulators
    """
    g = Matmul(2048, 2048, 2048, "bf16", True)
    g.tensor("acc psum fp32[128, 2, 512] bank 0")
    g.tensor("c_sb sbuf bf16[128, 2, 512]")
    banks = 1 if kind in ("naive", "hoisted") else 2

    def a_src(k, m):
        return f"a_t[{k * TILE}:{(k + 1) * TILE}, {m * TILE}:{(m + 1) * TILE}]"

    def b_src(k, n):
        return f"b[{k * TILE}:{(k + 1) * TILE}, {n * WIDE}:{(n + 1) * WIDE}]"

    a_at = b_at = None
    reads = {}
    if kind == "naive":
        g.tensor("a_sb sbuf bf16[128, 128]")
        g.tensor("b_sb sbuf bf16[128, 512]")
    elif kind in ("hoisted", "resident"):
        g.tensor("a_sb sbuf bf16[128, 16, 16, 128]")
        g.tensor("b_sb sbuf bf16[128, 16, 4, 512]")
        for k in range(g.k):
            # a whole row of tiles at once
            g.ring_load(f"b{k}", [f"dst=b_sb[:, {k}, :, :] src=b[{k * TILE}:{(k + 1) * TILE}, :]"], "b_in", "")
        for m in range(g.m):
            g.ring_load(f"a{m}", [f"dst=a_sb[:, {k}, {m}, :] src={a_src(k, m)}" for k in range(g.k)], "a_in", "")
    else:
        # two blocks of four row tiles of A, two column tiles of B
        g.tensor("a_sb sbuf bf16[128, 8, 16, 128]")
        g.tensor("b_sb sbuf bf16[128, 2, 16, 512]")

    if kind == "streaming":
        order = [(m, n) for n in range(g.n) for m in range(g.m)]
    else:
        order = [(m, n) for m in range(g.m) for n in range(g.n)]
    # loads of a tile wait until the sum that used its buffer last is complete
    last_sum = {}
    for number, (m, n) in enumerate(order):
        bank = number % banks
        waits = []
        if kind == "streaming":
            if m == 0:
                for ahead in [0, 1] if n == 0 else [n + 1]:
                    if ahead == g.n:
                        continue
                    # the second column waits until the first tile has what it needs
                    wait = f"$S[pe_done]>={last_sum.get(('b', ahead % 2), ahead)}"
                    for k in range(g.k):
                        copy = f"dst=b_sb[:, {ahead % 2}, {k}, :] src={b_src(k, ahead)}"
                        reads[("b", ahead, k)] = g.ring_load(f"b{ahead}_{k}", [copy], "b_in", wait)
            wait = f"$S[pe_done]>={last_sum.get(('a', number % 8), 0)}"
            copies = [f"dst=a_sb[:, {number % 8}, {k}, :] src={a_src(k, m)}" for k in range(g.k)]
            a_at = g.ring_load(f"a{number}", copies, "a_in", wait)
            waits = [("a_in", a_at)]
        waits.append(("drained", max(0, number - banks + 1)))
        for k in range(g.k):
            more = []
            if kind == "naive":
                # the buffers are free when the product before has read them
                wait_read = g.count["pe_read"]
                wait_sum = g.count["pe_done"]
                wait = f"$S[pe_done]>={wait_sum}" if k == 0 else f"$S[pe_read]>={wait_read}"
                a_at = g.ring_load(f"a{number}_{k}", [f"dst=a_sb src={a_src(k, m)}"], "a_in", wait)
                b_at = g.ring_load(f"b{number}_{k}", [f"dst=b_sb src={b_src(k, n)}"], "b_in", "")
                more = [("a_in", a_at), ("b_in", b_at)]
                weights, moving = "a_sb", "b_sb"
            elif kind in ("hoisted", "resident"):
                weights = f"a_sb+{(k * 16 + m) * 256}"
                moving = f"b_sb+{(k * 4 + n) * 1024}"
                if n == 0 and k == 0:
                    more.append(("a_in", m + 1))
                if number == 0:
                    more.append(("b_in", k + 1))
            else:
                weights = f"a_sb+{((number % 8) * 16 + k) * 256}"
                moving = f"b_sb+{((n % 2) * 16 + k) * 1024}"
                if m == 0:
                    more = [("b_in", reads[("b", n, k)])]
            g.product(
                weights, moving, f"acc+{bank * BANK}", k == 0, k == g.k - 1,
                (waits if k == 0 else []) + more, read=kind == "naive" or k == g.k - 1,
            )
        sums = g.count["pe_done"]
        last_sum[("a", number % 8)] = sums
        last_sum[("b", n % 2)] = sums
        g.drain(f"acc+{bank * BANK}", f"c_sb+{(number % 2) * 1024}", f"$S[stored]>={max(0, number - 1)}")
        g.store(m, n, f"c_sb[:, {number % 2}, :]")
    # triggers of different operands must not wait behind each other
    owner = {"q_a": "SP", "q_b": "SP", "q_c": "SP"}
    if kind != "naive":
        owner["q_c"] = "ACT"
        g.act = [line for line in g.sp if " q_c " in line]
        g.sp = [line for line in g.sp if " q_c " not in line]
    if kind == "streaming":
        owner["q_b"] = "POOL"
        g.pool = [line for line in g.sp if " q_b " in line]
        g.sp = [line for line in g.sp if " q_b " not in line]
    (g.act or g.sp).append(f"  NOP $S[stored]>={g.count['stored']}")
    return g.text(owner)


def matmul_fp32(kind):
    """The fp32 product of 4096x8192 by 8192x8192, by DMA instructions of POOL.

    naive         both operands loaded for every product, eight buffers each
    hoisted       A of a row of tiles and B of a tile loaded before the K loop
    blocked_2x2   blocks of 2 by 2 tiles
    blocked_16x2x8  blocks of 16 by 2 tiles and 8 in K, sums of K blocks added by DVE
    """
    g = Matmul(4096, 8192, 8192, "fp32", False)
    a_step, b_step = 4096 * 4, 8192 * 4
    banks = 8 if kind == "blocked_16x2x8" else 4
    g.tensor(f"acc psum fp32[128, {banks}, 512] bank 0")
    uses = {}

    def load(slots, slot, key, which):
        """Loads tile `key` into `slot` when the product that used the slot last has read it."""
        base = "a_sb" if which == "a" else "b_sb"
        row = 512 if which == "a" else 2048
        k, i = key
        source = f"a_t+{k * TILE * a_step + i * 512}" if which == "a" else f"b+{k * TILE * b_step + i * 2048}"
        step = a_step if which == "a" else b_step
        used = uses.get((which, slot), 0)
        at = g.soft_load(source, row, step, f"{base}+{slot * row}", which + "_in", f"$S[pe_done]>={used}")
        return at, f"{base}+{slot * row}"

    def product(weights, moving, bank, first, last, waits, slots):
        g.product(weights, moving, bank, first, last, waits)
        for slot in slots:
            uses[slot] = g.count["pe_done"]

    sums = 0

    def finish(m, n, bank, out_slots, accumulate=None):
        nonlocal sums
        sums += 1
        slot = sums % out_slots
        g.drain(f"acc+{bank * BANK}", f"c_sb+{slot * BANK}", f"$S[stored]>={max(0, sums - out_slots)}")
        g.store(m, n, f"c_sb[:, {slot}, :]")

    if kind == "naive":
        g.tensor("a_sb sbuf fp32[128, 8, 128]")
        g.tensor("b_sb sbuf fp32[128, 8, 512]")
        g.tensor("c_sb sbuf fp32[128, 2, 512]")
        i = 0
        for m in range(g.m):
            for n in range(g.n):
                bank = sums % banks
                for k in range(g.k):
                    s = i % 8
                    a_at, w = load(8, s, (k, m), "a")
                    b_at, x = load(8, s, (k, n), "b")
                    waits = [("a_in", a_at), ("b_in", b_at)]
                    if k == 0:
                        waits.append(("drained", max(0, sums - banks + 1)))
                    product(w, x, f"acc+{bank * BANK}", k == 0, k == g.k - 1, waits, [("a", s), ("b", s)])
                    i += 1
                finish(m, n, bank, 2)
    elif kind == "hoisted":
        g.tensor("a_sb sbuf fp32[128, 80, 128]")
        g.tensor("b_sb sbuf fp32[128, 72, 512]")
        g.tensor("c_sb sbuf fp32[128, 2, 512]")
        ia = ib = 0
        for m in range(g.m):
            a_tiles = []
            for k in range(g.k):
                a_tiles.append((k, ia % 80))
                ia += 1
            for n in range(g.n):
                bank = sums % banks
                for k in range(g.k):
                    waits = []
                    if n == 0:
                        a_at, _ = load(80, a_tiles[k][1], (k, m), "a")
                        waits.append(("a_in", a_at))
                    s = ib % 72
                    ib += 1
                    b_at, x = load(72, s, (k, n), "b")
                    waits.append(("b_in", b_at))
                    if k == 0:
                        waits.append(("drained", max(0, sums - banks + 1)))
                    w = f"a_sb+{a_tiles[k][1] * 512}"
                    slots = [("a", a_tiles[k][1]), ("b", s)]
                    product(w, x, f"acc+{bank * BANK}", k == 0, k == g.k - 1, waits, slots)
                finish(m, n, bank, 2)
    elif kind == "blocked_2x2":
        # A of two row tiles and a ring of B tiles, two column tiles wide
        g.tensor("a_sb sbuf fp32[128, 160, 128]")
        g.tensor("b_sb sbuf fp32[128, 48, 512]")
        g.tensor("c_sb sbuf fp32[128, 8, 512]")
        ia = ib = 0
        for mb in range(g.m // 2):
            a_slot = {}
            for k in range(g.k):
                for m in range(2):
                    a_slot[(k, m)] = ia % 160
                    ia += 1
            for nb in range(g.n // 2):
                for k in range(g.k):
                    waits = []
                    if k == 0:
                        waits.append(("drained", max(0, sums)))
                    tiles = []
                    for n in range(2):
                        s = ib % 48
                        ib += 1
                        at, x = load(48, s, (k, nb * 2 + n), "b")
                        waits.append(("b_in", at))
                        tiles.append((s, x))
                    for m in range(2):
                        if nb == 0:
                            at, _ = load(160, a_slot[(k, m)], (k, mb * 2 + m), "a")
                            waits.append(("a_in", at))
                    for m in range(2):
                        for n in range(2):
                            slot = a_slot[(k, m)]
                            product(
                                f"a_sb+{slot * 512}", tiles[n][1], f"acc+{(m * 2 + n) * BANK}", k == 0,
                                k == g.k - 1, waits, [("a", slot), ("b", tiles[n][0])],
                            )
                            waits = []
                for m in range(2):
                    for n in range(2):
                        finish(mb * 2 + m, nb * 2 + n, m * 2 + n, 8)
                # pe_done in the order of the drains: the last four products
    else:
        # a ring of A tiles, a ring of B tiles, and a sum in SBUF for each tile of the block
        g.tensor("a_sb sbuf fp32[128, 160, 128]")
        g.tensor("b_sb sbuf fp32[128, 20, 512]")
        g.tensor("c_sb sbuf fp32[128, 32, 512]")
        ia = ib = block = 0
        c_stored = {}
        for nb in range(g.n // 2):
            for mb in range(g.m // 16):
                for kb in range(g.k // 8):
                    b_tile, b_wait = {}, {}
                    for k in range(8):
                        for n in range(2):
                            s = ib % 20
                            ib += 1
                            b_wait[(k, n)], b_tile[(k, n)] = load(20, s, (kb * 8 + k, nb * 2 + n), "b")
                            b_tile[(k, n)] = (s, b_tile[(k, n)])
                    for m in range(16):
                        a_tile, a_wait = {}, {}
                        for k in range(8):
                            s = ia % 160
                            ia += 1
                            a_wait[k], _ = load(160, s, (kb * 8 + k, mb * 16 + m), "a")
                            a_tile[k] = s
                        for n in range(2):
                            bank = sums % banks
                            for k in range(8):
                                waits = []
                                if k == 0:
                                    waits.append(("drained", max(0, sums - banks + 1)))
                                if n == 0:
                                    waits.append(("a_in", a_wait[k]))
                                if m == 0:
                                    waits.append(("b_in", b_wait[(k, n)]))
                                slots = [("a", a_tile[k]), ("b", b_tile[(k, n)][0])]
                                product(
                                    f"a_sb+{a_tile[k] * 512}", b_tile[(k, n)][1], f"acc+{bank * BANK}",
                                    k == 0, k == 7, waits, slots,
                                )
                            sums += 1
                            slot = m * 2 + n
                            target = f"c_sb+{slot * BANK}"
                            if kb == 0:
                                # the slot is free when its tile of the block before is stored
                                g.drain(f"acc+{bank * BANK}", target, f"$S[stored]>={c_stored.get(slot, 0)}")
                            else:
                                g.add(f"acc+{bank * BANK}", target)
                            if kb == g.k // 8 - 1:
                                c_stored[slot] = g.store(mb * 16 + m, nb * 2 + n, f"c_sb[:, {slot}, :]")
    stores = [l for l in g.sp if " q_c " in l]
    g.sp = stores + [f"  NOP $S[stored]>={g.count['stored']}"]
    return g.text(dict.fromkeys(["q_a", "q_b", "q_c"], "SP"))


PROGRAMS = {
    "mamba_v1_small": lambda: mamba(256, 512, 1),
    "mamba_v1_4k": lambda: mamba(4096, 512, 1),
    "mamba_v2_4k": lambda: mamba(4096, 512, 2),
    "mamba_v3_8k": lambda: mamba(4096, 8192, 3),
    "act_dependent_ii_short": lambda: act_chain(10),
    "act_dependent_ii_long": lambda: act_chain(110),
    "dma_32k_one_engine_v3": dma_row,
    "dve_tt_fp32_8192_v2": dve_row,
}
for _name, _generation, _kind in [
    ("matmul_peak_bf16_v2", "v2", "bf16"),
    ("matmul_peak_bf16_v3", "v3", "bf16"),
    ("matmul_peak_fp8_v3", "v3", "fp8"),
    ("matmul_peak_fp32_v2", "v2", "fp32"),
    ("matmul_peak_mx_v4", "v4", "mx"),
]:
    for _length, _n in [("short", 100), ("long", 1100)]:
        PROGRAMS[f"{_name}_{_length}"] = lambda g=_generation, k=_kind, n=_n: peak(g, k, n)
for _kind in ["resident", "streaming", "naive", "hoisted"]:
    PROGRAMS[f"matmul_2048_{_kind}"] = lambda k=_kind: matmul_2048(k)
for _kind in ["naive", "hoisted", "blocked_2x2", "blocked_16x2x8"]:
    PROGRAMS[f"mm_fp32_{_kind}_v3"] = lambda k=_kind: matmul_fp32(k)


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or PROGRAMS:
        (folder / f"{name}.tpb").write_text("\n".join(PROGRAMS[name]()) + "\n")


if __name__ == "__main__":
    main()
