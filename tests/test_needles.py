"""A long memory is found by each of its sentences, and what is shown is the part that says it."""

import random

import pytest

import memorist
from memorist.embed.local import LocalEmbedder

# A sentence hidden in a note, and a question that it answers.
NEEDLES = (
    ("The spare key of the archive hangs behind the fire extinguisher.", "where is the extra key for the archive?"),
    ("Petra is allergic to walnuts.", "which food must Petra avoid?"),
    ("The staging database is wiped every Sunday night.", "when does staging lose its data?"),
    ("We agreed to drop support for Internet Explorer.", "which browser do we no longer support?"),
    ("The new logo must not be used before the trade fair.", "from when may we use the new logo?"),
    ("Our landlord is called Mr Okafor.", "who owns the building we rent?"),
    ("The invoice of the caterer is still unpaid.", "do we owe anybody money for food?"),
    ("Passwords are rotated twice a year.", "how often do passwords change?"),
    ("The elevator makes a grinding noise on the third floor.", "what is wrong with the lift?"),
    ("Julia will be on parental leave from April.", "when is Julia away with her baby?"),
    ("The export job crashes when a name contains an apostrophe.", "what makes the export fail?"),
    ("Coffee beans are ordered from a roaster in Trieste.", "where does our coffee come from?"),
    ("The intern prefers to be called Sam.", "what should we call the intern?"),
    ("Backups of the wiki are stored on the blue hard disk.", "where are copies of the wiki?"),
    ("The summer party takes place at the lake.", "where do we celebrate in summer?"),
    ("Retries are limited to five, because the bank blocks noisy clients.", "why is the number of retries limited?"),
    ("The printer on the second floor only accepts recycled paper.", "what kind of paper does the printer need?"),
    ("Our mascot is a badger named Olaf.", "what animal is our mascot?"),
    ("The fire drill was moved to the ninth of May.", "when do we practise leaving the building?"),
    ("Tomatoes grow on the roof terrace.", "what is planted on the roof?"),
)
FILLER = (
    "The weather stayed mild and the windows were open all day.",
    "Somebody had brought a cake, of which little was left by noon.",
    "We went through the list once more and changed two words.",
    "The second half of the afternoon was quiet.",
    "A long discussion about the colour of the curtains led nowhere.",
    "Several people had to leave early to catch a train.",
    "The chairs were put back where they had been before.",
    "It was pointed out that this had been said before.",
    "Nobody could remember who had asked for it in the first place.",
    "The projector needed a moment until the picture was sharp.",
    "There was some laughter at the back of the room.",
    "The minutes of the previous meeting were approved without a change.",
    "After a short break everybody found their seats again.",
    "One of the microphones had to be replaced.",
    "The schedule for next week looks much like that of this week.",
    "Most of the questions had been answered by then.",
    "A few details were left for another time.",
    "The tables by the window were taken first.",
    "It took a while until the last slide appeared.",
    "In the end everyone agreed that it had been a good day.",
)


@pytest.mark.parametrize("sentences", [20, 40, 80])
def test_a_sentence_among_many_is_found_and_reaches_the_context(bundled_model: LocalEmbedder, sentences: int) -> None:
    drawn = random.Random(sentences)
    with memorist.open(":memory:", embedder=bundled_model, on_near_duplicate="off") as memory:
        ids = {}
        for needle, _ in NEEDLES:
            note = [drawn.choice(FILLER) for _ in range(sentences)]
            note[drawn.randrange(sentences)] = needle
            ids[needle] = memory.add(" ".join(note)).id

        found = [
            needle
            for needle, question in NEEDLES
            if ids[needle] in [hit.memory.id for hit in memory.search(question, limit=3)]
        ]
        told = [needle for needle, question in NEEDLES if needle in memory.context(question, budget=600)]

    assert len(found) >= 19
    assert len(told) >= 16
