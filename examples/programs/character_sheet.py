class InferenceModel(BaseModel):
    """Writes a character of a game as JSON.

    disciple exec examples/programs/character_sheet.py -n 16
    """

    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,11}$"},
            "kind": {"enum": ["wizard", "sailor", "smith"]},
            "strength": {"type": "integer", "minimum": 1, "maximum": 20},
            "carries": {
                "type": "array",
                "items": {"enum": ["rope", "lamp", "map"]},
                "minItems": 1,
                "maxItems": 3,
            },
        },
        "required": ["name", "kind", "strength", "carries"],
        "additionalProperties": False,
    }

    def __init__(self, context, max_tokens=120):
        super().__init__(context=context, max_tokens=max_tokens)

    @classmethod
    def prior_prompt(cls):
        return "Describe a character of a story in JSON."

    async def step(self):
        async with JsonMask(self, self.schema, whole=True) as sheet:
            if not await self.fill(sheet, tokens=3):
                return
        await self.end()

    def check(self, text):
        sheet = json.loads(text)
        return 1 <= sheet["strength"] <= 20 and len(sheet["carries"]) in (1, 2, 3)
