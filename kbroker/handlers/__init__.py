"""One module for each API; importing this package fills the registry."""

from kbroker.handlers import (
    alter_configs as alter_configs,
)
from kbroker.handlers import (
    api_versions as api_versions,
)
from kbroker.handlers import (
    create_partitions as create_partitions,
)
from kbroker.handlers import (
    create_topics as create_topics,
)
from kbroker.handlers import (
    delete_records as delete_records,
)
from kbroker.handlers import (
    delete_topics as delete_topics,
)
from kbroker.handlers import (
    describe_cluster as describe_cluster,
)
from kbroker.handlers import (
    describe_configs as describe_configs,
)
from kbroker.handlers import (
    describe_log_dirs as describe_log_dirs,
)
from kbroker.handlers import (
    describe_topic_partitions as describe_topic_partitions,
)
from kbroker.handlers import (
    fetch as fetch,
)
from kbroker.handlers import (
    incremental_alter_configs as incremental_alter_configs,
)
from kbroker.handlers import (
    init_producer_id as init_producer_id,
)
from kbroker.handlers import (
    list_offsets as list_offsets,
)
from kbroker.handlers import (
    metadata as metadata,
)
from kbroker.handlers import (
    offset_for_leader_epoch as offset_for_leader_epoch,
)
from kbroker.handlers import (
    produce as produce,
)
