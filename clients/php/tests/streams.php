<?php

// PHP's own functions on strait:// URIs, unfinished files, and forks: streams.php AUTOLOAD HOST:PORT

declare(strict_types=1);

use Strait\Client;
use Strait\StreamWrapper;

require $argv[1];

function same(mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        throw new Exception(var_export($got, true) . ' in place of ' . var_export($wanted, true));
    }
}

/** @return string the warning of an operation that fails */
function warning(Closure $operation): string
{
    $warning = '';
    set_error_handler(function (int $level, string $message) use (&$warning): bool {
        $warning .= "$message\n";
        return true;
    });
    same($operation(), false);
    restore_error_handler();
    return $warning;
}

/** Runs it in a child, and returns the child's exit code. */
function forked(Closure $child): int
{
    $process = pcntl_fork();
    if ($process === 0) {
        $child();
        exit(0);
    }
    pcntl_waitpid($process, $status);
    return pcntl_wexitstatus($status);
}

[, , $address] = $argv;
StreamWrapper::register();
$root = '/streams-' . bin2hex(random_bytes(4));
$base = "strait://$address$root";
$client = Client::connect($address);

// Files
same(file_put_contents("$base/ü 1", "first\n"), 6);
same(file_put_contents("$base/ü 1", "second\n", FILE_APPEND), 7);
same(file_put_contents("$base/new", 'x', FILE_APPEND), 1);
same(file("$base/ü 1"), ["first\n", "second\n"]);
$file = fopen("$base/ü 1", 'rb');
same(fseek($file, -3, SEEK_END), 0);
same([fread($file, 100), ftell($file), feof($file), fstat($file)['size']], ["nd\n", 13, true, 13]);
same(rewind($file), true);
same([fgets($file), feof($file)], ["first\n", false]);
fclose($file);
$bytes = random_bytes(3_000_001);
file_put_contents("$base/large", $bytes);
same(copy("$base/large", "$base/copy"), true);
same(file_get_contents("$base/copy", offset: 1_000_000), substr($bytes, 1_000_000));
same(str_contains(warning(fn () => fopen("$base/missing", 'r')), "$root/missing"), true);
same(str_contains(warning(fn () => fopen("$base/ü 1", 'x')), "$root/ü 1"), true);
same(str_contains(warning(fn () => fopen("$base/ü 1", 'r+')), 'mode r+'), true);
same(str_contains(warning(fn () => fopen('strait:///a', 'r')), 'HOST:PORT'), true);
same(str_contains(warning(fn () => fopen("$base/\xff", 'w')), 'UTF-8'), true);

// Names
same([is_file("$base/new"), is_dir("$base/new"), file_exists("$base/missing")], [true, false, false]);
same(is_dir($base), true);
same(filesize("$base/large"), 3_000_001);
same(rename("$base/copy", "$base/new"), true);
same(scandir($base), ['large', 'new', 'ü 1']);
same(mkdir("$base/a"), true);
same(str_contains(warning(fn () => mkdir("$base/a")), "$root/a"), true);
same(str_contains(warning(fn () => mkdir("$base/b/c")), "$root/b"), true);
same(mkdir("$base/b/c", 0o700, true), true);
same(str_contains(warning(fn () => unlink("$base/a")), 'directory'), true);
same(str_contains(warning(fn () => rmdir("$base/new")), 'file'), true);
same(str_contains(warning(fn () => rmdir("$base/b")), "$root/b"), true);
same([rename("$base/b", "$base/d"), is_dir("$base/d/c"), is_dir("$base/b")], [true, true, false]);
same([rmdir("$base/a"), unlink("$base/new")], [true, true]);
same([touch("$base/large", 1_000_000_000), touch("$base/empty")], [true, true]);
clearstatcache();
same([filemtime("$base/large"), filesize("$base/empty")], [1_000_000_000, 0]);
if ($client->store()->can('permissions')) {
    same(chmod("$base/large", 0o640), true);
    clearstatcache();
    same(fileperms("$base/large"), 0o100640);
}

// The end of a request closes streams, and abandons writers.
same(forked(function () use ($base, $client, $root): void {
    $GLOBALS['stream'] = fopen("$base/unclosed", 'w');
    fwrite($GLOBALS['stream'], 'whole');
}), 0);
same(file_get_contents("$base/unclosed"), 'whole');

// A child has connections of its own, and leaves its parent's files and session alone.
$reader = $client->openRead("$root/large");
same($reader->read(10), substr($bytes, 0, 10));
$writer = $client->create("$root/parent");
$writer->write('parent');
$stream = fopen("$base/stream", 'w');
fwrite($stream, 'parent');
for ($child = 0; $child < 3; $child++) {
    same(forked(function () use ($client, $reader, $writer, $root, $bytes): void {
        same($reader->readAt(2_500_000, 100), substr($bytes, 2_500_000, 100));
        same($client->exists($root), true);
        $writer->close();
        try {
            $writer->write('child');
            exit(1);
        } catch (Strait\InvalidArgumentException) {
            $reader->close();
            $client->close();
        }
    }), 0);
}
same($reader->readAt(2_000_000, 100), substr($bytes, 2_000_000, 100));
$reader->close();
$writer->close();
fclose($stream);
same([$client->getContents("$root/parent"), $client->getContents("$root/stream")], ['parent', 'parent']);

$client->remove($root, recursive: true);
$client->close();
echo "streams: passed\n";
