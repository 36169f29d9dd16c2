<?php

declare(strict_types=1);

namespace Strait;

/** An open file to read, with a position. A forked child may read on, with a position of its own. */
final class Reader
{
    /** Of one request. Strings of 1 MiB would need fresh memory from the system for each request, since only one of
     * them fits into a block of PHP's allocator. */
    private const CHUNK_BYTES = 512 << 10;
    /** What a request fails as if the session of its handle has ended. */
    private const GONE = [ErrorKind::InvalidArgument, ErrorKind::NotFound, ErrorKind::Unauthenticated];

    private int $handle;
    private int $incarnation;
    private int $length;
    private ?string $identity;
    private int $position = 0;
    /** The latest reply: small pieces are served from it. */
    private string $ahead = '';
    private int $aheadAt = 0;
    private bool $isAtEnd = false;
    private bool $isClosed = false;
    private int $process;

    /** @internal */
    public function __construct(private readonly Session $session, private readonly string $path)
    {
        $this->open();
    }

    private function open(): void
    {
        $reply = $this->session->call('openFile', (new Fields())->putPath(2, $this->path), $this->path);
        $this->handle = $reply->int(1);
        $this->length = $reply->int(2);
        $this->identity = $reply->string(3);
        $this->incarnation = $this->session->incarnation;
        $this->process = getmypid();
    }

    /** The file's length in bytes when it was opened. */
    public function length(): int
    {
        return $this->length;
    }

    public function tell(): int
    {
        return $this->position;
    }

    /** Whether the latest read met the end of the file. */
    public function eof(): bool
    {
        return $this->isAtEnd;
    }

    /** Up to this many bytes from the position; fewer only at the end of the file. */
    public function read(int $length): string
    {
        $this->check($length);
        $bytes = '';
        while (($left = $length - strlen($bytes)) > 0) {
            $from = $this->position - $this->aheadAt;
            if ($from < 0 || $from >= strlen($this->ahead)) {
                $this->ahead = $this->fetch($this->position, self::CHUNK_BYTES);
                $this->aheadAt = $this->position;
                $from = 0;
            }
            $part = substr($this->ahead, $from, $left);
            if ($part === '') {
                break;
            }
            $this->position += strlen($part);
            $bytes .= $part;
        }
        $this->isAtEnd = strlen($bytes) < $length;
        return $bytes;
    }

    /** All bytes from the position to the end. */
    public function getContents(): string
    {
        $bytes = '';
        do {
            $bytes .= $this->read(self::CHUNK_BYTES);
        } while (!$this->isAtEnd);
        return $bytes;
    }

    /** Up to this many bytes from an offset; fewer only at the end of the file. The position stays. */
    public function readAt(int $offset, int $length): string
    {
        $this->check(min($offset, $length));
        $bytes = '';
        while (($left = $length - strlen($bytes)) > 0) {
            $part = $this->fetch($offset + strlen($bytes), min($left, self::CHUNK_BYTES));
            if ($part === '') {
                break;
            }
            $bytes .= $part;
        }
        return $bytes;
    }

    /** Moves the position, as fseek does; to a place behind the end, too. */
    public function seek(int $offset, int $whence = SEEK_SET): void
    {
        $target = $offset + match ($whence) {
            SEEK_SET => 0,
            SEEK_CUR => $this->position,
            SEEK_END => $this->length,
        };
        $this->check($target);
        $this->position = $target;
        $this->isAtEnd = false;
    }

    public function close(): void
    {
        if (!$this->isClosed && $this->process === getmypid()) {
            $this->session->tidy('closeFile', (new Fields())->putI64(4, $this->handle));
        }
        $this->isClosed = true;
        $this->ahead = '';
    }

    public function __destruct()
    {
        $this->close();
    }

    private function check(int $number): void
    {
        if ($this->isClosed) {
            throw StraitException::of(ErrorKind::InvalidArgument, 'the file is closed', $this->path);
        }
        if ($number < 0) {
            throw StraitException::of(ErrorKind::InvalidArgument, 'a negative offset or length', $this->path);
        }
    }

    private function fetch(int $offset, int $length): string
    {
        try {
            return $this->range($offset, $length);
        } catch (StraitException $failure) {
            $isNew = $this->incarnation !== $this->session->incarnation;
            if (!in_array($failure->kind, self::GONE, true) || !$isNew && $failure->kind !== ErrorKind::NotFound) {
                throw $failure;
            }
            $this->reopen();
            return $this->range($offset, $length);
        }
    }

    /** Or the program would get bytes of two files. If another file is there, this one stays unusable. */
    private function reopen(): void
    {
        $before = [$this->handle, $this->incarnation, $this->length, $this->identity];
        [, , $length, $identity] = $before;
        $this->open();
        $isOther = $identity !== null && $this->identity !== null && $identity !== $this->identity;
        if ($isOther || $this->length < $length) {
            $this->session->tidy('closeFile', (new Fields())->putI64(4, $this->handle));
            [$this->handle, $this->incarnation, $this->length, $this->identity] = $before;
            throw StraitException::of(ErrorKind::Unavailable, 'the file was replaced while it was read', $this->path);
        }
    }

    private function range(int $offset, int $length): string
    {
        $length = min($length, $this->session->maxChunkBytes);
        $request = (new Fields())->putI64(2, $this->handle)->putI64(3, $offset)->putI32(4, $length);
        return $this->session->call('readRange', $request, $this->path)->string(1) ?? '';
    }
}
