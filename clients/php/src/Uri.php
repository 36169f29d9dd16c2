<?php

declare(strict_types=1);

namespace Strait;

/** The parts of strait://host:port/@store/path. Nothing is decoded. */
final class Uri
{
    private const SCHEME = 'strait://';
    private const DEFAULT_PORT = 9090;
    private const MAX_PORT = 65535;
    private const MAX_NAME_BYTES = 255; // as POSIX's NAME_MAX
    private const AUTHORITY = '/^(?|\[([^\]]+)\]|([^\s:?#\[\]]+))(?::([0-9]{0,5}))?$/D';

    private function __construct(
        /** Without the brackets of an IPv6 address. */
        public readonly string $host,
        public readonly int $port,
        /** Null for the gateway's default store. */
        public readonly ?string $store,
        public readonly string $path,
    ) {}

    /** A first component @NAME names a store; one that begins with @@ is a directory with one @ less. */
    public static function parse(string $text): self
    {
        if (!str_starts_with($text, self::SCHEME)) {
            // With an @, it may hold a password.
            throw self::wrong((str_contains($text, '@') ? 'it' : $text) . ' doesn\'t begin with ' . self::SCHEME);
        }
        $names = explode('/', substr($text, strlen(self::SCHEME)));
        $authority = array_shift($names);
        if (str_contains($authority, '@')) {
            throw self::wrong('an address names no user; connect takes user and password');
        }
        $isValid = preg_match(self::AUTHORITY, $authority, $parts) === 1;
        $port = (int) (($parts[2] ?? '') === '' ? self::DEFAULT_PORT : $parts[2]);
        if (!$isValid || $port < 1 || $port > self::MAX_PORT) {
            throw self::wrong("\"$authority\" is no HOST:PORT");
        }
        $names = array_values(array_filter($names, fn ($name) => $name !== ''));
        $store = null;
        if (str_starts_with($names[0] ?? '', '@@')) {
            $names[0] = substr($names[0], 1);
        } elseif (str_starts_with($names[0] ?? '', '@')) {
            $store = substr(array_shift($names), 1);
            if ($store === '') {
                throw self::wrong("\"$text\": a store's name follows the @, as in /@lab; a directory called @ is /@@");
            }
        }
        foreach ([...$names, ...($store === null ? [] : [$store])] as $name) {
            if ($name === '.' || $name === '..' || str_contains($name, "\0") || strlen($name) > self::MAX_NAME_BYTES) {
                throw self::wrong("\"$text\" has a name that is . or .., holds a NUL byte, or is longer than "
                    . self::MAX_NAME_BYTES . ' bytes');
            }
        }
        return new self($parts[1], $port, $store, '/' . implode('/', $names));
    }

    /** @internal A gateway with or without a store, and with or without the scheme. */
    public static function parseAddress(string $address): self
    {
        $uri = self::parse(str_contains($address, '://') ? $address : self::SCHEME . $address);
        return $uri->path === '/' ? $uri
            : throw self::wrong("an address ends with the gateway or its store, and has no path: $address");
    }

    /** HOST:PORT. */
    public function address(): string
    {
        return (str_contains($this->host, ':') ? "[$this->host]" : $this->host) . ":$this->port";
    }

    private static function wrong(string $why): StraitException
    {
        return StraitException::of(ErrorKind::InvalidArgument, "not an address strait://host:port/@store: $why");
    }
}
