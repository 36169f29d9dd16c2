<?php

declare(strict_types=1);

namespace Strait;

/** @internal Types of fields, as Thrift's binary protocol numbers them. */
enum Type: int
{
    case Bool = 2;
    case Byte = 3;
    case Double = 4;
    case I16 = 6;
    case I32 = 8;
    case I64 = 10;
    case Binary = 11;
    case Struct = 12;
    case Map = 13;
    case Set = 14;
    case List = 15;
}

/**
 * @internal A message of idl/dfs.thrift: its fields by number, so no generated code is needed. Integers and booleans
 * are ints, texts and bytes are strings.
 */
final class Fields
{
    /** @var array<int, array{Type, int|string|array<mixed>|self}> */
    private array $fields = [];

    /** A null isn't sent. */
    public function put(int $id, Type $type, int|string|array|self|null $value): self
    {
        if ($value === null) {
            unset($this->fields[$id]);
        } else {
            $this->fields[$id] = [$type, $value];
        }
        return $this;
    }

    public function putBool(int $id, bool $value): self
    {
        return $this->put($id, Type::Bool, (int) $value);
    }

    public function putI16(int $id, ?int $value): self
    {
        return $this->put($id, Type::I16, $value);
    }

    public function putI32(int $id, ?int $value): self
    {
        return $this->put($id, Type::I32, $value);
    }

    public function putI64(int $id, ?int $value): self
    {
        return $this->put($id, Type::I64, $value);
    }

    public function putString(int $id, ?string $value): self
    {
        return $this->put($id, Type::Binary, $value);
    }

    /** A gateway takes only paths in UTF-8. */
    public function putPath(int $id, string $path): self
    {
        return preg_match('//u', $path) === 1 ? $this->putString($id, $path)
            : throw StraitException::of(ErrorKind::InvalidArgument, 'the path isn\'t UTF-8', $path);
    }

    public function has(int $id): bool
    {
        return isset($this->fields[$id]);
    }

    // A field of another type than expected counts as absent, as in Thrift's own decoders.

    public function int(int $id): int
    {
        $value = $this->fields[$id][1] ?? 0;
        return is_int($value) ? $value : 0;
    }

    public function string(int $id): ?string
    {
        $value = $this->fields[$id][1] ?? null;
        return is_string($value) ? $value : null;
    }

    public function struct(int $id): self
    {
        $value = $this->fields[$id][1] ?? null;
        return $value instanceof self ? $value : new self();
    }

    /** @return list<self> */
    public function structs(int $id): array
    {
        return array_values(array_filter($this->list($id), fn ($item) => $item instanceof self));
    }

    /** @return list<string> */
    public function strings(int $id): array
    {
        return array_values(array_filter($this->list($id), is_string(...)));
    }

    /** @return list<mixed> */
    private function list(int $id): array
    {
        $value = $this->fields[$id][1] ?? [];
        return is_array($value) ? $value : [];
    }

    /** @return array<int, array{Type, int|string|array<mixed>|self}> */
    public function all(): array
    {
        return $this->fields;
    }
}

/** @internal A reply whose bytes are wrong. */
final class MalformedReply extends \Exception {}

/** @internal Thrift's binary protocol, strict, in frames. */
final class Wire
{
    /** The most bytes of a reply. */
    public const MAX_FRAME = 16 << 20;
    private const VERSION = 0x8001_0000;
    private const CALL = 1;
    private const EXCEPTION = 3;

    public static function request(string $method, int $number, Fields $request): string
    {
        // One string that grows: each copy of a MiB takes as long as a small request.
        $frame = pack('NNN', 0, self::VERSION | self::CALL, strlen($method)) . $method . pack('N', $number);
        self::appendStruct($frame, (new Fields())->put(1, Type::Struct, $request));
        foreach (str_split(pack('N', strlen($frame) - 4)) as $at => $byte) {
            $frame[$at] = $byte;
        }
        return $frame;
    }

    /** The reply's fields: 0 the result, 1 the error. */
    public static function reply(string $frame, string $method, int $number): Fields
    {
        $decoder = new Decoder($frame);
        $head = $decoder->number(4);
        $name = $decoder->bytes();
        if (($head & 0xffff_0000) !== self::VERSION) {
            throw new MalformedReply('no reply of Thrift\'s');
        }
        if ($decoder->number(4) !== $number) {
            throw new MalformedReply('a reply to another request');
        }
        $fields = $decoder->struct();
        if (!$decoder->atEnd()) {
            throw new MalformedReply('a reply that doesn\'t end with its frame');
        }
        if (($head & 0xff) === self::EXCEPTION) {
            throw StraitException::of(ErrorKind::Internal, "the gateway refuses $method: " . $fields->string(1));
        }
        if ($name !== $method) {
            throw new MalformedReply('a reply to another method');
        }
        return $fields;
    }

    private static function appendStruct(string &$frame, Fields $fields): void
    {
        foreach ($fields->all() as $id => [$type, $value]) {
            $frame .= pack('Cn', $type->value, $id);
            match ($type) {
                Type::Bool => $frame .= pack('C', $value),
                Type::I16 => $frame .= pack('n', $value),
                Type::I32 => $frame .= pack('N', $value),
                Type::I64 => $frame .= pack('J', $value),
                Type::Binary => self::appendBytes($frame, $value),
                Type::Struct => self::appendStruct($frame, $value),
                Type::List => self::appendStrings($frame, $value),
            };
        }
        $frame .= "\0";
    }

    private static function appendBytes(string &$frame, string $bytes): void
    {
        $frame .= pack('N', strlen($bytes));
        $frame .= $bytes;
    }

    /** No request has lists of anything else. */
    private static function appendStrings(string &$frame, array $strings): void
    {
        $frame .= pack('CN', Type::Binary->value, count($strings));
        foreach ($strings as $string) {
            self::appendBytes($frame, $string);
        }
    }
}

/** @internal Decodes a frame; it checks each length against what is left of the frame. */
final class Decoder
{
    private const MAX_DEPTH = 16;
    /** Without it, a frame of 16 MiB with empty structs would take a gigabyte. */
    private const MAX_VALUES = 1 << 20;

    private int $at = 0;
    private int $values = 0;

    public function __construct(private readonly string $frame) {}

    public function atEnd(): bool
    {
        return $this->at === strlen($this->frame);
    }

    /** A signed integer of this many bytes. */
    public function number(int $bytes): int
    {
        $at = $this->take($bytes);
        $value = match ($bytes) {
            1 => ord($this->frame[$at]),
            2 => unpack('n', $this->frame, $at)[1],
            4 => unpack('N', $this->frame, $at)[1],
            8 => unpack('J', $this->frame, $at)[1],
        };
        $unused = 64 - 8 * $bytes;
        return $value << $unused >> $unused;
    }

    public function bytes(): string
    {
        $length = $this->number(4);
        return substr($this->frame, $this->take($length), $length);
    }

    public function struct(int $depth = 0): Fields
    {
        $fields = new Fields();
        while (($kind = $this->number(1)) !== 0) {
            $type = $this->type($kind);
            $fields->put($this->number(2), $type, $this->value($type, $depth + 1));
        }
        return $fields;
    }

    private function value(Type $type, int $depth): int|string|array|Fields
    {
        if ($depth > self::MAX_DEPTH || ++$this->values > self::MAX_VALUES) {
            throw new MalformedReply('a reply that is too deep, or has too many values');
        }
        return match ($type) {
            Type::Bool, Type::Byte => $this->number(1),
            Type::I16 => $this->number(2),
            Type::I32 => $this->number(4),
            Type::Double, Type::I64 => $this->number(8),
            Type::Binary => $this->bytes(),
            Type::Struct => $this->struct($depth),
            Type::List, Type::Set => $this->items(1, $depth),
            // No message has maps: those of a newer gateway are skipped.
            Type::Map => $this->items(2, $depth),
        };
    }

    private function items(int $each, int $depth): array
    {
        $kinds = [];
        for ($one = 0; $one < $each; $one++) {
            $kinds[] = $this->number(1);
        }
        $count = $this->number(4);
        if ($count < 0) {
            throw new MalformedReply('a reply with a wrong length');
        }
        $items = []; // grows with the bytes: an item takes one at least
        for ($item = 0; $item < $count; $item++) {
            foreach ($kinds as $kind) {
                $items[] = $this->value($this->type($kind), $depth + 1);
            }
        }
        return $items;
    }

    private function type(int $kind): Type
    {
        return Type::tryFrom($kind) ?? throw new MalformedReply('a reply with a field of an unknown type');
    }

    private function take(int $length): int
    {
        if ($length < 0 || $length > strlen($this->frame) - $this->at) {
            throw new MalformedReply('a reply with a wrong length');
        }
        $this->at += $length;
        return $this->at - $length;
    }
}
