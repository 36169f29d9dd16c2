<?php

// Answers the requests of tests/languages/driver.py: driver.php AUTOLOAD, of the installed package.

declare(strict_types=1);

use Strait\Client;
use Strait\Fields;
use Strait\StraitException;
use Strait\Type;
use Strait\Uri;
use Strait\Writer;

require $argv[1];

// A warning is an error.
set_error_handler(function (int $level, string $message, string $file, int $line): bool {
    if (error_reporting() & $level) {
        throw new ErrorException($message, 0, $level, $file, $line);
    }
    return false;
});

final class Driver
{
    /** @var array<string, Client> */
    private array $clients = [];
    /** @var array<string, Strait\Reader|Writer> */
    private array $files = [];
    private Client $client;

    public function run(): void
    {
        while (($parts = self::receive()) !== null) {
            try {
                $answer = ['ok', ...$this->answer(array_shift($parts), $parts)];
            } catch (StraitException $failure) {
                [$kind, $path] = [$failure->kind->name, $failure->path ?? ''];
                $answer = ['error', $kind, $path, $failure->getMessage(), $failure::class];
            }
            $bytes = pack('N', count($answer));
            foreach ($answer as $part) {
                $bytes .= pack('N', strlen((string) $part)) . $part;
            }
            fwrite(STDOUT, $bytes);
        }
        foreach ($this->clients as $client) {
            $client->close();
        }
    }

    /** @return ?list<string> */
    private static function receive(): ?array
    {
        $count = self::exactly(4);
        if (strlen($count) < 4) {
            return null;
        }
        $parts = [];
        for ($left = unpack('N', $count)[1]; $left > 0; $left--) {
            $parts[] = self::exactly(unpack('N', self::exactly(4))[1]);
        }
        return $parts;
    }

    private static function exactly(int $length): string
    {
        return $length === 0 ? '' : stream_get_contents(STDIN, $length);
    }

    /**
     * @param list<string> $given
     * @return list<int|string>
     */
    private function answer(string $operation, array $given): array
    {
        $number = fn (int $index): ?int => ($given[$index] ?? '') === '' ? null : (int) $given[$index];
        $path = $given[0] ?? '';
        $file = $this->files[$path] ?? null;
        switch ($operation) {
            case 'connect':
                $this->client = $this->clients[$path] = Client::connect($given[1], timeoutMs: $number(2));
                return [implode(',', $this->client->store()->capabilities)];
            case 'use':
                $this->client = $this->clients[$path];
                return [];
            case 'disconnect':
                $this->clients[$path]->close();
                unset($this->clients[$path]);
                return [];
            case 'open':
                $this->files[$path] = match ($given[2]) {
                    'read' => $this->client->openRead($given[1]),
                    'append' => $this->client->append($given[1]),
                    default => $this->client->create($given[1], $given[2] === 'overwrite', $number(3)),
                };
                return [];
            case 'read':
                return [$number(1) < 0 ? $file->getContents() : $file->read($number(1))];
            case 'pread':
                return [$file->readAt($number(1), $number(2))];
            case 'write':
                $file->write($given[1]);
                return [];
            case 'position':
                return [$file->tell()];
            case 'flush':
                $file->flush();
                return [];
            case 'sync':
                $file->sync();
                return [];
            case 'close':
                $file->close();
                unset($this->files[$path]);
                return [];
            case 'stat':
                $info = $this->client->stat($path);
                return [
                    $info->isDirectory ? 'directory' : 'file', $info->length, $info->permission, $info->replication,
                    $info->modifiedMs, $info->accessedMs,
                ];
            case 'exists':
                return [$this->client->exists($path) ? '1' : '0'];
            case 'list':
                $entries = iterator_to_array($this->client->list($path, $number(1)), false);
                return array_map(fn ($entry) => $entry->name, $entries);
            case 'mkdirs':
                $this->client->makeDirectories($path, $number(1));
                return [];
            case 'rename':
                $this->client->rename($path, $given[1], $given[2] === '1');
                return [];
            case 'remove':
                $this->client->remove($path, $given[1] === '1');
                return [];
            case 'attributes':
                $this->client->setAttributes(
                    $path,
                    permission: $number(1),
                    replication: $number(2),
                    modifiedMs: $number(3),
                    accessedMs: $number(4),
                );
                return [];
            case 'truncate':
                $this->client->truncate($path, $number(1));
                return [];
            case 'concat':
                $this->client->concat($path, array_slice($given, 1));
                return [];
            case 'put':
                $this->client->put($path, $given[1], $given[2] === '1');
                return [];
            case 'locate':
                $blocks = $this->client->locate($path, $number(1), $number(2));
                $numbers = array_map(fn ($one) => [$one->offset, $one->length, count($one->hosts)], $blocks);
                return array_merge(...$numbers);
            case 'checksum':
                $sum = $this->client->checksum($path);
                return [$sum->algorithm, $sum->value];
            case 'status':
                $status = $this->client->status();
                return [$status->capacity, $status->used, $status->remaining];
            case 'uri':
                $uri = Uri::parse($path);
                return [$uri->host, $uri->port, $uri->store ?? '', $uri->path];
            case 'request':
                return $this->request($given);
            default:
                throw new LogicException($operation);
        }
    }

    /** A request below the client, by the numbers of its fields. */
    private function request(array $given): array
    {
        [$client, $method] = array_splice($given, 0, 2);
        $request = new Fields();
        foreach (array_chunk($given, 3) as [$id, $type, $value]) {
            $type = Type::from((int) $type);
            $request->put((int) $id, $type, $type === Type::Binary ? $value : (int) $value);
        }
        $answer = [];
        foreach ($this->clients[$client]->request($method, $request)->all() as $id => [, $value]) {
            if (is_int($value) || is_string($value)) {
                array_push($answer, $id, $value);
            }
        }
        return $answer;
    }
}

(new Driver())->run();
