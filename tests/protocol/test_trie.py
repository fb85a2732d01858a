"""The trie parts a vocabulary's tokens by the byte that comes next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from disciple_ext.protocol.trie import ByteTrie

ALPHABET = st.binary(max_size=4).map(lambda data: bytes(b"ab\x00\xff"[x % 4] for x in data))


@given(st.lists(ALPHABET, max_size=30), ALPHABET)
def test_the_segments_of_a_node_are_the_tokens_that_go_on(
    tokens: list[bytes], begun: bytes
) -> None:
    node = ByteTrie(tokens).node(begun)
    longer = {i for i, t in enumerate(tokens) if t.startswith(begun) and len(t) > len(begun)}
    assert sorted(node.ids.tolist()) == sorted(longer)
    ends = [*node.starts.tolist(), len(node.ids)][1:]
    seen: list[tuple[int, int]] = []
    for start, end, byte, token in zip(node.starts, ends, node.bytes, node.tokens, strict=True):
        members = node.ids[start:end].tolist()
        assert {tokens[i][len(begun)] for i in members} == {byte}
        if token >= 0:
            assert members == [token] and tokens[token] == begun + bytes([byte])
        else:
            assert all(len(tokens[i]) > len(begun) + 1 for i in members)
            seen.append((int(byte), -1))
    assert node.bytes.tolist() == sorted(node.bytes.tolist())
    assert len(seen) == len(set(seen)), "the longer tokens of one byte are one segment"


def test_nodes_are_remembered_and_tokens_without_bytes_are_no_text() -> None:
    trie = ByteTrie([b"", b"ab", b"", b"a"])
    assert trie.node(b"") is trie.node(b"")
    assert trie.node(b"").ids.tolist() == [3, 1] and trie.longest == 2
