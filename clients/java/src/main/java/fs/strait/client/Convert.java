package fs.strait.client;

import fs.strait.client.internal.SetAttributesRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Set;

/** Conversions from messages, where any field may be missing, to this package's records. */
final class Convert {
    private Convert() {}

    static FileInfo file(fs.strait.client.internal.FileInfo info) {
        return new FileInfo(
                text(info.getPath()),
                info.getType() == fs.strait.client.internal.FileType.DIRECTORY,
                info.getLength(),
                info.getBlock_size(),
                info.getReplication(),
                Instant.ofEpochMilli(info.getModified_ms()),
                Instant.ofEpochMilli(info.getAccessed_ms()),
                info.getPermission(),
                text(info.getOwner()),
                text(info.getGroup()));
    }

    static BlockLocation block(fs.strait.client.internal.BlockLocation block) {
        return new BlockLocation(
                block.getOffset(),
                block.getLength(),
                list(block.getHosts()),
                list(block.getAddresses()),
                block.isCorrupt());
    }

    static StoreInfo store(fs.strait.client.internal.StoreInfo store) {
        if (store == null) {
            return new StoreInfo("", "", Set.of(), Duration.ZERO);
        }
        return new StoreInfo(
                text(store.getName()),
                text(store.getUri()),
                Set.copyOf(list(store.getCapabilities())),
                Duration.ofMillis(store.getRecovery_ms()));
    }

    static void fill(SetAttributesRequest request, Attributes attributes) {
        request.setOwner(attributes.owner).setGroup(attributes.group);
        if (attributes.permission != null) {
            request.setPermission(attributes.permission);
        }
        if (attributes.modified != null) {
            request.setModified_ms(attributes.modified.toEpochMilli());
        }
        if (attributes.accessed != null) {
            request.setAccessed_ms(attributes.accessed.toEpochMilli());
        }
        if (attributes.replication != null) {
            request.setReplication(attributes.replication.shortValue());
        }
    }

    static String text(String text) {
        return text == null ? "" : text;
    }

    static <T> List<T> list(List<T> list) {
        return list == null ? List.of() : List.copyOf(list);
    }
}
