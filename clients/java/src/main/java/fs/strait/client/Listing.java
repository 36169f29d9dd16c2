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
    private final String prefix; // of the entries' paths
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
        String directory = String.join("/", names(path));
        this.prefix = directory.isEmpty() ? "/" : "/" + directory + "/";
        fetch();
    }

    private static List<String> names(String path) {
        return Stream.of(path.split("/")).filter(name -> !name.isEmpty()).toList();
    }

    private void fetch() throws IOException {
        // A cursor is good for one page.
        ListDirectoryReply reply =
                request.isSetCursor() ? goOn() : session.call(Method.LIST_DIRECTORY, request);
        List<FileInfo> entries =
                Convert.list(reply.getEntries()).stream().map(Convert::file).toList();
        check(entries);
        page = entries.iterator();
        more = reply.isSetCursor();
        if (more && entries.isEmpty()) {
            String message =
                    "list: the gateway sent an empty page that isn't the last (a defect of the"
                            + " gateway)";
            throw Failures.of(ErrorKind.INTERNAL, message, request.getPath());
        }
        request.setCursor(reply.getCursor());
    }

    /** Refuses what isn't in the directory: programs make names of local files of it. */
    private void check(List<FileInfo> entries) throws IOException {
        String listed = request.getPath();
        // The protocol lists a file as itself; Java's directories don't.
        boolean isFirst = page == null && entries.size() == 1;
        if (isFirst && names(entries.get(0).path()).equals(names(listed))) {
            throw Failures.of(
                    ErrorKind.NOT_A_DIRECTORY, "only directories have entries", listed);
        }
        for (FileInfo entry : entries) {
            String path = entry.path();
            if (!path.startsWith(prefix) || !isName(path.substring(prefix.length()))) {
                String message = "list: the gateway named " + path + ", which isn't in this directory";
                throw Failures.of(ErrorKind.INTERNAL, message, listed);
            }
        }
    }

    private static boolean isName(String text) {
        boolean isPlace = text.isEmpty() || text.equals(".") || text.equals("..");
        return !isPlace && text.indexOf('/') < 0 && text.indexOf('\0') < 0;
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
