"""Topics and settings through the command line, against a running broker."""

import json

import pytest

from tests.cli.commands import Run, without_what_varies


def test_a_topic_is_created_listed_described_grown_and_deleted(ask_fresh: Run) -> None:
    created = ask_fresh(
        *("topics", "create", "orders", "--partitions", "2"),
        *("--config", "retention.ms=3600000", "--config", "flush.messages=1"),
    ).check()
    assert created.out == "created topic orders with 2 partitions\n"
    ask_fresh("produce", "orders", "--partition", "1", stdin=b"one\ntwo\n").check()

    listed = ask_fresh("topics", "list").check()
    assert listed.out == "TOPIC   PARTITIONS  REPLICAS\norders           2         1\n"

    described = ask_fresh("topics", "describe", "orders").check()
    assert without_what_varies(described.out).splitlines() == [
        "orders: 2 partitions, id ID",
        "  flush.messages=1",
        "  retention.ms=3600000",
        "PARTITION  EARLIEST  LATEST  RECORDS  SIZE  LEADER  REPLICAS  IN-SYNC",
        "        0         0       0        0   0 B       0  0         0",
        "        1         0       2        2  81 B       0  0         0",
    ]

    altered = ask_fresh(
        "topics", "alter", "orders", "--partitions", "4", "--config", "retention.ms=1000"
    ).check()
    assert altered.out == "set retention.ms=1000 for topic orders\ntopic orders has 4 partitions\n"

    deleted = ask_fresh("topics", "delete", "orders").check()
    assert deleted.out == "deleted topic orders\n"
    nothing = ask_fresh("topics", "list").check()
    assert nothing.out == ""
    assert "kbroker topics create NAME" in nothing.err


def test_a_topic_is_told_as_json(ask_fresh: Run) -> None:
    ask_fresh("topics", "create", "orders", "--config", "retention.ms=1000").check()
    ask_fresh("produce", "orders", stdin=b"one\n").check()

    (listed,) = json.loads(ask_fresh("topics", "list", "--json").check().out)
    (described,) = json.loads(ask_fresh("topics", "describe", "orders", "--json").check().out)
    assert listed == {
        "name": "orders",
        "id": described["id"],
        "partitions": 1,
        "replicas": 1,
        "internal": False,
    }
    assert described["configs"] == {"retention.ms": "1000"}
    (partition,) = described["partitions"]
    assert partition["bytes"] > 61
    del partition["bytes"]
    assert partition == {
        "partition": 0,
        "leader": 0,
        "replicas": [0],
        "in_sync": [0],
        "earliest": 0,
        "latest": 1,
        "records": 1,
    }


def test_creating_what_exists_fails_unless_that_is_fine(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name).check()
    said = ask("topics", "create", topic_name).refused()
    assert "already exists; choose another name" in said
    ask("topics", "create", topic_name, "--if-not-exists").check()


def test_a_topic_cannot_get_fewer_partitions(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name, "--partitions", "3").check()
    said = ask("topics", "alter", topic_name, "--partitions", "2").refused()
    assert "has 3 partitions and a topic cannot get fewer" in said


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "describe", "{}"),
        ("topics", "alter", "{}", "--partitions", "3"),
        ("topics", "delete", "{}"),
        ("consume", "{}"),
        ("configs", "show", "--topic", "{}"),
        ("configs", "set", "--topic", "{}", "retention.ms=1"),
        ("configs", "unset", "--topic", "{}", "retention.ms"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_an_unknown_topic_is_named_with_the_one_that_was_perhaps_meant(
    ask: Run, topic_name: str, words: tuple[str, ...]
) -> None:
    ask("topics", "create", topic_name).check()
    said = ask(*(word.format(f"{topic_name}x") for word in words)).refused()
    assert f"there is no topic {topic_name}x on 127.0.0.1:" in said
    assert f"did you mean {topic_name}?" in said


def test_deleting_several_topics_deletes_none_if_one_does_not_exist(
    ask: Run, topic_name: str
) -> None:
    ask("topics", "create", topic_name).check()
    ask("topics", "delete", topic_name, f"{topic_name}-and-more").refused()
    ask("topics", "describe", topic_name).check()


def test_settings_are_shown_with_their_source_and_set_and_unset(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name).check()
    none_yet = ask("configs", "show", "--topic", topic_name).check()
    assert none_yet.out == ""
    assert f"topic {topic_name} has no settings of its own; see the defaults with --all" in (
        none_yet.err
    )

    changed = ask("configs", "set", "--topic", topic_name, "retention.ms=5000", "flush.ms=70")
    assert changed.check().out.splitlines() == [
        f"set retention.ms=5000 for topic {topic_name}",
        f"set flush.ms=70 for topic {topic_name}",
    ]
    assert ask("configs", "show", "--topic", topic_name).check().out.splitlines() == [
        "SETTING       VALUE  SOURCE",
        "flush.ms      70     topic",
        "retention.ms  5000   topic",
    ]
    ask("configs", "unset", "--topic", topic_name, "retention.ms").check()
    everything = ask("configs", "show", "--topic", topic_name, "--all", "--json").check()
    configs = {config["name"]: config for config in json.loads(everything.out)["configs"]}
    assert configs["retention.ms"]["value"] == "604800000"
    assert configs["retention.ms"]["source"] == "default"
    assert configs["flush.ms"]["source"] == "topic"
    assert "synced to disk" in configs["flush.ms"]["help"]


def test_settings_of_a_broker_are_shown_set_and_unset(ask_fresh: Run) -> None:
    ask_fresh("configs", "set", "--broker", "0", "num.partitions=3").check()
    ask_fresh("configs", "set", "--all-brokers", "log.retention.ms=1000").check()
    shown = ask_fresh("configs", "show").check().out
    assert [line.split(maxsplit=2)[:2] for line in shown.splitlines()] == [
        ["SETTING", "VALUE"],
        ["log.retention.ms", "1000"],
        ["num.partitions", "3"],
    ]
    shared = ask_fresh("configs", "show", "--all-brokers").check().out
    assert "log.retention.ms  1000   all brokers" in shared
    created = ask_fresh("topics", "create", "three").check()
    assert created.out == "created topic three with 3 partitions\n"
    ask_fresh("configs", "unset", "--broker", "0", "num.partitions").check()
    assert "num.partitions" not in ask_fresh("configs", "show").check().out


def test_a_change_of_settings_is_made_whole_or_not_at_all(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name).check()
    said = ask(
        "configs", "set", "--topic", topic_name, "retention.ms=5000", "flush.ms=soon"
    ).refused()
    assert "flush.ms is a number, not 'soon'" in said
    assert ask("configs", "show", "--topic", topic_name).check().out == ""


def test_a_change_says_whose_settings_it_is_for(ask: Run) -> None:
    assert "Say whose settings" in ask("configs", "set", "retention.ms=1").refused(2)
    both = ask("configs", "set", "--topic", "x", "--broker", "0", "retention.ms=1")
    assert "Give only one of" in both.refused(2)


def test_a_broker_that_is_not_there_is_named(ask: Run) -> None:
    assert (
        "there is no broker 77 in the cluster" in ask("configs", "show", "--broker", "77").refused()
    )
