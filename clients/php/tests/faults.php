<?php

// A gateway that fails as a script of this test says: faults.php AUTOLOAD, of the installed package.

declare(strict_types=1);

use Strait\Client;
use Strait\Decoder;
use Strait\ErrorKind;
use Strait\Fields;
use Strait\NoSpaceException;
use Strait\StraitException;
use Strait\Wire;

require $argv[1];

/** Keeps one file. */
final class FakeGateway
{
    private string $content = '';
    /** @var array<string, int> ids of appends, and how often each came */
    private array $appends = [];

    /** @param list<string> $faults one for each append: none, full, lost (executed, without a reply), huge (a reply) */
    public function __construct(private array $faults) {}

    /** @return array{string, int} the address, and the process that serves there */
    public function start(): array
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $process = pcntl_fork();
        if ($process === 0) {
            while ($connection = stream_socket_accept($listener, 60)) {
                $this->serve($connection);
                fclose($connection);
            }
            exit(1);
        }
        return [stream_socket_get_name($listener, false), $process];
    }

    /** @param resource $connection */
    private function serve($connection): void
    {
        while (strlen($head = (string) stream_get_contents($connection, 4)) === 4) {
            $decoder = new Decoder(stream_get_contents($connection, unpack('N', $head)[1]));
            $decoder->number(4);
            $method = $decoder->bytes();
            $number = $decoder->number(4);
            $reply = new Fields();
            try {
                $fault = $this->execute($method, $decoder->struct()->struct(1), $reply);
                if ($fault === 'huge') {
                    fwrite($connection, pack('N', 0x7fff_ffff));
                }
                if ($fault !== 'none') {
                    return;
                }
                $field = 0;
            } catch (StraitException $failure) {
                $reply = (new Fields())->putI32(1, $failure->kind->value)->putString(3, $failure->getMessage());
                $field = 1;
            }
            $frame = Wire::request($method, $number, $reply); // which has the field 1
            $frame[18 + strlen($method)] = chr($field);
            fwrite($connection, $frame);
        }
    }

    private function execute(string $method, Fields $request, Fields $reply): string
    {
        switch ($method) {
            case 'openSession':
                $reply->putString(1, 'token');
                return 'none';
            case 'readRange':
                $reply->putString(1, substr($this->content, $request->int(3), $request->int(4)));
                return 'none';
            case 'appendData':
                return $this->append($request, array_shift($this->faults) ?? 'none');
            default:
                $reply->putI64(1, 1);
                return 'none';
        }
    }

    private function append(Fields $request, string $fault): string
    {
        $id = $request->string(2);
        $this->appends[$id] = ($this->appends[$id] ?? 0) + 1;
        if ($this->appends[$id] > 1 && $request->int(3) === 0) {
            throw StraitException::of(ErrorKind::Corrupt, 'a repeated append without is_retry');
        }
        if ($fault === 'full') {
            throw StraitException::of(ErrorKind::NoSpace, 'no space left');
        }
        if ($this->appends[$id] === 1 || strlen($this->content) === $request->int(5)) {
            $this->content .= $request->string(6);
        }
        return $fault;
    }
}

function same(mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        throw new Exception(var_export($got, true) . ' in place of ' . var_export($wanted, true));
    }
}

/** Runs it with a client of a gateway with these faults. */
function against(array $faults, Closure $test): void
{
    [$address, $process] = (new FakeGateway($faults))->start();
    try {
        $client = Client::connect($address);
        $test($client);
        $client->close();
    } finally {
        posix_kill($process, SIGKILL);
        pcntl_waitpid($process, $status);
    }
}

// A full store: the writer keeps the bytes that it refused.
against(['none', 'full', 'full'], function (Client $client): void {
    $writer = $client->create('/f');
    $writer->write('first ');
    $writer->flush();
    $writer->write('second ');
    foreach ([$writer->flush(...), $writer->close(...)] as $call) {
        try {
            $call();
            throw new Exception('no error');
        } catch (NoSpaceException) {
            same($writer->tell(), 13);
        }
    }
    $writer->write('third');
    $writer->close();
    same($client->getContents('/f'), 'first second third');
});

// Lost replies: no byte is written twice.
against(['lost', 'none', 'lost', 'lost'], function (Client $client): void {
    $writer = $client->create('/f');
    $writer->write('first ');
    $writer->flush();
    $writer->write('second');
    $writer->close();
    same($client->getContents('/f'), 'first second');
});

// A reply that claims two gigabytes breaks the connection, and takes no memory.
against(array_fill(0, 6, 'huge'), function (Client $client): void {
    $writer = $client->create('/f');
    $writer->write('first');
    try {
        $writer->close();
        throw new Exception('no error');
    } catch (StraitException $failure) {
        same([$failure->kind, $failure->path], [ErrorKind::OutcomeUnknown, '/f']);
        same(str_contains($failure->getMessage(), '2147483647 bytes'), true);
    }
});
same(memory_get_peak_usage() < 16 << 20, true);
