<?php
// Calls of both generations of the interface, by Thrift's generator and runtime for PHP:
// php story.php GENERATED HOST PORT DIRECTORY
declare(strict_types=1);

use Thrift\Protocol\TBinaryProtocol;
use Thrift\Transport\TBufferedTransport;
use Thrift\Transport\TSocket;

[, $generated, $host, $port, $directory] = $argv;
spl_autoload_register(function (string $class) use ($generated): void {
    $file = str_replace('\\', '/', $class) . '.php';
    // Debian's php-thrift keeps Thrift\X as X there; the generated classes have no name space.
    $path = str_starts_with($file, 'Thrift/') ? '/usr/lib/php/' . substr($file, 7) : "$generated/$file";
    if (is_file($path)) {
        require_once $path;
    }
});

function same(mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        throw new Exception(var_export($got, true) . ' in place of ' . var_export($wanted, true));
    }
}

function names(array $entries): array
{
    $names = array_map(fn ($entry) => basename($entry->path), $entries);
    sort($names);
    return $names;
}

$transport = new TBufferedTransport(new TSocket($host, (int) $port));
$client = new DfsV2Client(new TBinaryProtocol($transport));
$transport->open();
$bytes = "bytes\0\xff";
[$read, $write] = [1, 2]; // its generator makes constants only on demand

// 2009
$session = $client->init('');
same($client->mkdir($session, $directory), true);
$path = "$directory/old";
$file = $client->open($session, $path, $write);
$client->write($session, $file, $bytes, -1, 7);
$client->close($session, $file);
same($client->stat($session, $path)->length, 7);
$file = $client->open($session, $path, $read);
same($client->read($session, $file, 0, 100), $bytes);
$client->close($session, $file);
same(names($client->listFiles($session, $directory)), ['old']);
try {
    $client->stat($session, "$directory/missing");
    throw new Exception('no exception');
} catch (DfsServiceIOException $error) {
    same(str_contains($error->message, 'missing'), true);
}
$client->closeClient($session);

// Today
$client->openSession(new OpenSessionRequest(['version' => 1]));
$path = "$directory/new";
$file = $client->createFile(new CreateFileRequest(['path' => $path, 'request_id' => random_bytes(16)]));
$append = ['handle' => $file->handle, 'expected_offset' => 0, 'data' => $bytes, 'request_id' => random_bytes(16)];
same($client->appendData(new AppendDataRequest($append))->position, 7);
$close = ['handle' => $file->handle, 'request_id' => random_bytes(16)];
same($client->closeFile(new CloseFileRequest($close))->length, 7);
$file = $client->openFile(new OpenFileRequest(['path' => $path]));
$range = ['handle' => $file->handle, 'offset' => 2, 'length' => 100];
same($client->readRange(new ReadRangeRequest($range))->data, substr($bytes, 2));
$client->closeFile(new CloseFileRequest(['handle' => $file->handle]));
same(names($client->listDirectory(new ListDirectoryRequest(['path' => $directory]))->entries), ['new', 'old']);
try {
    $client->getFileInfo(new GetFileInfoRequest(['path' => "$directory/missing"]));
    throw new Exception('no exception');
} catch (DfsError $error) {
    same([$error->code, $error->kind, $error->path], [1, 'NotFound', "$directory/missing"]);
}
$remove = ['path' => $directory, 'recursive' => true, 'request_id' => random_bytes(16)];
$client->removePath(new RemovePathRequest($remove));
$client->closeSession(new CloseSessionRequest());
echo "PHP: both generations of calls\n";
