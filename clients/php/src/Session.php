<?php

declare(strict_types=1);

namespace Strait;

/**
 * @internal A login, a pool of connections, and the one place that retries. States and times are those of
 * docs/client-protocol.md. A forked child goes on with the session, over connections of its own.
 */
final class Session
{
    // With the pauses they span 1.6 to 3.1 s: a gateway's restart.
    private const ATTEMPTS = 6;
    private const FIRST_PAUSE_MS = 100;
    private const CONNECT_TIMEOUT_MS = 10_000;
    /** For a request that only cleans up, once the gateway has left a request unanswered. */
    private const PARTING_MS = 2000;
    private const MAX_IDLE = 8;
    private const VERSION = 1;
    private const MAX_CHUNK_BYTES = 1 << 20;

    /** A parent's connections in a forked child: to close them would say goodbye over TLS in the parent's name. */
    private static array $inherited = [];

    public string $user = '';
    /** If a handle has another one, the handle is gone. */
    public int $incarnation = 0;
    public Store $store;
    public int $maxChunkBytes = self::MAX_CHUNK_BYTES;

    /** @var list<Connection> */
    private array $idle = [];
    private ?string $token;
    private int $login = 0; // counts logins: connections of an older one aren't pooled
    private int $silences = 0;
    private bool $isClosed = false;
    /** @var \WeakMap<Writer, true> */
    private readonly \WeakMap $writers;
    private readonly int $owner;
    private int $process;

    /** @param ?array<string, mixed> $tls */
    public function __construct(
        private readonly Uri $uri,
        private readonly ?string $storeName,
        private readonly ?string $userName,
        #[\SensitiveParameter] private readonly ?string $password,
        #[\SensitiveParameter] private readonly ?string $givenToken,
        private readonly ?array $tls,
        private readonly int $timeoutMs,
    ) {
        $this->token = $givenToken;
        $this->writers = new \WeakMap();
        $this->owner = $this->process = getmypid();
        try {
            $this->giveBack($this->connect(Deadline::in($timeoutMs)));
        } catch (LostException $lost) {
            throw self::unavailable($lost, null);
        }
    }

    public function token(): ?string
    {
        return $this->token;
    }

    /** A writer that is open when the session ends is abandoned: or its file would look whole. */
    public function keep(Writer $writer): void
    {
        $this->writers[$writer] = true;
    }

    /** A request; one that changes something gets an id, the same in all its attempts. */
    public function call(string $method, Fields $request, ?string $path, bool $changes = false): Fields
    {
        if ($changes) {
            $request->putString(2, random_bytes(16));
        }
        $deadline = Deadline::in($this->timeoutMs);
        $connectBy = null;
        $isSent = $isRenewed = false;
        for ($attempt = 1;; $attempt++) {
            $isConnecting = true;
            try {
                $connection = $this->borrow($connectBy ?? $deadline);
                $isConnecting = false;
                $reply = $this->exchange($connection, $method, $request, $path, $deadline);
                $this->silences = 0;
                return $reply;
            } catch (LostException $lost) {
                // If no gateway accepts connections now, wait for one once.
                $connectBy ??= $deadline->orIn(self::CONNECT_TIMEOUT_MS);
                $isSent = $isSent || $lost->sent;
                $this->dropIdle();
                $pauseMs = self::FIRST_PAUSE_MS * 2 ** ($attempt - 1) * random_int(500, 1000) / 1000;
                if ($attempt === self::ATTEMPTS || $pauseMs >= $connectBy->leftMs()) {
                    $this->silences++;
                    throw $isSent && $changes ? self::unknown($method, $path, $lost) : self::unavailable($lost, $path);
                }
                usleep((int) ($pauseMs * 1000));
                if ($changes && $isSent) {
                    $request->putBool(3, true);
                }
            } catch (StraitException $failure) {
                if ($failure->kind === ErrorKind::Unauthenticated && !$isRenewed && !$isConnecting) {
                    // The session idled out, or its gateway was replaced.
                    $isRenewed = true;
                    $this->dropIdle();
                    $attempt--;
                    continue;
                }
                $isTimeout = $failure->kind === ErrorKind::TimedOut;
                $this->silences += (int) $isTimeout;
                if ($isConnecting && $isSent && $changes) {
                    throw self::unknown($method, $path, $failure);
                }
                if (!$isTimeout) {
                    throw $failure;
                }
                $message = ($isConnecting ? "$method: " : '') . $failure->getMessage();
                $isSafe = $failure->retrySafe && ($isConnecting || !$changes);
                throw StraitException::of(ErrorKind::TimedOut, $message, $path, $isSafe);
            }
        }
    }

    /** A request as it stands, sent once. */
    public function callOnce(string $method, Fields $request, ?string $path, ?int $limitMs = null): Fields
    {
        $deadline = Deadline::in($limitMs ?? $this->timeoutMs);
        try {
            return $this->exchange($this->borrow($deadline), $method, $request, $path, $deadline);
        } catch (LostException $lost) {
            throw self::unavailable($lost, $path);
        }
    }

    /** A request that only cleans up: after a silence it gets little time, after a second one none. */
    public function tidy(string $method, Fields $request, bool $changes = false): void
    {
        if ($this->isClosed || $this->silences > 1) {
            return;
        }
        if ($changes) {
            $request->putString(2, random_bytes(16));
        }
        try {
            $limitMs = $this->silences === 0 ? $this->timeoutMs : min($this->timeoutMs, self::PARTING_MS);
            $this->callOnce($method, $request, null, $limitMs);
        } catch (StraitException $failure) {
            $this->silences += (int) ($failure->kind === ErrorKind::TimedOut);
        }
    }

    /** Ends the session, unless it is a forked child's: its parent goes on with it. */
    public function close(): void
    {
        if (getmypid() === $this->owner) {
            foreach ($this->writers as $writer => $isOpen) {
                $writer->abandon();
            }
            $this->tidy('closeSession', new Fields());
        }
        $this->isClosed = true;
        $this->noticeFork();
        $this->dropIdle();
    }

    public function __destruct()
    {
        $this->close();
    }

    private static function unavailable(LostException $lost, ?string $path): StraitException
    {
        return StraitException::of(ErrorKind::Unavailable, $lost->getMessage(), $path, true);
    }

    private static function unknown(string $method, ?string $path, \Throwable $why): StraitException
    {
        $message = "$method may have been executed: {$why->getMessage()}";
        return StraitException::of(ErrorKind::OutcomeUnknown, $message, $path);
    }

    private function exchange(
        Connection $connection,
        string $method,
        Fields $request,
        ?string $path,
        Deadline $deadline,
    ): Fields {
        try {
            return $connection->call($method, $request, $path, $deadline);
        } finally {
            $this->giveBack($connection);
        }
    }

    private function borrow(Deadline $connectBy): Connection
    {
        if ($this->isClosed) {
            throw StraitException::of(ErrorKind::InvalidArgument, 'the client is closed');
        }
        $this->noticeFork();
        while (($connection = array_pop($this->idle)) !== null) {
            if (!$connection->isStale()) {
                return $connection;
            }
            $connection->close();
        }
        return $this->connect($connectBy);
    }

    private function giveBack(Connection $connection): void
    {
        $isFit = !$this->isClosed && !$connection->isBroken && $connection->login === $this->login;
        if ($isFit && count($this->idle) < self::MAX_IDLE) {
            $this->idle[] = $connection;
        } else {
            $connection->close();
        }
    }

    private function dropIdle(): void
    {
        foreach ($this->idle as $connection) {
            $connection->close();
        }
        $this->idle = [];
    }

    private function noticeFork(): void
    {
        if ($this->process !== getmypid()) {
            $this->process = getmypid();
            array_push(self::$inherited, ...$this->idle);
            $this->idle = [];
        }
    }

    /** A connection that is attached to the session. */
    private function connect(Deadline $deadline): Connection
    {
        $connection = Connection::open($this->uri, $this->tls, $deadline->orIn(self::CONNECT_TIMEOUT_MS));
        try {
            $isSecret = $this->password !== null || $this->givenToken !== null;
            if ($isSecret && $this->tls === null && !$connection->isLocal()) {
                throw StraitException::of(
                    ErrorKind::Unauthenticated,
                    'a password or token isn\'t sent to another machine in the clear; use TLS (connect\'s tls: true)',
                );
            }
            $this->attach($connection, $deadline);
            return $connection;
        } catch (LostException $lost) {
            $connection->close();
            throw new LostException($lost->getMessage(), false); // the caller's own request wasn't sent
        } catch (StraitException $failure) {
            $connection->close();
            throw $failure;
        }
    }

    private function attach(Connection $connection, Deadline $deadline): void
    {
        $reply = null;
        if ($this->token !== null) {
            try {
                $request = (new Fields())->putI32(1, self::VERSION)->putString(5, $this->token);
                $reply = $connection->call('openSession', $request, null, $deadline);
            } catch (UnauthenticatedException $refused) {
                if ($this->givenToken !== null || $connection->isBroken) {
                    throw $refused;
                }
                // It ended: log in anew.
            }
        }
        if ($reply === null) {
            $request = (new Fields())->putI32(1, self::VERSION)->putString(2, $this->storeName);
            $request->putString(3, $this->userName)->putString(4, $this->password);
            $reply = $connection->call('openSession', $request, null, $deadline);
            $this->login++;
        }
        $connection->login = $this->login;
        $this->token = $reply->string(1) ?? $this->token;
        $this->user = $reply->string(3) ?? '';
        $this->incarnation = $reply->int(7);
        $this->store = new Store($reply->struct(4));
        $chunk = $reply->struct(6)->int(1);
        $this->maxChunkBytes = $chunk > 0 ? min($chunk, self::MAX_CHUNK_BYTES) : self::MAX_CHUNK_BYTES;
    }
}
