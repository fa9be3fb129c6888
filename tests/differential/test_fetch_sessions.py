"""Fetch sessions (KIP-227): full and incremental fetches, what is news, wrong ids and epochs.

A session's id is chance; what is compared is whether there is one, and what the answers hold.
"""

import pytest

from kbroker.protocol.messages.fetch import FetchPartition, FetchResponse
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import Scene, Topic, batch, fetch_request
from tests.differential.test_fetch import NO_SUCH_ID, wanted

VERSIONS = [7, 11, 12, 13, 18]
NO_SESSION, INITIAL, FINAL = 0, 0, -1
NO_SUCH_SESSION = 12345  # an id near the largest one makes Apache Kafka fail


class Session:
    """A consumer's side of a session: its id, its epoch, and the plain answers."""

    def __init__(self, scene: Scene, version: int) -> None:
        self._scene = scene
        self._version = version
        self.id = NO_SESSION
        self.epoch = INITIAL

    def fetch(
        self,
        *asked: tuple[Topic, FetchPartition],
        forgotten: list[tuple[Topic, list[int]]] | None = None,
        max_bytes: int = 1 << 20,
    ) -> Plain:
        """The next fetch of the session; the first one makes it."""
        request = fetch_request(
            *asked, session=(self.id, self.epoch), forgotten=forgotten, max_bytes=max_bytes
        )
        answer = self._scene.told(request, FetchResponse, self._version)
        same = answer.session_id == self.id
        if self.epoch == INITIAL:
            self.id = answer.session_id
        self.epoch = self.epoch + 1 if self.id else INITIAL
        kind = "none" if answer.session_id == NO_SESSION else "same" if same else "new"
        return [kind, self._scene.plain(answer)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_incremental_answer_holds_only_news(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=3)
        scene.fill(topic, batch(b"a"), batch(b"b"))
        session = Session(scene, version)
        told = {
            "first": session.fetch(*[(topic, wanted(index)) for index in range(3)]),
            "the same again": session.fetch(),
            "read on": session.fetch((topic, wanted(0, 2))),
            "nothing new": session.fetch(),
        }
        scene.fill(topic, batch(b"c"), index=1)
        told["records in another"] = session.fetch()
        told["not read yet"] = session.fetch()
        told["read"] = session.fetch((topic, wanted(1, 1)))
        scene.trim(topic, 1)
        told["another log start"] = session.fetch()
        told["told already"] = session.fetch()
        return told

    both.agree(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_join_and_leave_a_session(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic, other = scene.create(partitions=3), scene.create("other")
        for index in range(3):
            scene.fill(topic, batch(b"a"), index=index)
        scene.fill(other, batch(b"b"))
        session = Session(scene, version)
        return {
            "first": session.fetch((topic, wanted(0))),
            "one more": session.fetch((topic, wanted(1))),
            "another topic": session.fetch((other, wanted(0))),
            "one leaves": session.fetch(forgotten=[(topic, [0])]),
            "an unknown one leaves": session.fetch(forgotten=[(topic, [0, 7])]),
            "one leaves and comes": session.fetch((topic, wanted(1, 1)), forgotten=[(topic, [1])]),
            "after that": session.fetch(),
            "all leave": session.fetch(forgotten=[(topic, [1, 2]), (other, [0])]),
            "one comes back": session.fetch((topic, wanted(2))),
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_sessions_and_wrong_epochs(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        scene.fill(topic, batch(b"a"))

        def ask(session_id: int, epoch: int, *asked: tuple[Topic, FetchPartition]) -> Plain:
            request = fetch_request(*asked, session=(session_id, epoch))
            answer = scene.told(request, FetchResponse, version)
            kind = answer.session_id and ("same" if answer.session_id == session_id else "new")
            return [kind, scene.plain(answer)]

        session = Session(scene, version)
        told = {
            "unknown id": ask(NO_SUCH_SESSION, 1),
            "unknown id, with partitions": ask(NO_SUCH_SESSION, 1, (topic, wanted())),
            "no id": ask(NO_SESSION, 1),
            "epoch -2": ask(NO_SUCH_SESSION, -2),
            "unknown id, final": ask(NO_SUCH_SESSION, FINAL, (topic, wanted())),
            "unknown id, initial": ask(NO_SUCH_SESSION, INITIAL, (topic, wanted())),
            "none wanted": ask(NO_SESSION, FINAL, (topic, wanted())),
            "nothing asked": ask(NO_SESSION, INITIAL),
            "first": session.fetch((topic, wanted())),
            "too early": ask(session.id, 2),
            "again": ask(session.id, 1),
            "too late": ask(session.id, 1),
            "next": ask(session.id, 2),
            "a new one for the old": ask(session.id, INITIAL, (topic, wanted())),
            "the old one": ask(session.id, 3),
        }
        other = Session(scene, version)
        told["other"] = other.fetch((topic, wanted()))
        told["closed"] = ask(other.id, FINAL, (topic, wanted()))
        told["after that"] = ask(other.id, 1)
        return told

    both.agree(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_inside_a_session(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=2)
        scene.fill(topic, batch(b"a"))
        missing = Topic(scene.name("missing"), NO_SUCH_ID)
        scene.call_id(NO_SUCH_ID, "nothing")
        session = Session(scene, version)
        return {
            "out of range": session.fetch((topic, wanted(0, 50)), (topic, wanted(1))),
            "still": session.fetch(),
            "mended": session.fetch((topic, wanted(0, 1))),
            "nothing new": session.fetch(),
            "unknown partition": session.fetch((topic, wanted(5))),
            "still unknown": session.fetch(),
            "forgotten": session.fetch(forgotten=[(topic, [5])]),
            "unknown topic": session.fetch((missing, wanted())),
            "unknown topic still": session.fetch(),
            "wrong leader epoch": session.fetch(
                (topic, wanted(1, current_epoch=9)), forgotten=[(missing, [0])]
            )
            if version >= 9
            else None,
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_goes_on_in_another_version(both: Both, version: int) -> None:
    """Sessions with names (to 12) and with ids (from 13) do not mix."""
    other = {12: 13, 13: 12}[version]

    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        scene.fill(topic, batch(b"a"))
        session = Session(scene, version)
        told = {"first": session.fetch((topic, wanted()))}
        for case, asked in (("empty", []), ("more", [(topic, wanted())])):
            request = fetch_request(*asked, session=(session.id, 1))
            answer = scene.told(request, FetchResponse, other)
            told[case] = [answer.session_id == 0, scene.plain(answer)]
        return told

    both.agree(scenario)


def test_partitions_take_turns_under_a_limit(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(partitions=3)
        for index in range(3):
            scene.fill(topic, *[batch(b"x" * 100)] * 6, index=index)
        session = Session(scene, 18)
        size = len(batch(b"x" * 100))
        told = [session.fetch(*[(topic, wanted(i)) for i in range(3)], max_bytes=size)]
        told += [session.fetch(max_bytes=size) for _ in range(5)]
        return told

    both.agree(scenario)
