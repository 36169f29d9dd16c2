<?php

declare(strict_types=1);

namespace Strait;

/** @internal Copies whole files by temporary names, so that a target is never half a file. */
final class Transfer
{
    private const COPY_BYTES = 1 << 20;

    public function __construct(private readonly Client $client, private readonly Session $session) {}

    public function get(string $source, string $target, bool $overwrite): void
    {
        if (!$overwrite && file_exists($target)) {
            throw StraitException::of(ErrorKind::AlreadyExists, 'the local file is there already', $target);
        }
        $file = $this->client->openRead($source);
        $temporary = dirname($target) . '/.strait-get-' . bin2hex(random_bytes(8));
        try {
            self::local($target, function () use ($file, $temporary, $target): void {
                $copy = fopen($temporary, 'xb');
                do {
                    fwrite($copy, $file->read(self::COPY_BYTES));
                } while (!$file->eof());
                fclose($copy);
                rename($temporary, $target);
            }, $temporary);
        } finally {
            $file->close();
            @unlink($temporary); // it is gone after a success
        }
    }

    public function put(string $source, string $target, bool $overwrite): void
    {
        $there = $this->statOrNull($target);
        if ($there?->isDirectory) {
            $target = rtrim($target, '/') . '/' . basename($source);
            $there = $this->statOrNull($target);
        }
        if ($there !== null && !$overwrite) {
            throw StraitException::of(ErrorKind::AlreadyExists, 'the path is taken', $target);
        }
        if ($there?->isDirectory) {
            throw StraitException::of(ErrorKind::IsADirectory, 'the target is a directory', $target);
        }
        $directory = substr($target, 0, (int) strrpos($target, '/') + 1);
        $temporary = $directory . '.strait-put-' . bin2hex(random_bytes(16));
        try {
            $this->upload($source, $temporary);
            $canReplace = $this->client->store()->can('rename_replace');
            if ($there !== null && !$canReplace) {
                $this->client->remove($target);
            }
            $this->client->rename($temporary, $target, $overwrite && $canReplace);
        } catch (StraitException $failure) {
            $this->session->tidy('removePath', (new Fields())->putPath(4, $temporary), changes: true);
            if ($failure->path !== $temporary) {
                throw $failure;
            }
            // Nobody knows the temporary name.
            $message = str_replace($temporary, $target, $failure->getMessage());
            throw StraitException::of($failure->kind, $message, $target, $failure->retrySafe, $failure);
        }
    }

    private function upload(string $source, string $target): void
    {
        self::local($source, function () use ($source, $target): void {
            $original = fopen($source, 'rb');
            $file = $this->client->create($target);
            while (($bytes = fread($original, self::COPY_BYTES)) !== '') {
                $file->write($bytes);
            }
            $file->close();
        });
    }

    private function statOrNull(string $path): ?Info
    {
        try {
            return $this->client->stat($path);
        } catch (NotFoundException) {
            return null;
        }
    }

    /** A warning of PHP's about a local file becomes an exception. */
    private static function local(string $path, \Closure $copy, string $temporary = ''): void
    {
        set_error_handler(function (int $level, string $message) use ($path, $temporary): never {
            // Nobody knows the temporary name.
            $message = str_replace($temporary, $path, $message);
            $kind = match (true) {
                str_contains($message, 'No such file') => ErrorKind::NotFound,
                str_contains($message, 'Permission denied') => ErrorKind::PermissionDenied,
                str_contains($message, 'No space left') => ErrorKind::NoSpace,
                str_contains($message, 'directory') => ErrorKind::IsADirectory,
                default => ErrorKind::Internal,
            };
            throw StraitException::of($kind, "the local file: $message", $path);
        });
        try {
            $copy();
        } finally {
            restore_error_handler();
        }
    }
}
