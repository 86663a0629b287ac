"""
Chat: conversations with language models.

Decisions and their reasons:

- Chat providers are called with the standard library's HTTP client. Three small streams to read and no package to
  install; one place for keys, addresses and refusals, shared with the embedders. The providers' own SDKs judge it in
  the tests.
- Memories recalled for a first message stay in the system prompt; tool calls are dropped after their answer. What was
  said is what is saved and continued; a prompt that stays the same is cheap for a provider, and a search can be made
  again.
- A message is saved with its answer, a session ends with its last turn. A crash leaves nothing open and costs at most
  the exchange under way; a refused message leaves nothing to be recalled.
"""
