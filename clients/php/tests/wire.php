<?php

// The codec and hostile bytes: wire.php AUTOLOAD, of the installed package.

declare(strict_types=1);

use Strait\Fields;
use Strait\MalformedReply;
use Strait\StraitException;
use Strait\Type;
use Strait\Wire;

require $argv[1];

const CALL_AS_REPLY = 2;

function check(bool $holds, string $what): void
{
    if (!$holds) {
        throw new Exception($what);
    }
}

/** A reply with this body, without the frame's length. */
function reply(string $body, int $head = 0x8001_0000 | CALL_AS_REPLY, string $method = 'stat', int $number = 7): string
{
    return pack('NN', $head, strlen($method)) . $method . pack('N', $number) . $body;
}

function isRefused(string $frame): bool
{
    try {
        Wire::reply($frame, 'stat', 7);
    } catch (MalformedReply | StraitException) {
        return true;
    }
    return false;
}

// What a request says is what a reply would.
$inner = (new Fields())->putBool(1, true)->putI16(2, -2)->putI32(3, -3)->putI64(4, PHP_INT_MIN)->putString(5, "\0\xff");
$request = Wire::request('stat', 7, $inner->put(6, Type::List, ['a', ''])->putString(7, null));
check(unpack('N', $request)[1] === strlen($request) - 4, 'the length of a frame');
$fields = Wire::reply(substr($request, 4), 'stat', 7)->struct(1);
check($fields->int(1) === 1 && $fields->int(2) === -2 && $fields->int(3) === -3, 'small integers');
check($fields->int(4) === PHP_INT_MIN && $fields->string(5) === "\0\xff", 'large integers and bytes');
check($fields->strings(6) === ['a', ''] && !$fields->has(7), 'lists and absent fields');
check($fields->string(1) === null && $fields->int(5) === 0 && $fields->structs(6) === [], 'fields of another type');

// Fields of every type are skipped if they are unknown.
$map = "\x0d\0\x09\x0b\x0c" . pack('NN', 1, 1) . "k\x03\0\x01\x05\0";
$double = "\x04\0\x0a" . pack('E', 1.5);
check(Wire::reply(reply("$map$double\x0e\0\x0b\x06" . pack('Nn', 1, 5) . "\0"), 'stat', 7)->has(11), 'unknown fields');

$hostile = [
    'nothing' => '',
    'half a head' => "\x80\x01",
    'another protocol' => reply("\0", 0x7001_0002),
    'another number' => reply("\0", number: 8),
    'another method' => reply("\0", method: 'list'),
    'an exception of Thrift' => reply("\0", 0x8001_0003),
    'no end' => reply("\x0b\0\x01" . pack('N', 1) . 'a'),
    'bytes behind the end' => reply("\0\0"),
    'a string of two gigabytes' => reply("\x0b\0\x01" . pack('N', 0x7fff_ffff) . 'a'),
    'a string of negative length' => reply("\x0b\0\x01\xff\xff\xff\xff"),
    'a list of two billion strings' => reply("\x0f\0\x01\x0b" . pack('N', 0x7fff_ffff)),
    'a list of negative length' => reply("\x0f\0\x01\x0b\xff\xff\xff\xff"),
    'a list of an unknown type' => reply("\x0f\0\x01\x63" . pack('N', 1) . "a\0"),
    'a field of an unknown type' => reply("\x01\0\x01"),
    'structs in structs' => reply(str_repeat("\x0c\0\x01", 100_000)),
    'lists in lists' => reply("\x0f\0\x01" . str_repeat("\x0f" . pack('N', 1), 100_000)),
    'millions of empty structs' => reply("\x0f\0\x01\x0c" . pack('N', 4_000_000) . str_repeat("\0", 4_000_001)),
];
foreach ($hostile as $what => $frame) {
    check(isRefused($frame), "$what isn't refused");
}

// A wrong byte, or an early end, gives an error or other fields, and nothing else.
$frame = substr($request, 4);
for ($at = 0; $at < strlen($frame); $at++) {
    check(isRefused(substr($frame, 0, $at)), "a reply that ends after $at bytes");
    for ($byte = 0; $byte < 256; $byte++) {
        $changed = $frame;
        $changed[$at] = chr($byte);
        isRefused($changed);
    }
}
check(memory_get_peak_usage() < 300 << 20, 'memory');
