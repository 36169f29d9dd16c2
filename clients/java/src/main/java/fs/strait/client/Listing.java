package fs.strait.client;

import fs.strait.client.internal.ListDirectoryReply;
import fs.strait.client.internal.ListDirectoryRequest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** A directory's entries, fetched page by page. */
final class Listing implements Iterator<FileInfo> {
    private final Session session;
    private final ListDirectoryRequest request;
    private final long incarnation; // the session's from before it began
    private Iterator<FileInfo> page;
    private boolean more;

    /** Fetches the first page. */
    Listing(Session session, String path, int pageEntries) throws IOException {
        this.session = session;
        this.incarnation = session.incarnation();
        this.request = new ListDirectoryRequest().setPath(path);
        if (pageEntries != 0) {
            request.setMax_entries(pageEntries);
        }
        List<FileInfo> first = fetch();
        // The protocol lists a file as itself; Java's directories don't.
        if (first.size() == 1 && names(first.get(0).path()).equals(names(path))) {
            throw Failures.of(
                    ErrorKind.NOT_A_DIRECTORY, "only directories have entries", path);
        }
    }

    private static List<String> names(String path) {
        return Stream.of(path.split("/")).filter(name -> !name.isEmpty()).toList();
    }

    private List<FileInfo> fetch() throws IOException {
        // A cursor is good for one page.
        ListDirectoryReply reply =
                request.isSetCursor() ? goOn() : session.call(Method.LIST_DIRECTORY, request);
        List<FileInfo> entries =
                Convert.list(reply.getEntries()).stream().map(Convert::file).toList();
        page = entries.iterator();
        more = reply.isSetCursor();
        if (more && entries.isEmpty()) {
            String message = "the gateway lists nothing, and has more of it";
            throw Failures.of(ErrorKind.INTERNAL, message, request.getPath());
        }
        request.setCursor(reply.getCursor());
        return entries;
    }

    private ListDirectoryReply goOn() throws IOException {
        try {
            return session.callOnce(Method.LIST_DIRECTORY, request);
        } catch (StraitException error) {
            // If another gateway answers, an unknown cursor isn't the caller's mistake.
            boolean unknown = error.kind() == ErrorKind.INVALID_ARGUMENT;
            if (!unknown || session.incarnation() == incarnation) {
                throw error;
            }
            String message = "the gateway's session ended in the middle of the listing; list anew";
            IOException ended = Failures.of(ErrorKind.UNAVAILABLE, message, request.getPath());
            ended.initCause(error);
            throw ended;
        }
    }

    @Override
    public boolean hasNext() {
        try {
            if (!page.hasNext() && more) {
                fetch();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return page.hasNext();
    }

    @Override
    public FileInfo next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return page.next();
    }

    /** Closing it before the end frees the listing at the gateway. */
    Stream<FileInfo> stream() {
        int traits = Spliterator.ORDERED | Spliterator.NONNULL;
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(this, traits), false)
                .onClose(this::release);
    }

    private void release() {
        if (more) {
            more = false;
            session.release(request.getCursor());
        }
    }
}
