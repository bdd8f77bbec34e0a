"""Write the example data set: support messages, each with its label as JSON.

    python examples/triage/make_data.py

The messages are put together from sentences that were written for this purpose; no customer ever
said them. The same script always writes the same two files, ``train.jsonl`` and ``heldout.jsonl``.
The last problems of each category occur in the held-out file only: a model has to have learned
what billing is, and not which sentences are billing.
"""

import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
SYSTEM = "Label the support message."
TRAINING_ROWS, HELD_OUT_ROWS = 360, 24
KEPT_BACK = 2  # problems of each category that training never sees
SEED = 20

PROBLEMS = {
    "billing": (
        "I was charged {amount} twice for order {order}.",
        "My {month} invoice shows {amount}, but the plan costs less than that.",
        "The discount code from your newsletter was not taken off my bill.",
        "You took {amount} from my card although I cancelled in {month}.",
        "Where can I download the invoice for order {order}?",
        "The tax number on the {month} invoice is wrong and our bookkeeper sends it back.",
        "Can we pay by bank transfer instead of card from {month} on?",
        "The refund of {amount} that you promised has not reached my account.",
        "My card was declined, yet the payment of {amount} shows as pending.",
        "Why does the receipt say {amount} when the basket said something else?",
        "We were billed for three seats and only use two.",
        "There is a late fee of {amount} on my invoice, and I paid on time.",
    ),
    "delivery": (
        "The parcel with my {product} should have been here on {day}.",
        "Tracking for order {order} has not moved since {day}.",
        "The courier left my {product} with a neighbour I do not know.",
        "Could you send order {order} to my office instead of my flat?",
        "The box arrived open and the {product} was missing.",
        "Half of order {order} came on {day}, where is the rest?",
        "I will be away on {day}; can the driver come another time?",
        "Your site says delivered, but nobody brought the {product}.",
        "The street number on my shipping label is wrong, please correct it.",
        "How long does shipping a {product} to Norway take?",
        "The driver rang once and drove off with my {product} again.",
        "Order {order} went to my old address.",
    ),
    "account": (
        "I cannot log in since I changed my e-mail address.",
        "The link to reset my password expires before the mail arrives.",
        "Please delete my profile and everything you store about me.",
        "Someone signed in to my account from a city I have never been to.",
        "How do I add a colleague as a second user?",
        "My user name is spelled wrong; can you change it?",
        "The code for two-step login never reaches my new phone.",
        "I have two profiles by accident, please merge them.",
        "It says my account is locked after too many attempts.",
        "I want to stop the newsletter but keep my login.",
        "My colleague left the company and we need her user removed.",
        "The sign-up page says my e-mail is already taken.",
    ),
    "technical": (
        "The app closes by itself whenever I open the {feature}.",
        "Since the update on {day} the {feature} stays blank.",
        "My {product} no longer connects to the wireless network.",
        "The {feature} shows error {code} and nothing else.",
        "The {product} makes a loud click and then switches off.",
        "Pages load for a minute when I use the {feature}.",
        "Can the {product} be used with the older charger?",
        "After the firmware update my {product} forgets its settings.",
        "The export from the {feature} is an empty file.",
        "The screen of my {product} flickers in the evening.",
        "Error {code} appears each time the {product} starts.",
        "The search in the {feature} finds nothing, whatever I type.",
    ),
}
WORDS = {
    "amount": (
        "12.90 euros",
        "49 dollars",
        "8.50 euros",
        "120 pounds",
        "19.99 dollars",
        "340 euros",
    ),
    "month": ("January", "March", "April", "June", "August", "October", "December"),
    "day": ("Monday", "Tuesday", "Thursday", "Friday", "Saturday", "the 3rd", "the 21st"),
    "product": (
        "kettle",
        "desk lamp",
        "headset",
        "coffee grinder",
        "keyboard",
        "air filter",
        "scale",
    ),
    "feature": ("calendar", "report page", "photo upload", "dashboard", "shopping list", "map"),
    "order": ("70412", "A-1187", "20-5533", "96001", "K3390"),
    "code": ("E14", "503", "0x80", "E2", "417"),
}
URGENCY = {
    "low": (
        "No hurry at all.",
        "Whenever you find the time.",
        "Just asking out of interest.",
        "It can wait until next month.",
        "This is only a small thing.",
    ),
    "normal": (
        "Please let me know.",
        "Could you look into it this week?",
        "I would be glad about an answer.",
        "Thanks for checking.",
        "What can we do about it?",
    ),
    "high": (
        "I need this solved today!",
        "This is urgent, we cannot work.",
        "Please call me back within the hour.",
        "It has to be fixed before tonight.",
        "This is the third time I write, act now.",
    ),
}
GREETINGS = ("", "", "Hi, ", "Hello, ", "Good morning. ", "Dear team, ", "Hey there, ")
CLOSINGS = (
    "",
    "",
    "",
    " Best, Ana",
    " Regards, J. Okafor",
    " Thanks, Mila",
    " Tom",
    " Yours, Priya",
)


def main() -> None:
    """Write both files beside this script."""
    rng = random.Random(SEED)
    write(HERE / "train.jsonl", rows(rng, TRAINING_ROWS, held_out=False))
    write(HERE / "heldout.jsonl", rows(rng, HELD_OUT_ROWS, held_out=True))


def rows(rng: random.Random, count: int, *, held_out: bool) -> list[dict[str, object]]:
    """So many rows without two equal messages, every label about equally often."""
    labels = [(category, urgency) for category in PROBLEMS for urgency in URGENCY]
    made: dict[str, dict[str, object]] = {}
    while len(made) < count:
        category, urgency = labels[len(made) % len(labels)]
        text = message(rng, category, urgency, held_out=held_out)
        made.setdefault(text, row(text, category, urgency))
    return rng.sample(list(made.values()), count)


def message(rng: random.Random, category: str, urgency: str, *, held_out: bool) -> str:
    """One message: a problem and how much it matters, in either order."""
    known, new = PROBLEMS[category][:-KEPT_BACK], PROBLEMS[category][-KEPT_BACK:]
    words = {name: rng.choice(values) for name, values in WORDS.items()}
    parts = [rng.choice(new if held_out else known).format(**words), rng.choice(URGENCY[urgency])]
    if rng.random() < 0.25:
        parts.reverse()
    return rng.choice(GREETINGS) + " ".join(parts) + rng.choice(CLOSINGS)


def row(text: str, category: str, urgency: str) -> dict[str, object]:
    """The message as a chat, with its label as the answer."""
    label = json.dumps({"category": category, "urgency": urgency})
    return {
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": text},
            {"role": "assistant", "content": label},
        ]
    }


def write(path: Path, made: list[dict[str, object]]) -> None:
    """One row a line."""
    path.write_text("".join(json.dumps(each) + "\n" for each in made), encoding="utf-8")


if __name__ == "__main__":
    main()
