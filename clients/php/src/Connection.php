<?php

declare(strict_types=1);

namespace Strait;

/** @internal When a request is given up, with all that belongs to it. */
final class Deadline
{
    private function __construct(private readonly int $atNs) {}

    public static function in(int $ms): self
    {
        return new self(hrtime(true) + $ms * 1_000_000);
    }

    /** The earlier of this one and that time. */
    public function orIn(int $ms): self
    {
        return new self(min($this->atNs, self::in($ms)->atNs));
    }

    public function leftMs(): int
    {
        return max(0, intdiv($this->atNs - hrtime(true), 1_000_000));
    }

    public function demand(): void
    {
        if ($this->leftMs() === 0) {
            throw new DeadlinePassed();
        }
    }
}

/** @internal The deadline passed within a connection. */
final class DeadlinePassed extends \Exception {}

/** @internal A socket, for one caller at a time, with or without TLS. */
final class Connection
{
    /** The number of the field deadline_ms, which each request has. */
    private const DEADLINE_FIELD = 15;
    /** Bytes of one read or write: more doesn't fit into a socket's usual buffers. */
    private const PIECE_BYTES = 256 << 10;
    private const TLS_VERSIONS = STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT | STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT;
    private const LOOPBACK = '/^(127\.|\[::1\]|\[::ffff:127\.)/i';
    /** What OpenSSL and PHP say if one side rejects the other's certificate. */
    private const REJECTED = '/certificate|unknown ca/i';

    /** The login it was attached by. */
    public int $login = 0;
    /** It isn't fit for another request. */
    public bool $isBroken = false;
    private bool $hasAnswered = false;
    private int $number = 0;
    /** What PHP warned of during the latest input or output: the reason of a failure. */
    private string $warning = '';

    /** @param resource $stream */
    private function __construct(private $stream, private readonly string $address, private readonly bool $isSecure)
    {
        // Deadlines bound whole requests, and PHP's own limit only each wait.
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        stream_set_write_buffer($stream, 0);
    }

    /** @param ?array<string, mixed> $tls the options of PHP's ssl:// context; null for none */
    public static function open(Uri $uri, ?array $tls, Deadline $deadline): self
    {
        $isName = filter_var($uri->host, FILTER_VALIDATE_IP) === false;
        $context = stream_context_create([
            'socket' => ['tcp_nodelay' => true],
            'ssl' => ($tls ?? []) + ['peer_name' => $uri->host, 'SNI_enabled' => $isName],
        ]);
        $addresses = self::resolve($uri);
        $why = '';
        foreach ($addresses as $index => $target) {
            // Each address gets a share of the time.
            $seconds = $deadline->leftMs() / 1000 / (count($addresses) - $index);
            $stream = @stream_socket_client("tcp://$target", $code, $why, $seconds, STREAM_CLIENT_CONNECT, $context);
            if ($stream !== false) {
                $connection = new self($stream, $uri->address(), $tls !== null);
                if ($tls !== null) {
                    $connection->handshake($deadline);
                }
                return $connection;
            }
        }
        throw new LostException("no gateway at {$uri->address()}: $why", false);
    }

    /** @return list<string> addresses with ports */
    private static function resolve(Uri $uri): array
    {
        // Without the extension, PHP tries the addresses of a name one after the other.
        $found = extension_loaded('sockets')
            ? @socket_addrinfo_lookup($uri->host, (string) $uri->port, ['ai_socktype' => SOCK_STREAM]) : false;
        $addresses = [];
        foreach ($found ?: [] as $each) {
            $parts = socket_addrinfo_explain($each)['ai_addr'];
            $host = isset($parts['sin6_addr']) ? "[{$parts['sin6_addr']}]" : $parts['sin_addr'];
            $addresses[] = "$host:$uri->port";
        }
        return $addresses ?: [$uri->address()];
    }

    private function handshake(Deadline $deadline): void
    {
        try {
            $this->guarded(function () use ($deadline): void {
                while (($done = stream_socket_enable_crypto($this->stream, true, self::TLS_VERSIONS)) === 0) {
                    $this->wait(false, $deadline);
                }
                if ($done === false) {
                    throw new MalformedReply($this->warning);
                }
            });
        } catch (DeadlinePassed) {
            $message = "TLS with $this->address: no answer; does it speak TLS on this port?";
            throw StraitException::of(ErrorKind::TimedOut, $message);
        } catch (MalformedReply $failure) {
            $this->rejected($failure->getMessage());
            $message = "TLS with $this->address: {$failure->getMessage()}; does it speak TLS on this port?";
            throw new LostException($message, false);
        }
    }

    public function isLocal(): bool
    {
        return preg_match(self::LOOPBACK, (string) stream_socket_get_name($this->stream, true)) === 1;
    }

    /** Whether the gateway has closed it, or sent something unasked, while it was idle. */
    public function isStale(): bool
    {
        return @fread($this->stream, 1) !== '' || $this->hasEnded();
    }

    public function close(): void
    {
        $this->isBroken = true;
        if (is_resource($this->stream)) {
            fclose($this->stream);
        }
    }

    /** One request and its reply. */
    public function call(string $method, Fields $request, ?string $path, Deadline $deadline): Fields
    {
        $this->isBroken = true; // until the whole reply is here
        $request->putI32(self::DEADLINE_FIELD, max(1, $deadline->leftMs()));
        try {
            $reply = $this->guarded(function () use ($method, $request, $deadline): Fields {
                $this->send(Wire::request($method, ++$this->number, $request), $deadline);
                $size = unpack('N', $this->receive(4, $deadline))[1];
                if ($size > Wire::MAX_FRAME) {
                    throw new MalformedReply("a reply of $size bytes");
                }
                return Wire::reply($this->receive($size, $deadline), $method, $this->number);
            });
        } catch (DeadlinePassed) {
            throw StraitException::of(
                ErrorKind::TimedOut,
                "$method: the gateway $this->address gave no answer in time",
                $path,
                true,
            );
        } catch (MalformedReply $failure) {
            if ($this->isSecure) {
                $this->rejected($failure->getMessage());
            }
            $hint = $this->hasAnswered || $this->isSecure ? '' : '; is it a gateway, and does it serve TLS only?';
            throw new LostException("the connection to $this->address broke: {$failure->getMessage()}$hint", true);
        }
        $this->isBroken = false;
        $this->hasAnswered = true;
        if (!$reply->has(1)) {
            return $reply->struct(0);
        }
        $error = $reply->struct(1);
        // A newer gateway's kind is Internal.
        $kind = ErrorKind::tryFrom($error->int(1)) ?? ErrorKind::Internal;
        throw StraitException::of($kind, $error->string(3) ?? '', $error->string(4) ?? $path, $error->int(5) !== 0);
    }

    private function send(string $bytes, Deadline $deadline): void
    {
        for ($at = 0; $at < strlen($bytes);) {
            // Usually the socket takes all at once.
            $count = fwrite($this->stream, $at === 0 ? $bytes : substr($bytes, $at, self::PIECE_BYTES));
            if ($count === false || $count === 0 && $this->hasEnded()) {
                throw new MalformedReply($this->warning ?: 'it ended');
            }
            $at += $count;
            if ($at < strlen($bytes)) {
                $this->wait(true, $deadline);
            }
        }
    }

    private function receive(int $length, Deadline $deadline): string
    {
        $bytes = ''; // not more memory than bytes arrived
        while (($left = $length - strlen($bytes)) > 0) {
            $part = fread($this->stream, min($left, self::PIECE_BYTES));
            if ($part !== '' && $part !== false) {
                $bytes .= $part;
                if (strlen($bytes) < $length) {
                    $deadline->demand();
                }
            } elseif ($this->hasEnded()) {
                throw new MalformedReply($this->warning ?: 'it ended');
            } else {
                $this->wait(false, $deadline);
            }
        }
        return $bytes;
    }

    /** feof would wait. */
    private function hasEnded(): bool
    {
        return stream_get_meta_data($this->stream)['eof'];
    }

    private function wait(bool $toWrite, Deadline $deadline): void
    {
        $deadline->demand();
        $leftMs = $deadline->leftMs();
        $read = $toWrite ? null : [$this->stream];
        $write = $toWrite ? [$this->stream] : null;
        $except = null;
        if (stream_select($read, $write, $except, intdiv($leftMs, 1000), $leftMs % 1000 * 1000) === false) {
            usleep(1000); // after a signal; or the descriptor is above select's limit, so look again soon
        }
    }

    /** Input and output, whose warnings become the reason of a failure. */
    private function guarded(\Closure $io): mixed
    {
        $this->warning = '';
        set_error_handler(function (int $level, string $message): bool {
            $reason = preg_replace(['/^\w+\(\): /', '/\s+/'], ['', ' '], $message);
            $this->warning .= ($this->warning === '' ? '' : '; ') . $reason;
            return true;
        });
        try {
            return $io();
        } finally {
            restore_error_handler();
        }
    }

    /** Raises the error that isn't tried again. */
    private function rejected(string $why): void
    {
        if (preg_match(self::REJECTED, $why)) {
            throw StraitException::of(
                ErrorKind::Unauthenticated,
                "TLS with $this->address: one side rejects the other's certificate ($why); see connect's tls, cafile",
            );
        }
    }
}
