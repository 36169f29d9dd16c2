<?php

declare(strict_types=1);

namespace Strait;

/**
 * The files of one store behind a gateway. Paths are absolute within the store; they are UTF-8. Every failure is a
 * StraitException.
 */
final class Client
{
    private const TIMEOUT_MS = 120_000;
    private const TLS_FILES = ['cafile', 'capath', 'local_cert', 'local_pk'];

    private function __construct(private readonly Session $session) {}

    /**
     * Opens a session. The address is strait://host:port/ or host:port; /@NAME after it names a store.
     *
     * @param ?string $token of an earlier session, in place of user and password
     * @param bool|array<string, mixed> $tls true, or options of PHP's ssl:// context, such as cafile
     * @param int $timeoutMs bounds each request as a whole: connecting, all attempts, and the complete reply
     */
    public static function connect(
        string $address,
        ?string $store = null,
        ?string $user = null,
        #[\SensitiveParameter] ?string $password = null,
        #[\SensitiveParameter] ?string $token = null,
        bool|array $tls = false,
        int $timeoutMs = self::TIMEOUT_MS,
    ): self {
        $uri = Uri::parseAddress($address);
        if ($uri->store !== null && $store !== null && $uri->store !== $store) {
            throw StraitException::of(ErrorKind::InvalidArgument, "two stores are named: $uri->store and $store");
        }
        $options = is_array($tls) ? $tls : ($tls ? [] : null);
        foreach (array_intersect_key($options ?? [], array_flip(self::TLS_FILES)) as $option => $file) {
            if (!is_readable($file)) {
                throw StraitException::of(ErrorKind::InvalidArgument, "tls: $option can't be read", $file);
            }
        }
        return new self(new Session($uri, $uri->store ?? $store, $user, $password, $token, $options, $timeoutMs));
    }

    /** The user of the session. */
    public function user(): string
    {
        return $this->session->user;
    }

    /** Stands for the login until it expires; keep it secret. */
    public function token(): ?string
    {
        return $this->session->token();
    }

    public function store(): Store
    {
        return $this->session->store;
    }

    /** Ends the session; close its files first. The end of the program does this, too. */
    public function close(): void
    {
        $this->session->close();
    }

    public function stat(string $path): Info
    {
        $reply = $this->session->call('getFileInfo', (new Fields())->putPath(2, $path), $path);
        $missing = 'stat: the gateway\'s reply has no file status (a defect of the gateway)';
        return $reply->has(1) ? new Info($reply->struct(1))
            : throw StraitException::of(ErrorKind::Internal, $missing, $path);
    }

    public function exists(string $path): bool
    {
        try {
            $this->stat($path);
            return true;
        } catch (NotFoundException | NotADirectoryException) {
            return false;
        }
    }

    /**
     * A directory's entries in the store's order, fetched page by page. Errors come with the iteration.
     *
     * @return \Generator<int, Info>
     */
    public function list(string $path, ?int $pageEntries = null): \Generator
    {
        $cursor = null;
        try {
            $request = (new Fields())->putPath(2, $path)->putI32(4, $pageEntries);
            $page = $this->session->call('listDirectory', $request, $path);
            $incarnation = $this->session->incarnation;
            while (true) {
                $cursor = $page->has(2) ? $page->int(2) : null;
                yield from $this->entries($page, $path);
                if ($cursor === null) {
                    return;
                }
                $page = $this->nextPage($request->putI64(3, $cursor), $path, $incarnation);
            }
        } finally {
            if ($cursor !== null) {
                $this->session->tidy('closeFile', (new Fields())->putI64(4, $cursor));
            }
        }
    }

    /**
     * A page's entries, all of them the directory's: programs join their names to paths of their own.
     *
     * @return list<Info>
     */
    private function entries(Fields $page, string $path): array
    {
        $entries = array_map(fn (Fields $entry) => new Info($entry), $page->structs(1));
        if ($entries === [] && $page->has(2)) {
            $empty = 'list: the gateway sent an empty page that isn\'t the last (a defect of the gateway)';
            throw StraitException::of(ErrorKind::Internal, $empty, $path);
        }
        $names = array_filter(explode('/', $path), fn (string $name) => $name !== '');
        $directory = implode('/', ['', ...$names, '']);
        foreach ($entries as $entry) {
            $isSound = !in_array($entry->name, ['', '.', '..'], true) && !str_contains($entry->name, "\0");
            if (!$isSound || $entry->path !== $directory . $entry->name) {
                $stray = "list $path: the gateway named $entry->path, which isn't in this directory";
                throw StraitException::of(ErrorKind::Internal, $stray, $path);
            }
        }
        return $entries;
    }

    /** The cursor moves with each answer, so a page is asked for once. */
    private function nextPage(Fields $request, string $path, int $incarnation): Fields
    {
        try {
            return $this->session->callOnce('listDirectory', $request, $path);
        } catch (StraitException $failure) {
            throw $incarnation === $this->session->incarnation ? $failure : StraitException::of(
                ErrorKind::Unavailable,
                'the session ended during the listing',
                $path,
                previous: $failure,
            );
        }
    }

    /**
     * The blocks that hold a range of a file; to its end without a length.
     *
     * @return list<Block>
     */
    public function locate(string $path, int $offset = 0, ?int $length = null): array
    {
        $request = (new Fields())->putPath(2, $path)->putI64(3, $offset)->putI64(4, $length);
        $blocks = $this->session->call('getBlockLocations', $request, $path)->structs(1);
        return array_map(fn (Fields $block) => new Block($block), $blocks);
    }

    public function checksum(string $path): Checksum
    {
        return new Checksum($this->session->call('getChecksum', (new Fields())->putPath(2, $path), $path));
    }

    public function status(): Status
    {
        return new Status($this->session->call('getStoreStatus', new Fields(), null));
    }

    public function openRead(string $path): Reader
    {
        return new Reader($this->session, $path);
    }

    /** Makes a file and its missing parents. One that exists is an error without overwrite. */
    public function create(
        string $path,
        bool $overwrite = false,
        ?int $permission = null,
        ?int $replication = null,
        ?int $blockSize = null,
    ): Writer {
        $request = (new Fields())->putPath(4, $path)->putBool(5, $overwrite)->putI32(6, $permission);
        $request->putI16(7, $replication)->putI64(8, $blockSize);
        return new Writer($this->session, 'createFile', $request, $path);
    }

    /** Opens an existing file to go on at its end. */
    public function append(string $path): Writer
    {
        return new Writer($this->session, 'appendFile', (new Fields())->putPath(4, $path), $path);
    }

    public function getContents(string $path): string
    {
        $file = $this->openRead($path);
        try {
            return $file->getContents();
        } finally {
            $file->close();
        }
    }

    /** Makes or replaces a file, as file_put_contents. */
    public function putContents(string $path, string $bytes): void
    {
        $file = $this->create($path, overwrite: true);
        $file->write($bytes);
        $file->close();
    }

    /** Makes a directory and its missing parents; an existing one is success. */
    public function makeDirectories(string $path, ?int $permission = null): void
    {
        $request = (new Fields())->putPath(4, $path)->putI32(5, $permission);
        $this->session->call('makeDirectories', $request, $path, changes: true);
    }

    /** Renames a file or directory; with replace, a file at the target is replaced. */
    public function rename(string $source, string $target, bool $replace = false): void
    {
        $request = (new Fields())->putPath(4, $source)->putPath(5, $target)->putBool(6, $replace);
        $this->session->call('renamePath', $request, $source, changes: true);
    }

    /** Removes a file or an empty directory; with recursive, all that is in it too. */
    public function remove(string $path, bool $recursive = false): void
    {
        $request = (new Fields())->putPath(4, $path)->putBool(5, $recursive);
        $this->session->call('removePath', $request, $path, changes: true);
    }

    /** Sets the attributes that are given. Times are milliseconds since 1970-01-01 UTC. */
    public function setAttributes(
        string $path,
        ?int $permission = null,
        ?string $owner = null,
        ?string $group = null,
        ?int $modifiedMs = null,
        ?int $accessedMs = null,
        ?int $replication = null,
    ): void {
        $request = (new Fields())->putPath(4, $path)->putI32(5, $permission)->putString(6, $owner);
        $request->putString(7, $group)->putI64(8, $modifiedMs)->putI64(9, $accessedMs)->putI16(10, $replication);
        $this->session->call('setAttributes', $request, $path, changes: true);
    }

    /** Cuts a closed file to this many bytes. */
    public function truncate(string $path, int $length): void
    {
        $request = (new Fields())->putPath(4, $path)->putI64(5, $length);
        $this->session->call('truncateFile', $request, $path, changes: true);
    }

    /**
     * Moves the sources' bytes, in order, to the end of a closed file, in one step.
     *
     * @param list<string> $sources
     */
    public function concat(string $path, array $sources): void
    {
        $request = (new Fields())->putPath(4, $path)->put(5, Type::List, $sources);
        $this->session->call('concatFiles', $request, $path, changes: true);
    }

    /** Copies a remote file to a local one, which appears, or is replaced, only when it is complete. */
    public function get(string $source, string $target, bool $overwrite = false): void
    {
        (new Transfer($this, $this->session))->get($source, $target, $overwrite);
    }

    /**
     * Copies a local file to a remote one, which appears, or is replaced, only when it is complete. In a directory the
     * file gets its own name.
     */
    public function put(string $source, string $target, bool $overwrite = false): void
    {
        (new Transfer($this, $this->session))->put($source, $target, $overwrite);
    }

    /** @internal A request as it stands, sent once, for tests. */
    public function request(string $method, Fields $request): Fields
    {
        return $this->session->callOnce($method, $request, null);
    }
}
