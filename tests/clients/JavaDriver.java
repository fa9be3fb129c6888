/*
 * One JVM for many tests: it reads a command a line as JSON, obeys with Apache Kafka's Java client or one
 * of Kafka's command lines, and answers with a line of JSON. Starting a JVM and loading Kafka's classes
 * costs a second or more, obeying a few milliseconds; java_driver.py is the other end.
 *
 * Keys, values and header values travel as base64, so that null, empty and binary ones stay apart.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;

public class JavaDriver {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final ObjectMapper JSON = new ObjectMapper();

    private static Load load;

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer;
            try {
                answer = obey(JSON.readTree(line));
            } catch (Throwable problem) {
                problem.printStackTrace();
                answer = JSON.createObjectNode().put("failed", problem.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static ObjectNode obey(JsonNode command) throws Exception {
        switch (command.get("command").asText()) {
            case "run":
                return run(command);
            case "produce":
                return produce(command);
            case "consume":
                return consume(command);
            case "offsets":
                return offsets(command);
            case "start load":
                load = new Load(command);
                load.start();
                return JSON.createObjectNode();
            case "load size":
                return JSON.createObjectNode().put("size", load.acknowledged);
            case "stop load":
                return load.finish();
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    // Kafka's command lines

    /** Thrown where a tool would end the JVM. Some tools catch it and exit again: the first code counts. */
    private static class Exited extends Error {
        Exited() {
            super("exited", null, false, false);
        }
    }

    /**
     * Calls a tool's main as the shell would, with its own input and output. Its exit ends only the call, and
     * what it wants done when the JVM ends is done then: the console producer flushes in such a hook.
     */
    private static ObjectNode run(JsonNode command) throws Exception {
        List<String> arguments = new ArrayList<>();
        command.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        List<Integer> exitCodes = new ArrayList<>();
        Exit.Procedure exit = (code, message) -> {
            exitCodes.add(code);
            throw new Exited();
        };
        List<Runnable> shutdownHooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> shutdownHooks.add(hook));
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        try {
            System.setIn(new ByteArrayInputStream(command.get("stdin").binaryValue()));
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            Class.forName(command.get("main").asText())
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException raised) {
            if (!(raised.getCause() instanceof Exited)) {
                raised.getCause().printStackTrace();
                exitCodes.add(1);
            }
        } finally {
            shutdownHooks.forEach(Runnable::run);
            System.setIn(in);
            System.setOut(out);
            System.setErr(err);
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
            Exit.resetShutdownHookAdder();
        }
        return JSON.createObjectNode()
                .put("exit_code", exitCodes.isEmpty() ? 0 : exitCodes.get(0))
                .put("stdout", said.toString(StandardCharsets.UTF_8))
                .put("stderr", complained.toString(StandardCharsets.UTF_8));
    }

    // The producer

    private static KafkaProducer<byte[], byte[]> producer(JsonNode command) {
        return new KafkaProducer<>(
                settings(command), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ObjectNode produce(JsonNode command) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode results = answer.putArray("results");
        try (KafkaProducer<byte[], byte[]> producer = producer(command)) {
            for (JsonNode record : command.get("records")) {
                sent.add(producer.send(producerRecord(record)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                ObjectNode result = results.addObject();
                try {
                    RecordMetadata metadata = future.get();
                    result.put("partition", metadata.partition());
                    result.put("offset", metadata.hasOffset() ? metadata.offset() : -1);
                } catch (ExecutionException refused) {
                    result.put("error", refused.getCause().getClass().getSimpleName());
                }
            }
        }
        return answer;
    }

    private static ProducerRecord<byte[], byte[]> producerRecord(JsonNode record) throws IOException {
        ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(
                record.get("topic").asText(),
                record.get("partition").isNull() ? null : record.get("partition").asInt(),
                record.get("timestamp_ms").isNull() ? null : record.get("timestamp_ms").asLong(),
                bytes(record.get("key")),
                bytes(record.get("value")));
        for (JsonNode header : record.get("headers")) {
            made.headers().add(header.get(0).asText(), bytes(header.get(1)));
        }
        return made;
    }

    /** A producer that goes on until it is told to stop, one acknowledged record after the other. */
    private static class Load extends Thread {
        private final KafkaProducer<byte[], byte[]> producer;
        private final String topic;
        private final ArrayNode offsets = JSON.createArrayNode();
        private volatile int acknowledged = 0;
        private volatile boolean stopping = false;
        private volatile String error = null;

        Load(JsonNode command) {
            producer = producer(command);
            topic = command.get("topic").asText();
            setDaemon(true);
        }

        @Override
        public void run() {
            try (producer) {
                for (int i = 0; !stopping; i++) {
                    byte[] value = Integer.toString(i).getBytes(StandardCharsets.UTF_8);
                    offsets.add(producer.send(new ProducerRecord<>(topic, value)).get().offset());
                    acknowledged = i + 1;
                }
            } catch (Exception problem) {
                error = problem.toString();
            }
        }

        ObjectNode finish() throws InterruptedException {
            stopping = true;
            join(PATIENCE.toMillis());
            ObjectNode answer = JSON.createObjectNode();
            answer.set("offsets", offsets);
            return answer.put("error", isAlive() ? "did not stop" : error);
        }
    }

    // The consumer, without a group

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        return new KafkaConsumer<>(
                settings(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Reads from the offsets given until `count` records are there. */
    private static ObjectNode consume(JsonNode command) throws Exception {
        int count = command.get("count").asInt();
        Map<TopicPartition, Long> starts = new HashMap<>();
        for (JsonNode partition : command.get("partitions")) {
            starts.put(topicPartition(partition), partition.get(2).asLong());
        }
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            consumer.assign(starts.keySet());
            starts.forEach(consumer::seek);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    describe(record, records.addObject());
                }
            }
        }
        return answer;
    }

    private static void describe(ConsumerRecord<byte[], byte[]> record, ObjectNode described) {
        described.put("topic", record.topic());
        described.put("partition", record.partition());
        described.put("offset", record.offset());
        described.put("timestamp_ms", record.timestamp());
        described.put("key", record.key());
        described.put("value", record.value());
        ArrayNode headers = described.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
    }

    /** The first and next offset of each partition, and the first one at or after a time. */
    private static ObjectNode offsets(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode found = answer.putArray("partitions");
        Map<TopicPartition, Long> times = new HashMap<>();
        for (JsonNode partition : command.get("partitions")) {
            times.put(topicPartition(partition), partition.get(2).asLong());
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            Map<TopicPartition, Long> first = consumer.beginningOffsets(times.keySet());
            Map<TopicPartition, Long> next = consumer.endOffsets(times.keySet());
            Map<TopicPartition, OffsetAndTimestamp> atTime = consumer.offsetsForTimes(times);
            for (JsonNode partition : command.get("partitions")) {
                TopicPartition asked = topicPartition(partition);
                ArrayNode line = found.addArray().add(first.get(asked)).add(next.get(asked));
                OffsetAndTimestamp hit = atTime.get(asked);
                line.add(hit == null ? -1 : hit.offset()).add(hit == null ? -1 : hit.timestamp());
            }
        }
        return answer;
    }

    // JSON

    private static Properties settings(JsonNode command) {
        Properties settings = new Properties();
        settings.put("fetch.max.wait.ms", "50");  // a longer wait for more only costs the tests time
        command.get("settings").fields().forEachRemaining(
                entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }

    private static TopicPartition topicPartition(JsonNode partition) {
        return new TopicPartition(partition.get(0).asText(), partition.get(1).asInt());
    }

    private static byte[] bytes(JsonNode base64) throws IOException {
        return base64.isNull() ? null : base64.binaryValue();
    }
}
