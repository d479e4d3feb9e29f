"""How a text becomes entities and facts: prompts, answer models, reading of replies, and the questions to the model."""
