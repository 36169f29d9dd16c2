<?php
// php bare_calls.php GENERATED read|write HOST:PORT PATH MIB: as bare_calls.rb, by Thrift's generated code and runtime
// for PHP.
declare(strict_types=1);

use Thrift\Protocol\TBinaryProtocol;
use Thrift\Transport\TFramedTransport;
use Thrift\Transport\TSocket;

const PIECE_BYTES = 1 << 20;
const TIMEOUT_MS = 120_000;

[, $generated, $action, $gateway, $path, $mib] = $argv;
spl_autoload_register(function (string $class) use ($generated): void {
    $file = str_replace('\\', '/', $class) . '.php';
    // Debian's php-thrift keeps Thrift\X as X there; the generated classes have no name space.
    $path = str_starts_with($file, 'Thrift/') ? '/usr/lib/php/' . substr($file, 7) : "$generated/$file";
    if (is_file($path)) {
        require_once $path;
    }
});

[$host, $port] = explode(':', $gateway);
$socket = new TSocket($host, (int) $port);
$socket->setSendTimeout(TIMEOUT_MS);
$socket->setRecvTimeout(TIMEOUT_MS);
$transport = new TFramedTransport($socket);
$client = new DfsV2Client(new TBinaryProtocol($transport));
$transport->open();
$client->openSession(new OpenSessionRequest(['version' => 1]));
echo "ready\n";
fgets(STDIN);
if ($action === 'read') {
    $handle = $client->openFile(new OpenFileRequest(['path' => $path]))->handle;
    for ($n = 0; $n < (int) $mib; $n++) {
        $range = ['handle' => $handle, 'offset' => $n * PIECE_BYTES, 'length' => PIECE_BYTES];
        $data = $client->readRange(new ReadRangeRequest($range))->data;
        strlen($data) === PIECE_BYTES || throw new Exception('a short reply');
    }
    $client->closeFile(new CloseFileRequest(['handle' => $handle]));
} else {
    $create = ['path' => $path, 'request_id' => random_bytes(16)];
    $handle = $client->createFile(new CreateFileRequest($create))->handle;
    $append = ['handle' => $handle, 'data' => str_repeat("\0", PIECE_BYTES)];
    for ($n = 0; $n < (int) $mib; $n++) {
        $append = ['expected_offset' => $n * PIECE_BYTES, 'request_id' => random_bytes(16)] + $append;
        $client->appendData(new AppendDataRequest($append));
    }
    $client->closeFile(new CloseFileRequest(['handle' => $handle, 'request_id' => random_bytes(16)]));
}
echo "done\n";
