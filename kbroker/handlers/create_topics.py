"""CreateTopics (19): new topics, each with its own result, durable before the answer.

-1 for partitions or replication factor takes the broker's default. With manual assignments both
must be -1, and every partition is on this broker.
Versions: 4 allows -1; 5 returns the configs; 7 the topic id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable

from kbroker.broker import Broker
from kbroker.handlers.describe_configs import topic_value
from kbroker.handlers.durable import when_durable
from kbroker.handlers.registry import Call, api
from kbroker.handlers.topic_rules import (
    check_name,
    check_new_name,
    check_replication,
    check_room,
    parse_overrides,
)
from kbroker.protocol.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
)
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.setting import Value
from kbroker.settings_table import TOPIC_SETTINGS


@api(CreateTopicsRequest, CreateTopicsResponse)
def create_topics(
    call: Call[CreateTopicsRequest],
) -> CreateTopicsResponse | Awaitable[CreateTopicsResponse]:
    """Makes what can be made, and says why not for the rest."""
    request, broker = call.request, call.broker
    names = Counter(topic.name for topic in request.topics)
    results = []
    for name in names:
        wanted = next(topic for topic in request.topics if topic.name == name)
        try:
            if names[name] > 1:
                raise InvalidRequest(f"{name} is named twice")
            results.append(_create(broker, wanted, request.validate_only))
        except KafkaError as problem:
            results.append(
                CreatableTopicResult(
                    name=name, error_code=problem.code, error_message=problem.message, configs=[]
                )
            )
    response = CreateTopicsResponse(topics=results)
    if request.validate_only or not any(result.error_code == 0 for result in results):
        return response
    return when_durable(broker, response)


def _create(broker: Broker, wanted: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    check_name(wanted.name)
    check_new_name(broker, wanted.name)
    overrides = parse_overrides({config.name: config.value for config in wanted.configs})
    count = _partition_count(broker, wanted)
    check_room(broker, count)
    if validate_only:
        topic_id = broker.catalog.new_topic_id()  # Kafka shows one here, too, that nobody will have
    else:
        topic_id = broker.catalog.create(wanted.name, count, overrides).id
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        num_partitions=count,
        replication_factor=1,
        configs=_configs(broker, overrides),
    )


def _partition_count(broker: Broker, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise InvalidRequest(
                "partitions and replication factor must be -1 when assignments are given"
            )
        indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
        if indexes != list(range(len(indexes))):
            raise InvalidReplicaAssignment("partitions must be numbered from 0 without a gap")
        for assignment in wanted.assignments:
            if assignment.broker_ids != [broker.node_id]:
                raise InvalidReplicaAssignment(f"the only broker is {broker.node_id}")
        return len(indexes)
    check_replication(wanted.replication_factor)
    if wanted.num_partitions == -1:
        return broker.settings.integer("num.partitions")
    if wanted.num_partitions < 1:
        raise InvalidPartitions(f"a topic has at least 1 partition, not {wanted.num_partitions}")
    return wanted.num_partitions


def _configs(broker: Broker, overrides: dict[str, Value]) -> list[CreatableTopicConfigs]:
    configs = []
    for name, setting in TOPIC_SETTINGS.items():
        text, source = topic_value(broker, setting, overrides)
        configs.append(
            CreatableTopicConfigs(
                name=name, value=text, read_only=False, config_source=source, is_sensitive=False
            )
        )
    return configs
