<?php
// php stream_file.php LIBRARY read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for PHP.
declare(strict_types=1);

use Strait\Client;

const PIECE_BYTES = 1 << 20;

[, $library, $action, $gateway, $path, $mib] = $argv;
spl_autoload_register(function (string $class) use ($library): void {
    $file = "$library/" . substr($class, strlen('Strait\\')) . '.php';
    if (is_file($file)) {
        require_once $file;
    }
});
foreach (glob("$library/*.php") as $file) {
    require_once $file; // some hold several classes
}

$client = Client::connect($gateway);
echo "ready\n";
fgets(STDIN);
if ($action === 'read') {
    $reader = $client->openRead($path);
    for ($bytes = 0; ($piece = $reader->read(PIECE_BYTES)) !== '';) {
        $bytes += strlen($piece);
    }
    $reader->close();
    $bytes === (int) $mib << 20 || throw new Exception("another length: $bytes");
} else {
    $writer = $client->create($path);
    $piece = str_repeat("\0", PIECE_BYTES);
    for ($n = 0; $n < (int) $mib; $n++) {
        $writer->write($piece);
    }
    $writer->close();
}
echo "done\n";
$client->close();
