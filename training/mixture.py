"""How often each source and each kind of example is drawn.

The numbers are relative weights. Simple modern prose is about 12 % of the corpus by size and is
taken several times as often as that; fiction and verse, whose English is older, much less.
"""

SENTENCE_WEIGHTS = {
    "common-voice-sentences": 26,
    "tatoeba": 14,
    "coco-captions": 5,
    "global-asp-stories": 8,
    "onestopenglish": 8,
    "wikisplit": 6,
    "e2e-restaurants": 1,
    "schema-guided-dialogue": 2,
    "wikipedia-leads": 7,
    "wikinews": 5,
    "gap-wikipedia": 2,
    "standardebooks": 6,
    "18f-blog": 2,
    "digitalgov": 2,
    "plainlanguage": 1,
    "openstax": 2,
    "gsm8k": 2,
    "world-english-bible": 1,
}
PARAGRAPH_WEIGHTS = {
    "global-asp-stories": 20,
    "onestopenglish": 20,
    "wikipedia-leads": 18,
    "wikinews": 9,
    "gap-wikipedia": 5,
    "wikisplit": 4,
    "e2e-restaurants": 2,
    "standardebooks": 8,
    "18f-blog": 5,
    "digitalgov": 4,
    "plainlanguage": 1,
    "openstax": 5,
    "world-factbook": 2,
    "gsm8k": 3,
    "world-english-bible": 1,
}
STORY_WEIGHTS = {
    "global-asp-stories": 30,
    "onestopenglish": 25,
    "wikipedia-leads": 15,
    "wikinews": 12,
    "standardebooks": 8,
    "18f-blog": 4,
    "openstax": 4,
    "digitalgov": 2,
}
# Share of each kind of example, in draws; sentences are short, so about half of the tokens.
KINDS = {
    "sentence": 64.0,
    "paragraph": 16.0,
    "same-start": 3.5,
    "topic-group": 1.5,
    "story": 4.5,
    "poem": 2.5,
    "list": 2.0,
    "ingredients": 1.2,
    "abstract": 2.0,
    "itinerary": 0.8,
}
