/*
 * The Java client as a user of the broker: produces records, reads them back without a group, and
 * prints what came back, one JSON object a line, for a Python test to compare.
 *
 * Run as a single source file:  java -cp 'libs/*' JavaRoundTrip.java BOOTSTRAP TOPIC COUNT VALUE_BYTES [SETTING...]
 * A SETTING is producer.NAME=VALUE or consumer.NAME=VALUE with the client's own names, for example
 * producer.compression.type=zstd or producer.acks=0.
 *
 * Record i goes to partition 0. Every third record has a null key, every fifth a null value, and every
 * second has headers, one of them with a null value; tests/support/java_round_trip.py expects the same.
 */

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaRoundTrip {
    private static final long FIRST_TIMESTAMP_MS = 1_700_000_000_000L;
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        int count = Integer.parseInt(arguments[2]);
        int valueBytes = Integer.parseInt(arguments[3]);
        List<String> settings = Arrays.asList(arguments).subList(4, arguments.length);

        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                     clientSettings("consumer.", bootstrap, settings),
                     new StringDeserializer(), new StringDeserializer());
             KafkaProducer<String, String> producer = new KafkaProducer<>(
                     clientSettings("producer.", bootstrap, settings),
                     new StringSerializer(), new StringSerializer())) {
            producer.partitionsFor(partition.topic());  // creates the topic where there is none yet
            long start = consumer.endOffsets(List.of(partition), PATIENCE).get(partition);
            List<Long> acknowledged = produce(producer, partition, count, valueBytes);
            List<ConsumerRecord<String, String>> records = consume(consumer, partition, start, count);
            print(records, acknowledged);
        }
    }

    private static Properties clientSettings(String side, String bootstrap, List<String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (String setting : settings) {
            if (setting.startsWith(side)) {
                String[] nameAndValue = setting.substring(side.length()).split("=", 2);
                properties.put(nameAndValue[0], nameAndValue[1]);
            }
        }
        return properties;
    }

    private static List<Long> produce(
            KafkaProducer<String, String> producer, TopicPartition partition, int count, int valueBytes)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String key = i % 3 == 0 ? null : "key-" + i;
            String value = i % 5 == 4 ? null : pad("välue-" + i, valueBytes);
            ProducerRecord<String, String> record = new ProducerRecord<>(
                    partition.topic(), partition.partition(), FIRST_TIMESTAMP_MS + i, key, value);
            if (i % 2 == 1) {
                record.headers().add("index", Integer.toString(i).getBytes(StandardCharsets.UTF_8));
                record.headers().add("nothing", null);
            }
            sent.add(producer.send(record));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> answer : sent) {
            offsets.add(answer.get().offset());  // -1 with acks=0; throws what the broker refused
        }
        return offsets;
    }

    private static String pad(String value, int bytes) {
        int missing = bytes - value.getBytes(StandardCharsets.UTF_8).length;
        return missing > 0 ? value + ".".repeat(missing) : value;
    }

    private static List<ConsumerRecord<String, String>> consume(
            KafkaConsumer<String, String> consumer, TopicPartition partition, long start, int count) {
        consumer.assign(List.of(partition));
        consumer.seek(partition, start);
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (records.size() < count) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("only " + records.size() + " of " + count + " records came back");
            }
            records.addAll(consumer.poll(Duration.ofMillis(200)).records(partition));
        }
        return records;
    }

    private static void print(List<ConsumerRecord<String, String>> records, List<Long> acknowledged)
            throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream out = new PrintStream(
                new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (int i = 0; i < records.size(); i++) {
            ConsumerRecord<String, String> record = records.get(i);
            List<List<String>> headers = new ArrayList<>();
            for (Header header : record.headers()) {
                byte[] value = header.value();
                headers.add(Arrays.asList(
                        header.key(), value == null ? null : new String(value, StandardCharsets.UTF_8)));
            }
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("offset", record.offset());
            line.put("acknowledged_offset", i < acknowledged.size() ? acknowledged.get(i) : null);
            line.put("timestamp_ms", record.timestamp());
            line.put("key", record.key());
            line.put("value", record.value());
            line.put("headers", headers);
            out.println(json.writeValueAsString(line));
        }
        out.flush();
    }
}
