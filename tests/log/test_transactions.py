"""The transactions of a topic, as its messages say which there are."""

from __future__ import annotations

import random

from tablestore.log.kafka.transactions import TransactionMark, Transactions
from tablestore.log.log import Appended, CommitMark
from tests.log.topic_log import SentMessage

Script = dict[int, list[str]]  # by partition, of which transaction each message is: "" of none


def read(script: Script, orders: dict[str, int] | None = None) -> list[Appended]:
    """The transactions of a topic with these messages, the first of each in a partition with its mark."""
    names = sorted({name for messages in script.values() for name in messages if name})
    counts = {n: {p: messages.count(n) for p, messages in script.items() if n in messages} for n in names}
    transactions = Transactions("t")
    for partition, actual in script.items():
        for offset, name in enumerate(actual):
            header = None
            if name and name not in actual[:offset]:
                order = (orders or {}).get(name, 1)
                mark = TransactionMark(name, order, 7, counts[name], CommitMark(name, 1))
                header = mark.encode()
            transactions.take(partition, SentMessage(offset, header))
    return list(transactions.appended({p: len(messages) for p, messages in script.items()}))


def names(actual: list[Appended]) -> list[str]:
    return ["" if transaction.mark is None else transaction.mark.user for transaction in actual]


def test_transactions_come_in_the_order_of_their_messages_whatever_their_marks_say() -> None:
    content = read({0: ["a", "b", "b"], 1: ["c", "b"]}, {"a": 9, "b": 1, "c": 5})
    assert names(content) == ["c", "a", "b"]
    assert [(transaction.start, transaction.end) for transaction in content[2:]] == [
        ({0: 1, 1: 1}, {0: 3, 1: 2})
    ]
    assert not any(transaction.mixed for transaction in content)


def test_of_two_that_are_first_in_a_partition_each_one_is_mixed() -> None:
    content = read({0: ["a", "b"], 1: ["b", "a"], 2: ["b", "c"]})
    assert names(content) == ["a", "b", "c"]
    assert [transaction.mixed for transaction in content] == [True, False, False]


def test_messages_without_a_mark_stay_where_they_are() -> None:
    content = read({0: ["", "a", "a", "", "", "b"], 1: ["", "b"]})
    assert names(content) == ["", "a", "", "b"]
    assert [(transaction.start, transaction.end) for transaction in content] == [
        ({0: 0, 1: 0}, {0: 1, 1: 1}),
        ({0: 1}, {0: 3}),
        ({0: 3}, {0: 5}),
        ({0: 5, 1: 1}, {0: 6, 1: 2}),
    ]


def test_messages_without_a_mark_inside_another_transaction_are_certain_of_neither() -> None:
    content = read({0: ["a", "b", "b", "a", "c"]})
    assert [(transaction.start, transaction.end, transaction.mixed) for transaction in content] == [
        ({0: 0}, {0: 4}, True),
        ({0: 1}, {0: 3}, True),
        ({0: 4}, {0: 5}, False),
    ]
    assert [transaction.between for transaction in content] == [{0: (range(1, 4),)}, {0: (range(2, 3),)}, {}]


def test_every_message_is_of_a_transaction_that_comes_after_those_before_it() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        script = {p: [n for _ in range(5) for n in [rng.choice(["", *"abcdef"])] * 2] for p in range(3)}
        content = read(script, {name: rng.randrange(4) for name in "abcdef"})
        for partition, messages in script.items():
            spans = [
                range(transaction.start[partition], transaction.end[partition])
                for transaction in content
                if partition in transaction.start
            ]
            assert {offset for span in spans for offset in span} == set(range(len(messages)))
            if not any(transaction.mixed for transaction in content):
                assert spans == sorted(spans, key=lambda span: span.start)
