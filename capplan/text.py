"""Words, amounts, units and counts as people read them: one form for one number, wherever it stands.

Headlines, notes, cards, charts, tables and workbooks take their text from here, so that a number met twice looks the same twice.
Currencies and plurals follow Unicode's data (CLDR, by Babel).
"""

import datetime as dt
import math
import re
from typing import Any

import pandas as pd
from babel import Locale
from babel.numbers import get_currency_precision, get_currency_symbol, is_currency

from capplan.contract_kinds import KINDS
from capplan.dollars import said
from capplan.units import ROUNDING

#: Language and region of all texts.
LOCALE = "en_US"
#: Terms of contracts, and the other sources of capacity and cost, as every table, chart and sentence names them.
TERM_NAMES = {name: kind.shown for name, kind in KINDS.items()} | {
    "existing": "Existing contracts",
    "committed": "Committed",
    "api": "API",
    "shortfall": "Shortfall (imputed)",
}
#: Endings of column names, longest first, with the words for their unit.
_UNITS = {
    "_usd_per_accelerator_hour": "USD per accelerator-hour",
    "_usd_per_thousand_requests": "USD per 1,000 requests",
    "_usd_per_million_tokens": "USD per million tokens",
    "_usd_per_month": "USD/month",
    "_usd_per_hour": "USD/h",
    "_usd_per_unit": "USD per unit",
    "_usd_per_year": "USD/year",
    "_accelerator_hours": "accelerator-hours",
    "_share_per_year": "share per year",
    "_share": "%",
    "_seconds": "s",
    "_days": "days",
    "_gib": "GiB",
    "_kwh": "kWh",
    "_kw": "kW",
    "_usd": "USD",
}
_WORDS = {
    **TERM_NAMES,
    "usd": "Amount",
    "p_and_l": "P&L",
    "sku": "SKU",
    "sku_id": "SKU",
    "cvar": "CVaR",
    "pue": "PUE",
    "evpi": "EVPI",
    "vss": "VSS",
    "fifo": "FIFO",
    "smape": "SMAPE",
    "mase": "MASE",
    "owa": "OWA",
    "easy_backfill": "EASY backfill",
    "do_nothing": "No commitments at all",
    "look_back_30_days": "Provider console's rule",
}
#: Parts of names that are abbreviations.
_ABBREVIATIONS = {part: name for part, name in _WORDS.items() if "_" not in part and part not in TERM_NAMES} | {"api": "API", "usd": "USD"}
#: Letters for thousands, millions and so on.
_LETTERS = ((1e3, "k"), (1e6, "M"), (1e9, "B"), (1e12, "T"))


def words(text: str) -> str:
    """Turn a name with underscores into words.

    Examples:
        >>> words("on_demand"), words("reserved_3y"), words("p_and_l"), words("later_3y")
        ('On demand', 'Reserved, 3 years', 'P&L', 'Later, 3 years')
    """
    if text in _WORDS:
        return _WORDS[text]
    parts = [_ABBREVIATIONS.get(part, part) for part in text.split("_")]
    term = re.fullmatch(r"(\d+)y", parts[-1])
    phrase = " ".join(parts[:-1]) + f", {counted(int(term[1]), 'year')}" if term and len(parts) > 1 else " ".join(parts)
    return phrase[:1].upper() + phrase[1:]


def heading(name: str, currency: str = "USD") -> str:
    """Turn a column name into a heading with its unit; columns that end in _amount are in the book's currency.

    Examples:
        >>> heading("upfront_usd"), heading("served_share"), heading("usd_per_hour"), heading("quarter"), heading("exit_amount", "EUR")
        ('Upfront (USD)', 'Served (%)', 'Price (USD/h)', 'Quarter', 'Exit (EUR)')
    """
    if name == "amount":
        return f"Amount ({currency})"
    if name.startswith("amount_per_"):
        return f"Price ({currency} per {name.removeprefix('amount_per_').replace('_', ' ')})"
    if name.endswith("_amount"):
        return f"{words(name.removesuffix('_amount'))} ({currency})"
    for ending, unit in _UNITS.items():
        if name == ending[1:]:
            return "Amount (USD)" if name == "usd" else f"{'Price' if 'usd' in name else 'Value'} ({unit})"
        if name.endswith(ending):
            return f"{words(name.removesuffix(ending))} ({unit})"
    return words(name)


def whole_words(text: str) -> str:
    """Begin a text with a capital letter.

    Examples:
        >>> whole_words("head of infrastructure")
        'Head of infrastructure'
    """
    return text[:1].upper() + text[1:]


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """Write a count with its noun in the right form.

    Examples:
        >>> counted(1, "contract"), counted(2, "contract"), counted(0, "quarter"), counted(1200, "day"), counted(2, "company", "companies")
        ('1 contract', '2 contracts', '0 quarters', '1,200 days', '2 companies')
    """
    return f"{number:,.10g} {noun_of(number, noun, plural)}"


def noun_of(number: float, noun: str, plural: str | None = None) -> str:
    """Return a noun in the form that goes with a count, which stands elsewhere.

    Examples:
        >>> noun_of(1, "more machine"), noun_of(2, "more machine")
        ('more machine', 'more machines')
    """
    return noun if Locale.parse(LOCALE).plural_form(number) == "one" else plural or f"{noun}s"


#: Nouns that sentences count, and verbs behind them, as they are said of many.
_COUNTED = "rows|lines|files|jobs|prices|offers|contracts|machines|columns|months|days|teams|types|calls|shards|buckets|batches|workloads"
_OF_ONE = {"are": "is", "were": "was", "have": "has", "do": "does"}
_OF_MANY = "|".join((*_OF_ONE, "repeat", "state", "name", "hold", "end", "lie", "give", "say", "cover", "count", "stay", "differ", "need"))


def in_number(text: str) -> str:
    """Return a sentence in which what there is one of is said as one.

    Examples:
        >>> in_number("1 rows repeat a job_id; 21 rows are new, and 1 machine types were left out.")
        '1 row repeats a job_id; 21 rows are new, and 1 machine type was left out.'
        >>> in_number("1 prices of zero (spot) were left out")
        '1 price of zero (spot) was left out'
    """

    def one(found: re.Match[str]) -> str:
        before, noun, between, verb = (part or "" for part in found.groups())
        noun = noun.removesuffix("es") if noun == "batches" else noun.removesuffix("s")
        return f"1 {before}{noun}{between}" + (f" {_OF_ONE.get(verb, f'{verb}s')}" if verb else "")

    between = r"((?: (?:of|for|in|under|without) [^.;:,\d]*?)?(?: \([^)]*\))?)"
    return re.sub(rf"(?<![\w.,#-])1 ([a-z]+ )?({_COUNTED})\b(?:{between} ({_OF_MANY})\b)?", one, text)


def listed(names: list[str]) -> str:
    """Join names as a sentence does.

    Examples:
        >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
        ('a', 'a and b', 'a, b and c')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def whole_parts(sizes: pd.Series) -> pd.Series:
    """Round sizes to whole numbers whose sum is the rounded sum of the sizes: the largest remainders are rounded up.

    Examples:
        >>> whole_parts(pd.Series([7.4, 38.4])).tolist(), whole_parts(pd.Series([0.5, 0.5, 2.0])).tolist()
        ([8, 38], [1, 0, 2])
    """
    floors = sizes.map(math.floor)
    up = round(float(sizes.sum())) - int(floors.sum())
    chosen = (sizes - floors).sort_values(ascending=False, kind="stable").index[: max(up, 0)]
    return floors + sizes.index.isin(chosen).astype(int)


def day(when: dt.date) -> str:
    """Write a day; ISO 8601, which no reader takes for another day.

    Examples:
        >>> day(pd.Timestamp("2027-01-04"))
        '2027-01-04'
    """
    return f"{when:%Y-%m-%d}"


def duration_words(seconds: float) -> str:
    """Write a duration in the unit a reader would use.

    Examples:
        >>> duration_words(42), duration_words(5400), duration_words(200000)
        ('42 seconds', '1.5 hours', '2.31 days')
    """
    seconds = 0.0 if abs(seconds) < 1e-3 else seconds
    for limit, unit, name in ((120, 1, "seconds"), (5400, 60, "minutes"), (172800, 3600, "hours")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86400:.3g} days"


def sign_of(currency: str) -> str:
    """Return what stands before an amount: the currency's sign, or its code and a space where it has no sign of its own.

    Examples:
        >>> sign_of("USD"), sign_of("EUR"), sign_of("CHF")
        ('$', '€', 'CHF ')
    """
    symbol = get_currency_symbol(currency, LOCALE)
    return f"{symbol} " if symbol == currency else symbol


def money(value: float, currency: str = "", *, signed: bool = False) -> str:
    """Write an amount: from a thousand on with one decimal and k, M, B or T; below, whole, or with cents where it is small.

    Without a currency it is in dollars, and is said in the one in force (see `dollars`).

    Examples:
        >>> money(1234567), money(999_960), money(-45600), money(701, "EUR"), money(float("nan"))
        ('$1.2M', '$1.0M', '-$45.6k', '€701', 'n/a')
        >>> money(2.5), money(18), money(0.0004), money(-3.7e-9), money(3000, signed=True)
        ('$2.50', '$18', '$0.0004', '$0', '+$3.0k')
    """
    value, currency = (value, currency) if currency else said(value)
    amount = 0.0 if abs(value) < ROUNDING else value
    return _with_sign(amount, sign_of(currency), "" if not math.isfinite(value) else _size(abs(amount), currency), signed)


def price(value: float, currency: str = "", *, signed: bool = False) -> str:
    """Write a price of something, in dollars as `money` takes them: always with cents below a thousand, with three digits below a tenth.

    Examples:
        >>> price(4), price(-2.024, "EUR"), price(0.1, "JPY"), price(0.0123), price(1234)
        ('$4.00', '-€2.02', '¥0.10', '$0.0123', '$1.2k')
    """
    value, currency = (value, currency) if currency else said(value)
    size = abs(value)
    cents = math.isfinite(value) and 0.1 <= size < 999.5
    return _with_sign(value, sign_of(currency), f"{size:.2f}" if cents else _size(size, currency) if math.isfinite(value) else "", signed)


def _with_sign(value: float, sign: str, body: str, signed: bool) -> str:
    """Put plus or minus before the currency sign, and no minus before zero."""
    if not body:
        return "n/a"
    something = any(digit in "123456789" for digit in body)
    return ("-" if value < 0 and something else "+" if signed and value > 0 and something else "") + sign + body


def _size(size: float, currency: str) -> str:
    """Write an amount of at least zero without its sign."""
    if size < 999.5:
        if get_currency_precision(currency) and size < 100 and size != round(size):
            return f"{size:.2f}" if size >= 0.1 else f"{float(f'{size:.3g}'):.10g}"
        return f"{size:.0f}"
    limit, letter = next((pair for pair in _LETTERS[:-1] if size < pair[0] * 999.95), _LETTERS[-1])
    return f"{size / limit:,.1f}{letter}"


def currency_of(unit: str) -> str | None:
    """Return the currency of a unit that is money, else None.

    Examples:
        >>> currency_of("USD/h"), currency_of("CHF"), currency_of("accelerators"), currency_of("MFU")
        ('USD', 'CHF', None, None)
    """
    head = unit.split("/", maxsplit=1)[0].strip()
    return head if re.fullmatch(r"[A-Z]{3}", head) and is_currency(head) else None


def number_text(value: float, unit: str = "", *, signed: bool = False) -> str:
    """Write a number in its unit: money as `money` and `price` do, shares in percent, sizes whole or with three significant digits.

    Args:
        unit: A currency code ("USD", "USD/h"), "share", or any other unit, which is not printed.

    Examples:
        >>> number_text(1_234_567, "USD"), number_text(-999_950, "USD"), number_text(2.5, "USD/h"), number_text(0.345, "share")
        ('$1.2M', '-$1.0M', '$2.50', '34.5%')
        >>> number_text(1234.6, "accelerators"), number_text(4, "USD/h"), number_text(40, "USD")
        ('1,235', '$4.00', '$40')
    """
    if pd.isna(value):
        return "n/a"
    currency = currency_of(unit)
    if currency:
        return (price if "/" in unit else money)(float(value), currency, signed=signed)
    body = f"{float(f'{abs(value) * 100:.3g}'):,.10g}%" if unit.startswith("share") else _plain(abs(value))
    return _with_sign(value, "", body, signed)


def compact(size: float) -> str:
    """Write a size where room is scarce: two significant digits from a thousand on.

    Examples:
        >>> compact(64), compact(1234), compact(120_500)
        ('64', '1.2k', '120k')
    """
    return _plain(size) if size < 1000 else f"{float(f'{size:.2g}') / 1000:,.10g}k"


def _plain(size: float) -> str:
    """Write a size of at least zero: with three significant digits and a letter from 10,000 on, whole from 1,000 on."""
    rounded = float(f"{size:.3g}")
    if rounded >= 10_000:
        limit, letter = next(pair for pair in reversed(_LETTERS) if rounded >= pair[0])
        return f"{rounded / limit:,.10g}{letter}"
    return f"{size:,.0f}" if size >= 1000 else f"{rounded:.10g}"


def _cell(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NaT:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, pd.Timestamp):
        return day(value) if value == value.normalize() else value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, (int, float)) or hasattr(value, "__float__"):
        number = float(value)
        number = 0.0 if abs(number) < 1e-9 else number
        if name.endswith("_share") or name == "share":
            return f"{100 * number:.1f}"
        if "usd_per" in name or "amount_per" in name:
            return f"{number:,.3f}"
        if name.endswith(("usd", "amount")) or abs(number) >= 1000:
            return f"{number:,.0f}".replace("-0", "0") if abs(number) < 0.5 else f"{number:,.0f}"
        return f"{number:,.0f}" if number == round(number) else f"{number:.3g}"
    return str(value)


def _in_hours(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn columns of seconds into hours where a reader would: where some value is above two hours.

    Examples:
        >>> _in_hours(pd.DataFrame({"queue_p90_seconds": [127917.0], "save_seconds": [30.0]})).to_dict("list")
        {'Queue p90 (h)': [35.5325], 'save_seconds': [30.0]}
    """
    long = [
        name
        for name in frame.columns
        if str(name).endswith("_seconds") and pd.api.types.is_numeric_dtype(frame[name]) and frame[name].max() > 7200
    ]
    return frame.assign(**{name: frame[name] / 3600 for name in long}).rename(
        columns={name: f"{words(name.removesuffix('_seconds'))} (h)" for name in long}
    )


#: Columns whose values are names made of words, not names given by a person.
_WORDED = ("term", "component", "source", "kind", "measure", "view", "stage", "basis")


def value_text(value: object) -> str:
    """Write the value of an assumption within a sentence.

    Examples:
        >>> value_text(None), value_text(True), value_text(1.25), value_text("on_demand"), value_text(("a", "b")), value_text(())
        ('as estimated', 'yes', '1.25', 'On demand', 'a, b', 'none')
    """
    if value is None:
        return "as estimated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value) or "none"
    return words(value) if isinstance(value, str) and "_" in value else str(value)


def readable(frame: pd.DataFrame, rows: int | None = None, currency: str = "USD") -> pd.DataFrame:
    """Return the table as text, ready to be shown.

    Args:
        rows: Show at most so many rows.
        currency: Currency of columns that end in _amount.
    """
    part = _in_hours(frame if rows is None else frame.head(rows))
    shown = {
        name: [words(str(value)) if name in _WORDED and isinstance(value, str) else _cell(str(name), value) for value in part[name]]
        for name in part.columns
    }
    return pd.DataFrame(shown, index=range(len(part))).rename(columns=lambda name: heading(name, currency))
