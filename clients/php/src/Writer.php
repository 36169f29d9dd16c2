<?php

declare(strict_types=1);

namespace Strait;

/**
 * An open file to write at its end. After NoSpace and Unavailable, a file of Kadoop is still open: it keeps the bytes
 * that the gateway hasn't taken, and sends them again with the next call. A writer that is dropped without close is
 * abandoned. In a forked child it takes no bytes, and close does nothing.
 */
final class Writer
{
    private const FLUSH = 1;
    private const SYNC = 2;

    private readonly int $handle;
    private readonly int $incarnation;
    private readonly int $process;
    private string $pending = '';
    private int $sent;
    private bool $isClosed = false;
    private ?StraitException $failure = null;

    /** @internal */
    public function __construct(
        private readonly Session $session,
        string $method,
        Fields $request,
        private readonly string $path,
    ) {
        $reply = $session->call($method, $request, $path, changes: true);
        $this->handle = $reply->int(1);
        $this->sent = $reply->int(2);
        $this->incarnation = $session->incarnation;
        $this->process = getmypid();
        $session->keep($this);
    }

    /** The file's length, with all bytes written here. */
    public function tell(): int
    {
        return $this->sent + strlen($this->pending);
    }

    /** A write of up to 1 MiB that fails has taken nothing; tell() says what a longer one has taken. */
    public function write(string $bytes): int
    {
        $this->check();
        $chunk = $this->session->maxChunkBytes;
        for ($at = 0; $at < strlen($bytes); $at += strlen($part)) {
            $part = substr($bytes, $at, $chunk);
            if (strlen($this->pending) + strlen($part) > $chunk) {
                $this->send();
            }
            $this->pending .= $part;
        }
        return strlen($bytes);
    }

    /** Makes the written bytes visible to readers who open the file afterwards. In object stores it promises nothing. */
    public function flush(): void
    {
        $this->flushAs(self::FLUSH);
    }

    /** Puts the written bytes on stable storage. In object stores it promises nothing. */
    public function sync(): void
    {
        $this->flushAs(self::SYNC);
    }

    /** Puts all bytes on stable storage (except in HDFS). In Kadoop, repeat it after NoSpace and Unavailable. */
    public function close(): void
    {
        if ($this->isClosed && $this->failure === null || $this->process !== getmypid()) {
            return;
        }
        $this->send();
        $this->guarded('closeFile', (new Fields())->putI64(4, $this->handle), changes: true);
        $this->isClosed = true;
    }

    /** Ends the file. Flushed bytes stay; other bytes may be lost. */
    public function abandon(): void
    {
        if (!$this->isClosed && $this->process === getmypid()) {
            $request = (new Fields())->putI64(4, $this->handle)->putBool(5, true);
            $this->session->tidy('closeFile', $request, changes: true);
        }
        $this->isClosed = true;
        $this->failure = null;
        $this->pending = '';
    }

    public function __destruct()
    {
        $this->abandon();
    }

    private function flushAs(int $mode): void
    {
        $this->send();
        $this->guarded('flushFile', (new Fields())->putI64(2, $this->handle)->putI32(3, $mode));
    }

    private function send(): void
    {
        $this->check();
        if ($this->pending !== '') {
            $request = (new Fields())->putI64(4, $this->handle)->putI64(5, $this->sent)->putString(6, $this->pending);
            $this->guarded('appendData', $request, changes: true);
            $this->sent += strlen($this->pending);
            $this->pending = '';
        }
    }

    private function check(): void
    {
        if ($this->isClosed) {
            throw $this->failure ?? StraitException::of(ErrorKind::InvalidArgument, 'the file is closed', $this->path);
        }
        if ($this->process !== getmypid()) {
            throw StraitException::of(ErrorKind::InvalidArgument, 'the file is the parent process\'s', $this->path);
        }
    }

    /** After NoSpace and Unavailable the file goes on; after other errors it is over. */
    private function guarded(string $method, Fields $request, bool $changes = false): void
    {
        try {
            $this->session->call($method, $request, $this->path, $changes);
        } catch (StraitException $failure) {
            if ($failure->kind === ErrorKind::NoSpace || $failure->kind === ErrorKind::Unavailable) {
                throw $failure;
            }
            $this->isClosed = true;
            $isGone = $failure->kind === ErrorKind::Unauthenticated
                || $failure->kind === ErrorKind::InvalidArgument && $this->incarnation !== $this->session->incarnation;
            $this->failure = !$isGone ? $failure : StraitException::of(
                ErrorKind::OutcomeUnknown,
                'the session ended while the file was written',
                $this->path,
                previous: $failure,
            );
            throw $this->failure;
        }
    }
}
