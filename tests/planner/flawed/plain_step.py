# flaw: step is not async
# line: 6
# fix: async def step(self)

class InferenceModel(BaseModel):
    def step(self):
        self.next_word()
