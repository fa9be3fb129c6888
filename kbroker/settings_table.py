"""All settings, each declared once: those of topics, and those of the broker.

From these tables come the parsers, the range checks, the answers to DescribeConfigs,
docs/settings.md and the values that the code uses. Names are Kafka's, so that every admin tool
shows what users know; MetaQ's are aliases in files.
"""

from __future__ import annotations

from typing import Final

from kbroker.setting import BOOLEAN, DOUBLE, INT, INT_MAX, LIST, LONG, LONG_MAX, STRING, Setting

_REPLICAS: Final = r"\*|(\d+:\d+(,\d+:\d+)*)?"

TOPIC_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "cleanup.policy",
            LIST,
            ["delete"],
            "What happens to old segments: delete, compact, or both.",
            choices=("delete", "compact"),
            broker_name="log.cleanup.policy",
        ),
        Setting(
            "compression.type",
            STRING,
            "producer",
            "Codec of stored batches; producer keeps what the client sent.",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            broker_name="compression.type",
        ),
        Setting(
            "compression.gzip.level",
            INT,
            -1,
            "Level when the broker itself compresses with gzip; -1 is gzip's own default.",
            choices=("-1", *map(str, range(1, 10))),
            broker_name="compression.gzip.level",
        ),
        Setting(
            "compression.lz4.level",
            INT,
            9,
            "Level when the broker itself compresses with lz4.",
            low=1,
            high=17,
            broker_name="compression.lz4.level",
        ),
        Setting(
            "compression.zstd.level",
            INT,
            3,
            "Level when the broker itself compresses with zstd.",
            low=-131072,
            high=22,
            broker_name="compression.zstd.level",
        ),
        Setting(
            "delete.retention.ms",
            LONG,
            86_400_000,
            "How long tombstones of a compacted topic stay.",
            low=0,
            broker_name="log.cleaner.delete.retention.ms",
        ),
        Setting(
            "file.delete.delay.ms",
            LONG,
            60_000,
            "How long a deleted segment's file stays.",
            low=0,
            broker_name="log.segment.delete.delay.ms",
        ),
        Setting(
            "flush.messages",
            LONG,
            LONG_MAX,
            "Records after which a partition is synced to disk; 1 syncs before each answer.",
            low=1,
            broker_name="log.flush.interval.messages",
            metaq_name="unflushThreshold",
        ),
        Setting(
            "flush.ms",
            LONG,
            10_000,
            "Time after which written records are synced to disk.",
            low=0,
            broker_name="log.flush.interval.ms",
            unset_for_brokers=True,
            metaq_name="unflushInterval",
        ),
        Setting(
            "index.interval.bytes",
            INT,
            4096,
            "Bytes between two entries of a segment's index.",
            low=0,
            broker_name="log.index.interval.bytes",
        ),
        Setting(
            "max.compaction.lag.ms",
            LONG,
            LONG_MAX,
            "Time after which a record must be considered for compaction.",
            low=1,
            broker_name="log.cleaner.max.compaction.lag.ms",
        ),
        Setting(
            "max.message.bytes",
            INT,
            1_048_588,
            "Largest record batch that is accepted.",
            low=0,
            broker_name="message.max.bytes",
        ),
        Setting(
            "message.timestamp.after.max.ms",
            LONG,
            3_600_000,
            "How far a record's time may lie ahead of the broker's.",
            low=0,
            broker_name="log.message.timestamp.after.max.ms",
        ),
        Setting(
            "message.timestamp.before.max.ms",
            LONG,
            LONG_MAX,
            "How far a record's time may lie behind the broker's.",
            low=0,
            broker_name="log.message.timestamp.before.max.ms",
        ),
        Setting(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            "Whose clock counts: the producer's (CreateTime) or the broker's (LogAppendTime).",
            choices=("CreateTime", "LogAppendTime"),
            broker_name="log.message.timestamp.type",
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            DOUBLE,
            0.5,
            "Share of uncompacted bytes at which compaction starts.",
            low=0,
            high=1,
            broker_name="log.cleaner.min.cleanable.ratio",
        ),
        Setting(
            "min.compaction.lag.ms",
            LONG,
            0,
            "Time for which a record stays uncompacted.",
            low=0,
            broker_name="log.cleaner.min.compaction.lag.ms",
        ),
        Setting(
            "min.insync.replicas",
            INT,
            1,
            "Replicas that must hold a record before acks=all is answered.",
            low=1,
            broker_name="min.insync.replicas",
        ),
        Setting(
            "preallocate",
            BOOLEAN,
            False,
            "Whether segments are allocated at full size when they are made.",
            broker_name="log.preallocate",
        ),
        Setting(
            "retention.bytes",
            LONG,
            -1,
            "Size of a partition beyond which old segments go; -1 is no limit.",
            broker_name="log.retention.bytes",
        ),
        Setting(
            "retention.ms",
            LONG,
            604_800_000,
            "Age at which segments go; -1 keeps them.",
            low=-1,
            broker_name="log.retention.ms",
            unset_for_brokers=True,
        ),
        Setting(
            "segment.bytes",
            INT,
            1_073_741_824,
            "Size at which a segment is sealed and the next one opened.",
            low=1024,
            broker_name="log.segment.bytes",
            metaq_name="maxSegmentSize",
        ),
        Setting(
            "segment.index.bytes",
            INT,
            10_485_760,
            "Kept for Kafka's tools; indexes here grow as they need.",
            low=4,
            broker_name="log.index.size.max.bytes",
        ),
        Setting(
            "segment.jitter.ms",
            LONG,
            0,
            "Random time by which an age-based roll comes earlier.",
            low=0,
            broker_name="log.roll.jitter.ms",
            unset_for_brokers=True,
        ),
        Setting(
            "segment.ms",
            LONG,
            604_800_000,
            "Age at which a segment is sealed.",
            low=1,
            broker_name="log.roll.ms",
            unset_for_brokers=True,
        ),
        Setting(
            "unclean.leader.election.enable",
            BOOLEAN,
            False,
            "Whether a replica that is behind may become master by itself.",
            broker_name="unclean.leader.election.enable",
        ),
        # Kafka's tools expect these in the list; throttles and tiered storage do not exist here.
        Setting(
            "leader.replication.throttled.replicas",
            LIST,
            [],
            "Kept for Kafka's tools: replicas as partition:broker, or * for all.",
            pattern=_REPLICAS,
        ),
        Setting(
            "follower.replication.throttled.replicas",
            LIST,
            [],
            "Kept for Kafka's tools: replicas as partition:broker, or * for all.",
            pattern=_REPLICAS,
        ),
        Setting(
            "remote.storage.enable",
            BOOLEAN,
            False,
            "Kept for Kafka's tools: there is no tiered storage, so it stays false.",
            choices=("false",),
        ),
        Setting(
            "remote.log.copy.disable",
            BOOLEAN,
            False,
            "Kept for Kafka's tools: there is no tiered storage.",
        ),
        Setting(
            "remote.log.delete.on.disable",
            BOOLEAN,
            False,
            "Kept for Kafka's tools: there is no tiered storage.",
        ),
        Setting(
            "local.retention.bytes",
            LONG,
            -2,
            "Kept for Kafka's tools: all data is local; -2 stands for retention.bytes.",
            low=-2,
            broker_name="log.local.retention.bytes",
        ),
        Setting(
            "local.retention.ms",
            LONG,
            -2,
            "Kept for Kafka's tools: all data is local; -2 stands for retention.ms.",
            low=-2,
            broker_name="log.local.retention.ms",
        ),
        Setting(
            "kbroker.flush.group.commit",
            BOOLEAN,
            False,
            "Answer only what is synced; one sync covers all that arrived meanwhile.",
            broker_name="kbroker.flush.group.commit",
        ),
    )
}

BROKER_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "node.id",
            INT,
            0,
            "This broker's number in its cluster.",
            low=0,
            metaq_name="brokerId",
            dynamic=False,
        ),
        Setting(
            "num.partitions",
            INT,
            1,
            "Partitions of a topic that is made without a number.",
            low=1,
            metaq_name="numPartitions",
        ),
        Setting(
            "default.replication.factor",
            INT,
            1,
            "Copies of a topic that is made without a number.",
            low=1,
        ),
        Setting(
            "auto.create.topics.enable",
            BOOLEAN,
            True,
            "Whether asking for an unknown topic makes it.",
        ),
        Setting("delete.topic.enable", BOOLEAN, True, "Whether topics may be deleted."),
        Setting(
            "log.dirs",
            LIST,
            ["kbroker-data"],
            "The data folder.",
            metaq_name="dataPath",
            dynamic=False,
        ),
        Setting(
            "listeners",
            LIST,
            ["PLAINTEXT://127.0.0.1:9092"],
            "Addresses the broker listens on.",
            dynamic=False,
        ),
        Setting(
            "advertised.listeners",
            LIST,
            [],
            "Addresses that clients are told; without it, the one at which each has come.",
            dynamic=False,
        ),
        Setting(
            "socket.request.max.bytes",
            INT,
            104_857_600,
            "Largest request that is read.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.control.request.max.bytes",
            INT,
            4 << 20,
            "Largest request without records; decoded, it takes up to 30 times its size.",
            low=1024,
            dynamic=False,
        ),
        Setting("max.connections", INT, INT_MAX, "Connections the broker holds at once.", low=0),
        Setting(
            "kbroker.connection.max.unsent.bytes",
            INT,
            16 << 20,
            "Unsent answer bytes at which a connection is not read further.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.connection.max.parked.requests",
            INT,
            100,
            "Unanswered requests at which a connection is not read further.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.max.parked.fetches",
            INT,
            100_000,
            "Long polls that may wait at once; beyond that they are answered at once.",
            low=0,
            dynamic=False,
        ),
        Setting(
            "kbroker.max.open.files",
            INT,
            2000,
            "Segment files kept open at once.",
            low=16,
            dynamic=False,
        ),
        Setting(
            "max.incremental.fetch.session.cache.slots",
            INT,
            1000,
            "Fetch sessions kept (KIP-227).",
            low=0,
            dynamic=False,
        ),
        Setting(
            "producer.id.expiration.ms",
            INT,
            86_400_000,
            "Time after which an idle producer's sequence numbers are forgotten.",
            low=1,
        ),
        Setting(
            "transaction.max.timeout.ms",
            INT,
            900_000,
            "Longest time a transaction may take.",
            low=1,
        ),
        Setting(
            "log.flush.offset.checkpoint.interval.ms",
            INT,
            60_000,
            "How often the recovery point is saved.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.memory",
            BOOLEAN,
            False,
            "Whether this broker keeps nothing (start --memory); shown, not set.",
            dynamic=False,
        ),
        Setting(
            "kbroker.version",
            STRING,
            "",
            "This broker's version; shown, not set.",
            dynamic=False,
        ),
        Setting(
            "kbroker.started.ms",
            LONG,
            0,
            "When this broker was started, in milliseconds since 1970; shown, not set.",
            dynamic=False,
        ),
        Setting(
            "kbroker.max.partitions", INT, 100_000, "Partitions of all topics together.", low=1
        ),
    )
}

# Stored and shown, as Kafka's tools expect, and nothing follows from them yet.
WITHOUT_EFFECT: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "retention.bytes",
        "retention.ms",
        "segment.index.bytes",
        "segment.jitter.ms",
        "unclean.leader.election.enable",
    }
)

# A topic setting's broker-wide twin has the same kind, default and range. Some twins have no value
# until somebody sets one, as in Kafka, where they only stand before others (log.retention.hours).
_TOPIC_TWINS: Final = {
    setting.broker_name: Setting(
        setting.broker_name,
        setting.kind,
        None if setting.unset_for_brokers else setting.default,
        setting.help,
        low=setting.low,
        high=setting.high,
        choices=setting.choices,
        metaq_name=setting.metaq_name,
    )
    for setting in TOPIC_SETTINGS.values()
    if setting.broker_name
}
ALL_BROKER_SETTINGS: Final = {**BROKER_SETTINGS, **_TOPIC_TWINS}
METAQ_NAMES: Final = {s.metaq_name: s for s in ALL_BROKER_SETTINGS.values() if s.metaq_name}
