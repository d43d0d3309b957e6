#!/usr/bin/env python3
"""Writes distributions.txt and traces.txt: what each sampler leaves of random logits, and tokens drawn by whole chains.

An implementation of its own, straight from the definitions, in float64 with full sorts: python3 make_goldens.py (NumPy).
Lines: distributions  name <tab> id:probability ...      (all that is left, in id order)
       traces         name <tab> token:log-probability ...   (12 steps; the history is the prompt, then the tokens drawn)
The cases' parameters are repeated in the C++ tests under the same names. Logits need no file: both sides compute them.
"""
import math
import pathlib

import numpy as np

VOCABULARY = 97
PROMPT = [5, 6, 7, 8, 90, 5, 6, 7, 9, 90, 8, 5, 6, 7]
SEED = 0x1234567890ABCDEF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(seed, position, purpose, sequence=0, attempt=0):
    return (philox((position, attempt, sequence, purpose), (seed & 0xFFFFFFFF, seed >> 32))[0] >> 8) / 2.0**24


def logits_row(row, size=VOCABULARY):
    """Multiples of 2^-20 within -8 .. 8, exact in float32."""
    return np.array([(philox((i, row, 0, 7), (1, 2))[0] >> 8) / 2.0**20 - 8.0 for i in range(size)])


class Set:
    """Tokens in play, ids ascending."""

    def __init__(self, x):
        self.ids, self.x = np.arange(len(x)), np.array(x, dtype=np.float64)

    def p(self):
        e = np.exp(self.x - self.x.max())
        return e / e.sum()

    def keep(self, flags):
        self.ids, self.x = self.ids[flags], self.x[flags]

    def ranked(self):
        return np.lexsort((self.ids, -self.x))

    def keep_first(self, order, n):
        flags = np.zeros(len(self.ids), bool)
        flags[order[:n]] = True
        self.keep(flags)

    def entropy(self):
        p = self.p()
        return -(p * np.log(p)).sum()


class Step:
    def __init__(self, history, new, position, place, seed):
        self.history, self.new, self.position, self.place, self.seed = history, new, position, place, seed


def window(history, n):
    return history if n < 0 else history[max(0, len(history) - n):]


def greedy():
    return lambda s, _: s.keep_first(s.ranked(), 1)


def temperature(t):
    def run(s, _):
        s.x = s.x / t
    return run if t > 0 else greedy()


def dynamic_temperature(value, spread, exponent):
    def run(s, _):
        low, high = max(0.0, value - spread), value + spread
        s.x = s.x / (low + (high - low) * (s.entropy() / math.log(len(s.ids))) ** exponent)
    return run


def top_k(k):
    return lambda s, _: s.keep_first(s.ranked(), k)


def first_with_mass(p, order, mass):
    cumulative = np.cumsum(p[order])
    return int(np.argmax(cumulative >= mass)) + 1 if (cumulative >= mass).any() else len(order)


def top_p(mass):
    return lambda s, _: s.keep_first(s.ranked(), first_with_mass(s.p(), s.ranked(), mass))


def min_p(share):
    return lambda s, _: s.keep(s.p() >= share * s.p().max())


def typical_p(mass):
    def run(s, _):
        p = s.p()
        order = np.argsort(np.abs(-np.log(p) - s.entropy()), kind="stable")
        s.keep_first(order, first_with_mass(p, order, mass))
    return run


def top_n_sigma(n):
    return lambda s, _: s.keep(s.x >= s.x.max() - n * s.x.std())


def xtc(probability, threshold):
    def run(s, step):
        if uniform(step.seed, step.position, 1 + step.place) >= probability:
            return
        p = s.p()
        order = s.ranked()
        n = int((p >= threshold).sum())
        if n >= 2:
            s.keep_first(order[n - 1:], len(order))
    return run


def repetition(value, last):
    def run(s, step):
        for i, token in enumerate(s.ids):
            if token in window(step.history, last):
                s.x[i] = s.x[i] / value if s.x[i] > 0 else s.x[i] * value
    return run


def counted(presence, frequency, last, prompt):
    def run(s, step):
        seen = window(step.history, last)
        if not prompt:
            seen = seen[max(0, len(seen) - step.new):]
        for i, token in enumerate(s.ids):
            n = seen.count(token)
            s.x[i] -= frequency * n + presence * (n > 0)
    return run


def no_repeat_ngram(size):
    def run(s, step):
        h = step.history
        banned = {h[i + size - 1] for i in range(len(h) - size + 1) if h[i:i + size - 1] == h[len(h) - size + 1:]}
        s.keep(~np.isin(s.ids, list(banned)))
    return run


def token_text(token):
    """Token 90 is a line break, 91 ends in one, 92 and 93 are the halves of the breaker "<>"."""
    return {90: "\n", 91: "w\n", 92: "v<", 93: ">u"}.get(token, chr(97 + token % 26))


def dry(multiplier, base, allowed, last, breakers):
    def run(s, step):
        h = window(step.history, last)
        text, ends = "", []
        for token in h:
            text += token_text(token)
            ends.append(len(text))
        after = 0  # byte after the last breaker (the one that begins last)
        for begin in range(len(text) - 1, -1, -1):
            stops = [begin + len(b) for b in breakers if text.startswith(b, begin)]
            if stops:
                after = max(stops)
                break
        limit = sum(1 for i in range(len(h)) if (ends[i - 1] if i else 0) >= after)
        for i, token in enumerate(s.ids):
            longest = -1
            for at in range(1, len(h)):  # h[at] == token, preceded by a repeat of the end of h
                if h[at] != token:
                    continue
                n = 0
                while n < min(at, limit) and h[at - 1 - n] == h[len(h) - 1 - n]:
                    n += 1
                longest = max(longest, n)
            if longest >= allowed and not any(b in token_text(token) for b in breakers):
                s.x[i] -= multiplier * base ** (longest - allowed)
    return run


class Mirostat:
    def __init__(self, tau, eta, m=None):
        self.tau, self.eta, self.m, self.mu = tau, eta, m, 2 * tau

    def __call__(self, s, _):
        p, order = s.p(), s.ranked()
        if self.m is None:
            s.keep_first(order, max(1, int((-np.log2(p) <= self.mu).sum())))
            return
        best = p[order][:self.m]
        t = [math.log((i + 2) / (i + 1)) for i in range(len(best) - 1)]
        b = [math.log(best[i] / best[i + 1]) for i in range(len(best) - 1)]
        z = sum(u * v for u, v in zip(t, b)) / sum(u * u for u in t)
        e = z - 1
        k = ((e * 2**self.mu) / (1 - VOCABULARY**-e)) ** (1 / z)
        s.keep_first(order, max(1, int(k)))

    def taken(self, token, logprob):
        self.mu -= self.eta * (-logprob / math.log(2) - self.tau)


class AdaptiveP:
    def __init__(self, target, decay):
        self.target, self.decay = target, decay
        self.sum, self.weight = target / (1 - decay), 1 / (1 - decay)

    def __call__(self, s, _):
        self.ids, self.p = s.ids, s.p()
        d = np.abs(self.p - min(1.0, max(0.0, 2 * self.target - self.sum / self.weight))) / 0.3
        s.x = 5.0 - 10.0 * d * d / (1.0 + d)

    def taken(self, token, _):
        self.sum = self.p[list(self.ids).index(token)] + self.decay * self.sum
        self.weight = 1 + self.decay * self.weight


def f32(x):
    return float(np.float32(x))


NEW = 5  # in the single cases the last 5 tokens of PROMPT count as new

HISTORIES = {"dry spanning": [4, 5, 6, 7, 92, 93, 5, 6, 7, 50, 92, 93, 5, 6]}  # others: PROMPT

SINGLE = {
    "greedy": lambda: [greedy()],
    "temperature 0.7": lambda: [temperature(f32(0.7))],
    "temperature 3": lambda: [temperature(3)],
    "temperature 0": lambda: [temperature(0)],
    "dynamic temperature": lambda: [dynamic_temperature(f32(0.8), f32(0.5), f32(1.3))],
    "dynamic temperature to zero": lambda: [dynamic_temperature(f32(0.4), f32(0.9), 2)],
    "top-k 1": lambda: [top_k(1)],
    "top-k 10": lambda: [top_k(10)],
    "top-k 96": lambda: [top_k(96)],
    "top-p 0.3": lambda: [top_p(f32(0.3))],
    "top-p 0.95": lambda: [top_p(f32(0.95))],
    "top-p 0": lambda: [top_p(0)],
    "min-p 0.1": lambda: [min_p(f32(0.1))],
    "min-p 1": lambda: [min_p(1)],
    "typical-p 0.3": lambda: [typical_p(f32(0.3))],
    "typical-p 0.95": lambda: [typical_p(f32(0.95))],
    "top-n-sigma 1": lambda: [top_n_sigma(1)],
    "top-n-sigma 0.4": lambda: [top_n_sigma(f32(0.4))],
    "xtc": lambda: [xtc(1, f32(0.02))],
    "xtc never": lambda: [xtc(0, f32(0.02))],
    "repetition": lambda: [repetition(f32(1.3), -1)],
    "repetition window": lambda: [repetition(f32(1.3), 3)],
    "presence": lambda: [counted(f32(0.9), 0, -1, False)],
    "presence prompt": lambda: [counted(f32(0.9), 0, -1, True)],
    "frequency": lambda: [counted(0, f32(0.6), -1, False)],
    "frequency prompt": lambda: [counted(0, f32(0.6), 9, True)],
    "n-gram 3": lambda: [no_repeat_ngram(3)],
    "n-gram 1": lambda: [no_repeat_ngram(1)],
    "dry": lambda: [dry(f32(0.8), f32(1.75), 2, -1, [])],
    "dry breakers": lambda: [dry(f32(0.8), f32(1.75), 2, -1, ["\n"])],
    "dry spanning": lambda: [dry(f32(0.8), f32(1.75), 1, -1, ["<>", "\n"])],
    "dry window": lambda: [dry(f32(0.8), f32(1.75), 1, 6, [])],
    "mirostat": lambda: [Mirostat(f32(3.5), f32(0.1), 50)],
    "mirostat 2": lambda: [Mirostat(2, f32(0.1))],
    "adaptive-p": lambda: [AdaptiveP(f32(0.3), f32(0.9))],
    "chain": lambda: [repetition(f32(1.1), 64), temperature(f32(0.8)), top_k(20), top_p(f32(0.9)), min_p(f32(0.02))],
    "chain reversed": lambda: [min_p(f32(0.02)), top_p(f32(0.9)), top_k(20), temperature(f32(0.8)),
                               repetition(f32(1.1), 64)],
    "temperature then edits": lambda: [temperature(f32(0.5)), counted(f32(0.9), 0, -1, True), typical_p(f32(0.9)),
                                       no_repeat_ngram(1)],
}

TRACES = {
    "temperature": lambda: [temperature(f32(0.9))],
    "usual": lambda: [temperature(f32(0.8)), top_k(40), top_p(f32(0.95))],
    "penalties": lambda: [repetition(f32(1.2), 64), counted(f32(0.5), 0, -1, False), counted(0, f32(0.3), -1, False),
                          temperature(1)],
    "dry": lambda: [dry(f32(0.8), f32(1.75), 1, -1, ["\n", "<>"]), temperature(f32(0.4))],
    "xtc": lambda: [temperature(1), xtc(f32(0.5), f32(0.05))],
    "mirostat": lambda: [Mirostat(3, f32(0.3), 50)],
    "mirostat 2": lambda: [Mirostat(3, f32(0.3))],
    "adaptive-p": lambda: [min_p(f32(0.05)), AdaptiveP(f32(0.2), f32(0.8))],
}


def apply(links, row, history, new):
    s = Set(logits_row(row))
    for place, link in enumerate(links):
        link(s, Step(history, new, len(history), place, SEED))
    return s


def main():
    here = pathlib.Path(__file__).parent
    with open(here / "distributions.txt", "w") as out:
        for row, (name, make) in enumerate(SINGLE.items()):
            s = apply(make(), row, HISTORIES.get(name, PROMPT), NEW)
            out.write(name + "\t" + " ".join(f"{i}:{p:.9g}" for i, p in zip(s.ids, s.p())) + "\n")
    with open(here / "traces.txt", "w") as out:
        for number, (name, make) in enumerate(TRACES.items()):
            links, history, steps = make(), list(PROMPT), []
            for _ in range(12):
                s = apply(links, 1000 * (number + 1) + len(history), history, len(history) - len(PROMPT))
                p = s.p()
                at = int(np.argmax(np.cumsum(p) > uniform(SEED, len(history), 0)))
                token, logprob = int(s.ids[at]), math.log(p[at])
                steps.append(f"{token}:{logprob:.9g}")
                history.append(token)
                for link in links:
                    if hasattr(link, "taken"):
                        link.taken(token, logprob)
            out.write(name + "\t" + " ".join(steps) + "\n")


if __name__ == "__main__":
    main()
