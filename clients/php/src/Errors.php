<?php

declare(strict_types=1);

namespace Strait;

/** The kind of an error; the same kinds in every client language, with the codes of idl/dfs.thrift. */
enum ErrorKind: int
{
    case NotFound = 1;
    case AlreadyExists = 2;
    case NotADirectory = 3;
    case IsADirectory = 4;
    case NotEmpty = 5;
    case PermissionDenied = 6;
    case Unauthenticated = 7;
    case InvalidArgument = 8;
    case Unsupported = 9;
    case Busy = 10;
    case NoSpace = 11;
    case TimedOut = 12;
    case Unavailable = 13;
    case Corrupt = 14;
    case OutcomeUnknown = 15;
    case Internal = 16;
}

/** Every failure of this library; each kind has a class of its own below. The code is the kind's number. */
abstract class StraitException extends \RuntimeException
{
    final private function __construct(
        public readonly ErrorKind $kind,
        string $message,
        /** The path that the error is about; null if it has none. */
        public readonly ?string $path,
        /** Repeating the same request can help, and can do no harm. */
        public readonly bool $retrySafe,
        ?\Throwable $previous,
    ) {
        parent::__construct($message, $kind->value, $previous);
    }

    /** @internal */
    public static function of(
        ErrorKind $kind,
        string $message,
        ?string $path = null,
        bool $retrySafe = false,
        ?\Throwable $previous = null,
    ): self {
        $isNamed = $path === null || $path === '' || str_contains($message, $path);
        $class = __NAMESPACE__ . "\\{$kind->name}Exception";
        return new $class($kind, $isNamed ? $message : "$path: $message", $path, $retrySafe, $previous);
    }
}

/** No file or directory at the path. */
final class NotFoundException extends StraitException {}

/** The path is taken. */
final class AlreadyExistsException extends StraitException {}

/** A directory was needed; the path, or a parent of it, is a file. */
final class NotADirectoryException extends StraitException {}

/** A file was needed; the path is a directory. */
final class IsADirectoryException extends StraitException {}

/** The directory has entries. */
final class NotEmptyException extends StraitException {}

/** The user may not do this. */
final class PermissionDeniedException extends StraitException {}

/** The gateway doesn't know the user, or either side rejects the other's certificate. */
final class UnauthenticatedException extends StraitException {}

/** The request itself is wrong: a path, an offset, the state of a file. */
final class InvalidArgumentException extends StraitException {}

/** The store has no such operation. */
final class UnsupportedException extends StraitException {}

/** Somebody else uses the file. */
final class BusyException extends StraitException {}

/** The store is full. */
final class NoSpaceException extends StraitException {}

/** No answer within the time allowed. */
final class TimedOutException extends StraitException {}

/** No gateway answers, or the gateway can't reach its store. */
final class UnavailableException extends StraitException {}

/** Stored bytes are damaged. */
final class CorruptException extends StraitException {}

/** The change may have been made, or not. */
final class OutcomeUnknownException extends StraitException {}

/** A fault of the gateway, or a kind that this version doesn't know. */
final class InternalException extends StraitException {}

/** @internal The connection broke. If sent, the request may have arrived. */
final class LostException extends \Exception
{
    public function __construct(string $message, public readonly bool $sent)
    {
        parent::__construct($message);
    }
}
