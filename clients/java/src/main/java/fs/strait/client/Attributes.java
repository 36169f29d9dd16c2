package fs.strait.client;

import java.time.Instant;

/**
 * Attributes to set; the others stay unchanged.
 *
 * <pre>{@code client.setAttributes("/f", Attributes.none().permission(0640).group("staff"));}</pre>
 */
public final class Attributes {
    private static final Attributes NONE = new Attributes(null, null, null, null, null, null);

    final Integer permission;
    final String owner;
    final String group;
    final Instant modified;
    final Instant accessed;
    final Integer replication;

    private Attributes(
            Integer permission,
            String owner,
            String group,
            Instant modified,
            Instant accessed,
            Integer replication) {
        this.permission = permission;
        this.owner = owner;
        this.group = group;
        this.modified = modified;
        this.accessed = accessed;
        this.replication = replication;
    }

    /**
     * Starts without any attribute.
     *
     * @return attributes that change nothing
     */
    public static Attributes none() {
        return NONE;
    }

    /**
     * Adds permission bits.
     *
     * @param bits 07777 at most
     * @return these attributes and that
     */
    public Attributes permission(int bits) {
        return new Attributes(bits, owner, group, modified, accessed, replication);
    }

    /**
     * Adds the owner.
     *
     * @param name the owner's
     * @return these attributes and that
     */
    public Attributes owner(String name) {
        return new Attributes(permission, name, group, modified, accessed, replication);
    }

    /**
     * Adds the group.
     *
     * @param name the group's
     * @return these attributes and that
     */
    public Attributes group(String name) {
        return new Attributes(permission, owner, name, modified, accessed, replication);
    }

    /**
     * Adds the time of the last modification.
     *
     * @param time kept to the millisecond
     * @return these attributes and that
     */
    public Attributes modified(Instant time) {
        return new Attributes(permission, owner, group, time, accessed, replication);
    }

    /**
     * Adds the time of the last access.
     *
     * @param time kept to the millisecond
     * @return these attributes and that
     */
    public Attributes accessed(Instant time) {
        return new Attributes(permission, owner, group, modified, time, replication);
    }

    /**
     * Adds the number of a file's replicas.
     *
     * @param replicas above 0
     * @return these attributes and that
     */
    public Attributes replication(int replicas) {
        return new Attributes(permission, owner, group, modified, accessed, replicas);
    }
}
