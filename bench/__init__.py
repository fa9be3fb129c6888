"""kbroker beside Apache Kafka on one machine, interleaved: what README.md in this folder tells."""
