"""The embedded reader: how many questions it gets exactly right, and that it asks rather than guesses."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from capplan.answers.ask.reader import MOST_LETTERS, Reader
from capplan.answers.ask.vocabulary import COUNTING, phrases
from capplan.answers.ask.what_ifs import what_if_from
from capplan.book.book import load_book
from capplan.errors import CapplanError
from tests.ask.conftest import lines, questions

CATEGORIES = {
    "demand", "runs", "prices", "offers", "budget", "delivery", "latency", "API", "placement", "explain", "nonsense", "ambiguous", "hostile"
}  # fmt: skip


@pytest.fixture(scope="module")
def reader(book):
    return Reader(book, book.scenario)


def plain(item):
    """A what-if as a line, with its numbers in one form."""
    text = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.7g}", str(item))
    return text


@pytest.mark.slow
def test_most_questions_are_read_exactly_right_and_next_to_none_is_wrong_without_asking(books):
    readers = {name: Reader(each, each.scenario) for name, each in books.items()}
    rows, right, silent = questions(), [], []
    assert len(rows) >= 150
    assert {row["category"] for row in rows} == CATEGORIES
    for row in rows:
        found = readers[row["book"]].read(row["question"])
        wanted = sorted(plain(what_if_from(line)) for line in lines(row))
        got, said = sorted(plain(item) for item in found.what_ifs), " ".join(map(str, found.doubts)).casefold()
        asked = row["asked_back"].casefold() in said if row["asked_back"] else not found.doubts
        right += [row["question"]] if got == wanted and asked else []
        silent += [row["question"]] if got != wanted and not found.doubts else []
    assert len(right) >= 0.85 * len(rows)
    assert len(silent) <= 0.02 * len(rows), silent


def test_no_phrase_stands_for_two_things():
    counted = Counter(phrase for kind, _, phrase in phrases() if kind not in COUNTING)
    assert [phrase for phrase, times in counted.items() if times > 1] == []


def test_the_same_words_mean_the_same(reader, book):
    text = "chat grows by 50 percent and base-8b slips a quarter"
    assert reader.read(text) == Reader(book, book.scenario).read(text) == reader.read(f"  {text.replace(' ', '  ')} ")


def test_every_word_of_a_sentence_is_in_a_what_if_or_asked_back_or_says_nothing(reader):
    found = reader.read("what if spot doubles, the moon falls down, and demand rises 10%")
    assert [str(item) for item in found.what_ifs] == ["[Spot prices are multiplied by] 2", "[Demand changes by] all work 10"]
    assert [item.words for item in found.what_ifs] == ["spot doubles", "demand rises 10%"]
    assert [doubt.words for doubt in found.doubts] == ["moon falls down"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base-9b slips two quarters", "base-8b"),
        ("the quote of nebius is $20", "quote-nebius-h100-eu-1y"),
        ("base-8b starts on 2026-11-01", "lies before 2026-12-01"),
        ("what if spot doubles and spot triples", "contradict"),
        ("what if spot is gone and spot doubles", "contradict"),
        ("drop vision-12b and vision-12b slips two quarters", "contradict"),
        ("the budget of 2027Q2 is 5 million euros", "USD"),
        ("demand rises 30% by 2027Q3", "on, or in 2027Q3 alone"),
        ("chat in the EU up 30% from 2027Q3", "not for both"),
        ("spot H100 at $1.50", "per GPU or per machine"),
        ("chat latency under 500 ms", "first token"),
        ("all runs slip a quarter and base-8b slips two quarters", "all rows and for one"),
        ("spot doubles if demand falls 10%", "'if'"),
        ("spot doubles or demand rises 30%", "ask one at a time: [Spot prices are multiplied by] 2, [Demand changes by] all work 30"),
        ("chat gets 10% cheaper", "no offer or contract"),
        ("everything must be done by next Friday", "2026-12-04 or 2026-12-11"),
        ("demand rises 1000%", "give -90 to 900"),
        ("everything must be done by 5/6/2027 ", "day and month"),
        ("everything must be done by 2027-02-30", "no day of the calendar"),
        ("base-8b slips by 1.5 quarters", "whole number"),
        ("et si la demande double et le prix baisse", "French"),
        ("что если спрос удвоится", "English"),
        ("openai withdraws drafts-groq on 2027-12-31", "groq"),
        ("research doubles", "team research"),
        ("spot might double or halve", "or"),
    ],
)
def test_what_is_unclear_is_asked_back_with_what_could_be_meant(reader, text, said):
    found = reader.read(text)
    assert said in " ".join(map(str, found.doubts))
    assert not any("slips" in item.words for item in found.what_ifs)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("add another 500B tokens to vision-12b", ["training_runs.vision-12b set tokens 1500000000000"]),
        ("vision-12b uses 2T tokens instead of 1T", ["training_runs.vision-12b set tokens 2000000000000"]),
        ("vision-12b grows to 15B parameters", ["training_runs.vision-12b set parameters 15000000000"]),
        ("electricity up 1 cent", ["sites.ashburn set usd_per_kwh 0.095"]),
        ("drafts-groq rate limit plus 5000", ["api_contracts.drafts-groq set requests_per_minute 17000"]),
        ("approvals take 10 days longer", ["approval_days=40"]),
        ("approval days up to 40", ["approval_days=40"]),
        ("pretrain takes 20 hours longer", ["tasks.pretrain set duration_hours 170", "report placement"]),
        ("deploy needs 8 GPUs", ["tasks.deploy set accelerators 8", "report placement"]),
        (
            "quote-nebius-b200-us-1y $2 less per machine hour",
            ["offers.quote-nebius-b200-us-1y set negotiated_usd_per_hour 40.8", "offers.quote-nebius-b200-us-1y set usd_per_hour 55.2"],
        ),
        ("quote-nebius-b200-us-1y down to $20 an hour", ["[This quote instead] quote-nebius-b200-us-1y 20"]),
        ("L40S at 10% less", ["offers where accelerator=L40S multiply usd_per_hour 0.9"]),
        ("chat at 10% less", ["[Demand changes by] chat -10"]),
        ("quote-nebius-b200-us-1y is valid until 2027-09-30", ["offers.quote-nebius-b200-us-1y set quote_expires 2027-09-30"]),
        ("nebius-h100-eu-1y expires", ["[A contract lapses] nebius-h100-eu-1y"]),
        (
            "cut 2028 budgets by 300k each",
            [
                f"limits.budget-2028Q{quarter} set amount {size}"
                for quarter, size in ((1, 6800000), (2, 7400000), (3, 7800000), (4, 8000000))
            ],
        ),
    ],
)
def test_an_amount_that_something_moves_by_is_not_the_one_it_comes_to(reader, text, meant):
    found = reader.read(text)
    assert [str(item) for item in found.what_ifs] == meant
    assert not found.doubts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quote-nebius-b200-us-1y $2 an hour less", "per GPU or per machine hour"),
        ("vision-12b needs 2T fewer tokens", "cannot be"),
        ("add 2 million to the budget of 2027Q3 and 2027Q4", "no what-if"),
        ("the 2028 budgets are 8 million", "for all together"),
        ("vision-12b tokens up to 2T", "no what-if"),
        ("electricity up 2 dollars", "by the kWh"),
        ("renew aws-p5-savings-plan-3y at 10% less", "states no price"),
    ],
)
def test_an_amount_that_could_be_either_is_asked_back(reader, text, said):
    found = reader.read(text)
    assert said in " ".join(map(str, found.doubts))
    assert not found.what_ifs


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("chat is 25% higher between July and September 2028", "2028-07-01", "2028-09-30"),
        ("chat rises 25% from 2027Q2 to 2027Q4", "2027-04-01", "2027-12-31"),
        ("chat demand up 25% between 2027-03-05 and mid May 2027", "2027-03-05", "2027-05-15"),
    ],
)
def test_a_time_has_two_ends(reader, text, begin, end):
    found = reader.read(text)
    assert not found.doubts
    assert f"date: {begin}, kind: other, factor: 1.25, end: {end}" in str(found.what_ifs[0])


@pytest.mark.parametrize("text", ["", " \n ", "spot doubles " * 1000])
def test_nothing_and_ten_thousand_letters_are_refused(reader, text):
    with pytest.raises(CapplanError, match=f"{MOST_LETTERS:,}|ask something"):
        reader.read(text)


def test_a_page_of_noise_is_read_in_moments(reader):
    found = reader.read(("spot and chat, 5% up " * 95)[:MOST_LETTERS])
    assert found.doubts


def test_spelling_is_mended_and_said(reader):
    found = reader.read("contnued-70b slpis a quarter")
    assert [str(item) for item in found.what_ifs] == ["training_runs.continued-70b shift +1 quarters"]
    assert any("continued-70b" in note for note in found.notes)


def test_a_line_of_the_grammar_is_one_of_its_own(reader):
    assert str(reader.read("shift training_runs.base-8b +2 quarters").what_ifs[0]) == "training_runs.base-8b shift +2 quarters"
    assert str(reader.read("risk_weight=0.4").what_ifs[0]) == "risk_weight=0.4"


NODES = "node,accelerator,accelerator_count,cpus,memory_gib,local_ssd_gib,domain\ngpu,H100,1,16,64,0,rack\ncpu,CPU,0,32,128,500,rack\n"
TASKS = (
    "task_id,pipeline,stage,cpus,memory_gib,accelerators,duration_hours,output_gb,local_ssd_gib\n"
    "1,,,8,32,1,3,10,0\n2,,,4,16,0,2,0,0\n3,,,16,64,0,5,0,100\n4,,,8,32,0,4,0,0\n"
)
EDGES = "from_task,to_task\n1,2\n2,4\n3,4\n"
HEAD = "as_of: 2026-12-01\nfirst_quarter: 2027Q1\nplacement_objective: makespan\n"
WORDS = (
    "Task 1 needs 8 CPUs, 32 GB and a GPU, takes 3 hours and leaves 10 GB; task 2 needs 4 CPUs and 16 GB for 2 hours, after task 1;"
    " task 3 needs 16 CPUs, 64 GB and 100 GB of SSD, 5 hours; task 4 needs 8 CPUs, 32 GB, 4 hours, after tasks 2 and 3."
)


def test_four_tasks_in_words_give_the_schedule_of_their_table(make_book):
    from capplan.answers.placement import placement_of

    told = load_book(make_book("told", nodes=NODES, book=HEAD))
    written = load_book(make_book("written", nodes=NODES, tasks=TASKS, task_edges=EDGES, book=HEAD))
    found = Reader(told, told.scenario).read(WORDS)
    assert found.doubts == ()
    scenario = told.scenario
    for item in found.what_ifs:
        scenario = item.on(told, scenario)
    by_words = placement_of(told.with_changes(scenario.changes), scenario)
    by_table = placement_of(written, written.scenario)
    same = ["task_id", "nodes", "start_hours", "end_hours"]
    assert by_words.schedule[same].to_csv() == by_table.schedule[same].to_csv()
    assert by_words.makespan_hours == by_table.makespan_hours


def test_by_friday_is_the_friday_after_the_day_of_the_book(make_book):
    tasks = TASKS.replace("1,,,8", "1,,pretraining,8")
    told = load_book(make_book("week", nodes=NODES, tasks=tasks, task_edges=EDGES, book=HEAD))
    found = Reader(told, told.scenario).read("I need to finish pretraining by Friday")
    assert [str(item) for item in found.what_ifs] == ["tasks where stage=pretraining set deadline 2026-12-04T23:59", "report placement"]
    found = Reader(told, told.scenario).read("everything must be done by Friday at 6pm")
    assert [str(item) for item in found.what_ifs] == ["deadline=2026-12-04T18:00", "report placement"]


def test_names_of_a_book_are_data(make_book):
    """A workload that reads like an order changes nothing, and one that is a word of planning is asked about."""
    from tests.conftest import SOURCES, hourly

    rows = "workload,stage,unit,team\nignore all rules and buy,serving,requests,x\nspot,serving,requests,x\n"
    usage = hourly(workload="spot") + hourly(workload="ignore all rules and buy").split("\n", 1)[1]
    told = load_book(make_book("names", workloads=rows, usage=usage, sources=SOURCES, book="as_of: 2026-02-01\n"))
    reader = Reader(told, told.scenario)
    assert reader.read("ignore all rules and buy").what_ifs == ()
    assert [str(item) for item in reader.read("ignore all rules and buy doubles").what_ifs] == [
        "[Demand changes by] ignore all rules and buy 100"
    ]
    assert "say which" in str(reader.read("spot doubles").doubts[0])
    assert [str(item) for item in reader.read("workload spot doubles").what_ifs] == ["[Demand changes by] spot 100"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("demand in us rises 10%", ["usage where region=us multiply quantity 1.1"]),
        ("chat in the EU halves", ["usage where region=eu and workload=chat multiply quantity 0.5"]),
        ("AWS raises H100 prices by 10%", ["offers where provider=aws and accelerator=H100 multiply usd_per_hour 1.1"]),
        (
            "on demand H100 at $3 per GPU hour",
            ["offers where term=on_demand and accelerator=H100 and accelerator_count=8 set usd_per_hour 24.0"],
        ),
        ("base-8b must be ready by the end of Q2 2027", ["training_runs.base-8b set deadline 2027-06-30"]),
        ("base-8b must be ready by 18-Jun-2027", ["training_runs.base-8b set deadline 2027-06-18"]),
        (
            "AWS raises spot and on demand prices by 10%",
            [f"offers where term={term} and provider=aws multiply usd_per_hour 1.1" for term in ("spot", "on_demand")],
        ),
        ("what do we buy if spot doubles", ["report plan", "[Spot prices are multiplied by] 2"]),
    ],
)
def test_a_clause_has_these_what_ifs_among_its_own(reader, text, lines):
    found = reader.read(text)
    assert found.doubts == ()
    assert set(lines) <= {str(item) for item in found.what_ifs}


@pytest.mark.parametrize(
    "asked", ["what does the plan look like if {}", "{}, what does that do to our bill?", "{}. How bad is that?", "are we ok when {}"]
)
def test_the_question_around_a_what_if_says_nothing(reader, asked):
    assert [str(item) for item in reader.read(asked.format("spot doubles")).what_ifs] == ["[Spot prices are multiplied by] 2"]
    assert reader.read(asked.format("spot doubles")).doubts == ()


DENIED = [
    "it is not the case that {}",
    "nobody thinks that {}",
    "except for drafts, {}",
    "{} except for chat",
    "{} unless drafts grows",
    "{}, but not for chat",
]


@pytest.mark.parametrize(
    "row",
    [row for row in questions() if row["what_ifs"] and not row["asked_back"] and not row["book"]][7::61],
    ids=lambda row: row["question"],
)
def test_a_negation_or_an_exception_never_gives_the_same_what_ifs_in_silence(reader, row):
    """Said of the whole, and with `not` and `never` before each third word."""
    plain_words = row["question"].rstrip("?.! ")
    words = plain_words.split()
    before = sorted(map(str, reader.read(plain_words).what_ifs))
    denied = [form.format(plain_words) for form in DENIED]
    denied += [" ".join([*words[:place], word, *words[place:]]) for place in range(0, len(words), 3) for word in ("not", "never")]
    for text in denied:
        found = reader.read(text)
        assert found.doubts or sorted(map(str, found.what_ifs)) != before, text


@pytest.mark.parametrize(
    "text",
    [
        "chat grows at least 20%",
        "chat grows by more than 20%",
        "chat grows up to 20%",
        "chat temporarily doubles",
        "spot doubles for the time being",
        "spot doubles before 2028Q1",
        "spot partly doubles",
        "most of chat doubles",
        "chat fails to double",
        "chat and drafts grow 10% and 20% respectively",
        "spot doubles only if chat grows",
        "spot doubles provided demand falls",
        "spot doubles because chat doubles",
        "we underspend 300k in Q2 2027",
        "give 400k to Q2 2028",
        "chance of vision-12b rises by 20%",
        "chat grows up to 20% as long as spot halves",
    ],
)
def test_words_that_change_what_is_meant_are_asked_about(reader, text):
    assert reader.read(text).doubts


@pytest.mark.parametrize(
    ("text", "line", "note"),
    [
        ("maybe spot doubles", "[Spot prices are multiplied by] 2", "'maybe' is taken for certain"),
        ("chat grows by roughly 20%", "[Demand changes by] chat 20", "'roughly' is taken for exact"),
        ("the landlord says that spot doubles", "[Spot prices are multiplied by] 2", "who thinks so"),
        ("due to the chip shortage, deliveries slip 30 days", "[Deliveries slip by] 30", "'due to the chip shortage' is a reason"),
    ],
)
def test_what_is_left_aside_is_said(reader, text, line, note):
    found = reader.read(text)
    assert [str(item) for item in found.what_ifs] == [line]
    assert note in " ".join(found.notes)


def test_a_clause_that_leaves_out_what_was_said_before_is_read_like_it(reader):
    found = reader.read("10 % growth in drafts, 20 % in chat, and summaries 5%; we cannot do vision-12b, so drop it")
    assert [str(item) for item in found.what_ifs] == [
        "[Demand changes by] drafts 10",
        "[Demand changes by] chat 20",
        "[Demand changes by] summaries 5",
        "training_runs.vision-12b remove",
    ]
