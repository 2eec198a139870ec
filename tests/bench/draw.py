"""Pictures of benchmark results as SVG: grouped bars, and lines over logarithmic axes. No more than the benchmarks need; numbers in, one file out."""
import html
import math

COLOURS = ["#9aa5b1", "#d97706", "#2563eb", "#059669", "#7c3aed", "#db2777", "#0891b2", "#65a30d"]
FONT = 'font-family="sans-serif" font-size="12"'


def ticks(low, high):
    """1, 2, 5 times powers of ten in [low, high], or powers of ten alone where these are many."""
    out = [m * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)]
    out = [t for t in out if low * 0.999 <= t <= high * 1.001]
    return out if len(out) <= 9 else [t for t in out if abs(math.log10(t) - round(math.log10(t))) < 1e-9]


def number(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:g}"


class Page:
    """A plot's area with a logarithmic axis upwards."""

    def __init__(self, width, height, title, note, low, high, unit, foot=76):
        self.left, self.top, self.right, self.bottom = 70, 64, width - 20, height - foot
        self.low, self.high = low, high
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {FONT}>', f"<title>{html.escape(title)}</title>", '<rect width="100%" height="100%" fill="#fff"/>']
        self.text(20, 22, title, 'font-size="15" font-weight="bold"')
        self.text(20, 40, note, 'fill="#52606d"')
        for t in ticks(low, high):
            self.out.append(f'<line x1="{self.left}" x2="{self.right}" y1="{self.y(t):.1f}" y2="{self.y(t):.1f}" stroke="#e4e7eb"/>')
            self.text(self.left - 6, self.y(t) + 4, number(t) + unit, 'text-anchor="end" fill="#52606d"')

    def y(self, value):
        return self.bottom - (self.bottom - self.top) * math.log(value / self.low) / math.log(self.high / self.low)

    def text(self, x, y, text, how=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" {how}>{html.escape(text)}</text>')

    def legend(self, keys):
        """keys: (name, colour, dashes or "")"""
        x, y = self.left, self.bottom + 36
        for name, colour, dashes in keys:
            wide = 22 + 7.2 * len(name) + 24
            if x + wide > self.right + 30 and x > self.left:
                x, y = self.left, y + 18
            self.out.append(f'<line x1="{x:.1f}" x2="{x + 16:.1f}" y1="{y + 6}" y2="{y + 6}" stroke="{colour}" stroke-width="{3 if dashes else 10}" stroke-dasharray="{dashes}"/>')
            self.text(x + 22, y + 10, name)
            x += wide

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(self.out + ["</svg>"]) + "\n")


def bars(path, title, note, groups, series, marks=()):
    """groups: names; series: (name, [a value for each group, or None]); marks: (value, text) as dashed lines. Values are factors, logarithmic from 1 or below."""
    values = [v for _, row in series for v in row if v] + [m for m, _ in marks]
    width = max(640, 90 + len(groups) * max(len(series) * 17 + 16, 7 * max(map(len, groups)) + 14))
    page = Page(width, 400, title, note, min(1.0, *values) * 0.95, max(values) * 1.15, "x")
    step = (page.right - page.left) / len(groups)
    w = min(22, (step - 10) / len(series))
    base = page.y(max(page.low, min(1.0, *values) * 0.95))
    for g, name in enumerate(groups):
        x0 = page.left + g * step + (step - w * len(series)) / 2
        for i, (_, row) in enumerate(series):
            if row[g]:
                top = page.y(row[g])
                page.out.append(f'<rect x="{x0 + i * w:.1f}" y="{top:.1f}" width="{w - 1:.1f}" height="{base - top:.1f}" fill="{COLOURS[i % len(COLOURS)]}"><title>{html.escape(name)}, {html.escape(series[i][0])}: {row[g]:.2f}</title></rect>')
                page.text(x0 + i * w + w / 2, top - 3, f"{row[g]:.1f}" if row[g] < 99.5 else f"{row[g]:.0f}", 'text-anchor="middle" font-size="9"')
        page.text(page.left + (g + 0.5) * step, page.bottom + 16, name, 'text-anchor="middle"')
    for value, text in marks:
        page.out.append(f'<line x1="{page.left}" x2="{page.right}" y1="{page.y(value):.1f}" y2="{page.y(value):.1f}" stroke="#b91c1c" stroke-dasharray="5 4"/>')
        page.out.append(f'<rect x="{page.left + 2}" y="{page.y(value) - 15:.1f}" width="{6.6 * len(text):.0f}" height="13" fill="#fff" fill-opacity="0.85"/>')
        page.text(page.left + 4, page.y(value) - 4, text, 'fill="#b91c1c"')
    page.legend([(name, COLOURS[i % len(COLOURS)], "") for i, (name, _) in enumerate(series)])
    page.save(path)


def lines(path, title, note, x_name, series, unit="", slopes=()):
    """series: (name, [(x, y)]), names "what" or "what, of which": a colour for each what, dashes for each of which; both axes logarithmic; slopes: (x, y, text), a dashed line of slope 1 through that point."""
    xs = [x for _, row in series for x, _ in row]
    ys = [y for _, row in series for _, y in row]
    page = Page(720, 500, title, note, min(ys) * 0.8, max(ys) * 1.3, unit, 116)
    x_low, x_high = min(xs) * 0.9, max(xs) * 1.1

    def px(x):
        return page.left + (page.right - page.left) * math.log(x / x_low) / math.log(x_high / x_low)

    for x in sorted(set(xs)):
        page.out.append(f'<line x1="{px(x):.1f}" x2="{px(x):.1f}" y1="{page.bottom}" y2="{page.bottom + 4}" stroke="#52606d"/>')
    last = -99.0
    for x in sorted(set(xs)):
        if px(x) - last > 46:
            page.text(px(x), page.bottom + 17, number(x), 'text-anchor="middle" fill="#52606d"')
            last = px(x)
    page.text(page.right, page.bottom + 30, x_name, 'text-anchor="end" fill="#52606d"')
    for x, y, text in slopes:
        end = min(x_high, x * page.high / y)
        page.out.append(f'<line x1="{px(x):.1f}" y1="{page.y(y):.1f}" x2="{px(end):.1f}" y2="{page.y(y * end / x):.1f}" stroke="#9aa5b1" stroke-dasharray="5 4"/>')
        page.text(px(end) - 4, page.y(y * end / x) + 14, text, 'text-anchor="end" fill="#52606d"')
    whats = list(dict.fromkeys(name.split(", ")[0] for name, _ in series))
    whichs = list(dict.fromkeys(name.split(", ")[-1] for name, _ in series if ", " in name))
    keys = []
    for name, row in series:
        colour = COLOURS[whats.index(name.split(", ")[0]) % len(COLOURS)]
        dashes = ["", "7 3", "2 3", "10 3 2 3"][whichs.index(name.split(", ")[-1]) % 4] if ", " in name else ""
        keys.append((name, colour, dashes))
        points = " ".join(f"{px(x):.1f},{page.y(y):.1f}" for x, y in row)
        page.out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        for x, y in row:
            page.out.append(f'<circle cx="{px(x):.1f}" cy="{page.y(y):.1f}" r="3" fill="{colour}"><title>{html.escape(name)}, {number(x)}: {y:g}{unit}</title></circle>')
    page.legend(keys)
    page.save(path)
