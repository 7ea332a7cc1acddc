"""Build the golden set "everyday" v1: items.jsonl and manifest.json.

Everything here is either written by hand below or computed from a seeded generator, and every answer
that can be checked by program is checked before anything is written.  Standard library only.

    python benchmarks/golden/build_everyday.py --out golden_sets/everyday/v1
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEED = 20240917
SLICES = (
    "facts",
    "arithmetic",
    "extraction",
    "classification",
    "instruction",
    "reading",
    "ordering",
    "yes_no",
)


def normalise(text: str, stop: Sequence[str] = ()) -> str:
    """The normalisation of exact match: NFC, casefold, cut at the first stop string, strip, tidy."""
    text = unicodedata.normalize("NFC", text).casefold()
    cuts = [text.find(s.casefold()) for s in stop if s and s.casefold() in text]
    if cuts:
        text = text[: min(cuts)]
    text = " ".join(text.split())
    previous = None
    while previous != text:
        previous = text
        text = text.strip("\"'`\u2018\u2019\u201c\u201d").rstrip(".,;:!?").strip()
    return text


@dataclass
class Builder:
    """Collects items; numbers them by slice; balances the position of the right choice."""

    rng: random.Random
    items: list[dict[str, Any]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    positions: Counter[tuple[int, int]] = field(default_factory=Counter)

    def _add(self, slice_: str, kind: str, body: dict[str, Any], few_shot: str, cluster: str, template: str) -> None:
        number = 1 + sum(1 for item in self.items if item["slice"] == slice_)
        item: dict[str, Any] = {"id": f"{slice_}-{number:03d}", "slice": slice_}
        if cluster:
            item["cluster"] = cluster
        if few_shot:
            item["few_shot"] = few_shot
        item["template"] = template
        item.update(body)
        self.items.append(item)
        self.kinds[item["id"]] = kind

    def generated(
        self,
        slice_: str,
        kind: str,
        prompt: str,
        answers: Sequence[str],
        few_shot: str = "",
        stop: Sequence[str] = ("\n",),
        max_new_tokens: int = 8,
        cluster: str = "",
        template: str = "raw",
    ) -> None:
        body = {
            "prompt": prompt,
            "metric": "exact_match",
            "answers": list(answers),
            "stop": list(stop),
            "max_new_tokens": max_new_tokens,
        }
        self._add(slice_, kind, body, few_shot, cluster, template)

    def choice(
        self,
        slice_: str,
        kind: str,
        prompt: str,
        right: str,
        wrong: Sequence[str],
        few_shot: str = "",
        cluster: str = "",
        template: str = "raw",
    ) -> None:
        """Put the right choice at the least used position (ties at random) among the shuffled wrong ones."""
        size = 1 + len(wrong)
        fewest = min(self.positions[size, p] for p in range(size))
        place = self.rng.choice([p for p in range(size) if self.positions[size, p] == fewest])
        self.positions[size, place] += 1
        choices = list(wrong)
        self.rng.shuffle(choices)
        choices.insert(place, right)
        body = {"prompt": prompt, "metric": "multiple_choice", "choices": choices, "answer": place}
        self._add(slice_, kind, body, few_shot, cluster, template)


# --------------------------------------------------------------------------------------------- facts

CAPITALS = (
    "Japan=Tokyo Italy=Rome Germany=Berlin Spain=Madrid Russia=Moscow China=Beijing Greece=Athens Canada=Ottawa "
    "Poland=Warsaw Austria=Vienna Norway=Oslo Cuba=Havana Ireland=Dublin Hungary=Budapest Thailand=Bangkok "
    "Sweden=Stockholm Peru=Lima Iraq=Baghdad Turkey=Ankara Finland=Helsinki"
)
YOUNG = (
    ("cat", "kitten", "puppy", "calf", "chick"),
    ("cow", "calf", "kitten", "lamb", "chick"),
    ("sheep", "lamb", "cub", "calf", "foal"),
    ("bear", "cub", "calf", "chick", "lamb"),
    ("hen", "chick", "foal", "calf", "puppy"),
    ("frog", "tadpole", "kitten", "puppy", "lamb"),
    ("duck", "duckling", "kitten", "puppy", "calf"),
    ("kangaroo", "joey", "chick", "foal", "lamb"),
)
TONGUES = (
    "Germany=German Russia=Russian China=Chinese|Mandarin Greece=Greek Poland=Polish Turkey=Turkish "
    "Sweden=Swedish Portugal=Portuguese England=English"
)
OPPOSITES = (
    "up=down day=night wet=dry fast=slow old=young|new open=closed|close|shut left=right early=late "
    "full=empty happy=sad|unhappy rich=poor buy=sell"
)
SYMBOLS = "iron=Fe silver=Ag carbon=C hydrogen=H sodium=Na helium=He nitrogen=N copper=Cu"
COUNTS = (
    ("days in a week", "7", "seven"),
    ("months in a year", "12", "twelve"),
    ("seconds in a minute", "60", "sixty"),
    ("hours in a day", "24", "twenty-four"),
    ("legs on a spider", "8", "eight"),
    ("legs on a dog", "4", "four"),
    ("sides of a triangle", "3", "three"),
    ("sides of a hexagon", "6", "six"),
    ("years in a century", "100", "one hundred"),
    ("eggs in a dozen", "12", "twelve"),
    ("letters in the English alphabet", "26", "twenty-six"),
)
FACT_CHOICES = (
    ("Which planet is known as the Red Planet?", "Mars", "Venus", "Saturn", "Neptune"),
    ("Which gas do people need to breathe to stay alive?", "oxygen", "helium", "neon", "methane"),
    ("What do bees make in their hives?", "honey", "silk", "milk", "wool"),
    ("Which animal is the largest living on Earth?", "blue whale", "brown bear", "white shark", "grey wolf"),
    ("On which continent is the Sahara Desert?", "Africa", "Europe", "Australia", "South America"),
    ("Which organ pumps blood through the body?", "heart", "liver", "lungs", "stomach"),
    ("What is frozen water called?", "ice", "steam", "sand", "dust"),
    ("Which star is closest to the Earth?", "the Sun", "Sirius", "Polaris", "Vega"),
    ("Who wrote the play Romeo and Juliet?", "Shakespeare", "Tolstoy", "Homer", "Dante"),
    ("Which metal is liquid at room temperature?", "mercury", "iron", "silver", "copper"),
    ("In which country is the Great Wall?", "China", "Brazil", "Kenya", "France"),
    ("In which city does the Eiffel Tower stand?", "Paris", "Rome", "London", "Madrid"),
    ("Which bird cannot fly?", "penguin", "eagle", "sparrow", "swallow"),
    ("Which part of a plant grows under the ground?", "root", "leaf", "flower", "fruit"),
    ("What do we call a scientist who studies the stars?", "astronomer", "botanist", "chemist", "geologist"),
    ("Which instrument has black and white keys?", "piano", "violin", "trumpet", "drum"),
    ("What is the main language spoken in Brazil?", "Portuguese", "German", "Russian", "Arabic"),
    ("Which ocean lies between Europe and North America?", "Atlantic", "Pacific", "Indian", "Southern"),
    ("Which sense do we use our ears for?", "hearing", "smell", "taste", "sight"),
    ("What force pulls objects toward the ground?", "gravity", "friction", "magnetism", "electricity"),
    ("Which season comes right after winter?", "spring", "summer", "autumn"),
    ("What does a thermometer measure?", "temperature", "distance", "weight", "speed"),
    ("Which animal is known for its long trunk?", "elephant", "giraffe", "leopard", "buffalo"),
    ("Which gas do plants take in from the air?", "carbon dioxide", "pure helium", "neon", "natural gas"),
    ("What is the hardest natural mineral?", "diamond", "marble", "chalk", "gypsum"),
    ("Which country is famous for its pyramids?", "Egypt", "Norway", "Canada", "Ireland"),
    ("Which planet has bright, wide rings?", "Saturn", "Mercury", "Venus", "Mars"),
    ("What do we call water falling from clouds?", "rain", "smoke", "sand", "lava"),
    ("Which painter made the Mona Lisa?", "Leonardo da Vinci", "Vincent van Gogh", "Claude Monet", "Pablo Picasso"),
    ("In which direction does the sun rise?", "in the east", "in the west", "in the north", "in the south"),
)
FACT_COMPLETIONS = (
    ("Cows eat grass and give us", "milk", "honey", "silk", "eggs"),
    ("A person who bakes bread is called a", "baker", "tailor", "plumber", "pilot"),
    ("The Earth moves around the", "Sun", "Moon", "sea", "wind"),
    ("The colour of fresh snow is", "white", "purple", "green", "orange"),
    ("Mixing blue and yellow paint gives", "green", "red", "white", "pink"),
    ("Water boils when it gets very", "hot", "cold", "dark", "loud"),
    ("You cut paper with a pair of", "scissors", "shoes", "gloves", "socks"),
    ("A doctor who looks after teeth is called a", "dentist", "farmer", "lawyer", "singer"),
    ("Fish breathe under water with their", "gills", "eyes", "tails", "scales"),
    ("The place where books can be borrowed is the", "library", "bakery", "stadium", "airport"),
    ("At night the sky is", "dark", "square", "salty", "wooden"),
    ("Spiders catch insects in their", "webs", "boats", "books", "cups"),
    ("The king's wife is the", "queen", "prince", "knight", "duke"),
    ("Cheese is made from", "milk", "rice", "sand", "wood"),
    ("An umbrella keeps you dry in the", "rain", "oven", "drawer", "sun"),
    ("A caterpillar turns into a", "butterfly", "sparrow", "rabbit", "snail"),
    ("The capital city of England is", "London", "Paris", "Dublin", "Berlin"),
    ("Lemons taste", "sour", "loud", "square", "salty"),
    ("Bread is usually made from", "flour", "glass", "stones", "leather"),
    ("The first month of the year is", "January", "August", "October", "March"),
)


def pairs(table: str) -> list[tuple[str, list[str]]]:
    """Split "a=b c=d|e" into [("a", ["b"]), ("c", ["d", "e"])]."""
    return [(left, right.split("|")) for left, right in (entry.split("=") for entry in table.split())]


def add_facts(b: Builder) -> None:
    for i, (country, answers) in enumerate(pairs(CAPITALS)):
        if i % 2:
            few = "Q: What is the capital of France?\nA: Paris\n\nQ: What is the capital of Egypt?\nA: Cairo\n\n"
            b.generated("facts", "capital, question", f"Q: What is the capital of {country}?\nA:", answers, few)
        else:
            few = "Capital of France: Paris\nCapital of Egypt: Cairo\n"
            b.generated("facts", "capital, list", f"Capital of {country}:", answers, few)
    for animal, right, *wrong in YOUNG:
        b.choice("facts", "young animal", f"The young of a {animal} is called a", right, wrong)
    few = "People in Japan speak Japanese.\nPeople in Italy speak Italian.\n"
    for country, answers in pairs(TONGUES):
        b.generated("facts", "language of a country", f"People in {country} speak", answers, few, (".", "\n", ","))
    few = "The opposite of hot is cold.\nThe opposite of big is small.\n"
    for word, answers in pairs(OPPOSITES):
        b.generated("facts", "opposite", f"The opposite of {word} is", answers, few, (".", "\n"))
    few = "Chemical symbol of gold: Au\nChemical symbol of oxygen: O\n"
    for name, answers in pairs(SYMBOLS):
        b.generated("facts", "chemical symbol", f"Chemical symbol of {name}:", answers, few)
    few = "Number of wheels on a bicycle: 2\nNumber of fingers on one hand: 5\n"
    for thing, *answers in COUNTS:
        b.generated("facts", "count", f"Number of {thing}:", answers, few)
    few = "Question: What colour is a ripe banana?\nAnswer: yellow\n\n"
    for question, right, *wrong in FACT_CHOICES:
        b.choice("facts", "question, 4 choices", f"Question: {question}\nAnswer:", right, wrong, few)
    for prompt, right, *wrong in FACT_COMPLETIONS:
        b.choice("facts", "sentence to complete", prompt, right, wrong)


# ---------------------------------------------------------------------------------------- arithmetic

DOUBLES = (3, 4, 6, 7, 20, 25, 50)
NUMBER_WORDS = (
    ("seven", 7), ("eleven", 11), ("fifteen", 15), ("eighteen", 18), ("thirty", 30), ("forty-two", 42),
    ("sixty-five", 65), ("ninety-one", 91), ("twenty", 20), ("thirty-eight", 38),
)  # fmt: skip
ASKED_SUMS = (
    ("What is {x} plus {y}?", "+", 8, 5),
    ("What is {x} minus {y}?", "-", 9, 4),
    ("What is {x} times {y}?", "x", 6, 7),
    ("Add {x} and {y}.", "+", 12, 12),
    ("Take {y} away from {x}.", "-", 16, 6),
    ("Multiply {x} by {y}.", "x", 3, 5),
    ("How much is {x} plus {y}?", "+", 25, 25),
    ("How much is {x} minus {y}?", "-", 30, 10),
    ("What do you get when you double {x}?", "double", 11, 0),
    ("What is half of {x}?", "half", 20, 0),
    ("What is half of {x}?", "half", 8, 0),
    ("Double the number {x}.", "double", 4, 0),
)
PRICES = (
    ("One ticket costs 5 dollars. Two tickets cost", "10 dollars", "15 dollars", "20 dollars", "50 dollars"),
    ("A pen costs 2 euros. Three pens cost", "6 euros", "5 euros", "8 euros", "3 euros"),
    ("One hour is 60 minutes. Two hours are", "120 minutes", "180 minutes", "100 minutes", "240 minutes"),
    ("One week is 7 days. Two weeks are", "14 days", "21 days", "12 days", "10 days"),
    ("Half an hour is", "30 minutes", "15 minutes", "20 minutes", "45 minutes"),
    ("One dozen is 12. Two dozen is", "24", "36", "14", "20"),
    ("A car has 4 wheels. Two cars have", "8 wheels", "6 wheels", "4 wheels", "2 wheels"),
    ("One metre is 100 centimetres. Two metres are", "200", "300", "120", "400"),
)


def compute(sign: str, x: int, y: int) -> int:
    return {"+": x + y, "-": x - y, "x": x * y, "double": 2 * x, "half": x // 2}[sign]


def near(rng: random.Random, right: int, offsets: Sequence[int] = (-4, -3, -2, -1, 1, 2, 3, 4)) -> list[str]:
    """Three wrong numbers close to the right one and written with as many digits."""
    pool = [right + d for d in offsets if right + d > 0 and len(str(right + d)) == len(str(right))]
    return [str(n) for n in rng.sample(pool, 3)]


def add_arithmetic(b: Builder) -> None:
    few = "3 + 2 = 5\n10 + 8 = 18\n"
    for x, y in (
        (6, 7),
        (4, 4),
        (9, 3),
        (8, 6),
        (7, 2),
        (5, 5),
        (10, 7),
        (20, 5),
        (30, 40),
        (9, 8),
        (1, 6),
        (2, 6),
        (3, 5),
        (10, 4),
        (50, 5),
    ):
        b.generated("arithmetic", "sum", f"{x} + {y} =", [str(x + y)], few, max_new_tokens=6)
    few = "7 - 3 = 4\n15 - 5 = 10\n"
    for x, y in ((9, 2), (8, 5), (10, 3), (20, 5), (7, 1), (12, 4)):
        b.generated("arithmetic", "difference", f"{x} - {y} =", [str(x - y)], few, max_new_tokens=6)
    few = "2 x 3 = 6\n5 x 8 = 40\n"
    for x, y in (
        (2, 4),
        (3, 3),
        (5, 5),
        (10, 7),
        (7, 2),
        (6, 6),
        (4, 5),
        (9, 3),
        (1, 9),
        (3, 4),
        (8, 2),
        (6, 5),
        (10, 10),
    ):
        b.generated("arithmetic", "product", f"{x} x {y} =", [str(x * y)], few, max_new_tokens=6)
    few = "Twice 2 is 4. Twice 5 is 10. Twice 11 is 22.\n"
    for x in DOUBLES:
        b.generated("arithmetic", "double", f"Twice {x} is", [str(2 * x)], few, (".", "\n", ","), 6)
    few = "one = 1\ntwelve = 12\nfifty-three = 53\n"
    for word, number in NUMBER_WORDS:
        b.generated("arithmetic", "number word", f"{word} =", [str(number)], few, max_new_tokens=6)
    few = "Question: What is 2 plus 2?\nAnswer: 4\n\n"
    for text, sign, x, y in ASKED_SUMS:
        right_number = compute(sign, x, y)
        prompt = f"Question: {text.format(x=x, y=y)}\nAnswer:"
        b.choice("arithmetic", "asked in words", prompt, str(right_number), near(b.rng, right_number), few)
    for prompt, right, *wrong in PRICES:
        b.choice("arithmetic", "quantities", prompt, right, wrong)
    few = "The biggest of 3, 9, 1 and 4 is 9.\nThe smallest of 6, 2, 8 and 7 is 2.\n"
    for side, numbers in (
        ("biggest", (12, 45, 31, 28)), ("biggest", (90, 17, 56, 23)), ("biggest", (5, 8, 7, 6)),
        ("biggest", (210, 340, 125, 980)), ("smallest", (14, 62, 77, 39)), ("smallest", (83, 19, 54, 40)),
        ("smallest", (9, 5, 3, 8)), ("smallest", (500, 300, 100, 700)),
    ):  # fmt: skip
        best = max(numbers) if side == "biggest" else min(numbers)
        listed = f"{numbers[0]}, {numbers[1]}, {numbers[2]} and {numbers[3]}"
        wrong = [str(n) for n in numbers if n != best]
        b.choice("arithmetic", "biggest or smallest", f"The {side} of {listed} is", str(best), wrong, few)


# ---------------------------------------------------------------------------------------- extraction

CITY_TEXTS = (
    ("Maria moved to Lisbon last spring to study law.", "Lisbon"),
    ("The old bridge in Prague was closed for repairs.", "Prague"),
    ("Our next meeting will be held in Toronto.", "Toronto"),
    ("Snow fell all night over Helsinki.", "Helsinki"),
    ("He opened a small bakery in Naples with his brother.", "Naples"),
    ("From Chicago she took the night train home.", "Chicago"),
    ("The museum of Munich bought three new paintings.", "Munich"),
    ("Rents in Sydney rose again this year.", "Sydney"),
    ("My uncle drives a taxi in Mumbai.", "Mumbai"),
)
PERSON_TEXTS = (
    ("After lunch, Sofia repaired the broken radio.", "Sofia"),
    ("The letter was written by Henry on a rainy day.", "Henry"),
    ("Nobody knew the answer except Clara.", "Clara"),
    ("In the last minute Diego scored the winning goal.", "Diego"),
    ("The cake that Emma baked was gone by noon.", "Emma"),
    ("Yesterday a teacher called Walter lost his keys.", "Walter"),
    ("It was Nadia who found the cat.", "Nadia"),
    ("The new manager, Oscar, starts on Monday.", "Oscar"),
)
COLOUR_TEXTS = (
    ("She parked her green car behind the shop.", "green"),
    ("A man in a black coat waited at the door.", "black"),
    ("The walls of the kitchen are yellow now.", "yellow"),
    ("He gave me a purple umbrella.", "purple"),
    ("They painted the old boat white.", "white"),
    ("The pink flowers opened in April.", "pink"),
    ("An orange cat slept on the roof.", "orange"),
)
PRICE_TEXTS = (
    ("The blue lamp costs $35 and ships tomorrow.", "$35"),
    ("You can rent the room for $80 a night.", "$80"),
    ("Total due: $19, payable on delivery.", "$19"),
    ("She sold her bike for $150 last week.", "$150"),
    ("A large coffee is $4 at the corner shop.", "$4"),
    ("Tickets are $25 for adults.", "$25"),
    ("The repair came to $60 in the end.", "$60"),
    ("He saved $500 for the trip.", "$500"),
)
TIME_TEXTS = (
    ("The train to the coast leaves on Friday.", "Friday"),
    ("Please return the book by Tuesday.", "Tuesday"),
    ("The shop is closed every Sunday.", "Sunday"),
    ("We moved the call to Thursday afternoon.", "Thursday"),
    ("On Saturday the children visit their aunt.", "Saturday"),
    ("Payday is Wednesday this week.", "Wednesday"),
)
EMAIL_TEXTS = (
    ("Write to lena@post.org for a copy.", "lena@post.org"),
    ("Questions? Our address is help@shop.com.", "help@shop.com"),
    ("The editor (mark@paper.net) replied at once.", "mark@paper.net"),
    ("Send your bill to bills@home.org today.", "bills@home.org"),
    ("You can reach Rosa at rosa@farm.com.", "rosa@farm.com"),
    ("Form sent by tom@school.edu at noon.", "tom@school.edu"),
)
RECORDS = (
    ("name=Ida; age=31; city=Oslo", "age", "31"),
    ("name=Karl; age=58; city=Rome", "name", "Karl"),
    ("item=chair; colour=red; price=40", "price", "40"),
    ("item=table; colour=brown; price=90", "colour", "brown"),
    ("id=7731; status=open; owner=Lee", "status", "open"),
    ("id=2094; status=closed; owner=Amy", "owner", "Amy"),
    ("id=5512; status=open; owner=Raj", "id", "5512"),
    ("team=Lions; points=12; rank=3", "points", "12"),
    ("team=Bears; points=27; rank=1", "team", "Bears"),
    ("file=notes.txt; size=88; type=text", "type", "text"),
)
JSON_RECORDS = (
    ('{"name": "Vera", "job": "nurse"}', "job", "nurse"),
    ('{"title": "Dawn", "year": 1987}', "year", "1987"),
    ('{"fruit": "mango", "count": 6}', "fruit", "mango"),
    ('{"from": "Cairo", "to": "Delhi"}', "to", "Delhi"),
    ('{"user": "max", "lang": "French"}', "lang", "French"),
    ('{"day": "Monday", "room": 14}', "room", "14"),
)
NUMBER_TEXTS = (
    ("Order 48213 was shipped in May.", "The order number is", "48213"),
    ("Call 5550 142 after six.", "The phone number is", "5550 142"),
    ("Flight KL 907 leaves from gate two.", "The flight is", "KL 907"),
    ("The password for the guest network is plum77.", "The password is", "plum77"),
    ("Her locker, number 316, is on the left.", "The locker has the number", "316"),
    ("My ticket says seat 24C.", "My seat is", "24C"),
    ("The firm was founded in 1896 by two sisters.", "It was founded in", "1896"),
    ("Invoice 70054 is still unpaid.", "The invoice number is", "70054"),
    ("The parcel weighs 1350 grams.", "The weight in grams is", "1350"),
    ("Postcode of the new office: 20457.", "The postcode is", "20457"),
    ("They live at 128 Mill Road.", "The house number is", "128"),
    ("The code B729 opens the back door.", "The code is", "B729"),
    ("Bus 465 stops in front of the school.", "The bus has the number", "465"),
    ("The tower is 318 metres high.", "The height in metres is", "318"),
)
TWO_THINGS = (
    ("A letter for Mr Brown came from Miss Carter.", "The letter is for Mr", "Brown", "Green", "Clark", "Adams"),
    ("The meeting on Thursday will be led by Dr Singh.", "The meeting is led by Dr", "Singh", "Patel", "Lopez", "Wong"),
    ("Our guide in Cairo was called Hassan.", "The guide was called", "Hassan", "Ibrahim", "Mustafa", "Omar"),
    ("The red team beat the blue team by two goals.", "The winner was the", "red team", "green team", "pink team"),
    ("She planted tulips along the wall.", "Along the wall grow", "tulips", "roses", "daisies", "lilies"),
    ("The soup is made of lentils and onions.", "The soup is made of", "lentils", "potatoes", "carrots", "peas"),
    ("The desk is made of walnut.", "The wood of the desk is", "walnut", "oak", "pine", "maple"),
    ("For his birthday Lars got a kite.", "Lars got a", "kite", "drum", "book", "watch"),
)


def digits_swapped(rng: random.Random, text: str) -> list[str]:
    """Three different texts of the same shape in which the digits are others."""
    found: set[str] = set()
    while len(found) < 3:
        changed = "".join(rng.choice("123456789") if c.isdigit() else c for c in text)
        if changed != text:
            found.add(changed)
    return sorted(found)


def add_extraction(b: Builder) -> None:
    def field_kind(kind: str, few: str, rows: Sequence[tuple[str, str]], label: str, source: str = "Text") -> None:
        for text, answer in rows:
            assert text.count(answer) == 1, text
            prompt = f"{source}: {text}\n{label}:"
            b.generated("extraction", kind, prompt, [answer], few, max_new_tokens=10)

    few = "Text: The flight to Vienna was late.\nCity: Vienna\n\nText: I met him in Boston.\nCity: Boston\n\n"
    field_kind("city", few, CITY_TEXTS, "City")
    few = "Text: The prize went to Laura.\nName: Laura\n\nText: At six, Peter fed the horses.\nName: Peter\n\n"
    few += "Text: We saw Alice there.\nName: Alice\n\n"
    field_kind("person", few, PERSON_TEXTS, "Name")
    few = "Note: He wore a red hat.\nColour: red\n\nNote: Her blue bag was stolen.\nColour: blue\n\n"
    field_kind("colour", few, COLOUR_TEXTS, "Colour", "Note")
    few = "Text: The chair was $45 in the sale.\nPrice: $45\n\nText: Lunch costs $12 here.\nPrice: $12\n\n"
    field_kind("price", few, PRICE_TEXTS, "Price")
    few = "Note: We meet on Monday.\nDay: Monday\n\n"
    field_kind("day", few, TIME_TEXTS, "Day", "Note")
    few = (
        "Text: Contact anna@mail.com for help.\nEmail: anna@mail.com\n\n"
        "Text: Ask joe@bank.org.\nEmail: joe@bank.org\n\n"
        "Text: Bo (bo@sea.net) knows.\nEmail: bo@sea.net\n\n"
    )
    field_kind("email", few, EMAIL_TEXTS, "Email")
    few = "name=Bo, age=25, city=Paris | city is Paris\nitem=lamp, size=6, colour=blue | item is lamp\n"
    few += "user=kim, level=9, lang=Thai | level is 9\n"
    for record, key, value in RECORDS:
        assert f"{key}={value}" in record.split("; ")
        prompt = f"{record.replace(';', ',')} | {key} is"
        b.generated("extraction", "key=value record", prompt, [value], few, (",", "\n"))
    few = '{"name": "Paul", "age": 40}\nage: 40\n\n{"city": "Lima", "size": "big"}\ncity: Lima\n\n'
    for record, key, value in JSON_RECORDS:
        assert str(json.loads(record)[key]) == value
        b.generated("extraction", "JSON record", f"{record}\n{key}:", [value], few)
    for text, start, answer in NUMBER_TEXTS:
        assert text.count(answer) == 1, text
        b.choice("extraction", "number or code", f"{text} {start}", answer, digits_swapped(b.rng, answer))
    for text, start, right, *wrong in TWO_THINGS:
        assert right in text and not any(w in text for w in wrong), text
        b.choice("extraction", "word from the text", f"{text} {start}", right, wrong)


# ------------------------------------------------------------------------------------ classification

CATEGORY_WORDS = (
    "tiger=animal rose=flower banana=fruit hammer=tool trumpet=instrument shirt=clothing Tuesday=day purple=colour "
    "chair=furniture truck=vehicle eagle=bird salmon=fish carrot=vegetable October=month London=city Brazil=country "
    "nine=number football=sport"
)
REVIEWS = (
    ("I loved every minute of this film.", "positive"),
    ("The food was cold and the waiter was rude.", "negative"),
    ("Terrible sound, broken after two days.", "negative"),
    ("What a wonderful hotel, we will come back!", "positive"),
    ("The best concert I have ever seen.", "positive"),
    ("A boring book, I stopped at page ten.", "negative"),
    ("Great value and a very friendly team.", "positive"),
    ("I want my money back, it does not work.", "negative"),
    ("The worst pizza in town.", "negative"),
    ("Fast delivery and perfect quality.", "positive"),
)
TOPICS = (
    ("The striker scored twice in the final match.", "sports"),
    ("Add two eggs and a cup of flour, then bake.", "cooking"),
    ("The orchestra played a new symphony.", "music"),
    ("Heavy rain and strong winds are expected tonight.", "weather"),
    ("The runner won a gold medal in the marathon.", "sports"),
    ("Fry the onions in butter until golden.", "cooking"),
    ("The singer released her third album.", "music"),
    ("It will be sunny and warm until Friday.", "weather"),
    ("The goalkeeper saved a penalty.", "sports"),
    ("Simmer the soup for an hour and add salt.", "cooking"),
    ("He plays the guitar and the drums in a band.", "music"),
    ("Fog and frost will cover the valley.", "weather"),
)
LANGUAGES = (
    ("Where is the train station?", "English"),
    ("O\u00f9 est la gare, s'il vous pla\u00eet ?", "French"),
    ("Wo ist der Bahnhof, bitte?", "German"),
    ("\u00bfD\u00f3nde est\u00e1 la estaci\u00f3n?", "Spanish"),
    ("Je voudrais un verre d'eau.", "French"),
    ("Ich habe heute keine Zeit.", "German"),
    ("Me gusta mucho esta ciudad.", "Spanish"),
    ("She bought a loaf of bread.", "English"),
    ("Nous sommes en retard.", "French"),
    ("Der Hund schl\u00e4ft im Garten.", "German"),
    ("Mi hermano vive en el campo.", "Spanish"),
    ("They will come back tomorrow.", "English"),
)
FEELINGS = (
    ("Leo won the prize and jumped in the air. Leo feels", "happy", "angry", "tired", "afraid"),
    ("Her best friend moved away and she cried. She feels", "sad", "proud", "bored", "calm"),
    ("Someone scratched his new car and he shouted. He feels", "angry", "happy", "calm", "sleepy"),
    ("There was a strange noise in the dark house. The boy felt", "scared", "hungry", "proud", "happy"),
    ("After working for twenty hours she could hardly stand. She was", "tired", "happy", "angry", "rich"),
    ("He had not eaten since yesterday. He was very", "hungry", "proud", "jealous", "happy"),
    ("Grandmother gave her a lovely present. The girl was", "happy", "angry", "scared", "sick"),
    ("The long lecture went on and on and he yawned. He was", "bored", "scared", "thirsty", "angry"),
)
TICKETS = (
    ("I was charged twice for one order.", "billing"),
    ("My parcel has not arrived yet.", "delivery"),
    ("I cannot log in, my password is refused.", "account"),
    ("The app crashes when I open it.", "technical"),
    ("Please send me an invoice for my payment.", "billing"),
    ("The courier left the box at the wrong house.", "delivery"),
    ("How do I change my user name?", "account"),
    ("The screen shows an error and freezes.", "technical"),
)
ODD_ONES = (
    ("A hammer, a saw and a drill are all", "tools", "fruits", "birds", "rivers"),
    ("Gold, silver and iron are all", "metals", "gases", "plants", "colours"),
    ("Apples, pears and plums are all", "fruits", "tools", "metals", "fish"),
    ("Cars, buses and trains are all", "vehicles", "animals", "buildings", "fruits"),
    ("Red, green and blue are all", "colours", "numbers", "tools", "animals"),
    ("Paris, Rome and Tokyo are all", "cities", "rivers", "mountains", "oceans"),
    ("Tennis, golf and hockey are all", "sports", "foods", "songs", "metals"),
    ("Mars, Venus and Jupiter are all", "planets", "stars", "oceans", "cities"),
    ("Shirts, socks and trousers are all", "clothes", "drinks", "insects", "tools"),
    ("Ants, bees and beetles are all", "insects", "birds", "fish", "metals"),
)


def add_classification(b: Builder) -> None:
    few = "Word: sparrow, type: bird\nWord: cherry, type: fruit\n"
    few += "Word: sofa, type: furniture\nWord: car, type: vehicle\n"
    extra = {"colour": ["color"], "clothing": ["clothes"], "instrument": ["musical instrument"], "flower": ["plant"]}
    for word, answers in pairs(CATEGORY_WORDS):
        accepted = answers + extra.get(answers[0], [])
        b.generated("classification", "word to category", f"Word: {word}, type:", accepted, few, max_new_tokens=6)
    few = "Review: I hated it.\nSentiment: negative\n\nReview: It was lovely.\nSentiment: positive\n\n"
    for text, label in REVIEWS:
        wrong = ["negative" if label == "positive" else "positive"]
        b.choice("classification", "sentiment", f"Review: {text}\nSentiment:", label, wrong, few)
    few = "Text: The team lost the game.\nTopic: sports\n\nText: The pianist gave a recital.\nTopic: music\n\n"
    names = ("sports", "cooking", "music", "weather")
    for text, label in TOPICS:
        b.choice("classification", "topic", f"Text: {text}\nTopic:", label, [n for n in names if n != label], few)
    names = ("English", "French", "German", "Spanish")
    for text, label in LANGUAGES:
        prompt = f"Sentence: {text}\nLanguage:"
        few = "Sentence: Buongiorno a tutti.\nLanguage: Italian\n\n"
        b.choice("classification", "language", prompt, label, [n for n in names if n != label], few)
    for prompt, right, *wrong in FEELINGS:
        b.choice("classification", "feeling", prompt, right, wrong)
    names = ("billing", "delivery", "account", "technical")
    few = "Departments: billing, delivery, account, technical\nMessage: Where is my package?\nDepartment: delivery\n\n"
    for text, label in TICKETS:
        prompt = f"Message: {text}\nDepartment:"
        b.choice("classification", "support ticket", prompt, label, [n for n in names if n != label], few)
    for prompt, right, *wrong in ODD_ONES:
        b.choice("classification", "group name", prompt, right, wrong)


# --------------------------------------------------------------------------------------- instruction

REPEATED = ["garden", "window", "seven", "market", "silver", "planet", "button", "winter"]
SENTENCES = (
    "Birds sing in the morning", "Our neighbour grows tomatoes", "Rain kept us indoors", "Nobody saw the thief",
    "Every student passed the exam", "Please close that door", "Dogs like long walks", "Three ships left the harbour",
    "My sister paints houses", "Cold water feels good", "Most shops open early", "Nine people were waiting",
    "Green tea is healthy", "Old clocks tick loudly",
)  # fmt: skip
PLURALS = "book=books box=boxes baby=babies child=children foot=feet bus=buses city=cities mouse=mice leaf=leaves"
PASTS = "walk=walked go=went eat=ate stop=stopped write=wrote run=ran see=saw cook=cooked sing=sang give=gave"
REPLACEMENTS = (
    ("the cat sleeps", "cat", "baby"), ("I drink tea", "tea", "water"), ("we live in Spain", "Spain", "Italy"),
    ("a red ball", "red", "small"), ("he sells cars", "cars", "books"), ("the soup is cold", "cold", "hot"),
    ("she plays golf", "golf", "chess"),
)  # fmt: skip
JOINS = (("blue", "bird"), ("old", "man"), ("ice", "cream"), ("north", "wind"), ("top", "ten"), ("snow", "ball"))
DOUBLED = ["fish", "red", "hello", "seven", "jump", "moon"]
FIRST_LETTERS = ["tiger", "lemon", "pencil", "yellow", "garage", "minute", "zebra", "kitchen"]
INITIALS = (
    ("b", "basket", "carrot", "window", "pencil"), ("m", "monkey", "rabbit", "turtle", "spider"),
    ("s", "silver", "copper", "bronze", "carbon"), ("k", "kettle", "teapot", "napkin", "bottle"),
    ("d", "doctor", "farmer", "lawyer", "singer"), ("z", "zipper", "button", "collar", "pocket"),
    ("p", "Poland", "Sweden", "France", "Greece"), ("f", "finger", "tongue", "kidney", "throat"),
)  # fmt: skip
RULES = (
    ("a colour", "green", "table", "seven", "quick"),
    ("a number", "seven", "water", "purple", "horse"),
    ("an animal", "rabbit", "spoon", "winter", "yellow"),
    ("a day of the week", "Friday", "April", "London", "summer"),
    ("a fruit", "apple", "chair", "tiger", "stone"),
    ("a city", "Berlin", "Monday", "orange", "pencil"),
    ("a month", "April", "Sunday", "Paris", "lemon"),
    ("something to drink", "juice", "shirt", "brick", "cloud"),
    ("a part of the body", "elbow", "chair", "river", "spoon"),
    ("a musical instrument", "violin", "tomato", "jacket", "window"),
)


COMPARATIVES = "small=smaller fast=faster strong=stronger good=better easy=easier cheap=cheaper hot=hotter bad=worse"
CHAT_QUESTIONS = (
    ("What do bees make?", "Bees make honey.", "Bees make milk.", "Bees make glass.", "Bees make paper."),
    ("What colour is the sky on a clear day?", "The sky is blue.", "The sky is brown.", "The sky is green."),
    ("What is the capital of Italy?", "The capital of Italy is Rome.", "The capital of Italy is Cairo.",
     "The capital of Italy is Oslo.", "The capital of Italy is Lima."),
    ("How many days are in a week?", "There are seven days.", "There are nine days.", "There are two days.",
     "There are five days."),
    ("Where do fish live?", "Fish live in water.", "Fish live in trees.", "Fish live in caves.", "Fish live in nests."),
    ("What do cows eat?", "Cows eat grass.", "Cows eat stones.", "Cows eat meat.", "Cows eat paper."),
    ("When do we see the stars?", "We see stars at night.", "We see stars at noon.", "We see stars at lunch."),
    ("What is ice made of?", "Ice is made of water.", "Ice is made of sand.", "Ice is made of wood.",
     "Ice is made of iron."),
)  # fmt: skip


def add_instruction(b: Builder) -> None:
    few = "Say the word river: river\nSay the word candle: candle\n"
    for word in REPEATED:
        b.generated("instruction", "repeat a word", f"Say the word {word}:", [word], few)
    few = "Sentence: Fish swim in the sea\nFirst word: Fish\n\nSentence: My dog is small\nFirst word: My\n\n"
    few += "Sentence: Time flies\nFirst word: Time\n\n"
    for text in SENTENCES[:7]:
        b.generated("instruction", "first word", f"Sentence: {text}\nFirst word:", [text.split()[0]], few)
    few = "Sentence: Fish swim in the sea\nLast word: sea\n\nSentence: My dog is small\nLast word: small\n\n"
    few += "Sentence: Time flies\nLast word: flies\n\n"
    for text in SENTENCES[7:]:
        b.generated("instruction", "last word", f"Sentence: {text}\nLast word:", [text.split()[-1]], few)
    few = "Write the plural of car: cars\nWrite the plural of man: men\n"
    for word, answers in pairs(PLURALS):
        b.generated("instruction", "plural", f"Write the plural of {word}:", answers, few)
    few = "Compare: long -> longer\nCompare: weak -> weaker\nCompare: big -> bigger\n"
    for word, answers in pairs(COMPARATIVES):
        b.generated("instruction", "comparative", f"Compare: {word} ->", answers, few)
    few = "Put into the past: play -> played\nPut into the past: take -> took\nPut into the past: look -> looked\n"
    for word, answers in pairs(PASTS):
        b.generated("instruction", "past tense", f"Put into the past: {word} ->", answers, few)
    few = "Replace dog by bird: the dog is big -> the bird is big\n"
    for text, old, new in REPLACEMENTS:
        answer = " ".join(new if word == old else word for word in text.split())
        assert answer != text
        b.generated("instruction", "replace a word", f"Replace {old} by {new}: {text} ->", [answer], few)
    few = "Join sea and food with a hyphen: sea-food\nJoin hot and dog with a hyphen: hot-dog\n"
    for left, right in JOINS:
        prompt = f"Join {left} and {right} with a hyphen:"
        b.generated("instruction", "join with a hyphen", prompt, [f"{left}-{right}"], few)
    few = "Write cat twice: cat cat\nWrite sun twice: sun sun\n"
    for word in DOUBLED:
        b.generated("instruction", "write twice", f"Write {word} twice:", [f"{word} {word}"], few)
    few = "apple begins with a\nhouse begins with h\ndog begins with d\nwater begins with w\n"
    for word in FIRST_LETTERS:
        b.generated("instruction", "first letter", f"{word} begins with", [word[0]], few, max_new_tokens=4)
    few = "A word that begins with the letter c: camera\nA word that begins with the letter t: ticket\n"
    for letter, right, *wrong in INITIALS:
        assert right.lower()[0] == letter and all(w.lower()[0] != letter for w in wrong)
        b.choice("instruction", "initial letter", f"A word that begins with the letter {letter}:", right, wrong, few)
    few = "Write a tree: oak\nWrite a country: Egypt\n"
    for prompt, right, *wrong in RULES:
        b.choice("instruction", "answer of a set type", f"Write {prompt}:", right, wrong, few)
    for prompt, right, *wrong in CHAT_QUESTIONS:
        text = f"{prompt} Answer in one short sentence."
        b.choice("instruction", "short answer (chat)", text, right, wrong, template="chat")


# ------------------------------------------------------------------------------------------- reading

# Passages with two questions each share a cluster: (passage, question, right, wrong...), twice.
SHARED_PASSAGES = (
    (
        "The lighthouse was built of white stone. Its keeper, Edgar, lit the lamp every evening.",
        ("What was the lighthouse built of?", "stone", "wood", "brick", "steel"),
        ("What was the name of the keeper?", "Edgar", "Oliver", "Martin", "Victor"),
    ),
    (
        "Greta keeps goats on a hill. She makes cheese from their milk and sells it in town.",
        ("What animals does Greta keep?", "goats", "cows", "hens", "pigs"),
        ("What does Greta sell in town?", "cheese", "butter", "meat", "wool"),
    ),
    (
        "On Tuesday a storm broke the roof of the school. The pupils had lessons in the church.",
        ("What broke the roof?", "a storm", "a fire", "a tree", "a bomb"),
        ("Where did the pupils have lessons?", "the church", "the library", "the garden", "the station"),
    ),
    (
        "Ravi wanted to buy a drum, but it was too dear, so he bought a flute and learned to play it.",
        ("What did Ravi buy?", "a flute", "a drum", "a piano", "a guitar"),
        ("Why did Ravi not buy the drum?", "It was too dear.", "It was too loud.", "It was too big."),
    ),
    (
        "The ferry crosses the lake six times a day. In winter it stops because of the ice.",
        ("What does the ferry cross?", "the lake", "the river", "the sea", "the bay"),
        ("Why does the ferry stop in winter?", "because of ice", "because of wind", "because of fog"),
    ),
    (
        "Nora forgot her umbrella on the bus. The driver kept it and gave it back the next morning.",
        ("What did Nora forget?", "her umbrella", "her handbag", "her phone", "her coat"),
        ("Who gave it back to her?", "the driver", "the police", "her sister", "a child"),
    ),
)
SINGLE_PASSAGES = (
    ("Hugo is afraid of dogs, so he walks home through the park.", "What is Hugo afraid of?", "dogs", "cats", "bees"),
    ("The museum opens at nine and closes at five.", "When does the museum close?", "at five", "at nine", "at noon"),
    ("Instead of a cake, Irina baked a pie for the party.", "What did Irina bake?", "a pie", "a cake", "a loaf"),
    ("The box was so heavy that Finn left it in the car.", "Where is the box?", "in the car", "in the house",
     "in the shop"),
    ("Leila swims in the morning and reads at night.", "What does Leila do at night?", "reads", "swims", "sings"),
    ("All the apples were ripe except the green ones.", "Which apples were not ripe?", "the green ones",
     "the red ones", "the big ones"),
    ("The baker, who is older than the butcher, retired last year.", "Who retired?", "the baker", "the butcher",
     "the farmer"),
    ("A fox stole three hens while the farmer was asleep.", "What stole the hens?", "a fox", "a wolf", "a dog",
     "a man"),
    ("Because the lift was broken, they took the stairs.", "What was broken?", "the lift", "the stairs", "the door",
     "the lamp"),
    ("Yuki plays the violin; her twin brother plays the cello.", "What does Yuki play?", "the violin", "the cello",
     "the piano", "the flute"),
    ("The river flooded the cellar, and the wine was lost.", "What was lost?", "the wine", "the river", "the house",
     "the boat"),
    ("Noah put on his boots because there was snow outside.", "What did Noah put on?", "boots", "gloves", "shorts",
     "glasses"),
    ("The judge asked for silence and the crowd obeyed.", "What did the judge ask for?", "silence", "money", "water",
     "music"),
    ("Two of the plates broke when Carla dropped the tray.", "What did Carla drop?", "the tray", "the cup",
     "the bottle", "the spoon"),
    ("The hotel has a pool but no garden.", "What does the hotel have?", "a pool", "a garden", "a beach", "a bar"),
    ("Every evening the old man feeds the ducks at the pond.", "What does the old man feed?", "ducks", "pigeons",
     "horses", "sheep"),
    ("To fix the bike, Amir needs a new chain.", "What does Amir need?", "a chain", "a wheel", "a pump", "a lock"),
    ("The play was cancelled because the main actor was ill.", "Why was the play cancelled?", "The actor was ill.",
     "The hall was full.", "The lights failed."),
    ("We ate by the fire while the wind howled outside.", "Where did they eat?", "by the fire", "by the sea",
     "in the car", "on the roof"),
    ("Mr Stone teaches history, and his wife teaches maths.", "What does Mr Stone teach?", "history", "maths",
     "music", "biology"),
    ("The parrot learned to say hello in three weeks.", "What did the parrot learn to say?", "hello", "sorry",
     "thanks", "goodbye"),
    ("Ella's train was late, so she missed the wedding.", "What did Ella miss?", "the wedding", "the concert",
     "the lesson", "the match"),
    ("The twins share a room, but each has a desk.", "What do the twins share?", "a room", "a desk", "a bed",
     "a coat"),
    ("After the rain the path was covered with mud.", "What covered the path?", "mud", "snow", "sand", "grass"),
    ("The queen rode a white horse through the town.", "What did the queen ride?", "a horse", "a camel", "a bike",
     "a donkey"),
    ("Simon keeps his old letters in a tin box.", "Where are the letters?", "in a tin box", "in a drawer",
     "under the bed"),
    ("The guide spoke slowly so that everyone could follow.", "How did the guide speak?", "slowly", "quickly",
     "loudly", "angrily"),
    ("Aunt Vera sent a parcel full of oranges.", "What was in the parcel?", "oranges", "books", "letters", "shoes"),
    ("The farmer sold the field to buy a tractor.", "What did the farmer buy?", "a tractor", "a field", "a horse",
     "a house"),
    ("The baby stopped crying when the music began.", "When did the baby stop crying?", "when the music began",
     "when the sun rose", "when the dog barked"),
    ("Pavel is a firefighter and his wife is a vet.", "What is Pavel's job?", "firefighter", "vet", "teacher",
     "waiter"),
    ("Only one of the five lifeboats reached the shore.", "How many lifeboats reached the shore?", "one", "five",
     "two", "four"),
    ("Tess cut her finger while slicing bread.", "What was Tess slicing?", "bread", "cheese", "meat", "onions"),
    ("The owners called their new cafe The Blue Door.", "What is the cafe called?", "The Blue Door",
     "The Old Mill", "The Red Lion"),
    ("The snow melted and the river rose.", "Why did the river rise?", "The snow melted.", "The wind blew.",
     "The dam broke."),
    ("Marta whispered because the baby was asleep.", "Who was asleep?", "the baby", "Marta", "the dog",
     "the teacher"),
    ("The first bus was full, so we waited for the second.", "Why did we wait?", "The first bus was full.",
     "The second bus was late.", "The road was closed."),
)  # fmt: skip
READ_AND_WRITE = (
    ("Felix found a coin under the stairs.", "What did Felix find?", "a coin|coin"),
    ("The nurse gave the boy a glass of milk.", "Who gave the boy milk?", "the nurse|nurse|a nurse"),
    ("Every Sunday Olga visits her grandmother.", "When does Olga visit her grandmother?", "every Sunday|Sunday|"
     "on Sunday|on Sundays"),
    ("The wolf hid behind a rock.", "Where did the wolf hide?", "behind a rock|behind the rock"),
    ("Ben's new car is silver.", "What colour is Ben's car?", "silver"),
    ("Seven boats were lost in the storm.", "How many boats were lost?", "seven|7|seven boats"),
    ("The captain shouted, but the sailors slept.", "Who slept?", "the sailors|sailors"),
    ("Mina paid for lunch with a card.", "How did Mina pay?", "with a card|a card|card|by card"),
    ("The road to the castle is steep.", "What is steep?", "the road|road|the road to the castle"),
    ("Theo lost his watch at the beach.", "What did Theo lose?", "his watch|watch|a watch"),
    ("Rice is grown in the valley.", "What is grown in the valley?", "rice"),
    ("The tailor needs four buttons.", "How many buttons does the tailor need?", "four|4|four buttons"),
    ("Our cousin lives in Denmark.", "Where does the cousin live?", "Denmark|in Denmark"),
    ("A tall woman opened the gate.", "Who opened the gate?", "a tall woman|tall woman|the tall woman|woman|a woman|"
     "the woman"),
    ("The film begins at eight.", "When does the film begin?", "at eight|eight|8|at 8"),
    ("Jonas broke his arm while skiing.", "What did Jonas break?", "his arm|arm|an arm"),
    ("The soup tasted of garlic.", "What did the soup taste of?", "garlic|of garlic"),
    ("Kate wrote the letter in pencil.", "Who wrote the letter?", "Kate"),
    ("The owl sat in the tall pine.", "What sat in the pine?", "the owl|owl|an owl"),
    ("They named the puppy Biscuit.", "What is the puppy called?", "Biscuit"),
    ("The king gave his ring to the queen.", "Who got the ring?", "the queen|queen"),
    ("Rosa keeps her money in a drawer.", "Where does Rosa keep her money?", "in a drawer|a drawer|drawer|"
     "in her drawer|in the drawer"),
)  # fmt: skip


def add_reading(b: Builder) -> None:
    few = "Read: The ball rolled under the bed.\nQuestion: Where is the ball?\nAnswer: under the bed\n\n"
    for number, (passage, *questions) in enumerate(SHARED_PASSAGES, start=1):
        for question, right, *wrong in questions:
            prompt = f"Read: {passage}\nQuestion: {question}\nAnswer:"
            b.choice("reading", "shared passage", prompt, right, wrong, few, f"reading-passage-{number:02d}")
    for passage, question, right, *wrong in SINGLE_PASSAGES:
        prompt = f"Read: {passage}\nQuestion: {question}\nAnswer:"
        b.choice("reading", "one passage, choices", prompt, right, wrong, few)
    few = (
        "Text: The ball rolled under the bed.\nQ: Where is the ball?\nA: under the bed\n\n"
        "Text: A gardener planted roses.\nQ: Who planted roses?\nA: a gardener\n\n"
    )
    for passage, question, accepted in READ_AND_WRITE:
        answers = accepted.split("|")
        prompt = f"Text: {passage}\nQ: {question}\nA:"
        assert any(a.lower() in passage.lower() for a in answers), passage
        b.generated("reading", "one passage, written answer", prompt, answers, few, max_new_tokens=10)


# ------------------------------------------------------------------------------------------ ordering

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
LETTERS = string.ascii_uppercase
ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"]
SERIES = (
    (10, -1), (50, -10), (20, -5), (9, -2), (2, 2), (5, 5), (10, 10), (1, 2), (3, 3), (7, 1), (100, 100), (20, 10),
)  # fmt: skip
TRIPLES = ((7, 2, 5), (9, 4, 6), (3, 8, 1), (20, 10, 30), (6, 5, 4), (12, 15, 11), (2, 9, 7), (8, 1, 3))
SIZES = (
    ("Smallest to biggest: ant, mouse, dog,", "horse", "flea", "bee", "fly"),
    ("Shortest to longest: second, minute, hour,", "day", "moment", "instant", "second"),
    ("Youngest to oldest: baby, child, teenager,", "adult", "infant", "newborn", "toddler"),
    ("Coldest to hottest: ice, cool water, warm water,", "boiling water", "frozen water", "icy water"),
    ("Smallest to largest: village, town,", "city", "hut", "room", "door"),
    ("Slowest to fastest: snail, runner, car,", "jet plane", "turtle", "snail", "walker"),
    ("In order: breakfast, lunch,", "dinner", "morning", "breakfast", "toast"),
    ("In order: morning, afternoon,", "evening", "breakfast", "sunrise", "morning"),
    ("In order: first, second,", "third", "tenth", "first", "last"),
    ("In order: spring, summer,", "autumn", "spring", "weather", "sunshine"),
    ("Lightest to heaviest: feather, apple, brick,", "truck", "leaf", "pin", "hair"),
    ("Lowest to highest: cellar, ground floor, first floor,", "roof", "cellar", "cave", "mine"),
    ("Nearest to farthest: the garden, the village, the next town,", "the Moon", "the door", "my chair"),
    ("In order: egg, caterpillar, cocoon,", "butterfly", "egg", "seed", "spider"),
    ("In order: yesterday, today,", "tomorrow", "yesterday", "morning", "never"),
    ("In order: beginning, middle,", "end", "start", "half", "first"),
    ("Rank from low to high: soldier, captain,", "general", "private", "recruit", "beginner"),
    ("Weakest to strongest: breeze, wind,", "storm", "breath", "air", "calm"),
)
STEPS = (
    ("First he unlocked the door. Then he", "opened it.", "built it.", "ate it.", "sold it."),
    ("First she filled the kettle. Next she", "boiled the water.", "planted the water.", "read the water."),
    ("They bought tickets, found their seats, and then", "watched the film.", "cooked the film.", "wore the film."),
    ("To post a letter, write it, put it in an envelope, and add a", "stamp", "spoon", "window", "shoe"),
    ("To wash your hands, wet them, rub in soap, and then", "rinse them", "paint them", "cook them", "sell them"),
    ("He put on his socks and then his", "shoes", "bed", "house", "lunch"),
    ("Crack the eggs, beat them, and pour them into the", "pan", "car", "bag", "book"),
    ("She dug a hole, put in the seed, and covered it with", "soil", "ink", "fire", "glass"),
    ("The plane took off, flew for two hours, and then", "landed.", "sang.", "melted.", "slept."),
    ("She wrote her name at the end of the letter and", "posted it.", "drank it.", "planted it.", "wore it."),
    ("After the seed sprouted, the plant grew leaves, then flowers, then", "fruit.", "shoes.", "windows.", "teeth."),
    ("The phone rang, so she picked it up and said", "hello.", "goodbye.", "amen.", "cheers."),
    (
        "The audience took their seats, the lights went down, and",
        "the play began.",
        "the bread rose.",
        "the rain fell.",
    ),
    ("He cut the paper, folded it, and glued the", "edges.", "soup.", "clouds.", "music."),
    ("They lit the candles on the cake, sang, and then he", "blew them out.", "sold them all.", "read them aloud."),
    ("First the tree is cut down, then it is sawn into", "boards.", "bricks.", "bottles.", "bread."),
    ("He turned off the lamp, lay down in bed, and", "fell asleep.", "drove off.", "went skiing.", "caught fish."),
)


def add_ordering(b: Builder) -> None:
    few = "After Monday: Tuesday\nAfter Friday: Saturday\nAfter Sunday: Monday\n"
    for day in ("Tuesday", "Wednesday", "Thursday", "Saturday"):
        answer = DAYS[(DAYS.index(day) + 1) % 7]
        b.generated("ordering", "next day", f"After {day}:", [answer], few)
    few = "After January: February\nAfter June: July\nAfter October: November\n"
    for month in ("February", "March", "April", "August", "November", "December"):
        answer = MONTHS[(MONTHS.index(month) + 1) % 12]
        b.generated("ordering", "next month", f"After {month}:", [answer], few)
    few = "X, Y, Z\none, two, three\n"
    for run in (DAYS[:3], DAYS[3:6], MONTHS[:3], MONTHS[3:6], MONTHS[5:8], MONTHS[9:12], ORDINALS[1:4], ORDINALS[4:7]):
        b.generated("ordering", "run of names", f"{run[0]}, {run[1]},", [run[2]], few, (",", "\n", "."), 6)
    for start in (0, 4, 9, 15, 20):
        prompt = "Alphabet: " + ", ".join(LETTERS[start : start + 3]) + ","
        b.generated("ordering", "next letter", prompt, [LETTERS[start + 3]], "", (",", "\n", "."), 4)
    for start, step in SERIES:
        numbers = [str(start + step * i) for i in range(5)]
        prompt = "Go on counting: " + ", ".join(numbers[:4]) + ","
        b.generated("ordering", "next number", prompt, [numbers[4]], "", (",", "\n", "."), 6)
    few = "Sort: 3, 1, 2\nSorted: 1, 2, 3\n\nSort: 9, 5, 8\nSorted: 5, 8, 9\n\n"
    for triple in TRIPLES:
        answer = ", ".join(map(str, sorted(triple)))
        prompt = f"Sort: {triple[0]}, {triple[1]}, {triple[2]}\nSorted:"
        b.generated("ordering", "sort three numbers", prompt, [answer], few, max_new_tokens=12)
    for prompt, right, *wrong in SIZES:
        b.choice("ordering", "what follows in a scale", prompt, right, wrong)
    for prompt, right, *wrong in STEPS:
        b.choice("ordering", "next step", prompt, right, wrong)


# -------------------------------------------------------------------------------------------- yes_no

# Both choices say yes or no and give a short reason: alone, "yes" and "no" are decided by the model's bias.
FACT_CLAIMS = (
    ("Is the sun hot?", "yes, it is hot", "no, it is cold"),
    ("Is ice warm?", "no, it is cold", "yes, it is warm"),
    ("Can birds fly?", "yes, they have wings", "no, they have fins"),
    ("Can a stone sing?", "no, stones are silent", "yes, stones have voices"),
    ("Do cats have wings?", "no, they have paws", "yes, they have wings"),
    ("Is Paris in France?", "yes, it is in France", "no, it is in Japan"),
    ("Is Tokyo in Italy?", "no, it is in Japan", "yes, it is in Italy"),
    ("Is a rose a flower?", "yes, it is a flower", "no, it is a metal"),
    ("Is a carrot a metal?", "no, it is a vegetable", "yes, it is a metal"),
    ("Is gold a metal?", "yes, it is a metal", "no, it is a fruit"),
    ("Is grass blue?", "no, it is green", "yes, it is blue"),
    ("Do fish live in water?", "yes, they live in water", "no, they live in trees"),
    ("Is the Earth flat?", "no, it is round", "yes, it is flat"),
    ("Does a week have ten days?", "no, it has seven", "yes, it has ten"),
    ("Does a triangle have three sides?", "yes, it has three", "no, it has five"),
    ("Is London the capital of Spain?", "no, Madrid is", "yes, London is"),
    ("Is milk white?", "yes, it is white", "no, it is black"),
    ("Is summer warmer than winter?", "yes, it is warmer", "no, it is colder"),
    ("Is an elephant small?", "no, it is large", "yes, it is small"),
    ("Is sugar sweet?", "yes, it is sweet", "no, it is salty"),
    ("Is a desert wet?", "no, it is dry", "yes, it is wet"),
    ("Do bees make honey?", "yes, they make honey", "no, they make cheese"),
    ("Is a spider a bird?", "no, it has no wings", "yes, it has feathers"),
    ("Is the night dark?", "yes, it is dark", "no, it is bright"),
    ("Do trees grow under the sea?", "no, they grow on land", "yes, they grow in water"),
    ("Do doctors help sick people?", "yes, they treat them", "no, they teach them"),
    ("Is a snail fast?", "no, it is slow", "yes, it is fast"),
    ("Is the number ten larger than four?", "yes, it is larger", "no, it is smaller"),
    ("Is a feather heavy?", "no, it is light", "yes, it is heavy"),
    ("Is glass easy to break?", "yes, it is fragile", "no, it is soft"),
    ("Do cows lay eggs?", "no, hens do", "yes, cows do"),
    ("Is Africa a continent?", "yes, it is a continent", "no, it is a city"),
)
NOTES = (
    ("The shop is closed today.", "Is the shop open today?", "no, it is closed", "yes, it is open"),
    ("Lucy has two brothers.", "Does Lucy have brothers?", "yes, she has two", "no, she has none"),
    ("It did not rain at all in June.", "Did it rain in June?", "no, it was dry", "yes, it was wet"),
    ("The tickets are free for children.", "Do children have to pay?", "no, it is free", "yes, it is dear"),
    ("Pedro speaks French and Dutch.", "Does Pedro speak French?", "yes, he speaks it", "no, he never does"),
    ("The bridge was never finished.", "Was the bridge finished?", "no, it was not", "yes, it was"),
    ("Dana passed all of her exams.", "Did Dana pass?", "yes, she passed", "no, she failed"),
    ("Nobody came to the meeting.", "Did anyone come to the meeting?", "no, nobody came", "yes, many came"),
    ("The soup contains nuts.", "Are there nuts in the soup?", "yes, it contains nuts", "no, it contains beans"),
    ("Marco sold his boat in May.", "Does Marco still own the boat?", "no, he sold it", "yes, he owns it"),
    ("Both twins like chess.", "Do the twins like chess?", "yes, they like it", "no, they hate it"),
    ("The door was locked from inside.", "Was the door locked?", "yes, it was locked", "no, it was open"),
    ("The phone is out of battery.", "Does the phone work now?", "no, it is empty", "yes, it is full"),
    ("Helen is taller than Bruno.", "Is Helen taller than Bruno?", "yes, she is taller", "no, she is shorter"),
    ("The cake is for Nina, not for you.", "Is the cake for you?", "no, it is for Nina", "yes, it is for me"),
    ("The pool is heated in winter.", "Is the pool cold in winter?", "no, it is heated", "yes, it is cold"),
    ("Every seat on the plane was taken.", "Was the plane full?", "yes, it was full", "no, it was empty"),
    ("Arthur forgot to lock his bike.", "Did Arthur lock his bike?", "no, he forgot", "yes, he did"),
    ("The water in the well is clean.", "Is the water clean?", "yes, it is clean", "no, it is dirty"),
    ("The lamp is broken.", "Does the lamp work?", "no, it is broken", "yes, it works"),
    ("The letter arrived this morning.", "Has the letter arrived?", "yes, it arrived", "no, it was lost"),
    ("The cat stayed at home.", "Did the cat leave?", "no, it stayed", "yes, it left"),
    ("Juan has eaten nothing all day.", "Is Juan hungry?", "yes, he is hungry", "no, he is full"),
    ("The road is blocked by snow.", "Can cars use the road?", "no, it is blocked", "yes, it is clear"),
)


def add_yes_no(b: Builder) -> None:
    snakes = "Question: Do snakes have legs?\nAnswer: no, they crawl\n\n"
    tea = "Question: Is tea a drink?\nAnswer: yes, people drink it\n\n"
    for i, (question, right, wrong) in enumerate(FACT_CLAIMS):
        few = tea + snakes if i % 2 else snakes + tea
        b.choice("yes_no", "plain fact", f"Question: {question}\nAnswer:", right, [wrong], few)
    shut = "The window is shut. Is the window open?\nAnswer: no, it is shut\n\n"
    farmer = "Otto is a farmer. Is Otto a farmer?\nAnswer: yes, he is a farmer\n\n"
    for i, (text, question, right, wrong) in enumerate(NOTES):
        few = farmer + shut if i % 2 else shut + farmer
        b.choice("yes_no", "about a short text", f"{text} {question}\nAnswer:", right, [wrong], few)


# ------------------------------------------------------------------------------------------- writing


def check(items: Sequence[dict[str, Any]]) -> None:
    """Every rule of the format that can be checked without a tokenizer."""
    seen: set[str] = set()
    for item in items:
        name, prompt, few = item["id"], item["prompt"], item.get("few_shot", "")
        assert prompt.strip() and prompt == prompt.rstrip(), name
        key = re.sub(r"[\s.,;:!?]+", " ", prompt).casefold().strip()
        assert key not in seen, f"{name}: repeated prompt"
        seen.add(key)
        assert prompt not in few, f"{name}: the question stands in its own examples"
        assert unicodedata.is_normalized("NFC", few + prompt), name
        if item["metric"] == "multiple_choice":
            choices = item["choices"]
            assert 2 <= len(choices) <= 5 and len(set(choices)) == len(choices), name
            assert all(c == c.strip() and c for c in choices), name
            assert 0 <= item["answer"] < len(choices), name
        else:
            answers = [normalise(a) for a in item["answers"]]
            assert answers and all(answers) and len(set(answers)) == len(answers), name
            assert 1 <= item["max_new_tokens"] <= 12 and item["stop"], name
            for answer in item["answers"]:
                assert normalise(answer, item["stop"]) == normalise(answer), f"{name}: answer holds a stop string"


def build() -> Builder:
    builder = Builder(random.Random(SEED))
    for add in (
        add_facts, add_arithmetic, add_extraction, add_classification, add_instruction, add_reading, add_ordering,
        add_yes_no,
    ):  # fmt: skip
        add(builder)
    check(builder.items)
    return builder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for items.jsonl and manifest.json")
    parser.add_argument("--kinds", type=Path, help="also write the id-to-kind map here")
    args = parser.parse_args()
    builder = build()
    lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in builder.items]
    data = "".join(lines).encode("utf-8")
    sizes = Counter(item["slice"] for item in builder.items)
    manifest = {
        "schema_version": 1,
        "name": "everyday",
        "version": "v1",
        "sha256": hashlib.sha256(data).hexdigest(),
        "count": len(builder.items),
        "slices": {name: sizes[name] for name in SLICES},
        "licence": "Apache-2.0",
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "items.jsonl").write_bytes(data)
    (args.out / "manifest.json").write_bytes((json.dumps(manifest, indent=2) + "\n").encode("utf-8"))
    if args.kinds:
        args.kinds.write_text(json.dumps(builder.kinds, indent=1) + "\n", encoding="utf-8")
    choice_items = [item for item in builder.items if item["metric"] == "multiple_choice"]
    chance = sum(1 / len(item["choices"]) for item in choice_items) / len(choice_items)
    print(f"{len(builder.items)} items, {len(choice_items)} multiple choice, mean chance level {chance:.3f}")
    print(dict(sizes))
    print("right choice (choices, position):", dict(sorted(builder.positions.items())))


if __name__ == "__main__":
    main()
