<?php

declare(strict_types=1);

namespace Strait;

/**
 * PHP's own functions for files on strait://HOST:PORT/PATH: fopen with r, w, a or x, file_get_contents, copy, rename,
 * unlink, mkdir, rmdir, scandir, stat, touch, chmod. A failure is a warning, as with local files. The context option
 * "strait" takes the named arguments of Client::connect. Each address and set of options has one client, which lives
 * to the end of the request.
 */
final class StreamWrapper
{
    private const SCHEME = 'strait';
    private const DIRECTORY_MODE = 0o040000;
    private const FILE_MODE = 0o100000;

    /** @var array<string, Client> */
    private static array $clients = [];
    /** @var array<int, self> files that are open to be written */
    private static array $writing = [];

    /** @var ?resource set by PHP */
    public $context = null;

    private Uri $uri;
    private Reader|Writer $file;
    private \Generator $entries;

    /** Makes PHP's functions accept strait:// URIs. */
    public static function register(): void
    {
        if (!in_array(self::SCHEME, stream_get_wrappers(), true)) {
            stream_wrapper_register(self::SCHEME, self::class, STREAM_IS_URL);
            // PHP closes local files at the end of a request; streams only after the destructors of the clients.
            register_shutdown_function(function (): void {
                foreach (self::$writing as $stream) {
                    $stream->stream_close();
                }
            });
        }
    }

    // ------------------------------------------------------------------ files

    public function stream_open(string $uri, string $mode, int $options, ?string &$opened): bool
    {
        return $this->attempt(function () use ($uri, $mode): bool {
            [$client, $path] = $this->locate($uri);
            $this->file = match (rtrim($mode, 'bte')) {
                'r' => $client->openRead($path),
                'w' => $client->create($path, overwrite: true),
                'x' => $client->create($path),
                'a' => self::append($client, $path),
                default => throw StraitException::of(
                    ErrorKind::Unsupported,
                    "the mode $mode: a file is either read (r) or written (w, a, x)",
                    $path,
                ),
            };
            if ($this->file instanceof Writer) {
                self::$writing[spl_object_id($this)] = $this;
            }
            return true;
        });
    }

    private static function append(Client $client, string $path): Writer
    {
        try {
            return $client->append($path);
        } catch (NotFoundException) {
            return $client->create($path);
        }
    }

    public function stream_read(int $count): string|false
    {
        return $this->file instanceof Reader ? $this->attempt(fn () => $this->file->read($count)) : false;
    }

    public function stream_write(string $bytes): int|false
    {
        return $this->file instanceof Writer ? $this->attempt(fn () => $this->file->write($bytes)) : false;
    }

    public function stream_eof(): bool
    {
        return !$this->file instanceof Reader || $this->file->eof();
    }

    public function stream_tell(): int
    {
        return $this->file->tell();
    }

    public function stream_seek(int $offset, int $whence): bool
    {
        if ($this->file instanceof Writer) {
            return $whence === SEEK_END && $offset === 0; // it is always there
        }
        return $this->attempt(function () use ($offset, $whence): bool {
            $this->file->seek($offset, $whence);
            return true;
        });
    }

    public function stream_flush(): bool
    {
        return !isset(self::$writing[spl_object_id($this)]) || $this->attempt(function (): bool {
            $this->file->flush();
            return true;
        });
    }

    public function stream_stat(): array|false
    {
        return $this->attempt(function (): array {
            [$client, $path] = $this->locate($this->uri);
            return self::asStat($client->stat($path), $this->file instanceof Writer ? $this->file->tell() : null);
        });
    }

    /** fclose itself can't fail, so an error is a warning. */
    public function stream_close(): void
    {
        unset(self::$writing[spl_object_id($this)]);
        $this->attempt(function (): bool {
            $this->file->close();
            return true;
        });
    }

    /** No stream of this wrapper can be told not to wait. */
    public function stream_set_option(int $option, int $first, ?int $second): bool
    {
        return false;
    }

    // ------------------------------------------------------------------ names

    public function url_stat(string $uri, int $flags): array|false
    {
        return $this->attempt(function () use ($uri): array {
            [$client, $path] = $this->locate($uri);
            return self::asStat($client->stat($path));
        }, ($flags & STREAM_URL_STAT_QUIET) === 0);
    }

    public function unlink(string $uri): bool
    {
        return $this->remove($uri, false);
    }

    public function rmdir(string $uri, int $options): bool
    {
        return $this->remove($uri, true);
    }

    private function remove(string $uri, bool $isDirectory): bool
    {
        return $this->attempt(function () use ($uri, $isDirectory): bool {
            [$client, $path] = $this->locate($uri);
            if ($client->stat($path)->isDirectory !== $isDirectory) {
                $kind = $isDirectory ? ErrorKind::NotADirectory : ErrorKind::IsADirectory;
                throw StraitException::of($kind, $isDirectory ? 'it is a file' : 'it is a directory', $path);
            }
            $client->remove($path);
            return true;
        });
    }

    /** As with local files, a file at the target is replaced. */
    public function rename(string $from, string $to): bool
    {
        return $this->attempt(function () use ($from, $to): bool {
            [$client, $source] = $this->locate($from);
            [$other, $target] = $this->locate($to);
            if ($client !== $other) {
                throw StraitException::of(ErrorKind::Unsupported, 'the target is in another store: use copy', $source);
            }
            $client->rename($source, $target, replace: true);
            return true;
        });
    }

    public function mkdir(string $uri, int $permission, int $options): bool
    {
        return $this->attempt(function () use ($uri, $permission, $options): bool {
            [$client, $path] = $this->locate($uri);
            if ($client->exists($path)) {
                throw StraitException::of(ErrorKind::AlreadyExists, 'the path is taken', $path);
            }
            if (($options & STREAM_MKDIR_RECURSIVE) === 0) {
                $client->stat(dirname($path));
            }
            $client->makeDirectories($path, $permission & ~umask());
            return true;
        });
    }

    public function stream_metadata(string $uri, int $option, mixed $value): bool
    {
        return $this->attempt(function () use ($uri, $option, $value): bool {
            [$client, $path] = $this->locate($uri);
            switch ($option) {
                case STREAM_META_TOUCH:
                    if (!$client->exists($path)) {
                        $client->create($path)->close();
                    }
                    $modified = $value[0] ?? time();
                    $accessed = $value[1] ?? $modified;
                    $client->setAttributes($path, modifiedMs: $modified * 1000, accessedMs: $accessed * 1000);
                    return true;
                case STREAM_META_ACCESS:
                    $client->setAttributes($path, permission: $value & 0o7777);
                    return true;
                case STREAM_META_OWNER_NAME:
                    $client->setAttributes($path, owner: $value);
                    return true;
                case STREAM_META_GROUP_NAME:
                    $client->setAttributes($path, group: $value);
                    return true;
                default:
                    throw StraitException::of(ErrorKind::Unsupported, 'owners and groups have only names', $path);
            }
        });
    }

    // ------------------------------------------------------------ directories

    public function dir_opendir(string $uri, int $options): bool
    {
        return $this->attempt(function () use ($uri): bool {
            $this->locate($uri);
            return $this->dir_rewinddir();
        });
    }

    public function dir_rewinddir(): bool
    {
        return $this->attempt(function (): bool {
            [$client, $path] = $this->locate($this->uri);
            $this->entries = $client->list($path);
            $this->entries->valid(); // asks for the first page
            return true;
        });
    }

    public function dir_readdir(): string|false
    {
        return $this->attempt(function (): string|false {
            if (!$this->entries->valid()) {
                return false;
            }
            $name = $this->entries->current()->name;
            $this->entries->next();
            return $name;
        });
    }

    public function dir_closedir(): bool
    {
        unset($this->entries);
        return true;
    }

    // ---------------------------------------------------------------- helpers

    /** @return array{Client, string} the client of the URI's store, and the path there */
    private function locate(string|Uri $uri): array
    {
        $this->uri = is_string($uri) ? Uri::parse($uri) : $uri;
        $options = $this->context === null ? [] : stream_context_get_options($this->context)[self::SCHEME] ?? [];
        $key = hash('sha256', serialize([$this->uri->address(), $this->uri->store, $options]));
        $store = $this->uri->store === null ? '' : "/@{$this->uri->store}";
        self::$clients[$key] ??= Client::connect($this->uri->address() . $store, ...$options);
        return [self::$clients[$key], $this->uri->path];
    }

    /** False and a warning in place of an exception, as PHP's functions for files have it. */
    private function attempt(\Closure $operation, bool $reports = true): mixed
    {
        try {
            return $operation();
        } catch (StraitException $failure) {
            if ($reports) {
                trigger_error($failure->getMessage(), E_USER_WARNING);
            }
            return false;
        }
    }

    private static function asStat(Info $info, ?int $length = null): array
    {
        $size = $length ?? $info->length;
        $named = [
            'dev' => 0,
            'ino' => 0,
            'mode' => ($info->isDirectory ? self::DIRECTORY_MODE : self::FILE_MODE) | $info->permission,
            'nlink' => 1,
            'uid' => 0,
            'gid' => 0,
            'rdev' => 0,
            'size' => $size,
            'atime' => intdiv($info->accessedMs, 1000),
            'mtime' => intdiv($info->modifiedMs, 1000),
            'ctime' => intdiv($info->modifiedMs, 1000),
            'blksize' => -1,
            'blocks' => -1,
        ];
        return [...array_values($named), ...$named];
    }
}
