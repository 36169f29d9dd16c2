<?php

declare(strict_types=1);

namespace Strait;

/** A session's store. */
final class Store
{
    public readonly string $name;
    public readonly string $uri;
    /** @var list<string> names of what the store can do, such as append or rename_replace */
    public readonly array $capabilities;

    /** @internal */
    public function __construct(Fields $store)
    {
        $this->name = $store->string(1) ?? '';
        $this->uri = $store->string(2) ?? '';
        $this->capabilities = $store->strings(3);
    }

    public function can(string $capability): bool
    {
        return in_array($capability, $this->capabilities, true);
    }
}

/** A file or directory. */
final class Info
{
    private const DIRECTORY = 2;

    public readonly string $path;
    /** The path's last name. */
    public readonly string $name;
    public readonly bool $isDirectory;
    /** In bytes. */
    public readonly int $length;
    /** In bytes. */
    public readonly int $blockSize;
    public readonly int $replication;
    /** Milliseconds since 1970-01-01 UTC. */
    public readonly int $modifiedMs;
    /** Milliseconds since 1970-01-01 UTC. */
    public readonly int $accessedMs;
    /** Permission bits, 07777 at most. */
    public readonly int $permission;
    public readonly string $owner;
    public readonly string $group;
    /** The name is a symbolic link; all else is about what it leads to. Only listings tell. */
    public readonly bool $isLink;

    /** @internal */
    public function __construct(Fields $info)
    {
        $this->path = $info->string(1) ?? '';
        $this->name = substr($this->path, (int) strrpos($this->path, '/') + 1);
        $this->isDirectory = $info->int(2) === self::DIRECTORY;
        $this->length = $info->int(3);
        $this->blockSize = $info->int(4);
        $this->replication = $info->int(5);
        $this->modifiedMs = $info->int(6);
        $this->accessedMs = $info->int(7);
        $this->permission = $info->int(8);
        $this->owner = $info->string(9) ?? '';
        $this->group = $info->string(10) ?? '';
        $this->isLink = $info->int(11) !== 0;
    }
}

/** Where a part of a file lies. */
final class Block
{
    /** In bytes. */
    public readonly int $offset;
    /** In bytes. */
    public readonly int $length;
    /** @var list<string> */
    public readonly array $hosts;

    /** @internal */
    public function __construct(Fields $block)
    {
        $this->offset = $block->int(1);
        $this->length = $block->int(2);
        $this->hosts = $block->strings(3);
    }
}

/** A store's own checksum of a file; comparable under the same algorithm. */
final class Checksum
{
    public readonly string $algorithm;
    /** Raw bytes; bin2hex makes them readable. */
    public readonly string $value;

    /** @internal */
    public function __construct(Fields $reply)
    {
        $this->algorithm = $reply->string(1) ?? '';
        $this->value = $reply->string(2) ?? '';
    }
}

/** Capacity of a whole store, in bytes. */
final class Status
{
    public readonly int $capacity;
    public readonly int $used;
    public readonly int $remaining;

    /** @internal */
    public function __construct(Fields $reply)
    {
        $this->capacity = $reply->int(2);
        $this->used = $reply->int(3);
        $this->remaining = $reply->int(4);
    }
}
